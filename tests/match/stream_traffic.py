"""Small worlds for running matches: drivers that cross borders, riders that ask, and the answer by definition."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from keylane.matching.brute import brute
from keylane.matching.tables import Kind

if TYPE_CHECKING:
    from pathlib import Path

#: Four cells of resolution 3 meet near here, and lanes of resolution 4 and 5 are small beside its roads.
LONDON = (51.5074, -0.1278)
BEGAN = 1_700_000_000_000_000
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class World:
    """Pings and requests in the order of arrival, and in which file of each side they are."""

    pings: pa.Table
    requests: pa.Table
    files: int

    def write(self, folder: Path, numbers: range | None = None) -> tuple[Path, Path]:
        """Files of both sides, or those of these numbers; ages in their order, so that Spark takes them so."""
        for side, table in (("drivers", self.pings), ("riders", self.requests)):
            (folder / side).mkdir(parents=True, exist_ok=True)
            for number in numbers or range(self.files):
                path = folder / side / f"{number:04d}.parquet"
                pq.write_table(table.filter(pa.array(table["file"].to_numpy() == number)).drop(["file"]), path)
                os.utime(path, (1e9 + number, 1e9 + number))
        return folder / "drivers", folder / "riders"

    def expected(self, radius: float, before: int, **more: Any) -> set[tuple[str, int, str, int]]:
        """The pairs of requests before a moment, by definition."""
        kind = np.where(self.pings["available"].to_numpy(zero_copy_only=False), Kind.AVAILABLE, Kind.UNAVAILABLE)
        entries = self.pings.rename_columns({"id": "driver"}).append_column("kind", pa.array(kind.astype(np.int8)))
        asked = self.requests.filter(pa.array(self.requests["ts"].cast(pa.int64()).to_numpy() < before))
        names = {"id": "rider"}
        found = brute(_placed(entries), _placed(asked.rename_columns(names)), radius, **more)
        return _keys(found, "rider", "rider_ts", "driver", "driver_ts")

    @property
    def watermark(self) -> int:
        """What the newest ping lets pass, with pings ten seconds late at most."""
        return int(self.pings["ts"].cast(pa.int64()).to_numpy().max()) - 10 * SECOND


def _placed(table: pa.Table) -> pa.Table:
    """With offsets in the order of arrival, and times as numbers."""
    at = table.column_names.index("ts")
    numbered = table.append_column("offset", pa.array(np.arange(len(table))))
    return numbered.set_column(at, "ts", table["ts"].cast(pa.int64()))


def _keys(table: pa.Table, *names: str) -> set[tuple[Any, ...]]:
    found = [tuple(row) for row in zip(*(table[name].to_pylist() for name in names), strict=True)]
    assert len(found) == len(set(found)), "a pair is there twice"
    return set(found)


def world(
    files: int = 4,
    drivers: int = 60,
    riders: int = 80,
    every: float = 4.0,
    seconds: float = 30.0,
    late: float = 6.0,
    seed: int = 7,
    speed: float = 60.0,
    *,
    jumps: bool = False,
) -> World:
    """Drivers that drive straight through London and ping every few seconds, some late, some twice, some unavailable.

    `seconds` is the time that a file spans; nothing is later than `late` seconds. Who `jumps` is anywhere with each
    ping: as where several drivers share an id.
    """
    rng = np.random.default_rng(seed)
    span = files * seconds
    count = int(span / every)
    who = np.repeat(np.arange(drivers), count)
    at = (np.tile(np.arange(count), drivers) + rng.random(len(who))) * every
    # Degrees a second of a car that is faster than any, so that borders are crossed within a test.
    heading = rng.random(drivers) * 2 * np.pi
    begin = rng.normal(0, 0.08, (drivers, 2))
    way = np.stack([np.sin(heading), np.cos(heading)], axis=1) * speed / 111_000
    place = rng.normal(0, 0.08, (len(who), 2)) if jumps else begin[who] + way[who] * at[:, None]
    arrives = at + rng.random(len(at)) * late
    pings = _table(who, "d", at, place, arrives, seconds, files).append_column(
        "available", pa.array(rng.random(len(who)) < 0.9)
    )
    twice = pings.slice(0, len(pings) // 20)
    asked = rng.random(riders) * span
    spot = rng.normal(0, 0.08, (riders, 2))
    requests = _table(np.arange(riders), "r", asked, spot, asked + rng.random(riders), seconds, files)
    return World(_arrived(pa.concat_tables([pings, twice])), _arrived(requests), files)


def _table(who: Any, letter: str, at: Any, place: Any, arrives: Any, seconds: float, files: int) -> pa.Table:
    number = np.minimum(arrives // seconds, files - 1).astype(int)
    ts = pa.array(BEGAN + (at * SECOND).astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))
    ids = pa.array([f"{letter}{one}" for one in who])
    lat, lng = LONDON[0] + place[:, 0], LONDON[1] + place[:, 1] * 1.6
    return pa.table({"id": ids, "ts": ts, "lat": lat, "lng": lng, "file": number, "arrives": arrives})


def _arrived(table: pa.Table) -> pa.Table:
    return table.sort_by([("file", "ascending"), ("arrives", "ascending")]).drop(["arrives"])


def matches(target: Path) -> set[tuple[Any, ...]]:
    """What is in the target."""
    folders = sorted((target / "matches").glob("batch=*"))
    tables = [ds.dataset(folder, format="parquet").to_table() for folder in folders]
    found = pa.concat_tables(tables)
    times = {name: found[name].cast(pa.int64()) for name in ("rider_ts", "driver_ts")}
    return _keys(
        pa.table({"rider": found["rider_id"], "driver": found["driver_id"], **times}),
        "rider",
        "rider_ts",
        "driver",
        "driver_ts",
    )

"""Small worlds of drivers and riders with everything in them that goes wrong, and their matches by brute force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from keylane.contract.parse import parse_contract
from keylane.matching.brute import brute

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from keylane.contract.model import Contract

#: Milliseconds.
NOON = 1_763_208_000_000
#: Cells of resolution 3 meet in Phoenix, lanes of fine cells anywhere; Taveuni lies on the antimeridian; the third is a
#: pentagon's surroundings, the last the north pole's.
TOWNS = [(33.45, -112.07, 0.06), (-16.85, 179.99, 0.06), (39.10, 122.30, 0.04), (89.99, 10.0, 0.004)]
DRIVERS, PINGS, RIDERS = 240, 2400, 160
PLACE = ("lat", "lng")


def geo_contract(lanes: int = 8, resolution: int = 5, name: str = "geo", fields: Sequence[str] = PLACE) -> Contract:
    """Lanes by the hash of small cells: every town is torn apart."""
    spec = {
        "streams": ["driver-locations", "rider-requests"],
        "lanes": lanes,
        "key": {"fields": list(fields), "encoding": "place"},
        "partitioner": "kafka-java",
        "geo": {"resolution": resolution},
    }
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": name}, "spec": spec}
    return parse_contract(yaml.safe_dump(document))


def _places(rng: np.random.Generator, towns: Any) -> tuple[Any, Any]:
    lat0, lng0, wide = np.array(TOWNS)[towns].T
    lat = np.clip(lat0 + rng.normal(0, wide), -90, 90)
    spread = np.where(lat0 > 89, 60.0, wide)
    lng = (lng0 + rng.normal(0, spread) + 180) % 360 - 180
    return lat, lng


def pings(seed: int = 7) -> pa.Table:
    """Drivers that jump about their town, are busy now and then, and ping twice at one moment; in no order."""
    rng = np.random.default_rng(seed)
    driver = rng.integers(0, DRIVERS, PINGS)
    lat, lng = _places(rng, driver % len(TOWNS))
    ts = NOON + rng.integers(0, 600, PINGS) * 1000
    again = rng.integers(0, PINGS, 60)
    driver[again[:30]], ts[again[:30]] = driver[again[30:]], ts[again[30:]]
    ids = [f"d{n}" for n in driver]
    return pa.table({"id": ids, "ts": ts, "lat": lat, "lng": lng, "available": rng.random(PINGS) < 0.85})


def requests(seed: int = 8) -> pa.Table:
    """Riders; some send their request twice, from two places."""
    rng = np.random.default_rng(seed)
    rider = np.arange(RIDERS)
    ts = NOON + rng.integers(0, 650, RIDERS) * 1000
    lat, lng = _places(rng, rider % len(TOWNS))
    table = pa.table({"id": [f"r{n}" for n in rider], "ts": ts, "lat": lat, "lng": lng})
    moved = _places(rng, rider[:20] % len(TOWNS))
    twice = pa.table({"id": table["id"][:20], "ts": table["ts"][:20], "lat": moved[0], "lng": moved[1]})
    return pa.concat_tables([table, twice])


def routed(folder: Path) -> tuple[pa.Table, Any]:
    """The records of a routed folder, and their order among those of one time: by offset, then by lane."""
    tables = [
        (int(file.parent.name.partition("=")[2]), pq.ParquetFile(file).read())
        for file in sorted(folder.glob("stream=*/lane=*/*"))
    ]
    offsets = [table["keylane_offset"].to_numpy() << 17 | lane for lane, table in tables]
    return pa.concat_tables([table for _, table in tables]), np.concatenate(offsets)


def expected(
    drivers: pa.Table,
    riders: pa.Table,
    radius: float,
    expire: float | None = None,
    nearest: int | None = None,
    offsets: tuple[Any, Any] = (None, None),
) -> set[tuple[str, int, str]]:
    """(rider, milliseconds, driver) of every pair, by the plain definition; later rows are newer, or as offsets say."""
    kind = np.where(drivers["available"].to_numpy(), 2, 1).astype(np.int8)
    known = _as(drivers, "driver", offsets[0]).append_column("kind", pa.array(kind))
    micros = None if expire is None else round(expire * 1_000_000)
    found = brute(known, _as(riders, "rider", offsets[1]), radius, micros, nearest)
    return {(row["rider"], row["rider_ts"] // 1000, row["driver"]) for row in found.to_pylist()}


def _as(table: pa.Table, who: str, offsets: Any) -> pa.Table:
    return pa.table(
        {
            who: table["id"],
            "ts": pa.array(table["ts"].to_numpy() * 1000),
            "offset": np.arange(len(table)) if offsets is None else offsets,
            "lat": table["lat"],
            "lng": table["lng"],
        }
    )


def found_in(folder: Path) -> list[tuple[str, int, str]]:
    """What a match has written, as `expected` has it; a list, for a pair may be there twice."""
    rows = pq.read_table(folder / "matches").to_pylist()
    return [(row["rider_id"], round(row["rider_ts"].timestamp() * 1000), row["driver_id"]) for row in rows]


def write(folder: Path, table: pa.Table, parts: int = 2) -> Path:
    """A folder of Parquet: the rows in so many files, in order."""
    folder.mkdir(parents=True)
    size = -(-len(table) // parts)
    for n in range(parts):
        pq.write_table(table.slice(n * size, size), folder / f"part-{n}.parquet")
    return folder

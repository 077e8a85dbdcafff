"""One profile, two engines: what is counted in this process is what Spark counts, to the last record."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.errors import DataError
from keylane.pipelines.geo_table import TableWish, geo_table
from keylane.pipelines.profile import Options, profile
from keylane.profile import count
from keylane.profile.document import overview
from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.profile.model import Profile

BEGIN = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
#: Each is a key of its own, and many look like another.
TEXTS = [
    "acme",
    "ACME",
    " acme",
    "caf\u00e9",
    "cafe\u0301",
    "",
    None,
    "a,b",
    'a"b',
    "a;b",
    "00042",
    "42",
    "x" * 300,
    "\u2603",
]


@dataclass(frozen=True)
class Case:
    """A source, and how it is profiled."""

    write: Callable[[Path], None]
    key: tuple[str, ...] = ("k",)
    encoding: Any = "utf8"
    place: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)


def rows(count: int = 900, seed: int = 1) -> list[dict[str, Any]]:
    """Records with odd keys, times that are missing or strange, and lengths."""
    random = Random(seed)
    return [
        {
            "k": random.choice(TEXTS) if random.random() < 0.6 else f"key-{int(random.paretovariate(1))}",
            "n": random.choice([None, *range(-3, 4), 2**40]),
            "at": None if random.random() < 0.05 else BEGIN + timedelta(seconds=random.random() * 1e6),
            "size": random.choice([None, 0, 7, 1000]),
            "lane": random.randrange(5),
            "lat": random.choice([None, 0.0, 91.0, -112.1, 33.4484, 40.7, -0.0])
            if random.random() < 0.3
            else random.uniform(-90, 90),
            "lng": random.choice([None, 0.0, 33.4, 200.0, -74.0])
            if random.random() < 0.3
            else random.uniform(-180, 180),
        }
        for _ in range(count)
    ]


def parquet(folder: Path) -> None:
    """Two files of other shapes: times with a zone, keys in a dictionary, many row groups."""
    some = rows()
    table = pa.Table.from_pylist(some[:400]).set_column(
        2, "at", pa.array([r["at"] for r in some[:400]], pa.timestamp("us", "UTC"))
    )
    pq.write_table(table.set_column(1, "n", table["n"].cast(pa.int64())), folder / "b.parquet")
    more = pa.Table.from_pylist(some[400:]).set_column(
        2, "at", pa.array([r["at"] for r in some[400:]], pa.timestamp("us", "UTC"))
    )
    pq.write_table(more.set_column(0, "k", more["k"].dictionary_encode()), folder / "a.parquet", row_group_size=100)


def paths(folder: Path) -> None:
    for shop in ("x", "y%2Fz", "__HIVE_DEFAULT_PARTITION__"):
        (folder / f"shop={shop}").mkdir()
        pq.write_table(
            pa.table({"payload": [{"id": n % 3, "day": date(2026, 1, 1 + n % 9)} for n in range(40)]}),
            folder / f"shop={shop}" / "a.parquet",
        )


def jsonl(folder: Path) -> None:
    text = [json.dumps({k: str(v) if isinstance(v, datetime) else v for k, v in row.items()}) for row in rows()]
    odd = [
        "broken",
        "",
        "   ",
        '{"k": 1.5}',
        '{"k": 12, "at": 1763195400000}',
        "[]",
        '{"k": "a"} {"k": "b"}',
        '{"other": 1}',
        '{"k": {"x": 1}}',
        '{"k": "N", "size": "12"}',
    ]
    (folder / "a.jsonl").write_text("\n".join(text[:500] + odd))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\r\n".join(odd + text[500:]).encode()))


def csv(folder: Path, sign: str = ",") -> None:
    def cell(value: Any) -> str:
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if sign in text or '"' in text else text

    names = list(rows(1)[0])
    lines = [sign.join(cell(row[name]) for name in names) for row in rows()]
    odd = [
        "",
        "  ",
        "too,few",
        'open "quote',
        sign.join(['"x" '] + ["1"] * 6),
        sign.join(['5" pipe"'] + ["2"] * 6),
        sign.join(["NULL"] + ["+3"] * 6),
    ]
    odd += [sign.join(['"x"y'] + ["2"] * 6), sign.join(["z", "9" * 30, "2026-11-15", *"1234"])]
    (folder / "a.csv").write_text("\ufeff" + "\n".join([sign.join(names), *lines[:500], *odd]))
    turned = [sign.join(reversed([cell(row[name]) for name in names])) for row in rows()[500:]]
    (folder / "b.csv").write_bytes("\r\n".join([sign.join(reversed(names)), *turned]).encode() + b"\r\nk\xff,,,,,,\r\n")


def times(folder: Path) -> None:
    texts = [
        "2026-11-15",
        "2026-11-15 08:30",
        "2026-11-15T08:30:00.123456789+01:00",
        "1969-12-31 23:59:59.9999999",
        "0000-03-01 00:00:00",
    ]
    texts += [
        "2026-11-15 08:30:00 UTC",
        "2026-11-15 08:30:00+0530",
        "2026-02-30",
        "24:00",
        "2026-11-15 24:00:00",
        " 2026-11-15 ",
        "",
        "soon",
    ]
    pq.write_table(pa.table({"k": [f"k{n % 7}" for n in range(len(texts) * 3)], "at": texts * 3}), folder / "a.parquet")


def numbers(folder: Path, factor: int = 1_000) -> None:
    stamps = [None if n % 11 == 0 else 1_763_195_400 * factor + n * factor * 3600 for n in range(300)]
    stamps[5] = 0
    pq.write_table(pa.table({"k": [f"k{n % 7}" for n in range(300)], "at": stamps}), folder / "a.parquet")


def nanoseconds(folder: Path) -> None:
    """As pandas writes times, and one more column of them that nobody asks for."""
    stamps = pa.array([None if n % 9 == 0 else 1_763_195_400_000_000_001 + n * 10**12 for n in range(200)])
    table = {
        "k": [f"k{n % 7}" for n in range(200)],
        "at": stamps.cast(pa.timestamp("ns")),
        "x": stamps.cast(pa.timestamp("ns", "UTC")),
    }
    pq.write_table(pa.table(table), folder / "a.parquet")


def bytes_of_keys(folder: Path) -> None:
    keys = [b"\x00\x00\x00\x00\x01a", b"\x00\x00\x00\x00\x02a", b"a", b"", None, b"\xff\xfe", b"\x00abc"]
    uuid = ["0A0B0C0D-0000-4000-8000-00000000000F", "0a0b0c0d-0000-4000-8000-00000000000f", "no", None]
    table = {"k": [keys[n % 7] for n in range(200)], "u": [uuid[n % 4] for n in range(200)]}
    table["size"] = [None if n % 13 == 0 else bytes(n % 5) for n in range(200)]
    table["c"] = [None if n % 17 == 0 else ("089283082803ffff", "89283082803FFFF", "x")[n % 3] for n in range(200)]
    pq.write_table(pa.table(table), folder / "a.parquet")


def unread_keys(folder: Path) -> None:
    """Lines whose time, size and lane can be read, and whose key cannot."""
    keys: list[Any] = ["a", 1, None, True, 1.5, {"x": 1}, [1]]
    lines = [{"k": keys[n % 7], "at": 1_794_821_400 + n, "size": n, "lane": n % 5} for n in range(200)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))


def far_times(folder: Path) -> None:
    """Times of year 10000, and beyond what windows are cut by, among some of today."""
    stamps = [253_402_300_800_000_000 + n if n % 3 else 1_794_821_400_000_000 for n in range(90)]
    stamps[5], stamps[8] = 2**63 - 1, -(2**63) + 1
    keys = [f"k{n % 7}" for n in range(90)]
    pq.write_table(pa.table({"k": keys, "at": pa.array(stamps).cast(pa.timestamp("us"))}), folder / "a.parquet")


TIMED = Options(time="at", size="size", windows=7)
CASES = {
    "parquet": Case(parquet, ("k", "n"), options=TIMED),
    "parquet by position, with a lane": Case(parquet, options=Options(windows=9, lane="lane")),
    "columns in paths and in columns": Case(paths, ("shop", "payload.id"), options=Options(time="payload.day")),
    "lines of JSON": Case(jsonl, options=TIMED),
    "lines of JSON by position": Case(jsonl, ("k", "n"), ("utf8", "int64be"), options=Options(windows=5)),
    "cells": Case(csv, options=replace(TIMED, lane="lane")),
    "cells by position, numbers and nulls": Case(
        csv, ("n",), "int64be", options=Options(kafka=StreamOptions(csv_null=("", "NULL")))
    ),
    "cells between semicolons": Case(
        partial(csv, sign=";"),
        options=Options(time="at", kafka=StreamOptions(delimiter=";", csv_null=("NULL",))),
    ),
    "keys that cannot be read": Case(unread_keys, options=replace(TIMED, lane="lane")),
    "far times": Case(far_times, options=Options(time="at", windows=5)),
    "times as text": Case(times, options=Options(time="at", windows=10)),
    "whole numbers": Case(numbers, options=Options(time="at")),
    "nanoseconds": Case(nanoseconds, options=Options(time="at", windows=5)),
    "bytes": Case(bytes_of_keys, encoding="raw", options=Options(size="size")),
    "uuids and cells": Case(bytes_of_keys, ("u", "c"), ("uuid", "h3")),
    "places": Case(csv, (), place=("lat", "lng"), options=Options(time="at")),
}
#: What runs every time: the cases that between them have every reader, key, time and reason.
FEW = ("parquet", "nanoseconds", "lines of JSON", "cells", "keys that cannot be read", "times as text", "bytes")


def made(case: Case, source: Path, options: Options, spark: SparkSession | None) -> Profile:
    return profile(
        str(source),
        case.key if not case.place else (),
        place=case.place,
        encoding=case.encoding,
        options=options,
        spark=spark,
    )


def document(found: Profile) -> dict[str, Any]:
    return overview(found, salt=b"same").as_json()


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in FEW else pytest.mark.faults) for one in CASES])
def test_both_engines_give_one_document(name: str, spark: SparkSession, tmp_path: Path) -> None:
    case = CASES[name]
    case.write(tmp_path)
    here = made(case, tmp_path, replace(case.options, engine="local"), None)
    there = made(case, tmp_path, case.options, spark)
    assert document(here) == document(there)
    assert here.keys.to_pylist() == there.keys.to_pylist()
    assert (here.by_window == there.by_window).all()


@pytest.mark.parametrize("none", [None, ""], ids=["null", "an empty cell"])
def test_both_engines_count_a_record_without_a_lane_as_unread(
    none: str | None, spark: SparkSession, tmp_path: Path
) -> None:
    lanes: list[Any] = [0, 1, None] if none is None else ["0", "1", ""]
    pq.write_table(pa.table({"k": ["a", "b", "c"], "lane": lanes}), tmp_path / "a.parquet")
    here, there = (
        profile(str(tmp_path), ["k"], options=Options(lane="lane"), spark=session) for session in (None, spark)
    )
    assert document(here) == document(there)
    assert here.without_key.malformed == 1


@pytest.mark.parametrize("lane", [-1, 2**31, "x", "1.0"])
def test_both_engines_refuse_what_is_no_lane(lane: Any, spark: SparkSession, tmp_path: Path) -> None:
    lanes = [0, 1, lane] if isinstance(lane, int) else ["0", "1", lane]
    pq.write_table(pa.table({"k": ["a", "b", "c"], "lane": lanes}), tmp_path / "a.parquet")
    for session in (None, spark):
        with pytest.raises(DataError, match=f"^column 'lane' holds no lane: got {lane!r}; allowed: 0 to 999999$"):
            profile(str(tmp_path), ["k"], options=Options(lane="lane"), spark=session)


ODD_TIMES = [BEGIN.replace(tzinfo=None) + timedelta(seconds=n) for n in range(60)]


def test_both_engines_read_times_of_96_bits_and_ignore_columns_that_nobody_asks_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    keys = pa.array([f"key-{n % 7}" for n in range(60)])
    odd = pa.array([time(1, 2, 3)] * 60, pa.time64("ns")), pa.array([Decimal(1)] * 60, pa.decimal256(60, 2))
    table = pa.table({"k": keys, "at": pa.array(ODD_TIMES, pa.timestamp("ns")), "time": odd[0], "large": odd[1]})
    for name, old in (("a", True), ("b", False)):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "a.parquet", use_deprecated_int96_timestamps=old)
        asked = Options(time="at")
        here, there = (profile(str(tmp_path / name), ["k"], options=asked, spark=one) for one in (None, spark))
        assert document(here) == document(there)
    for wanted in ("time", "large"):
        with pytest.raises(DataError, match=rf"Spark cannot read column '{wanted}': got '.*hint: choose another"):
            profile(str(tmp_path / "b"), [wanted], spark=spark)


def test_spark_names_an_unsigned_column_its_type_and_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([1, 2, 3], pa.uint64()), "n": [1, 2, 3]}), tmp_path / "a.parquet")
    assert profile(str(tmp_path), ["k"]).keys.num_rows == 3
    assert profile(str(tmp_path), ["n"], spark=spark).keys.num_rows == 3
    with pytest.raises(DataError, match="Spark cannot read column 'k': got 'uint64'; hint: --engine local reads it"):
        profile(str(tmp_path), ["k"], spark=spark)


def test_a_window_that_is_off_by_one_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: had the engine here another rule for windows, the comparison would show it."""
    case = CASES["parquet"]
    case.write(tmp_path)
    options = replace(case.options, engine="local")
    right = document(made(case, tmp_path, options, None))
    planted = count.window_numbers
    monkeypatch.setattr("keylane.profile.scan.window_numbers", lambda at, windows: planted(at + 1_000_000_000, windows))
    assert document(made(case, tmp_path, options, None)) != right


def test_both_engines_give_one_table(spark: SparkSession, tmp_path: Path) -> None:
    csv(tmp_path)
    wish = TableWish(lanes=3)
    here = geo_table(str(tmp_path), wish=wish, options=Options(time="at", engine="local"))
    there = geo_table(str(tmp_path), wish=wish, options=Options(time="at"), spark=spark)
    assert here.document.as_json() == there.document.as_json()
    assert here.contract == there.contract


def test_both_engines_divide_by_a_scale(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(3)
    places = [(random.randint(-900_000, 900_000), random.randint(-1_800_000, 1_800_000)) for _ in range(500)]
    places += [(33, -112), (0, 0), (2_000_000, 5), (-1_120_740, 334_484)]
    for folder in ("whole", "far"):
        (tmp_path / folder).mkdir()
    columns = {name: [place[at] for place in places] for at, name in enumerate(("lat", "lng"))}
    pq.write_table(pa.table(columns), tmp_path / "whole" / "a.parquet")
    source, given = str(tmp_path / "whole"), Options(scale=1e4, engine="local")
    here = geo_table(source, wish=TableWish(lanes=3), options=given)
    there = geo_table(source, wish=TableWish(lanes=3), options=replace(given, engine="auto"), spark=spark)
    assert (here.document.as_json(), here.contract) == (there.document.as_json(), there.contract)
    assert {"place-unscaled", "place-zero"} < set(here.document.dead)
    counted = [
        profile(source, place=("lat", "lng"), options=Options(scale=1e4), spark=session) for session in (None, spark)
    ]
    assert document(counted[0]) == document(counted[1])
    assert counted[0].known["scale"] == 1e4
    pq.write_table(pa.table({"lat": [407_637] * 9, "lng": [-739_800] * 9}), tmp_path / "far" / "a.parquet")
    for session in (None, spark):
        for ask in (partial(geo_table, wish=TableWish(lanes=3)), partial(profile, place=("lat", "lng"))):
            with pytest.raises(DataError, match=r"as 407637, -739800.*a scale of 10000 makes it 40.7637, -73.98"):
                ask(str(tmp_path / "far"), spark=session)

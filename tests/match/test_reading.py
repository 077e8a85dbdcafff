"""Raw records become pings and requests, or dead letters with their reason; nothing is lost and nothing is guessed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.errors import DataError, UnknownNameError, UsageError
from keylane.geo.cells import cell_of
from keylane.geo.coordinates import Region
from keylane.pipelines.match.options import Columns, Options
from keylane.pipelines.match.records import as_pings, as_requests, noted_unit
from keylane.pipelines.match.sources import MatchSource, find, opened, raw_messages
from keylane.systems.endpoint import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    Read = Callable[..., tuple[list[Any], list[Any]]]

GOOD = {"id": "d1", "ts": 1_763_208_000_123, "lat": 33.4, "lng": -112.1}


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    own.conf.set("spark.sql.json.enablePartialResults", "false")
    return own


@pytest.fixture
def raw(session: SparkSession) -> Callable[..., DataFrame]:
    def raw(path: Path, columns: Columns | None = None, side: str = "drivers") -> DataFrame:
        given = Options(1000.0)
        return opened(session, find(side, str(path), columns or Columns(), given), given)[0]

    return raw


@pytest.fixture
def read(raw: Callable[..., DataFrame]) -> Read:
    def read(path: Path, columns: Columns | None = None, region: Region | None = None) -> tuple[list[Any], list[Any]]:
        more = () if region is None else (region,)
        good, dead = as_pings(raw(path, columns), columns or Columns(), *more)
        return good.sort("offset").collect(), dead.sort("source").collect()

    return read


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_a_ping_has_its_time_in_microseconds_and_its_home_cell(read: Read, tmp_path: Path) -> None:
    ((ping,), dead) = read(lines(tmp_path / "a.jsonl", {**GOOD, "available": False}))
    assert dead == []
    assert ping.asDict() == {
        "driver": "d1",
        "ts": 1_763_208_000_123_000,
        "offset": 0,
        "lat": 33.4,
        "lng": -112.1,
        "available": False,
        "cell": cell_of(33.4, -112.1),
    }


def test_every_bad_line_is_a_dead_letter_with_its_reason_and_as_it_was(read: Read, tmp_path: Path) -> None:
    bad = {
        "null-key": {**GOOD, "id": None},
        "empty-key": {**GOOD, "id": ""},
        "missing-field": {**GOOD, "ts": None},
        "malformed-record": {**GOOD, "ts": "soon"},
        "null-place": {**GOOD, "lat": None},
        "place-swapped": {**GOOD, "lat": -112.1, "lng": 33.4},
        "place-out-of-range": {**GOOD, "lat": 91.0, "lng": 200.0},
        "place-zero": {**GOOD, "lat": 0, "lng": 0},
    }
    path = lines(tmp_path / "a.jsonl", *bad.values(), '{"id": "d1", "ts"', {**GOOD, "lat": "33.4"}, GOOD)
    good, dead = read(path)
    assert [row.driver for row in good] == ["d1"]
    assert [row.reason for row in sorted(dead, key=lambda row: int(row.source.rpartition("/")[2]))] == [
        *bad,
        "malformed-record",
        "malformed-record",
    ]
    assert json.loads(dead[0].original) == bad["null-key"]
    assert {row.source for row in dead} == {f"a.jsonl/{n}" for n in range(10)}
    assert {row.side for row in dead} == {"drivers"}


def test_csv_has_its_columns_by_name_and_says_who_is_available(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("lng,lat,who,when,free\n-112.1,33.4,007,2026-11-15T12:00:00Z,true\n,33.4,8,2026-11-15,false\n")
    columns = Columns(id="who", time="when", available="free")
    good, dead = read(path, columns)
    assert [(row.driver, row.ts, row.available) for row in good] == [("007", 1_794_744_000_000_000, True)]
    assert [(row.reason, row.original) for row in dead] == [("null-place", ",33.4,8,2026-11-15,false")]


def test_parquet_may_have_other_types_that_mean_the_same(read: Read, tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([7, None], pa.int32()),
            "ts": pa.array([1_763_208_000, 1_763_208_000], pa.int64()),
            "lat": pa.array([Decimal("33.40"), Decimal("33.40")]),
            "lng": pa.array([-112.0, -112.0], pa.float32()),
            "note": ["kept in a dead letter", "kept in a dead letter"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    good, dead = read(tmp_path / "a.parquet", Columns(time="ts:s"))
    assert [(row.driver, row.ts, row.lat, row.lng, row.available) for row in good] == [
        ("7", 1_763_208_000_000_000, 33.4, -112.0, True)
    ]
    assert [row.reason for row in dead] == ["null-key"]
    assert json.loads(dead[0].original)["note"] == "kept in a dead letter"


@pytest.mark.parametrize("written", [1_763_208_000, 1_763_208_000_000, "1763208000.0", "2025-11-15T12:00:00Z"])
def test_a_time_is_what_its_size_says(written: Any, read: Read, tmp_path: Path) -> None:
    good, dead = read(lines(tmp_path / "a.jsonl", {**GOOD, "ts": written}, {**GOOD, "ts": "12:00"}))
    assert ([row.ts for row in good], [row.reason for row in dead]) == ([1_763_208_000_000_000], ["malformed-record"])


def test_times_of_several_units_are_refused_and_one_is_named(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{**GOOD, "ts": 1_763_208_000 + at} for at in range(50)]
    given = Options(1000.0)

    def raw(path: Path) -> Any:
        return opened(spark, find("drivers", str(path), Columns(), given), given)[0]

    assert "seconds" in noted_unit(raw(lines(tmp_path / "a.jsonl", *rows)), Columns(), "drivers")
    mixed = lines(tmp_path / "b.jsonl", *rows, *({**one, "ts": one["ts"] * 1000} for one in rows))
    with pytest.raises(UsageError, match="several units"):
        noted_unit(raw(mixed), Columns(), "drivers")
    assert noted_unit(raw(mixed), Columns(time="ts:ms"), "drivers") == ""


def test_a_place_outside_of_the_contracts_region_is_dead(read: Read, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", GOOD, {**GOOD, "lat": 48.1, "lng": 11.6})
    good, dead = read(path, None, Region(30, -120, 40, -100))
    assert (len(good), [row.reason for row in dead]) == (1, ["place-out-of-range"])


def test_whole_numbers_become_degrees_by_their_scale(read: Read, tmp_path: Path) -> None:
    whole = {**GOOD, "lat": 334_000_000, "lng": -1_121_000_000}
    path = lines(tmp_path / "a.jsonl", whole, GOOD, {**whole, "lat": 3_340_000_000})
    good, dead = read(path, None, Region(scale=1e7))
    assert [(row.lat, row.lng, row.cell) for row in good] == [(33.4, -112.1, cell_of(33.4, -112.1))]
    assert [row.reason for row in dead] == ["place-unscaled", "place-out-of-range"]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("id", pa.array([1.5]), "got 'double'; allowed: text, whole numbers"),
        ("lat", pa.array(["33.4"]), "got 'string'; allowed: numbers"),
        ("ts", pa.array([True]), "column 'ts'"),
        ("available", pa.array([1]), "got 'bigint'"),
    ],
)
def test_a_column_of_another_type_is_refused(
    column: str, values: pa.Array, message: str, read: Read, tmp_path: Path
) -> None:
    table = pa.table({**{name: [value] for name, value in GOOD.items()}, column: values})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.parquet")


def test_a_column_that_is_missing_is_named_with_what_there_is(read: Read, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["d"], "ts": [1], "latt": [1.0], "lng": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(UnknownNameError, match="got 'lat'; allowed: id, ts, latt, lng"):
        read(tmp_path / "a.parquet")


def test_a_request_needs_no_word_on_availability(raw: Callable[..., DataFrame], tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", GOOD, {**GOOD, "available": "soon"}, {**GOOD, "id": None})
    good, dead = as_requests(raw(path, side="riders"), Columns())
    assert good.columns == ["rider", "ts", "offset", "lat", "lng", "cell"]
    assert good.count() == 2, "a field that means nothing to a request does not spoil it"
    assert [row.side for row in dead.collect()] == ["riders"]


def test_rows_of_a_later_file_come_later(read: Read, tmp_path: Path) -> None:
    for name, driver in (("b", "later"), ("a", "first")):
        lines(tmp_path / f"{name}.jsonl", {**GOOD, "id": driver})
    good, _ = read(tmp_path)
    assert [row.driver for row in good] == ["first", "later"]


def test_a_source_that_is_not_there_or_empty_is_refused(read: Read, tmp_path: Path, bare: str) -> None:
    with pytest.raises(DataError, match="no such source"):
        read(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="is not clear"):
        read(tmp_path / "empty")
    with pytest.raises(UsageError, match=r"nothing was contacted.*bare:"):
        find("drivers", bare, Columns(), Options(1000.0))


def test_the_key_of_a_message_may_be_the_id_and_its_timestamp_the_time(session: SparkSession) -> None:
    kinds = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    at = datetime(2025, 11, 15, 12, tzinfo=UTC)
    value = b'{"lat": 33.4, "lng": -112.1}'
    messages = [(bytearray(b"d1"), value, "t", 3, 5, at), (bytearray(b"\xff"), value, "t", 3, 6, at)]
    columns = Columns(id="key", time="timestamp")
    side = MatchSource("drivers", parse_address("kafka://b:1/t"), columns)
    good, dead = as_pings(raw_messages(session.createDataFrame(messages, kinds), side, Options(1000.0)), columns)
    (found,) = good.collect()
    assert (found["driver"], found["ts"]) == ("d1", int(at.timestamp()) * 1_000_000)
    assert [(row["source"], row["reason"]) for row in dead.collect()] == [("t/3/6", "null-key")]


def test_times_in_nanoseconds_are_read_and_none_is_cut(read: Read, tmp_path: Path) -> None:
    nanos = 1_763_208_000_000_001_000
    at = pa.array([nanos, nanos + 1], pa.timestamp("ns", tz="UTC"))
    columns = {"id": ["d1", "d2"], "ts": at, "lat": [33.4, 33.4], "lng": [-112.1, -112.1]}
    pq.write_table(pa.table(columns), tmp_path / "nanos.parquet")
    ((found,), (letter,)) = read(tmp_path / "nanos.parquet")
    assert (found["driver"], found["ts"]) == ("d1", nanos // 1_000)
    assert letter["reason"] == "malformed-record"
    assert json.loads(letter["original"])["ts"] == "2025-11-15T12:00:00.000001001Z"

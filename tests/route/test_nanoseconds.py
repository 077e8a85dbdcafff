"""Parquet as pandas writes it, with times in nanoseconds: `route`, `match` and `verify` take it, and cut nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.route.killable_routes import contract
from tests.route.routed_records import counts, letters, records

from keylane.pipelines.route import route
from keylane.pipelines.verify import verify
from keylane.spark import read_parquet

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

#: 2026-11-16T09:30:00.123456Z, in nanoseconds.
AT = 1_794_821_400_123_456_000
ZONED, PLAIN = pa.timestamp("ns", "UTC"), pa.timestamp("ns")


def written(path: Path, nanos: list[int | None], *, kind: pa.DataType = ZONED) -> None:
    """A file with a time at the top of its records, and inside them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    times = pa.array(nanos, kind)
    inside = pa.array([{"at": [at]} if at is not None else None for at in nanos], pa.struct([("at", pa.list_(kind))]))
    keys = [f"key-{n}" for n in range(len(nanos))]
    pq.write_table(pa.table({"k": keys, "at": times, "inside": inside}), path)


def test_times_in_nanoseconds_are_routed_as_times(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    written(source / "day=1" / "a.parquet", [AT, None, -1_000])
    micros = pa.table({"k": ["key-us"], "at": pa.array([5], pa.timestamp("us", "UTC"))})
    pq.write_table(micros, source / "b.parquet")
    found = route(contract(), str(source), str(target), spark=spark)
    assert counts(found) == (4, 4, 0, 0)
    by_key = {row["k"]: row for row in records(target)}
    assert by_key["key-0"]["at"] == datetime(2026, 11, 16, 9, 30, 0, 123456, UTC)
    assert by_key["key-0"]["inside"] == {"at": [datetime(2026, 11, 16, 9, 30, 0, 123456, UTC)]}
    assert (by_key["key-1"]["at"], by_key["key-1"]["inside"]) == (None, None)
    assert by_key["key-2"]["at"] == datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    assert by_key["key-us"]["at"] == datetime(1970, 1, 1, 0, 0, 0, 5, UTC)
    assert verify(str(source), str(target), contract()).ok


def test_a_time_without_a_zone_stays_one(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path / "in.parquet", [AT], kind=PLAIN)
    assert counts(route(contract(), str(tmp_path / "in.parquet"), str(tmp_path / "out"), spark=spark)) == (1, 1, 0, 0)
    assert records(tmp_path / "out")[0]["at"] == datetime(2026, 11, 16, 9, 30, 0, 123456)  # noqa: DTZ001  none


def test_a_time_that_microseconds_cannot_hold_is_a_dead_letter_with_all_its_digits(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    written(source / "day=1" / "a.parquet", [AT, AT + 1])
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (2, 1, 1, 0)
    ((_, letter),) = letters(target).items()
    assert letter["reason"] == "malformed-record"
    text = "2026-11-16T09:30:00.123456001Z"
    assert json.loads(letter["original"]) == {"k": "key-1", "at": text, "inside": {"at": [text]}, "day": "1"}
    assert text in letter["message"]
    assert verify(str(source), str(target), contract()).ok


@pytest.mark.parametrize(
    ("finer", "rule"),
    [
        pytest.param(False, "changed", id="a time is cut"),
        pytest.param(True, "misrouted", id="a time that fits is refused", marks=pytest.mark.faults),
    ],
)
def test_a_route_that_gets_it_wrong_is_found(
    finer: bool, rule: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out"
    written(source, [AT, AT + 1])
    monkeypatch.setattr(read_parquet, "is_finer", lambda *_: F.lit(finer))
    route(contract(), str(source), str(target), spark=spark)
    found = verify(str(source), str(target), contract())
    assert {name for name, number in found.verdict.counts.items() if number} == {rule}

"""The files that a Python worker writes: one for each lane, numbered, in row groups; and which types it may write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

from keylane.spark import small_lanes
from keylane.spark.small_lanes import has_known_types, lane_files

if TYPE_CHECKING:
    from pathlib import Path


def _batch(*slots: int, first: int = 0) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + len(slots)), pa.int64())
    files = pa.array(["a"] * len(slots), pa.string())
    source = pa.StructArray.from_arrays([files, numbers], names=["file", "row"])
    columns = {"n": numbers, "keylane_source": source, "keylane_slot": pa.array(slots, pa.int32())}
    return pa.RecordBatch.from_pydict(columns)


def _written(folder: Path, batches: list[pa.RecordBatch], firsts: list[int]) -> dict[int, Path]:
    reports = list(lane_files(folder, firsts, "{}")(iter(batches)))
    return {row["slot"]: folder / row["name"] for report in reports for row in report.to_pylist()}


def test_a_lane_goes_on_over_batches_and_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_lanes, "_ROWS", 2)
    batches = [_batch(0, 0, 2), _batch(2, 2, first=3), _batch(), _batch(2, 5, first=5)]
    found = _written(tmp_path / "lanes", batches, [10, 0, 100, 0, 0, 7])
    tables = {slot: pq.read_table(path) for slot, path in found.items()}
    assert {slot: table["n"].to_pylist() for slot, table in tables.items()} == {0: [0, 1], 2: [2, 3, 4, 5], 5: [6]}
    assert {slot: table["keylane_offset"].to_pylist() for slot, table in tables.items()} == {
        0: [10, 11],
        2: [100, 101, 102, 103],
        5: [7],
    }
    assert tables[2].schema.names == ["n", "keylane_offset", "keylane_source"]
    assert pq.read_metadata(found[2]).num_row_groups == 2


def test_nothing_comes_of_no_rows(tmp_path: Path) -> None:
    assert _written(tmp_path / "lanes", [], [0]) == {}
    assert not (tmp_path / "lanes").exists()


def test_two_tries_never_share_a_file(tmp_path: Path) -> None:
    given_up = lane_files(tmp_path, [0, 0], "{}")(iter([_batch(0, 1)]))
    next(given_up)
    again = _written(tmp_path, [_batch(0, 1)], [0, 0])
    assert {path.name for path in again.values()} < {path.name for path in tmp_path.iterdir()}
    assert [pq.read_table(path).num_rows for path in again.values()] == [1, 1]


def test_rows_that_are_not_sorted_by_lane_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        _written(tmp_path, [_batch(0, 1, 0)], [0, 0])


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (ArrayType(StructType([StructField("x", MapType(StringType(), DecimalType(9, 2)))])), True),
        (StructType([StructField("a", TimestampType()), StructField("b", TimestampNTZType())]), True),
        (DayTimeIntervalType(), False),
        (StructType([StructField("b", VariantType())]), False),
        (MapType(StringType(), YearMonthIntervalType()), False),
        (ArrayType(StringType("UTF8_LCASE")), False),
        (VarcharType(3), False),
        (StructType(), False),
    ],
)
def test_types_that_were_not_tried_are_left_to_spark(kind: DataType, known: bool) -> None:
    assert has_known_types(kind) is known

"""Many lanes of few records: written in one task, and the same on the disk as lanes that Spark writes one by one."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import contract
from tests.route.routed_records import counts

from keylane import Router
from keylane.errors import TargetError
from keylane.pipelines.route import route
from keylane.spark import write_lanes
from keylane.testing.folders import problems

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

UTC = dt.UTC
DAY = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 127]),
    "small": (pa.int16(), [-(2**15), 1]),
    "int": (pa.int32(), [2**31 - 1, -1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1]),
    "single": (pa.float32(), [1.5, float("-inf")]),
    "double": (pa.float64(), [0.1, -0.0]),
    "cents": (pa.decimal128(9, 2), [Decimal("-1234567.89"), Decimal("0.01")]),
    "wide": (pa.decimal128(18, 4), [Decimal("12345678901234.5678"), Decimal(0)]),
    "widest": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal(-1)]),
    "text": (pa.string(), ["größe \x00", ""]),
    "raw": (pa.binary(), [b"\xff\x00", b""]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(2026, 11, 16)]),
    "at": (pa.timestamp("us", "UTC"), [DAY, DAY + dt.timedelta(days=20_000)]),
    "local": (pa.timestamp("us"), [DAY.replace(tzinfo=None), dt.datetime(1600, 1, 1)]),  # noqa: DTZ001  has no zone
    "list": (
        pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        [[{"x": 1, "y": ["a", None]}], []],
    ),
    "map": (pa.map_(pa.string(), pa.decimal128(5, 1)), [[("a", Decimal("1.5")), ("b", None)], []]),
    "deep": (pa.struct([("a.b", pa.struct([("c", pa.int64())]))]), [{"a.b": {"c": 7}}, {"a.b": None}]),
}


def _source(folder: Path, rows: int, name: str = "a.parquet") -> Path:
    folder.mkdir(exist_ok=True)
    values = {
        name: pa.array([[*both, None][n % 3] for n in range(rows)], kind) for name, (kind, both) in COLUMNS.items()
    }
    keys = [f"key-{n * 7919 % 97}" for n in range(rows)]
    pq.write_table(pa.table({"k": keys, **values}), folder / name)
    return folder


def _files(target: Path) -> dict[str, Path]:
    return {str(path.relative_to(target)): path for path in sorted(target.glob("stream=*/lane=*/*"))}


def test_both_ways_write_the_same(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = _source(tmp_path / "in", 500)
    for name in ("large", "small"):
        found = route(contract(), str(source), str(tmp_path / name), spark=spark)
        assert counts(found) == (500, 500, 0, 0)
        monkeypatch.setattr(write_lanes, "_MANY_LANES", 0)
    large, small = _files(tmp_path / "large"), _files(tmp_path / "small")
    assert list(large) == list(small)
    for one, other in zip(large.values(), small.values(), strict=True):
        by_spark, by_arrow = pq.ParquetFile(one), pq.ParquetFile(other)
        assert "parquet-mr" in by_spark.metadata.created_by
        assert "parquet-cpp" in by_arrow.metadata.created_by
        # All types as Parquet has them, and those that Spark finds in the footer.
        assert str(by_arrow.schema).splitlines()[2:] == str(by_spark.schema).splitlines()[2:]
        key = b"org.apache.spark.sql.parquet.row.metadata"
        assert json.loads(by_arrow.metadata.metadata[key]) == json.loads(by_spark.metadata.metadata[key])
        assert b"ARROW:schema" not in by_arrow.metadata.metadata
        assert by_arrow.read().replace_schema_metadata().equals(by_spark.read().replace_schema_metadata())
        for file in (by_spark, by_arrow):
            encodings = {chunk.path_in_schema: chunk.encodings for chunk in _chunks(file)}
            for name in ("keylane_offset", "keylane_source.row"):
                assert "DELTA_BINARY_PACKED" in encodings[name]
                assert not any("DICTIONARY" in encoding for encoding in encodings[name])
    columns = [*pq.ParquetFile(next(iter(small.values()))).schema_arrow.names]
    frames = [
        spark.read.parquet(str(tmp_path / name)).select(*(f"`{c}`" for c in columns)) for name in ("large", "small")
    ]
    assert frames[0].schema == frames[1].schema
    in_order = [frame.orderBy("keylane_source").toArrow() for frame in frames]
    assert in_order[0].equals(in_order[1])


def _chunks(file: pq.ParquetFile) -> list[Any]:
    group = file.metadata.row_group(0)
    return [group.column(n) for n in range(group.num_columns)]


def test_many_lanes_in_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """A file for each lane and batch, and what the auditor asks: offsets without a gap, the order of the source."""
    source, target = tmp_path / "in", tmp_path / "out"
    thousand = contract(**{"lanes: 4": "lanes: 1000"})
    for number in range(2):
        _source(source, 1000, f"{number}.parquet")
        assert counts(route(thousand, str(source), str(target), spark=spark)) == (1000, 1000, 0, 0)
    names = ["0.parquet", "1.parquet"]
    assert problems(target, names, dict.fromkeys(names, range(1000)), Router(thousand)) == []
    written = _files(target).values()
    assert {pq.ParquetFile(path).metadata.created_by.split()[0] for path in written} == {"parquet-cpp-arrow"}
    assert len(written) == 2 * len({path.parent for path in written})


def test_a_full_disk_leaves_the_target_as_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = _source(tmp_path / "in", 20), tmp_path / "out"
    monkeypatch.setattr(write_lanes, "_MANY_LANES", 0)

    def full(*_: object) -> Any:
        def write(_: Any) -> Any:
            raise OSError(28, "No space left on device")

        return write

    with monkeypatch.context() as patched:
        patched.setattr(write_lanes, "lane_files", full)
        with pytest.raises(TargetError, match="disk full: batch 0 was not committed"):
            route(contract(), str(source), str(target), spark=spark)
    assert not _files(target)
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (20, 20, 0, 0)

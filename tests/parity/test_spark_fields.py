"""A missing field, a null field and a nested field on Spark: of frames, JSON lines and values of topics.

What is expected is what `tests/unit/test_fields.py` holds the router to.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.parity.field_records import BAD, FLAT, MISSING, NESTED, NULL, PATH, spec

from keylane.contract.fields import FieldSpec
from keylane.errors import DataError, KeylaneError
from keylane.pipelines.profile import profile
from keylane.pipelines.route import route as route_files
from keylane.router import Router
from keylane.spark import with_placements as route
from keylane.systems.endpoint import StreamOptions
from keylane.systems.messages.frames import message_columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

REASONS = {MISSING, NULL, BAD}
UNREAD = "malformed-record"
CASES = pytest.mark.parametrize(("field", "records"), [("k", FLAT), (PATH, NESTED)], ids=["flat", "nested"])


def expected(router: Router, key: str) -> tuple[int | None, str | None]:
    if key == BAD:
        return None, UNREAD
    return (None, key) if key in REASONS else (router.lane_of_key(key.encode()), None)


@CASES
def test_json_lines(spark: SparkSession, contract: Make, tmp_path: Path, field: str, records: dict[str, str]) -> None:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    agreed, source, target = contract(**spec(field)), tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonl").write_text("\n".join(records) + "\n")
    route_files(agreed, str(source), str(target), spark=spark)
    found: dict[int, tuple[int | None, str | None]] = {}
    lanes = ds.dataset(target / "stream=t", partitioning="hive", format="parquet").to_table()
    for row in lanes.select(["lane", "keylane_source"]).to_pylist():
        found[row["keylane_source"]["row"]] = (int(row["lane"]), None)
    for letters in (target / "_dead").glob("*.dead"):
        for row in pq.ParquetFile(letters).read(["reason", "keylane_source"]).to_pylist():
            found[row["keylane_source"]["row"]] = (None, row["reason"])
    wanted = [expected(Router(agreed), key) for key in records.values()]
    assert dict(zip(records, map(found.get, range(len(records))), strict=True)) == dict(
        zip(records, wanted, strict=True)
    )


@CASES
def test_json_values_of_a_topic(spark: SparkSession, contract: Make, field: str, records: dict[str, str]) -> None:
    agreed = contract(**spec(field))
    shape = StructType([StructField(name, BinaryType()) for name in ("key", "value")])
    texts = [*records, None]
    rows = spark.createDataFrame([(b"", text and text.encode()) for text in texts], shape)
    columns, unread = message_columns(FieldSpec.of(agreed), StreamOptions(value="json"))
    assert unread is not None
    frame = rows.select("value", unread.alias("unread"), *(column.alias(name) for name, column in columns.items()))
    found = {
        row["value"] and bytes(row["value"]).decode(): (None, UNREAD) if row["unread"] else (row["lane"], row["reason"])
        for row in route(frame, agreed).collect()
    }
    wanted: dict[str | None, tuple[int | None, str | None]] = {None: (None, MISSING)}  # a tombstone has no fields
    assert found == wanted | {text: expected(Router(agreed), key) for text, key in records.items()}


def test_structs_of_a_frame(spark: SparkSession, contract: Make) -> None:
    agreed = contract(**spec(PATH, hot_keys=[{"keys": ["hot"], "spread": {"over": 3, "by": "payload.order"}}]))
    router = Router(agreed)
    records = [
        {"merchant": {"id": "a"}, "order": "1"},
        {"merchant": {"id": "hot"}, "order": "2"},
        {"merchant": {"id": None}, "order": "3"},
        {"merchant": None, "order": "4"},
        None,
    ]
    frame = spark.createDataFrame(
        [(record,) for record in records], "payload struct<merchant: struct<id: string>, order: string>"
    )
    found = [(row["lane"], row["reason"]) for row in route(frame, agreed).collect()]
    placed = [router.place({"payload": json.loads(json.dumps(record))}) for record in records]
    assert found == [(one.lane, one.reason and str(one.reason)) for one in placed]
    named = frame.selectExpr("*", f"'own name' as `{PATH}`")
    assert {row["lane"] for row in route(named, agreed).collect()} == {router.lane_of_key(b"own name")}
    with pytest.raises(DataError, match=r"got 'payload\.merchant\.idd'.*did you mean 'payload\.merchant\.id'"):
        route(frame, contract(**spec("payload.merchant.idd")))
    with pytest.raises(DataError, match=r"lacks a column: got 'ordr'"):
        route(frame, contract(**spec(PATH, hot_keys=[{"keys": ["hot"], "spread": {"over": 3, "by": "ordr"}}])))


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_profile_of_nested_fields(spark: SparkSession, tmp_path: Path, name: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = [{"payload": {"merchant": {"id": text}}, "n": 1} for text in ("a", "b", "a", None)]
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in [*records, {"n": 2}]))
    made = profile(str(path), [PATH], spark=spark)
    assert (made.keys.num_rows, made.without_key.null) == (2, 1 if name == "a.parquet" else 2)
    with pytest.raises(KeylaneError, match=r"allowed: .*payload\.merchant\.id.*did you mean 'payload\.merchant\.id'"):
        profile(str(path), ["payload.merchant.idd"], spark=spark)

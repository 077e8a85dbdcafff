"""`aggregate` of a topic whose values are Avro, Protobuf or JSON behind a header: the same results as of plain JSON."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.aggregate.reference import MINUTE, QUERIES, START, events, expected, results
from tests.aggregate.runs import registered

from keylane.errors import UsageError
from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.run import aggregate
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.aggregate.reference import Event

    from keylane.systems.broker import Cluster

PLACE = {"type": "record", "name": "place", "fields": [{"name": "country", "type": "string"}]}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "event",
    "fields": [
        *({"name": name, "type": "string"} for name in ("type", "country", "user")),
        {"name": "amount", "type": ["null", "double"]},
        {"name": "items", "type": "int"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "place", "type": ["null", PLACE]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
USUAL = {"aggregates": {"n": "count(*)"}, "window": "1 hour"}


def as_avro(event: Event) -> bytes:
    plain = json.loads(json.dumps(AVRO).replace("logicalType", "was"))
    out = BytesIO()
    made = {**event, "place": {"country": event["country"]}, "tags": ["a"]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), made)
    return out.getvalue()


def sent(broker: Cluster, topic: str, values: Iterable[bytes | None]) -> None:
    producer = Producer({**librdkafka_settings(broker), "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    assert producer.flush(60) == 0


def letters(target: Path) -> list[str]:
    found = sorted((target / "_dead").rglob("*.parquet"))
    return sorted(row["original"] for path in found for row in pq.read_table(path, partitioning=None).to_pylist())


def test_avro_values_give_what_json_gives(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    given, source = events(400, 1, START, START + 5 * MINUTE), topic(2, "events")
    broken = as_avro(given[0])[:-3]
    sent(broker, source, [*map(as_avro, given), broken, None])
    (tmp_path / "event.avsc").write_text(json.dumps(AVRO))
    inside = {"id": "inside", "filter": "place.country = 'de' and ts > timestamp '2020-01-01'", **USUAL}
    listed = {"id": "listed", "filter": "tags is not null", **USUAL}
    registry = registered(tmp_path, inside, listed, *(query.definition for query in QUERIES))
    ends = f"kafka://{broker.bootstrap}/{source}", str(tmp_path / "out"), registry
    with pytest.raises(UsageError, match="need their schema"):
        aggregate(*ends, AggregateOptions(stream=StreamOptions(value="avro")), spark=spark)
    assert not (tmp_path / "out").exists(), "a run that is refused has changed nothing"
    stream = StreamOptions(value="avro", value_schema=str(tmp_path / "event.avsc"))
    document = aggregate(*ends, AggregateOptions(lanes=2, stream=stream), spark=spark)
    assert (document.records, document.dead, document.late) == (402, 2, 0)
    assert letters(tmp_path / "out") == ["", base64.b64encode(broken).decode()]
    figures = {one.query_id: one for one in document.queries}
    assert figures["inside"].events == sum(event["country"] == "de" for event in given)
    assert (figures["listed"].unfit, "array" in str(figures["listed"].error)) == (True, True)
    plain = [row for row in found_of(tmp_path / "out") if row["query_id"] not in {"inside", "listed"}]
    assert plain == expected(given)
    assert plain != expected(given[1:]), "the twin: one event less is noticed"


def found_of(target: Path) -> list[dict[str, Any]]:
    """The results of the queries of the reference; those of others have been looked at."""
    for path in (target / "results").rglob("*.parquet"):
        table = pq.read_table(path, partitioning=None)
        keep = [name in {query.id for query in QUERIES} for name in table.column("query_id").to_pylist()]
        pq.write_table(table.filter(keep), path)
    return results(target)


@pytest.mark.faults
def test_protobuf_values_give_what_json_gives(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    one = descriptor_pb2.FileDescriptorProto(name="event.proto", package="shop", syntax="proto2")
    message = one.message_type.add(name="Event")
    fields = {"type": "STRING", "country": "STRING", "user": "STRING", "amount": "DOUBLE", "items": "INT32"}
    for number, (name, kind) in enumerate({**fields, "ts": "INT64"}.items(), 1):
        code = getattr(kinds, f"TYPE_{kind}")
        message.field.add(name=name, number=number, type=code, label=kinds.LABEL_OPTIONAL)
    path = tmp_path / "event.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[one]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(one)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Event"))
    given, source = events(400, 2, START, START + 5 * MINUTE), topic(2, "events")
    values = [
        made(**{name: value for name, value in event.items() if value is not None}).SerializeToString()
        for event in given
    ]
    sent(broker, source, [*values, b"\xff\xff"])
    ends = f"kafka://{broker.bootstrap}/{source}", str(tmp_path / "out"), registered(tmp_path)
    stream = StreamOptions(value="protobuf", value_schema=str(path))
    document = aggregate(*ends, AggregateOptions(lanes=2, stream=stream), spark=spark)
    assert (document.records, document.dead) == (401, 1)
    assert letters(tmp_path / "out") == [base64.b64encode(b"\xff\xff").decode()]
    assert results(tmp_path / "out") == expected(given)


@pytest.mark.faults
def test_json_behind_the_header_of_a_registry_is_read(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    given, source = events(300, 3, START, START + 5 * MINUTE), topic(2, "events")
    header = b"\x00\x00\x00\x00\x07"
    sent(
        broker, source, [(header if number % 3 else b"") + json.dumps(one).encode() for number, one in enumerate(given)]
    )
    ends = f"kafka://{broker.bootstrap}/{source}", str(tmp_path / "out"), registered(tmp_path)
    document = aggregate(*ends, AggregateOptions(lanes=2, stream=StreamOptions(value="json")), spark=spark)
    assert (document.records, document.dead) == (300, 0)
    assert results(tmp_path / "out") == expected(given)

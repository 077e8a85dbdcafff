"""`aggregate` between streams of shards, on Spark, against a real API: results at least once, and in order."""

from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from tests.aggregate.reference import MINUTE, START, events, expected
from tests.aggregate.runs import registered

from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.run import aggregate
from keylane.pipelines.aggregate.verify import verify_results
from keylane.systems.endpoint import StreamOptions, open_endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.aggregate.reference import Event
    from tests.kinesis.servers import KinesisServer


FIELDS = {"type": "string", "country": "string", "user": "string", "amount": ["null", "double"], "items": "int"}
AVRO = {
    "type": "record",
    "name": "event",
    "fields": [{"name": name, "type": kind} for name, kind in {**FIELDS, "ts": "long"}.items()],
}


def as_avro(event: Event) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), event)
    return out.getvalue()


@pytest.mark.faults
@pytest.mark.parametrize("form", ["json", "avro"])
def test_events_of_shards_become_results_in_a_stream(
    kinesalite: KinesisServer, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    client, source, target = kinesalite.client(), kinesalite.fresh_stream(2), kinesalite.fresh_stream(2)
    for end in (".corrections", ".dlq"):
        client.create_stream(StreamName=f"{target}{end}", ShardCount=1)
        kinesalite.until_active(f"{target}{end}")
    given = events(300, 1, START, START + 3 * MINUTE)
    values = [as_avro(one) if form == "avro" else json.dumps(one).encode() for one in given]
    records: Any = [{"Data": value, "PartitionKey": str(n)} for n, value in enumerate(values)]
    (tmp_path / "event.avsc").write_text(json.dumps(AVRO))
    stream = StreamOptions(value=form, value_schema=str(tmp_path / "event.avsc") if form == "avro" else None)
    assert client.put_records(StreamName=source, Records=records)["FailedRecordCount"] == 0
    ends, said = (kinesalite.address(source), kinesalite.address(target), registered(tmp_path)), list[str]()
    state = str(tmp_path / "state")
    document = aggregate(*ends, AggregateOptions(lanes=2, state=state, stream=stream), spark=spark, say=said.append)
    assert any("at least once" in text for text in said), "what the service cannot promise is said"
    assert (document.records, document.dead, document.late) == (300, 0, 0)
    rows = [json.loads(one.value or b"") for one in open_endpoint(ends[1]).delivered()]
    found = sorted(rows, key=lambda row: (row["query_id"], row["sequence"]))
    assert [(row["query_id"], row["sequence"]) for row in found] == [
        (row["query_id"], row["sequence"]) for row in expected(given)
    ]
    assert [row["n"] for row in found if "n" in row] == [row["n"] for row in expected(given) if "n" in row]
    assert verify_results(ends[1], state).is_right

"""`aggregate` between streams of shards, on Spark, against a real API: results at least once, and in order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.aggregate.reference import MINUTE, START, events, expected
from tests.aggregate.runs import registered

from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.run import aggregate
from keylane.pipelines.aggregate.verify import verify_results
from keylane.systems.endpoint import open_endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.kinesis.servers import KinesisServer


@pytest.mark.faults
def test_events_of_shards_become_results_in_a_stream(
    kinesalite: KinesisServer, spark: SparkSession, tmp_path: Path
) -> None:
    client, source, target = kinesalite.client(), kinesalite.fresh_stream(2), kinesalite.fresh_stream(2)
    for end in (".corrections", ".dlq"):
        client.create_stream(StreamName=f"{target}{end}", ShardCount=1)
        kinesalite.until_active(f"{target}{end}")
    given = events(300, 1, START, START + 3 * MINUTE)
    records: Any = [{"Data": json.dumps(one).encode(), "PartitionKey": str(n)} for n, one in enumerate(given)]
    assert client.put_records(StreamName=source, Records=records)["FailedRecordCount"] == 0
    ends, said = (kinesalite.address(source), kinesalite.address(target), registered(tmp_path)), list[str]()
    state = str(tmp_path / "state")
    document = aggregate(*ends, AggregateOptions(lanes=2, state=state), spark=spark, say=said.append)
    assert any("at least once" in text for text in said), "what the service cannot promise is said"
    assert (document.records, document.dead, document.late) == (300, 0, 0)
    rows = [json.loads(one.value or b"") for one in open_endpoint(ends[1]).delivered()]
    found = sorted(rows, key=lambda row: (row["query_id"], row["sequence"]))
    assert [(row["query_id"], row["sequence"]) for row in found] == [
        (row["query_id"], row["sequence"]) for row in expected(given)
    ]
    assert [row["n"] for row in found if "n" in row] == [row["n"] for row in expected(given) if "n" in row]
    assert verify_results(ends[1], state).is_right

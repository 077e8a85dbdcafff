"""`match --follow` between real topics: driver-locations and rider-requests in, matches out; and over a kill."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.integration.topics import create_topic, read_back
from tests.match.batch_traffic import geo_contract
from tests.match.killable_matches import run_and_die, run_to_the_end
from tests.match.stream_traffic import matches, world

from keylane.geo.cells import cells_of
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Options
from keylane.pipelines.route import KafkaOptions
from keylane.placement.cell_lanes import cell_lanes
from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster


def filled(broker: Cluster, name: str, table: pa.Table) -> str:
    """A topic of four lanes with the records of a table, each in the lane of its place; times as text."""
    producer = Producer({**librdkafka_settings(broker), "enable.idempotence": True})
    lanes = cell_lanes(geo_contract(4), 4).of(cells_of(table["lat"], table["lng"]))
    for row, lane in zip(table.drop(["file"]).to_pylist(), lanes.tolist(), strict=True):
        row["ts"] = row["ts"].isoformat()
        producer.produce(name, json.dumps(row).encode(), partition=lane)
    assert producer.flush(60) == 0
    return f"kafka://{broker.bootstrap}/{name}"


def open_consumers(spark: SparkSession) -> int:
    """Consumers of Kafka in Spark's process, by what each registers for as long as it is open."""
    gateway: Any = spark.sparkContext._gateway
    java = gateway.jvm.java.lang
    server = java.management.ManagementFactory.getPlatformMBeanServer()
    # By the interface: the class behind it is no public one.
    methods = java.Class.forName("javax.management.MBeanServer").getMethods()
    (names,) = [one for one in methods if one.getName() == "queryNames"]
    given = gateway.new_array(java.Object, 2)
    given[0] = gateway.jvm.javax.management.ObjectName("kafka.consumer:type=app-info,*")
    return int(names.invoke(server, given).size())


def test_topics_are_followed_into_a_folder_and_consumers_are_closed_with_the_query(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=2, drivers=40)
    names = topic(4, "driver-locations"), topic(4, "rider-requests")
    sides = filled(broker, names[0], made.pings), filled(broker, names[1], made.requests)
    target = tmp_path / "out"
    # Two batches: the second meets what the first has kept.
    given = Options(radius=3000.0, kafka=KafkaOptions(value="json", max_records=400))
    how = Following(available_now=True, tasks=2)
    before, within = open_consumers(spark), list[int]()
    followed = follow(
        *sides,
        str(target),
        given,
        how,
        contract=geo_contract(4),
        spark=spark,
        tell=lambda _: within.append(open_consumers(spark)),
    )
    assert min(within) > before
    assert open_consumers(spark) == before
    document = followed.model_dump(mode="json")
    assert document["dead"] == {"drivers": {}, "riders": {}}
    assert matches(target) == made.expected(3000.0, made.watermark)
    assert [one["records"] for one in document["metrics"]["lag"]] == [0] * 4


@pytest.mark.faults
def test_topics_are_followed_over_a_kill_into_a_folder_and_into_a_topic(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    made = world(files=3)
    names = topic(4, "driver-locations"), topic(4, "rider-requests")
    sides = filled(broker, names[0], made.pings), filled(broker, names[1], made.requests)
    target = tmp_path / "out"
    run_and_die(*sides, target, point="forced", batch=1, max_records=700)
    steps, document = run_to_the_end(*sides, target, max_records=700)
    assert steps[0] == ["begun", 1]
    expected = made.expected(3000.0, made.watermark)
    # Lanes are read side by side, so a request may be far behind the pings of another lane: none is too late for it.
    assert document["dead"] == {"drivers": {}, "riders": {}}
    assert matches(target) == expected
    assert [one["records"] for one in document["metrics"]["lag"]] == [0] * 4
    answers = topic(2, "matches")
    create_topic(broker, f"{answers}.dlq", 1)
    to = f"kafka://{broker.bootstrap}/{answers}"
    run_and_die(*sides, to, point="forced", batch=0, state=str(tmp_path / "state"))
    run_to_the_end(*sides, to, state=str(tmp_path / "state"))
    told = [json.loads(read.value or b"") for read in read_back(broker, answers)]
    ids = {one["match_id"]: (one["rider_id"], one["driver_id"]) for one in told}
    assert len(told) > len(expected), "the kill was to come after the matches were written, and before they counted"
    assert len(ids) == len(expected)
    assert set(ids.values()) == {(rider, driver) for rider, _, driver, _ in expected}

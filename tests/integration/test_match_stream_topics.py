"""`match --follow` over topics that are not as one would like them: uneven, empty, mixed with files, made anew."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.integration.match_topics import produce, rows_of
from tests.integration.topics import create_topic, delete_topic
from tests.match.batch_traffic import geo_contract
from tests.match.stream_traffic import matches, world

from keylane.errors import DataError, KeylaneError
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Columns, Options
from keylane.pipelines.route import KafkaOptions
from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

ONE_BY_ONE = Following(available_now=True, tasks=2)


def run(
    spark: SparkSession, sides: tuple[str, str], target: Path, most: int = 1_000_000, lanes: int = 4, **more: Any
) -> Any:
    columns = Columns(time="ts:us")
    kafka = KafkaOptions(value="json", max_records=most)
    given = Options(**{"radius": 3000.0, "drivers": columns, "riders": columns, "kafka": kafka, **more})
    return follow(*sides, str(target), given, ONE_BY_ONE, contract=geo_contract(lanes), spark=spark)


@pytest.mark.faults
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "read by spark"])
def test_a_backlog_that_is_read_unevenly_is_answered_as_if_in_the_order_of_time(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path, plain: bool
) -> None:
    made = world(files=2)
    # Nearly all pings in one lane, and requests told twice.
    drivers = produce(broker, topic(4), rows_of(made.pings), lambda n: 0 if n % 10 else n // 10 % 4, plain=plain)
    asked = rows_of(made.requests)
    riders = produce(broker, topic(4), [*asked, *asked[:40]], lambda n: n % 4, plain=plain)
    document = run(spark, (drivers, riders), tmp_path / "out", most=150)
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)
    assert (document.pings, document.dead.as_json()) == (made.pings.num_rows, {"drivers": {}, "riders": {}})


@pytest.mark.faults
def test_drivers_of_a_topic_meet_riders_of_files_and_an_empty_topic_is_waited_at(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=2)
    _, files = made.write(tmp_path / "in")
    name = topic(4)
    sides = f"kafka://{broker.bootstrap}/{name}", str(files)
    nothing = topic(4)
    assert run(spark, (sides[0], f"kafka://{broker.bootstrap}/{nothing}"), tmp_path / "none").pings == 0
    assert run(spark, sides, tmp_path / "out").pairs == 0
    produce(broker, name, rows_of(made.pings), lambda n: n % 4, plain=True)
    run(spark, sides, tmp_path / "out")
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)


@pytest.mark.faults
def test_transactions_that_were_taken_back_are_read_over(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=1)
    names = topic(2), topic(2)
    producer = Producer({**librdkafka_settings(broker), "transactional.id": names[0]})
    producer.init_transactions(60)
    rows = [
        (number, json.dumps({**row, "ts": row["ts"].isoformat()})) for number, row in enumerate(rows_of(made.pings))
    ]
    for start in range(0, len(rows), 100):
        # The same drivers elsewhere, a second later: were they read, most pairs would be others.
        for keeps in (True, False):
            producer.begin_transaction()
            for number, value in rows[start : start + 100]:
                text = value if keeps else json.dumps({**json.loads(value), "lat": 10.0, "lng": 10.0})
                producer.produce(names[0], text.encode(), partition=number % 2)
            (producer.commit_transaction if keeps else producer.abort_transaction)(60)
    riders = produce(broker, names[1], rows_of(made.requests), lambda n: n % 2, plain=True)
    drivers = f"kafka://{broker.bootstrap}/{names[0]}"
    document = run(spark, (drivers, riders), tmp_path / "out", most=70, lanes=2)
    assert document.pings == made.pings.num_rows
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)


@pytest.mark.faults
def test_records_that_are_gone_before_they_were_read_end_the_match_with_what_is_gone(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=1)
    names = topic(2), topic(2)
    drivers = produce(broker, names[0], rows_of(made.pings), lambda _: 1, plain=True)
    riders = produce(broker, names[1], rows_of(made.requests), lambda n: n % 2, plain=True)
    asked = threading.Event()
    columns, kafka = Columns(time="ts:us"), KafkaOptions(value="json", max_records=100)
    given = Options(radius=3000.0, drivers=columns, riders=columns, kafka=kafka)
    places = drivers, riders, str(tmp_path / "out")
    follow(
        *places,
        given,
        ONE_BY_ONE,
        contract=geo_contract(2),
        spark=spark,
        stop_asked=asked,
        tell=lambda _: asked.set(),
    )
    gone = TopicPartition(names[0], 1, 400)
    admin = AdminClient({**librdkafka_settings(broker)})
    admin.delete_records([gone])[gone].result(60)
    with pytest.raises(DataError, match=rf"no longer in the source.*{names[0]}-1"):
        follow(*places, given, ONE_BY_ONE, contract=geo_contract(2), spark=spark)


@pytest.mark.faults
def test_a_topic_that_gets_partitions_ends_the_match(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=1)
    names = topic(2), topic(2)
    drivers = produce(broker, names[0], rows_of(made.pings), lambda n: n % 2, plain=True)
    riders = produce(broker, names[1], rows_of(made.requests), lambda n: n % 2, plain=True)

    def grow(figures: Any) -> None:
        if figures.total["pings"] < made.pings.num_rows:
            admin = AdminClient({**librdkafka_settings(broker)})
            admin.create_partitions([NewPartitions(names[0], 3)])[names[0]].result(60)

    columns, kafka = Columns(time="ts:us"), KafkaOptions(value="json", max_records=100)
    given = Options(radius=3000.0, drivers=columns, riders=columns, kafka=kafka)
    places = drivers, riders, str(tmp_path / "out")
    with pytest.raises(DataError, match=rf"{names[0]} got partitions.*got 3.*allowed: 2"):
        follow(*places, given, ONE_BY_ONE, contract=geo_contract(2), spark=spark, tell=grow)


@pytest.mark.faults
@pytest.mark.parametrize("side", [0, 1], ids=["drivers", "riders"])
def test_a_topic_that_got_partitions_between_two_runs_is_refused(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path, side: int
) -> None:
    made = world(files=1)
    names = topic(2), topic(2)
    drivers = produce(broker, names[0], rows_of(made.pings), lambda n: n % 2, plain=True)
    riders = produce(broker, names[1], rows_of(made.requests), lambda n: n % 2, plain=True)
    before = run(spark, (drivers, riders), tmp_path / "out", lanes=2)
    assert run(spark, (drivers, riders), tmp_path / "out", lanes=2).pairs == before.pairs
    admin = AdminClient({**librdkafka_settings(broker)})
    admin.create_partitions([NewPartitions(names[side], 3)])[names[side]].result(60)
    with pytest.raises(KeylaneError, match=names[side]):
        run(spark, (drivers, riders), tmp_path / "out", lanes=2)


@pytest.mark.faults
def test_bad_records_are_dead_letters_and_a_topic_that_was_made_anew_is_refused(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    made = world(files=1)
    names = topic(4), topic(4)
    drivers = produce(broker, names[0], rows_of(made.pings), lambda n: n % 4, plain=True)
    riders = produce(broker, names[1], rows_of(made.requests), lambda n: n % 4, plain=True)
    producer = Producer({**librdkafka_settings(broker)})
    for value in (b"{", b'{"id":"x","ts":1,"lat":0,"lng":0}', b'{"id":"","ts":1,"lat":1,"lng":1}', None):
        producer.produce(names[0], value, partition=1)
    assert producer.flush(60) == 0
    document = run(spark, (drivers, riders), tmp_path / "out")
    assert sum(document.dead.as_json()["drivers"].values()) == 4
    assert document.dead.as_json()["drivers"]["place-zero"] == 1
    delete_topic(broker, names[0])
    create_topic(broker, names[0], 4)
    produce(broker, names[0], rows_of(made.pings), lambda n: n % 4, plain=True)
    with pytest.raises(DataError, match="recreated"):
        run(spark, (drivers, riders), tmp_path / "out")

"""How long a record takes through `route --follow` where partitions are quiet, beside Spark's own Kafka sink.

A hundred records a second go to all partitions of a topic alike, and a plain consumer of committed records notes when
each arrives in the target: the delay is from the call that sends it. All sides begin a batch every second, at most.
Spark's side is its shortest program; with the setting, its consumer is read with `kafka.fetch.max.wait.ms` 5, as
`route` does it. Half a second of each delay is what is waited for the next batch, on average.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import Figure
from keylane.contract.parse import parse_contract
from keylane.systems.kafka.access import LONG_POLL_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

PER_SECOND, EVERY = 100, "1 second"
#: Seconds of records before the ones that are counted, in which Java compiles, and of those.
BEFORE, COUNTED, PATIENCE = 40.0, 30.0, 120.0
#: By partitions of the source: what the median and the 95th of a hundred may be.
MOST = {64: (1.5, 3.0), 6: (1.2, None)}
CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: bench}
spec: {streams: [STREAM], lanes: 6, key: {fields: [key]}, partitioner: kafka-java}
"""


def run() -> Iterator[Figure]:
    """Median and 95th of a hundred of each side, on many partitions and on few."""
    from keylane.spark import local_session
    from keylane.systems.broker import running
    from keylane.systems.jars import connector_settings

    with tempfile.TemporaryDirectory() as folder, running(heap="1g") as broker:
        spark = local_session(conf=connector_settings())
        for partitions, (median, most) in MOST.items():
            for name, side in sides(spark, broker, Path(folder)).items():
                delays = delays_of(broker, partitions, name.replace(" ", "-").replace("'", ""), side)
                what = f"{partitions} partitions, {name}"
                own = name == "route"
                yield Figure(f"{what}, median", float(np.median(delays)), "s", at_most=median if own else None)
                yield Figure(f"{what}, p95", float(np.quantile(delays, 0.95)), "s", at_most=most if own else None)
        spark.stop()


def sides(spark: SparkSession, broker: Cluster, folder: Path) -> dict[str, Callable[[str, str, Event], None]]:
    """Each side by its name: it carries what comes into a topic over into another, until it is asked to stop."""

    def route(source: str, target: str, stop: Event) -> None:
        from keylane.pipelines.route import KafkaOptions, Options
        from keylane.pipelines.route import route as carry

        addresses = (f"kafka://{broker.bootstrap}/{topic}" for topic in (source, target))
        options = Options(every=EVERY, kafka=KafkaOptions(state=str(folder / target)))
        contract = parse_contract(CONTRACT.replace("STREAM", target))
        carry(contract, *addresses, follow=True, options=options, spark=spark, stop_asked=stop)

    def plain(source: str, target: str, stop: Event, more: Mapping[str, str] = MappingProxyType({})) -> None:
        servers = {"kafka.bootstrap.servers": broker.bootstrap}
        given = {**servers, **more, "subscribe": source, "startingOffsets": "earliest"}
        frame = spark.readStream.format("kafka").options(**given).load().select("key", "value")
        written = frame.writeStream.format("kafka").options(**servers, topic=target)
        query = written.option("checkpointLocation", str(folder / target)).trigger(processingTime=EVERY).start()
        stop.wait()
        query.stop()

    setting = {"kafka.fetch.max.wait.ms": LONG_POLL_MS}
    return {
        "route": route,
        "Spark's own sink": plain,
        "Spark's own sink with the setting": lambda source, target, stop: plain(source, target, stop, setting),
    }


def delays_of(broker: Cluster, partitions: int, name: str, side: Callable[[str, str, Event], None]) -> list[float]:
    """Seconds from sending to arrival of every record that is counted."""
    source, target = f"source-{partitions}-{name}", f"target-{partitions}-{name}"
    for topic, lanes in ((source, partitions), (target, 6), (f"{target}.dlq", 1)):
        _made(broker, topic, lanes)
    stop, arrived = Event(), dict[int, float]()
    threads = [
        Thread(target=side, args=(source, target, stop)),
        Thread(target=_consumed, args=(broker, target, arrived, stop)),
    ]
    for thread in threads:
        thread.start()
    try:
        sent = _produced(broker, source, partitions)
        until = time.monotonic() + PATIENCE
        while len(arrived) < len(sent) and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(arrived) == len(sent), f"{len(arrived)} of {len(sent)} records arrived"
    began = sent[0] + BEFORE
    return [arrived[number] - at for number, at in sent.items() if at >= began]


def _made(broker: Cluster, topic: str, lanes: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic(topic, lanes)], operation_timeout=60)[topic].result(60)


def _produced(broker: Cluster, topic: str, partitions: int) -> dict[int, float]:
    """When each record was sent, by its number: one partition after the other, at an even pace."""
    from confluent_kafka import Producer

    producer, sent = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}), dict[int, float]()
    began = time.monotonic()
    for number in range(int((BEFORE + COUNTED) * PER_SECOND)):
        time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
        sent[number] = time.monotonic()
        producer.produce(topic, b"%d" % number, b"key-%d" % (number % 997), number % partitions)
        producer.poll(0)
    producer.flush(60)
    return sent


def _consumed(broker: Cluster, topic: str, arrived: dict[int, float], stop: Event) -> None:
    """Note when each record is first seen, as committed."""
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, Any] = {"group.id": "judge", "isolation.level": "read_committed", "fetch.wait.max.ms": 5}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, lane, 0) for lane in range(6)])
    while not stop.is_set():
        for message in consumer.consume(1_000, 0.01):
            if message.error() is None:
                arrived.setdefault(int(message.value() or b""), time.monotonic())
    consumer.close()

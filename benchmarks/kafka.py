"""How fast `route` is between two topics against Spark's own Kafka sink, which is at least once.

All sides read the same topic by the same connector and write 32 lanes of one broker on this machine, in turn, in one
batch each. Spark's side is its shortest program: key and value, and Kafka's own partitioner. `route` also reads and
writes headers, decides the lane and counts. Processor time is that of all that a record takes from topic to topic:
Spark, what starts it, and the broker, which has less to do where batches are larger; and, as a figure of its own, of
Spark and what starts it alone. On a machine that others use it says more than the clock. What the broker takes at most
is Kafka's own `kafka-producer-perf-test`, which reads nothing: its records are 200 bytes too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Figure, least
from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.systems.broker import Cluster

RECORDS, BYTES, KEYS = 1_000_000, 200, 20_000
PARTITIONS, LANES = 8, 32
ROUNDS = 5
CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: bench}
spec: {streams: [STREAM], lanes: 32, key: {fields: [key], on_null: reject}, partitioner: kafka-java}
"""


def run() -> Iterator[Figure]:
    """Records a second of each side, and the two ratios."""
    from keylane.systems.broker import running

    with tempfile.TemporaryDirectory() as folder, running(heap="1g") as broker:
        _made(broker, "source", PARTITIONS)
        _filled(broker)
        yield from _sides(broker, Path(folder))
        yield Figure("kafka-producer-perf-test on the same broker", _limit(broker), "records/s")


def _made(broker: Cluster, topic: str, lanes: int) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic(topic, lanes)], operation_timeout=60)[topic].result(60)
    return topic


def _filled(broker: Cluster) -> None:
    """Seeded records; each key in one partition, values of 200 bytes that do not compress to nothing."""
    import numpy as np
    from confluent_kafka import Producer

    rng = np.random.default_rng(5)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    noise = rng.bytes(BYTES * 1000).hex().encode()
    keys, cuts = rng.integers(0, KEYS, RECORDS), rng.integers(0, len(noise) - BYTES, RECORDS)
    for number, (key, cut) in enumerate(zip(keys.tolist(), cuts.tolist(), strict=True)):
        producer.produce("source", noise[cut : cut + BYTES], b"merchant_%06d" % key, key % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def _sides(broker: Cluster, folder: Path) -> Iterator[Figure]:
    from keylane.spark import local_session
    from keylane.systems.broker.nodes import process_of
    from keylane.systems.jars import connector_settings

    spark, numbers = local_session(conf=connector_settings()), count()

    def target() -> str:
        name = _made(broker, f"target-{next(numbers)}", LANES)
        _made(broker, f"{name}.dlq", 1)
        return name

    sides: dict[str, Any] = {
        "spark": lambda: _by_spark(spark, broker, target(), folder),
        "exactly": lambda: _by_route(spark, broker, target(), folder, "exactly-once"),
        "plain": lambda: _by_route(spark, broker, target(), folder, "at-least-once"),
    }
    for side in sides.values():
        side()  # the first of each compiles
    found = least(ROUNDS, process_of(broker, 1), **sides)
    spark.stop()
    what = f"{RECORDS / 1e6:g} M records of {BYTES} bytes, {LANES} lanes"
    names = {"spark": "Spark's own sink", "exactly": "route, exactly once", "plain": "route, at least once"}
    for side, name in names.items():
        yield Figure(f"topic to topic, {what}: {name}", RECORDS / found[side].clock, "records/s")
    peer = found.pop("spark")
    for side, mine in found.items():
        ratio = f"{names[side]}, against Spark's own sink"
        yield Figure(f"{ratio}, processor time", peer.processors / mine.processors, "times", at_least=0.85)
        yield Figure(f"{ratio}, processor time without the broker's", peer.own / mine.own, "times")
        yield Figure(f"{ratio}, clock", peer.clock / mine.clock, "times")


def _by_spark(spark: SparkSession, broker: Cluster, topic: str, folder: Path) -> None:
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    source = spark.readStream.format("kafka").options(**servers, subscribe="source", startingOffsets="earliest").load()
    checkpoint = folder / topic
    writer = source.select("key", "value").writeStream.format("kafka").options(**servers, topic=topic)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert sum(progress.numInputRows for progress in query.recentProgress) == RECORDS
    shutil.rmtree(checkpoint)


def _by_route(spark: SparkSession, broker: Cluster, topic: str, folder: Path, delivery: Any) -> None:
    from keylane.pipelines.route import KafkaOptions, Options, route

    state = folder / topic
    # One batch, as on Spark's side.
    options = Options(kafka=KafkaOptions(state=str(state), delivery=delivery, max_records=2 * RECORDS))
    addresses = [f"kafka://{broker.bootstrap}/{name}" for name in ("source", topic)]
    found = route(_contract(topic), *addresses, options=options, spark=spark)
    assert found.counts.out == RECORDS
    shutil.rmtree(state)


def _contract(stream: str) -> Contract:
    return parse_contract(CONTRACT.replace("STREAM", stream))


def _limit(broker: Cluster) -> float:
    """What Kafka's own tool writes in a second, acknowledged by all."""
    from keylane.spark.jvm import find_java
    from keylane.systems.jars import fetched

    jars = ":".join(str(path) for path in fetched("tools"))
    command = [str(find_java().home / "bin" / "java"), "-Xmx512m", "-cp", jars]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", _made(broker, "perf", LANES)]
    command += ["--num-records", str(RECORDS), "--record-size", str(BYTES), "--throughput", "-1"]
    command += ["--bootstrap-server", broker.bootstrap, "--command-property", "acks=all", "linger.ms=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(re.findall(r"([0-9.]+) records/sec", done.stdout)[-1])

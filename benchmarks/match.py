"""What a running `match` costs, by its parts, and against the same in Kafka Streams: seconds of the processor on both.

Both read the same two topics of one broker on this machine, 1 M pings and 20,000 requests on 60 lanes, from their
beginning to their end: they place pings, keep every lane's drivers and their homes, let requests wait, fan them out,
look for who is near, and commit. keylane does it in batches of 250,000 and of 25,000. Both take turns, each in one
JVM, and the best round of each counts: other work on the machine meets both. Then what each part costs; the same over
twice as many pings, of the same drivers and of twice as many; and on Spark's own Kafka source. Then 200,000 drivers
are known and 1,000 pings a second arrive: how long a batch takes, how long a rider waits, and how soon a process that
is started again answers. The peer is described in `kafka_streams.run`. The broker's seconds are nobody's.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.kafka_streams.run import BROKER, fan, match, new_name, running_jvm
from benchmarks.match_parts import PARTS, sampled
from benchmarks.match_traffic import (
    DRIVERS,
    RIDERS,
    ROUTED_AT,
    SPAN_MS,
    fill_topic,
    hashed_lanes,
    make_topics,
    make_traffic,
)
from benchmarks.timing import Figure, spent
from keylane.contract.parse import parse_contract
from keylane.geo.cells import cells_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from keylane.systems.broker import Cluster

PINGS: Final = 1_000_000
REQUESTS: Final = 20_000
LANES: Final = 60
RADIUS: Final = 1000.0
BATCH: Final = 250_000
SMALL: Final = 25_000
#: Both sides take turns; the first round of each is to warm up, and the best one counts.
ROUNDS: Final = 3
KNOWN: Final = 200_000
A_SECOND: Final = 1000
LIVE_SECONDS: Final = 60
#: How often in a second the live records of a fraction of it are sent.
TICKS: Final = 20
CONTRACT: Final = f"""
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: bench}}
spec:
  streams: [{DRIVERS}, {RIDERS}]
  lanes: {LANES}
  key: {{fields: [lat, lng], encoding: place}}
  partitioner: kafka-java
  geo: {{resolution: {ROUTED_AT}}}
"""


def run() -> Iterator[Figure]:
    """Ratios to the peer, costs by part, and what a live stream waits for."""
    from keylane.spark import local_session
    from keylane.spark.session import for_small_batches
    from keylane.systems.broker import running
    from keylane.systems.jars import connector_settings

    with tempfile.TemporaryDirectory() as name, running(heap="1g", extra=BROKER) as broker:
        folder = Path(name)
        _fill(broker, "", PINGS, REQUESTS)
        # As the command starts it; more consumers than Spark's own source keeps by itself.
        conf = {**connector_settings(), "spark.kafka.consumer.cache.capacity": "512"}
        spark = local_session(conf=for_small_batches(conf))
        yield from _backlogs(spark, broker, folder)
        spark.stop()
        yield from _live(broker, folder)


def _fill(broker: Cluster, suffix: str, pings: int, requests: int, spans: int = 1) -> None:
    """Topics of so many pings in each span of time; in each, the same drivers are elsewhere."""
    make_topics(broker.bootstrap, {f"{DRIVERS}{suffix}": LANES, f"{RIDERS}{suffix}": LANES})
    for span in range(spans):
        for topic, table in zip((DRIVERS, RIDERS), make_traffic(pings, requests, seed=7 + span), strict=True):
            later = table.set_column(1, "ts", pc.add(table["ts"], span * SPAN_MS))
            fill_topic(broker.bootstrap, f"{topic}{suffix}", later, hashed_lanes(LANES).of)


def _backlogs(spark: SparkSession, broker: Cluster, folder: Path) -> Iterator[Figure]:
    from keylane.systems.broker.nodes import process_of

    numbers, server = count(), process_of(broker, 1)

    def taken(most: int, suffix: str = "", times: int = 1) -> float:
        return spent(lambda: _followed(spark, broker, folder / str(next(numbers)), most, suffix, times), server).own

    records = PINGS + REQUESTS
    with running_jvm(broker.bootstrap, DRIVERS, RIDERS, LANES, RADIUS) as jvm:
        rounds = [(_peer(jvm, broker), taken(BATCH), taken(SMALL)) for _ in range(ROUNDS)]
    theirs, large, small = (min(each) for each in zip(*rounds, strict=True))
    yield Figure("the same in Kafka Streams", records / theirs, "records/CPU s")
    yield Figure(f"match --follow, 1 M pings, batches of {BATCH:,}", records / large, "records/CPU s")
    yield Figure(f"  against Kafka Streams, batches of {BATCH:,}", theirs / large, "times", at_least=1.0)
    yield Figure(f"the same, batches of {SMALL:,}", records / small, "records/CPU s")
    yield Figure(f"  against Kafka Streams, batches of {SMALL:,}", theirs / small, "times", at_least=0.6)
    with sampled(spark) as parts:
        taken(BATCH)
    for part in PARTS:
        yield Figure(f"  {part}", parts.seconds.get(part, 0.0) * 1e6 / records, "us a record")
    _fill(broker, "-longer", PINGS, REQUESTS, spans=2)
    _fill(broker, "-denser", 2 * PINGS, 2 * REQUESTS)
    turns = [(taken(BATCH), *(taken(BATCH, which, 2) for which in ("-longer", "-denser"))) for _ in range(2)]
    once, longer, denser = (min(each) for each in zip(*turns, strict=True))
    yield Figure("a record of 2 M pings against one of 1 M, the same drivers", longer / 2 / once, "times", at_most=1.05)
    yield Figure("  with twice the drivers, so twice the pairs", denser / 2 / once, "times")
    with sparks_own_source():
        own = taken(BATCH)
    yield Figure("on Spark's own Kafka source, processor time", own / min(large, once), "times")


def _peer(jvm: subprocess.Popen[str], broker: Cluster) -> float:
    """Seconds of the processor that the peer takes."""
    name = new_name(broker.bootstrap, LANES)
    fanned = fan(jvm, name, REQUESTS)
    matched = match(jvm, name, PINGS, REQUESTS + fanned.guests)
    return (fanned.cpu_nanoseconds + matched.cpu_nanoseconds) / 1e9


@contextmanager
def sparks_own_source() -> Iterator[None]:
    """Have topics read by Spark's connector: a row for each record, read by columns and packed after it."""
    from pyspark.sql import functions as F

    from keylane.pipelines.match import follow_sources
    from keylane.pipelines.match.follow_plan import NUMBERS
    from keylane.pipelines.match.records import as_rows
    from keylane.pipelines.match.sources import raw_messages
    from keylane.spark.topic_blocks import CLOCK

    before = follow_sources.topic_rows

    def by_connector(
        spark: SparkSession, side: Any, given: Any, region: Any, plan: Any, start: Sequence[int]
    ) -> DataFrame:
        most, topic = str(given.kafka.max_records), side.address.name
        at = json.dumps({topic: {str(lane): offset for lane, offset in enumerate(start)}})
        options = {"kafka.bootstrap.servers": side.address.authority, "subscribe": topic, "startingOffsets": at}
        read = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=most).load()
        clocked = read.withColumn(CLOCK, F.lit(round(time.time() * 1e6)))
        packed = {"keylane_slot": F.lit(None).cast("int"), "keylane_block": F.lit(None).cast("binary")}
        raw = raw_messages(clocked.withColumns(packed), side, given, CLOCK, *packed)
        number, drivers = NUMBERS[side.side], side.side == "drivers"
        return plan.packed(as_rows(raw, side.columns, region, drivers=drivers), number, topic=True)

    follow_sources.topic_rows = by_connector
    try:
        yield
    finally:
        follow_sources.topic_rows = before


def _followed(spark: SparkSession, broker: Cluster, target: Path, most: int, suffix: str = "", times: int = 1) -> None:
    from keylane.pipelines.match.follow import Following, follow
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.route import KafkaOptions

    drivers, riders = (f"kafka://{broker.bootstrap}/{topic}{suffix}" for topic in (DRIVERS, RIDERS))
    given = Options(radius=RADIUS, kafka=KafkaOptions(value="json", max_records=most))
    contract = parse_contract(CONTRACT)
    found = follow(drivers, riders, str(target), given, Following(available_now=True), contract=contract, spark=spark)
    assert (found.pings, found.riders + (found.metrics.pending or 0)) == (times * PINGS, times * REQUESTS)
    assert found.pairs > 0
    # Spark tidies its stores for a while after the end.
    shutil.rmtree(target, ignore_errors=True)


def _live(broker: Cluster, folder: Path) -> Iterator[Figure]:
    """A match in a process of its own, as the command starts it; it is killed and started again."""
    make_topics(broker.bootstrap, {f"{topic}-live": LANES for topic in (DRIVERS, RIDERS)})
    (folder / "bench.yaml").write_text(CONTRACT)
    target, ended = folder / "live", threading.Event()
    producer = threading.Thread(target=_produce, args=(broker, ended))
    producer.start()
    process = _command(broker, folder, target)
    try:
        _wait_for(target, at_least=1)
        time.sleep(LIVE_SECONDS)
        yield Figure(
            f"a batch at {A_SECOND:,} pings/s, {KNOWN:,} drivers known",
            statistics.median(_batches(target)),
            "s, median",
            at_most=0.5,
        )
        figures = [json.loads(path.read_text()) for path in sorted((target / "_metrics").glob("*.json"))]
        warm = figures[len(figures) // 2 :]
        waits = sorted(one["match_latency_ms"]["p99"] / 1000 for one in warm if one["match_latency_ms"])
        yield Figure("request to answer, --late 0", waits[int(len(waits) * 0.99)], "s, p99", at_most=2.0)
        process.kill()
        process.wait()
        held = [path for path in (target / "_state" / "checkpoint" / "state").rglob("*") if path.is_file()]
        yield Figure("state in the checkpoint", sum(path.stat().st_size for path in held) / KNOWN, "bytes a driver")
        before, began = len(list((target / "_metrics").glob("*.json"))), time.monotonic()
        process = _command(broker, folder, target)
        _wait_for(target, at_least=before + 1)
        yield Figure("first answers after a kill", time.monotonic() - began, "s", at_most=15.0)
    finally:
        ended.set()
        process.kill()
        producer.join()


def _batches(target: Path) -> list[float]:
    """Seconds of the later half of the batches, from when Spark cut each until it was in Spark's log of commits."""
    log = target / "_state" / "checkpoint"
    numbers = sorted(int(path.name) for path in (log / "commits").glob("[0-9]*"))
    begun = (json.loads((log / "offsets" / str(number)).read_text().splitlines()[1]) for number in numbers)
    ended = ((log / "commits" / str(number)).stat().st_mtime for number in numbers)
    every = [end - begin["batchTimestampMs"] / 1000 for begin, end in zip(begun, ended, strict=True)]
    return every[len(every) // 2 :]


def _command(broker: Cluster, folder: Path, target: Path) -> subprocess.Popen[bytes]:
    sides = [f"kafka://{broker.bootstrap}/{topic}-live" for topic in (DRIVERS, RIDERS)]
    command = [sys.executable, "-m", "keylane", "match", "--follow", "--drivers", sides[0], "--riders", sides[1]]
    command += ["--contract", str(folder / "bench.yaml"), "--radius", str(RADIUS), "--late", "0", "--to", str(target)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _wait_for(target: Path, *, at_least: int) -> None:
    end = time.monotonic() + 300
    while len(list((target / "_metrics").glob("*.json"))) < at_least:
        assert time.monotonic() < end, "no batch"
        time.sleep(0.05)


def _produce(broker: Cluster, ended: threading.Event) -> None:
    """All drivers once, then so many pings a second and a fiftieth as many requests, with the times of now."""
    from confluent_kafka import Producer

    drivers, riders = make_traffic(20 * KNOWN, 1000, seed=7)
    drivers = drivers.slice(0, KNOWN)
    stamped = drivers.set_column(1, "ts", pa.array([int(time.time() * 1000)] * KNOWN))
    fill_topic(broker.bootstrap, f"{DRIVERS}-live", stamped, hashed_lanes(LANES).of)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    sides = [(f"{topic}-live", *_records(table)) for topic, table in ((DRIVERS, drivers), (RIDERS, riders))]
    for number in count():
        if ended.wait(1 / TICKS):
            break
        now = int(time.time() * 1000)
        for (topic, values, lanes), many in zip(sides, (A_SECOND // TICKS, A_SECOND // TICKS // 50), strict=True):
            for at in range(number * many, (number + 1) * many):
                value = values[at % len(values)] | {"ts": now}
                producer.produce(topic, json.dumps(value).encode(), partition=lanes[at % len(values)])
        producer.poll(0)
    assert producer.flush(60) == 0


def _records(table: pa.Table) -> tuple[list[dict[str, Any]], list[int]]:
    """Records, and the lane of each."""
    return table.to_pylist(), hashed_lanes(LANES).of(cells_of(table["lat"], table["lng"])).tolist()

"""What a running `match` costs against the same job with matching left out, and against the same in Kafka Streams.

Both sides of keylane read the same two topics of one broker on this machine, 1 M pings and 20,000 requests on 60 lanes,
from their beginning to their end, in batches: they place pings, keep every lane's drivers and their homes, let requests
wait, fan them out, and commit. The one also looks for who is near. The peer is described in `kafka_streams.run`; its
records for each second of one core count the processor's time, keylane's the time on the clock of all cores.
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.kafka_streams.run import BROKER, peer
from benchmarks.match_traffic import DRIVERS, RIDERS, ROUTED_AT, fill_topics, hashed_lanes, make_traffic
from benchmarks.timing import Figure, best
from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

PINGS, REQUESTS = 1_000_000, 20_000
LANES: Final = 60
RADIUS: Final = 1000.0
BATCH: Final = 250_000
ROUNDS: Final = 2
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
    """The ratio, records a second for each core, and the peer's."""
    from keylane.systems.broker import running

    with tempfile.TemporaryDirectory() as folder, running(heap="1g", extra=BROKER) as broker:
        drivers, riders = make_traffic(PINGS, REQUESTS, seed=7)
        fill_topics(broker.bootstrap, drivers, riders, hashed_lanes(LANES).of, LANES)
        yield from _sides(broker, Path(folder))
        yield from _peer(broker)


def _sides(broker: Cluster, folder: Path) -> Iterator[Figure]:
    from keylane.spark import local_session
    from keylane.systems.jars import connector_settings

    spark, numbers = local_session(conf=connector_settings()), count()
    cores = spark.sparkContext.defaultParallelism
    sides: dict[str, Any] = {
        "match": lambda: _followed(spark, broker, folder / str(next(numbers)), matching=True),
        "without": lambda: _followed(spark, broker, folder / str(next(numbers)), matching=False),
    }
    sides["match"]()  # the first compiles
    seconds = best(ROUNDS, **sides)
    spark.stop()
    ratio = seconds["match"] / seconds["without"]
    yield Figure("match --follow against matching left out", ratio, "times", at_most=2.0)
    for side, name in (("match", "match --follow"), ("without", "matching left out")):
        rate = (PINGS + REQUESTS) / seconds[side] / cores
        yield Figure(f"{name}, {PINGS / 1e6:g} M pings, {LANES} lanes", rate, "records/s and core")


def _followed(spark: SparkSession, broker: Cluster, target: Path, *, matching: bool) -> None:
    from keylane.pipelines.match.follow import Following, follow
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.route import KafkaOptions

    drivers, riders = (f"kafka://{broker.bootstrap}/{topic}" for topic in (DRIVERS, RIDERS))
    given = Options(radius=RADIUS, kafka=KafkaOptions(value="json", max_records=BATCH))
    how = Following(available_now=True, matching=matching)
    found = follow(drivers, riders, str(target), given, how, contract=parse_contract(CONTRACT), spark=spark)
    assert (found.pings, found.riders + (found.metrics.pending or 0)) == (PINGS, REQUESTS)
    assert (found.pairs > 0) == matching
    shutil.rmtree(target)


def _peer(broker: Cluster) -> Iterator[Figure]:
    found = peer(broker.bootstrap, DRIVERS, RIDERS, LANES, RADIUS, PINGS, REQUESTS)
    yield Figure("the same in Kafka Streams", found.records_per_second_per_core, "records/s and core")

"""What standing queries cost: 1,000 of them over 5 M events, against Spark's own count by window and key.

The traffic: an hour of events in Parquet, a fifth of which match a query; 15 of the 1,000 queries (1.5 %) have nine
tenths of the matches. Processor time, both sides in turn in one session, after rounds that do not count. The peer
counts all events of the same files by `groupBy(window, key)`, which is what Spark does for one such question; the
aggregation answers 1,000, and writes and commits its results.

    lanes     from the windows that were delivered: max/mean over 64 lanes, by query and by query and window
    queries   matching alone, into nothing, with 100 and with 10,000 queries over the same events
    memory    the largest state and the most open windows of all batches, and the most of the heap in use after a
              collection, of a fifth of the events and of all
"""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Figure, in_turn, least
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

EVENTS = 5_000_000
QUERIES = 1_000
HOT = 15
LANES = 64
MINUTES = 60
FILES = 12
#: Rounds that count, and those before them in which Java compiles; the peer, being smaller, is warm sooner.
ROUNDS, WARM_UP = 7, 4
MASTER = "local[2]"
START = 1_700_000_040


def run() -> Iterator[Figure]:
    """All sides in turn, in one session."""
    from keylane.spark import local_session

    spark = local_session(MASTER, {"spark.driver.memory": "4g"})
    try:
        with tempfile.TemporaryDirectory(prefix="keylane-aggregate-") as name:
            folder = Path(name)
            _write(spark, folder / "all", EVENTS, 1)
            yield from _against_spark(spark, folder)
            yield from _by_queries(spark, folder)
            yield from _memory(spark, folder)
    finally:
        spark.stop()


def _write(spark: SparkSession, folder: Path, events: int, files: int) -> None:
    """Events in the order of time, in files of equal lengths of time."""
    from pyspark.sql import functions as F

    chance = F.rand(1)
    hot = F.concat(F.lit("k"), (F.rand(2) * HOT).cast("int").cast("string"))
    cold = F.concat(F.lit("k"), (F.rand(3) * (QUERIES - HOT) + HOT).cast("int").cast("string"))
    key = (
        F.when(chance < 0.18, hot)
        .when(chance < 0.2, cold)
        .otherwise(F.concat(F.lit("n"), (F.rand(4) * 1000).cast("int")))
    )
    second = F.col("id") * (MINUTES * 60) / F.lit(events)
    rows = spark.range(0, events, 1, max(2, files)).select(
        key.alias("key"),
        (F.rand(5) * 100).alias("amount"),
        F.timestamp_micros(((second + START) * 1_000_000).cast("bigint")).alias("ts"),
    )
    rows.write.parquet(f"file://{folder}")


def _queries(folder: Path, many: int) -> str:
    from keylane import add_queries

    registry = str(folder / f"queries-{many}.sqlite")
    add_queries(
        registry,
        [
            {
                "id": f"q{number}",
                "filter": f"key = 'k{number}' and amount >= 0",
                "aggregates": {"n": "count(*)"},
                "window": "1 minute",
            }
            for number in range(many)
        ],
    )
    return registry


def _aggregated(
    spark: SparkSession, source: Path, target: Path, registry: str, probe: Any = no_probe, **options: Any
) -> None:
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.pipelines.aggregate.run import aggregate

    shutil.rmtree(target, ignore_errors=True)
    aggregate(str(source), str(target), registry, AggregateOptions(lanes=2, **options), spark=spark, probe=probe)


def _counted(spark: SparkSession, source: Path) -> None:
    from pyspark.sql import functions as F

    read = spark.read.parquet(f"file://{source}")
    read.groupBy(F.window("ts", "1 minute"), "key").count().write.format("noop").mode("overwrite").save()


def _against_spark(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    from keylane.pipelines.aggregate.explain import explain_load

    registry = _queries(folder, QUERIES)
    spent = in_turn(
        ROUNDS,
        uncounted=WARM_UP,
        queries=partial(_aggregated, spark, folder / "all", folder / "out", registry),
        spark=partial(_counted, spark, folder / "all"),
    )
    ours, peers = ([one.processors for one in spent[name]] for name in ("queries", "spark"))
    yield Figure("Spark's groupBy(window, key), the peer", EVENTS / median(peers) / 1e6, "M events/cpu s")
    yield Figure(f"{QUERIES:,} queries", EVENTS / median(ours) / 1e6, "M events/cpu s")
    ratios = [one / other for one, other in zip(ours, peers, strict=True)]
    name = f"{QUERIES:,} queries, against the peer, median of {ROUNDS} rounds"
    yield Figure(name, median(ratios), "of its processor time", at_most=3.0)
    yield Figure("  of the dearest round", max(ratios), "of its processor time")
    found = {one.division: one for one in explain_load(str(folder / "out"), LANES).divisions}
    yield Figure(f"fullest of {LANES} lanes by query", found["query"].max_over_mean, "of the mean")
    by_window = found["query-window"].max_over_mean
    yield Figure(f"fullest of {LANES} lanes by query and window", by_window, "of the mean", at_most=1.5)
    fewer = found["query-window-partial"].received / found["query-window"].received
    yield Figure("partial aggregates", fewer, "of the matched events")


def _by_queries(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    spent = least(ROUNDS, of_100=_matching(spark, folder, 100), of_10000=_matching(spark, folder, 10_000))
    few, many = (spent[name].processors for name in ("of_100", "of_10000"))
    yield Figure("matching with 100 queries", EVENTS / few / 1e6, "M events/cpu s")
    yield Figure("matching with 10,000 queries", EVENTS / many / 1e6, "M events/cpu s")
    yield Figure("from 100 to 10,000 queries", many / few, "of the cost", at_most=5.0)


def _matching(spark: SparkSession, folder: Path, many: int) -> Any:
    """Stage 1 alone, its queries made ready before."""
    from keylane.pipelines.aggregate.events import EventReader
    from keylane.pipelines.aggregate.matching import AggregatePlan
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.spark.context import session_beside
    from keylane.systems.files.frames import spark_files
    from keylane.systems.query_registry import checked, open_queries

    own = session_beside(spark, None, {})
    with open_queries(_queries(folder, many)) as registry:
        queries = checked(registry.snapshot().active)
    events = EventReader(own, AggregateOptions()).of_files(
        spark_files(own, folder / "all", None), "parquet", folder / "all", queries
    )
    plan = AggregatePlan.of(own, 2)
    bound = plan.bound(events, queries)
    given = {"by_window": True, "partial": True, "clock": str(2**60), "ahead": "0", "stream": ""}
    return lambda: plan.matched(events, bound, given).write.format("noop").mode("overwrite").save()


class _Heap:
    """The most that was in use of Java's heap, after a collection, when the batches of blocks were answered."""

    def __init__(self, spark: SparkSession) -> None:
        self._java: Any = spark.sparkContext._jvm
        self.most = 0

    def __call__(self, point: str, _batch: int) -> None:
        if point == "answered":
            self._java.java.lang.System.gc()
            runtime = self._java.java.lang.Runtime.getRuntime()
            self.most = max(self.most, int(runtime.totalMemory()) - int(runtime.freeMemory()))


def _memory(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    registry, found = str(folder / f"queries-{QUERIES}.sqlite"), {}
    for name, events in (("few", EVENTS // 5), ("many", EVENTS)):
        _write(spark, folder / name, events, FILES)
        heap = _Heap(spark)
        _aggregated(spark, folder / name, folder / f"out-{name}", registry, probe=heap, max_files=1)
        metrics = [json.loads(path.read_text()) for path in (folder / f"out-{name}" / "_metrics").glob("*.json")]
        state, windows = (max(one[of] for one in metrics) for of in ("state_bytes", "open_windows"))
        found[name] = state, windows, heap.most
    (few, fewer, low), (many, more, high) = found["few"], found["many"]
    yield Figure("heap in use after collections, of a fifth of the events", low / 2**20, "MiB")
    yield Figure("five times the events", high / low, "of the heap", at_most=1.5)
    yield Figure("most open windows", more, f"({fewer} of a fifth of the events)")
    yield Figure("largest state, of a fifth of the events", few / 2**20, "MiB")
    yield Figure("five times the events", many / few, "of the state", at_most=1.5)

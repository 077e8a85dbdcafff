"""What a profile and a plan cost beside one exact groupBy(key).count(), and a plan from a stored profile without Spark.

50 million records of 5 million keys, a day in ten Parquet files, the heaviest key with about 0.05 %. Both sides run in
one Spark session, taking turns, after a round that warms it; the count goes to Spark's noop sink. The profile counts
the same keys by window, is stored, and a plan of 12 strategies at 6 lane counts is made of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.timing import Figure, best
from keylane.pipelines.profile import Options, profile
from keylane.plan.contract_text import Means
from keylane.plan.planner import Question, make_plan
from keylane.spark import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

RECORDS, KEYS, FILES = 50_000_000, 5_000_000, 10
COUNTS = (12, 16, 24, 32, 48, 64)
DAY = 86_400_000_000
STORED = """
import sys, time
began = time.perf_counter()
from pathlib import Path
from keylane.plan.planner import Question, make_plan
from keylane.plan.contract_text import Means
from keylane.systems.profiles import read_profile
counts = tuple(map(int, sys.argv[2].split(",")))
found = make_plan(read_profile(Path(sys.argv[1])), Question(counts, Means("day", ("day",))))
assert "pyspark" not in sys.modules and len(found.judged) == 12 * len(counts)
print(time.perf_counter() - began)
"""


def run() -> Iterator[Figure]:
    """Make the day, then time."""
    with tempfile.TemporaryDirectory() as folder:
        source, kept = Path(folder) / "day", Path(folder) / "day.profile"
        write_day(source)
        spark = local_session(None, {})
        try:
            yield from _beside_a_count(spark, source, kept)
        finally:
            spark.stop()
        yield from _without_spark(kept)


def question() -> Question:
    """Twelve strategies at six lane counts."""
    return Question(COUNTS, Means("day", ("day",)))


def _beside_a_count(spark: SparkSession, source: Path, kept: Path) -> Iterator[Figure]:
    def count() -> None:
        spark.read.parquet(str(source)).groupBy("key").count().write.format("noop").mode("overwrite").save()

    def planned() -> None:
        options = Options(time="at")
        made = profile(str(source), ["key"], options=options, out=kept, replace_profile=True, spark=spark, say=print)
        assert len(make_plan(made, question()).judged) == 12 * len(COUNTS)

    count()
    seconds = best(2, count=count, planned=planned)
    yield Figure("50 M records, 5 M keys: groupBy(key).count()", seconds["count"], "s")
    yield Figure("50 M records, 5 M keys: profile, stored, and plan", seconds["planned"], "s")
    yield Figure(
        "profile and plan over groupBy(key).count()", seconds["planned"] / seconds["count"], "times", at_most=1.5
    )


def _without_spark(kept: Path) -> Iterator[Figure]:
    """A process of its own, start-up of Python and imports included."""
    command = [sys.executable, "-c", STORED, str(kept), ",".join(map(str, COUNTS))]
    seconds = min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(2))
    yield Figure("plan from a stored profile of 5 M keys, without Spark", seconds, "s", at_most=5)


def write_day(folder: Path) -> None:
    """Files in the order of their time; every key comes at least once, the others Zipf-like with exponent 0.8."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    reached = np.cumsum(np.arange(1, KEYS + 1) ** -0.8)
    names, once = rng.permutation(KEYS), rng.permutation(KEYS)
    for part in range(FILES):
        drawn = names[np.searchsorted(reached, rng.random((RECORDS - KEYS) // FILES) * reached[-1])]
        keys = np.concatenate([drawn, once[part * KEYS // FILES : (part + 1) * KEYS // FILES]])
        rng.shuffle(keys)
        pq.write_table(_rows(keys, part, rng), folder / f"part-{part:02}.parquet", use_dictionary=False)


def _rows(keys: Any, part: int, rng: np.random.Generator) -> pa.Table:
    times = np.sort(rng.integers(part * DAY // FILES, (part + 1) * DAY // FILES, len(keys)))
    names = pc.binary_join_element_wise("m-", pc.utf8_lpad(pc.cast(pa.array(keys), pa.string()), 8, "0"), "")
    amounts = pa.array(rng.integers(1, 10**6, len(keys)))
    return pa.table({"key": names, "at": pa.array(times, pa.timestamp("us", tz="UTC")), "amount": amounts})

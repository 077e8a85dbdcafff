"""How fast `route` is against Spark's own repartition, sort and write of the same records, and whether it stays flat.

Both sides read the same 40 files of Parquet in one session and write 64 parts as Snappy Parquet. The peer is
`read.repartition(64, "merchant_id").sortWithinPartitions(column).write.parquet`, once by the time, which has the order
of the source, the order that `route` keeps, and once by the key. `route` also decides the lane as the Java client does,
numbers every record, keeps its source position, adds up, and forces everything to the disk. A ratio of processor time
says what a record costs; one of the clock, on a machine that others use, says how busy they are.

Many lanes of few records: 50,000 records into 10,000 lanes, each side in a process of its own that starts Spark first.
The peer is `repartition(cores, "lane").sortWithinPartitions("lane").write.partitionBy("lane").parquet`.

Memory is the most that Python and Java ever had resident, each by the kernel's own count, over batches of half a
million records. Java has a heap of 1 GiB that is taken whole at the start; so what is alive in it at the end is shown
too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.contracts import payments
from benchmarks.timing import Figure, least

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES, LANES = 40, 64
ROWS = 500_000
MERCHANTS = 200_000
#: Java goes on compiling what is hot during the first four of each side.
ROUNDS = 6
MANY_RECORDS, MANY_LANES = 50_000, 10_000
FOLLOW = """
import sys, threading
from pathlib import Path
from benchmarks.contracts import payments
from keylane.pipelines.route import Options, route

asked, done = threading.Event(), []

def tell(batch):
    done.append(batch.counts.in_)
    if sum(done) >= int(sys.argv[3]):
        asked.set()

heap = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch"}
options = Options(max_files=1, every="10 milliseconds", master="local[2]", conf=heap)
found = route(payments(), sys.argv[1], sys.argv[2], follow=True, options=options, stop_asked=asked, tell=tell)
assert found.counts.in_ == int(sys.argv[3]), found

def peak(pid):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM"))

from pyspark.sql import SparkSession
java = SparkSession.active().sparkContext._jvm.java.lang
most = (peak("self") + peak(java.ProcessHandle.current().pid())) / 1024
java.System.gc()
memory = java.Runtime.getRuntime()
print(most, (memory.totalMemory() - memory.freeMemory()) / 2**20)
"""

ROUTE_MANY = """
import sys
from benchmarks.contracts import payments
from benchmarks.timing import processor_seconds
from keylane.pipelines.route import route

assert route(payments(lanes=int(sys.argv[3])), sys.argv[1], sys.argv[2]).counts.out == int(sys.argv[4])
print(processor_seconds())
"""
SPARK_MANY = """
import sys
from pyspark.sql import functions as F
from benchmarks.timing import processor_seconds
from keylane.spark import local_session

spark = local_session()
lane = F.pmod(F.hash("merchant_id"), F.lit(int(sys.argv[3])))
lanes = spark.read.parquet(sys.argv[1]).withColumn("lane", lane).repartition(2, "lane").sortWithinPartitions("lane")
lanes.write.partitionBy("lane").parquet(sys.argv[2])
print(processor_seconds())
"""


def run() -> Iterator[Figure]:
    """The ratio first, then many lanes, then memory at 1 M and at 20 M records."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        _written(source)
        yield from _against_spark(source, Path(folder))
        yield from _many_lanes(Path(folder))
        yield from _memory(source, Path(folder))


def _written(folder: Path) -> None:
    """Seeded payments with a heavy tail of merchants, in the order of their times."""
    folder.mkdir()
    rng = np.random.default_rng(20)
    names = pa.array([f"merchant_{n:06d}" for n in range(MERCHANTS)])
    for number in range(FILES):
        orders = np.arange(number * ROWS, (number + 1) * ROWS)
        who = names.take(pa.array((rng.zipf(1.2, ROWS) % MERCHANTS).astype(np.int32)))
        columns = {"merchant_id": who, "order_id": orders, "amount": rng.gamma(2, 30, ROWS).round(2)}
        table = pa.table({**columns, "ts": 1_763_000_000_000 + orders})
        pq.write_table(table, folder / f"part-{number:03d}.parquet")
        os.utime(folder / f"part-{number:03d}.parquet", (1_763_000_000 + number,) * 2)


def _against_spark(source: Path, folder: Path) -> Iterator[Figure]:
    from keylane.pipelines.route import route
    from keylane.spark import local_session

    spark, numbers = local_session(), count()

    def plain(by: str) -> None:
        target = folder / f"plain-{next(numbers)}"
        lanes = spark.read.parquet(str(source)).repartition(LANES, "merchant_id")
        lanes.sortWithinPartitions(by).write.parquet(str(target))
        shutil.rmtree(target)

    def ours() -> None:
        target = folder / f"ours-{next(numbers)}"
        found = route(payments(), str(source), str(target), spark=spark)
        assert found.counts.out == FILES * ROWS
        shutil.rmtree(target)

    sides: dict[str, Any] = {"ours": ours, "by_time": lambda: plain("ts"), "by_key": lambda: plain("merchant_id")}
    for side in sides.values():
        side()  # the first of each compiles
    found = least(ROUNDS, **sides)
    spark.stop()
    records, mine = f"{FILES * ROWS / 1e6:g} M records, {LANES} lanes", found.pop("ours")
    yield Figure(f"route, {records}", FILES * ROWS / mine.clock / 1e6, "M records/s")
    for side, peer in found.items():
        what = f"route, {records}, against repartition + sort {side.replace('_', ' ')} + write"
        yield Figure(f"{what}, processor time", peer.processors / mine.processors, "times", at_least=0.8)
        yield Figure(f"{what}, clock", peer.clock / mine.clock, "times")


def _many_lanes(folder: Path) -> Iterator[Figure]:
    source = folder / "many.parquet"
    who = np.random.default_rng(10).integers(0, MERCHANTS, MANY_RECORDS)
    table = {"merchant_id": [f"merchant_{n:06d}" for n in who], "order_id": np.arange(MANY_RECORDS)}
    pq.write_table(pa.table(table), source)
    what = f"{MANY_RECORDS:,} records into {MANY_LANES:,} lanes"
    for name, program in {"route": ROUTE_MANY, "Spark's write.partitionBy": SPARK_MANY}.items():
        target = folder / "many"
        command = [sys.executable, "-c", program, str(source), str(target), str(MANY_LANES), str(MANY_RECORDS)]
        start = perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        clock = perf_counter() - start
        shutil.rmtree(target)
        yield Figure(f"{name}, {what}, clock", clock, "s", at_most=30 if name == "route" else None)
        yield Figure(f"{name}, {what}, processor time", float(done.stdout.splitlines()[-1]), "s")


def _memory(source: Path, folder: Path) -> Iterator[Figure]:
    few = folder / "few"
    few.mkdir()
    for file in sorted(source.iterdir())[:2]:
        os.link(file, few / file.name)
    (small, alive), (large, still) = _peak(few, folder, 2 * ROWS), _peak(source, folder, FILES * ROWS)
    most = f"{FILES * ROWS / 1e6:g} M"
    yield Figure("route --follow, peak memory at 1 M records", small, "MiB")
    yield Figure(f"route --follow, peak memory at {most} records", large, "MiB")
    yield Figure("route --follow, the one against the other", large / small, "times", at_most=1.1)
    yield Figure("route --follow, alive in Java at 1 M records", alive, "MiB")
    yield Figure(f"route --follow, alive in Java at {most} records", still, "MiB")


def _peak(source: Path, folder: Path, records: int) -> tuple[float, float]:
    """The most that was resident, and what is alive in Java at the end."""
    target = folder / f"follow-{records}"
    command = [sys.executable, "-c", FOLLOW, str(source), str(target), str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shutil.rmtree(target)
    most, alive = map(float, done.stdout.splitlines()[-1].split())
    return most, alive

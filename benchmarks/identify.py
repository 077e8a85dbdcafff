"""What `identify` and `init` say of 10,000 streams whose writers are known; and how long they take, up to 5 M rows.

The streams are drawn by the grammar of `tests.worlds`, with other seeds than the tests have. `IDENTIFY_CASES=500` asks
for fewer. Every false statement is printed with a command that shows it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.known_truth.asking import Judged, Reached, judged, shown
from tests.worlds.producers import KINDS, Recipe, draw, made

from benchmarks.timing import Figure, best
from keylane import identify
from keylane.placement.partitioners import partitioner
from keylane.systems.files.data import open_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CASES = int(os.environ.get("IDENTIFY_CASES", "10000"))
#: First seeds: of the drawn cases, of the mixtures with a small second writer, of the timed streams.
DRAWN, SMALL, TIMED = 1_000_000, 2_000_000, 3_000_000
#: From so many distinct keys on, a single listed writer is to be named.
ENOUGH = 500
ROWS = 5_000_000
LANES = 64
COLUMNS = ["key", "lane"]
PEAK = """
import sys
from keylane import identify
from keylane.systems.files.data import open_data
identify(open_data(sys.argv[1]).batches(["key", "lane"]))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) / 1024)
"""


def run() -> Iterator[Figure]:
    """False statements about known streams, then how long an answer takes."""
    yield from _truth()
    yield from _of_20_000_rows()
    yield from _of_5_million_rows()


def _truth() -> Iterator[Figure]:
    reached, alone = Reached(), [0, 0]
    for one in _all(range(DRAWN, DRAWN + CASES), draw):
        reached.add(one)
        if one.recipe.kind == "listed" and one.distinct >= ENOUGH:
            alone[0] += 1
            alone[1] += one.named
    print(f"\n{reached}\n", flush=True)
    for kind in KINDS:
        counts = reached.kinds[kind]
        yield Figure(f"identify, {kind}: false of {counts['cases']:,}", counts["false"], "cases", at_most=0)
    yield Figure(
        f"identify, one listed writer, {ENOUGH} keys or more, {alone[0]:,} cases", *_percent(alone), at_least=98
    )
    small = [0, 0]
    false = 0
    for one in _all(range(SMALL, SMALL + max(10, CASES // 50)), _small_second):
        small[0] += 1
        small[1] += one.named
        false += bool(one.false)
    yield Figure("identify, second writer of 2 %: false", false, "cases", at_most=0)
    yield Figure(f"identify, second writer of 2 %, {small[0]:,} cases, named", *_percent(small), at_least=90)


def _percent(counted: list[int]) -> tuple[float, str]:
    return 100 * counted[1] / max(1, counted[0]), "% named"


def _small_second(seed: int) -> Recipe:
    """20,000 rows of two listed writers, of which the smaller wrote one in fifty."""
    keys = int(np.random.default_rng(seed).integers(ENOUGH, 6_000))
    return draw(seed, "mixed listed", rows=20_000, distinct=keys, shares=(0.98, 0.02), null_share=0.0, empty_share=0.0)


def _all(seeds: Iterable[int], drawn: Callable[[int], Recipe]) -> Iterator[Judged]:
    """Every case, asked in two processes; what is false is printed as it comes."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        for at, one in enumerate(processes.map(partial(_one, drawn), seeds, chunksize=20)):
            if one.false:
                print(shown(one, smallest=False), flush=True)
            if at % 500 == 499:
                print(f"  {at + 1:,} cases", flush=True)
            yield one


def _one(drawn: Callable[[int], Recipe], seed: int) -> Judged:
    return judged(drawn(seed))


def _of_20_000_rows() -> Iterator[Figure]:
    """Processor time of the slowest of some streams of 20,000 rows: every kind of case, few lanes and many."""
    slowest, which = 0.0, ""
    for kind in KINDS:
        for at, lanes in enumerate((12, 300)):
            table = made(draw(TIMED + at, kind, lanes=lanes, rows=20_000, distinct=5_000, skew="even")).table()
            for given in (None, lanes):
                start = process_time()
                identify(table, given, key="key", lane="lane")
                taken = process_time() - start
                if taken > slowest:
                    slowest, which = taken, f"{kind}, {lanes} lanes"
    yield Figure(f"identify, 20,000 rows, slowest ({which})", slowest, "s of processor", at_most=2)


def _of_5_million_rows() -> Iterator[Figure]:
    """One writer, and two of which the second has one record in a hundred."""
    with tempfile.TemporaryDirectory() as folder:
        for name, second in (("one writer", 0.0), ("two writers", 0.01)):
            path = _written(Path(folder) / f"{second}.parquet", ROWS, second)
            yield from _against_reading(name, path)
        once, thrice = str(Path(folder) / "0.0.parquet"), str(Path(folder) / "thrice.parquet")
        _repeated(once, thrice, 3)
        yield Figure("identify, peak memory at 5 M rows", _peak(once), "MiB")
        yield Figure("identify, peak memory at 15 M rows", _peak(thrice), "MiB")


def _written(path: Path, rows: int, second: float) -> str:
    """Seeded keys with a heavy tail, placed by the Java client and, for a share, by librdkafka's default."""
    rng = np.random.default_rng(11)
    ids = np.char.zfill((rng.zipf(1.2, rows) % 1_000_000).astype("U7"), 7)
    keys = pa.array(np.char.add("merchant_", ids).tolist())
    first = partitioner("kafka-java").hashed_lanes(keys, LANES)
    other = partitioner("librdkafka-consistent").hashed_lanes(keys, LANES)
    lanes = np.where(rng.random(rows) < second, other, first).astype(np.int32)
    pq.write_table(pa.table({"key": keys, "lane": lanes}), path)
    return str(path)


def _repeated(source: str, target: str, times: int) -> None:
    table = pq.read_table(source)
    with pq.ParquetWriter(target, table.schema) as writer:
        for _ in range(times):
            writer.write_table(table)


def _against_reading(name: str, path: str) -> Iterator[Figure]:
    seconds = best(
        5,
        reading=lambda: pq.read_table(path, columns=COLUMNS),
        ours=lambda: identify(open_data(path).batches(COLUMNS)),
    )
    found = identify(open_data(path).batches(COLUMNS))
    writers = " + ".join(f"{writer.partitioner} {writer.share:.2%}" for writer in found.writers) or found.verdict
    ratio = seconds["ours"] / seconds["reading"]
    yield Figure(f"identify, {name} ({writers})", ratio, "times reading", at_most=3)


def _peak(path: str) -> float:
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True)
    return float(done.stdout)

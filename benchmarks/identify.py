"""How many times the reading of 5 M rows of Parquet `identify` takes, and whether its memory stays flat."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Figure, best
from keylane import identify
from keylane.placement.partitioners import partitioner
from keylane.systems.files.data import open_data

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    writers = " + ".join(f"{writer.partitioner} {writer.share:.2%}" for writer in found.writers)
    ratio = seconds["ours"] / seconds["reading"]
    yield Figure(f"identify, {name} ({writers})", ratio, "times reading", at_most=3)


def _peak(path: str) -> float:
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True)
    return float(done.stdout)

"""How many records a second `verify` judges on one core, and whether its memory stays flat.

Every process has one core, a source of Parquet and a target as `route` makes it, of 32 lanes; it reads both sides,
recomputes every lane from the key, and judges by all rules. Seconds are of the processor, start-up included.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Figure
from keylane import Router, parse_contract

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS, KEYS, LANES = 250_000, 20_000, 32
CONTRACT = f"""
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: payments}}
spec: {{streams: [payments], lanes: {LANES}, key: {{fields: [merchant_id]}}, partitioner: kafka-java}}
"""
RUN = """
import sys, time
from benchmarks.timing import one_core
from benchmarks.verify import CONTRACT
from keylane import parse_contract
from keylane.pipelines.verify import verify
with one_core():
    found = verify(sys.argv[1], sys.argv[2], parse_contract(CONTRACT), engine="local")
assert found.ok and found.verdict.records == int(sys.argv[3]), found
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), int(peak.split()[1]) / 1024)
"""


def run() -> Iterator[Figure]:
    """One million records, then five."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, small = _judged(Path(folder) / "small", 4)
        yield Figure("verify, 1 M records, processor time", seconds, "s", at_most=10)
        yield Figure("verify, records a second and core", 4 * ROWS / seconds, "records/s", at_least=100_000)
        yield Figure("verify, peak memory at 1 M records", small, "MiB")
        seconds, large = _judged(Path(folder) / "large", 20)
        yield Figure("verify, 5 M records, a second and core", 20 * ROWS / seconds, "records/s", at_least=100_000)
        yield Figure("verify, peak memory at 5 M records", large, "MiB")
        yield Figure("verify, the one against the other", large / small, "times", at_most=1.3)


def _judged(folder: Path, files: int) -> tuple[float, float]:
    source, target = _written(folder, files)
    command = [sys.executable, "-c", RUN, str(source), str(target), str(files * ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    shutil.rmtree(folder)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def _written(folder: Path, files: int) -> tuple[Path, Path]:
    """Seeded payments, and the lanes that the router gives them; without manifests, so each file has its own order."""
    source, target = folder / "source", folder / "target"
    source.mkdir(parents=True)
    rng, router = np.random.default_rng(7), Router(parse_contract(CONTRACT))
    names = pa.array([f"merchant_{n:06d}" for n in range(KEYS)])
    offsets = np.zeros(LANES, np.int64)
    for number in range(files):
        name = f"part-{number:03d}.parquet"
        who = names.take(pa.array(rng.integers(0, KEYS, ROWS).astype(np.int32)))
        table = pa.table({"merchant_id": who, "amount": rng.gamma(2, 30, ROWS).round(2)})
        pq.write_table(table, source / name)
        lanes = router.lanes(table).to_numpy()
        for lane in range(LANES):
            rows = np.flatnonzero(lanes == lane)
            _write_lane(target, lane, number, name, table.take(rows), rows, int(offsets[lane]))
            offsets[lane] += len(rows)
    return source, target


def _write_lane(
    target: Path, lane: int, batch: int, name: str, records: pa.Table, rows: np.ndarray, first: int
) -> None:
    folder = target / "stream=payments" / f"lane={lane}"
    folder.mkdir(parents=True, exist_ok=True)
    source = pa.StructArray.from_arrays([pa.repeat(name, len(rows)), pa.array(rows)], names=["file", "row"])
    numbered = records.append_column("keylane_offset", pa.array(np.arange(first, first + len(rows))))
    pq.write_table(numbered.append_column("keylane_source", source), folder / f"part-{batch:010d}.parquet")

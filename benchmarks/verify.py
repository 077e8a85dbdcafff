"""How many records a second `verify` judges on one core, and whether its memory stays flat.

Every process has one core, a source of Parquet and a target as `route` makes it, of 32 lanes; it reads both sides,
recomputes every lane from the key, compares all contents, and judges by all rules; and the same without contents, which
says what they cost. Seconds are of the processor, start-up included.

Then the same of two topics on a broker of its own, records of 200 bytes with the headers that `route` writes: the
client's fetching, unpacking and its threads are in the seconds too, the broker's are not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Figure
from keylane import Router, parse_contract
from keylane.systems.broker import librdkafka_settings, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.broker import Cluster

ROWS, KEYS, LANES, PARTS = 250_000, 20_000, 32, 8
VALUE = bytes(range(200))
#: Of all records, on both sides; not long ago, or the broker would forget them.
TIME = int(time.time() * 1000)
CONTRACT = f"""
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: payments}}
spec: {{streams: [payments], lanes: {LANES}, key: {{fields: [key]}}, partitioner: kafka-java}}
"""
RUN = """
import sys, time
from benchmarks.timing import one_core
from benchmarks.verify import CONTRACT
from keylane import parse_contract
from keylane.pipelines.verify import verify
with one_core():
    values = sys.argv[4] == "values"
    found = verify(sys.argv[1], sys.argv[2], parse_contract(CONTRACT), engine="local", values=values)
assert not found.broken and found.verdict.records == int(sys.argv[3]), found
assert found.verdict.facts["compared"] == (int(sys.argv[3]) if values else 0), found.verdict.facts
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), int(peak.split()[1]) / 1024)
"""


def run() -> Iterator[Figure]:
    """One million records, then five."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, small, bare = _judged(Path(folder) / "small", 4, bare=True)
        yield Figure("verify, 1 M records, processor time", seconds, "s", at_most=10)
        yield Figure("verify, records a second and core", 4 * ROWS / seconds, "records/s", at_least=100_000)
        yield Figure("verify, without contents", 4 * ROWS / bare, "records/s", at_least=100_000)
        yield Figure("verify, contents against none", seconds / bare, "times")
        yield Figure("verify, peak memory at 1 M records", small, "MiB")
        seconds, large, _ = _judged(Path(folder) / "large", 20)
        yield Figure("verify, 5 M records, a second and core", 20 * ROWS / seconds, "records/s", at_least=100_000)
        yield Figure("verify, peak memory at 5 M records", large, "MiB")
        yield Figure("verify, the one against the other", large / small, "times", at_most=1.3)
    with running(heap="1g") as broker:
        yield from _topics(broker)


def _topics(broker: Cluster) -> Iterator[Figure]:
    """One million records, and, for the memory, three times as many in as many lanes."""
    source, target = _sent(broker, "small", 4)
    # The best of three: a broker that has just taken two million records is still busy with them.
    seconds, small = min(_command(source, target, 4 * ROWS) for _ in range(3))
    yield Figure("verify of topics, records a second and core", 4 * ROWS / seconds, "records/s", at_least=100_000)
    bare, _ = min(_command(source, target, 4 * ROWS, values=False) for _ in range(3))
    yield Figure("verify of topics, without contents", 4 * ROWS / bare, "records/s", at_least=100_000)
    yield Figure("verify of topics, contents against none", seconds / bare, "times")
    yield Figure("verify of topics, peak memory at 1 M records", small, "MiB")
    seconds, large = _command(*_sent(broker, "large", 12), 12 * ROWS)
    yield Figure("verify of topics, 3 M records, a second and core", 12 * ROWS / seconds, "records/s", at_least=100_000)
    yield Figure("verify of topics, peak memory at 3 M records", large, "MiB")
    yield Figure("verify of topics, the one against the other", large / small, "times", at_most=1.3)


def _judged(folder: Path, files: int, *, bare: bool = False) -> tuple[float, float, float]:
    """Seconds and memory, and where asked for the seconds without contents."""
    source, target = _written(folder, files)
    seconds, peak = _command(str(source), str(target), files * ROWS)
    without = _command(str(source), str(target), files * ROWS, values=False)[0] if bare else seconds
    shutil.rmtree(folder)
    return seconds, peak, without


def _command(source: str, target: str, records: int, *, values: bool = True) -> tuple[float, float]:
    """Seconds of the processor, and the most memory, of a process that verifies."""
    command = [sys.executable, "-c", RUN, source, target, str(records), "values" if values else "keys"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
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
        table = pa.table({"key": who, "amount": rng.gamma(2, 30, ROWS).round(2)})
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


def _sent(broker: Cluster, name: str, times: int) -> tuple[str, str]:
    """Seeded payments in a topic of eight partitions, and in the lanes that the router gives them."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    settings = {**librdkafka_settings(broker), "linger.ms": 50, "batch.size": 1_000_000, "acks": 1}
    source, target = f"{name}-raw", f"{name}-payments"
    admin = AdminClient({**librdkafka_settings(broker)})
    made = admin.create_topics([NewTopic(source, PARTS), NewTopic(target, LANES)])
    for one in made.values():
        one.result(30)
    rng, contract = np.random.default_rng(7), parse_contract(CONTRACT)
    router, producer = Router(contract), Producer(settings)
    headers = {"keylane.source": b"", "keylane.contract": contract.fingerprint[:16].encode(), "keylane.epoch": b"1"}
    next_offset = [0] * PARTS
    for _ in range(times):
        who = rng.integers(0, KEYS, ROWS)
        keys = [b"merchant_%06d" % n for n in who]
        lanes = router.lanes(pa.table({"key": keys})).to_pylist()
        for n, key, lane in zip(who.tolist(), keys, lanes, strict=True):
            part = n % PARTS
            headers["keylane.source"] = b"%s/%d/%d" % (source.encode(), part, next_offset[part])
            next_offset[part] += 1
            _produced(producer, source, VALUE, key, part, None, None, TIME)
            _produced(producer, target, VALUE, key, lane, None, None, TIME, headers)
    producer.flush()
    return f"kafka://{broker.bootstrap}/{source}", f"kafka://{broker.bootstrap}/{target}"


def _produced(producer: Any, *message: Any) -> None:
    while True:
        try:
            producer.produce(*message)
        except BufferError:
            producer.poll(0.05)
        else:
            return

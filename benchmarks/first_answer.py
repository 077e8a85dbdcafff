"""How long a profile of 400,000 rows of Parquet takes as a whole process, against Arrow's group-by of the same file.

And one of a topic with the same records, against a loop over librdkafka that counts its keys. Both sides are
processes of their own, one after the other, several times: the best of each counts. Processor time is what is
compared: the clock shows other users of the machine too, and is printed beside it.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import Figure, Spent

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 400_000
ROUNDS = 5
KEYLANE = str(Path(sys.executable).with_name("keylane"))
GROUP_BY = """
import sys
import pyarrow.parquet as pq
rows = pq.read_table(sys.argv[1], columns=["merchant"])
print(len(rows.group_by("merchant").aggregate([([], "count_all")])))
"""
COUNT_KEYS = """
import sys
from collections import Counter
from confluent_kafka import Consumer, TopicPartition
brokers, topic, records = sys.argv[1], sys.argv[2], int(sys.argv[3])
reader = Consumer({"bootstrap.servers": brokers, "group.id": "bare", "auto.offset.reset": "earliest"})
lanes = reader.list_topics(topic).topics[topic].partitions
reader.assign([TopicPartition(topic, lane, 0) for lane in lanes])
keys = Counter()
while keys.total() < records:
    keys.update(message.key() for message in reader.consume(10_000, 0.1))
print(len(keys))
"""
LANES = 12


def run() -> Iterator[Figure]:
    """Processor seconds of both, their ratio, and the clock; of the file, then of the topic."""
    with TemporaryDirectory() as folder:
        file = _written(Path(folder))
        yield from _of_topic(file)
        arrow = [sys.executable, "-c", GROUP_BY, file]
        profile = [KEYLANE, "profile", file, "--key", "merchant", "--time", "paid_at", "-o", "json"]
        rounds = [(_spent(arrow), _spent(profile)) for _ in range(ROUNDS)]
        forced = _spent([*profile, "--engine", "spark"])
    base, ours = (min((one[side] for one in rounds), key=lambda spent: spent.processors) for side in (0, 1))
    yield Figure("Arrow's group-by, whole process: processors", base.processors, "s")
    yield Figure("Arrow's group-by, whole process: clock", min(one.clock for one, _ in rounds), "s")
    yield Figure("profile, whole process: processors", ours.processors, "s", at_most=2)
    yield Figure("profile, whole process: clock", min(one.clock for _, one in rounds), "s")
    yield Figure("profile against the group-by, processors", ours.processors / base.processors, "times", at_most=3)
    yield Figure("profile on Spark, whole process: clock", forced.clock, "s")


def _of_topic(file: str) -> Iterator[Figure]:
    from keylane.systems.broker import running

    with running(heap="1g") as broker:
        _filled(broker.bootstrap, file)
        bare = [sys.executable, "-c", COUNT_KEYS, broker.bootstrap, "payments", str(ROWS)]
        profile = [KEYLANE, "profile", f"kafka://{broker.bootstrap}/payments", "-o", "json"]
        rounds = [(_spent(bare), _spent(profile)) for _ in range(ROUNDS)]
    base, ours = (min((one[side] for one in rounds), key=lambda spent: spent.processors) for side in (0, 1))
    yield Figure("a loop over librdkafka, whole process: processors", base.processors, "s")
    yield Figure("profile of a topic, whole process: processors", ours.processors, "s")
    yield Figure("profile of a topic, whole process: clock", min(one.clock for _, one in rounds), "s")
    yield Figure("profile of a topic against the loop, processors", ours.processors / base.processors, "times")


def _filled(brokers: str, file: str) -> None:
    """A topic with the rows of the file: the merchant is the key, the amount the value."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": brokers})
    client.create_topics([NewTopic("payments", LANES)], operation_timeout=60)["payments"].result(60)
    producer = Producer({"bootstrap.servers": brokers, "queue.buffering.max.messages": 1_000_000})
    rows = pq.read_table(file)
    for key, amount in zip(rows["merchant"].to_pylist(), rows["amount"].to_pylist(), strict=True):
        producer.produce("payments", b"%f" % amount, key=key)
    producer.flush()


def _written(folder: Path) -> str:
    """A file of payments: few merchants have most of them, and their times rise."""
    draw = random.Random(7)
    merchants = [f"merchant_{int(draw.paretovariate(0.9)) % 50_000:06d}" for _ in range(ROWS)]
    times = pa.array([1_794_700_800_000_000 + n * 200_000 for n in range(ROWS)], pa.timestamp("us", "UTC"))
    table = pa.table({"merchant": merchants, "paid_at": times, "amount": [draw.random() for _ in range(ROWS)]})
    pq.write_table(table, folder / "payments.parquet")
    return str(folder / "payments.parquet")


def _spent(command: list[str]) -> Spent:
    """Clock and processors of a process and all that it starts."""
    began = perf_counter()
    nothing = os.open(os.devnull, os.O_WRONLY)
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, 1)])
    _, status, used = os.wait4(pid, 0)
    os.close(nothing)
    if status:
        raise RuntimeError(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    processors = used.ru_utime + used.ru_stime
    return Spent(perf_counter() - began, processors, processors)

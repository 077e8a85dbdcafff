"""Owners in processes with live traffic: started, signalled, and what they wrote judged by the history checker.

    with OwnerRun(...) as run:
        run.start(); run.start()           # workers: `owner_worker`
        run.wait_for("owned", instance=0)
        ...
    verdict = judged(run.history())        # every record once, in order, with the state that belongs to it

Used by the short tests on SQLite and by the long one in network namespaces.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.owner_worker import chained

from keylane.history.check import check
from keylane.history.rows import rows
from keylane.systems.kafka.owner_terms import TERM, TermFilter, term_of
from keylane.systems.messages.headers import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from keylane.history.verdict import Verdict

PATIENCE = 90.0


class Output(NamedTuple):
    """A record of the output topic: where it stands, which record of the source it came from, who wrote it."""

    lane: int
    offset: int
    source: str
    source_offset: int
    term: int
    value: bytes


def term_in(headers: dict[str, bytes]) -> int:
    found = term_of(headers[TERM])
    assert found is not None, headers
    return found[1]


@dataclass
class OwnerRun:
    """Workers of one group over one topic, and a producer that never rests."""

    folder: Path
    brokers: str
    leases: str
    topic: str
    output: str
    lanes: int
    instances: int
    ttl: float
    fence: str = "transactions"
    group: str = "chains"
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    rate: float = 150.0
    _over: Event = field(default_factory=Event)

    def __enter__(self) -> Self:
        (self.folder / "events").mkdir(parents=True)
        self._traffic = Thread(target=self._send)
        self._traffic.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._traffic.join()
        for worker in self.workers.values():
            worker.kill()
            worker.wait()

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self.brokers, "enable.idempotence": True, "linger.ms": 5})
        number = 0
        while not self._over.is_set():
            for lane in range(self.lanes):
                producer.produce(self.topic, f"{number}/{lane}", f"k-{lane}", lane)
            producer.poll(0)
            number += 1
            self._over.wait(self.lanes / self.rate)
        assert producer.flush(PATIENCE) == 0

    def start(self, enter: Sequence[str] = (), instance: int | None = None) -> int:
        """Start a worker, in a namespace where its command is given, and return its pid."""
        about = {
            **{name: getattr(self, name) for name in ("brokers", "leases", "topic", "output", "instances", "ttl")},
            "group": self.group,
            "fence": self.fence,
            "folder": str(self.folder),
            "instance": instance,
        }
        command = [*enter, sys.executable, "-m", "tests.integration.owner_worker", json.dumps(about)]
        worker = subprocess.Popen(command)
        self.workers[worker.pid] = worker
        return worker.pid

    def end(self, pid: int, what: signal.Signals = signal.SIGKILL) -> int:
        """End a worker by a signal, and wait until it is gone."""
        worker = self.workers.pop(pid)
        worker.send_signal(what)
        return worker.wait(PATIENCE)

    def stop_in_batch(self, pid: int) -> None:
        """Let a worker stop itself in the middle of a batch, and return when it stands still."""
        (self.folder / f"stop-{pid}").touch()
        self.wait_until(lambda: _state(pid) == "T", f"{pid} stands still")

    def events(self) -> list[dict[str, Any]]:
        """What all workers have told, in the order of time."""
        lines = [line for path in (self.folder / "events").glob("*.jsonl") for line in path.read_text().splitlines()]
        return sorted((json.loads(line) for line in lines if line.endswith("}")), key=lambda event: event["at"])

    def wait_for(self, what: str, since: float = 0.0, **about: Any) -> dict[str, Any]:
        """The first event of this kind since some moment, when it is there."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [
                event
                for event in self.events()
                if event["event"] == what
                and event["at"] >= since
                and all(event.get(name) == value for name, value in about.items())
            ]
            return bool(found)

        self.wait_until(there, f"{what} {about}")
        return found[0]

    def wait_for_outputs(self) -> None:
        """Return when every lane has outputs of the owner that it has now."""
        reader = self._reader()
        try:
            ends = {lane: self._end(reader, lane) for lane in range(self.lanes)}
            self.wait_until(lambda: all(self._end(reader, lane) > end for lane, end in ends.items()), "outputs")
        finally:
            reader.close()

    def _end(self, reader: Consumer, lane: int) -> int:
        return int(reader.get_watermark_offsets(TopicPartition(self.output, lane), PATIENCE)[1])

    def owners(self) -> dict[int, dict[str, Any]]:
        """The last ownership of every id."""
        return {event["instance"]: event for event in self.events() if event["event"] == "owned"}

    def finish(self) -> None:
        """End the traffic, wait until every record of the source has its output, and stop the workers gracefully."""
        self._over.set()
        self._traffic.join()
        reader = self._reader()
        try:
            self.wait_until(lambda: self._written(reader), "all records written")
        finally:
            reader.close()
        for pid in list(self.workers):
            assert self.end(pid, signal.SIGTERM) == 0

    def _written(self, reader: Consumer) -> bool:
        """Whether the last record of every lane is among the outputs: read from their last hundred."""
        for lane in range(self.lanes):
            end = reader.get_watermark_offsets(TopicPartition(self.topic, lane), PATIENCE)[1]
            high = self._end(reader, lane)
            last = [one.source_offset for one in self._read(reader, self.output, lane, max(0, high - 200), high)]
            if end and end - 1 not in last:
                return False
        return True

    def outputs(self, raw: bool = False) -> tuple[list[Output], TermFilter]:
        """Every output that a reader accepts; raw: every record, whoever wrote it."""
        reader, fence = self._reader(), TermFilter()
        try:
            found = []
            for lane in range(self.lanes):
                low, high = reader.get_watermark_offsets(TopicPartition(self.output, lane), PATIENCE)
                found += self._read(reader, self.output, lane, low, high, None if raw else fence)
        finally:
            reader.close()
        return found, fence

    def sources(self) -> dict[int, list[bytes]]:
        """The values of every lane of the source."""
        reader = self._reader()
        try:
            out = {}
            for lane in range(self.lanes):
                low, high = reader.get_watermark_offsets(TopicPartition(self.topic, lane), PATIENCE)
                out[lane] = [message.value() for message in messages_of(reader, self.topic, lane, low, high)]
            return out
        finally:
            reader.close()

    def _reader(self) -> Consumer:
        return reader_of(self.brokers)

    @staticmethod
    def _read(
        reader: Consumer, topic: str, lane: int, low: int, high: int, fence: TermFilter | None = None
    ) -> list[Output]:
        out = []
        for message in messages_of(reader, topic, lane, low, high):
            headers = dict(message.headers() or ())
            if SOURCE not in headers or (fence is not None and not fence.accepts(message)):
                if fence is not None and SOURCE not in headers:
                    fence.judged(message)
                continue
            source, _, offset = headers[SOURCE].decode().rpartition("/")
            out.append(Output(lane, message.offset(), source, int(offset), term_in(headers), message.value()))
        return out

    @staticmethod
    def wait_until(is_true: Any, what: str) -> None:
        until = time.monotonic() + PATIENCE
        while not is_true():
            assert time.monotonic() < until, f"not within {PATIENCE} s: {what}"
            time.sleep(0.05)


def reader_of(brokers: str) -> Consumer:
    """A reader of committed records that is in no group."""
    own = {"group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True}
    return Consumer({"bootstrap.servers": brokers, "isolation.level": "read_committed", **own})


def messages_of(reader: Consumer, topic: str, lane: int, low: int, high: int) -> list[Any]:
    """The records of a range, up to the end of the partition: the last offsets may be marks of transactions."""
    out: list[Any] = []
    if low >= high:
        return out
    reader.assign([TopicPartition(topic, lane, low)])
    while True:
        for message in reader.consume(500, 0.2):
            error, offset = message.error(), message.offset() or 0
            if error is None:
                out.append(message)
                if offset >= high - 1:
                    return out
            elif error.name() == "_PARTITION_EOF":
                return out


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  a file of the system, read once
        return file.read().rpartition(")")[2].split()[0]


def pause(pid: int) -> None:
    """SIGSTOP: everything stays open, nothing moves."""
    os.kill(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    """SIGCONT."""
    os.kill(pid, signal.SIGCONT)


def history(topic: str, sources: dict[int, list[bytes]], outputs: list[Output]) -> list[pa.RecordBatch]:
    """What was sent, what was accepted, and who owned each lane by the log: from its first record to its last."""
    made = [
        rows("send", writer=f"{topic}/{lane}", seq=list(range(len(values))), key=f"{lane}".encode(), outcome="ok")
        for lane, values in sources.items()
        if values
    ]
    made.append(
        rows(
            "read",
            writer=[one.source for one in outputs],
            seq=[one.source_offset for one in outputs],
            key=[one.source.rpartition("/")[2].encode() for one in outputs],
            lane=[one.lane for one in outputs],
            offset=[one.offset for one in outputs],
            epoch=[one.term for one in outputs],
        )
    )
    spans: dict[tuple[int, int], list[int]] = {}
    for one in outputs:
        spans.setdefault((one.lane, one.term), []).append(one.offset)
    owns = [(lane, term, min(at), max(at) + 1) for (lane, term), at in spans.items()]
    made.append(
        rows(
            "own",
            lane=[one[0] for one in owns],
            epoch=[one[1] for one in owns],
            who=[f"term {one[1]}" for one in owns],
            t0=[one[2] for one in owns],
            t1=[one[3] for one in owns],
        )
    )
    return made


def judged(topic: str, sources: dict[int, list[bytes]], outputs: list[Output]) -> Verdict:
    """The verdict of the history checker: exactly once."""
    return check(history(topic, sources, outputs))


def wrong_states(sources: dict[int, list[bytes]], outputs: list[Output]) -> int:
    """Outputs that are not what the records of their lane, from the first on, make of an empty state."""
    expected = {}
    for lane, values in sources.items():
        state: dict[str, Any] = {}
        expected[lane] = [chained(state, value) for value in values]
    return sum(one.value != expected[one.lane][one.source_offset] for one in outputs)

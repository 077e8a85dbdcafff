"""An owner of lanes in a process of its own, to be killed and paused: `python -m tests.integration.owner_worker JSON`.

Its step chains the records of a lane: each output has the number of records so far and a checksum over all of them, so
that a state that lost, repeated or swapped one record shows in every output behind it. Where a file `stop-PID` is there
the step stops its own process in the middle of a batch: behind the last look at the lease, before what it made is
written.
Events go to a file, a line of JSON each, with the clock that all processes of the machine share.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keylane.errors import KeylaneError
from keylane.groups.ownership import Terms
from keylane.systems.kafka import owner_writers
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.owner import InputRecord, JsonStep, LaneOwner, OutputRecord, OwnerPlan
from keylane.systems.leases import open_leases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Chain(JsonStep):
    """The number of records of a lane, and a checksum over all of them."""

    def __init__(self, flag: Path) -> None:
        self._flag = flag

    def apply(self, state: dict[str, Any], record: InputRecord) -> Iterable[OutputRecord]:
        if self._flag.exists():
            self._flag.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        return [OutputRecord(record.key, chained(state, record.value or b""))]


def chained(state: dict[str, Any], value: bytes) -> bytes:
    """The output behind the next record of a lane."""
    state["count"] = state.get("count", 0) + 1
    state["sum"] = zlib.crc32(value, state.get("sum", 0))
    return json.dumps(state, sort_keys=True).encode()


class Unfenced(owner_writers.HeaderWriter):
    """The planted bug: no fence at all, and positions that anybody commits."""

    def begin(self) -> None:
        self._producer = owner_writers._producer(self.duty, self._listener, {})

    def positions(self, consumer: Any) -> dict[int, int]:
        return owner_writers.TransactionalWriter(self.duty).positions(consumer)

    def write(self, records: Sequence[owner_writers.Produced], positions: Mapping[int, int], consumer: Any) -> None:
        from confluent_kafka import TopicPartition

        super().write(records, positions, consumer)
        consumer.commit(
            offsets=[TopicPartition(self.duty.topic, lane, at) for lane, at in positions.items()], asynchronous=False
        )


def main() -> None:
    given = json.loads(sys.argv[1])
    owner_writers.WRITERS["none"] = Unfenced
    folder = Path(given["folder"])
    log = (folder / "events" / f"{os.getpid()}.jsonl").open("a", buffering=1)

    def tell(what: str, about: dict[str, Any]) -> None:
        log.write(json.dumps({"event": what, "pid": os.getpid(), "at": time.monotonic(), **about}) + "\n")

    plan = OwnerPlan(
        kafka_access(given["brokers"]),
        given["group"],
        given["topic"],
        given["output"],
        folder / "snapshots",
        Terms(given["ttl"]),
        given.get("instance"),
        given["fence"],
        batch=given.get("batch", 50),
        snapshot_seconds=given.get("snapshot_seconds", 1.0),
    )
    try:
        with open_leases(given["leases"], given["group"], given["instances"], given["ttl"]) as store:
            tell("started", {})
            LaneOwner(plan, Chain(folder / f"stop-{os.getpid()}"), store, tell=tell).run_until_signalled()
    except KeylaneError as error:
        tell("failed", {"why": str(error)})
        sys.exit(str(error))
    tell("ended", {})


if __name__ == "__main__":
    main()

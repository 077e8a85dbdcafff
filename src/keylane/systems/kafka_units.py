"""How a batch is divided among writers: by source partition or by lane; and the numbers that say which units are there.

    by part    a unit is a partition of the source topic: transaction and group `keylane-ROUTE-pN`
    by lane    a unit is a lane: transaction `keylane-ROUTE-W` for writer W of so many, one group `keylane-ROUTE`

By part nothing is shuffled, and every writer may write every lane: records of one partition stay in order, those of two
interleave as they come. By lane a lane has one writer, and its records stand sorted by partition and offset; a batch
costs each lane one transaction marker, by part one for each partition that has records for it. A topic is divided by
part unless a number of writers is given; files, which are in one order, are divided by lane.

What a writer does with its units: `kafka_writer`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from keylane.systems.folders import no_probe
from keylane.systems.kafka_cluster import is_permanent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    import pyarrow as pa

    from keylane.systems.folders import Probe
    from keylane.systems.kafka_access import KafkaAccess

__all__ = ["PERMANENT", "Division", "Units", "WriteError", "committed_numbers"]

PERMANENT: Final = "not to be tried again"


class WriteError(Exception):
    """A transaction that did not happen, or of which nobody knows. Its text crosses from a worker to the driver."""


@dataclass(frozen=True, slots=True)
class Division:
    """A batch's topics with their lanes in order (a slot is a lane's number in it), and its writers; 0: by part.

    `headers` are those that every record of the batch gets beside its own.
    """

    access: KafkaAccess
    route: str
    batch: int
    topics: tuple[tuple[str, int], ...]
    writers: int
    headers: tuple[tuple[str, bytes], ...] = ()
    probe: Probe = field(default=no_probe)

    def slots(self) -> list[tuple[str, int]]:
        """Topic and lane of each slot."""
        return [(topic, lane) for topic, lanes in self.topics for lane in range(lanes)]

    def units(self, first: pa.RecordBatch) -> Units:
        """The units of the writer that gets these rows."""
        slots, name = self.slots(), f"keylane-{self.route}"
        if not self.writers:
            part = int(first.column("part")[0].as_py())
            # The number needs a place that the cluster knows; the group is the partition's own, so any will do.
            return Units(f"p{part}", f"{name}-p{part}", f"{name}-p{part}", {-1: slots[0]}, range(len(slots)), part)
        writer = int(first.column("slot")[0].as_py()) % self.writers
        own = range(writer, len(slots), self.writers)
        return Units(str(writer), f"{name}-{writer}", name, {slot: slots[slot] for slot in own}, own)


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one writer: its names, where the numbers of its units are kept, and which slots it may write.

    `part` is set when there is one unit, the partition of that number; else each slot is a unit.
    """

    writer: str
    name: str
    group: str
    places: dict[int, tuple[str, int]]
    slots: range
    part: int | None = None

    def slots_of(self, units: Iterable[int]) -> list[int]:
        """The slots of some units."""
        return [slot for unit in units for slot in (self.slots if self.part is not None else (unit,))]

    def counted(self, counts: np.ndarray[Any, Any]) -> dict[int, int]:
        """Records by unit, out of records by slot."""
        if self.part is not None:
            return {-1: int(counts.sum())}
        return {slot: int(counts[slot]) for slot in self.slots}

    def check(self, batch: pa.RecordBatch) -> None:
        """Refuse rows of another unit: a task that read two partitions would write one of them unfenced."""
        if self.part is not None:
            parts = batch.column("part").to_numpy()
            if parts.min() != self.part or parts.max() != self.part:
                raise WriteError(f"{PERMANENT}: a task has records of two partitions, and writes for {self.part} only")

    def shown(self, unit: int) -> str:
        """A unit in words."""
        return f"partition {self.part}" if self.part is not None else "{} lane {}".format(*self.places[unit])


def committed_numbers(access: KafkaAccess, units: Units, seconds: float) -> tuple[dict[int, tuple[int, str]], Any]:
    """The number and the count that each unit has committed; and the group, as a transaction wants it named.

    Read at `read_committed`, which waits for numbers that a transaction of another name still holds open.
    """
    from confluent_kafka import Consumer, TopicPartition

    own = {"group.id": units.group, "isolation.level": "read_committed", "enable.auto.commit": False}
    settings = access.librdkafka(**own)
    for name in ("transaction.timeout.ms", "compression.type", "linger.ms", "batch.size"):
        settings.pop(name, None)
    consumer = Consumer(settings)
    try:
        found = _asked(consumer, [TopicPartition(*place) for place in units.places.values()], seconds)
        numbers = {unit: (one.offset, one.metadata or "") for unit, one in zip(units.places, found, strict=True)}
        return numbers, consumer.consumer_group_metadata()
    finally:
        consumer.close()


def _asked(consumer: Any, lanes: Sequence[Any], seconds: float) -> Sequence[Any]:
    """Ask until there is an answer: right after a start, a broker does not know yet that it is the one to ask."""
    from confluent_kafka import KafkaException

    until, found = time.monotonic() + seconds, []
    while True:
        try:
            found = list(consumer.committed(lanes, timeout=max(1.0, until - time.monotonic())))
            failed = next((KafkaException(one.error) for one in found if one.error is not None), None)
        except KafkaException as error:
            failed = error
        if failed is None:
            return found
        if time.monotonic() > until or is_permanent(failed):
            raise failed
        time.sleep(0.1)

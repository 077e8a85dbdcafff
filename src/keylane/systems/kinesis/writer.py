"""The work of one task of a route into a stream: rows of some lanes, in the source's order, into PutRecords.

A row is as `spark.messages.WRITER_COLUMNS` has it, or a dead letter with the same columns. A lane has one writer, and
records of one key that follow each other become one aggregated record: so a request, which has one record of a key at
most, still carries many of a hot one. They have one hash key, so no consumer of any shard discards them, whatever
splits come between. Requests, their limits and what becomes of refused records: `put.deliver`.

The service has no transactions and knows no producer: what a try that failed has written stays. Every record names its
source, so a second one shows, and each try after the first says so in the tag `keylane.attempt`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keylane.contract.shards import SPACE
from keylane.errors import DeliveryError, KeylaneError
from keylane.systems.kinesis.access import masked
from keylane.systems.kinesis.aggregated import packed
from keylane.systems.kinesis.messages import TIME, user_of
from keylane.systems.kinesis.put import PutEntry, deliver
from keylane.systems.messages.headers import ATTEMPT, DEAD_PREFIX, SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from keylane.systems.delivery import OutMessage
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.kinesis.aggregated import UserRecord

#: Bytes of an aggregated record, as the service's own producer has them by default.
AGGREGATE_BYTES: Final = 51_200
#: Records of a window: all of it is written before the next is looked at.
WINDOW: Final = 10_000
#: A request of some records that are waited for is tried for so long, and no longer: some minutes.
TRIES: Final = 40
#: Magic, checksum, indexes and lengths around a record.
_FRAMING: Final = 64
_REPORTED: Final = pa.schema([("slot", pa.int32()), ("records", pa.int64())])


class WriteError(Exception):
    """The error of a writer, which reaches the driver as its text: the batch is tried again."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A lane by its place in the batch: the stream, the lane's number there, and its first and last hash key."""

    stream: str
    lane: int
    bounds: tuple[int, int]
    record_bytes: int


@dataclass(frozen=True, slots=True)
class Writing:
    """A batch's slots in order, and the tags that each of its records gets.

    `source` is the stream or topic that the records came from; empty when their positions are spelled already.
    `hash_keys` are those that the contract has for keys.
    """

    access: KinesisAccess
    slots: tuple[Slot, ...]
    tags: tuple[tuple[str, str], ...]
    attempt: int
    source: str = ""
    hash_keys: Mapping[bytes, int] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch], retries: int) -> Iterator[pa.RecordBatch]:
        """Write all rows; how many went to each slot. `retries` counts the earlier runs of the same task."""
        try:
            counts = self._write(batches, self.attempt + retries)
        except KeylaneError as error:
            raise WriteError(f"keylane.WriteError: {str(error).splitlines()[0]}") from None
        yield pa.RecordBatch.from_pydict({"slot": list(counts), "records": list(counts.values())}, schema=_REPORTED)

    def _write(self, batches: Iterable[pa.RecordBatch], attempt: int) -> Counter[int]:
        client, counts, timing = self.access.client(tries=1), Counter[int](), self.access.timing
        tags = (*self.tags, *([(ATTEMPT, str(attempt))] if attempt > 1 else []))
        for batch in batches:
            for start in range(0, batch.num_rows, WINDOW):
                rows = batch.slice(start, WINDOW).to_pylist()
                entries = list(self._entries(rows, tags))
                try:
                    deliver(client, entries, tries=TRIES, sleep=timing.sleep, clock=timing.now)
                except DeliveryError as error:
                    first = error.records[0] if error.records else None
                    why = first.error if first is not None else str(error)
                    raise WriteError(
                        f"keylane.WriteError: {len(error.records)} records were not written, the first to "
                        f"{first.stream if first else ''}: {masked(why)}"
                    ) from None
                counts.update(row["slot"] for row in rows)
        return counts

    def _entries(self, rows: Sequence[Mapping[str, Any]], tags: Sequence[tuple[str, str]]) -> Iterator[PutEntry]:
        """Aggregated records in the order of their first; each of one key."""
        open_: dict[tuple[int, str], tuple[list[UserRecord], int]] = {}
        made: list[tuple[int, list[UserRecord]]] = []
        for row in rows:
            slot = self.slots[row["slot"]]
            user = self._user(row, slot, tags)
            size = _size(user)
            # A key may stand for several here, such as null: each has the same hash key, and one order.
            key = (row["slot"], user.partition_key)
            known = open_.get(key)
            if known is None or known[1] + size > AGGREGATE_BYTES or known[0][0].hash_key != user.hash_key:
                known = [], 0
                made.append((row["slot"], known[0]))
            known[0].append(user)
            open_[key] = known[0], known[1] + size
        for number, (at, users) in enumerate(made):
            yield _entry(number, self.slots[at], users)

    def _user(self, row: Mapping[str, Any], slot: Slot, tags: Sequence[tuple[str, str]]) -> UserRecord:
        letter = row["letter"]
        given = row if letter is None else letter
        headers = [(one["key"], one["value"]) for one in given["headers"] or ()]
        time = [] if given["time"] is None else [(TIME, str(given["time"]))]
        spelled = row["source"].decode() if row["source"] else f"{self.source}/{row['part']}/{row['place']}"
        own = [(SOURCE, spelled), *time, *tags]
        hash_key = self.hash_keys.get(given["key"]) if self.hash_keys and letter is None else None
        user = user_of(given["key"], given["value"], headers, own, slot.bounds, hash_key)
        if letter is not None and _size(user) + _FRAMING > slot.record_bytes:
            # A dead letter is written in any case, without what is too large: it has a reason and a position.
            about = (f"{DEAD_PREFIX}value.bytes", str(len(user.data)).encode())
            user = user_of(given["key"], None, [*headers, about], own, slot.bounds)
        return user


def _size(user: UserRecord) -> int:
    tags = sum(len(name.encode()) + len((text or "").encode()) + 8 for name, text in user.tags)
    return 2 * len(user.partition_key.encode()) + len(user.data) + tags + 48


def _entry(number: int, slot: Slot, users: Sequence[UserRecord]) -> PutEntry:
    first, data = users[0], packed(users)
    arguments: dict[str, Any] = {"StreamName": slot.stream, "Data": data, "PartitionKey": first.partition_key}
    if first.explicit_hash_key is not None:
        arguments["ExplicitHashKey"] = str(first.explicit_hash_key)
    size = len(data) + len(first.partition_key.encode())
    if size > slot.record_bytes:
        raise WriteError(
            f"keylane.WriteError: not to be tried again: a record of {size} bytes is larger than {slot.stream} takes, "
            f"{slot.record_bytes}"
        )
    return PutEntry(number, slot.lane, arguments, size)


def _plain_entry(number: int, message: OutMessage) -> PutEntry:
    """A message as it is; one with headers, or with a key that the service does not take, has tags for these."""
    user = user_of(message.key, message.value, message.headers, (), (0, SPACE - 1))
    data = packed([user]) if user.tags else user.data
    arguments: dict[str, Any] = {"StreamName": message.stream, "Data": data, "PartitionKey": user.partition_key}
    if user.explicit_hash_key is not None:
        arguments["ExplicitHashKey"] = str(user.explicit_hash_key)
    return PutEntry(number, None, arguments, len(data) + len(user.partition_key.encode()))


@dataclass(frozen=True, slots=True)
class ShardBatches:
    """The batches of a pipeline as records of streams, at least once, those of a key in their order.

    The service has no transactions: a batch that was ended on its way is written again as a whole, and readers know a
    message that comes twice by what is in it. Into topics it is exactly once: `kafka.transactions`.
    """

    access: KinesisAccess

    @property
    def exactly_once(self) -> bool:
        """A batch that is written again is not noticed."""
        return False

    def next_batch(self) -> None:
        """The service keeps no number beside records."""
        return

    def write(self, batch: int, messages: Sequence[OutMessage]) -> None:  # noqa: ARG002  it is kept nowhere
        """Request by request; a shard that is full is waited for."""
        entries = [_plain_entry(number, message) for number, message in enumerate(messages)]
        try:
            # What was sent is not sent again by the client: whether it came through would not be known.
            deliver(self.access.client(tries=1), entries)
        except DeliveryError as error:
            records = [replace(one, error=masked(one.error)) for one in error.records]
            raise DeliveryError(masked(str(error)), records, error.waiting) from None

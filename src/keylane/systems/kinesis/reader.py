"""The records of a shard in their order: as the service has them, with what is inside of aggregated ones.

    Cursor        where a reader of a shard is: records before it, and the sequence number of the last one
    ShardReader   goes on from a cursor, a turn at a time, until it has all there is, or the shard has ended
    ReadRecord    a user record; its position is its number among those of its shard

Rule: a position is counted from the first record that the service still has when reading begins, so it is the same for
everyone who begins at the same record: a sequence number has more bits than any column, and says nothing of how many
lie between two. Sequence numbers are kept beside it, in a header, so that a position that means another record shows.

Worked example: an aggregated record of three, then a plain one: positions 0, 1, 2 and 3, of two sequence numbers. A
cursor stands only between records of the service: behind the first of these it is 3.

Splits and merges close a shard: its last record is followed by an answer without an iterator. `shards.readable` says
which shards may be read then. Limits of the service are kept: so many reads of a shard in a second, and longer pauses
when it refuses one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError
from keylane.systems.kinesis.access import calling, code_of
from keylane.systems.kinesis.aggregated import UserRecord, is_discarded, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.keyspace.layout import Shard
    from keylane.systems.kinesis.access import KinesisAccess

#: What the service allows of one shard, for all its readers together.
READS_A_SECOND: Final = 5
#: Records of one answer at most.
AT_ONCE: Final = 10_000
#: Pauses after a refusal, and how long all of them may take together.
PAUSE_SECONDS: Final = (0.25, 5.0)
SILENT_SECONDS: Final = 120.0
THROTTLED: Final = "ProvisionedThroughputExceededException"
_EXPIRED: Final = "ExpiredIteratorException"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Between two records of a shard: `records` user records before it, and the last one's `sequence` number.

    `ended`: the shard is closed, and this is its end.
    """

    records: int = 0
    sequence: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A user record with its position; `sub` is its number in an aggregated record, None where it is none.

    `discarded`: a consumer of the shard would drop the aggregated record that it stands in.
    """

    position: int
    sequence: str
    sub: int | None
    arrived_ms: int
    user: UserRecord
    discarded: bool = False

    @property
    def size(self) -> int:
        """Bytes of key and data."""
        return len(self.user.partition_key.encode()) + len(self.user.data)


@dataclass(slots=True)
class ShardReader:
    """Reads one shard. `caught_up` is whether the last turn saw all that the writers have written.

    `since_ms` is the time at which a cursor without a sequence number begins; None: with the oldest record.
    """

    access: KinesisAccess
    stream: str
    shard: Shard
    cursor: Cursor = field(default_factory=Cursor)
    since_ms: int | None = None
    caught_up: bool = False
    _iterator: str | None = None
    _last_read: float | None = None

    def turn(self, most: int = AT_ONCE) -> list[ReadRecord]:
        """The next records, none or some; a record of the service is taken whole, so there may be more than asked."""
        if self.cursor.ended:
            self.caught_up = True
            return []
        most = max(1, min(AT_ONCE, most))
        answer = self._answer(most)
        self._iterator = answer.get("NextShardIterator")
        records = answer["Records"]
        taken = [one for record in records for one in self._taken(record)]
        few = len(records) < most
        # A closed shard is at its end only where there is no iterator: until then an empty answer means nothing.
        self.caught_up = few and not self.shard.closed and not int(answer.get("MillisBehindLatest") or 0)
        if self._iterator is None:
            self.cursor, self.caught_up = replace(self.cursor, ended=True), True
        return taken

    def turns(self, until_ms: int | None = None) -> Iterator[list[ReadRecord]]:
        """All there is, or what arrived up to a time; ends when it has caught up."""
        self.caught_up = False
        while not self.caught_up:
            taken = self.turn()
            if until_ms is not None and taken and taken[-1].arrived_ms > until_ms:
                yield [one for one in taken if one.arrived_ms <= until_ms]
                return
            if taken:
                yield taken

    def _taken(self, record: dict[str, Any]) -> Iterator[ReadRecord]:
        inside = parsed(record["Data"])
        arrived = int(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
        # A stream that does not heed keys may show none; a key that was sent has a character at least.
        users = [UserRecord(record.get("PartitionKey") or "", record["Data"])] if inside is None else inside
        discarded = inside is not None and is_discarded(inside, self.shard.start, self.shard.end)
        for number, user in enumerate(users):
            at = self.cursor.records + number
            sub = None if inside is None else number
            yield ReadRecord(at, record["SequenceNumber"], sub, arrived, user, discarded)
        self.cursor = Cursor(self.cursor.records + len(users), record["SequenceNumber"])

    def _answer(self, most: int) -> dict[str, Any]:
        """One answer of the service; what it refuses for now is asked again."""
        client, pause, waited, old = self.access.client(), PAUSE_SECONDS[0], 0.0, 0
        while True:
            self._wait_turn()
            try:
                with _calling(self.access, self.stream, THROTTLED, _EXPIRED):
                    if self._iterator is None:
                        self._iterator = self._started(client)
                    return dict(client.get_records(ShardIterator=self._iterator, Limit=most))
            except RefusedError as refused:
                if refused.code == _EXPIRED:
                    self._iterator, old = None, old + 1
                    # A new one that is old at once is not worth a try without a pause.
                    if old <= 1:
                        continue
                if waited > SILENT_SECONDS:
                    taken = "other readers of the stream take the limit: fewer of them, or enhanced fan-out for those"
                    hint = "" if refused.code == _EXPIRED else taken
                    what = f"shard {self.shard.id} of {self.stream} refused every read for {waited:.0f} s"
                    raise BrokerError.of(what, got=refused.code, hint=hint) from None
            self.access.timing.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, PAUSE_SECONDS[1])

    def _wait_turn(self) -> None:
        """Leave as much time between two reads as the service asks for."""
        timing = self.access.timing
        if self._last_read is not None:
            left = 1 / READS_A_SECOND - (timing.now() - self._last_read)
            if left > 0:
                timing.sleep(left)
        self._last_read = timing.now()

    def _started(self, client: Any) -> str:
        asked: dict[str, Any] = {"StreamName": self.stream, "ShardId": self.shard.id}
        asked["ShardIteratorType"] = "TRIM_HORIZON"
        if self.cursor.sequence:
            asked |= {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": self.cursor.sequence,
            }
        elif self.since_ms is not None:
            asked |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": self.since_ms / 1000}
        return str(client.get_shard_iterator(**asked)["ShardIterator"])


class RefusedError(Exception):
    """The service refused a call with a code that the caller knows what to do about."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def _calling(access: KinesisAccess, stream: str, *codes: str) -> Iterator[None]:
    """As `calling`, but errors with these codes are `RefusedError`."""
    with calling(access, stream):
        try:
            yield
        except Exception as raised:
            if (code := code_of(raised)) in codes:
                refused = RefusedError(code)
            else:
                raise
        else:
            return
    raise refused from None

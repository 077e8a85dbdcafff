"""A contract in boto3: the arguments that put a record on the shard the contract says, and many records put at once.

Needs no library itself: `put_arguments` returns what `put_record` takes, and `put_records` is given the client. What a
route writes is made in `writer`, and sent by `deliver`. Reading: `reader`.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import DeliveryError, UnplacedError, UsageError
from keylane.keyspace.hash_keys import checked_partition_key
from keylane.numbers import count, plural
from keylane.records import Reason, Undelivered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from keylane.router import Router

#: What one request may hold. The service takes 10 MiB; 5 was the limit for long, and still is that of stand-ins.
MOST_RECORDS: Final = 500
MOST_BYTES: Final = 5 * 2**20
#: Records that are looked through for the next request.
WINDOW: Final = 10_000
#: What one record may hold, key included, unless the stream allows more.
RECORD_BYTES: Final = 2**20
#: Requests without one record taken by a lane after which the rest is given up, and the pauses between two.
TRIES: Final = 10
SHORTEST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
#: So many records are in the message of an error; all are in the error.
NAMED: Final = 3


def put_arguments(
    router: Router, record: Mapping[str, Any], data: bytes, position: int | None = None
) -> dict[str, Any]:
    """`StreamName`, `Data`, `PartitionKey` and, where the key's own hash would land elsewhere, `ExplicitHashKey`.

    The explicit hash key is that of the router's `hash_keys`, otherwise the first of the lane's range; as decimal text
    without leading zeros, the form the service takes. Shards are those of the router's key space: of equal width, as a
    new stream has them, unless it has another.
    """
    placement = router.placed(record, position)
    lane = placement.lane
    if placement.routing_key is None:
        raise UnplacedError("Kinesis needs a partition key, and this record has none", Reason.NULL_KEY)
    if lane is None:
        raise UnplacedError(f"no lane: {placement.why[-1]}", Reason.NO_POSITION)
    arguments = {"StreamName": placement.stream, "Data": data, "PartitionKey": _partition_key(placement.routing_key)}
    explicit = router.explicit_hash_key(record)
    if explicit is not None:
        return {**arguments, "ExplicitHashKey": str(explicit)}
    shards = router.key_space_in(placement.stream)
    if router.facts.name == "kinesis-md5" and lane == router.partitioner.lane(placement.routing_key, shards):
        return arguments
    return {**arguments, "ExplicitHashKey": str(shards.range_of(lane)[0])}


@dataclass(frozen=True, slots=True)
class KinesisPosition:
    """Where the service put a record."""

    stream: str
    shard: str
    sequence: str


def put_records(
    client: Any,
    router: Router,
    records: Iterable[tuple[Mapping[str, Any], bytes]],
    *,
    record_bytes: int = RECORD_BYTES,
    tries: int = TRIES,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[KinesisPosition]:
    """Put records of (record, data) through boto3's `put_records`, each where the contract says, in its key's order.

    The service may refuse some records of a request and take the others, and promises no order within one. So a request
    has one record of a key at most, and what was refused goes first in the next: no record overtakes one of its key. A
    shard that is full is waited for, and the others go on; when `tries` requests in a row got nothing into it,
    DeliveryError names every record that was not written. All records are looked at before the first is sent, and one
    that has no lane, or is too large, is an error with nothing sent.
    """
    waiting = [PutEntry.of(router, i, record, data, record_bytes) for i, (record, data) in enumerate(records)]
    written = deliver(client, waiting, tries=tries, sleep=sleep, clock=clock)
    return [written[i] for i in range(len(written))]


def deliver(
    client: Any,
    waiting: list[PutEntry],
    *,
    tries: int = TRIES,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[int, KinesisPosition]:
    """Send all entries, in the order of each key, and return where each was put, by its number.

    A lane that refuses records is left alone for a while, each time for longer, and the others go on meanwhile.
    """
    written: dict[int, KinesisPosition] = {}
    resting: dict[tuple[str, int | None], float] = {}
    fruitless: Counter[tuple[str, int | None]] = Counter()
    while waiting:
        now = clock()
        resting = {place: until for place, until in resting.items() if until > now}
        batch = _batch(waiting, resting)
        if not batch:
            first = min(resting.values())
            sleep(first - now)
            resting = {place: until for place, until in resting.items() if until > first}
            continue
        refused = _request(client, batch, waiting, written)
        taken = {one.number for one in batch} - refused.keys()
        waiting[:WINDOW] = [one for one in waiting[:WINDOW] if one.number not in taken]
        in_ = {one.place for one in batch if one.number in taken}
        now = clock()
        for place in {one.place for one in batch if one.number in refused}:
            fruitless[place] = 0 if place in in_ else fruitless[place] + 1
            resting[place] = now + min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** fruitless[place])
            if fruitless[place] >= tries:
                raise _not_written(_left(waiting, refused))
    return written


@dataclass(frozen=True, slots=True)
class PutEntry:
    """A record on its way: its number among those given, its lane, its bytes, and the arguments of the request."""

    number: int
    lane: int | None
    arguments: dict[str, Any]
    size: int

    @classmethod
    def of(cls, router: Router, number: int, record: Mapping[str, Any], data: bytes, most: int) -> PutEntry:
        """A record that is on the lane that the contract says."""
        arguments = put_arguments(router, record, data, number)
        size = len(data) + len(arguments["PartitionKey"].encode())
        if size > most:
            hint = "a smaller record, or record_bytes= as the stream's own limit"
            got = f"record {number}: {size} bytes"
            raise UsageError.of("a record is larger than the stream takes", got=got, allowed=f"{most} bytes", hint=hint)
        return cls(number, router.place(record, number).lane, arguments, size)

    @property
    def key(self) -> tuple[str, str]:
        """What keeps an order."""
        return self.arguments["StreamName"], self.arguments["PartitionKey"]

    @property
    def place(self) -> tuple[str, int | None]:
        """What has a limit."""
        return self.arguments["StreamName"], self.lane

    def lost(self, error: str) -> Undelivered:
        """The same as a record that was not written."""
        return Undelivered(self.key[0], self.lane, self.key[1].encode(), error, self.number)


def _batch(waiting: Sequence[PutEntry], resting: Collection[tuple[str, int | None]]) -> list[PutEntry]:
    """The next request: of one stream, in order, the first of each key, as many as it may hold; none of these lanes."""
    batch: list[PutEntry] = []
    keys, size, stream = set(), 0, ""
    for one in waiting[:WINDOW]:
        if one.place in resting or one.key[0] != (stream or one.key[0]) or one.key in keys:
            continue
        size += one.size
        if batch and size > MOST_BYTES:
            break
        stream = one.key[0]
        keys.add(one.key)
        batch.append(one)
        if len(batch) == MOST_RECORDS:
            break
    return batch


def _request(
    client: Any, batch: Sequence[PutEntry], waiting: Sequence[PutEntry], written: dict[int, KinesisPosition]
) -> dict[int, str]:
    """One request: notes what was written, and returns what was refused, by number."""
    stream = batch[0].key[0]
    entries = [{name: value for name, value in one.arguments.items() if name != "StreamName"} for one in batch]
    try:
        answers = client.put_records(StreamName=stream, Records=entries)["Records"]
    except Exception as error:
        # The errors of boto3 are not known here. Whether the request got through is not known either.
        raise _not_written(_left(waiting, {one.number: f"outcome unknown: {error}" for one in batch})) from error
    if len(answers) != len(batch):
        # Which answer is of which record is not known.
        text = f"outcome unknown: {len(answers)} answers to {len(batch)} records"
        raise _not_written(_left(waiting, {one.number: text for one in batch}))
    refused, unknown = {}, {}
    for one, answer in zip(batch, answers, strict=True):
        if answer.get("ErrorCode"):
            refused[one.number] = f"{answer['ErrorCode']}: {answer.get('ErrorMessage', '')}"
        elif answer.get("ShardId") and answer.get("SequenceNumber"):
            written[one.number] = KinesisPosition(stream, answer["ShardId"], answer["SequenceNumber"])
        else:
            unknown[one.number] = "outcome unknown: an answer without ShardId or SequenceNumber"
    if unknown:
        left = [one for one in waiting if one.number not in written]
        raise _not_written(_left(left, {**refused, **unknown}))
    return refused


def _left(waiting: Iterable[PutEntry], errors: Mapping[int, str]) -> list[Undelivered]:
    return [one.lost(errors.get(one.number, "not sent")) for one in waiting]


def _not_written(lost: Sequence[Undelivered]) -> DeliveryError:
    shown = "; ".join(map(str, lost[:NAMED])) + (f"; and {count(len(lost) - NAMED)} more" if lost[NAMED:] else "")
    hint = "they are in the error's `records`, each with its `number` among those given; send them again, or split "
    hint += "the shards that refuse"
    return DeliveryError(f"{plural(len(lost), 'record')} not written: {shown}; hint: {hint}", lost)


def _partition_key(key: bytes) -> str:
    """The key as the text Kinesis wants: 1 to 256 UTF-16 units, the stricter of the readings in use."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise UsageError.of("a Kinesis partition key is text", got=key, hint="encoding: utf8") from None
    return checked_partition_key(text)

"""Streams as streams to verify, and as columns to look at: shard by shard, parents before children.

A source's records are known by `stream/shard` and their position, a target's by the tag `keylane.source`, which `route`
gives them. The lane of a record in a target is that of its hash key in the ranges that the route placed by, if the
shard that it lies in has that hash key; so splits and merges after the route change no lane. Its offset is the number
of its shard and its position there: along a hash key it rises, from each parent to its children.

How a shard is read: `reader`. What tags mean: `messages`. What is compared of a record:
`messages.stream`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.fields import FieldSpec
from keylane.errors import DataError, TargetError
from keylane.numbers import count, plural
from keylane.placement.ranges import KeySpace
from keylane.router import Router
from keylane.systems.delivery import DeliveredMessage
from keylane.systems.kinesis.access import access_of
from keylane.systems.kinesis.messages import TIME, key_of, message_of, own_headers, value_of
from keylane.systems.kinesis.migration import last_numbers
from keylane.systems.kinesis.reader import ShardReader
from keylane.systems.kinesis.shards import describe_stream, id_of, in_lineage, number_of, shards_of
from keylane.systems.kinesis.target import read_spaces
from keylane.systems.messages.chunks import CREATED, ChunkReader, RecordChunk, WantedColumns
from keylane.systems.messages.headers import dead_topic
from keylane.systems.messages.stream import (
    ReadSource,
    ReadTarget,
    as_begun,
    begun_in,
    excused_in,
    fields_in_target,
    refuse_unfinished,
    streams_of,
)
from keylane.systems.messages.values import fields_for
from keylane.systems.streams import LEFT_OUT, Part, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.contract.model import Contract
    from keylane.keyspace.layout import Shard, ShardLayout
    from keylane.systems.endpoint import Address, Endpoint, StreamOptions
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.kinesis.reader import ReadRecord

#: Bits of an offset that are the position within a shard.
POSITION_BITS: Final = 40
#: What `noticed` cannot say where other processes read.
UNCOUNTED: Final = "records that consumers would discard are not counted on Spark: --engine local counts them"
#: A time that is not there.
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True)
class ShardMessage:
    """A record of a shard with the methods of a client's message: what `messages.chunks` makes columns of."""

    read: ReadRecord
    of_target: bool

    def key(self) -> bytes | None:
        """Its bytes."""
        return key_of(self.read.user)

    def value(self) -> bytes | None:
        """Its bytes."""
        return value_of(self.read.user)

    def offset(self) -> int:
        """Its position."""
        return self.read.position

    def headers(self) -> list[tuple[str, bytes]]:
        """Of a target without what stands for a time; of a source all, with the sequence number."""
        found: Any = own_headers(self.read.user) if self.of_target else message_of(self.read).headers
        return [one for one in found if not (self.of_target and one[0] == TIME)]

    def timestamp(self) -> tuple[int, int]:
        """Of a target the time that its source had, of a source when it arrived."""
        if not self.of_target:
            return CREATED, self.read.arrived_ms
        given = [text for name, text in self.read.user.tags if name == TIME and text]
        return CREATED, int(given[-1]) if given else _NO_TIME

    def __len__(self) -> int:
        return len(self.read.user.data)


@dataclass(slots=True)
class ShardChunks(ChunkReader):
    """Reads shards, one after the other, within these times in milliseconds. `discarded` counts as it reads.

    `spaces` are the lanes of a target's streams as ranges, by which its records are known; `lanes` are those of shards
    by number. `upto` are sequence numbers of last records that are read, by stream and number of the shard.
    """

    access: KinesisAccess
    spaces: Mapping[str, KeySpace] | None = None
    lanes: Mapping[int, int] | None = None
    between: tuple[int | None, int | None] = (None, None)
    upto: Mapping[tuple[str, int], int] = field(default_factory=dict)
    discarded: int = field(default=0, init=False)
    cut: str = field(default="", init=False)

    def noticed(self) -> list[str]:
        """What there is to say of all that was read."""
        found = [f"read {self.cut}"] if self.cut else []
        if self.discarded:
            why = "in aggregated records with a hash key outside their shard"
            found.append(f"{plural(self.discarded, 'record')} {why}: consumers that know the format discard them")
        return found

    def __getstate__(self) -> Any:
        return self.wanted, self.access, self.spaces, self.lanes, self.between, self.upto

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state)  # type: ignore[misc]  # all that is not sent begins anew

    def chunks(
        self, topic: str, lane: int, start: int, end: int | None, *, dead: bool = False
    ) -> Iterator[RecordChunk]:
        """The records of a shard, which `lane` is the number of, from one position up to another or to its end."""
        layout = shards_of(self.access, topic)
        shards = {number_of(shard.id): shard for shard in layout.shards}
        if lane not in shards:
            raise DataError.of(
                "the stream no longer has a shard", got=f"{topic}/{lane}", hint="its records have expired"
            )
        since, until = self.between
        last = self.upto.get((topic, lane))
        reader = ShardReader(self.access, topic, shards[lane], since_ms=since)
        for taken in reader.turns(until):
            within = [one for one in taken if one.position >= start and (end is None or one.position < end)]
            if last is not None:
                within = [one for one in within if int(one.sequence) <= last]
            if within:
                self.discarded += sum(one.discarded for one in within)
                yield self._chunk(within, topic, shards[lane], layout, dead=dead)
            if end is not None and taken[-1].position >= end - 1:
                self.cut = f"a part: at most {count(end)} records of each shard"
                break

    def _lanes(self, records: Sequence[ReadRecord], shard: Shard, now: ShardLayout) -> list[int]:
        """Those of the shard; of a split one that of each hash key, -1 where it had another, which is not known."""
        assert self.lanes is not None
        if (own := self.lanes.get(number_of(shard.id))) is not None:
            return [own] * len(records)
        space = now.key_space
        found = ((one.user.hash_key, shard.start <= one.user.hash_key <= shard.end) for one in records)
        return [space.lane_of(hash_key) if inside else -1 for hash_key, inside in found]

    def _chunk(
        self, records: Sequence[ReadRecord], stream: str, shard: Shard, now: ShardLayout, *, dead: bool
    ) -> RecordChunk:
        chunk, messages = RecordChunk(), [ShardMessage(one, self.wanted.headers) for one in records]
        self._add(chunk, messages)
        if dead:
            self._add_letters(chunk, [dict(message.headers()) for message in messages])
        if self.lanes is not None:
            chunk.lanes = self._lanes(records, shard, now)
        if self.spaces is not None:
            number = number_of(shard.id) << POSITION_BITS
            chunk.offsets = [number | offset for offset in chunk.offsets]
            if not dead:
                chunk.lanes = [_lane(one, shard, self.spaces[stream]) for one in records]
        return chunk


def _lane(one: ReadRecord, shard: Shard, space: KeySpace) -> int:
    """The lane of a record's hash key; one that there is not, where the shard that it lies in has no such hash key."""
    return space.lane_of(one.user.hash_key) if shard.start <= one.user.hash_key <= shard.end else len(space)


def located(offset: int) -> tuple[str, int]:
    """The shard of an offset in a target, and the position there.

    >>> located((3 << POSITION_BITS) + 17)
    ('shardId-000000000003', 17)
    """
    number, position = divmod(offset, 1 << POSITION_BITS)
    return id_of(number), position


def source_stream(address: Address, contract: Contract | None, options: StreamOptions) -> Stream:
    """The stream that records were taken from."""
    access = access_of(address)
    describe_stream(access, address.name)
    shards = in_lineage(shards_of(access, address.name))
    names = [f"{address.name}/{number_of(shard.id)}" for shard in shards]
    parts = tuple(Part(address.name, name, number_of(shard.id)) for name, shard in zip(names, shards, strict=True))
    fields = fields_for(FieldSpec.sent(contract, keys_sent=options.keys_sent), options)
    values = bool(fields.spec.of_value) or options.values
    reader = ShardChunks(WantedColumns(values=values, times=fields.spec.of_time, contents=options.values), access)
    return Stream(
        str(address),
        parts,
        ReadSource(reader, fields),
        order=tuple(names),
        noticed=reader.noticed,
        unnoticed=UNCOUNTED,
        keys=True,
        values="" if options.values else LEFT_OUT,
    )


def target_stream(address: Address, contract: Contract | None, options: StreamOptions, source: Endpoint) -> Stream:
    """The stream that records were put in, with the tiers of the contract and the dead letters."""
    access, from_messages = access_of(address), source.messages
    begun = begun_in(address, options)
    streams = streams_of(address.name, contract)
    dead = options.dead_letters or dead_topic(address.name)
    spaces = read_spaces(Path(options.state)) if options.state is not None else {}
    shards: dict[str, list[Shard]] = {}
    layouts: dict[str, ShardLayout] = {}
    for name in streams:
        describe_stream(access, name, TargetError)
        layout = layouts[name] = shards_of(access, name, TargetError)
        shards[name] = in_lineage(layout)
        spaces.setdefault(name, _placed_by(contract, name, address.name, layout.key_space))
    if begun is not None:
        refuse_unfinished(Path(options.state or ""), begun[1])
    fields = fields_in_target(contract, options, from_messages=from_messages)
    parts = [Part(name, streams[name], number_of(shard.id)) for name, several in shards.items() for shard in several]
    parts += [Part(dead, lane=number_of(shard.id), dead=True) for shard in _dead_shards(access, dead, options)]
    columns = None if from_messages else source.columns(begun[0].kind or None if begun else None)
    values = bool(fields.spec.of_value) or options.values
    wanted = WantedColumns(values=values, times=fields.spec.of_time, headers=True, contents=options.values)
    # Of a mirror: the copies end at a sequence number in each lane, and what producers wrote is behind.
    upto = dict[tuple[str, int], int]()
    if options.ends is not None:
        last = last_numbers(layouts[address.name], spaces[address.name], options.ends)
        upto = {(address.name, number): end for number, end in last.items()}
    reader = ShardChunks(wanted, access, spaces, upto=upto)
    stream = Stream(
        str(address),
        tuple(parts),
        ReadTarget(reader, fields, columns, from_messages=from_messages),
        lanes={streams[name]: len(spaces[name]) for name in streams},
        excused=excused_in(fields, from_messages=from_messages),
        keys=True,
        epochs=True,
        by_key=True,
        bases={} if from_messages else None,
        as_messages=True,
        key_space=spaces[address.name],
        noticed=reader.noticed,
        unnoticed=UNCOUNTED,
        located=located,
        values="" if options.values else LEFT_OUT,
    )
    return stream if begun is None else as_begun(stream, Path(options.state or ""), *begun, streams)


def _placed_by(contract: Contract | None, name: str, main: str, there: KeySpace) -> KeySpace:
    """The ranges that records of a stream were placed by, as far as that is known without the state of the route."""
    if contract is None or (name == main and contract.spec.lanes == "live"):
        return there
    return Router(contract).key_space if name == main else KeySpace.equal(contract.tiers[name])


def _dead_shards(access: KinesisAccess, name: str, options: StreamOptions) -> list[Shard]:
    """Those of the dead letters; the stream must be there only where it was named."""
    try:
        describe_stream(access, name, TargetError)
    except TargetError:
        if options.dead_letters is not None:
            raise
        return []
    return in_lineage(shards_of(access, name, TargetError))


def delivered_messages(access: KinesisAccess, stream: str) -> Iterator[DeliveredMessage]:
    """What is in the shards now, parents before children."""
    for shard in in_lineage(shards_of(access, stream)):
        number = number_of(shard.id)
        for turn in ShardReader(access, stream, shard).turns():
            for one in turn:
                yield DeliveredMessage(f"{stream}/{number}/{one.position}", value_of(one.user))

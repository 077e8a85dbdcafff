"""A stream as columns for `identify` and `check`, and counted in this process for `profile` and `plan`.

The lanes are the open shards, in the order of their ranges. Closed shards still hold the records from before a split
or a merge:

    merged away   its range lies in one open shard: its records are read as records of that lane
    split         its records could be of several lanes, and the service does not give back explicit hash keys:
                  `identify` and `check` leave them out and state it; `profile` and `plan` count keys, so they count
                  each in the shard that has its hash key now

Columns are those of a topic: `key`, `timestamp`, `lane` (or `partition`), `offset`, and
fields of the value. User records of aggregated ones are records of their own; those that a consumer would discard are
counted. What is read of a chunk: `messages.columns` and `messages.local_scan`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from keylane.errors import DataError, UsageError
from keylane.numbers import plural
from keylane.systems.kinesis.access import access_of
from keylane.systems.kinesis.shards import describe_stream, in_lineage, number_of, shards_of
from keylane.systems.kinesis.stream import ShardChunks
from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.messages.columns import ReadColumns
from keylane.systems.messages.local_scan import ScannedMessages, ScannedRanges, counted_scan, scanned_spec
from keylane.systems.messages.values import fields_for
from keylane.systems.read_range import ReadRange
from keylane.systems.streams import Description, Part, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.fields import FieldSpec
    from keylane.keyspace.layout import Shard, ShardLayout
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.messages.chunks import RecordChunk


@dataclass(frozen=True, slots=True)
class OpenShards:
    """The shards that are read: their lanes by number, what is read of each, and what is left out, in words."""

    access: KinesisAccess
    layout: ShardLayout
    wanted: ReadRange

    @property
    def lanes(self) -> dict[int, int]:
        """Number of a shard -> its lane: of open shards, and of closed ones that lie in one of them; parents first."""
        space = self.layout.key_space
        between = {number_of(one.id): (space.lane_of(one.start), space.lane_of(one.end)) for one in self._shards}
        return {number: first for number, (first, last) in between.items() if first == last}

    @property
    def split(self) -> list[Shard]:
        """Closed shards whose range several open ones share."""
        lanes = self.lanes
        return [shard for shard in self._shards if number_of(shard.id) not in lanes]

    @property
    def _shards(self) -> list[Shard]:
        return in_lineage(self.layout)

    @property
    def most(self) -> int | None:
        """How many records of a shard are read; None: all."""
        return None if self.wanted.most is None else max(1, self.wanted.most // len(self.lanes))

    @property
    def read(self) -> list[int]:
        """The numbers of the shards that are read."""
        chosen = self.wanted.partitions
        beyond = [lane for lane in chosen if lane >= len(self.layout.open)]
        if beyond:
            allowed = f"0 to {len(self.layout.open) - 1}"
            raise UsageError.of("the stream has no such lane", got=beyond[0], allowed=allowed)
        return [number for number, lane in self.lanes.items() if not chosen or lane in chosen]

    @property
    def sampled(self) -> str:
        """What is read of a stream that is not read as a whole."""
        return self._part(f"without {plural(len(self.split), 'closed shard')} that were split" if self.split else "")

    @property
    def counted(self) -> str:
        """The same where records of split shards are counted, too."""
        return self._part("")

    def _part(self, left_out: str) -> str:
        parts = [left_out] if left_out else []
        parts += ["by time"] if self.wanted.since is not None or self.wanted.until is not None else []
        chosen, of = len(set(self.wanted.partitions)), plural(len(self.layout.open), "open shard")
        parts += [f"{chosen} of {of}"] if self.wanted.partitions else []
        return f"a part: {', '.join(parts)}" if parts else ""

    def unjudged(self, stream: str) -> str:
        """How many records split shards hold, in words; nothing where they hold none."""
        shards, reader = self.split, self.chunks()
        many = sum(len(one) for shard in shards for one in reader.chunks(stream, number_of(shard.id), 0, self.most))
        if not many:
            return ""
        least = "at least " if reader.cut else ""
        where = f"{plural(len(shards), 'closed shard')} that {'was' if len(shards) == 1 else 'were'} split"
        what = f"{least}{plural(many, 'record')} {'is' if many == 1 else 'are'} in {where}"
        return f"{what}, not judged: which open shard each would be in is not known; new records will be"

    def chunks(self, columns: WantedColumns = WantedColumns()) -> ShardChunks:  # noqa: B008  frozen
        """A reader of them."""
        return ShardChunks(columns, self.access, None, self.lanes, (self.wanted.since, self.wanted.until))


def open_shards(address: Address, options: StreamOptions) -> OpenShards:
    """Ask the service what there is of a stream now."""
    access = access_of(address)
    describe_stream(access, address.name)
    return OpenShards(access, shards_of(access, address.name), options.read_range or ReadRange())


def describe_shards(address: Address, spec: FieldSpec, options: StreamOptions) -> Description:
    """The shards that are of one lane as columns."""
    found = open_shards(address, options)
    parts = tuple(Part(address.name, lane=number, end=found.most) for number in found.read)
    columns = (spec.key, "lane", "partition", "offset", "timestamp")
    skipped, readers = Skipped(what="record", fault="with a value that cannot be read"), list[ShardChunks]()

    def make(columns: WantedColumns) -> ShardChunks:
        readers.append(found.chunks(columns))
        return readers[-1]

    return Description(
        str(address),
        columns,
        parts,
        ReadColumns(make, spec, options, skipped),
        len(found.layout.open),
        spec.key,
        "lane",
        skipped=skipped,
        sampled=found.sampled,
        key_space=found.layout.key_space,
        noticed=lambda: [text for reader in readers for text in reader.noticed()],
        unjudged=lambda: found.unjudged(address.name),
    )


def scan_local(address: Address, options: StreamOptions, wanted: ScanRequest) -> LocalScan:
    """All shards, counted in this process: read once, and kept."""
    if wanted.seconds is not None:
        raise UsageError.of("only a topic can be listened to", got=str(address), hint="leave --for out, or --last 10m")
    if wanted.size is not None:
        raise UsageError.of("records of a stream have their own size", got=wanted.size, hint="leave --bytes out")
    found = open_shards(address, options)
    fields = fields_for(scanned_spec(wanted, options), options)
    kept = KeptShards(found, address.name, WantedColumns(values=bool(fields.spec.of_value), times=True, lengths=True))
    ranges = [(0, kept.records(lane)) for lane in range(len(found.layout.open))]
    if not any(end for _, end in ranges):
        hint = "the stream has no records" if options.read_range is None else "the range is empty"
        raise DataError.of("no records", got=str(address), hint=hint)
    read = ScannedMessages(address.name, kept, fields)
    id_ = describe_stream(found.access, address.name).id
    scan = counted_scan(read, ScannedRanges(ranges, found.counted, id_), wanted)

    def unread() -> str:
        return "; ".join(filter(None, (scan.unread(), *kept.reader.noticed(), *kept.noticed())))

    return replace(scan, key_space=found.layout.key_space, unread=unread)


class KeptShards:
    """The records of all shards, read once: a reader of lanes by their positions.

    `moved` counts records of split shards, `unplaced` those of them whose hash key is not known.
    """

    def __init__(self, found: OpenShards, stream: str, columns: WantedColumns) -> None:
        self.reader, chosen = found.chunks(columns), found.wanted.partitions
        self.kept: dict[int, list[RecordChunk]] = {}
        split = {number_of(shard.id): found.layout.key_space.lane_of(shard.start) for shard in found.split}
        self.split, self.moved, self.unplaced = len(split), 0, 0
        for number in sorted({*found.read, *split}):
            for chunk in self.reader.chunks(stream, number, 0, found.most):
                for lane, part in self._dealt(chunk, split.get(number)).items():
                    if not chosen or lane in chosen:
                        self.kept.setdefault(lane, []).append(part)

    def _dealt(self, chunk: RecordChunk, first: int | None) -> dict[int, RecordChunk]:
        """Records by their lane; those whose lane is not known are counted in the first one of their shard's range."""
        if first is None:
            return {chunk.lanes[0]: chunk}
        rows: dict[int, list[int]] = {}
        for row, lane in enumerate(chunk.lanes):
            rows.setdefault(first if lane < 0 else lane, []).append(row)
        self.moved, self.unplaced = self.moved + len(chunk), self.unplaced + chunk.lanes.count(-1)
        return {lane: chunk.taken(several) for lane, several in rows.items()}

    def noticed(self) -> list[str]:
        """What there is to say of split shards."""
        if not self.moved:
            return []
        where = f"{plural(self.split, 'closed shard')} that {'was' if self.split == 1 else 'were'} split"
        found = [f"{plural(self.moved, 'record')} of {where} counted in the shard that has their hash key now"]
        if self.unplaced:
            unknown = "had an explicit hash key, which is not known: their shard is a guess"
            found.append(f"{plural(self.unplaced, 'record')} of them {unknown}")
        return found

    def records(self, lane: int) -> int:
        """How many there are."""
        return sum(map(len, self.kept.get(lane, [])))

    def chunks(self, _topic: str, lane: int, start: int, end: int | None) -> Iterator[RecordChunk]:
        """Those between two positions among what was kept."""
        at = 0
        for chunk in self.kept.get(lane, []):
            first, last = max(start - at, 0), min((self.records(lane) if end is None else end) - at, len(chunk))
            if first < last:
                yield chunk.part(first, last)
            at += len(chunk)

    def with_values(self) -> KeptShards:
        """The same: of values that were not read, no names are known."""
        return self

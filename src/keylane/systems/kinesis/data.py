"""A stream as columns for `identify` and `check`, and counted in this process for `profile` and `plan`.

The open shards are read, each as a lane, in the order of their ranges: closed ones were lanes of another layout, and
are left out, which is stated. Columns are those of a topic: `key`, `timestamp`, `lane` (or `partition`), `offset`, and
fields of the value. User records of aggregated ones are records of their own; those that a consumer would discard are
counted. Topics as the same: `kafka.data` and `kafka.local_scan`, which read the chunks that `stream.ShardChunks` makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from keylane.errors import DataError, UsageError
from keylane.numbers import plural
from keylane.systems.kafka.data import ReadColumns
from keylane.systems.kafka.local_scan import ScannedTopic, counted_scan
from keylane.systems.kafka.ranges import ScannedRanges, scanned_spec
from keylane.systems.kafka.values import fields_for
from keylane.systems.kinesis.access import access_of
from keylane.systems.kinesis.shards import describe_stream, number_of, shards_of
from keylane.systems.kinesis.stream import ShardChunks
from keylane.systems.read_range import ReadRange
from keylane.systems.streams import Description, Part, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.fields import FieldSpec
    from keylane.keyspace.layout import ShardLayout
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.kafka.reader import RecordChunk
    from keylane.systems.kinesis.access import KinesisAccess


@dataclass(frozen=True, slots=True)
class OpenShards:
    """The shards that are read: their lanes by number, what is read of each, and what is left out, in words."""

    access: KinesisAccess
    layout: ShardLayout
    wanted: ReadRange
    most: int | None

    @property
    def lanes(self) -> dict[int, int]:
        """Number of a shard -> its lane."""
        return {number_of(shard.id): lane for lane, shard in enumerate(self.layout.open)}

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
        closed = len(self.layout.shards) - len(self.layout.open)
        parts = [f"without {plural(closed, 'closed shard')}"] if closed else []
        parts += ["by time"] if self.wanted.since is not None or self.wanted.until is not None else []
        parts += (
            [f"{len(self.read)} of {plural(len(self.layout.open), 'open shard')}"] if self.wanted.partitions else []
        )
        return f"a part: {', '.join(parts)}" if parts else ""

    def chunks(self, **flags: bool) -> ShardChunks:
        """A reader of them."""
        given: Any = flags
        return ShardChunks(self.access, None, self.lanes, (self.wanted.since, self.wanted.until), **given)


def open_shards(address: Address, options: StreamOptions) -> OpenShards:
    """Ask the service what there is of a stream now."""
    access = access_of(address)
    describe_stream(access, address.name)
    layout, wanted = shards_of(access, address.name), options.read_range or ReadRange()
    most = None if wanted.most is None else max(1, wanted.most // max(1, len(layout.open)))
    return OpenShards(access, layout, wanted, most)


def describe_shards(address: Address, spec: FieldSpec, options: StreamOptions) -> Description:
    """The open shards as columns."""
    found = open_shards(address, options)
    parts = tuple(Part(address.name, lane=number, end=found.most) for number in found.read)
    columns = (spec.key, "lane", "partition", "offset", "timestamp")
    skipped, readers = Skipped(what="record", fault="with a value that cannot be read"), list[ShardChunks]()

    def make(**flags: bool) -> ShardChunks:
        readers.append(found.chunks(**flags))
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
    )


def scan_local(address: Address, options: StreamOptions, wanted: ScanRequest) -> LocalScan:
    """The open shards, counted in this process: read once, and kept."""
    if wanted.seconds is not None:
        raise UsageError.of("only a topic can be listened to", got=str(address), hint="leave --for out, or --last 10m")
    if wanted.size is not None:
        raise UsageError.of("records of a stream have their own size", got=wanted.size, hint="leave --bytes out")
    found = open_shards(address, options)
    fields = fields_for(scanned_spec(wanted, options), options)
    kept = KeptShards(found, address.name, values=bool(fields.spec.of_value), times=True, lengths=True)
    ranges = [(0, kept.records(lane)) for lane in range(len(found.layout.open))]
    if not any(end for _, end in ranges):
        hint = "the stream has no records in its open shards" if options.read_range is None else "the range is empty"
        raise DataError.of("no records", got=str(address), hint=hint)
    given: Any = kept
    read = ScannedTopic(address.name, given, fields)
    id_ = describe_stream(found.access, address.name).id
    scan = counted_scan(read, ScannedRanges(ranges, found.sampled, id_), wanted)

    def unread() -> str:
        return "; ".join(filter(None, (scan.unread(), *kept.reader.noticed())))

    return replace(scan, key_space=found.layout.key_space, unread=unread)


class KeptShards:
    """The records of all open shards, read once: a reader of lanes by their positions."""

    def __init__(self, found: OpenShards, stream: str, **flags: bool) -> None:
        self.reader = found.chunks(**flags)
        self.kept: dict[int, list[RecordChunk]] = {
            found.lanes[number]: list(self.reader.chunks(stream, number, 0, found.most)) for number in found.read
        }

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

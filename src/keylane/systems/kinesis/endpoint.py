"""A Kinesis stream behind an address: what `open_endpoint` gives for `kinesis://region/stream?endpoint=...`.

What each ability does is in a module of its own, which is imported when it is asked for. A contract in boto3: `put`.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from keylane.errors import TargetError
from keylane.numbers import plural
from keylane.systems.endpoint import Endpoint, Outlook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from keylane.contract.fields import FieldSpec
    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.keyspace.layout import ShardLayout
    from keylane.keyspace.load import LoadUnit, MeasuredLoad
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.spark.context import RunContext
    from keylane.spark.messages import Fields
    from keylane.systems.delivery import DeliveredMessage
    from keylane.systems.flow import Followed, Origin, RouteTarget
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.kinesis.migration import ShardTips
    from keylane.systems.kinesis.writer import ShardBatches
    from keylane.systems.messages.values import TopicFields
    from keylane.systems.migrations import Migrator
    from keylane.systems.resharding import Resharder
    from keylane.systems.shard_migrations import ShardLineage
    from keylane.systems.streams import Description, Stream


class KinesisEndpoint(Endpoint):
    """A stream of a region."""

    messages: ClassVar[bool] = True
    key_encoding: ClassVar[Encoding] = "utf8"
    own_lanes: ClassVar[bool] = True
    splits_lanes: ClassVar[bool] = True
    writes_once: ClassVar[bool] = False

    @cached_property
    def access(self) -> KinesisAccess:
        """How the service is reached."""
        from keylane.systems.kinesis.access import access_of

        return access_of(self.address)

    def describe(self, fields: FieldSpec) -> Description:
        """The open shards as they are now, each a lane."""
        from keylane.systems.kinesis.data import describe_shards

        return describe_shards(self.address, fields, self.options)

    def scan_local(self, wanted: ScanRequest) -> LocalScan:
        """The open shards, read once."""
        from keylane.systems.kinesis.data import scan_local

        return scan_local(self.address, self.options, wanted)

    def estimated_records(self) -> int:
        """The service does not say how many there are: they are counted in this process, which reads them once."""
        return 0

    def as_source(self, target: Stream, contract: Contract | None) -> Stream:  # noqa: ARG002  has positions
        """All shards up to where they end now, parents before children."""
        from keylane.systems.kinesis.stream import source_stream

        return source_stream(self.address, contract, self.options)

    def as_target(self, source: Endpoint, contract: Contract | None) -> Stream:
        """The stream, those of the contract's tiers, and that of the dead letters."""
        from keylane.systems.kinesis.stream import target_stream

        return target_stream(self.address, contract, self.options, source)

    def message_fields(self, fields: FieldSpec) -> TopicFields:
        """By the format of values that the options give."""
        from keylane.systems.messages.values import fields_for

        return fields_for(fields, self.options)

    def message_columns(self, fields: FieldSpec) -> Fields:
        """By the format of values that the options give."""
        from keylane.systems.messages.frames import message_columns

        return message_columns(fields, self.options)

    def lanes_there(self, names: Sequence[str]) -> dict[str, int]:
        """Open shards of streams of the region."""
        from keylane.systems.kinesis.shards import describe_stream, shards_of

        found = {}
        for name in names:
            try:
                describe_stream(self.access, name, TargetError)
                found[name] = len(shards_of(self.access, name).open)
            except TargetError:
                found[name] = 0
        return found

    def layout(self) -> ShardLayout:
        """The shards as they are now, closed ones too."""
        from keylane.systems.kinesis.shards import describe_stream, shards_of

        describe_stream(self.access, self.address.name)
        return shards_of(self.access, self.address.name)

    def read_load(self, unit: LoadUnit, last: float | None, hash_keys: Mapping[str, int]) -> MeasuredLoad:
        """By the hash keys of records, in closed shards too."""
        from keylane.systems.kinesis.load import read_load

        return read_load(self.access, self.address.name, unit, last, hash_keys)

    def reported_load(self, unit: LoadUnit, last: float) -> MeasuredLoad:
        """By the metrics of each shard."""
        from keylane.systems.kinesis.load import reported_load

        return reported_load(self.access, self.address.name, unit, last)

    def resharder(self) -> Resharder:
        """Splits and merges by the service's own calls."""
        from keylane.systems.kinesis.reshard import KinesisResharder

        return KinesisResharder(self.access, self.address.name)

    def lineage(self) -> ShardLineage:
        """All shards that the service lists, and their sequence numbers."""
        from keylane.systems.kinesis.lineage import KinesisLineage

        return KinesisLineage(self.access, self.address.name)

    @cached_property
    def _tips(self) -> ShardTips:
        from keylane.systems.kinesis.migration import ShardTips

        return ShardTips(self.access, self.address.name)

    def lane_ends(self) -> tuple[int, ...]:
        """The sequence number of the last record of each open shard; shards are read to their tips, once."""
        return self._tips.look() if self.lanes_there([self.address.name])[self.address.name] else ()

    def reader_starts(self, starts: Sequence[int]) -> list[tuple[str, str]]:
        """The shards by their ids, and the sequence numbers of the last copies."""
        from keylane.systems.kinesis.migration import reader_starts

        return reader_starts(self.layout(), starts)

    def create_like(self, source: Endpoint, lanes: int) -> None:  # noqa: ARG002  nothing of it can be set here
        """With shards of equal width, and the settings that a new stream has."""
        from keylane.systems.kinesis.shards import create_stream

        if not self.lanes_there([self.address.name])[self.address.name]:
            create_stream(self.access, self.address.name, lanes)

    @contextmanager
    def migrator(self) -> Iterator[Migrator]:
        """The stream as the new side of a mirror."""
        from keylane.systems.kinesis.migration import KinesisMigrator

        yield KinesisMigrator(self.access, self.address.name)

    def follow_messages(self, spark: SparkSession, known: str) -> Followed:
        """The shards, parents before children."""
        from keylane.systems.kinesis.follow import follow_shards

        return follow_shards(spark, self.access, self.address, known, self.options)

    def check_streams(self, names: Sequence[str], lanes: int) -> None:
        """Streams of the region."""
        from keylane.systems.kinesis.shards import create_stream

        for name, there in self.lanes_there(names).items():
            if not there and not self.options.create:
                what = f"no such stream in {self.access.where}"
                raise TargetError.of(what, got=name, hint="create it first, or --create")
            if not there:
                create_stream(self.access, name, lanes)

    def deliveries(self, name: str, streams: Sequence[str]) -> AbstractContextManager[ShardBatches]:  # noqa: ARG002  no state is kept there
        """At least once."""
        from contextlib import nullcontext

        from keylane.systems.kinesis.writer import ShardBatches

        return nullcontext(ShardBatches(self.access))

    def delivered(self) -> Iterator[DeliveredMessage]:
        """All shards, parents before children."""
        from keylane.systems.kinesis.stream import delivered_messages

        return delivered_messages(self.access, self.address.name)

    def identity(self) -> str:
        """The stream's ARN with the time at which it was made."""
        from keylane.systems.kinesis.shards import describe_stream

        return describe_stream(self.access, self.address.name).id

    def origin(self, known: Origin | None) -> Origin:  # noqa: ARG002  a stream is its address and its id
        """The address, and the stream's id."""
        from keylane.systems.flow import Origin

        return Origin(str(self.address), id=self.identity())

    def check_source(self, contract: Contract, target: Endpoint) -> None:
        """Refuse a stream that is not there."""
        from keylane.systems.flow import check_key_column
        from keylane.systems.kinesis.shards import describe_stream

        check_key_column(contract, target)
        describe_stream(self.access, self.address.name)

    def follow(self, spark: SparkSession, contract: Contract, origin: Origin) -> Followed:
        """The shards, parents before children, through a source of our own."""
        from keylane.systems.kinesis.follow import follow_stream

        return follow_stream(spark, contract, self.access, self.address, origin.id or "", self.options)

    def outlook(
        self, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None, say: Callable[[str], None]
    ) -> Outlook:
        """The stream, those of tiers, and that of the dead letters."""
        from keylane.systems.atomic import check_not_held
        from keylane.systems.journal import OWN
        from keylane.systems.kinesis.target import agree

        found = agree(contract, source.origin(None), self.address, self.options, lanes, stream, say)
        check_not_held(found.path / OWN / "lock")
        made = tuple(f"stream {name}, {plural(many, 'shard')}" for name, many in found.absent.items())
        state = () if found.path.exists() else (f"state {found.path}",)
        dead = self.options.dead_letters or self.dead_stream
        return Outlook(
            found.router, (*made, *state), tuple(f"stream {name}" for name in found.head.topics), f"stream {dead}"
        )

    def target(
        self, run: RunContext, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None
    ) -> AbstractContextManager[RouteTarget]:
        """The stream, and those of the contract's tiers."""
        from keylane.systems.kinesis.target import open_streams

        return open_streams(contract, source.origin(None), self.address, self.options, run, lanes, stream)

"""A Kafka topic behind an address: what `open_endpoint` gives for `kafka://host:port/topic`.

What each ability does is in a module of its own, which is imported when it is asked for.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from keylane.errors import DataError, TargetError
from keylane.numbers import plural
from keylane.systems.endpoint import Endpoint, Outlook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.fields import FieldSpec
    from keylane.contract.model import Contract
    from keylane.migration.cost import StreamMeasure
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.spark.context import RunContext
    from keylane.spark.messages import Fields
    from keylane.spark.scan import Scan
    from keylane.systems.delivery import DeliveredMessage
    from keylane.systems.flow import Followed, Origin, RouteTarget
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster
    from keylane.systems.kafka.query_topic import TopicQueries
    from keylane.systems.kafka.transactions import TransactionalBatches
    from keylane.systems.messages.values import TopicFields
    from keylane.systems.migration_journal import MigrationJournal
    from keylane.systems.migrations import Migrator
    from keylane.systems.streams import Description, Stream


class KafkaEndpoint(Endpoint):
    """A topic of a cluster."""

    messages: ClassVar[bool] = True
    own_lanes: ClassVar[bool] = True
    connector: ClassVar[bool] = True
    migrating_producers: ClassVar[bool] = True

    @cached_property
    def access(self) -> KafkaAccess:
        """How the cluster is reached: brokers and client properties."""
        from keylane.systems.kafka.access import kafka_access

        return kafka_access(self.address.authority, self.options.properties)

    def describe(self, fields: FieldSpec) -> Description:
        """The topic up to where its lanes end now."""
        from keylane.systems.kafka.data import describe_topic

        return describe_topic(self.address, fields, self.options)

    def as_source(self, target: Stream, contract: Contract | None) -> Stream:  # noqa: ARG002 - offsets need no target
        """The topic up to where its lanes end now, with offsets for positions."""
        from keylane.systems.kafka.stream import source_topic

        return source_topic(self.address, contract, self.options)

    def as_target(self, source: Endpoint, contract: Contract | None) -> Stream:
        """The topic, those of the contract's tiers, and that of the dead letters."""
        from keylane.systems.kafka.stream import target_topic

        return target_topic(self.address, contract, self.options, source)

    def message_fields(self, fields: FieldSpec) -> TopicFields:
        """By the format of values that the options give."""
        from keylane.systems.messages.values import fields_for

        return fields_for(fields, self.options)

    def lanes_there(self, names: Sequence[str]) -> dict[str, int]:
        """Partitions of topics of the cluster."""
        with self.connected() as cluster:
            return cluster.lanes(names)

    def create_stream(self, name: str, lanes: int) -> None:
        """A topic with the cluster's default settings."""
        with self.connected() as cluster:
            cluster.create(name, lanes)

    def create_like(self, source: Endpoint, lanes: int) -> None:
        """With the settings and as many replicas as another topic; for copies of anything else with the cluster's."""
        settings, replicas = dict[str, str](), -1
        if isinstance(source, KafkaEndpoint):
            with source.connected() as cluster:
                settings, replicas = cluster.own_settings(source.address.name), cluster.replicas(source.address.name)
        with self.connected() as cluster:
            cluster.create(self.address.name, lanes, settings, replicas)

    def lane_ends(self) -> tuple[int, ...]:
        """The ends of the logs."""
        with self.connected() as cluster:
            lanes = cluster.lanes_now(self.address.name)
            ranges = cluster.offset_ranges(self.address.name, lanes, committed=False) if lanes else []
            return tuple(one.high for one in ranges)

    def copied_from(self, checkpoint: Path) -> tuple[int, ...]:
        """By the offsets of the last batch that Spark has committed; where the topic begins before the first."""
        from keylane.systems.kafka.migration import committed_offsets

        with self.connected() as cluster:
            lanes = cluster.lanes_now(self.address.name)
            ranges = cluster.offset_ranges(self.address.name, lanes, committed=False) if lanes else []
        return committed_offsets(checkpoint, self.address.name, [one.start for one in ranges])

    def start_groups(self, groups: Sequence[str], starts: Sequence[int]) -> dict[str, bool]:
        """By committing offsets for groups that have none in this topic."""
        from keylane.systems.kafka.migration import start_group

        with self.connected() as cluster:
            return {group: start_group(cluster, group, self.address.name, starts) for group in groups}

    @contextmanager
    def migrator(self) -> Iterator[Migrator]:
        """The topic, which may get more partitions."""
        from keylane.systems.kafka.migration import TopicMigrator

        with self.connected() as cluster:
            yield TopicMigrator(cluster, self.address.name)

    def measured(self) -> StreamMeasure:
        """Its bytes by the brokers, and the newest records of its lanes."""
        from keylane.systems.kafka.measured import measured_topic

        return measured_topic(self.access, self.address.name)

    def replicas_for(self, source: Endpoint) -> int | None:
        """Of the topic, if it is there; otherwise those of the other topic, as `create_like` makes it."""
        if not isinstance(source, KafkaEndpoint):
            return None
        with self.connected() as cluster:
            if cluster.lanes_now(self.address.name):
                return cluster.replicas(self.address.name)
        with source.connected() as cluster:
            return cluster.replicas(source.address.name)

    def lanes_known_to(self, group: str) -> tuple[int, frozenset[int]]:
        """By the members of the group, and by its offsets."""
        from keylane.systems.kafka.group import live_group

        with self.connected() as cluster:
            lanes = cluster.lanes([self.address.name])[self.address.name]
        if not lanes:
            raise DataError.of(f"no such topic at {self.address.authority}", got=self.address.name)
        found = live_group(f"kafka://{self.address.authority}", group, self.access.properties)
        owned = (lane for several in found.assignment.as_lists().values() for lane in several)
        return lanes, frozenset(lane for topic, lane in (*owned, *found.lag) if topic == self.address.name)

    def migration_journal(self) -> MigrationJournal:
        """The topic, of one partition; `begin` makes it."""
        from keylane.systems.kafka.migration import TopicJournal

        return TopicJournal(self.access, self.address.name)

    def commands_for(self, lanes: Mapping[str, int]) -> dict[str, str]:
        """Kafka's own tools: the lag of every group, and more partitions for a topic; and the brokers."""
        at = f"--bootstrap-server {self.address.authority}"
        grow = {
            f"grow {name}": f"kafka-topics.sh {at} --alter --topic {name} --partitions {count}"
            for name, count in lanes.items()
        }
        lag = f"kafka-consumer-groups.sh {at} --describe --all-groups"
        there = {f"at {name}": f"kafka://{self.address.authority}/{name}" for name in lanes}
        return {"lag": lag, "brokers": self.address.authority, **grow, **there}

    def identity(self) -> str:
        """The topic's id."""
        from keylane.systems.kafka.cluster import open_cluster

        with open_cluster(self.access) as cluster:
            return cluster.topic_ids([self.address.name]).get(self.address.name, "")

    def origin(self, known: Origin | None) -> Origin:  # noqa: ARG002  a topic is its address and its id
        """The address, and the topic's id."""
        from keylane.systems.flow import Origin

        return Origin(str(self.address), id=self.identity())

    def check_source(self, contract: Contract, target: Endpoint) -> None:
        """Refuse a topic that is not there: Spark reports it late, and in Java's words."""
        from keylane.systems.flow import check_key_column
        from keylane.systems.kafka.cluster import open_cluster

        check_key_column(contract, target)
        with open_cluster(self.access) as cluster:
            if not cluster.lanes([self.address.name])[self.address.name]:
                raise DataError.of(f"no such topic at {self.address.authority}", got=self.address.name)

    def session(self, run: RunContext) -> AbstractContextManager[SparkSession]:
        """A session with the Kafka connector, logged in."""
        from keylane.systems.kafka.session import kafka_session

        return kafka_session(run, self.options, self.access)

    def follow(self, spark: SparkSession, contract: Contract, origin: Origin) -> Followed:
        """The topic through Spark's connector."""
        from keylane.systems.kafka.follow import follow_topic

        return follow_topic(spark, contract, self.access, self.address, origin.id or "", self.options)

    def follow_messages(self, spark: SparkSession, known: str) -> Followed:
        """The topic through Spark's connector."""
        from keylane.systems.kafka.follow import follow_messages

        return follow_messages(spark, self.access, self.address, known, self.options)

    def query_registry(self, *, create: bool) -> AbstractContextManager[TopicQueries]:
        """A compacted topic of one partition."""
        from keylane.systems.kafka.query_topic import open_query_topic

        return open_query_topic(self.access, self.address.name, create=create)

    def deliveries(self, name: str, streams: Sequence[str]) -> AbstractContextManager[TransactionalBatches]:
        """Exactly once, by transactions."""
        from keylane.systems.kafka.transactions import open_batches

        return open_batches(self.access, name, streams)

    def delivered(self) -> Iterator[DeliveredMessage]:
        """As committed, partition by partition."""
        from keylane.systems.kafka.transactions import delivered_messages

        return delivered_messages(self.access, self.address.name)

    def outlook(
        self, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None, say: Callable[[str], None]
    ) -> Outlook:
        """The topic, those of tiers, and that of the dead letters."""
        from keylane.systems.atomic import check_not_held
        from keylane.systems.journal import OWN
        from keylane.systems.kafka.target import agree

        with self.connected() as cluster:
            origin = source.origin(None)
            found = agree(cluster, contract, origin, self.address, self.options, lanes, stream, say)
        check_not_held(found.path / OWN / "lock")
        made = tuple(f"topic {name}, {plural(many, 'partition')}" for name, many in found.absent.items())
        state = () if found.path.exists() else (f"state {found.path}",)
        dead = self.options.dead_letters or self.dead_stream
        writes = tuple(f"topic {name}" for name in found.head.topics)
        return Outlook(found.router, (*made, *state), writes, f"topic {dead}")

    def target(
        self, run: RunContext, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None
    ) -> AbstractContextManager[RouteTarget]:
        """The topic, and those of the contract's tiers."""
        from keylane.systems.kafka.target import open_topics

        origin = source.origin(None)
        return open_topics(contract, origin, self.address, self.access, self.options, run, lanes, stream)

    def scan(self, run: RunContext, wanted: ScanRequest) -> AbstractContextManager[Scan]:
        """The topic as committed: all that is there, or what arrives in the seconds that are asked for."""
        from keylane.systems.kafka.frames import scan_topic

        return scan_topic(run, self.address, self.options, wanted)

    def scan_local(self, wanted: ScanRequest) -> LocalScan:
        """The topic as committed, through librdkafka."""
        from keylane.systems.kafka.data import scan_local

        return scan_local(self.access, self.address.name, self.options, wanted)

    def estimated_records(self) -> int | None:
        """Offsets, some of which may be marks of transactions, or gaps."""
        ranges, _ = self.ranges()
        return sum(end - start for start, end in ranges)

    def ranges(self) -> tuple[Sequence[tuple[int, int]], str]:
        """As committed."""
        from keylane.systems.kafka.data import ranges_of, within

        topic, wanted = self.address.name, self.options.read_range
        there = ranges_of(self.access, topic, None, lambda _: None)
        return (there, "") if wanted is None else within(self.access, topic, there, wanted)

    def between(self, spark: SparkSession, ranges: Sequence[tuple[int, int]]) -> DataFrame:
        """As committed."""
        from keylane.systems.kafka.frames import read_between

        return read_between(spark, self.access, self.address.name, ranges)

    def start_offsets(self) -> Sequence[int]:
        """By the option `start`."""
        from keylane.systems.kafka.follow import start_offsets

        with self.connected() as cluster:
            return start_offsets(cluster, self.address.name, self.options.start)

    def blocks(self, spark: SparkSession, loader: object, packer: str, start: Sequence[int], tasks: int) -> DataFrame:
        """By a source of our own: as committed, and records that are gone are an error."""
        from keylane.spark.topic_blocks import topic_blocks

        client = {name.removeprefix("kafka."): value for name, value in self.access.java().items()}
        most, topic = self.options.max_records, self.address.name
        return topic_blocks(spark, loader, topic, client, packer=packer, start=start, most=most, tasks=tasks)

    def message_columns(self, fields: FieldSpec) -> Fields:
        """By the format of values that the options give."""
        from keylane.systems.messages.frames import message_columns

        return message_columns(fields, self.options)

    def connected(self) -> AbstractContextManager[KafkaCluster]:
        """The cluster."""
        from keylane.systems.kafka.cluster import open_cluster

        return open_cluster(self.access)

    def check_streams(self, names: Sequence[str], lanes: int) -> None:
        """Topics of the cluster."""
        with self.connected() as cluster:
            for topic in names:
                if cluster.lanes([topic])[topic]:
                    continue
                if not self.options.create:
                    where = self.address.authority
                    raise TargetError.of(f"no such topic at {where}", got=topic, hint="create it first, or --create")
                cluster.create(topic, lanes)

    def append(self, frame: DataFrame, name: str) -> None:
        """To a topic of the cluster."""
        frame.write.format("kafka").options(**self.access.java(), topic=name, includeHeaders="true").save()

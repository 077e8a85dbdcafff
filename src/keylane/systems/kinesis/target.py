"""A stream as the target of a route: at least once, in the order of each key, whatever splits and merges come between.

A lane of a route is a range of the key space: that of an open shard when the route began. Ranges are kept in the state,
so a split or merge changes nothing for the route: a key has the same hash key before and after, and the service puts
its records into one shard after the other. What a batch is, and what is remembered of it: `messages.target`. What a
writer does: `writer`.

The service cannot take a batch exactly once: it has no transactions, and no number of a producer's that it would know
again. So a batch that failed or was killed is written again, from its first record on, and its records say so in the
tag `keylane.attempt`; `verify --mode at-least-once` finds what is there twice, and whether it is marked.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from keylane.contract.fingerprint import abbreviated
from keylane.errors import CountError, LaneCountError, TargetError, UsageError
from keylane.keyspace.layout import layout_of
from keylane.placement.ranges import KeySpace
from keylane.records import RecordLimits
from keylane.router import Router
from keylane.systems.identity import agreed_topic_ids, recreated_topic
from keylane.systems.journal import OWN, read_document, write_document
from keylane.systems.kinesis.access import access_of
from keylane.systems.kinesis.reader import ShardReader
from keylane.systems.kinesis.shards import create_stream, describe_stream, shards_of
from keylane.systems.kinesis.writer import Slot, Writing
from keylane.systems.messages.headers import CONTRACT, EPOCH, SOURCE, dead_topic
from keylane.systems.messages.state import open_state
from keylane.systems.messages.target import MessageTarget, begun_route, refuse_routed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.spark.context import RunContext
    from keylane.spark.kafka_writer import SlotWritten
    from keylane.spark.messages import Messages
    from keylane.systems.endpoint import Address, OnPoison, StreamOptions
    from keylane.systems.flow import Followed, Origin
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.kinesis.shards import StreamFacts
    from keylane.systems.messages.state import BatchPlan, RouteHead
    from keylane.systems.messages.target import BegunRoute

#: Writers for each core: they wait for the service most of the time.
WRITERS_A_CORE = 4
#: Records of a shard that are asked where they came from, before a route begins.
OLDEST = 1_000
LAYOUT = "layout.json"
NOT_ONCE = (
    "Kinesis has no transactions: records are written at least once. A batch that is written again is marked in the tag"
    " keylane.attempt, and `keylane verify --mode at-least-once` finds what is there twice"
)


@dataclass(frozen=True, slots=True)
class AgreedStreams:
    """What a route is to begin with; `absent` are streams to be made, `spaces` the lanes of each stream as ranges."""

    router: Router
    origin: Origin
    path: Path
    head: RouteHead
    absent: dict[str, int]
    spaces: dict[str, KeySpace]
    same: bool
    before: BegunRoute


def agree(
    contract: Contract,
    origin: Origin,
    target: Address,
    options: StreamOptions,
    lanes: int | None,
    stream: str | None,
    say: Callable[[str], None],
) -> AgreedStreams:
    """Refuse what cannot be routed; nothing is made and no lock is taken."""
    access, before = access_of(target), begun_route(contract, origin, target, options, say)
    origin = before.origin
    promised = contract.spec.lanes if contract.spec.lanes != "live" else lanes
    dead = [] if options.on_poison == "stop" else [options.dead_letters or dead_topic(target.name)]
    wanted: dict[str, int | None] = {target.name: promised, **contract.tiers}
    if set(dead) & set(wanted):
        what = "dead letters cannot go to a stream that has lanes of the contract"
        raise UsageError.of(what, got=dead[0], allowed="a stream of their own", hint="--dead-letters STREAM")
    facts = _facts(access, [*wanted, *dead], before.head)
    if facts[target.name] is not None and facts[target.name].id == origin.id:  # type: ignore[union-attr]  # checked
        raise UsageError.of("the stream of the source is the one that the route writes", got=origin.address)
    asked = {**wanted, **dict.fromkeys(dead, 1)}
    absent = {name: _creatable(access, name, asked[name], options) for name, one in facts.items() if one is None}
    if before.head is None and target.name not in absent and not options.second_route:
        check_not_routed(access, target.name, origin)
    spaces = read_spaces(before.path) if before.head is not None and before.followed is None else {}
    for name in asked:
        if name not in spaces:
            spaces[name] = KeySpace.equal(absent[name]) if name in absent else _open_shards(access, name)
    router = _router(contract, spaces[target.name], lanes, stream, target.name)
    for tier, count in contract.tiers.items():
        _check_count(tier, len(spaces[tier]), count)
    ids = {name: one.id for name, one in facts.items() if one is not None}
    ids = agreed_topic_ids({} if before.head is None else before.head.topic_ids, ids, say)
    counts = {name: len(spaces[name]) for name in wanted}
    head, same = before.now(contract, target, options, counts, ids)
    return AgreedStreams(router, origin, before.path, head, absent, spaces, same, before)


def check_not_routed(access: KinesisAccess, name: str, source: Origin) -> None:
    """Refuse a new state where the oldest records of a shard came from the same source; only they can be asked for."""
    for shard in shards_of(access, name, TargetError).shards:
        for one in ShardReader(access, name, shard).turn(OLDEST):
            refuse_routed([text for tag, text in one.user.tags if tag == SOURCE], f"in {shard.id}", source)


def _facts(access: KinesisAccess, names: Iterable[str], begun: RouteHead | None) -> dict[str, StreamFacts | None]:
    """What is known of each stream; None where there is none."""
    found: dict[str, StreamFacts | None] = {}
    for name in names:
        try:
            found[name] = facts = describe_stream(access, name, TargetError)
        except TargetError as error:
            if "no such stream" not in str(error):
                raise
            if begun is not None and begun.topic_ids.get(name):
                raise recreated_topic(name, begun.topic_ids[name], "") from None
            found[name] = None
            continue
        if not facts.heeds_keys:
            raise TargetError.of(
                f"stream {name!r} does not put records where their keys say, so no lane could be kept",
                got="RecordDistributionStrategy AUTO",
                allowed="USER_PARTITION_KEY",
                hint="UpdateStreamRecordDistributionStrategy changes it",
            )
    return found


def _creatable(access: KinesisAccess, name: str, lanes: int | None, options: StreamOptions) -> int:
    if options.create and lanes is not None:
        return lanes
    flags = "--create" if lanes is not None else "--create --lanes N"
    raise TargetError.of(f"no such stream in {access.where}", got=name, hint=f"create it first, or {flags}")


def _open_shards(access: KinesisAccess, name: str) -> KeySpace:
    return layout_of(shards_of(access, name, TargetError).open).key_space


def _check_count(name: str, there: int, wanted: int) -> None:
    if there != wanted:
        hint = "`keylane shards plan` gives the calls to the contract's shards; or `lanes: live`"
        raise LaneCountError.of(f"{name} has another number of open shards", got=there, allowed=str(wanted), hint=hint)


def _router(contract: Contract, space: KeySpace, lanes: int | None, stream: str | None, name: str) -> Router:
    """The contract over the shards; a contract of a fixed count is about the shards of a new stream of that count."""
    if contract.spec.lanes == "live":
        if lanes is not None:
            _check_count(name, len(space), lanes)
        return Router(contract, stream=stream, key_space=space)
    _check_count(name, len(space), int(contract.spec.lanes))
    own = Router(contract, lanes=lanes, stream=stream)
    if own.facts.fold == "ranges" and list(own.key_space.starts) != list(space.starts):
        raise TargetError.of(
            f"the shards of {name} do not have the ranges that the contract places records by",
            got=f"shard {_first_other(own.key_space, space)} begins elsewhere",
            allowed=f"{len(space)} shards of equal width",
            hint="`lanes: live` places records by the shards that there are; `keylane shards plan` changes those",
        )
    return own


def _first_other(wanted: KeySpace, there: KeySpace) -> int:
    return next(n for n, (a, b) in enumerate(zip(wanted.starts, there.starts, strict=True)) if a != b)


def read_spaces(path: Path) -> dict[str, KeySpace]:
    """The ranges that a route began with, by stream."""
    found = read_document(path / OWN / LAYOUT)
    return {name: KeySpace(tuple(map(int, starts))) for name, starts in found["starts"].items()} if found else {}


@contextmanager
def open_streams(
    contract: Contract,
    origin: Origin,
    target: Address,
    options: StreamOptions,
    run: RunContext,
    lanes: int | None,
    stream: str | None,
) -> Iterator[KinesisTarget]:
    """The streams of a route, their lanes agreed. A state that exists is locked; `begin` makes what is missing."""
    with ExitStack() as held:
        agreed = agree(contract, origin, target, options, lanes, stream, run.say)
        path, head = agreed.path, agreed.head
        ours, change = agreed.same and not agreed.absent, agreed.before.followed
        state = held.enter_context(open_state(path, head, change)) if ours else None
        if options.delivery == "exactly-once":
            run.say(NOT_ONCE)
        own = (agreed.absent, run, held, state, agreed.spaces)
        first = (agreed.router, agreed.origin, target, options, path, head)
        yield KinesisTarget(*first, *own, followed=change, to_finish=agreed.before.to_finish)


@dataclass(frozen=True, slots=True)
class KinesisStreams:
    """Where a route's records go."""

    access: KinesisAccess
    streams: dict[str, str]
    dead: str
    spaces: Mapping[str, KeySpace]
    ids: Mapping[str, str]
    writers: int
    on_poison: OnPoison
    try_seconds: float
    exactly_once: bool = False
    _reported: set[str] = field(default_factory=set)

    @property
    def for_dead(self) -> list[str]:
        """The stream of the dead letters, if there may be any."""
        return [] if self.on_poison == "stop" else [self.dead]

    @property
    def names(self) -> list[str]:
        """All streams that are written, in the order of their slots."""
        return [*self.streams.values(), *self.for_dead]

    def for_new_batch(self, say: Callable[[str], None]) -> dict[str, int]:
        """The lanes of a new batch: the ranges that the route began with, whatever shards there are now."""
        for name in self.names:
            now = _open_shards(self.access, name)
            if list(now.starts) != list(self.spaces[name].starts) and name not in self._reported:
                self._reported.add(name)
                kept = f"the route keeps the {len(self.spaces[name])} ranges that it began with as its lanes"
                say(f"{name} has {len(now)} open shards now; {kept}, and the order of every key")
        return {name: len(self.spaces[name]) for name in self.names}

    def limits(self, names: Iterable[str], now: float) -> dict[str, RecordLimits]:  # noqa: ARG002  no limit has a time
        """What each stream takes of a record."""
        return {name: RecordLimits(describe_stream(self.access, name, TargetError).record_bytes) for name in names}

    def check_same(self) -> None:
        """Refuse to go on when a stream was made anew, or deleted, or no longer heeds keys."""
        for name, facts in _facts(self.access, self.names, None).items():
            known = self.ids.get(name)
            if known and (facts is None or facts.id != known):
                raise recreated_topic(name, known, "" if facts is None else facts.id)

    def check_plan(self, plan: BatchPlan) -> None:  # noqa: ARG002  a plan depends on no more than that
        """The same before a batch is written again."""
        self.check_same()

    def check_memory(self, plan: BatchPlan) -> None:
        """Nothing about a batch is remembered by the service."""


@dataclass
class KinesisTarget(MessageTarget):
    """A stream, those of the contract's tiers, and that of the dead letters. `spaces` are their lanes as ranges."""

    spaces: dict[str, KeySpace]

    def begin(self, spark: SparkSession, source: Followed) -> None:
        """Create what is missing, refuse a state that is not whole, and take the source."""
        dead = self.options.dead_letters or dead_topic(self.target.name)
        streams = {self.router.stream: self.target.name, **{tier: tier for tier in self.router.contract.tiers}}
        some = WRITERS_A_CORE * spark.sparkContext.defaultParallelism
        access, options = access_of(self.target), self.options
        made = KinesisStreams(access, streams, dead, self.spaces, {}, options.writers or some, options.on_poison, 0.0)
        for name, shards in self.absent.items():
            create_stream(access, name, shards)
        if self.absent:
            ids = {name: describe_stream(access, name, TargetError).id for name in made.names}
            self.head = replace(self.head, topic_ids=ids)
        self._open()
        starts = {name: [str(start) for start in space.starts] for name, space in self.spaces.items()}
        write_document(self.path / OWN / LAYOUT, {"starts": starts})
        self.topics = replace(made, ids=dict(self.state.head.topic_ids), try_seconds=options.try_seconds)
        self.source = source

    def _note_begun(self, plan: BatchPlan, digest: str) -> None:
        """The service remembers no batch."""

    def _unfit(self, routed: DataFrame, limits: Mapping[str, RecordLimits], messages: Messages) -> DataFrame:
        from keylane.spark.writable import unpackable

        by_stream = {stream: limits[name] for stream, name in self.topics.streams.items()}
        return unpackable(routed, by_stream, messages.topic)

    def _written(self, plan: BatchPlan, messages: Messages) -> dict[int, SlotWritten]:
        """The job. Records written are compared with those of the batch."""
        from keylane.spark.feed_source import written_by
        from keylane.spark.kafka_writer import SlotWritten
        from keylane.spark.messages import to_writers

        contract = self.router.contract
        # The attempt has to be known after a kill too, so it is recorded first.
        attempt = (self.state.plan(plan.batch) or plan).attempt + 1
        self.state.write_plan(replace(plan, attempt=attempt))
        tags = ((CONTRACT, abbreviated(contract.fingerprint)), (EPOCH, str(contract.metadata.epoch)))
        slots = [
            Slot(name, lane, self.spaces[name].range_of(lane), plan.limits[name].largest)
            for name, lanes in plan.topics.items()
            for lane in range(lanes)
        ]
        about = (messages.topic, dict(self.router.explicit_hash_keys))
        writing = Writing(access_of(self.target), tuple(slots), tags, attempt, *about)
        rows = self._slotted(messages.frame, plan, messages)
        # A lane has one writer, so that its records are in order, and one pace.
        written = written_by(to_writers(rows, min(plan.writers, len(slots))), writing)
        read = messages.frame.count() if messages.records is None else messages.records - messages.filtered
        if read != sum(written.values()):
            got = f"{read} read, {sum(written.values())} in lanes or dead letters"
            raise CountError.of("the records of a batch do not add up", got=got, allowed="equal")
        return {slot: SlotWritten(records) for slot, records in written.items()}

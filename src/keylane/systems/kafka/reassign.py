"""What a Kafka cluster reports of its brokers and lanes for `brokers`, and reassignments carried out.

librdkafka has no calls for reassignments and sizes on disk, so kafka-python is asked. Whether a cluster can be reached
at all is asked through librdkafka first: `cluster` translates its errors.
"""

from __future__ import annotations

import logging
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.brokers.layout import Broker, Lane, Layout
from keylane.brokers.plan_file import UnderWay, obstacle, still_to_start
from keylane.errors import BrokerError, MissingExtraError, UsageError
from keylane.numbers import count, size
from keylane.systems.endpoint import configured_authority, configured_properties, parse_address
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from keylane.brokers.rebalance import Move, Reassignment
    from keylane.systems.kafka.access import KafkaAccess

    Tell: TypeAlias = Callable[[str], None]
    Settings: TypeAlias = Mapping[tuple[str, str], Mapping[str, str]]

ANSWER_MS: Final = 30_000
#: What keeps copies from taking the whole network: a rate on brokers, and the copies it is for, on topics.
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
COPIES: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
UNREACHED: Final = ("a broker does not answer", "is each reachable from here, under the name that it advertises?")
#: The name of an error of kafka-python's, what it means, and how to fix it.
WORDS: Final[dict[str, tuple[str, str]]] = {
    "ClusterAuthorizationFailedError": (
        "the user may not do this on the cluster",
        "ACLs on the cluster: Describe and DescribeConfigs to read; Alter and AlterConfigs for --apply",
    ),
    "TopicAuthorizationFailedError": (
        "the user may not do this with a topic",
        "ACLs on topics: Describe and DescribeConfigs to read; AlterConfigs for --apply",
    ),
    "KafkaTimeoutError": UNREACHED,
    "KafkaConnectionError": UNREACHED,
    "NodeNotReadyError": UNREACHED,
    "UnsupportedVersionError": ("the brokers are too old for this", "Kafka 2.4 or later"),
    "IncompatibleBrokerVersion": ("the brokers are too old for this", "Kafka 2.4 or later"),
}


def cluster_address(given: str | None) -> str:
    """The address of a cluster as it was given, or that of the configured brokers."""
    if given is not None:
        return given
    brokers = configured_authority("kafka")
    if brokers is None:
        hint = "kafka://host:port, KEYLANE_KAFKA=host:port, or keylane.toml"
        raise UsageError.of("no cluster is named, and none is configured", hint=hint)
    return f"kafka://{brokers}"


def cluster_access(address: str, properties: Iterable[tuple[str, str]] = ()) -> KafkaAccess:
    """How to reach the cluster of `kafka://host:port[,host:port]`; with a topic behind it, it is not a cluster.

    >>> cluster_access("kafka://a:9092,b:9092").brokers
    'a:9092,b:9092'
    """
    allowed = "kafka://host:port[,host:port]"
    if "/" in address.removeprefix("kafka://").rstrip("/"):
        raise UsageError.of("not the address of a cluster", got=address, allowed=allowed, hint="--topic names a topic")
    try:
        parsed = parse_address(f"{address.rstrip('/')}/topic")
    except UsageError:
        raise UsageError.of("not the address of a cluster", got=address, allowed=allowed) from None
    if parsed.system != "kafka":
        raise UsageError.of("not the address of a cluster", got=address, allowed=allowed)
    return kafka_access(parsed.authority, (*configured_properties("kafka", parsed.authority), *properties))


@contextmanager
def open_admin(access: KafkaAccess) -> Iterator[Any]:
    """An admin client for as long as this is open."""
    client_class = _client_class()
    with open_cluster(access) as cluster:
        cluster.reached()
    try:
        with _unlogged(), client_class(bootstrap_timeout_ms=ANSWER_MS, **access.kafka_python()) as client:
            yield client
    except _errors() as error:
        raise explained(error, access.brokers) from None


@contextmanager
def _unlogged() -> Iterator[None]:
    """At level DEBUG it logs its settings, the password among them."""
    log = logging.getLogger("kafka")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _client_class() -> Any:
    try:
        with warnings.catch_warnings():
            # It reads its schemas by a deprecated name of importlib's.
            warnings.simplefilter("ignore", DeprecationWarning)
            from kafka import KafkaAdminClient
    except ImportError:
        raise MissingExtraError.named("kafka", "kafka-python") from None
    if not hasattr(KafkaAdminClient, "alter_partition_reassignments"):
        raise MissingExtraError.named("kafka", "kafka-python 3")
    return KafkaAdminClient


def _errors() -> type[Exception]:
    from kafka.errors import KafkaError

    error: type[Exception] = KafkaError
    return error


def explained(error: Exception, who: str) -> BrokerError:
    """An error of kafka-python's, translated."""
    name, text = type(error).__name__, str(error)
    what, hint = WORDS.get(name, (f"{who} refused", ""))
    return BrokerError.of(what, got=text if text.startswith(name) else f"{name}: {text}", hint=hint)


def observed(client: Any, names: Sequence[str] | None = None) -> Layout:
    """The cluster as it is now: brokers by id, lanes by topic and number, of all topics unless some are named."""
    active = [node for node in client.describe_cluster()["brokers"] if not node.get("is_fenced")]
    brokers = tuple(sorted((Broker(node["broker_id"], node["rack"]) for node in active), key=lambda broker: broker.id))
    topics = [topic for topic in client.describe_topics(names) if topic["name"]]
    sizes, least = _sizes(client, brokers, topics), _min_isr(client, [topic["name"] for topic in topics])
    lanes = [
        _lane(topic["name"], one, sizes, least.get(topic["name"])) for topic in topics for one in topic["partitions"]
    ]
    return Layout(brokers, tuple(sorted(lanes, key=lambda lane: lane.place)))


def _lane(topic: str, one: Mapping[str, Any], sizes: Mapping[tuple[str, int, int], int], least: int | None) -> Lane:
    partition, leader = one["partition_index"], one["leader_id"]
    known = {broker: sizes.get((topic, partition, broker)) for broker in one["replica_nodes"]}
    found = known.get(leader)
    if found is None:
        found = max((bytes_ for bytes_ in known.values() if bytes_ is not None), default=None)
    return Lane(topic, partition, tuple(one["replica_nodes"]), leader, tuple(one["isr_nodes"]), found, least)


def _sizes(
    client: Any, brokers: Iterable[Broker], topics: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, int, int], int]:
    """Bytes on disk by topic, partition and broker; nothing of brokers that do not report them."""
    sizes: dict[tuple[str, int, int], int] = {}
    asked = {topic["name"]: [one["partition_index"] for one in topic["partitions"]] for topic in topics}
    for broker in brokers:
        try:
            answers = client.describe_log_dirs(asked, brokers=[broker.id])
        except _errors():
            continue
        for folder in (folder for answer in answers for folder in answer["log_dirs"] if not folder["error_code"]):
            for topic in folder["topics"]:
                for lane in topic["partitions"]:
                    if not lane["is_future_key"]:
                        sizes[topic["name"], lane["partition_index"], broker.id] = lane["partition_size"]
    return sizes


def _min_isr(client: Any, topics: Iterable[str]) -> dict[str, int]:
    """min.insync.replicas by topic; nothing where the cluster does not report it."""
    name = "min.insync.replicas"
    settings = settings_of(client, "topic", topics, (name,), config_filter="all")
    return {topic: int(values[name]) for topic, values in settings.items() if values.get(name)}


def settings_of(
    client: Any, kind: str, names: Iterable[str], settings: Iterable[str], config_filter: str = "modified"
) -> dict[str, dict[str, str]]:
    """Some settings of topics or brokers, those that are set; nothing where the cluster does not report them."""
    from kafka.admin import ConfigResource

    asked = [ConfigResource(kind, name, list(settings)) for name in names]
    try:
        answer = client.describe_configs(asked, config_filter=config_filter) if asked else {}
    except _errors():
        return {}
    configs = answer.get(kind, {}).items()
    return {name: {key: at["value"] for key, at in values.items() if at["value"]} for name, values in configs}


def under_way(client: Any) -> dict[tuple[str, int], UnderWay]:
    """Reassignments in progress."""
    return {
        (lane.topic, lane.partition): UnderWay(
            frozenset(now["replicas"]) - frozenset(now["removing_replicas"]),
            tuple(now["adding_replicas"]),
            tuple(now["removing_replicas"]),
        )
        for lane, now in client.list_partition_reassignments().items()
    }


def throttles(client: Any, layout: Layout) -> dict[str, dict[str, dict[str, str]]]:
    """Throttles of replication that are set now: by kind (`broker`, `topic`), by name, by setting."""
    topics = sorted({lane.topic for lane in layout.lanes})
    settings = {
        "broker": settings_of(client, "broker", [str(broker.id) for broker in layout.brokers], RATES),
        "topic": settings_of(client, "topic", topics, COPIES),
    }
    return {kind: {name: values for name, values in of.items() if values} for kind, of in settings.items()}


# A reassignment carried out on a real cluster: throttled, awaited, leaders elected, and the throttle removed.

POLL_SECONDS: Final = 0.5
#: How long leaders may take to change once their replicas are in sync.
ELECTION_SECONDS: Final = 20.0
PREFERRED: Final = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done: lanes whose replica list changed, leaders that changed, and leaders that did not."""

    lanes: int
    elected: int
    not_elected: int
    seconds: float


def applied(client: Any, change: Reassignment, rate: int | None, tell: Tell, *, poll: float = POLL_SECONDS) -> Applied:
    """Carry a change out and wait until it is done. `rate`: bytes a second that a broker sends or receives for it."""
    began, layout, busy = time.monotonic(), observed(client), under_way(client)
    if reason := obstacle(change, layout, busy):
        hint = "make a new plan; Kafka's own tool can cancel a reassignment in progress"
        raise BrokerError.of(f"{reason}; nothing was changed", hint=hint)
    with _throttled(client, throttle_of(change.moves, rate)):
        _start(client, still_to_start(change, layout, busy))
        _wait(client, change, tell, poll)
    elected, not_elected = _elect(client, change, poll)
    return Applied(len(change.moves), elected, not_elected, time.monotonic() - began)


def is_carried_out(client: Any, change: Reassignment, layout: Layout, busy: Mapping[tuple[str, int], UnderWay]) -> bool:
    """Whether nothing of a change is left: every list as it says, every leader elected, and no throttle of its own."""
    meant = {move.place for move in change.moves} | set(change.elections)
    if busy or still_to_start(change, layout, busy) or any(_is_wrongly_led(lane, meant) for lane in layout.lanes):
        return False
    ours = {who: settings for who, settings in throttle_of(change.moves, 1).items() if who[0] == "topic"}
    there = settings_of(client, "topic", [name for _, name in ours], COPIES)
    return not any(there.get(name) == settings for (_, name), settings in ours.items())


def throttle_of(moves: Iterable[Move], rate: int | None) -> dict[tuple[str, str], dict[str, str]]:
    """The settings that hold moves back: a rate on every broker concerned, and on the topics the copies it is for."""
    copied = [move for move in moves if move.added]
    if rate is None or not copied:
        return {}
    brokers = sorted({broker for move in copied for broker in (*move.before, *move.replicas)})
    found = {("broker", str(broker)): dict.fromkeys(RATES, str(rate)) for broker in brokers}
    for topic in dict.fromkeys(move.topic for move in copied):
        own = [move for move in copied if move.topic == topic]
        leaders = [f"{move.partition}:{broker}" for move in own for broker in move.before]
        followers = [f"{move.partition}:{broker}" for move in own for broker in move.added]
        found["topic", topic] = dict(zip(COPIES, (",".join(leaders), ",".join(followers)), strict=True))
    return found


@contextmanager
def _throttled(client: Any, wanted: Settings) -> Iterator[None]:
    before = _present(client, wanted)
    try:
        _set(client, wanted)
        yield
    finally:
        as_before = {who: {name: before.get(who, {}).get(name) for name in wanted[who]} for who in wanted}
        try:
            _set(client, as_before)
        except KeyboardInterrupt:
            # It came in the middle of the removal: that is finished first.
            _set(client, as_before)
            raise


def _present(client: Any, wanted: Settings) -> Settings:
    """The settings before. Empty if they are our own, left by a killed run: recognised by the replicas they name."""
    before: dict[tuple[str, str], dict[str, str]] = {}
    for kind, settings in (("broker", RATES), ("topic", COPIES)):
        names = [name for of, name in wanted if of == kind]
        before |= {(kind, name): values for name, values in settings_of(client, kind, names, settings).items()}
    is_ours = any(before.get(who) == settings for who, settings in wanted.items() if who[0] == "topic")
    return {} if is_ours else before


def _set(client: Any, settings: Mapping[tuple[str, str], Mapping[str, str | None]]) -> None:
    """Set settings, or remove those without a value. All are tried before a failure is raised."""
    from kafka.admin import ConfigResource
    from kafka.errors import KafkaError

    failed: list[str] = []
    for (kind, name), values in settings.items():
        operations = {key: ("DELETE", None) if value is None else ("SET", value) for key, value in values.items()}
        try:
            answer = client.alter_configs(
                [ConfigResource(kind, name, operations)], raise_on_unknown=False, incremental=True
            )
            failed += [f"{kind} {name}: {result}" for result in answer.get(kind, {}).values() if result != "OK"]
        except KafkaError as error:
            failed.append(f"{kind} {name}: {type(error).__name__}")
    if failed:
        hint = "keylane brokers ADDRESS --status shows which are set"
        raise BrokerError.of("a throttle cannot be set or removed", got="; ".join(failed), hint=hint)


def _start(client: Any, moves: list[Move]) -> None:
    from kafka import TopicPartition

    if not moves:
        return
    answer = client.alter_partition_reassignments({TopicPartition(*move.place): list(move.replicas) for move in moves})
    failed = [f"{lane.topic}-{lane.partition}: {error.__name__}" for lane, error in answer.items() if error]
    if failed:
        hint = "the others are in progress: keylane brokers ADDRESS --status"
        raise BrokerError.of("the cluster refused to move lanes", got="; ".join(failed), hint=hint)


def _wait(client: Any, change: Reassignment, tell: Tell, poll: float) -> None:
    """Until no lane of the change is in progress; reports how far it is."""
    ours = {move.place: move for move in change.moves}
    while left := [ours[place] for place in under_way(client) if place in ours]:
        tell(_progress(change, left))
        time.sleep(poll)


def _progress(change: Reassignment, left: list[Move]) -> str:
    lanes = f"{count(len(change.moves) - len(left))} of {count(len(change.moves))} lanes moved"
    if change.bytes is None:
        return lanes
    open_bytes = sum((move.size or 0) * len(move.added) for move in left)
    return f"{lanes}, {size(change.bytes - open_bytes)} of {size(change.bytes)}"


def _elect(client: Any, change: Reassignment, poll: float) -> tuple[int, int]:
    """Have the preferred leaders lead; how many do now, and how many do not. A new replica may take a while."""
    until, first = time.monotonic() + ELECTION_SECONDS, len(wrong := _wrongly_led(client, change))
    while wrong and time.monotonic() < until:
        asked: dict[str, list[int]] = {}
        for lane in wrong:
            asked.setdefault(lane.topic, []).append(lane.partition)
        client.elect_leaders(PREFERRED, asked, raise_errors=False)
        if wrong := _wrongly_led(client, change):
            time.sleep(poll)
    return first - len(wrong), len(wrong)


def _wrongly_led(client: Any, change: Reassignment) -> list[Lane]:
    meant = {move.place for move in change.moves} | set(change.elections)
    return [lane for lane in observed(client).lanes if _is_wrongly_led(lane, meant)]


def _is_wrongly_led(lane: Lane, meant: AbstractSet[tuple[str, int]]) -> bool:
    return lane.place in meant and lane.leader != lane.replicas[0]

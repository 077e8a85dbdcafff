"""What a Kafka cluster says of its brokers and lanes, for its partition budget. Reads, and never writes.

librdkafka has no calls for reassignments and sizes on disk, so kafka-python is asked. Whether a cluster can be reached
at all is asked through librdkafka first: `kafka_cluster` has its errors in words. What changes a cluster:
`kafka_reassign`.
"""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, MissingExtraError, UsageError
from keylane.plan.budget import Broker, Lane, Layout
from keylane.plan.order import UnderWay
from keylane.systems.address import parse_address
from keylane.systems.kafka_access import kafka_access
from keylane.systems.kafka_cluster import open_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from keylane.systems.kafka_access import KafkaAccess

__all__ = ["cluster_access", "explained", "observed", "open_admin", "settings_of", "throttles", "under_way"]

ANSWER_MS: Final = 30_000
#: What keeps copies from taking the whole network: a rate on brokers, and the copies it is for, on topics.
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
COPIES: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
UNREACHED: Final = ("a broker does not answer", "is each reachable from here, under the name that it advertises?")
#: The name of an error of kafka-python's, what it means, and what mends it.
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


def cluster_access(address: str, properties: Iterable[tuple[str, str]] = ()) -> KafkaAccess:
    """How to reach the cluster of `kafka://host:port[,host:port]`; with a topic behind it, it is not a cluster.

    >>> cluster_access("kafka://a:9092,b:9092").brokers
    'a:9092,b:9092'
    """
    allowed = "kafka://host:port[,host:port]"
    if "/" in address.removeprefix("kafka://").rstrip("/"):
        raise UsageError.of("not the address of a cluster", got=address, allowed=allowed, hint="--topic names a topic")
    try:
        found = parse_address(f"{address.rstrip('/')}/topic")
    except UsageError:
        raise UsageError.of("not the address of a cluster", got=address, allowed=allowed) from None
    if found.system != "kafka":
        raise UsageError.of("not the address of a cluster", got=address, allowed=allowed)
    return kafka_access(found.place, properties)


@contextmanager
def open_admin(access: KafkaAccess) -> Iterator[Any]:
    """A client that may ask and change what this room knows, for as long as this is open."""
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
    """It logs its settings, the password among them, where somebody asks for all there is."""
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

    found: type[Exception] = KafkaError
    return found


def explained(error: Exception, who: str) -> BrokerError:
    """An error of kafka-python's in keylane's words."""
    words, hint = WORDS.get(type(error).__name__, (f"{who} refused", ""))
    return BrokerError.of(words, got=_told(error), hint=hint)


def _told(error: Exception) -> str:
    name, text = type(error).__name__, str(error)
    return text if text.startswith(name) else f"{name}: {text}"


def observed(client: Any) -> Layout:
    """The cluster as it is now: brokers by id, lanes by topic and number."""
    told = [one for one in client.describe_cluster()["brokers"] if not one.get("is_fenced")]
    brokers = tuple(sorted((Broker(one["broker_id"], one["rack"]) for one in told), key=lambda broker: broker.id))
    topics = [topic for topic in client.describe_topics() if topic["name"]]
    sizes, least = _sizes(client, brokers, topics), _min_isr(client, [topic["name"] for topic in topics])
    lanes = [
        _lane(topic["name"], one, sizes, least.get(topic["name"])) for topic in topics for one in topic["partitions"]
    ]
    return Layout(brokers, tuple(sorted(lanes, key=lambda lane: lane.place)))


def _lane(topic: str, one: Mapping[str, Any], sizes: Mapping[tuple[str, int, int], int], least: int | None) -> Lane:
    partition, leader = one["partition_index"], one["leader_id"]
    known = {broker: sizes.get((topic, partition, broker)) for broker in one["replica_nodes"]}
    size = known.get(leader)
    if size is None:
        size = max((found for found in known.values() if found is not None), default=None)
    return Lane(topic, partition, tuple(one["replica_nodes"]), leader, tuple(one["isr_nodes"]), size, least)


def _sizes(
    client: Any, brokers: Iterable[Broker], topics: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, int, int], int]:
    """Bytes on disk by topic, partition and broker; nothing of brokers that do not say."""
    found: dict[tuple[str, int, int], int] = {}
    asked = {topic["name"]: [one["partition_index"] for one in topic["partitions"]] for topic in topics}
    for broker in brokers:
        try:
            told = client.describe_log_dirs(asked, brokers=[broker.id])
        except _errors():
            continue
        for folder in (folder for one in told for folder in one["log_dirs"] if not folder["error_code"]):
            for topic in folder["topics"]:
                for lane in topic["partitions"]:
                    if not lane["is_future_key"]:
                        found[topic["name"], lane["partition_index"], broker.id] = lane["partition_size"]
    return found


def _min_isr(client: Any, topics: Iterable[str]) -> dict[str, int]:
    """The least copies that must keep up, by topic; nothing where the cluster does not say."""
    name = "min.insync.replicas"
    told = settings_of(client, "topic", topics, (name,), config_filter="all")
    return {topic: int(found[name]) for topic, found in told.items() if found.get(name)}


def settings_of(
    client: Any, kind: str, names: Iterable[str], settings: Iterable[str], config_filter: str = "modified"
) -> dict[str, dict[str, str]]:
    """Some settings of topics or brokers, those that somebody has set; nothing where the cluster does not say."""
    from kafka.admin import ConfigResource

    asked = [ConfigResource(kind, name, list(settings)) for name in names]
    try:
        told = client.describe_configs(asked, config_filter=config_filter) if asked else {}
    except _errors():
        return {}
    found = told.get(kind, {}).items()
    return {name: {key: one["value"] for key, one in values.items() if one["value"]} for name, values in found}


def under_way(client: Any) -> dict[tuple[str, int], UnderWay]:
    """Reassignments that the cluster is busy with."""
    return {
        (place.topic, place.partition): UnderWay(
            frozenset(told["replicas"]) - frozenset(told["removing_replicas"]),
            tuple(told["adding_replicas"]),
            tuple(told["removing_replicas"]),
        )
        for place, told in client.list_partition_reassignments().items()
    }


def throttles(client: Any, layout: Layout) -> dict[str, dict[str, dict[str, str]]]:
    """Throttles of replication that are set now: by kind (`broker`, `topic`), by name, by setting."""
    topics = sorted({lane.topic for lane in layout.lanes})
    found = {
        "broker": settings_of(client, "broker", [str(broker.id) for broker in layout.brokers], RATES),
        "topic": settings_of(client, "topic", topics, COPIES),
    }
    return {kind: {name: values for name, values in told.items() if values} for kind, told in found.items()}

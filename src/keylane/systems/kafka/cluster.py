"""What a Kafka cluster reports: topics, lanes, offsets, retention; and its errors in plain words.

librdkafka hides causes: a call ends in `timed out` while the password was wrong, and only a callback says so.
`Listener` collects what the callbacks say, and `explained` puts the first real cause into keylane's words.

How a cluster is reached: `access`. Writing to it: `spark.kafka_writer`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.systems.kafka.access import KafkaAccess

ANSWER_SECONDS: Final = 15.0
TURN_SECONDS: Final = 2.0
#: Seconds between the questions for topics that seem missing.
PAUSES: Final = (0.2, 0.5, 1.0)
#: What no waiting mends.
HOPELESS: Final = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"})
#: The name of an error of librdkafka's or a broker's, what it means, and what mends it. `{}` is who was asked.
WORDS: Final[dict[str, tuple[str, str]]] = {
    "_AUTHENTICATION": ("{} refuses the login", "check sasl.username, sasl.password and sasl.mechanism"),
    "SASL_AUTHENTICATION_FAILED": ("{} refuses the login", "check sasl.username, sasl.password and sasl.mechanism"),
    "_SSL": ("{} and this client do not trust each other", "check ssl.ca.location and security.protocol"),
    "_RESOLVE": ("a broker's name is not known here", "check the host in the address"),
    "TOPIC_AUTHORIZATION_FAILED": ("the user may not read or write a topic", "an ACL for it: Read, Write, Describe"),
    "GROUP_AUTHORIZATION_FAILED": ("the user may not use the route's group", "an ACL: Read on group keylane-*"),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        "the user may not write transactions",
        "an ACL: Write and Describe on transactional id keylane-*; or --delivery at-least-once",
    ),
    "CLUSTER_AUTHORIZATION_FAILED": ("the user may not do this on the cluster", "an ACL: IdempotentWrite"),
    "UNKNOWN_TOPIC_OR_PART": ("a topic or lane is gone", "has the topic been deleted or made anew?"),
    "_UNKNOWN_PARTITION": ("a topic or lane is gone", "has the topic been deleted or made anew?"),
    "_UNKNOWN_TOPIC": ("a topic or lane is gone", "has the topic been deleted or made anew?"),
    "MSG_SIZE_TOO_LARGE": ("a record is larger than the topic takes", "raise max.message.bytes of the topic"),
    "INVALID_TRANSACTION_TIMEOUT": (
        "the broker allows no transaction this long",
        "lower transaction.timeout.ms, or raise transaction.max.timeout.ms of the broker",
    ),
    "INVALID_REPLICATION_FACTOR": ("the cluster has too few brokers for its own settings", "see its log"),
    "POLICY_VIOLATION": ("the cluster's policy refuses this", "see its log"),
}
#: Causes that a second try meets again. Everything else passes, or is somebody else's fence, and is tried again: also a
#: topic that is not there, for a broker that has just come back does not know them all at once.
PERMANENT: Final = frozenset(WORDS) - {
    *("_RESOLVE", "_SSL", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"),
}
IS_IT_RUNNING: Final = "is it running, and is this its port?"
_UNREACHED: Final = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE")


@dataclass(slots=True)
class Listener:
    """What callbacks said, in order: the cause of a later time-out is among it."""

    said: list[Any] = field(default_factory=list)

    def __call__(self, error: Any) -> None:
        """Hear one."""
        self.said.append(error)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What there is of a lane: its first offset, where a reader's view ends, and where the log ends.

    The two ends differ while a transaction is open, for those who read what is committed.
    """

    start: int
    end: int
    high: int


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """A cluster that answers."""

    access: KafkaAccess
    admin: Any
    listener: Listener

    def reached(self) -> None:
        """Ask for anything at all: an error in words when nobody answers, or refuses."""
        self._ask()

    def lanes(self, topics: Sequence[str]) -> dict[str, int]:
        """The lane count of each topic as it is now; 0 for one that does not exist. Nothing is made by asking."""
        found = {topic: self.lanes_now(topic) for topic in topics}
        # A topic that was made just now is not known to every broker: those that seem missing are asked for again.
        for pause in PAUSES:
            if all(found.values()):
                break
            time.sleep(pause)
            found |= {topic: self.lanes_now(topic) for topic, lanes in found.items() if not lanes}
        return found

    def create(self, topic: str, lanes: int) -> None:
        """Make a topic with the cluster's own settings; one that exists by now is left as it is."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        try:
            self.admin.create_topics([NewTopic(topic, lanes)])[topic].result(ANSWER_SECONDS)
        except KafkaException as error:
            if _name(error) != "TOPIC_ALREADY_EXISTS":
                raise explained(error, self.access.brokers, self.listener) from None
        except TimeoutError:
            raise BrokerError.of(f"no broker answers at {self.access.brokers}", hint=IS_IT_RUNNING) from None

    def remove(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Take away topics and groups that the caller made; one that is gone by now, or in use, is left."""
        asked = {
            **(self.admin.delete_consumer_groups(list(groups)) if groups else {}),
            **(self.admin.delete_topics(list(topics)) if topics else {}),
        }
        for done in asked.values():
            with suppress(TimeoutError):
                done.exception(ANSWER_SECONDS)

    def offset_ranges(self, topic: str, lanes: int, *, committed: bool) -> list[OffsetRange]:
        """What there is of each lane at this moment."""
        start, high = (self._offsets(topic, lanes, at, committed=False) for at in ("earliest", "latest"))
        end = self._offsets(topic, lanes, "latest", committed=True) if committed else high
        return [OffsetRange(*one) for one in zip(start, map(min, end, high), high, strict=True)]

    def _offsets(self, topic: str, lanes: int, at: str, *, committed: bool) -> list[int]:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, lane): getattr(OffsetSpec, at)() for lane in range(lanes)}
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                told = self.admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_SECONDS)
                return [int(told[place].result(2 * ANSWER_SECONDS).offset) for place in asked]
            except KafkaException as error:
                # A lane that was made just now has no leader yet.
                if is_permanent(error) or time.monotonic() > until:
                    raise explained(error, self.access.brokers, self.listener) from None
                time.sleep(0.2)

    def is_compacted(self, topic: str) -> bool:
        """Whether the cluster takes older records of a key out of a topic; no, where it does not say."""
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

        asked = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        try:
            return "compact" in next(iter(asked.values())).result(ANSWER_SECONDS)["cleanup.policy"].value
        except Exception:  # noqa: BLE001  the right to ask this is rarely given
            return False

    def offsets_kept_seconds(self) -> float | None:
        """How long the cluster remembers the offsets of a group that nobody is in; None when it does not say."""
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

        broker = str(next(iter(self._ask().brokers)))
        asked = self.admin.describe_configs([ConfigResource(ResourceType.BROKER, broker)])
        try:
            settings = next(iter(asked.values())).result(ANSWER_SECONDS)
            return float(settings["offsets.retention.minutes"].value) * 60
        except Exception:  # noqa: BLE001  the right to ask this is rarely given; then the time is not known
            return None

    def lanes_now(self, topic: str) -> int:
        """The same of one topic, asked once: for one that need not be there."""
        found = self._ask(topic).topics[topic]
        if found.error is not None and _name(found.error) != "UNKNOWN_TOPIC_OR_PART":
            raise explained(found.error, self.access.brokers, self.listener)
        return len(found.partitions)

    def _ask(self, topic: str | None = None) -> Any:
        """Asked in short turns: a call that can only time out does not say so, and the callback is heard in between."""
        from confluent_kafka import KafkaException

        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                return self.admin.list_topics(topic, timeout=TURN_SECONDS)
            except KafkaException as error:
                self.admin.poll(0.1)
                hopeless = any(_name(one) in HOPELESS for one in self.listener.said)
                if hopeless or time.monotonic() > until:
                    raise explained(error, self.access.brokers, self.listener) from None


@contextmanager
def open_cluster(access: KafkaAccess) -> Iterator[KafkaCluster]:
    """The cluster, asked through one client for as long as this is open."""
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise MissingExtraError.named("kafka", "confluent-kafka") from None
    listener = Listener()
    settings = access.librdkafka(error_cb=listener, **{"allow.auto.create.topics": False})
    yield KafkaCluster(access, AdminClient(settings), listener)


def explained(error: Any, who: str, listener: Listener | None = None) -> BrokerError:
    """An error of a client or broker in keylane's words; the cause that a callback told goes before a time-out."""
    told = [*(listener.said if listener else ()), error]
    cause = next((one for one in told if _name(one) in WORDS), error)
    words, hint = WORDS.get(_name(cause), ("", ""))
    if words:
        return BrokerError.of(words.format(who), got=_text(cause), hint=hint)
    if _name(cause) in _UNREACHED:
        return BrokerError.of(f"no broker answers at {who}", got=_text(cause), hint=IS_IT_RUNNING)
    return BrokerError.of(f"{who} refused", got=_text(cause))


def is_permanent(error: Any) -> bool:
    """Whether the same call would fail in the same way again."""
    return _name(error) in PERMANENT


def _name(error: Any) -> str:
    """`UNKNOWN_TOPIC_OR_PART`, `_SSL`, …; nothing when it is no error of a client."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    name = getattr(inner, "name", None)
    return str(name()) if callable(name) else ""


def _text(error: Any) -> str:
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    said = getattr(inner, "str", None)
    return f"{_name(error)}: {said()}" if callable(said) else str(error)

"""What a Kafka cluster reports: topics, lanes, offsets, retention; and its errors, translated.

librdkafka hides causes: a call ends in `timed out` while the password was wrong, and only a callback reports that.
`Listener` collects what the callbacks report, and `explained` translates the first real cause.

How a cluster is reached: `access`. Writing to it: `spark.kafka_writer`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, MissingExtraError
from keylane.systems.kafka.access import OF_READERS, OF_WRITERS
from keylane.systems.read_range import clipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.read_range import ReadRange

ANSWER_SECONDS: Final = 15.0
#: For the first answer: somebody waits for it, and a broker that is down is answered for soon enough.
FIRST_SECONDS: Final = 6.0
#: How long the markers of a commit are waited for. A transaction that is open for longer is somebody else's.
SETTLE_SECONDS: Final = 3.0
TURN_SECONDS: Final = 2.0
#: Seconds between the questions for topics that seem missing.
PAUSES: Final = (0.2, 0.5, 1.0)
#: What waiting does not fix.
HOPELESS: Final = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"})
#: The name of an error of librdkafka's or a broker's, what it means, and how to fix it. `{}` is the address.
WORDS: Final[dict[str, tuple[str, str]]] = {
    "_AUTHENTICATION": ("{} rejected the login", "check sasl.username, sasl.password and sasl.mechanism"),
    "SASL_AUTHENTICATION_FAILED": ("{} rejected the login", "check sasl.username, sasl.password and sasl.mechanism"),
    "_SSL": ("{} and this client do not trust each other", "check ssl.ca.location and security.protocol"),
    "_RESOLVE": ("a broker's host name cannot be resolved", "check the host in the address"),
    "TOPIC_AUTHORIZATION_FAILED": ("the user may not read or write a topic", "an ACL for it: Read, Write, Describe"),
    "GROUP_AUTHORIZATION_FAILED": ("the user may not use the route's group", "an ACL: Read on group keylane-*"),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        "the user may not write transactions",
        "an ACL: Write and Describe on transactional id keylane-*; or --delivery at-least-once",
    ),
    "CLUSTER_AUTHORIZATION_FAILED": ("the user may not do this on the cluster", "an ACL: IdempotentWrite"),
    "UNKNOWN_TOPIC_OR_PART": ("a topic or lane does not exist", "was the topic deleted or recreated?"),
    "_UNKNOWN_PARTITION": ("a topic or lane does not exist", "was the topic deleted or recreated?"),
    "_UNKNOWN_TOPIC": ("a topic or lane does not exist", "was the topic deleted or recreated?"),
    "MSG_SIZE_TOO_LARGE": ("a record is larger than the topic allows", "raise max.message.bytes of the topic"),
    "INVALID_TRANSACTION_TIMEOUT": (
        "the broker allows no transaction this long",
        "lower transaction.timeout.ms, or raise transaction.max.timeout.ms of the broker",
    ),
    "INVALID_REPLICATION_FACTOR": ("the cluster has too few brokers for its own settings", "see its log"),
    "POLICY_VIOLATION": ("the cluster's policy refuses this", "see its log"),
}
#: Causes that recur on a retry. Everything else is transient, or a fence by another producer, and is retried: also a
#: missing topic, because a broker that has just restarted does not know them all at once.
PERMANENT: Final = frozenset(WORDS) - {
    *("_RESOLVE", "_SSL", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"),
}
#: A topic that does not exist, or that a broker does not know yet.
MISSING: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"})
IS_IT_RUNNING: Final = "is it running, and is this its port?"
_UNREACHED: Final = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE")


@dataclass(slots=True)
class Listener:
    """Errors that callbacks reported, in order: the cause of a later time-out is among them."""

    errors: list[Any] = field(default_factory=list)
    #: Whether the cluster has answered before: then it is waited for while its brokers start again.
    answered: bool = False

    def __call__(self, error: Any) -> None:
        """Collect one."""
        self.errors.append(error)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of a lane: the first, the end that a reader sees, and the end of the log.

    The two ends differ while a transaction is open, for readers of committed records.
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
        """Request metadata: an error when no broker answers, or access is refused."""
        self._ask()

    def lanes(self, topics: Sequence[str]) -> dict[str, int]:
        """The lane count of each topic as it is now; 0 for one that does not exist. No topic is created by asking."""
        counts = {topic: self.lanes_now(topic) for topic in topics}
        # A new topic is not known to every broker yet: those that seem missing are requested again.
        for pause in PAUSES:
            if all(counts.values()):
                break
            time.sleep(pause)
            counts |= {topic: self.lanes_now(topic) for topic, lanes in counts.items() if not lanes}
        return counts

    def topic_ids(self, topics: Sequence[str], seconds: float = ANSWER_SECONDS) -> dict[str, str]:
        """The id of each topic that there is, which a recreated one does not share.

        Empty where the cluster reports none. A topic that does not exist is not in the result. Brokers that do not
        answer are waited for.
        """
        return {topic: known for topic, (known, _) in self.topics_now(topics, seconds).items()}

    def topics_now(self, topics: Sequence[str], seconds: float = ANSWER_SECONDS) -> dict[str, tuple[str, int]]:
        """The id of each topic that there is, as `topic_ids` has it, and how many partitions it has."""
        found: dict[str, tuple[str, int]] = {}
        until = time.monotonic() + seconds
        for pause in (0.0, *PAUSES):
            time.sleep(pause)
            away = [topic for topic in topics if topic not in found]
            found |= self._topics_now(away, max(1.0, until - time.monotonic()))
            if len(found) == len(topics):
                break
        return found

    def _topics_now(self, topics: Sequence[str], seconds: float) -> dict[str, tuple[str, int]]:
        from confluent_kafka import KafkaException, TopicCollection

        found = {}
        asked = self.admin.describe_topics(TopicCollection(list(topics)), request_timeout=seconds)
        for topic, answer in asked.items():
            try:
                now = answer.result(seconds + TURN_SECONDS)
                found[topic] = _id_text(now.topic_id), len(now.partitions)
            except KafkaException as error:
                if error_name(error) not in MISSING:
                    raise explained(error, self.access.brokers, self.listener) from None
            except TimeoutError:
                raise BrokerError.of(f"no broker answers at {self.access.brokers}", hint=IS_IT_RUNNING) from None
        return found

    def create(self, topic: str, lanes: int, settings: dict[str, str] | None = None, replicas: int = -1) -> None:
        """Create a topic with these settings and otherwise the cluster's; an existing one is left as it is."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        try:
            new = NewTopic(topic, lanes, replicas, config=settings or {})
            self.admin.create_topics([new])[topic].result(ANSWER_SECONDS)
        except KafkaException as error:
            if error_name(error) != "TOPIC_ALREADY_EXISTS":
                raise explained(error, self.access.brokers, self.listener) from None
        except TimeoutError:
            raise BrokerError.of(f"no broker answers at {self.access.brokers}", hint=IS_IT_RUNNING) from None

    def remove(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Delete topics and groups that the caller created; one that is gone, or in use, is left."""
        asked = {
            **(self.admin.delete_consumer_groups(list(groups)) if groups else {}),
            **(self.admin.delete_topics(list(topics)) if topics else {}),
        }
        for done in asked.values():
            with suppress(TimeoutError):
                done.exception(ANSWER_SECONDS)

    def offset_ranges(self, topic: str, lanes: int, *, committed: bool) -> list[OffsetRange]:
        """The offset range of each lane at this moment."""
        start, high = (self._offsets(topic, lanes, at, committed=False) for at in ("earliest", "latest"))
        end = self._offsets(topic, lanes, "latest", committed=True) if committed else high
        return [OffsetRange(*ends) for ends in zip(start, map(min, end, high), high, strict=True)]

    def settled_ranges(self, topic: str, lanes: int) -> list[OffsetRange]:
        """The offset range of each lane, up to the last committed record.

        A commit is acknowledged before its marker is in every lane, so a lane with an open transaction is asked again
        for a while: whoever verifies right after a route has ended would count its last records as lost.
        """
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            ranges = self.offset_ranges(topic, lanes, committed=True)
            if all(one.end == one.high for one in ranges) or time.monotonic() > until:
                return ranges
            time.sleep(0.1)

    def offsets_at(self, topic: str, lanes: int, time_ms: int) -> list[int]:
        """The first offset of each lane whose record is of this time or later; -1 where there is none."""
        # Below zero, Kafka reads a time as another question: -1 as one for the end.
        return self._offsets(topic, lanes, max(0, time_ms), committed=False)

    def _offsets(self, topic: str, lanes: int, at: str | int, *, committed: bool) -> list[int]:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        spec = OffsetSpec.for_timestamp(at) if isinstance(at, int) else getattr(OffsetSpec, at)()
        asked = {TopicPartition(topic, lane): spec for lane in range(lanes)}
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                answers = self.admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_SECONDS)
                return [int(answers[lane].result(2 * ANSWER_SECONDS).offset) for lane in asked]
            except KafkaException as error:
                # A new lane has no leader yet.
                if is_permanent(error) or time.monotonic() > until:
                    raise explained(error, self.access.brokers, self.listener) from None
                time.sleep(0.2)

    def within(self, topic: str, there: Sequence[tuple[int, int]], wanted: ReadRange) -> list[tuple[int, int]]:
        """The offsets of each lane that are in a range."""
        since, until = (
            None if at is None else self.offsets_at(topic, len(there), at) for at in (wanted.since, wanted.until)
        )
        return clipped(there, wanted, since, until)

    def noted(self, group: str, topic: str, seconds: float = 2 * ANSWER_SECONDS) -> tuple[int, str]:
        """The offset that a group has for lane 0 of a topic, and the text beside it; -1 when it has none."""
        (found,) = self._committed(group, topic, 1, seconds)
        return (found.offset, found.metadata or "") if found.offset >= 0 else (-1, "")

    def committed(self, group: str, topic: str, lanes: int, seconds: float = 2 * ANSWER_SECONDS) -> list[int]:
        """The offset that a group has committed of each of so many lanes; -1 where it has none."""
        return [max(-1, one.offset) for one in self._committed(group, topic, lanes, seconds)]

    def _committed(self, group: str, topic: str, lanes: int, seconds: float) -> list[Any]:
        """What a group has committed, lane by lane.

        Asked by a reader that joins no group: librdkafka's admin client ends the process (a null pointer in
        `rd_kafka_cgrp_op`) when the coordinator of the group is not known yet, as on a new cluster.
        """
        from confluent_kafka import KafkaException, TopicPartition

        until = time.monotonic() + seconds
        with self._reader(group) as reader:
            while True:
                failed: Any
                try:
                    asked = [TopicPartition(topic, lane) for lane in range(lanes)]
                    found: list[Any] = reader.committed(asked, timeout=TURN_SECONDS)
                    failed = next((one.error for one in found if one.error is not None), None)
                except KafkaException as error:
                    failed = error
                if failed is None:
                    return found
                if is_permanent(failed) or time.monotonic() > until:
                    raise explained(failed, self.access.brokers, self.listener) from None
                time.sleep(0.2)

    def note(self, group: str, topic: str, offset: int, text: str, seconds: float = 2 * ANSWER_SECONDS) -> None:
        """Keep an offset of a group that nobody joins, with a text beside it; a broker that is away is waited for.

        By a reader that joins no group, as in `noted`: after a broker was killed and started again, librdkafka's admin
        client does not find the coordinator any more.
        """
        from confluent_kafka import KafkaException, TopicPartition

        until, answers = time.monotonic() + seconds, list[Any]()
        kept = [TopicPartition(topic, 0, offset, text)]
        with self._reader(group, on_commit=lambda error, committed: answers.append((error, committed))) as reader:
            while True:
                failed: Any = None
                try:
                    reader.commit(offsets=kept, asynchronous=True)
                    turn = time.monotonic() + TURN_SECONDS
                    while not answers and time.monotonic() < turn:
                        reader.poll(0.1)
                except KafkaException as error:
                    failed = error
                if answers:
                    whole, committed = answers.pop()
                    failed = whole or next((one.error for one in committed if one.error is not None), None)
                    if failed is None:
                        return
                if time.monotonic() > until and failed is None:
                    raise BrokerError.of(f"no broker answers at {self.access.brokers}", hint=IS_IT_RUNNING) from None
                if failed is not None and (is_permanent(failed) or time.monotonic() > until):
                    raise explained(failed, self.access.brokers, self.listener) from None
                time.sleep(0.2)

    def texts_beside(self, group: str, topic: str, lanes: int, seconds: float = 2 * ANSWER_SECONDS) -> list[str]:
        """The text that a group has beside the offset of each of so many lanes; empty where it has none."""
        found = self._committed(group, topic, lanes, seconds)
        return [(one.metadata or "") if one.offset >= 0 else "" for one in found]

    def commit_for(self, group: str, offsets: Sequence[Any]) -> Any:
        """Commit offsets of a group that has no members, once; the error, or None where it was taken."""
        from confluent_kafka import KafkaException

        with self._reader(group) as reader:
            try:
                committed = reader.commit(offsets=list(offsets), asynchronous=False)
            except KafkaException as error:
                return error
            return next((one.error for one in committed or () if one.error is not None), None)

    @contextmanager
    def _reader(self, group: str, **own: Any) -> Iterator[Any]:
        """A reader of a group's offsets, which joins no group and reads nothing."""
        from confluent_kafka import Consumer

        of_readers = {name: text for name, text in self.access.librdkafka().items() if name not in OF_WRITERS}
        own |= {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
        reader = Consumer({**of_readers, **own, "error_cb": self.listener})
        try:
            yield reader
        finally:
            reader.close()

    def note_after(
        self, group: str, topic: str, change: Callable[[str], tuple[int, str]], seconds: float = 2 * ANSWER_SECONDS
    ) -> None:
        """Keep what `change` makes of the text beside a group's offset, with nobody between the look and the note.

        By a transaction of the group's name: whoever opens it later ends an earlier one before that can commit, and
        looks after the note of one that did. Others, who only `note`, are not kept away.
        """
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        of_client = {name: text for name, text in self.access.librdkafka().items() if name not in OF_WRITERS}
        of_client = {name: text for name, text in of_client.items() if name not in OF_READERS}
        reader, until = (
            Consumer({**of_client, "group.id": group, "enable.auto.commit": False}),
            time.monotonic() + seconds,
        )
        try:
            while True:
                writer = Producer({**of_client, "transactional.id": group, "error_cb": self.listener})
                try:
                    writer.init_transactions(ANSWER_SECONDS)
                    offset, text = change(self.noted(group, topic, seconds)[1])
                    writer.begin_transaction()
                    kept = [TopicPartition(topic, 0, offset, text)]
                    writer.send_offsets_to_transaction(kept, reader.consumer_group_metadata(), ANSWER_SECONDS)
                    writer.commit_transaction(ANSWER_SECONDS)
                except KafkaException as error:
                    if is_permanent(error) or time.monotonic() > until:
                        raise explained(error, self.access.brokers, self.listener) from None
                    time.sleep(0.2)
                else:
                    return
        finally:
            reader.close()

    def is_compacted(self, topic: str) -> bool:
        """Whether a topic is compacted; False where the cluster does not report it."""
        return "compact" in self.topic_settings(topic, must_answer=True).get("cleanup.policy", "")

    def topic_settings(self, topic: str, *, must_answer: bool = False) -> dict[str, str]:
        """The settings of a topic; none where the cluster does not report them.

        With `must_answer`, a cluster that cannot be asked now is an error: silence is not the refusal of a right.
        """
        from confluent_kafka.admin import ConfigResource, ResourceType

        asked = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        try:
            settings = next(iter(asked.values())).result(ANSWER_SECONDS)
            return {name: one.value for name, one in settings.items() if one.value is not None}
        except Exception as error:
            # The right to ask this is rarely given.
            if must_answer and not _is_refusal(error):
                what = "the settings of a topic cannot be read"
                raise BrokerError.of(what, got=f"{topic}: {error}", hint="run the command again") from error
            return {}

    def replicas(self, topic: str) -> int:
        """How many replicas the first partition of a topic has."""
        return len(self._ask(topic).topics[topic].partitions[0].replicas)

    def own_settings(self, topic: str) -> dict[str, str]:
        """What was set for a topic alone; an error where the cluster does not report it: a copy would lose it."""
        from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

        asked = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        try:
            settings = next(iter(asked.values())).result(ANSWER_SECONDS)
        except Exception as error:
            hint = "the right DescribeConfigs on the topic; or create the new topic yourself, and run again"
            raise BrokerError.of(
                "the settings of a topic cannot be read", got=f"{topic}: {error}", hint=hint
            ) from error
        return {name: one.value for name, one in settings.items() if one.value is not None and one.source == own}

    def offsets_kept_seconds(self) -> float | None:
        """How long the cluster keeps the offsets of an empty group; None when it does not report it."""
        from confluent_kafka.admin import ConfigResource, ResourceType

        broker = str(next(iter(self._ask().brokers)))
        asked = self.admin.describe_configs([ConfigResource(ResourceType.BROKER, broker)])
        try:
            settings = next(iter(asked.values())).result(ANSWER_SECONDS)
            return float(settings["offsets.retention.minutes"].value) * 60
        except Exception:  # noqa: BLE001  the right to ask this is rarely given; then the time is not known
            return None

    def lanes_now(self, topic: str) -> int:
        """The same of one topic, without a retry: for one that need not exist."""
        metadata = self._ask(topic).topics[topic]
        if metadata.error is not None and error_name(metadata.error) != "UNKNOWN_TOPIC_OR_PART":
            raise explained(metadata.error, self.access.brokers, self.listener)
        return len(metadata.partitions)

    def _ask(self, topic: str | None = None) -> Any:
        """Requested in short turns: a hopeless call only times out, and callbacks are served in between."""
        from confluent_kafka import KafkaException

        patience = ANSWER_SECONDS if self.listener.answered else min(FIRST_SECONDS, ANSWER_SECONDS)
        until = time.monotonic() + patience
        while True:
            try:
                found = self.admin.list_topics(topic, timeout=TURN_SECONDS)
            except KafkaException as error:
                self.admin.poll(0.1)
                hopeless = any(error_name(reported) in HOPELESS for reported in self.listener.errors)
                if hopeless or time.monotonic() > until:
                    raise explained(error, self.access.brokers, self.listener) from None
            else:
                self.listener.answered = True
                return found


@contextmanager
def open_cluster(access: KafkaAccess) -> Iterator[KafkaCluster]:
    """The cluster, through one client for as long as this is open."""
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise MissingExtraError.named("kafka", "confluent-kafka") from None
    listener = Listener()
    settings = access.librdkafka(error_cb=listener, **{"allow.auto.create.topics": False})
    yield KafkaCluster(access, AdminClient(settings), listener)


def abort_command(brokers: str, topic: str, lane: int, offset: int) -> str:
    """Kafka's own tool ends a transaction by the offset at which it began; `describe-producers` names who began it."""
    where = f"--topic {topic} --partition {lane}"
    return f"kafka-transactions.sh --bootstrap-server {brokers} abort {where} --start-offset {offset}"


def _is_refusal(error: Any) -> bool:
    """Whether the cluster answered, and refused: the client's own codes, such as its time-out, are below zero."""
    return any(hasattr(cause, "code") and cause.code() >= 0 for cause in error.args)


def _id_text(uuid: Any) -> str:
    """128 bits as hexadecimal digits; nothing where they are all zero, as brokers without ids send them."""
    halves = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    text = "".join(f"{half & (2**64 - 1):016x}" for half in halves)
    return text if text.strip("0") else ""


def explained(error: Any, who: str, listener: Listener | None = None) -> BrokerError:
    """An error of a client or broker, translated; a cause that a callback reported goes before a time-out."""
    reported = [*(listener.errors if listener else ()), error]
    cause = next((candidate for candidate in reported if error_name(candidate) in WORDS), error)
    words, hint = WORDS.get(error_name(cause), ("", ""))
    if words:
        return BrokerError.of(words.format(who), got=_text(cause), hint=hint)
    if error_name(cause) in _UNREACHED:
        return BrokerError.of(f"no broker answers at {who}", got=_text(cause), hint=IS_IT_RUNNING)
    return BrokerError.of(f"{who} refused", got=_text(cause))


def is_permanent(error: Any) -> bool:
    """Whether the same call would fail again."""
    return error_name(error) in PERMANENT


def error_name(error: Any) -> str:
    """`UNKNOWN_TOPIC_OR_PART`, `_SSL`, …; empty when it is not an error of a client."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    name = getattr(inner, "name", None)
    return str(name()) if callable(name) else ""


def _text(error: Any) -> str:
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    text = getattr(inner, "str", None)
    return f"{error_name(error)}: {text()}" if callable(text) else str(error)

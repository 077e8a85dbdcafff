"""A contract in Kafka producers: the partition to pass, or the partitioner to plug in.

`KeyedProducer` is for confluent-kafka, `KafkaPythonProducer` for kafka-python; both compare lanes with the topic's
partitions and lose no record in silence: `_Keyed` has what they share. `kafka_python_partitioner` needs no library,
because kafka-python calls it. Where producers and Spark must agree, use the same contract in both.
"""

from __future__ import annotations

import atexit
import os
import time
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from random import choice, getrandbits
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from weakref import WeakSet, ref

from keylane import numbers
from keylane.contract.partitioners import FACTS
from keylane.errors import (
    BrokerError,
    DeliveryError,
    KeylaneError,
    LaneCountError,
    MissingExtraError,
    UsageError,
)
from keylane.records import Undelivered
from keylane.systems.kafka.cluster import IS_IT_RUNNING, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from keylane.records import Placement
    from keylane.router import Router

    Choose = Callable[[Sequence[int]], int]
    OnFailure: TypeAlias = Literal["raise"] | Callable[[Undelivered], object]

__all__ = [
    "PRODUCER_SETTINGS",
    "KafkaPythonProducer",
    "KeyedProducer",
    "LanePartitioner",
    "kafka_python_partitioner",
    "kafka_python_settings",
    "producer_settings",
]

#: For keyed streams: batches worth compressing, and retries that cannot reorder or repeat.
PRODUCER_SETTINGS: Final[dict[str, Any]] = {
    "linger.ms": 5,
    "batch.size": 65_536,
    "compression.type": "lz4",
    "enable.idempotence": True,
    "acks": "all",
}


def producer_settings(router: Router, **given: Any) -> dict[str, Any]:
    """Settings for confluent-kafka's Producer; what is given wins, with underscores for dots.

    The partitioner setting is that of the contract's family where librdkafka has it, so that a plain key sent without
    an explicit partition lands where the contract says; hot keys and tables need the partition of `KeyedProducer`.
    """
    named = {"partitioner": setting} if (setting := _setting(router)) else {}
    return {**PRODUCER_SETTINGS, **named, **{_dotted(name): value for name, value in given.items()}}


def _setting(router: Router) -> str | None:
    """Librdkafka's setting of the contract's family whose null rule is the contract's; None where it has none."""
    alike = [f for f in FACTS.values() if f.client == "librdkafka" and f.family == router.facts.family]
    fitting = [f for f in alike if (f.on_null == "hash") == (router.on_null == "hash")]
    return next((f.setting.removeprefix("partitioner=") for f in (*fitting, *alike)), None)


def _dotted(name: str) -> str:
    """Librdkafka's properties have dots; confluent-kafka's own (`error_cb`, `on_delivery`) have underscores."""
    return name if name.endswith("_cb") or name in ("on_delivery", "log_level", "logger") else name.replace("_", ".")


def kafka_python_settings(router: Router, choose: Choose = choice, **given: Any) -> dict[str, Any]:
    """The same for kafka-python's KafkaProducer, with the partitioner plugged in."""
    return {**_kafka_python_own(), "partitioner": kafka_python_partitioner(router, choose), **given}


def _kafka_python_own() -> dict[str, Any]:
    return {
        "linger_ms": PRODUCER_SETTINGS["linger.ms"],
        "batch_size": PRODUCER_SETTINGS["batch.size"],
        "compression_type": _codec(),
        "enable_idempotence": PRODUCER_SETTINGS["enable.idempotence"],
        "acks": "all",
    }


def _codec() -> str:
    """lz4 where kafka-python finds a library for it, which it does not bring along; else gzip, which it always has."""
    try:
        from kafka.codec import has_lz4
    except ImportError:
        return str(PRODUCER_SETTINGS["compression.type"])
    return str(PRODUCER_SETTINGS["compression.type"]) if has_lz4() else "gzip"


def kafka_python_partitioner(router: Router, choose: Choose = choice) -> LanePartitioner:
    """A partitioner for kafka-python, of version 2 (a callable) and of version 3 (a `Partitioner`).

    `choose` picks a lane for a record whose key decides none; kafka-python itself draws one, and so does this. It sees
    the key's bytes and nothing else, so a contract whose lane depends on more (a window, a sub-key, a tier) is refused
    here: pass `partition=router.lane(record)` instead.
    """
    _key_alone(router)
    with suppress(ImportError):
        # Version 3 asks isinstance() of an abstract class; a virtual subclass needs no import where there is none.
        from kafka.partitioner import Partitioner

        Partitioner.register(LanePartitioner)
    return LanePartitioner(router, choose)


@dataclass(frozen=True, slots=True)
class LanePartitioner:
    """The contract as kafka-python calls it."""

    router: Router
    choose: Choose

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        """As version 2 asks: with the partitions there are."""
        lanes = sorted(all_partitions)
        if len(lanes) != self.router.lane_count:
            allowed = str(self.router.lane_count)
            hint = "a topic of as many lanes as the contract has, or a contract of as many as the topic"
            raise LaneCountError.of("the topic has another lane count", got=len(lanes), allowed=allowed, hint=hint)
        lane = self.router.lane_of_key(key)
        return lanes[lane] if lane is not None else self.choose(list(available) or lanes)

    def partition(
        self, topic: str, _key: Any, serialized_key: bytes | None, _value: Any, _serialized: Any, cluster: Any
    ) -> int:
        """As version 3 asks: with the whole cluster."""
        known = cluster.partitions_for_topic(topic) or ()
        return self(serialized_key, list(known), list(cluster.available_partitions_for_topic(topic) or ()))


def _key_alone(router: Router) -> None:
    spec = router.contract.spec
    needs_more = bool(spec.key.window) or any(rule.tier or rule.spread for rule in spec.hot_keys)
    if needs_more or (spec.table and spec.table.by):
        raise UsageError.of(
            "this contract's lane depends on more than the key's bytes",
            got=spec.key.fields,
            hint="produce(..., partition=router.lane(record))",
        )


#: A topic's lanes are compared again after so long, and at once when a delivery says that a lane is not there.
CHECK_SECONDS: Final = 10.0
#: How long the first look at a topic may take, and how long a full queue is waited for.
ANSWER_SECONDS: Final = 60.0
#: A topic that was made a moment ago is not known to every broker yet.
APPEAR_SECONDS: Final = 5.0
#: A look at a topic that was seen before: a broker that is away must not hold up the sender, whose queue has room.
GLANCE_SECONDS: Final = 2.0
#: The same for kafka-python, which waits so at a topic that is gone, and for room.
BLOCK_MS: Final = 15_000
#: How long kafka-python tries a record, unless something else is given.
DELIVERY_MS: Final = 120_000
#: How long a block that ends with an error waits for what it had sent.
LEAVE_SECONDS: Final = 10.0
#: So many records of a failed delivery are in the message; all are in the error.
NAMED: Final = 3
#: Errors of a delivery that say that the topic is not what it was.
CHANGED: Final = frozenset(
    {"_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"}
)


class _Keyed(ABC):
    """What keyed producers share: lanes compared with the topic, and deliveries that failed.

    `send`, `flush` and `close` may be called from several threads; records of one key keep their order only when one
    thread sends them. A failed delivery is raised once, by whichever call comes next.
    """

    def __init__(self, router: Router, *, start: int | None, on_failure: OnFailure, check_seconds: float) -> None:
        self.router = router
        self.next_position = getrandbits(40) if start is None else start
        self.check_seconds = check_seconds
        self._on_failure = on_failure
        self._lock = Lock()
        self._failed: list[Undelivered] = []
        self._seen: dict[str, float] = {}
        self._process = os.getpid()
        self._closed = False
        _OPEN.add(self)

    def send(
        self, record: Mapping[str, Any], value: bytes | None, *, position: int | None = None, **options: Any
    ) -> Placement:
        """Send one record, where the contract says; it is on its way when this returns, and delivered after `flush`.

        Raises UnplacedError when the contract has no lane for it, LaneCountError when the topic has another lane
        count, and DeliveryError when an earlier record failed. This record is not sent then.
        """
        if self._closed:
            raise UsageError.of("this producer is closed", hint="send inside of the with block")
        self._check_process()
        self._serve()
        self._raise_failed()
        placement = self.router.placed(record, self.next_position if position is None else position)
        self._check_lanes(placement.stream)
        self._produce(placement, self._key(record, placement), value, options)
        with self._lock:
            self.next_position += 1
        return placement

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record is delivered; raises DeliveryError for those that failed, or still wait after that.

        Without a timeout the client's own bounds it: `delivery.timeout.ms`, after which a record has failed.
        """
        self._check_process()
        waiting = self._wait(timeout)
        self._raise_failed(waiting)
        if waiting:
            waited = "no answer" if timeout is None else f"{timeout:g} s without an answer"
            text = f"{numbers.plural(waiting, 'record')} not delivered yet: got {waited}"
            hint = "they are still tried until delivery.timeout.ms; flush again, or look at the broker"
            raise DeliveryError(f"{text}; hint: {hint}", waiting=waiting)

    def close(self, timeout: float | None = None) -> None:
        """Wait for every record, and take no more; raises DeliveryError for those that failed, or waited for longer.

        Afterwards nothing is on its way: what still waited is given up and named, too. A second close does nothing, and
        neither does one after a fork: all records are the parent's.
        """
        if self._closed or self._is_forked:
            return
        self._closed = True
        try:
            if self._wait(timeout):
                self._give_up()
            self._raise_failed()
        finally:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error is None:
            return self.close()
        try:
            self.close(LEAVE_SECONDS)
        except KeylaneError as lost:
            # The error of the block is the one to see; what was not delivered must not go without a word.
            error.add_note(f"keylane: {lost}")
        return None

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._is_forked:
            return
        if left := self._waiting() + len(self._failed):
            records = numbers.plural(left, "record")
            text = f"a producer was dropped with {records} not delivered; hint: flush(), close() or with"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def _check_process(self) -> None:
        """Refuse to go on after a fork: a client's threads stay behind, and what it takes is never sent."""
        if self._is_forked:
            raise UsageError.of(
                "this producer was made in another process: after a fork it takes records and sends none",
                got=f"process {os.getpid()}",
                allowed=f"process {self._process}",
                hint="make a producer in each process, after the fork",
            )

    # What differs between clients.

    @abstractmethod
    def _produce(self, placement: Placement, key: bytes | None, value: bytes | None, options: dict[str, Any]) -> None:
        """Hand a record to the client, whose answer goes to `_fail` when it is an error."""

    @abstractmethod
    def _lanes_of(self, topic: str, *, is_new: bool) -> int | None:
        """The lane count that the cluster has now; 0 without such a topic, None without an answer for one known."""

    @abstractmethod
    def _wait(self, timeout: float | None) -> int:
        """Wait for all deliveries; how many are not done."""

    @abstractmethod
    def _give_up(self) -> None:
        """Let every record that still waits fail; one on the wire may have been written."""

    @abstractmethod
    def _waiting(self) -> int:
        """Records that the client has not delivered yet."""

    @abstractmethod
    def _serve(self) -> None:
        """Let the client call back."""

    @abstractmethod
    def _end(self) -> None:
        """Let the client go."""

    # Lanes.

    def _check_lanes(self, topic: str) -> None:
        """Hold the contract's lanes against the topic's: at first, and again from time to time.

        A lane count that changes moves keys, so a producer never follows it by itself, whatever the contract says.
        """
        seen = self._seen.get(topic)
        if seen is not None and time.monotonic() - seen < self.check_seconds:
            return
        promised = self.router.contract.tiers.get(topic, self.router.lane_count)
        there = self._lanes_of(topic, is_new=seen is None)
        if there is not None and there != promised:
            self._seen.pop(topic, None)
            raise _other_lanes(self.router, topic, there, promised, is_new=seen is None)
        # Without an answer records wait in the client's queue; the next look comes as if there had been one.
        self._seen[topic] = time.monotonic()

    def _look_again(self, topic: str) -> None:
        """Let the next record of a topic wait until its lanes were compared."""
        if topic in self._seen:
            self._seen[topic] = -inf

    # Deliveries.

    def _fail(self, record: Undelivered, *, changed: bool) -> None:
        """Note a failed delivery; called on the client's thread, or in `send` and `flush`."""
        if changed:
            self._look_again(record.stream)
        if self._on_failure == "raise":
            with self._lock:
                self._failed.append(record)
        else:
            self._on_failure(record)

    def _raise_failed(self, waiting: int = 0) -> None:
        if not self._failed:
            return
        with self._lock:
            failed, self._failed = self._failed, []
        if failed:
            shown = "; ".join(map(str, failed[:NAMED])) + (
                f"; and {numbers.count(len(failed) - NAMED)} more" if failed[NAMED:] else ""
            )
            more = f"; {numbers.count(waiting)} more not delivered yet" if waiting else ""
            hint = "they are in the error's `records`; send them again, or give on_failure"
            raise DeliveryError(
                f"{numbers.plural(len(failed), 'record')} not delivered: {shown}{more}; hint: {hint}",
                failed,
                waiting,
            )

    def _key(self, record: Mapping[str, Any], placement: Placement) -> bytes | None:
        """The key to send: the routing key, or, where the header is not part of that, the key as it was given."""
        key = self.router.contract.spec.key
        return record[key.fields[0]] if key.registry_header == "strip" else placement.routing_key


#: Producers that are not closed and still referred to.
_OPEN: Final[WeakSet[_Keyed]] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Wait for the records of producers that are open when the program ends, for a while: librdkafka drops them."""
    until = time.monotonic() + LEAVE_SECONDS
    for producer in list(_OPEN):
        try:
            producer.close(max(0.0, until - time.monotonic()))
        except KeylaneError as lost:
            warnings.warn(f"the program ended with an open producer: {lost}", RuntimeWarning, stacklevel=1)


def _other_lanes(router: Router, topic: str, there: int, promised: int, *, is_new: bool) -> KeylaneError:
    if not there:
        hint = (
            "make it with as many lanes as the contract has" if is_new else "it was deleted; look for its last records"
        )
        return BrokerError.of(f"there is no topic {topic}", allowed=f"a topic of {promised} lanes", hint=hint)
    what = f"{topic} has another lane count than the contract" if is_new else f"{topic} has another lane count now"
    if topic in router.contract.tiers or router.contract.spec.lanes != "live":
        hint = f"a topic of {promised} lanes, or a contract of {there}: `keylane evolve` says which keys that moves"
    else:
        hint = (
            f"Router(contract, lanes={there}) in a new producer, when no key's order matters or the old lanes are read"
        )
    return LaneCountError.of(what, got=there, allowed=str(promised), hint=hint)


class KeyedProducer(_Keyed):
    """A confluent-kafka producer that puts every record where the contract says, or raises.

    `send(record, value)` computes stream, key and partition; tiers go to their own topic. At the first record of a
    topic, and then every `check_seconds`, its partitions are compared with the contract's lanes. A record that could
    not be delivered is raised at the next `send`, `flush` or `close`; `on_failure` may be a function that takes each of
    them instead. A record without a position of its own has the next one of this producer, which keyless rules read; it
    begins at `start`, drawn by default, so that many producers do not all begin on one lane. A topic is not created by
    sending to it. `.producer` is confluent-kafka's own.
    """

    def __init__(
        self,
        router: Router,
        bootstrap: str,
        *,
        start: int | None = None,
        on_failure: OnFailure = "raise",
        check_seconds: float = CHECK_SECONDS,
        **given: Any,
    ) -> None:
        try:
            from confluent_kafka import Producer
        except ImportError:
            raise MissingExtraError.named("kafka", "confluent-kafka") from None
        super().__init__(router, start=start, on_failure=on_failure, check_seconds=check_seconds)
        self._bootstrap = bootstrap
        self._open = 0
        self._on_delivery: Any = given.pop("on_delivery", None)
        own = {"allow.auto.create.topics": False}
        self.producer = Producer({**own, **producer_settings(router, bootstrap_servers=bootstrap, **given)})

    def _produce(self, placement: Placement, key: bytes | None, value: bytes | None, options: dict[str, Any]) -> None:
        from confluent_kafka import KafkaException

        asked = options.pop("on_delivery", None) or options.pop("callback", None) or self._on_delivery
        # The client keeps the callback until it is called: by a reference of its own, a producer with records on their
        # way would never be dropped, and its records would be lost without the warning of that.
        sender = ref(self)

        def answered(error: Any, message: Any) -> None:
            if (mine := sender()) is not None:
                mine._answered(placement, key, error, message)  # noqa: SLF001  of this class
            if asked is not None:
                asked(error, message)

        if placement.lane is not None:
            options["partition"] = placement.lane
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            self._count(1)
            try:
                return self.producer.produce(placement.stream, value=value, key=key, on_delivery=answered, **options)
            except BufferError:
                self._count(-1)
                if time.monotonic() > until:
                    hint = "is the broker there? queue.buffering.max.messages is how many may wait"
                    raise BrokerError.of(
                        f"the producer's queue has been full for {ANSWER_SECONDS:g} s",
                        got=f"{numbers.count(self._open)} records",
                        hint=hint,
                    ) from None
                self._serve()
                time.sleep(0.005)
            except KafkaException as error:
                self._count(-1)
                lost = Undelivered(placement.stream, placement.lane, key, error.args[0].str())
                self._look_again(placement.stream)
                raise DeliveryError(f"a record was not taken by the client: {lost}", [lost]) from error
            except BaseException:
                # Not a record of the client's, as with a value that is not bytes: nobody may wait for it.
                self._count(-1)
                raise

    def _answered(self, placement: Placement, key: bytes | None, error: Any, message: Any) -> None:
        self._count(-1)
        if error is not None:
            lane = message.partition() if placement.lane is None else placement.lane
            self._fail(Undelivered(placement.stream, lane, key, error.str()), changed=error.name() in CHANGED)

    def _lanes_of(self, topic: str, *, is_new: bool) -> int | None:
        until = time.monotonic() + APPEAR_SECONDS
        while not (there := self._lanes_now(topic, is_new=is_new)) and is_new and time.monotonic() < until:
            time.sleep(0.1)
        return there

    def _lanes_now(self, topic: str, *, is_new: bool) -> int | None:
        from confluent_kafka import KafkaException

        problem: Any = None
        try:
            found = self.producer.list_topics(topic, timeout=ANSWER_SECONDS if is_new else GLANCE_SECONDS).topics[topic]
        except KafkaException as error:
            problem = error
        else:
            if found.error is None or found.error.name() == "UNKNOWN_TOPIC_OR_PART":
                return len(found.partitions or ())
            problem = found.error
        if is_new:
            raise explained(problem, self._bootstrap)
        return None

    def _wait(self, timeout: float | None) -> int:
        # In short turns: an interrupt in a long call of librdkafka ends in a SystemError.
        until = None if timeout is None else time.monotonic() + timeout
        while self.producer.flush(0) and self._open and (until is None or time.monotonic() < until):
            time.sleep(0.005)
        return self._open

    def _count(self, more: int) -> None:
        """Count records on their way; the client's own length has other events in it."""
        with self._lock:
            self._open += more

    def _give_up(self) -> None:
        self.producer.purge()
        self._wait(LEAVE_SECONDS)

    def _serve(self) -> None:
        self.producer.poll(0)

    def _end(self) -> None:
        """The client ends with the last reference to it."""

    def _waiting(self) -> int:
        return getattr(self, "_open", 0)


class KafkaPythonProducer(_Keyed):
    """The same for kafka-python: `send`, `flush`, `close` and `with` as `KeyedProducer` has them.

    kafka-python keeps the topic's partitions itself, and asks for them again every `check_seconds`. `.producer` is
    kafka-python's own.
    """

    def __init__(
        self,
        router: Router,
        bootstrap: str,
        *,
        start: int | None = None,
        on_failure: OnFailure = "raise",
        check_seconds: float = CHECK_SECONDS,
        **given: Any,
    ) -> None:
        try:
            from kafka import KafkaProducer
        except ImportError:
            raise MissingExtraError.of("kafka-python is not installed", hint="pip install kafka-python") from None
        super().__init__(router, start=start, on_failure=on_failure, check_seconds=0.0)
        own = {"allow_auto_create_topics": False, "metadata_max_age_ms": round(1000 * check_seconds)}
        settings = {**_kafka_python_own(), **own, "max_block_ms": BLOCK_MS, **given}
        self._patience = settings.get("delivery_timeout_ms", DELIVERY_MS) / 1000 + LEAVE_SECONDS
        self._flying: dict[int, Undelivered] = {}
        self._numbers = count()
        self._is_stuck = False
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)

    def _produce(self, placement: Placement, key: bytes | None, value: bytes | None, options: dict[str, Any]) -> None:
        from kafka.errors import KafkaError

        lost, number = Undelivered(placement.stream, placement.lane, key, ""), next(self._numbers)

        def failed(error: BaseException) -> None:
            if self._land(number):
                changed = type(error).__name__ == "UnknownTopicOrPartitionError"
                self._fail(replace(lost, error=_words(error)), changed=changed)

        self._flying[number] = lost
        try:
            future = self.producer.send(placement.stream, value=value, key=key, partition=placement.lane, **options)
        except (KafkaError, AssertionError, ValueError) as error:
            self._land(number)
            lost = replace(lost, error=_words(error))
            raise DeliveryError(f"a record was not taken by the client: {lost}", [lost]) from error
        except BaseException:
            self._land(number)
            raise
        future.add_callback(lambda _metadata: self._land(number))
        future.add_errback(failed)

    def _land(self, number: int) -> bool:
        return self._flying.pop(number, None) is not None

    def _lanes_of(self, topic: str, *, is_new: bool) -> int | None:
        from kafka.errors import KafkaError

        try:
            return len(self.producer.partitions_for(topic))
        except KafkaError as error:
            what = "cannot be compared with the contract" if is_new else "are not known any more"
            hint = f"is the topic there? {IS_IT_RUNNING}"
            raise BrokerError.of(f"the lanes of {topic} {what}", got=_words(error), hint=hint) from error

    def _wait(self, timeout: float | None) -> int:
        from kafka.errors import KafkaTimeoutError

        # kafka-python never ends a record whose topic is gone, so its own bound is not enough.
        until = time.monotonic() + (self._patience if timeout is None else timeout)
        with suppress(KafkaTimeoutError):
            self.producer.flush(max(0.0, until - time.monotonic()))
        # The callback of a record comes a moment after its end.
        while self._flying and time.monotonic() < until:
            time.sleep(0.005)
        return len(self._flying)

    def _give_up(self) -> None:
        self._is_stuck = True
        for number, lost in list(self._flying.items()):
            if self._land(number):
                self._fail(replace(lost, error="no answer; given up by close()"), changed=False)

    def _serve(self) -> None:
        """kafka-python calls back on a thread of its own."""

    def _waiting(self) -> int:
        return len(getattr(self, "_flying", ()))

    def _end(self) -> None:
        from kafka.errors import KafkaError

        try:
            self.producer.close(timeout=0 if self._is_stuck else LEAVE_SECONDS)
        except KafkaError:
            # It gives up closing at a record that does not end, and leaves its thread running.
            if (sender := getattr(self.producer, "_sender", None)) is not None:
                sender.force_close()
                sender.join(LEAVE_SECONDS)
            with suppress(KafkaError):
                self.producer.close(timeout=1)


def _words(error: BaseException) -> str:
    text = str(error)
    return text if type(error).__name__ in text else f"{type(error).__name__}: {text}".rstrip(": ")

"""What an owner writes, and the fence before it: by transactions at the broker, or by terms in headers for readers.

A writer is made for one lease. `begin` puts the fence up: whatever a former owner of the same id writes behind it is
refused. Then, and only then, the owner asks the store whether its lease still holds, and reads where to go on.

    transactions   a transactional id for each id of a group. The broker refuses a producer with the same id that began
                   earlier, and the positions of the lanes are part of each transaction: exactly once for readers that
                   read committed records
    headers        claims and terms, which readers check (`owner_terms`): at least once, without transactions

The transactional id belongs to the id of the group, not to the lease, so a former owner that begins again, late, fences
the newer one. It writes nothing after that, because the store no longer gives it its lease, and the newer one
begins again. The order of these steps is what holds: fence, lease, position, records.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from keylane.errors import FencedError, MissingExtraError
from keylane.systems.kafka.cluster import Listener, explained
from keylane.systems.kafka.owner_terms import claim_headers, claim_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.groups.ownership import Lease
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.owner_terms import Headers

OwnerFence: TypeAlias = Literal["transactions", "headers"]
#: How brokers and librdkafka call a producer that another has replaced.
FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
#: A broker ends a transaction after this long, so that readers do not wait for an owner that is gone for ever.
TRANSACTION_SECONDS: Final = 60.0
#: librdkafka's number for a partition without a committed offset.
_NO_OFFSET: Final = 0


@dataclass(frozen=True, slots=True)
class Produced:
    """A record to write, complete."""

    lane: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Duty:
    """What an owner is responsible for: under which lease it reads which lanes, and where it writes."""

    access: KafkaAccess
    group: str
    topic: str
    lanes: tuple[int, ...]
    output: str
    output_lanes: int
    lease: Lease
    #: How long a broker is waited for.
    seconds: float


class OwnerWriter(Protocol):
    """One of the two."""

    def begin(self) -> None:
        """Put the fence up."""

    def positions(self, consumer: Any) -> dict[int, int]:
        """Where the lanes stand by what was written, as far as the broker knows it."""

    def write(self, records: Sequence[Produced], positions: Mapping[int, int], consumer: Any) -> None:
        """Write records, all or none of them for a reader that reads committed ones. FencedError: the fence did."""

    def close(self) -> None:
        """Let go of the producer; what it still holds is dropped."""


@dataclass(slots=True)
class TransactionalWriter:
    """Records and positions in transactions."""

    duty: Duty
    _producer: Any = None
    _listener: Listener = field(default_factory=Listener)

    def begin(self) -> None:
        """Fence every earlier producer of the id; what it left unfinished is aborted."""
        duty = self.duty
        own = {
            "transactional.id": transactional_id(duty.group, duty.lease.instance),
            "transaction.timeout.ms": int(max(TRANSACTION_SECONDS, 2 * duty.seconds) * 1000),
        }
        self._producer = _producer(duty, self._listener, own)
        with _translated(duty, self._listener):
            self._producer.init_transactions(duty.seconds)

    def positions(self, consumer: Any) -> dict[int, int]:
        """The offsets that were committed with what was written."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(self.duty.topic, lane) for lane in self.duty.lanes]
        with _translated(self.duty, self._listener):
            found = consumer.committed(asked, self.duty.seconds)
        return {one.partition: one.offset for one in found if one.offset >= _NO_OFFSET}

    def write(self, records: Sequence[Produced], positions: Mapping[int, int], consumer: Any) -> None:
        """One transaction: the records, and behind which records of the source they stand."""
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(self.duty.topic, lane, position) for lane, position in positions.items()]
        with _translated(self.duty, self._listener):
            self._producer.begin_transaction()
            for record in records:
                _send(self._producer, self.duty, record)
            self._producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), self.duty.seconds)
            self._producer.commit_transaction(self.duty.seconds)

    def close(self) -> None:
        """Let go of the producer. A transaction that is open is left to the next `begin`, which aborts it."""
        _drop(self._producer)


@dataclass(slots=True)
class HeaderWriter:
    """Records with terms, behind claims."""

    duty: Duty
    _producer: Any = None
    _listener: Listener = field(default_factory=Listener)
    _failed: list[Any] = field(default_factory=list)

    def begin(self) -> None:
        """Claim every lane in every partition of the output."""
        duty = self.duty
        self._producer = _producer(duty, self._listener, {"message.timeout.ms": int(duty.seconds * 1000)})
        group, topic, term = duty.group, duty.topic, duty.lease.term
        claims = [
            Produced(into, claim_key(group, topic, lane), None, claim_headers(group, topic, lane, term))
            for lane in duty.lanes
            for into in range(duty.output_lanes)
        ]
        self.write(claims, {}, None)

    def positions(self, consumer: Any) -> dict[int, int]:  # noqa: ARG002  an owner without transactions has snapshots
        """None are known: a commit does not show whether a former owner or the present one has made it."""
        return {}

    def write(self, records: Sequence[Produced], positions: Mapping[int, int], consumer: Any) -> None:  # noqa: ARG002  positions are those of snapshots
        """Return when all records are acknowledged."""
        with _translated(self.duty, self._listener):
            for record in records:
                _send(self._producer, self.duty, record, self._reported)
            left = self._producer.flush(2 * self.duty.seconds)
        if self._failed or left:
            raise explained(self._failed[0] if self._failed else f"{left} unsent", self.duty.output, self._listener)

    def close(self) -> None:
        """Let go of the producer."""
        _drop(self._producer)

    def _reported(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error)


WRITERS: Final[dict[str, type[TransactionalWriter | HeaderWriter]]] = {
    "transactions": TransactionalWriter,
    "headers": HeaderWriter,
}


def transactional_id(group: str, instance: int) -> str:
    """The transactional id of an id of a group: what ACLs have to allow.

    >>> transactional_id("balances", 2)
    'keylane.balances.2'
    """
    return f"keylane.{group}.{instance}"


def fence_all(access: KafkaAccess, group: str, instances: int, seconds: float = 30.0) -> None:
    """Fence the owners of every id of a group: behind a change of their number, before the first new owner starts."""
    from keylane.groups.ownership import Lease

    for instance in range(instances):
        writer = TransactionalWriter(Duty(access, group, "", (), "", 0, Lease(instance), seconds))
        try:
            writer.begin()
        finally:
            writer.close()


def _producer(duty: Duty, listener: Listener, own: Mapping[str, Any]) -> Any:
    try:
        from confluent_kafka import Producer
    except ImportError:
        raise MissingExtraError.named("kafka", "confluent-kafka") from None
    common = {"enable.idempotence": True, "acks": "all", "linger.ms": 1, "compression.type": "lz4"}
    return Producer(duty.access.librdkafka(**common, **own, error_cb=listener))


def _send(producer: Any, duty: Duty, record: Produced, on_delivery: Any = None) -> None:
    while True:
        try:
            producer.produce(
                duty.output,
                record.value,
                record.key,
                record.lane,
                headers=record.headers,
                **({"on_delivery": on_delivery} if on_delivery else {}),
            )
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _drop(producer: Any) -> None:
    if producer is None:
        return
    from confluent_kafka import KafkaException

    with suppress(KafkaException):
        producer.purge()
        producer.close()


@contextmanager
def _translated(duty: Duty, listener: Listener) -> Iterator[None]:
    """Errors of librdkafka in words; a fence is an error of its own."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        if any(one.name() in FENCED for one in (error.args[0], *listener.errors)):
            lease = duty.lease
            what = f"another owner has taken id {lease.instance} of group {duty.group!r}"
            raise FencedError.of(what, got=f"term {lease.term}") from error
        raise explained(error, duty.access.brokers, listener) from error

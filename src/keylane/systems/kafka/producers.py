"""A contract in Kafka producers: the partition to pass, or the partitioner to plug in.

Needs the extra `kafka` (confluent-kafka) for `KeyedProducer` only; `kafka_python_partitioner` needs no library, because
kafka-python calls it. Where producers and Spark must agree, use the same contract in both.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import choice, getrandbits
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.partitioners import FACTS
from keylane.errors import LaneCountError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from keylane.records import Placement
    from keylane.router import Router

    Choose = Callable[[Sequence[int]], int]

__all__ = [
    "PRODUCER_SETTINGS",
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
    return {
        "linger_ms": PRODUCER_SETTINGS["linger.ms"],
        "batch_size": PRODUCER_SETTINGS["batch.size"],
        "compression_type": _codec(),
        "enable_idempotence": PRODUCER_SETTINGS["enable.idempotence"],
        "acks": "all",
        "partitioner": kafka_python_partitioner(router, choose),
        **given,
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
            raise LaneCountError.of("the topic has another lane count", got=len(lanes), allowed=allowed)
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


class KeyedProducer:
    """A confluent-kafka producer that puts every record where the contract says.

    `send(record, value)` computes stream, key and partition; tiers go to their own topic. A record without a position
    of its own has its place in this producer's sequence, which keyless rules read; it begins at `start`, drawn by
    default, so that many producers do not all begin on one lane. Everything else, `poll`, `flush`, delivery
    callbacks, is confluent-kafka's, reached through `.producer`.
    """

    def __init__(self, router: Router, bootstrap: str, *, start: int | None = None, **given: Any) -> None:
        try:
            from confluent_kafka import Producer
        except ImportError:
            raise MissingExtraError.named("kafka", "confluent-kafka") from None
        self.router = router
        self.next_position = getrandbits(40) if start is None else start
        self.producer = Producer(producer_settings(router, bootstrap_servers=bootstrap, **given))

    def send(
        self, record: Mapping[str, Any], value: bytes | None, *, position: int | None = None, **options: Any
    ) -> Placement:
        """Produce one record; raises UnplacedError, and sends nothing, when the contract has no lane for it."""
        placement = self.router.placed(record, self.next_position if position is None else position)
        options.update(key=self._key(record, placement), partition=placement.lane)
        self.producer.produce(placement.stream, value=value, **options)
        self.next_position += 1
        return placement

    def _key(self, record: Mapping[str, Any], placement: Placement) -> bytes | None:
        """The key to send: the routing key, or, where the header is not part of that, the key as it was given."""
        key = self.router.contract.spec.key
        return record[key.fields[0]] if key.registry_header == "strip" else placement.routing_key

"""Topics as routes leave them, made without Spark: a source, lanes with the documented headers, dead letters.

Every message of a target is a row that a test may damage before it is sent. They are sent in transactions, with some
that are aborted between them, so that the offsets of every lane have gaps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.integration.route_records import BASE, contract, send
from tests.integration.topics import create_topic

from keylane import Router
from keylane.pipelines.verify import Verified, verify
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from keylane import Contract
    from keylane.systems.broker import Cluster

SECONDS = 120.0
LANES = 4


@dataclass(frozen=True)
class Message:
    """A record of a target, before it is sent."""

    lane: int
    key: bytes | None
    value: bytes | None
    source: str | None
    fingerprint: str
    epoch: int = 1
    attempt: int = 1
    topic: str = ""
    more: tuple[tuple[str, bytes], ...] = ()
    behind: tuple[tuple[str, bytes], ...] = ()
    time: int = 0

    def headers(self) -> list[tuple[str, bytes]]:
        """As docs/kafka.md has them."""
        told = [] if self.source is None else [("keylane.source", self.source.encode())]
        told += [("keylane.contract", self.fingerprint.encode()), ("keylane.epoch", b"%d" % self.epoch)]
        told += [("keylane.attempt", b"%d" % self.attempt)] if self.attempt > 1 else []
        return [*self.more, *told, *self.behind]


@dataclass
class Topics:
    """A source of three partitions, a target of four lanes and its dead letters, on the broker under test."""

    broker: Cluster
    source: str
    target: str
    sent: int = 0
    said: StreamOptions = field(default_factory=StreamOptions)

    @classmethod
    def made(cls, broker: Cluster, topic: Callable[..., str], lanes: int = LANES, **config: str) -> Topics:
        """New ones."""
        found = cls(broker, topic(3, "src", **config), topic(lanes, "dst"))
        create_topic(broker, f"{found.target}.dlq", 1)
        return found

    def address(self, name: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{name}"

    @cached_property
    def agreed(self) -> Contract:
        """The contract of the target."""
        return contract(self.target, LANES)

    def fill(self, rows: Sequence[tuple[int, bytes | None, bytes | None]]) -> list[Message]:
        """Send rows to the source, and give the messages that a route would write, in the order of each partition."""
        send(self.broker, self.source, rows)
        router, offsets, out = Router(self.agreed), dict.fromkeys(range(3), 0), []
        for number, (partition, key, value) in enumerate(rows):
            place = f"{self.source}/{partition}/{offsets[partition]}"
            offsets[partition] += 1
            lane, topic = (0, f"{self.target}.dlq") if key is None else (router.lane({"key": key}) or 0, "")
            why = (("__keylane.errors.reason", b"null-key"),) if key is None else ()
            made = Message(lane, key, value, place, self.agreed.fingerprint, topic=topic, more=why)
            out.append(replace(made, time=BASE + number))
        return out

    def write(self, messages: Iterable[Message], at_once: int = 40) -> None:
        """Send messages to their lanes, some in a transaction, and each transaction once before, to be aborted."""
        waiting = list(messages)
        with_name = {**librdkafka_settings(self.broker), "transactional.id": self.target, "linger.ms": 5}
        producer = Producer(with_name)
        producer.init_transactions(SECONDS)
        for start in range(0, len(waiting), at_once):
            some = waiting[start : start + at_once]
            for ends in (producer.abort_transaction, producer.commit_transaction):
                producer.begin_transaction()
                for one in some:
                    topic, headers = one.topic or self.target, one.headers()
                    given: Any = {"headers": headers, **({"timestamp": one.time} if one.time else {})}
                    producer.produce(topic, one.value, one.key, one.lane, **given)
                assert producer.flush(SECONDS) == 0
                ends(SECONDS)

    def size(self, topic: str, lane: int) -> int:
        """Where a lane ends now."""
        with open_cluster(kafka_access(self.broker.bootstrap)) as cluster:
            return cluster.offset_ranges(topic, lane + 1, committed=True)[lane].end

    def grow(self, lanes: int) -> None:
        """Give the target more lanes."""
        self._admin().create_partitions([NewPartitions(self.target, lanes)])[self.target].result(SECONDS)

    def forget(self, topic: str, lane: int, before: int) -> None:
        """Take records away, as retention does."""
        place = TopicPartition(topic, lane, before)
        self._admin().delete_records([place])[place].result(SECONDS)

    def _admin(self) -> AdminClient:
        # Kept: a client that goes takes its answers with it.
        self._client = AdminClient({**librdkafka_settings(self.broker)})
        return self._client

    def verify(self, *given: Any, **more: Any) -> Verified:
        """The verdict under the target's contract, or under another one, or, when that is None, under none."""
        agreed = given[0] if given else self.agreed
        said = replace(self.said, **more.pop("said", {}))
        return verify(self.address(self.source), self.address(self.target), agreed, topics=said, **more)


def rows_of(count: int, keys: int = 13, nulls: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    """Rows of a few keys, each in one partition; some have none."""
    out: list[tuple[int, bytes | None, bytes | None]] = []
    for n in range(count):
        key = None if nulls and n % nulls == 0 else b"key-%d" % (n % keys)
        out.append((n % keys % 3, key, json.dumps({"n": n, "merchant": f"m-{n % keys}"}).encode()))
    return out

"""Routes from and into the broker under test: records to send, and what a reader at `read_committed` finds."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from keylane import Router, parse_contract
from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from keylane import Contract
    from keylane.systems.broker import Cluster

SECONDS = 120.0
#: The time of the first record. Kept by routes, so not long ago: brokers forget records by their time.
BASE = int(time.time() - 3600) * 1000
CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: orders}
spec:
  streams: [STREAM]
  lanes: LANES
  key: {fields: [key], on_null: reject}
  partitioner: kafka-java
"""


class Record(NamedTuple):
    """A record as a reader has it."""

    lane: int
    offset: int
    key: bytes | None
    value: bytes | None
    time: int
    headers: tuple[tuple[str, bytes | None], ...]

    def header(self, name: str) -> str:
        """The text of the last header of this name."""
        found = [value for key, value in self.headers if key == name]
        assert found, f"no header {name} in {self.headers}"
        return (found[-1] or b"").decode()


def contract(stream: str, lanes: int | str = 4, **changes: str) -> Contract:
    """The contract of these tests, with words of it replaced."""
    text = CONTRACT.replace("STREAM", stream).replace("LANES", str(lanes))
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return parse_contract(text)


def send(cluster: Cluster, topic: str, rows: Iterable[tuple[int, bytes | None, bytes | None]], **more: Any) -> None:
    """Send `(partition, key, value)` rows in their order."""
    # One request at a time keeps the order as idempotence would, and waits half a second less for a producer's number.
    one = {"linger.ms": 5, "max.in.flight.requests.per.connection": 1}
    producer = Producer({**librdkafka_settings(cluster), **one})
    for number, (partition, key, value) in enumerate(rows):
        producer.produce(topic, value, key, partition, timestamp=BASE + number, **more)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0


def numbered(start: int, count: int, partitions: int = 2, keys: int = 13) -> list[tuple[int, bytes, bytes]]:
    """Rows of a few keys; a key is in one partition, as a producer would have it, and its values count up."""
    return [(n % keys % partitions, b"key-%d" % (n % keys), b"%d" % n) for n in range(start, start + count)]


def read_committed(cluster: Cluster, topic: str, **settings: Any) -> list[Record]:
    """Every record of a topic, lane by lane; transactions that are open or were aborted are not there."""
    own = {"group.id": "routed", "enable.auto.commit": False, "isolation.level": "read_committed"}
    # The end of a lane is told by an answer without records: nobody needs to wait for some that do not come.
    soon = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
    reader = Consumer({**librdkafka_settings(cluster), **own, **soon, **settings})
    try:
        lanes = reader.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        reader.assign([TopicPartition(topic, lane, 0) for lane in lanes])
        return sorted(_to_the_end(reader, len(lanes)), key=lambda read: (read.lane, read.offset))
    finally:
        reader.close()


def _to_the_end(reader: Consumer, lanes: int) -> Iterator[Record]:
    while lanes:
        message = reader.poll(SECONDS)
        assert message is not None, "a lane does not come to its end"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            lanes -= 1
            continue
        pairs: Any = message.headers() or ()
        headers = tuple((key, _bytes(value)) for key, value in pairs)
        yield Record(
            message.partition() or 0,
            message.offset() or 0,
            _bytes(message.key()),
            _bytes(message.value()),
            message.timestamp()[1],
            headers,
        )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def faults(source: Sequence[Record], target: Sequence[Record], given: Contract, lanes: int | None = None) -> list[str]:
    """What is wrong with a target that should hold every record of a source once, in its lane and in its order.

    Told from the records themselves, not from the headers that the route gave them.
    """
    router = Router(given, lanes=lanes)
    assert source, "the source cannot be read back"
    sent, got = (Counter((one.key, one.value) for one in records) for records in (source, target))
    out = [f"lost {row}" for row in sent - got] + [f"twice or invented {row}" for row in got - sent]
    out += [f"{one} is in a wrong lane" for one in target if router.lane({"key": one.key}) != one.lane]
    last: dict[bytes | None, int] = {}
    for one in target:
        if one.value is not None and int(one.value) < last.get(one.key, -1):
            out.append(f"{one} comes after {last[one.key]}")
        last[one.key] = int(one.value or last.get(one.key, -1))
    return out

"""The transaction of one writer, without Spark: fences, replays, zombies, and the numbers that say what is there."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.integration.routed import BASE, read_committed

from keylane.systems import kafka_units, kafka_writer
from keylane.systems.broker import librdkafka_settings
from keylane.systems.kafka_access import KafkaAccess
from keylane.systems.kafka_cluster import Listener
from keylane.systems.kafka_units import PERMANENT, Division, WriteError
from keylane.systems.kafka_writer import Transaction, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.systems.broker import Cluster

ROUTES = count(1)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(params=[1, 0], ids=["by lane", "by part"])
def divided(broker: Cluster, topic: Callable[..., str], request: pytest.FixtureRequest) -> Callable[..., Division]:
    """Divisions of one route's batches over a topic of four lanes."""
    route, name = f"t{next(ROUTES)}", topic(4)

    def divided(batch: int, writers: int = request.param) -> Division:
        return Division(KafkaAccess(broker.bootstrap), route, batch, ((name, 4),), writers, (("keylane.epoch", b"1"),))

    return divided


def rows(slots: Sequence[int], values: Sequence[int], part: int = 0) -> pa.RecordBatch:
    texts = [b"%d" % value for value in values]
    columns = [
        pa.array(slots, pa.int32()),
        pa.array(texts, pa.binary()),
        pa.array(texts, pa.binary()),
        pa.array([BASE] * len(texts), pa.int64()),
        pa.array([b"src/0/" + text for text in texts], pa.binary()),
        pa.nulls(len(texts), HEADERS),
        pa.array([part] * len(texts), pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["slot", "key", "value", "time", "source", "headers", "part"])


def begun(division: Division, first: pa.RecordBatch) -> Transaction:
    """A writer that has sent everything, and has not committed."""
    found = Transaction.begun(division, division.units(first), Listener())
    found.send(first)
    found.producer.flush(30)
    return found


def written(division: Division, *batches: pa.RecordBatch) -> list[tuple[int, int, bool]]:
    """What a writer says: slot, records, whether they were there before."""
    found = [row for out in write(division, batches) for row in out.to_pylist()]
    return [(row["slot"], row["records"], row["repeated"]) for row in found]


def values(broker: Cluster, division: Division) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for record in read_committed(broker, division.topics[0][0]):
        found.setdefault(record.lane, []).append(int(record.value or b""))
    return found


def numbers(broker: Cluster, division: Division) -> dict[int, tuple[int, str]]:
    """The numbers of batches that are committed, with the counts beside them: by lane, or in the place of lane 0."""
    own = {"group.id": division.units(rows([0], [0])).group, "isolation.level": "read_committed"}
    reader = Consumer({**librdkafka_settings(broker), **own})
    try:
        asked = [TopicPartition(division.topics[0][0], lane) for lane in range(4)]
        return {
            one.partition: (one.offset, one.metadata or "")
            for one in reader.committed(asked, timeout=30)
            if one.offset >= 0
        }
    finally:
        reader.close()


def test_records_and_numbers_are_there_together(broker: Cluster, divided: Callable[..., Division]) -> None:
    assert written(divided(0), rows([0, 2, 0], [1, 2, 3])) == [(0, 2, False), (2, 1, False)]
    assert values(broker, divided(0)) == {0: [1, 3], 2: [2]}
    by_lane = {0: (1, "2"), 2: (1, "1")}
    assert numbers(broker, divided(0)) == (by_lane if divided(0).writers else {0: (1, "3")})


def test_a_batch_that_is_there_is_passed_over(broker: Cluster, divided: Callable[..., Division]) -> None:
    batch = rows([0, 2, 0], [1, 2, 3])
    written(divided(0), batch)
    assert written(divided(0), batch) == [(0, 2, True), (2, 1, True)]
    assert written(divided(1), rows([2], [4])) == [(2, 1, False)]
    assert values(broker, divided(0)) == {0: [1, 3], 2: [2, 4]}


def test_twin_without_the_numbers_a_replay_is_there_twice(
    broker: Cluster, divided: Callable[..., Division], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = kafka_units.committed_numbers

    def forgetful(*asked: Any) -> Any:
        found, group = honest(*asked)
        return dict.fromkeys(found, (-1001, "")), group

    monkeypatch.setattr(kafka_writer, "committed_numbers", forgetful)
    for _ in range(2):
        written(divided(0), rows([0], [1]))
    assert values(broker, divided(0)) == {0: [1, 1]}


def test_only_the_lanes_that_lack_a_batch_get_it(broker: Cluster, divided: Callable[..., Division]) -> None:
    """Two writers, one of which was killed: made again, the batch is there once in every lane."""
    written(divided(0, 2), rows([0, 2], [1, 2]))
    assert written(divided(0, 2), rows([0, 2], [1, 2])) == [(0, 1, True), (2, 1, True)]
    assert written(divided(0, 2), rows([1, 3], [3, 4])) == [(1, 1, False), (3, 1, False)]
    assert values(broker, divided(0)) == {0: [1], 1: [3], 2: [2], 3: [4]}


def test_only_the_partitions_that_lack_a_batch_get_it(broker: Cluster, divided: Callable[..., Division]) -> None:
    """The same by part: two partitions write to one lane, and one of them was killed."""
    written(divided(0, 0), rows([0, 1], [1, 2], part=0))
    assert written(divided(0, 0), rows([0, 1], [1, 2], part=0)) == [(0, 1, True), (1, 1, True)]
    assert written(divided(0, 0), rows([0, 2], [3, 4], part=7)) == [(0, 1, False), (2, 1, False)]
    assert values(broker, divided(0)) == {0: [1, 3], 1: [2], 2: [4]}


def test_a_task_with_two_partitions_is_refused(broker: Cluster, divided: Callable[..., Division]) -> None:
    """One of them would be written by a writer that nobody fences."""
    with pytest.raises(WriteError, match=f"{PERMANENT}: a task has records of two partitions"):
        written(divided(0, 0), rows([0], [1], part=0), rows([0], [2], part=1))
    assert values(broker, divided(0)) == {}


def test_a_writer_that_was_overtaken_cannot_commit(broker: Cluster, divided: Callable[..., Division]) -> None:
    """Speculation, or a process that was thought dead: two attempts at one batch, both with everything sent."""
    slow = begun(divided(0), rows([0, 1], [1, 2]))
    assert written(divided(0), rows([0, 1], [1, 2])) == [(0, 1, False), (1, 1, False)]
    with pytest.raises(KafkaException):
        slow.commit()
    assert values(broker, divided(0)) == {0: [1], 1: [2]}


def test_a_writer_that_comes_late_finds_everything_there(broker: Cluster, divided: Callable[..., Division]) -> None:
    """A zombie of batch 0 that wakes up after batch 1: it fences the living, and writes nothing."""
    written(divided(0), rows([0], [1]))
    written(divided(1), rows([0], [2]))
    assert written(divided(0), rows([0], [1])) == [(0, 1, True)]
    assert written(divided(2), rows([0], [3])) == [(0, 1, False)]
    assert values(broker, divided(0)) == {0: [1, 2, 3]}


def test_what_a_dead_writer_left_open_is_ended(broker: Cluster, divided: Callable[..., Division]) -> None:
    begun(divided(0), rows([0, 3], [7, 8]))
    assert written(divided(0), rows([0], [1])) == [(0, 1, False)]
    assert values(broker, divided(0)) == {0: [1]}


def test_a_batch_that_has_changed_is_refused(broker: Cluster, divided: Callable[..., Division]) -> None:
    written(divided(0), rows([0, 0], [1, 2]))
    with pytest.raises(WriteError, match=f"{PERMANENT}.*with 2.*has 1 now"):
        written(divided(0), rows([0], [1]))
    assert values(broker, divided(0)) == {0: [1, 2]}


def test_a_writer_without_records_opens_nothing(broker: Cluster, divided: Callable[..., Division]) -> None:
    assert written(divided(0), rows([], [])) == []
    assert numbers(broker, divided(0)) == {}


def test_records_keep_key_value_time_and_headers(broker: Cluster, divided: Callable[..., Division]) -> None:
    batch = rows([1], [5])
    mine = pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}]], HEADERS)
    nothing = pa.array([None], pa.binary())
    tombstone = batch.set_column(5, "headers", mine).set_column(2, "value", nothing)
    written(divided(0), tombstone)
    (record,) = read_committed(broker, divided(0).topics[0][0])
    assert (record.key, record.value, record.time) == (b"5", None, BASE)
    assert record.headers == (("h", b"1"), ("h", None), ("keylane.source", b"src/0/5"), ("keylane.epoch", b"1"))


def test_a_broker_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_writer, "STEP_SECONDS", 2.0)
    away = Division(KafkaAccess("127.0.0.1:1"), "away", 0, (("t", 1),), 1)
    with pytest.raises(WriteError, match=r"no broker answers at 127\.0\.0\.1:1"):
        written(away, rows([0], [1]))

"""One writer of a batch, on Spark: fences, replays, zombies, and the numbers that say what is there."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.killable_routes import wait_until
from tests.integration.route_records import BASE, read_committed

from keylane.spark import kafka_writer
from keylane.spark.kafka_writer import PERMANENT, WRITE_ERROR, Division, write
from keylane.systems.broker import librdkafka_settings
from keylane.systems.kafka.access import KafkaAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

ROUTES = count(1)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
#: Slot, records, how many of them were there before.
Said = list[tuple[int, int, int]]


@pytest.fixture(params=[pytest.param(1, id="by lane", marks=pytest.mark.faults), pytest.param(0, id="by part")])
def divided(broker: Cluster, topic: Callable[..., str], request: pytest.FixtureRequest) -> Callable[..., Division]:
    """Divisions of one route's batches over a topic of four lanes."""
    route, name = f"t{next(ROUTES)}", topic(4)

    def divided(batch: int, writers: int = request.param) -> Division:
        fixed = (("keylane.epoch", b"1"),)
        access = KafkaAccess(broker.bootstrap)
        own = access.java_producer(), access.java_client()
        return Division(*own, route, batch, ((name, 4),), writers, fixed, "src")

    return divided


def rows(slots: Sequence[int], values: Sequence[int], part: int | list[int] = 0, **columns: pa.Array) -> pa.Table:
    texts = pa.array([b"%d" % value for value in values], pa.binary())
    given = {
        "slot": pa.array(slots, pa.int32()),
        "key": texts,
        "value": texts,
        "time": pa.array([BASE] * len(texts), pa.int64()),
        "source": pa.nulls(len(texts), pa.binary()),
        "headers": pa.nulls(len(texts), HEADERS),
        "part": pa.array([part] * len(texts) if isinstance(part, int) else part, pa.int32()),
        "place": pa.array(values, pa.int64()),
    }
    given |= columns
    letter = pa.struct([(name, pa.array(column).type) for name, column in given.items()])
    return pa.table({**given, "letter": pa.nulls(len(texts), letter)})


@pytest.fixture
def written(spark: SparkSession) -> Callable[..., Said]:
    """What a writer says of the rows of one task."""

    def written(division: Division, given: pa.Table) -> Said:
        found = write(spark.createDataFrame(given).coalesce(1), division)
        return [(slot, one.records, one.repeated) for slot, one in sorted(found.slots.items())]

    return written


class Held:
    """A writer that has come to a step, and stays there until it is let go."""

    def __init__(self, written: Callable[..., Said], division: Division, given: pa.Table, at: str) -> None:
        self.error: Exception | None = None
        self.hold = _folder(division) / f"{at}.hold"
        self.hold.write_text("0")
        self.thread = threading.Thread(target=self._write, args=(written, division, given))
        self.thread.start()
        wait_until((_folder(division) / at).exists)

    def _write(self, written: Callable[..., Said], division: Division, given: pa.Table) -> None:
        try:
            written(division, given)
        except Exception as error:  # noqa: BLE001  it is what the test asks for
            self.error = error

    def let_go(self) -> str:
        self.hold.unlink()
        self.thread.join(90)
        return str(self.error)


def _folder(division: Division) -> Path:
    from pathlib import Path

    return Path(division.held)


def shown(division: Division) -> str:
    """How the writer of slot 0 or partition 0 is called."""
    return "0" if division.writers else "p0"


def values(broker: Cluster, division: Division) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for record in read_committed(broker, division.topics[0][0]):
        found.setdefault(record.lane, []).append(int(record.value or b""))
    return found


def group(division: Division) -> str:
    return f"keylane-{division.route}" if division.writers else f"keylane-{division.route}-p0"


def numbers(broker: Cluster, division: Division) -> dict[int, int]:
    """The numbers of batches that are committed: by lane, or in the place of lane 0."""
    own = {"group.id": group(division), "isolation.level": "read_committed"}
    reader = Consumer({**librdkafka_settings(broker), **own})
    try:
        asked = [TopicPartition(division.topics[0][0], lane) for lane in range(4)]
        return {one.partition: one.offset for one in reader.committed(asked, timeout=30) if one.offset >= 0}
    finally:
        reader.close()


def test_records_and_numbers_are_there_together(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    assert written(divided(0), rows([0, 2, 0], [1, 2, 3])) == [(0, 2, 0), (2, 1, 0)]
    assert values(broker, divided(0)) == {0: [1, 3], 2: [2]}
    assert numbers(broker, divided(0)) == ({0: 1, 2: 1} if divided(0).writers else {0: 1})


def test_a_batch_that_is_there_is_passed_over(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    batch = rows([0, 2, 0], [1, 2, 3])
    written(divided(0), batch)
    assert written(divided(0), batch) == [(0, 2, 2), (2, 1, 1)]
    assert written(divided(1), rows([2], [4])) == [(2, 1, 0)]
    assert values(broker, divided(0)) == {0: [1, 3], 2: [2, 4]}


def test_twin_without_the_numbers_a_replay_is_there_twice(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    """A cluster that has forgotten the numbers, which a route therefore refuses (`check_memory`)."""
    written(divided(0), rows([0], [1]))
    client = AdminClient({**librdkafka_settings(broker)})
    client.delete_consumer_groups([group(divided(0))])[group(divided(0))].result(30)
    written(divided(0), rows([0], [1]))
    assert values(broker, divided(0)) == {0: [1, 1]}


def test_twin_at_least_once_a_replay_is_there_twice(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    for _ in range(2):
        assert written(replace(divided(0), exactly_once=False), rows([0], [1])) == [(0, 1, 0)]
    assert values(broker, divided(0)) == {0: [1, 1]}
    assert numbers(broker, divided(0)) == {}


@pytest.mark.parametrize("divided", [1], ids=["as it says"], indirect=True)
def test_only_the_lanes_that_lack_a_batch_get_it(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    """Two writers, one of which was killed: made again, the batch is there once in every lane."""
    written(divided(0, 2), rows([0, 2], [1, 2]))
    assert written(divided(0, 2), rows([0, 2], [1, 2])) == [(0, 1, 1), (2, 1, 1)]
    assert written(divided(0, 2), rows([1, 3], [3, 4])) == [(1, 1, 0), (3, 1, 0)]
    assert values(broker, divided(0)) == {0: [1], 1: [3], 2: [2], 3: [4]}


@pytest.mark.parametrize("divided", [1], ids=["as it says"], indirect=True)
def test_only_the_partitions_that_lack_a_batch_get_it(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    """The same by part: two partitions write to one lane, and one of them was killed."""
    written(divided(0, 0), rows([0, 1], [1, 2], part=0))
    assert written(divided(0, 0), rows([0, 1], [1, 2], part=0)) == [(0, 1, 1), (1, 1, 1)]
    assert written(divided(0, 0), rows([0, 2], [3, 4], part=7)) == [(0, 1, 0), (2, 1, 0)]
    assert values(broker, divided(0)) == {0: [1, 3], 1: [2], 2: [4]}


@pytest.mark.parametrize("divided", [1], ids=["as it says"], indirect=True)
@pytest.mark.parametrize(("writers", "slots", "parts"), [(0, [0, 0], [0, 1]), (2, [0, 1], [0, 0])])
def test_a_task_with_rows_of_two_writers_is_refused(
    broker: Cluster,
    divided: Callable[..., Division],
    written: Callable[..., Said],
    writers: int,
    slots: list[int],
    parts: list[int],
) -> None:
    """One of them would be written by a writer that nobody fences."""
    with pytest.raises(Exception, match=f"{WRITE_ERROR}{PERMANENT}a task has records of two writers"):
        written(divided(0, writers), rows(slots, [1, 2], parts))
    assert values(broker, divided(0)) == {}


def test_a_writer_that_was_overtaken_cannot_commit(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said], tmp_path: Path
) -> None:
    """Speculation, or a process that was thought dead: two attempts at one batch, both with everything sent."""
    slow = replace(divided(0), held=str(tmp_path))
    overtaken = Held(written, slow, rows([0, 1], [1, 2]), f"sent {shown(slow)}")
    assert written(divided(0), rows([0, 1], [1, 2])) == [(0, 1, 0), (1, 1, 0)]
    assert WRITE_ERROR in overtaken.let_go()
    assert values(broker, divided(0)) == {0: [1], 1: [2]}


def test_a_writer_that_comes_late_finds_everything_there(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    """A zombie of batch 0 that wakes up after batch 1: it fences the living, and writes nothing."""
    written(divided(0), rows([0], [1]))
    written(divided(1), rows([0], [2]))
    assert written(divided(0), rows([0], [1])) == [(0, 1, 1)]
    assert written(divided(2), rows([0], [3])) == [(0, 1, 0)]
    assert values(broker, divided(0)) == {0: [1, 2, 3]}


def test_what_another_left_open_is_ended(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said], tmp_path: Path
) -> None:
    stuck = replace(divided(0), held=str(tmp_path))
    left = Held(written, stuck, rows([0, 3], [7, 8]), f"sent {shown(stuck)}")
    assert written(divided(0), rows([0], [1])) == [(0, 1, 0)]
    assert values(broker, divided(0)) == {0: [1]}
    left.let_go()
    assert values(broker, divided(0)) == {0: [1]}


def test_a_batch_that_has_changed_is_refused(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    written(divided(0), rows([0, 0], [1, 2]))
    with pytest.raises(Exception, match=f"{WRITE_ERROR}{PERMANENT}.*with 2.*has 1 now"):
        written(divided(0), rows([0], [1]))
    assert values(broker, divided(0)) == {0: [1, 2]}


def test_a_batch_of_other_offsets_is_refused(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    """As many records, under the same number, and other ones: an older state has made another batch of it."""
    written(replace(divided(0), digest="a"), rows([0], [1]))
    with pytest.raises(Exception, match=f"{WRITE_ERROR}{PERMANENT}.*committed with other records"):
        written(replace(divided(0), digest="b"), rows([0], [2]))
    assert written(replace(divided(0), digest="a"), rows([0], [1])) == [(0, 1, 1)]
    assert values(broker, divided(0)) == {0: [1]}


def test_a_number_that_is_beyond_the_batch_is_reported(
    spark: SparkSession, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    """For the driver, which knows whether its own state is too old; a zombie reports it to nobody."""
    for batch in range(3):
        written(divided(batch), rows([0], [batch]))
    for batch, beyond in ((0, 3), (1, 3), (2, 0)):
        found = write(spark.createDataFrame(rows([0], [batch])).coalesce(1), divided(batch)).slots
        assert (found[0].repeated, found[0].beyond) == (1, beyond)


def test_a_writer_without_records_opens_nothing(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    assert written(divided(0), rows([], [])) == []
    assert numbers(broker, divided(0)) == {}


def test_records_keep_key_value_time_and_headers(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    mine = pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}]], HEADERS)
    written(divided(0), rows([1], [5], headers=mine, value=pa.array([None], pa.binary())))
    (record,) = read_committed(broker, divided(0).topics[0][0])
    assert (record.key, record.value, record.time) == (b"5", None, BASE)
    assert record.headers == (("h", b"1"), ("h", None), ("keylane.source", b"src/0/5"), ("keylane.epoch", b"1"))


def test_a_position_that_is_spelled_is_kept(
    broker: Cluster, divided: Callable[..., Division], written: Callable[..., Said]
) -> None:
    written(divided(0), rows([1], [5], source=pa.array([b"a file/7"], pa.binary())))
    (record,) = read_committed(broker, divided(0).topics[0][0])
    assert record.headers[0] == ("keylane.source", b"a file/7")


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_broker_that_is_not_there_is_reported(
    written: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, *, exactly_once: bool
) -> None:
    short: dict[str, Any] = {"max.block.ms": "2000", "delivery.timeout.ms": "2000", "request.timeout.ms": "1000"}
    monkeypatch.setattr(kafka_writer, "NEEDED", {**kafka_writer.NEEDED, **short, "linger.ms": "0"})
    access = KafkaAccess("127.0.0.1:1")
    away = Division(access.java_producer(), access.java_client(), "away", 0, (("t", 1),), 1, exactly_once=exactly_once)
    with pytest.raises(Exception, match=rf"{WRITE_ERROR}.*batch 0.*127\.0\.0\.1:1"):
        written(away, rows([0], [1]))

"""Routes between topics, files and folders on a real broker: what arrives, where, with which headers, and how often."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.integration.route_records import BASE, contract, faults, numbered, read_committed, send
from tests.integration.topics import create_topic

from keylane import Router
from keylane.errors import BrokerError, DataError, LaneCountError, TargetError, UsageError
from keylane.pipelines.route import KafkaOptions, Options, Routed
from keylane.pipelines.route import route as run
from keylane.pipelines.verify import verify
from keylane.spark import kafka_writer
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions
from keylane.systems.kafka import cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane import Contract
    from keylane.systems.broker import Cluster


class World:
    """A source, a target and its dead letters, and routes between them."""

    def __init__(self, broker: Cluster, topic: Callable[..., str], spark: SparkSession, folder: Path) -> None:
        self.broker, self.spark, self.folder = broker, spark, folder
        self.source, self.target = topic(2, "src"), topic(4, "dst")
        self.dead = create_topic(broker, f"{self.target}.dlq", 1)
        self.said: list[str] = []

    def address(self, name: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{name}"

    def route(self, given: Contract | None = None, source: str | None = None, **said: Any) -> Routed:
        more = {name: said.pop(name) for name in ("probe", "lanes") if name in said}
        kafka = KafkaOptions(state=str(self.folder / "state"), **said)
        return run(
            given or contract(self.target),
            source or self.address(self.source),
            self.address(self.target),
            options=Options(kafka=kafka, lanes=more.get("lanes")),
            spark=self.spark,
            say=self.said.append,
            **({"probe": more["probe"]} if "probe" in more else {}),
        )

    def faults(self, **more: Any) -> list[str]:
        """Told from the records themselves, and by `verify` from their headers and the route's own account."""
        records = read_committed(self.broker, self.source), read_committed(self.broker, self.target)
        given = more.pop("given", contract(self.target))
        found = verify(self.address(self.source), self.address(self.target), given, topics=self.topics())
        told = [*map(str, found.verdict.violations), *found.miscounted]
        assert found.ok == (not told)
        return [*faults(*records, given, **more), *told]

    def topics(self, **more: Any) -> StreamOptions:
        return StreamOptions(state=str(self.folder / "state"), **more)

    def grow(self, topic: str, lanes: int) -> None:
        client = AdminClient({**librdkafka_settings(self.broker)})
        client.create_partitions([NewPartitions(topic, lanes)])[topic].result(30)


@pytest.fixture
def world(broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path) -> World:
    return World(broker, topic, spark, tmp_path)


def test_every_record_in_its_lane_once_and_in_order(world: World) -> None:
    send(world.broker, world.source, numbered(0, 300))
    found = world.route(max_records=200)
    assert found.counts.as_json() == {"in": 300, "out": 300, "dead": 0, "filtered": 0}
    assert sum(found.lanes[world.target]) == 300
    assert list(found.lanes) == [world.target]
    assert found.batches > 1
    send(world.broker, world.source, numbered(300, 100))
    again = world.route()
    assert (again.counts.in_, again.total.in_, again.repeated) == (100, 400, 0)
    assert world.route().counts.in_ == 0
    assert world.faults() == []


def test_headers_times_and_tombstones_are_kept(world: World) -> None:
    send(world.broker, world.source, [(1, b"k", b"1"), (1, b"k", None)], headers=[("trace", b"abc")])
    given = contract(world.target)
    world.route(given)
    first, second = read_committed(world.broker, world.target)
    assert (first.value, second.value) == (b"1", None)
    assert (first.time, second.time) == (BASE, BASE + 1)
    assert first.headers == (
        ("trace", b"abc"),
        ("keylane.source", f"{world.source}/1/0".encode()),
        ("keylane.contract", given.fingerprint[:16].encode()),
        ("keylane.epoch", b"1"),
    )
    assert first.lane == Router(given).lane({"key": b"k"})


def test_a_record_without_a_lane_is_a_dead_letter(world: World) -> None:
    send(world.broker, world.source, [*numbered(0, 20), (1, None, b"bad\x00\xff")], headers=[("trace", b"abc")])
    found = world.route()
    assert found.counts.as_json() == {"in": 21, "out": 20, "dead": 1, "filtered": 0}
    assert found.dead_letters == world.address(world.dead)
    (letter,) = read_committed(world.broker, world.dead)
    assert (letter.key, letter.value) == (None, b"bad\x00\xff")
    assert letter.header("trace") == "abc"
    told = {name: letter.header(f"__keylane.errors.{name}") for name in ("reason", "topic", "partition", "offset")}
    assert told == {"reason": "null-key", "topic": world.source, "partition": "1", "offset": letter_offset(letter)}
    assert letter.header("__keylane.errors.fingerprint") == contract(world.target).fingerprint
    assert "null keys" in letter.header("__keylane.errors.message")
    assert (letter.header("__keylane.errors.contract"), letter.header("__keylane.errors.epoch")) == ("orders", "1")


def letter_offset(letter: Any) -> str:
    return str(letter.header("keylane.source").rpartition("/")[2])


POISON = [(0, b"a", b"1"), (0, b"\xff", b"2"), (0, b"a", b"3"), (0, b"\xff", b"4"), (0, b"b", b"5")]


@pytest.mark.faults
def test_stop_writes_nothing_of_a_batch_with_poison(world: World) -> None:
    send(world.broker, world.source, POISON)
    with pytest.raises(DataError, match=f"{world.source}/0/1: malformed-key"):
        world.route(on_poison="stop")
    assert read_committed(world.broker, world.target) == []
    assert world.route(on_poison="dlq").counts.as_json() == {"in": 5, "out": 3, "dead": 2, "filtered": 0}


@pytest.mark.faults
def test_a_parked_key_stays_out_in_every_later_batch(world: World) -> None:
    """Keys are parked by the record's own key, for it has no routing key; before the poison they are routed."""
    by_value = contract(world.target, **{"fields: [key]": "fields: [k]"})
    rows = [(0, b"K", b'{"k": "a"}'), (0, b"K", b"{broken"), (0, b"K", b'{"k": "a"}'), (0, b"L", b'{"k": "b"}')]
    send(world.broker, world.source, rows)
    first = world.route(by_value, on_poison="dlq-and-park-key", value="json")
    assert first.counts.as_json() == {"in": 4, "out": 2, "dead": 2, "filtered": 0}
    send(world.broker, world.source, [(0, b"K", b'{"k": "a"}'), (0, b"L", b'{"k": "b"}'), (1, b"K", b'{"k": "a"}')])
    second = world.route(by_value, on_poison="dlq-and-park-key", value="json")
    assert second.counts.as_json() == {"in": 3, "out": 1, "dead": 2, "filtered": 0}
    letters = read_committed(world.broker, world.dead)
    reasons = [letter.header("__keylane.errors.reason") for letter in letters]
    assert reasons == ["malformed-record", "parked-key", "parked-key", "parked-key"]
    assert letters[0].value == b"{broken"


def test_a_key_that_is_noted_as_parked_before_a_kill_is_parked_from_the_same_place(world: World) -> None:
    """A restart found the key twice, in the list and in the plan, and took every record of it twice."""
    by_value = contract(world.target, **{"fields: [key]": "fields: [k]"})
    send(world.broker, world.source, [(0, b"K", b'{"k": "a"}'), (0, b"K", b"{broken"), (0, b"K", b'{"k": "a"}')])
    with pytest.raises(StumbledError):
        world.route(by_value, on_poison="dlq-and-park-key", value="json", probe=stumbling_at("parked"))
    found = world.route(by_value, on_poison="dlq-and-park-key", value="json")
    assert found.counts.as_json() == {"in": 3, "out": 1, "dead": 2, "filtered": 0}
    assert found.repeated == 3


@pytest.mark.faults
def test_another_delivery_counts_from_the_next_batch_on(world: World) -> None:
    """Half a batch was there without a number, and a restart in transactions wrote it again without a mark."""
    send(world.broker, world.source, numbered(0, 100))
    with pytest.raises(StumbledError):
        world.route(delivery="at-least-once", probe=stumbling_at("written"))
    send(world.broker, world.source, numbered(100, 50))
    assert world.route(delivery="exactly-once", dead_letters=world.dead).counts.in_ == 150
    attempts = [dict(r.headers).get("keylane.attempt") for r in read_committed(world.broker, world.target)]
    assert (attempts.count(None), attempts.count(b"2")) == (150, 100)


@pytest.mark.faults
def test_a_batch_that_has_the_number_of_another_is_refused(world: World) -> None:
    """An older checkpoint: Spark makes batch 1 anew, of more records, and passing it over would lose them."""
    send(world.broker, world.source, numbered(0, 40))
    world.route(max_records=40)
    checkpoint, kept = world.folder / "state" / "_keylane" / "checkpoint", world.folder / "kept"
    shutil.copytree(checkpoint, kept)
    send(world.broker, world.source, numbered(40, 40))
    world.route()
    send(world.broker, world.source, numbered(80, 40))
    shutil.rmtree(checkpoint)
    shutil.copytree(kept, checkpoint)
    with pytest.raises(TargetError, match="checkpoint is older"):
        world.route()
    assert len(read_committed(world.broker, world.target)) == 80


@pytest.mark.faults
def test_values_that_are_read_in_another_way_are_another_route(world: World) -> None:
    send(world.broker, world.source, [(0, b"K", b'{"k": "a"}')])
    by_value = contract(world.target, **{"fields: [key]": "fields: [value]"})
    world.route(by_value, value="utf8")
    with pytest.raises(TargetError, match="value: utf8 here, json given"):
        world.route(by_value, value="json")


def test_nothing_is_sent_behind_a_record_that_was_not_taken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least once: a record was too large, and when the batch was tried again those behind it stood before it."""
    monkeypatch.setattr("keylane.spark.writable.unwritable", lambda frame, *_: frame)
    send(world.broker, world.source, [(0, b"K", b"1"), (0, b"K", b"0" * 50_000), (0, b"K", b"3")])
    with pytest.raises(BrokerError, match="RecordTooLarge"):
        world.route(delivery="at-least-once", properties=(("message.max.bytes", "20000"),))
    assert b"3" not in [r.value for r in read_committed(world.broker, world.target)]


def stumbling_at(step: str) -> Callable[[str, int], None]:
    """A probe that raises there."""

    def stumble(point: str, _batch: int) -> None:
        if point == step:
            raise StumbledError

    return stumble


@pytest.mark.faults
def test_twin_dead_letters_alone_leave_a_gap_in_the_key(world: World) -> None:
    by_value = contract(world.target, **{"fields: [key]": "fields: [k]"})
    rows = [(0, b"K", b'{"k": "a"}'), (0, b"K", b"{broken"), (0, b"K", b'{"k": "a"}')]
    send(world.broker, world.source, rows)
    assert world.route(by_value, value="json").counts.as_json() == {"in": 3, "out": 2, "dead": 1, "filtered": 0}


def test_files_go_into_a_topic(world: World) -> None:
    folder = world.folder / "in"
    folder.mkdir()
    table = pa.table({"key": ["a", "b", None, "a"], "n": [1, 2, 3, 4]})
    pq.write_table(table, folder / "f.parquet")
    found = world.route(source=str(folder))
    assert found.counts.as_json() == {"in": 4, "out": 3, "dead": 1, "filtered": 0}
    records = read_committed(world.broker, world.target)
    assert [json.loads(r.value or b"") for r in records if r.key == b"a"] == [
        {"key": "a", "n": 1},
        {"key": "a", "n": 4},
    ]
    assert {r.header("keylane.source") for r in records} == {"f.parquet/0", "f.parquet/1", "f.parquet/3"}
    (letter,) = read_committed(world.broker, world.dead)
    assert (letter.header("__keylane.errors.file"), letter.header("__keylane.errors.row")) == ("f.parquet", "2")
    certificate = verify(str(folder), world.address(world.target), contract(world.target), topics=world.topics())
    assert certificate.ok
    assert (certificate.verdict.facts["ok"], certificate.verdict.facts["dead"]) == (4, 1)
    (folder / "f.parquet").rename(folder / "g.parquet")
    assert verify(str(folder), world.address(world.target)).verdict.counts["lost"] == 4


@pytest.mark.faults
def test_a_topic_goes_into_a_folder(world: World) -> None:
    send(world.broker, world.source, numbered(0, 60))
    send(world.broker, world.source, [(1, None, b"bad")], headers=[("trace", b"7")])
    target, given = world.folder / "lanes", contract(world.target)
    options = Options(kafka=KafkaOptions(max_records=40))
    found = run(given, world.address(world.source), str(target), options=options, spark=world.spark)
    assert found.counts.as_json() == {"in": 61, "out": 60, "dead": 1, "filtered": 0}
    assert found.batches > 1
    router = Router(given)
    for file in target.glob("stream=*/lane=*/*.parquet"):
        for row in pq.read_table(file, partitioning=None).to_pylist():
            assert file.parent.name == f"lane={router.lane({'key': row['key']})}"
            assert row["keylane_source"]["file"].startswith(f"{world.source}/")
    (dead,) = target.glob("_dead/*.dead")
    (letter,) = pq.read_table(dead).to_pylist()
    assert (letter["reason"], letter["original"]) == ("null-key", b"bad")
    assert (letter["key"], letter["headers"]) == (None, [{"key": "trace", "value": b"7"}])
    again = run(given, world.address(world.source), str(target), options=options, spark=world.spark)
    assert again.counts.in_ == 0
    certificate = verify(world.address(world.source), str(target), given)
    assert certificate.ok, certificate
    assert (certificate.verdict.records, certificate.verdict.facts["dead"], certificate.remarks) == (60, 1, ())
    pq.write_table(with_column(pq.read_table(dead), "headers", None), dead)
    assert verify(world.address(world.source), str(target), given).verdict.counts["changed"] == 1
    pq.write_table(with_column(pq.read_table(dead), "key", b"key-1"), dead)
    counts = verify(world.address(world.source), str(target), given).verdict.counts
    assert (counts["changed"], counts["misrouted"]) == (1, 1), "a key that the contract has a lane for"
    send(world.broker, world.source, numbered(0, 5))
    assert verify(world.address(world.source), str(target), given).verdict.counts["lost"] == 5


def with_column(table: pa.Table, name: str, value: object) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array([value] * len(table), table.schema.field(at).type))


@pytest.mark.faults
def test_a_value_that_cannot_be_read_is_proven_to_be_a_dead_letter_of_a_folder(world: World) -> None:
    values = [b'{"shop":"a"}', b"not json", b'{"shop":null}', b'{"other":1}']
    send(world.broker, world.source, [(0, b"k", value) for value in values])
    target, given = world.folder / "lanes", contract(world.target, **{"fields: [key]": "fields: [shop]"})
    options = Options(kafka=KafkaOptions(value="json"))
    found = run(given, world.address(world.source), str(target), options=options, spark=world.spark)
    assert found.counts.as_json() == {"in": 4, "out": 1, "dead": 3, "filtered": 0}
    certificate = verify(world.address(world.source), str(target), given, topics=StreamOptions(value="json"))
    assert certificate.ok, certificate


@pytest.mark.faults
def test_a_topic_goes_into_a_folder_by_a_field_of_its_values(world: World) -> None:
    rows = [(n % 2, b"K%d" % (n % 2), b'{"k": "a%d"}' % (n % 5)) for n in range(50)]
    send(world.broker, world.source, rows)
    target, given = world.folder / "lanes", contract(world.target, **{"fields: [key]": "fields: [k]"})
    source, options = world.address(world.source), Options(kafka=KafkaOptions(value="json"))
    assert run(given, source, str(target), options=options, spark=world.spark).counts.out == 50
    as_json = StreamOptions(value="json")
    assert verify(source, str(target), given, topics=as_json).ok
    (one, *_) = target.glob("stream=*/lane=*/*.parquet")
    one.rename(one.parents[1] / f"lane={(int(one.parent.name.partition('=')[2]) + 1) % 4}" / "part-0000000099.parquet")
    assert verify(source, str(target), given, topics=as_json).verdict.counts["misrouted"] > 0


@pytest.mark.faults
def test_another_number_of_writers_repeats_nothing(world: World) -> None:
    """A batch keeps the division of its plan; the next one has the new one."""
    send(world.broker, world.source, numbered(0, 100))

    with pytest.raises(StumbledError):
        world.route(writers=3, probe=stumbling_at("written"))
    send(world.broker, world.source, numbered(100, 100))
    found = world.route(writers=2)
    assert (found.counts.in_, found.repeated) == (200, 100)
    assert world.faults() == []


@pytest.mark.parametrize("some", [4, pytest.param(0, id="twin: always by part")])
def test_a_few_records_of_many_partitions_share_their_transactions(
    some: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch of a route is by part, the second by lane; killed behind its transactions, it repeats nothing."""
    opened: list[int] = []

    def noted(rows: DataFrame, division: kafka_writer.Division) -> kafka_writer.BatchWritten:
        opened.append(division.writers)
        return written(rows, division)

    written = kafka_writer.write
    monkeypatch.setattr(kafka_writer, "write", noted)
    monkeypatch.setattr("keylane.systems.kafka.target.MANY_PARTITIONS", 4 if some else 1 << 30)
    world.source = create_topic(world.broker, f"{world.source}-wide", 20)
    send(world.broker, world.source, numbered(0, 100, partitions=20))
    world.route()
    send(world.broker, world.source, numbered(100, 100, partitions=20))
    with pytest.raises(StumbledError):
        world.route(probe=stumbling_at("written"))
    found = world.route()
    assert (found.counts.in_, found.repeated) == (100, 100)
    assert world.faults() == []
    assert opened == [0, some, some]


class StumbledError(Exception):
    """Planted."""


def test_a_topic_that_grows_while_a_batch_is_open(world: World) -> None:
    send(world.broker, world.source, numbered(0, 100))
    grown: list[int] = []

    def grow(point: str, batch: int) -> None:
        if point == "planned" and not grown:
            grown.append(batch)
            world.grow(world.target, 6)

    with pytest.raises(LaneCountError, match=r"got 6; allowed: 4.*--on-growth"):
        world.route(probe=grow, max_records=50)
    assert len(read_committed(world.broker, world.target)) == 50, "the batch that was open is whole"
    with pytest.raises(LaneCountError, match="another lane count"):
        world.route()
    found = world.route(on_growth="keep")
    assert found.total.in_ == 100
    assert any("has 6 lanes now" in text for text in world.said)
    assert world.faults() == []


@pytest.mark.faults
def test_a_live_count_is_the_topics_own_and_stays(world: World) -> None:
    live = contract(world.target, "live")
    send(world.broker, world.source, numbered(0, 50))
    assert world.route(live).counts.out == 50
    assert world.faults(given=live, lanes=4) == []
    world.grow(world.target, 5)
    send(world.broker, world.source, numbered(50, 50))
    with pytest.raises(LaneCountError, match="allowed: 4"):
        world.route(live)
    world.route(live, on_growth="keep")
    assert world.faults(given=live, lanes=4) == []


def test_at_least_once_marks_a_batch_that_is_written_again(world: World) -> None:
    """The twin of exactly once: the same stumble, and every record of the batch is there twice."""
    send(world.broker, world.source, numbered(0, 100))

    with pytest.raises(StumbledError):
        world.route(delivery="at-least-once", probe=stumbling_at("written"))
    found = world.route(delivery="at-least-once")
    assert found.counts.as_json() == {"in": 100, "out": 100, "dead": 0, "filtered": 0}
    records = read_committed(world.broker, world.target)
    marked = [r for r in records if any(name == "keylane.attempt" for name, _ in r.headers)]
    assert (len(records), len(marked)) == (200, 100)
    assert {r.header("keylane.attempt") for r in marked} == {"2"}
    assert all(Router(contract(world.target)).lane({"key": r.key}) == r.lane for r in records)
    assert len(world.faults()) >= 100, "the check that exactly once passes would see it"


def test_refusals_come_before_anything_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PAUSES", (0.1,))
    given = contract(world.target)
    with pytest.raises(TargetError, match=r"no such topic.*missing.*--create"):
        run(given, world.address(world.source), world.address("missing"), options=Options(), spark=world.spark)
    for target in (world.address("missing"), str(world.folder / "lanes")):
        with pytest.raises(DataError, match=r"topic .*got 'nowhere'"):
            run(given, world.address("nowhere"), target, options=Options(kafka=KafkaOptions(create=True)))
    with pytest.raises(UsageError, match="one stream"):
        run(given, world.address(world.source), world.address(world.source), spark=world.spark)
    alias = world.address(world.target).replace("127.0.0.1", "localhost")
    for source, dead in ((world.address(world.source), world.source), (alias, None)):
        loop = Options(kafka=KafkaOptions(state=str(world.folder / "loop"), dead_letters=dead))
        with pytest.raises(UsageError, match="the topic of the source is one that the route writes"):
            run(given, source, world.address(world.target), options=loop, spark=world.spark)
    with pytest.raises(LaneCountError, match="got 4; allowed: 3"):
        world.route(contract(world.target, 3))
    with pytest.raises(UsageError, match="values"):
        world.route(contract(world.target, **{"fields: [key]": "fields: [k]"}))
    assert read_committed(world.broker, world.target) == []


@pytest.mark.faults
def test_topics_are_made_when_asked_for(world: World) -> None:
    send(world.broker, world.source, numbered(0, 10))
    name = f"{world.target}-new"
    given = contract(name, 3)
    kafka = KafkaOptions(state=str(world.folder / "new"), create=True)
    found = run(
        given, world.address(world.source), world.address(name), options=Options(kafka=kafka), spark=world.spark
    )
    assert [len(lanes) for lanes in found.lanes.values()] == [3]
    assert len(read_committed(world.broker, name)) == 10


@pytest.mark.faults
def test_a_route_of_another_contract_does_not_take_over(world: World) -> None:
    send(world.broker, world.source, numbered(0, 10))
    world.route()
    with pytest.raises(TargetError, match="another version of this contract"):
        world.route(contract(world.target, **{"on_null: reject": "on_null: hash"}))


@pytest.mark.faults
def test_where_a_new_route_starts(world: World) -> None:
    send(world.broker, world.source, [(0, b"a", b"0"), (0, b"a", b"1"), (0, b"a", b"2")])
    found = world.route(start='{"0": 2, "1": -2}')
    assert found.counts.in_ == 1
    kept = replace(
        Options(), kafka=KafkaOptions(state=str(world.folder / "late"), start="2100-01-01T00:00Z", second_route=True)
    )
    late = run(
        contract(world.target),
        world.address(world.source),
        world.address(world.target),
        options=kept,
        spark=world.spark,
    )
    assert late.counts.in_ == 0


def test_fields_of_values_missing_null_nested_and_of_tombstones(world: World) -> None:
    values = [b'{"shop":{"id":"a"}}', b'{"shop":{}}', b'{"shop":{"id":null}}', None]
    send(world.broker, world.source, [(0, b"k", value) for value in values])
    given = contract(world.target, **{"fields: [key]": "fields: [shop.id]"})
    with pytest.raises(
        DataError, match=r"no record has a field that the lane depends on: got 'shops.id'; allowed: shop.id; hint"
    ):
        world.route(contract(world.target, **{"fields: [key]": "fields: [shops.id]"}), value="json")
    assert read_committed(world.broker, world.target) == []
    assert world.route(given, value="json").counts.as_json() == {"in": 4, "out": 1, "dead": 3, "filtered": 0}
    letters = {
        letter.value: letter.header("__keylane.errors.reason") for letter in read_committed(world.broker, world.dead)
    }
    assert letters == {values[1]: "missing-field", values[2]: "null-key", None: "missing-field"}
    source, target = world.address(world.source), world.address(world.target)
    assert verify(source, target, given, topics=world.topics(value="json")).ok


def test_a_compacted_target_is_refused_before_anything_is_made(world: World, topic: Callable[..., str]) -> None:
    world.target = topic(4, "compacted", cleanup_policy="compact")
    with pytest.raises(UsageError, match=rf"{world.target} is compacted, and a tombstone would not reach"):
        world.route(contract(world.target, **{"fields: [key]": "fields: [shop]"}), value="json", create=True)
    assert not (world.folder / "state").exists()
    send(world.broker, world.source, [(0, b"k", b"1"), (1, b"k", None)])
    assert world.route(contract(world.target), create=True).counts.out == 2
    assert len({record.lane for record in read_committed(world.broker, world.target)}) == 1

"""The Java classes of a running match, one at a time: what each must do, and a twin that must fail."""

from __future__ import annotations

import json
import random
import struct
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F
from tests.match.batch_traffic import geo_contract
from tests.match.steps import (
    AVAILABLE,
    COUNTS,
    DEAD,
    LANES,
    LEFT,
    PAIR,
    PROGRESS,
    REQUEST,
    SAME,
    TIME,
    UNAVAILABLE,
    Record,
    Steps,
    placed,
    progress,
    time_record,
    unpacked,
)

from keylane.contract.parse import parse_contract
from keylane.errors import UsageError
from keylane.geo.bits import ancestor, curve_end, curve_start
from keylane.geo.cells import cells_of
from keylane.matching.assign import ASSIGNMENTS
from keylane.matching.cover import covers
from keylane.matching.near import first_of_each
from keylane.matching.sphere import haversine
from keylane.pipelines.match.follow_plan import check_lanes
from keylane.placement.cell_lanes import cell_lanes
from keylane.placement.lane_keys import lane_keys
from keylane.spark.topic_blocks import CLOCK, MESSAGE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

#: In lanes 1 and 3 of four by cells of resolution 5, so in one slot of two; and one that is not.
LONDON = (51.5074, -0.1278)


@pytest.fixture(scope="module")
def steps(spark: SparkSession) -> Steps:
    return Steps(spark)


def north(metres: float) -> tuple[float, float]:
    return LONDON[0] + metres / 111_195, LONDON[1]


def of_kind(records: list[Record], *kinds: int) -> list[Record]:
    return [one for one in records if one.kind in kinds]


def counts(sent: dict[int, list[Record]]) -> dict[str, Any]:
    (found,) = of_kind(sent[0], COUNTS)
    return dict(json.loads(found.text))


def pairs(sent: dict[int, list[Record]]) -> set[tuple[str, int, str, int]]:
    """Rider, its time, driver, its time."""
    found = set()
    for records in sent.values():
        for one in of_kind(records, PAIR):
            rider_ts, _, driver_ts, _, _, length = struct.unpack_from("<qqqqdi", one.fields)
            rest = one.fields[44:]
            found.add((rest[:length].decode(), rider_ts, rest[length:].decode(), driver_ts))
    return found


def test_the_keys_of_slots_are_those_of_lanes(steps: Steps) -> None:
    for count in (1, 2, 7, 60):
        slots = steps.new("blocks.Slots", count)
        assert [slots.key(slot) for slot in range(count)] == list(lane_keys(count))
        assert [slots.slotOfKey(slots.key(slot)) for slot in range(count)] == list(range(count))
    assert slots.slotOfKey(-5) == -1


def test_a_table_finds_what_it_holds_and_drops_what_is_gone(steps: Steps) -> None:
    slot = steps.step("match.Homes")
    records = [placed(AVAILABLE, f"d{number}", 100, number, *north(0)) for number in range(500)]
    sent = slot.take([*records, *records, time_record(0, 0, 100)])
    assert counts(sent)["drivers"] == counts(sent)["stays"] == 500
    assert counts(sent)["pings"] == 1000


@pytest.mark.parametrize("partitioner", ["kafka-java", "librdkafka-consistent-random", "sarama-hash", "spark-hash"])
def test_lanes_of_cells_are_those_of_the_contract(spark: SparkSession, partitioner: str) -> None:
    rng = np.random.default_rng(3)
    lat, lng = rng.uniform(-89, 89, 200), rng.uniform(-180, 180, 200)
    base = geo_contract(12, 4).model_dump(mode="json", by_alias=True, exclude_none=True)
    base["spec"]["partitioner"] = partitioner
    cells = cells_of(lat, lng)
    hashed = cell_lanes(parse_contract(json.dumps(base)), 12)
    leaves = np.sort(ancestor(cells[:5], 6))
    table = replace(hashed, starts=curve_start(leaves), ends=curve_end(leaves), leaf_lane=np.arange(5, dtype=np.int32))
    for lanes in (hashed, table):
        java = Steps(spark, tables=(lanes,)).plan.rules.current()
        assert [java.lane(int(cell)) for cell in cells] == lanes.of(cells).tolist()


def test_a_partitioner_that_java_does_not_have_is_refused() -> None:
    base = geo_contract(12, 4).model_dump(mode="json", by_alias=True, exclude_none=True)
    base["spec"]["partitioner"] = "kafkajs-1"
    with pytest.raises(UsageError, match="kafkajs-1"):
        check_lanes(cell_lanes(parse_contract(json.dumps(base)), 12))


@pytest.mark.parametrize("radius", [50.0, 3000.0, 20_000.0])
def test_a_request_goes_to_the_lanes_of_its_cover(spark: SparkSession, radius: float) -> None:
    rng = np.random.default_rng(5)
    # London, the antimeridian, the surroundings of a pentagon, a pole.
    towns = [LONDON, (-16.85, 179.99), (39.10, 122.30), (89.99, 10.0)]
    spots = [(lat + rng.normal(0, 0.05), lng + rng.normal(0, 0.05)) for lat, lng in towns for _ in range(4)]
    spots = [(min(lat, 90.0), (lng + 180) % 360 - 180) for lat, lng in spots]
    tables = [cell_lanes(geo_contract(60, resolution), 60) for resolution in (6, 5)]
    slot = Steps(spark, slots=1, tables=tables, options={"radius": radius}).step("match.Homes")
    asked = [placed(REQUEST, f"r{n}", 50, n, *spot, lane=0) for n, spot in enumerate(spots)]
    sent = slot.take([*asked, time_record(0, 0, 100)])
    lat, lng = np.array(spots).T
    cells = cells_of(lat, lng)
    row, lane, _ = covers(lat, lng, cells, radius, [one.of for one in tables], 6)
    old = set(zip(range(len(spots)), tables[0].of(cells).tolist(), strict=True))
    wanted = set(zip(row.tolist(), lane.tolist(), strict=True)) | old
    assert counts(sent)["copies"] == len(wanted)


def test_the_distance_is_the_haversine(steps: Steps) -> None:
    rng = np.random.default_rng(1)
    sphere = steps.java.loadClass("keylane.match.Sphere")
    gateway = steps.gateway
    kinds = gateway.new_array(gateway.jvm.java.lang.Class, 4)
    for at in range(4):
        kinds[at] = gateway.jvm.java.lang.Double.TYPE
    method = sphere.getMethod("metres", kinds)
    for places in rng.uniform(-89, 89, (20, 4)).tolist():
        given = gateway.new_array(gateway.jvm.java.lang.Object, 4)
        for at, value in enumerate(places):
            given[at] = value
        assert method.invoke(None, given) == pytest.approx(float(haversine(*places)), rel=1e-12)


def stand(steps: Steps, *batches: list[Record]) -> tuple[int, int]:
    """The watermark and from when lanes remember, after some batches."""
    slot = steps.step("match.Homes")
    for batch in batches:
        sent = slot.take(batch)
    assert slot.again().take([])[0][0] == of_kind(sent[0], PROGRESS)[0], "a snapshot makes something else"
    found = counts(sent)
    return found["watermark"], found["kept_from"]


def test_the_watermark_is_behind_the_newest_ping_and_lanes_remember_for_requests(steps: Steps) -> None:
    drivers, riders = partial(time_record, 0), partial(time_record, 1)
    assert stand(steps, [drivers(0, 500), riders(0, 480)]) == (490, 470)
    assert stand(steps, [drivers(0, 500), riders(0, 480)], [drivers(0, 300)]) == (490, 470)
    assert stand(steps, [drivers(0, 500), riders(0, 450, 3)]) == (490, 440), "unread requests are remembered for"
    assert stand(steps, [drivers(0, 500), riders(0, 450, 0)]) == (490, 480)
    assert stand(steps, [drivers(0, 500), riders(0, 10, 3)]) == (490, 390), "but not for ever"
    assert stand(steps, [drivers(0, 500)])[1] == 390, "files do not tell what is still to come"


def test_a_partition_with_unread_records_holds_time_and_one_that_is_read_to_its_end_does_not(steps: Steps) -> None:
    both = [time_record(0, 0, 500, 0), time_record(0, 1, 300, 7)]
    assert stand(steps, both)[0] == 290
    assert stand(steps, [time_record(0, 0, 500, 7), time_record(0, 1, 300, 0)])[0] == 490
    assert stand(steps, both, [time_record(0, 1, 310, 0)])[0] == 490
    assert stand(steps, [*both, time_record(0, 1, 320, SAME)])[0] == 310, "a second record of a partition adds to it"


@pytest.mark.parametrize(("window", "kept"), [(1, 480), (50, 450), (5, 480)])
def test_lanes_remember_for_requests_that_wait_for_the_end_of_their_window(
    spark: SparkSession, window: int, kept: int
) -> None:
    steps = Steps(spark, rules={"window": window})
    assert stand(steps, [time_record(0, 0, 500), time_record(1, 0, 495)])[1] == kept


def test_a_request_is_answered_once_by_its_last_report_and_never_after_its_answer(steps: Steps) -> None:
    slot = steps.step("match.Homes")
    first = [placed(REQUEST, "waits", 50, 1, *north(0)), placed(REQUEST, "done", 20, 1, *north(0))]
    sent = slot.take([*first, time_record(0, 0, 40), time_record(1, 0, 50)])
    released = [one.who for records in sent.values() for one in of_kind(records, REQUEST)]
    assert released[:1] == ["done"]
    slot = slot.again()
    second = [
        placed(REQUEST, "waits", 50, 9, *north(500)),
        placed(REQUEST, "done", 20, 9, *north(500)),
        placed(REQUEST, "new", 99, 3, *north(0)),
        placed(REQUEST, "old", 5, 4, *north(0)),
    ]
    sent = slot.take([*second, time_record(0, 0, 70), time_record(1, 0, 99)])
    last = {one for records in sent.values() for one in of_kind(records, REQUEST)}
    assert {one.who for one in last} == {"waits"}
    assert {struct.unpack_from("<iqqd", one.fields)[3] for one in last} == {north(500)[0]}
    (letter,) = [json.loads(one.text) for one in of_kind(sent[0], DEAD)]
    assert (letter["side"], letter["reason"]) == ("riders", "late-request")
    assert json.loads(letter["original"])["rider"] == "old"
    found = counts(sent)
    assert (found["waiting"], found["reported"], found["late_requests"], found["asked"]) == (1, 4, 1, 1)


def two_slots() -> list[tuple[float, float]]:
    """Two locations near each other, in lanes of two slots."""
    spots = [north(metres) for metres in range(0, 400_000, 500)]
    lanes = LANES.of(cells_of(*np.array(spots).T)) % 2
    at = int(np.flatnonzero(np.diff(lanes))[0])
    return spots[at : at + 2]


@pytest.mark.parametrize("is_sent", [True, False], ids=["sent", "twin: tombstones are lost"])
def test_a_driver_that_went_to_another_slot_is_no_longer_found_in_the_first(steps: Steps, is_sent: bool) -> None:
    here, there = two_slots()
    homes, slot = steps.step("match.Homes"), int(LANES.of(cells_of(*zip(here, strict=True)))[0]) % 2
    lanes = steps.step("match.Lanes", slot)
    moved = [placed(AVAILABLE, "d", 10, 0, *here), placed(AVAILABLE, "d", 20, 1, *there)]
    # The later ping comes first: the tombstone is for the past.
    sent = homes.take([moved[1]]), homes.take([moved[0], time_record(0, 0, 100)])
    assert [one.ts for batch in sent for one in of_kind(batch[slot], LEFT)] == [20]
    for batch in sent:
        lanes.take([one for one in batch[slot] if is_sent or one.kind != LEFT])
    asked = [placed(REQUEST, "r", ts, ts, *here, lane=slot) for ts in (15, 25)]
    found = pairs(lanes.take([*asked, progress(90, 0)]))
    assert found == {("r", 15, "d", 10)} | (set() if is_sent else {("r", 25, "d", 10)})


def test_a_lane_answers_as_of_the_moment_of_a_request_whenever_it_comes(spark: SparkSession) -> None:
    steps = Steps(spark, slots=1, options={"radius": 1000.0, "expire": 30 / 1e6})
    lanes = steps.step("match.Lanes")
    pings = [
        placed(AVAILABLE, "near", 10, 0, *north(100)),
        placed(AVAILABLE, "near", 40, 1, *north(5000)),
        placed(UNAVAILABLE, "busy", 30, 2, *north(0)),
        placed(AVAILABLE, "busy", 10, 3, *north(0)),
        placed(AVAILABLE, "edge", 10, 4, *north(1001)),
    ]
    assert not pairs(lanes.take([*pings, progress(50, 0)]))
    lanes = lanes.again()
    asked = {ts: placed(REQUEST, "r", ts, 9, *LONDON) for ts in (9, 10, 29, 35, 40, 41)}
    found = pairs(lanes.take(asked.values()))
    near = {("r", ts, "near", 10) for ts in (10, 29, 35, 40) if ts < 40}
    assert found == near | {("r", 10, "busy", 10), ("r", 29, "busy", 10)}


def test_the_poles_and_the_antimeridian_are_searched_all_around(spark: SparkSession) -> None:
    rng = np.random.default_rng(2)
    steps = Steps(spark, slots=1, options={"radius": 3000.0})
    for lat, lng in [(89.99, 0.0), (-90.0, 10.0), (0.0, 180.0), (65.0, -179.99)]:
        lats = np.clip(lat + rng.normal(0, 0.03, 60), -90, 90)
        lngs = (lng + rng.normal(0, 40 if abs(lat) > 80 else 0.03, 60) + 180) % 360 - 180
        drivers = [
            placed(AVAILABLE, f"d{n}", 1, n, a, b, lane=0) for n, (a, b) in enumerate(zip(lats, lngs, strict=True))
        ]
        found = pairs(steps.step("match.Lanes").take([*drivers, placed(REQUEST, "r", 5, 0, lat, lng, lane=0)]))
        metres = haversine(lats, lngs, lat, lng)
        assert {one[2] for one in found} == {f"d{n}" for n in np.flatnonzero(metres <= 3000)}
        assert found


def test_what_no_request_can_see_is_forgotten_and_a_late_ping_that_would_change_an_answer_is_counted(
    spark: SparkSession,
) -> None:
    steps = Steps(spark, slots=1, options={"radius": 1000.0})
    lanes = steps.step("match.Lanes")
    first = [placed(AVAILABLE, "d", ts, ts, *north(9000)) for ts in (10, 20, 30)]
    sent = lanes.take([*first, placed(REQUEST, "r", 25, 0, *LONDON), progress(28, 22)])
    assert counts(sent) == {"step": "lanes", "entries": 2, "changed": 0}
    lanes = lanes.again()
    late = [placed(AVAILABLE, "d", 24, 24, *LONDON), placed(AVAILABLE, "e", 24, 25, *north(2000))]
    assert counts(lanes.take([*late, progress(29, 22)]))["changed"] == 1
    assert counts(lanes.take([progress(50, 40)]))["entries"] == 4, "drivers that do not ping are looked at later"


def walk(rng: random.Random, batches: int) -> list[list[Record]]:
    """Batches of pings and requests of a few drivers and riders around a border of slots, some late, some twice."""
    spots = [(lat + metres / 111_195, lng) for lat, lng in two_slots() for metres in (-1000, -500, 0, 500, 1000)]
    out, offset = list[list[Record]](), 0
    for batch in range(batches):
        records, newest = [], batch * 20
        for _ in range(rng.randrange(25)):
            offset += 1
            ts = batch * 20 + rng.randrange(-15, 20)
            newest = max(newest, ts)
            kind = rng.choice([AVAILABLE, AVAILABLE, AVAILABLE, UNAVAILABLE, REQUEST, REQUEST])
            who = f"{'r' if kind == REQUEST else 'd'}{rng.randrange(6)}"
            # Whole tens, so that requests are reported again.
            records.append(placed(kind, who, ts // 10 * 10 if kind == REQUEST else ts, offset, *rng.choice(spots)))
        unread = rng.choice([0, 0, 3])
        times = [time_record(0, 0, newest, unread), time_record(1, rng.randrange(2), newest, unread)]
        out.append([*records, *times])
    return out


@pytest.mark.parametrize(
    "expire", [pytest.param(None, id="for ever", marks=pytest.mark.faults), pytest.param(25e-6, id="expire")]
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(1, 6))])
def test_a_slot_goes_on_alike_from_memory_from_a_snapshot_and_from_its_log(
    spark: SparkSession, seed: int, expire: float | None
) -> None:
    steps = Steps(spark, options={"radius": 1500.0, "expire": expire}, rules={"keep": 40})
    batches, homes = walk(random.Random(seed), 10), steps.step("match.Homes")
    sent = [homes.take(batch) for batch in batches]
    given = [("match.Homes", 0, batches)]
    given += [
        ("match.Lanes", slot, [[one for one in batch[slot] if one.kind < PAIR] for batch in sent]) for slot in (0, 1)
    ]
    for name, slot, taken in given:
        # Two that live on in memory: one whose log is never replaced, one that makes a snapshot after each batch.
        logged, kept, restored = (steps.step(name, slot) for _ in range(3))
        many, forgets, log = 0, 0, list[list[Record]]()
        for number, batch in enumerate(taken):
            replayed = steps.step(name, slot)
            for before in log:
                replayed.take(before, silent=True)
            found, of_log, of_kept, of_snapshot = (
                as_sets(one.take(batch)) for one in (logged, replayed, kept, restored)
            )
            assert of_log == found, (name, slot, number)
            log.append([*batch, *logged.decided()])
            assert of_snapshot == of_kept, (name, slot, number)
            many += sum(map(len, found.values()))
            restored = kept.again()
            # The twin: one that has nothing of the batches before.
            forgets += as_sets(steps.step(name, slot).take(batch)) != found
        assert many > 5
        assert forgets > 0


@pytest.mark.parametrize(
    "now", [{"late": 0}, {"late": 60}, {"window": 100}, {"keep": 1000}], ids=["later", "earlier", "window", "keep"]
)
def test_what_was_decided_stays_so_in_a_run_with_other_rules(spark: SparkSession, now: dict[str, int]) -> None:
    homes, log = Steps(spark, rules={"keep": 20}).step("match.Homes"), list[list[Record]]()
    for newest, requests in ((40, [("done", 20), ("waits", 38)]), (90, [("done too", 65), ("waits too", 85)])):
        asked = [placed(REQUEST, who, ts, ts, *LONDON) for who, ts in requests]
        batch = [*asked, time_record(0, 0, newest, 0), time_record(1, 0, newest // 2, 3)]
        homes.take(batch)
        log.append([*batch, *homes.decided()])
    # The twin: a log without what was decided is taken by the rules of now.
    found = []
    for left_out in (0, 1):
        again = Steps(spark, rules={"keep": 20, **now}).step("match.Homes")
        for one in log:
            again.take(one[: len(one) - left_out], silent=True)
        ends = [time_record(0, 0, 900, 0), time_record(1, 0, 900, 0)]
        sent = again.take([placed(REQUEST, "late", 55, 99, *LONDON), *ends])
        found.append(({one.who for one in of_kind(sent[0] + sent[1], REQUEST)}, counts(sent)["late_requests"]))
    assert found[0] == ({"waits too"}, 1)
    assert found[1] != found[0]


@pytest.mark.parametrize("name", ["match.Homes", "match.Lanes"])
def test_what_a_slot_knows_does_not_grow_with_the_records_that_it_took(steps: Steps, name: str) -> None:
    slot, sizes = steps.step(name), list[int]()
    for number in range(60):
        at = number * 50
        pings = [placed(AVAILABLE, f"d{who}", at + who, number, *north(who * 10)) for who in range(40)]
        asked = [placed(REQUEST, f"r{number}", at, number, *LONDON)]
        times = [time_record(0, 0, at + 40, 0), time_record(1, 0, at, 0)]
        slot.take([*pings, *asked, *(times if name == "match.Homes" else [progress(at, at - 10)])])
        if number % 20 == 19:
            sizes.append(len(bytes(slot.step.snapshot(slot.memory))))
    assert sizes[0] < 40 * 3 * 60, "about two positions of each driver, of some 50 bytes"
    assert max(sizes) - min(sizes) < 200, sizes
    # The twin: nothing is forgotten where time stands still.
    twin = steps.step(name)
    for number in range(20):
        twin.take([placed(AVAILABLE, f"d{who}", number * 50 + who, number, *north(who * 10)) for who in range(40)])
    assert len(bytes(twin.step.snapshot(twin.memory))) > 3 * sizes[0]


def as_sets(sent: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """What was sent, in an order of its own: that of records within a batch decides nothing."""
    return {slot: sorted(records) for slot, records in sorted(sent.items())}


def pair(rider: str, ts: int, driver: str, driver_ts: int, metres: float, offset: int = 0) -> Record:
    head = struct.pack("<qqqqdi", ts, 0, driver_ts, offset, metres, len(rider))
    return Record(PAIR, head + rider.encode() + driver.encode())


@pytest.mark.parametrize("nearest", [None, 2])
def test_the_pairs_of_a_request_are_put_in_order_each_driver_once(spark: SparkSession, nearest: int | None) -> None:
    steps = Steps(spark, options={"radius": 1000.0, "nearest": nearest})
    found = [
        pair("r", 5, "far", 1, 900.0),
        pair("r", 5, "b", 1, 100.0),
        pair("r", 5, "moved", 1, 50.0),
        pair("r", 5, "moved", 3, 500.0),
        pair("r", 5, "a", 1, 100.0),
        pair("r", 6, "a", 1, 100.0),
        # As far away as another, and after it by their bytes, though not by Java's own order.
        pair("r", 7, "\U0001f600", 1, 100.0),
        pair("r", 7, "\uffff", 1, 100.0),
    ]
    rows = steps.gateway.jvm.java.util.ArrayList()
    for records in (found[:3], found[3:], [Record(DEAD, b"{}")]):
        block = bytearray(b"".join(one.packed for one in records))
        rows.add(steps.gateway.jvm.scala.Tuple2(0, block))
    given = steps.new("match.Merge", steps.plan.rules).call(rows.iterator())
    out = []
    while given.hasNext():
        row = given.next()
        out.append([row.get(at) for at in range(row.length())])
    ranked = [(row[2], row[6], row[3]) for row in out if row[0] == 0]
    whole = [(5, 1, "a"), (5, 2, "b"), (5, 3, "moved"), (5, 4, "far"), (6, 1, "a")]
    whole += [(7, 1, "\uffff"), (7, 2, "\U0001f600")]
    assert sorted(ranked) == [one for one in whole if nearest is None or one[1] <= nearest]
    assert [row[1] for row in out if row[0] == 2] == ["{}"]
    (counted,) = [json.loads(row[1]) for row in out if row[0] == 1]
    assert counted == {"step": "merge", "pairs": len(ranked), "riders": 3, "ghosts": 1}


def test_what_a_task_left_is_taken_once_and_dropped_by_its_name(steps: Steps) -> None:
    cache = steps.new("blocks.IdleCache", "test")
    cache.giveBack("q/homes/0", "one")
    cache.giveBack("q/lanes/0", "two")
    assert (cache.take("q/homes/0"), cache.take("q/homes/0"), cache.size()) == ("one", None, 1)
    cache.drop("q/homes")
    assert cache.size() == 1
    cache.drop("q/")
    assert cache.size() == 0
    cache.interrupt()


@pytest.mark.parametrize("idle", [50, pytest.param(600_000, id="twin: not idle for long enough")])
def test_what_nobody_takes_for_a_while_is_dropped_and_closed(steps: Steps, idle: int) -> None:
    java = steps.gateway.jvm
    cache = steps.new("blocks.IdleCache", "test", java.java.lang.Long(idle), java.java.lang.Long(10))
    left = java.java.io.StringReader("a consumer, say")
    cache.giveBack("topic/0", left)
    until = time.monotonic() + (20 if idle == 50 else 0.5)
    while cache.size() and time.monotonic() < until:
        time.sleep(0.02)
    cache.interrupt()
    assert cache.size() == (idle != 50)
    if idle == 50:
        with pytest.raises(Py4JJavaError, match="closed"):
            left.ready()
    else:
        assert left.ready()


PLAIN = {"id": "d1", "ts": 1700000000000, "lat": 51.5, "lng": -0.12, "available": True}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (json.dumps(PLAIN), True),
        (json.dumps({**PLAIN, "more": None, "x": "y", "n": -1.5}), True),
        (' {"lat":-51.5 ,"id":"d1","ts":1,"lng":0}\n', True),
        (json.dumps({**PLAIN, "id": 'd"1'}), False),
        (json.dumps({**PLAIN, "id": "é"}, ensure_ascii=False), False),
        (json.dumps({**PLAIN, "id": 7}), False),
        (json.dumps({**PLAIN, "id": ""}), False),
        (json.dumps({**PLAIN, "ts": "2026-01-01T00:00Z"}), False),
        (json.dumps({**PLAIN, "ts": 1.5}), False),
        (json.dumps({**PLAIN, "lat": 91.0}), False),
        (json.dumps({**PLAIN, "lat": 0.0, "lng": 0.0}), False),
        (json.dumps({**PLAIN, "lat": 1e-7}), False),
        (json.dumps({**PLAIN, "lat": 51.12345678901234}), False),
        (json.dumps({**PLAIN, "available": None}), False),
        (json.dumps({**PLAIN, "available": "yes"}), False),
        (json.dumps({**PLAIN, "more": {"a": 1}}), False),
        (json.dumps({key: value for key, value in PLAIN.items() if key != "lat"}), False),
        (json.dumps(PLAIN)[:-1], False),
        (json.dumps(PLAIN) + "x", False),
        (json.dumps(PLAIN)[:-1] + ',"id":"d2"}', False),
        (json.dumps(PLAIN)[:-1] + ',"x":tru}', False),
        (json.dumps(PLAIN)[:-1] + ',"x":01}', False),
        (json.dumps(PLAIN)[:-1] + ",}", False),
        ("", False),
        ("null", False),
    ],
)
def test_a_record_is_packed_where_it_is_read_only_if_it_is_plain(steps: Steps, text: str, plain: bool) -> None:
    names = {"names": ["id", "ts", "lat", "lng", "available"], "tick": 1000, "region": [-90.0, -180.0, 90.0, 180.0]}
    packer = steps.plan.plan.packer(steps.plan.rules, 0, names, None).packer(2 * 10**15)
    assert packer.pack(3, 7, None, bytearray(text.encode())) == plain
    packer.end(3, 5)
    blocks = [bytes(row._2()) for row in packer.rows()]
    records = [one for block in blocks for one in unpacked(block)]
    assert len(of_kind(records, AVAILABLE)) == plain
    if plain:
        (ping,) = of_kind(records, AVAILABLE)
        value = json.loads(text)
        _, ts, offset, lat, lng = struct.unpack_from("<iqqdd", ping.fields)
        assert (ping.who, ts, lat, lng) == (value["id"], value["ts"] * 1000, value["lat"], value["lng"])
        assert offset == 7 << 17 | 3
    assert [struct.unpack("<iiqqqq", one.fields)[3:5] for one in of_kind(records, TIME)] == [(5, int(plain))] * 2


def message(steps: Steps, value: str, offset: int = 7) -> DataFrame:
    # A row of an RDD, as a source has them: of a list Spark would work everything out at once.
    row = (None, value.encode(), "t", 3, offset, None, 10**15)
    return steps.spark.createDataFrame(steps.spark.sparkContext.parallelize([row], 1), MESSAGE)


def judged(frame: DataFrame) -> DataFrame:
    """Messages as `records.as_rows` has them: texts that begin with an `x` are bad."""
    text = frame.select(F.col("value").cast("string").alias("text"), "*")
    reason = F.when(F.col("text").startswith("x"), F.lit("empty-key"))
    made = {"id": F.upper("text"), "ts": F.col("offset") * 10, "offset": F.col("offset")}
    made |= {"lat": F.lit(51.5), "lng": F.lit(-0.12), "available": F.lit(None).cast("boolean"), "reason": reason}
    made |= {"source": F.col("topic"), "original": F.col("text"), "part": F.col("partition"), "clock": F.col(CLOCK)}
    return text.select(*(column.alias(name) for name, column in made.items()))


def test_a_record_that_is_not_plain_is_read_by_columns_of_spark_where_it_is_read(steps: Steps) -> None:
    given = [message(steps, value, offset) for value, offset in (("one", 7), ("x", 8), ("two", 9))]
    columns = steps.plan.columns(judged(given[0]))
    packer = steps.plan.plan.packer(steps.plan.rules, 0, None, columns).packer(2 * 10**15)
    without = steps.plan.plan.packer(steps.plan.rules, 0, None, None).packer(2 * 10**15)
    for frame in given:
        row = frame._jdf.queryExecution().toRdd().first()
        assert not packer.pack(3, 7, None, bytearray(b"one")), "no value is plain without names of fields"
        assert packer.packRow(row)
        assert not without.packRow(row)
    records = [one for block in packer.rows() for one in unpacked(bytes(block._2()))]
    assert sorted((one.who, one.ts) for one in of_kind(records, AVAILABLE)) == [("ONE", 70), ("TWO", 90)]
    (letter,) = (json.loads(one.text) for one in of_kind(records, DEAD))
    assert letter == {"side": "drivers", "source": "t", "reason": "empty-key", "original": "x"}
    assert [struct.unpack("<iiqqqq", one.fields)[4] for one in of_kind(records, TIME)] == [3, 3]


def test_columns_that_need_more_than_their_row_stay_in_the_plan(steps: Steps) -> None:
    rows = judged(message(steps, "one"))
    in_python = F.udf(lambda text: text, "string")
    assert steps.plan.columns(rows) is not None
    assert steps.plan.columns(rows.withColumn("id", in_python("id"))) is None
    assert steps.plan.columns(rows.where(F.col("id") > "a")) is None


def test_a_checkpoint_is_written_without_a_process_for_each_file(steps: Steps, tmp_path: Path) -> None:
    java = steps.gateway.jvm
    path, conf = java.org.apache.hadoop.fs.Path(f"file://{tmp_path}/sub/1"), java.org.apache.hadoop.conf.Configuration()
    folder = path.getParent()
    own = steps.new("blocks.CheckpointFiles", folder, conf)
    own.mkdirs(folder)
    out = own.createAtomic(path, False)
    out.write(bytearray(b"whole"))
    out.close()
    assert (tmp_path / "sub" / "1").read_bytes() == b"whole"
    modes = {one.name: oct(one.stat().st_mode & 0o777) for one in (tmp_path / "sub").iterdir()}
    # Another file system than Hadoop's own, with the same files: data, checksum, and who may read them.
    spark = java.org.apache.spark.sql.execution.streaming.checkpointing
    theirs = spark.FileSystemBasedCheckpointFileManager(folder, conf)
    assert own.fs().getClass().getName() != theirs.fs().getClass().getName()
    again = theirs.createAtomic(java.org.apache.hadoop.fs.Path(folder, "2"), False)
    again.close()
    assert modes == {name: oct((tmp_path / "sub" / name.replace("1", "2")).stat().st_mode & 0o777) for name in modes}
    assert modes.keys() == {"1", ".1.crc"}


def assignment(steps: Steps, request: list[int], driver: list[int], metres: list[float]) -> Any:
    gateway = steps.gateway
    arrays = []
    for kind, values in ((gateway.jvm.int, request), (gateway.jvm.int, driver), (gateway.jvm.double, metres)):
        array = gateway.new_array(kind, len(values))
        for at, value in enumerate(values):
            array[at] = value
        arrays.append(array)
    return steps.new("match.Assignment", *arrays)


@pytest.mark.parametrize("method", ["greedy", "optimal"])
@pytest.mark.parametrize("seed", range(6))
def test_drivers_are_assigned_as_in_a_batch(steps: Steps, method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    asks, free, many = (1, 1, 1) if seed == 0 else (12, [4, 12, 30][seed % 3], 50)
    found = sorted({(int(rng.integers(asks)), int(rng.integers(free))) for _ in range(many)})
    metres = rng.uniform(1, 1000, len(found)).tolist()
    names = {
        "rider": [f"r{request:02d}" for request, _ in found],
        "rider_ts": [0] * len(found),
        "driver": [f"d{driver:02d}" for _, driver in found],
        "distance_m": metres,
    }
    pairs = first_of_each(pa.table(names), None)
    by_definition = set(
        zip(*(ASSIGNMENTS[method](pairs)[name].to_pylist() for name in ("rider", "driver")), strict=True)
    )
    riders, drivers = (pairs[name].to_pylist() for name in ("rider", "driver"))
    asked = {rider: number for number, rider in enumerate(dict.fromkeys(riders))}
    offered = {driver: number for number, driver in enumerate(dict.fromkeys(drivers))}
    java = assignment(
        steps, [asked[one] for one in riders], [offered[one] for one in drivers], pairs["distance_m"].to_pylist()
    )
    chosen = [row for row in getattr(java, method)() if row >= 0]
    assert {(riders[row], drivers[row]) for row in chosen} == by_definition


def test_nobody_is_assigned_where_there_is_no_pair_and_optimal_is_not_greedy(steps: Steps) -> None:
    assert list(assignment(steps, [], [], []).optimal()) == []
    worked = assignment(steps, [0, 0, 1], [0, 1, 0], [100.0, 200.0, 150.0])
    assert (list(worked.greedy()), list(worked.optimal())) == ([0, -1], [1, 2])

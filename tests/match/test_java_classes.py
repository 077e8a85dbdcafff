"""The small Java classes under the steps of a running match, one by one; and that each class of Java has a test.

The steps themselves: test_steps.py. The source of topics: tests/integration.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.match.steps import AVAILABLE, DEAD, REQUEST, SAME, TIME, Record, Steps, placed, time_record, unpacked

from keylane.geo.cells import cells_of
from keylane.spark.cells import SOURCES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
#: Which test is that of a class: the file, and words of the test's name.
STEPS, PLAIN, HERE, TOPICS = "match/test_steps.py", "match/test_plain.py", "match/test_java_classes.py", "integration"
TESTS = {
    "Answer": (STEPS, "a_lane_answers_as_of_the_moment"),
    "Assignment": (STEPS, "drivers_are_assigned_as_in_a_batch"),
    "Block": (HERE, "a_block_has_what_was_put_into_it"),
    "BlockStep": ("spark/test_block_steps.py", "counts_by_key_go_on"),
    "Cells": (HERE, "the_home_cell_is_that_of_python"),
    "CheckpointFiles": (STEPS, "a_checkpoint_is_written_without_a_process"),
    "Cover": (STEPS, "a_request_goes_to_the_lanes_of_its_cover"),
    "Driver": (HERE, "positions_are_in_the_order_of_time_however_they_come"),
    "Grid": (STEPS, "the_poles_and_the_antimeridian_are_searched"),
    "H3Library": ("spark/test_cells.py", "the_native_library_leaves_no_file_behind"),
    "Homes": (STEPS, "a_request_is_answered_once_by_its_last_report"),
    "IdTable": (HERE, "a_table_finds_every_id"),
    "IdleCache": (STEPS, "what_nobody_takes_for_a_while_is_dropped"),
    "JsonPacker": (STEPS, "a_record_is_packed_where_it_is_read_only_if_it_is_plain"),
    "LaneTable": (STEPS, "lanes_of_cells_are_those_of_the_contract"),
    "Lanes": (STEPS, "what_no_request_can_see_is_forgotten"),
    "Merge": (STEPS, "the_pairs_of_a_request_are_put_in_order"),
    "Offers": ("match/test_stream.py", "offers_are_those_of_all_windows_in_their_order"),
    "Output": (HERE, "an_output_has_two_blocks_for_each_slot"),
    "Pack": (HERE, "rows_become_blocks_and_times_go_to_every_slot"),
    "PackRows": (HERE, "rows_become_blocks_and_times_go_to_every_slot"),
    "Passing": (HERE, "a_dead_letter_is_json_whatever_is_in_it"),
    "Placed": (HERE, "positions_are_in_the_order_of_time_however_they_come"),
    "PlainJson": (PLAIN, "plain_records_come_to_what_spark_makes_of_them"),
    "Plan": ("match/test_stream.py", "all_pairs_are_found_over_batches_and_a_restart"),
    "Position": (HERE, "positions_are_in_the_order_of_time_however_they_come"),
    "RecordPacker": (STEPS, "a_record_is_packed_where_it_is_read_only_if_it_is_plain"),
    "Request": (STEPS, "a_request_is_answered_once_by_its_last_report"),
    "Rules": (STEPS, "lanes_remember_for_requests_that_wait_for_the_end_of_their_window"),
    "Slots": (STEPS, "the_keys_of_slots_are_those_of_lanes"),
    "SourceTimes": (HERE, "times_of_partitions_are_the_same_after_a_snapshot"),
    "SparkColumns": (STEPS, "columns_that_need_more_than_their_row_stay_in_the_plan"),
    "Sphere": (STEPS, "the_distance_is_the_haversine"),
    "Square": (STEPS, "the_poles_and_the_antimeridian_are_searched"),
    "TopicConsumers": (f"{TOPICS}/test_match_stream_kafka.py", "consumers_are_closed_with_the_query"),
    "TopicOffset": (f"{TOPICS}/test_topic_source.py", "offsets_are_read_as_they_were_written"),
    "TopicRange": (f"{TOPICS}/test_topic_source.py", "a_batch_is_planned_from_its_offsets_alone"),
    "TopicReader": (f"{TOPICS}/test_match_stream_topics.py", "transactions_that_were_taken_back"),
    "TopicReaders": (f"{TOPICS}/test_match_stream_topics.py", "transactions_that_were_taken_back"),
    "TopicSource": (f"{TOPICS}/test_topic_source.py", "a_batch_is_planned_from_its_offsets_alone"),
    "TopicStream": (f"{TOPICS}/test_topic_source.py", "a_batch_is_planned_from_its_offsets_alone"),
    "TopicTask": (f"{TOPICS}/test_topic_source.py", "a_batch_is_planned_from_its_offsets_alone"),
}


def test_every_class_of_a_running_match_has_a_test_of_its_own() -> None:
    folders = ("blocks", "h3", "match", "topics")
    assert sorted(TESTS) == sorted(path.stem for folder in folders for path in (SOURCES / folder).rglob("*.java"))
    for name, (file, words) in TESTS.items():
        assert re.search(rf"def test_\w*{words}", (ROOT / "tests" / file).read_text()), name


@pytest.fixture(scope="module")
def steps(spark: SparkSession) -> Steps:
    return Steps(spark)


def call(steps: Steps, of: Any, name: str, *arguments: Any) -> Any:
    """Call a method of a class that only its package sees: of an object, or of a class by its name."""
    static = isinstance(of, str)
    kind = steps.java.loadClass(f"keylane.{of}") if static else of.getClass()
    found = [one for one in kind.getDeclaredMethods() if one.getName() == name]
    (method,) = [one for one in found if one.getParameterCount() == len(arguments)]
    method.setAccessible(True)
    given = steps.gateway.new_array(steps.gateway.jvm.java.lang.Object, len(arguments))
    for at, one in enumerate(arguments):
        given[at] = one
    return method.invoke(None if static else of, given)


def hidden(steps: Steps, name: str, *arguments: Any) -> Any:
    """An object of a class that only its package sees."""
    (maker,) = steps.java.loadClass(f"keylane.{name}").getDeclaredConstructors()
    maker.setAccessible(True)
    given = steps.gateway.new_array(steps.gateway.jvm.java.lang.Object, len(arguments))
    for at, one in enumerate(arguments):
        given[at] = one
    return maker.newInstance(given)


def value(of: Any, name: str) -> Any:
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)


def test_a_block_has_what_was_put_into_it(steps: Steps) -> None:
    block = steps.new("blocks.Block", 1)
    java = steps.gateway.jvm.java.lang
    for number in range(200):
        block.begin(java.Byte(number % 64)).putInt(number).putLong(java.Long(-number)).putDouble(number / 4)
        block.putBytes(bytearray(b"x" * number)).end()
    made = bytes(block.toBytes())
    expected = [Record(n % 64, struct.pack("<iqd", n, -n, n / 4) + b"x" * n) for n in range(200)]
    assert unpacked(made) == expected
    other = steps.new("blocks.Block", 16)
    other.copy(bytearray(made), len(expected[0].packed))
    assert bytes(other.toBytes()) == expected[1].packed
    passing = [call(steps, "blocks.Block", "isPassing", bytearray(Record(kind, b"x").packed)) for kind in (63, 64, 66)]
    assert passing == [False, True, True]
    assert not call(steps, "blocks.Block", "isPassing", bytearray())


def test_a_table_finds_every_id_also_those_with_the_same_hash(steps: Steps) -> None:
    # "Aa" and "BB" have the same hash, and so have all words made of them.
    words = [word.encode() for word in ("".join(pair) for pair in _words(7))]
    table = steps.new("blocks.IdTable")
    hashes = set()
    for number, word in enumerate(words):
        hashed = call(steps, "blocks.IdTable", "hash", bytearray(word), 0, len(word))
        hashes.add(hashed)
        assert table.find(bytearray(word), 0, len(word), hashed) is None
        table.add(steps.new("blocks.IdTable$Item", bytearray(b"<" + word), 1, len(word), hashed))
        assert table.size() == number + 1
    assert len(hashes) == 1
    for word in words:
        assert bytes(value(table.find(bytearray(word), 0, len(word), next(iter(hashes))), "id")) == word
    table.sweep()
    assert table.size() == len(words)
    assert sum(item is not None for item in table.items()) == len(words)


def _words(length: int) -> list[tuple[str, ...]]:
    return [()] if not length else [(one, *rest) for one in ("Aa", "BB") for rest in _words(length - 1)]


def test_an_output_has_two_blocks_for_each_slot(steps: Steps) -> None:
    slots = steps.new("blocks.Slots", 3)
    out = steps.new("blocks.Output", slots)
    out.to(2).begin(5).end()
    out.passingTo(2).begin(65).end()
    out.to(0)
    rows = [(slots.slotOfKey(row._1()), [one.kind for one in unpacked(bytes(row._2()))]) for row in out.rows()]
    assert rows == [(2, [5]), (2, [65])], "nothing is sent to a slot that gets nothing"


def test_the_home_cell_is_that_of_python(steps: Steps) -> None:
    rng = np.random.default_rng(4)
    lat, lng = rng.uniform(-90, 90, 50), rng.uniform(-180, 180, 50)
    lat[:4], lng[:4] = (90, -90, 0, 0), (0, 0, 180, -180)
    cells = cells_of(lat, lng)
    found = [call(steps, "match.Cells", "home", float(a), float(b)) for a, b in zip(lat, lng, strict=True)]
    assert found == cells.astype(np.int64).tolist()


def positions(driver: Any) -> list[tuple[int, int]]:
    """Time and offset of all that is known of a driver, the newest first."""
    found, at = [], value(driver, "newest")
    while at is not None:
        found.append((value(at, "ts"), value(at, "offset")))
        at = value(at, "older")
    return found


def test_positions_are_in_the_order_of_time_however_they_come(steps: Steps) -> None:
    rng = random.Random(8)
    given = [(rng.randrange(20), rng.randrange(3)) for _ in range(60)]
    table = steps.new("blocks.IdTable")
    for ts, offset in given:
        block = bytearray(placed(AVAILABLE, "d", ts, offset, 51.5, -0.12).packed)
        driver = call(steps, "match.Driver", "of", table, block, 0)
        call(steps, driver, "add", hidden(steps, "match.Position", block, 0), None)
    assert positions(driver) == sorted(set(given), reverse=True), "each time and offset once"
    long = steps.gateway.jvm.java.lang.Long
    assert call(steps, driver, "trim", long(10), long(-1), False, None) > 0
    seen = max(one for one in set(given) if one[0] <= 10)
    assert positions(driver) == sorted((one for one in set(given) if one >= seen), reverse=True)


def test_a_dead_letter_is_json_whatever_is_in_it(steps: Steps) -> None:
    for text in [
        "",
        "é",
        "\x00\x1f\x7f",
        '"',
        "\\",
        '\\"',
        "\u2028\ufeff\uffff",
        "😀",
        "</script>",
        "{}",
        "\r\n\t",
        None,
    ]:
        letter = call(steps, "match.Passing", "letter", "riders", text, "malformed-record", text)
        assert json.loads(letter) == {"side": "riders", "source": text, "reason": "malformed-record", "original": text}
    words = ["b", "a", "\uffff", "😀", "", "é"]
    ordered = sorted(words, key=lambda word: word.encode())
    for one, other in itertools.pairwise(ordered):
        assert call(steps, "match.Passing", "order", one, other) < 0 < call(steps, "match.Passing", "order", other, one)


@pytest.mark.parametrize(("source", "kind"), [(0, AVAILABLE), (1, REQUEST)], ids=["drivers", "riders"])
def test_rows_become_blocks_and_times_go_to_every_slot(steps: Steps, source: int, kind: int) -> None:
    clock = 10**15

    def row(who: str | None, ts: int, offset: int, reason: str | None) -> tuple[Any, ...]:
        return (who, ts, offset, 51.5, -0.12, None, reason, "file/1", "text", 3, clock)

    good = [row(f"r{number}", number, number, None) for number in range(20)]
    others = [row("ahead", clock + 2 * 86_400_000_000, 30, None), row(None, 0, 31, "null-key")]
    columns = "id string, ts bigint, offset bigint, lat double, lng double, available boolean, reason string, "
    columns += "source string, original string, part int, clock bigint"
    rows = steps.spark.createDataFrame([*good, *others], columns)._jdf.collectAsList()
    packer = steps.new("match.PackRows", steps.plan.rules, source, False)
    slots = steps.new("blocks.Slots", steps.slots)
    found: dict[int, list[Record]] = {}
    made = packer.call(rows.iterator())
    while made.hasNext():
        one = made.next()
        found.setdefault(slots.slotOfKey(one._1()), []).extend(unpacked(bytes(one._2())))
    records = [one for slot in found.values() for one in slot]
    asked = {slot: [one.who for one in given if one.kind == kind] for slot, given in found.items()}
    assert sorted(who for slot in asked.values() for who in slot) == sorted(f"r{number}" for number in range(20))
    assert all(asked.values()), "ids are divided over the slots"
    reasons = sorted(json.loads(one.text)["reason"] for one in records if one.kind == DEAD)
    assert reasons == ["null-key", "time-ahead"]
    for slot in range(steps.slots):
        (time,) = [one for one in found[slot] if one.kind == TIME]
        assert struct.unpack("<iiqqqq", time.fields) == (source, 3, 19, -1, 22, 1)


def test_times_of_partitions_are_the_same_after_a_snapshot(steps: Steps) -> None:
    def taken(records: list[Record]) -> Any:
        times = steps.new("blocks.SourceTimes")
        for one in records:
            times.take(bytearray(one.packed), 0)
        return times

    def stand(times: Any) -> tuple[Any, ...]:
        return *((times.newest(of), times.held(of), times.unread(of)) for of in (0, 1)), times.unreadByPartition()

    drivers = [time_record(0, 0, 50, 3, 7), time_record(0, 1, 90, 0, 1), time_record(0, 0, 60, SAME)]
    times = taken([*drivers, time_record(1, 1, 5, 2)])
    assert stand(times) == ((90, 60, 3), (5, 5, 2), '{"0":3,"1":2}')
    block = steps.new("blocks.Block", 16)
    times.snapshot(block)
    again = taken(unpacked(bytes(block.toBytes())))
    assert stand(again) == stand(times)
    assert stand(steps.new("blocks.SourceTimes")) == ((-(2**62), -(2**62), -1),) * 2 + ("null",)

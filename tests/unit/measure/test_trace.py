from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from keylane.keys.times import TimeField
from keylane.measure.identify import Identification, Writer, identify
from keylane.measure.rules import Rule, named, rules_for
from keylane.measure.trace import BY_HAND, fixes, growth, trace, ways_to_agree
from keylane.placement.partitioners import partitioner

JAVA, CRC = "kafka-java", "librdkafka-consistent-random"
KEYS = [f"m-{n}" for n in range(2_000)]


def lane(name: str, key: str, lanes: int = 12) -> int:
    found = partitioner(name).lane(key.encode(), lanes)
    assert found is not None
    return found


def rule(name: str, form: str = "utf8") -> Rule:
    keys = pa.array(["a"]) if form == "utf8" else pa.array([1])
    return next(one for one in rules_for(keys) if name in named(one) and one.form == form)


def writer(name: str, share: float, form: str = "utf8") -> Writer:
    return Writer(name, share, form, rule=rule(name, form))


def batches(lanes: list[int], size: int = 300, **more: pa.Array) -> list[pa.RecordBatch]:
    whole = pa.record_batch({"key": pa.array(KEYS), "lane": pa.array(lanes, pa.int32()), **more})
    return [whole.slice(at, size) for at in range(0, len(KEYS), size)]


#: The second writer from row 1,201 on, every third row.
MIXED = [lane(CRC if n >= 1_200 and n % 3 == 0 else JAVA, key) for n, key in enumerate(KEYS)]


def test_a_second_writer_is_there_since_its_first_record() -> None:
    found = identify(batches(MIXED), 12)
    java, crc = trace(batches(MIXED), found)
    first = next(n for n in range(1_200, 2_000) if n % 3 == 0 and lane(CRC, KEYS[n]) != lane(JAVA, KEYS[n]))
    assert (java.first, crc.first, crc.to_the_end) == (1, first + 1, True)
    assert not java.examples
    for one in crc.examples:
        assert (one.lane, one.expected) == (lane(CRC, one.key), lane(JAVA, one.key))
        assert KEYS[one.row - 1] == one.key
    assert len(crc.examples) == 3


def test_examples_are_of_three_keys_where_one_is_heavy() -> None:
    """Every other record of the second writer is of one key, and the first ones all are."""
    heavy = next(key for key in KEYS if lane(CRC, key) != lane(JAVA, key))
    keys = [heavy if n >= 1_200 and (n < 1_500 or n % 2) else key for n, key in enumerate(KEYS)]
    lanes = [lane(CRC if n >= 1_200 else JAVA, key) for n, key in enumerate(keys)]
    whole = pa.record_batch({"key": pa.array(keys), "lane": pa.array(lanes, pa.int32())})
    found = identify([whole], 12)
    examples = [one.key for one in trace([whole], found)[1].examples]
    assert (examples[0], len(set(examples))) == (heavy, 3)


def test_times_come_before_rows_and_a_record_without_one_says_nothing() -> None:
    micros = np.arange(2_000)[::-1] * 1_000_000 + 1_763_000_000_000_000
    times = pa.array([None if n % 2 else int(at) for n, at in enumerate(micros)], pa.timestamp("us", "UTC"))
    found = identify(batches(MIXED), 12)
    _, crc = trace(batches(MIXED, time=times), found, time=TimeField("time"))
    wrote = [n for n in range(1_200, 2_000, 3) if lane(CRC, KEYS[n]) != lane(JAVA, KEYS[n]) and n % 2 == 0]
    assert (crc.first, crc.last) == (int(micros[wrote[-1]]), int(micros[wrote[0]]))


def test_rows_that_fit_a_writer_by_chance_do_not_date_it() -> None:
    """A few hundred rows of no rule before the second writer: about one in twelve of them looks like its own."""
    random = np.random.default_rng(7)
    lanes = [int(random.integers(12)) if n < 600 and n % 2 else at for n, at in enumerate(MIXED)]
    found = Identification(
        "mixed", (writer(JAVA, 0.7), writer(CRC, 0.15), Writer(None, 0.15)), 12, "given", 0, 0, 0, 0, 0, 0
    )
    traces = trace(batches(lanes), found)
    assert traces[1].first is None or traces[1].first > 1_200
    by_chance = [n for n in range(1, 600, 2) if lanes[n] == lane(CRC, KEYS[n]) != lane(JAVA, KEYS[n])]
    assert by_chance, "the twin: the first row that looks like the writer's is none of its own"


def test_one_writer_has_nothing_to_trace() -> None:
    lanes = [lane(JAVA, key) for key in KEYS]
    assert trace(batches(lanes), identify(batches(lanes), 12)) == ()


def test_writers_before_a_growth_do_not_lead() -> None:
    lanes = [lane(JAVA, key, 12 if n < 1_500 else 24) for n, key in enumerate(KEYS)]
    found = identify(batches(lanes))
    assert [writer.lanes for writer in found.writers] == [12, None]
    assert found.leading == 1
    old, now = trace(batches(lanes), found)
    assert old.first is not None
    assert now.first is not None
    assert old.last is not None
    assert old.last <= 1_500 < now.first
    assert ways_to_agree(found, (old, now))[0] == (), "it ended before the growth: there is nothing to change"
    before, after, first = growth(found, (old, now)) or (None, None, None)
    assert (before, after, first) == (found.writers[0], found.writers[1], now.first)
    (fix,) = ways_to_agree(found)[0]
    assert fix.setting is None
    assert "if it still writes" in fix.action


def test_a_producer_that_still_has_the_old_count_is_no_growth() -> None:
    lanes = [lane(JAVA, key, 24 if n % 4 else 12) for n, key in enumerate(KEYS)]
    found = identify(batches(lanes))
    traces = trace(batches(lanes), found)
    assert {one.lanes for one in found.writers} == {12, None}
    assert growth(found, traces) is None
    assert any(fixes for fixes in ways_to_agree(found, traces))


@pytest.mark.parametrize(
    ("wrote", "wanted", "client", "setting"),
    [
        (CRC, JAVA, "librdkafka", "partitioner=murmur2_random"),
        ("sarama-hash", JAVA, "sarama", "Producer.Partitioner = sarama.NewMurmur2Partitioner"),
        ("kafkajs-1", JAVA, "kafkajs 1.x", "createPartitioner: Partitioners.JavaCompatiblePartitioner"),
        (JAVA, CRC, "Java, kafka-python, aiokafka, franz-go", None),
    ],
)
def test_the_setting_is_the_one_that_fixes_it(wrote: str, wanted: str, client: str, setting: str | None) -> None:
    found = fixes(writer(wrote, 0.1), writer(wanted, 0.9), 12)
    assert [(one.client, one.setting) for one in found] == [(client, setting)]
    assert found[0].action == (f"set {setting}" if setting else BY_HAND)


def test_the_same_rule_over_other_bytes_is_a_matter_of_the_bytes() -> None:
    (fix,) = fixes(writer(JAVA, 0.1), writer(JAVA, 0.9, "int64be"), 12)
    assert fix.action == "write the key as int64be, not as utf8"

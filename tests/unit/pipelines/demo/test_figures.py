"""Counts become figures: fullness by half day, hot keys, drift; each against a case small enough to reckon by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from aiokafka.partitioner import murmur2

from keylane.documents.demo import LaneDrift, Parted
from keylane.pipelines.demo import figures
from keylane.pipelines.demo.contracts import rides_choices
from keylane.pipelines.demo.figures import BUCKETS, NOON, KeyCounts, LaneCounts
from keylane.pipelines.demo.traffic import all_merchants

#: Keys of 200,000 that change lane under Kafka's murmur2.
MOVED = {
    (6, 8): 149_868,
    (10, 11): 181_955,
    (12, 18): 133_208,
    (12, 24): 99_795,
    (50, 60): 166_506,
    (64, 65): 196_978,
    (64, 96): 133_533,
    (64, 128): 99_913,
}


def test_a_trial_distinguishes_morning_from_afternoon_and_the_idle_from_the_fullest() -> None:
    cells = np.zeros((4, BUCKETS), int)
    cells[0, 0], cells[1, 0], cells[2, NOON] = 3, 1, 4
    found = figures.trial(rides_choices()[0], LaneCounts(cells, 2, 5), [], Parted(groups=3, parted=1), None)
    assert (found.before_noon, found.after_noon, found.max_over_mean) == (3, 4, 2)
    assert (found.fullest_lane, found.fullest_share, found.idle_lanes) == (2, 0.4, 1)
    assert (found.records, found.unplaced, found.moved) == (10, 2, 0.5)
    assert found.fullest_half_hour == 4 * BUCKETS * 4 / 8


def test_hot_keys_are_the_heaviest_first_with_their_part_of_a_lane() -> None:
    counts = KeyCounts(["a", "b", "c"], np.array([1, 6, 3]), np.array([0, 6, 3]))
    assert counts.heaviest(2) == ["b", "c"]
    assert counts.of_morning == {"b": 6, "c": 3}
    found = figures.hot_keys(counts, 5, {"c": [1], "b": [2]}, {"c": [1], "b": [2, 3]})
    assert [(hot.key, hot.share, hot.mean_lanes, hot.after) for hot in found] == [
        ("b", 0.6, 3.0, [2, 3]),
        ("c", 0.3, 1.5, [1]),
    ]


def test_keys_of_equal_weight_have_one_order() -> None:
    assert KeyCounts(["b", "a"], np.array([1, 1]), np.array([1, 1])).heaviest(2) == ["a", "b"]


@pytest.mark.slow
def test_drift_of_two_hundred_thousand_merchants_is_what_another_murmur2_says() -> None:
    """aiokafka's own murmur2, key by key: no line of it is keylane's."""
    keys = all_merchants(200_000).to_pylist()
    hashes = np.array([murmur2(key.encode()) & 0x7FFFFFFF for key in keys])
    found = figures.drift(keys, np.ones(len(keys), int))
    assert [row.moved for row in found] == [int((hashes % row.old != hashes % row.new).sum()) for row in found]
    assert [row.keys for row in found] == [round(row.moved / 200_000, 5) for row in found]
    assert all(row.records == row.keys for row in found)


def test_the_drift_table_s_numbers() -> None:
    """Written down, so that neither the keys nor the table change unnoticed."""
    keys = all_merchants(200_000).to_pylist()
    found = {(row.old, row.new): row for row in figures.drift(keys, np.ones(len(keys), int))}
    assert {change: row.moved for change, row in found.items()} == MOVED
    assert found[64, 65].formula == pytest.approx(64 / 65, abs=5e-6)
    assert found[64, 65].expected == pytest.approx(1 / 65, abs=5e-6)
    assert [row.formula for row in found.values()] == pytest.approx(
        [3 / 4, 10 / 11, 2 / 3, 1 / 2, 5 / 6, 64 / 65, 2 / 3, 1 / 2], abs=5e-6
    )
    assert [row.expected for row in found.values()] == pytest.approx(
        [1 / 4, 1 / 11, 1 / 3, 1 / 2, 1 / 6, 1 / 65, 1 / 3, 1 / 2], abs=5e-6
    )
    assert all(abs(row.keys - row.formula) < 0.0025 for row in found.values())


def test_records_that_move_follow_the_weight_of_their_keys() -> None:
    rows = figures.drift(["merchant_000000", "merchant_000001"], np.array([1, 0]))
    assert {row.records for row in rows} <= {0.0, 1.0}


def test_a_document_is_plain_and_short() -> None:
    drift = LaneDrift(old=6, new=8, expected=0.25, formula=2 / 3, moved=12, keys=0.123456789, records=0.5)
    assert json.loads(json.dumps(drift.as_json()))["keys"] == 0.12346

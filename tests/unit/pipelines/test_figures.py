"""Counts become figures: fullness by half day, hot keys, drift; each against a case small enough to reckon by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keylane.pipelines.demo import figures
from keylane.pipelines.demo.choose import rides_choices
from keylane.pipelines.demo.tally import BUCKETS, NOON, KeyCounts, LaneCounts, Parted
from keylane.pipelines.demo.traffic import all_merchants


def test_max_over_mean() -> None:
    assert figures.max_over_mean(np.array([[3, 3], [1, 1]])) == 1.5
    assert figures.max_over_mean(np.zeros((2, 2), int)) == 0


def test_a_trial_tells_morning_from_afternoon_and_the_idle_from_the_fullest() -> None:
    cells = np.zeros((4, BUCKETS), int)
    cells[0, 0], cells[1, 0], cells[2, NOON] = 3, 1, 4
    found = figures.trial(rides_choices()[0], LaneCounts(cells, 2, 5), [], Parted(3, 1), None)
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


def test_drift_of_two_hundred_thousand_merchants_is_the_formula_within_a_quarter_point() -> None:
    keys = all_merchants(200_000).to_pylist()
    found = figures.drift(keys, np.ones(len(keys), int))
    assert [(row.old, row.new) for row in found] == [(12, 24), (12, 18), (6, 8), (10, 11), (50, 60), (64, 96)]
    assert [row.formula for row in found] == pytest.approx([1 / 2, 2 / 3, 3 / 4, 10 / 11, 5 / 6, 2 / 3])
    assert all(abs(row.keys - row.formula) < 0.0025 for row in found)
    assert all(row.records == row.keys for row in found)


def test_records_that_move_follow_the_weight_of_their_keys() -> None:
    rows = figures.drift(["merchant_000000", "merchant_000001"], np.array([1, 0]))
    assert {row.records for row in rows} <= {0.0, 1.0}


def test_a_document_is_plain_and_short() -> None:
    drift = figures.Drift(6, 8, 2 / 3, 0.123456789, 0.5)
    assert json.loads(json.dumps(figures.as_document(drift)))["keys"] == 0.12346

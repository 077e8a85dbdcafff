"""The lesson's pure parts: drivers, their cells, thresholds, and the line that says why."""

from __future__ import annotations

from dataclasses import replace
from math import asin, cos, radians, sin, sqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pytest

from keylane import Router, parse_contract
from keylane.measure.balance import cv
from keylane.pipelines.demo import lesson
from keylane.pipelines.demo.lesson import CENTRES, RULES, LessonSettings, Traffic, contract_text, lane_counts, updates
from keylane.systems.kafka.load import MeasuredGroup, Sent

if TYPE_CHECKING:
    from keylane.documents.lesson import LessonTrial


def km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The way over the globe."""
    (a, b), (c, d) = map(radians, one), map(radians, other)
    return 2 * 6371 * asin(sqrt(sin((c - a) / 2) ** 2 + cos(a) * cos(c) * sin((d - b) / 2) ** 2))


def farthest(traffic: Traffic) -> float:
    middle = {centre.name: (centre.latitude, centre.longitude) for centre in CENTRES}
    rows = updates(np.random.default_rng(1), traffic).to_pylist()
    return max(km((row["latitude"], row["longitude"]), middle[row["city"]]) for row in rows)


def test_the_lessons_traffic_is_six_thousand_updates_from_six_cells() -> None:
    made = updates(np.random.default_rng(2026), Traffic())
    assert len(made) == 6_000
    assert pc.count_distinct(made["cell"]).as_py() == 6
    assert made["driver"].value_counts().field("counts").to_pylist() == [60] * 100


def test_the_same_seed_is_the_same_traffic_and_another_is_not() -> None:
    one, same, other = (updates(np.random.default_rng(seed), Traffic()) for seed in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)


def test_drivers_stay_within_their_radius_and_use_it() -> None:
    assert 1.8 < farthest(Traffic()) < 2.01
    assert 28 < farthest(Traffic(radius_km=30)) < 30.3


def test_drivers_move() -> None:
    made = updates(np.random.default_rng(1), Traffic(drivers=1))
    assert pc.count_distinct(made["latitude"]).as_py() == 60


def test_far_from_the_centres_there_are_more_cells_than_cities() -> None:
    """The twin of six cells: it is the radius that makes it six."""
    made = updates(np.random.default_rng(1), Traffic(radius_km=20))
    assert pc.count_distinct(made["cell"]).as_py() > 6


def abs_long_hashcode(cell: int, lanes: int) -> int:
    """Java's, written out."""
    code = (cell ^ (cell >> 32)) & 0xFFFF_FFFF
    return abs(code - (1 << 32) if code >> 31 else code) % lanes


def test_the_formula_is_javas_and_reaches_four_of_sixty_lanes() -> None:
    made = updates(np.random.default_rng(2026), Traffic())
    found = lane_counts(Router(parse_contract(contract_text(RULES[0], LessonSettings("t")))), made)
    wanted = np.bincount([abs_long_hashcode(cell, 60) for cell in made["cell"].to_pylist()], minlength=60)
    assert found.tolist() == wanted.tolist()
    assert np.count_nonzero(found) == 4
    assert cv(found) == pytest.approx(4.3594, abs=1e-4)


def test_the_two_rules_do_not_agree() -> None:
    made = updates(np.random.default_rng(2026), Traffic())
    one, other = (lane_counts(Router(parse_contract(contract_text(rule, LessonSettings("t")))), made) for rule in RULES)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, []),
        ({"spread": 0.05}, ["cv"]),
        ({"errors": 1e-4}, ["error_rate"]),
        ({"batch": 16_384.0}, ["mean_batch_bytes"]),
        ({"batch": None}, ["mean_batch_bytes"]),
        ({"lag": 500}, ["peak_lag"]),
        ({"end": 500}, ["end_lag"]),
    ],
    ids=str,
)
def test_a_threshold_is_kept_or_broken_by_its_own_figure(change: dict[str, float], broken: list[str]) -> None:
    kept = {"spread": 0.049, "errors": 0.0, "batch": 16_385.0, "lag": 499, "end": 0}
    found = lesson.checks(**{**kept, **change})  # type: ignore[arg-type]  # what a check takes, by name
    assert [check.measure for check in found if not check.kept] == broken


def test_why_names_cells_lanes_and_the_floor() -> None:
    assert "6 of 60 lanes" in lesson.why([1000] * 6, 60)
    assert "at least 87%" in lesson.why([10, 1, 1, 1, 1, 2], 4)


def test_why_does_not_claim_what_is_not_so() -> None:
    assert "No hash can" not in lesson.why([100] * 60, 60)
    assert "would be luck" in lesson.why([1] * 6_000, 60)


def test_records_for_cv_is_the_first_count_that_is_enough() -> None:
    from keylane.measure.balance import noise_floor

    for lanes in (2, 60, 64):
        enough = lesson.records_for_cv(lanes)
        assert noise_floor(lanes, enough) < 0.05 <= noise_floor(lanes, enough - 1) + 1e-12


def seen(read: list[int], sent: Sent) -> LessonTrial:
    group = MeasuredGroup("t", len(read))
    group.read[:], group.peak[1], group.end[2], group.samples = read, 7, 3, 5
    return lesson.trial(RULES[0], sent, group)


def test_a_trial_adds_up() -> None:
    found = seen([6, 0, 2, 0], Sent("t", delivered=8, batches=2, batch_bytes=900, batch_records=8))
    assert (found.active_lanes, found.max_over_mean, found.fullest_lane, found.read) == (2, 3.0, 0, 8)
    assert (found.mean_batch_bytes, found.mean_batch_records) == (450, 4)
    assert (found.peak_lag, found.peak_lag_lane, found.end_lag) == (7, 1, 3)
    assert found.error_rate == 0


def test_failed_records_are_a_rate() -> None:
    found = seen([3, 0, 0, 0], Sent("t", delivered=3, failed=1, batches=1, batch_bytes=9, batch_records=3))
    assert found.error_rate == 0.25
    assert not found.checks[1].kept


def test_statistics_that_miss_a_batch_are_no_measurement() -> None:
    whole = Sent("t", delivered=8, batches=2, batch_bytes=900, batch_records=8)
    missed = replace(whole, batches=1, batch_bytes=450, batch_records=4)
    assert seen([8, 0, 0], whole).mean_batch_bytes == 450
    assert seen([8, 0, 0], missed).mean_batch_bytes is None


def test_windows_of_statistics_add_up_for_their_own_topic_only() -> None:
    from json import dumps

    sent = Sent("t")
    for topic in ("t", "other", "t"):
        sent.counted(dumps({"topics": {topic: {"batchsize": {"cnt": 2, "sum": 100}, "batchcnt": {"sum": 7}}}}))
    sent.counted("{}")
    assert (sent.batches, sent.batch_bytes, sent.batch_records) == (4, 200, 14)

"""A lane table from counted places: the tau that is taken, the score on the other half, the document, the contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.plan.counted_cells import CITIES, traffic

from keylane import parse_contract
from keylane.contract.lane_table import leaves_checksum
from keylane.geo.bits import ancestor
from keylane.geo.cells import cells_of
from keylane.geo.lane_tables import in_curve_order
from keylane.measure.balance import cv, noise_floor
from keylane.placement.cell_lanes import cell_lanes
from keylane.plan.contract_text import geo_contract_text
from keylane.plan.geo_document import geo_document, text_of
from keylane.plan.lane_tables import (
    LADDER,
    Counted,
    FittedTable,
    TableScore,
    Wish,
    chosen,
    fitted,
    hashed,
    lane_sums,
    missed,
    scored,
)


def document(counted: Counted, wish: Wish, **more: Any) -> dict[str, Any]:
    table, held, met = chosen(counted, wish)
    return geo_document("SRC", counted, {}, table, held, met=met, **more).as_json()


def written(table: FittedTable, *arguments: Any, **more: Any) -> str:
    return geo_contract_text(text_of(table), table.wish, *arguments, **more)


def test_a_table_is_even_on_records_that_it_has_not_seen_and_a_hash_is_not() -> None:
    counted = traffic()
    table, held, met = chosen(counted, Wish(12))
    assert met
    assert held is not None
    assert held.cv < 2 * held.noise_floor
    assert hashed("kafka-java", 3, 12, counted.cells, counted.test).cv > 10 * held.cv
    assert scored(table.lanes, counted.cells, counted.all).cv < held.cv


def test_the_largest_tau_that_meets_the_goal_is_taken() -> None:
    counted = traffic()
    table = chosen(counted, Wish(12))[0]
    larger = [tau for tau in LADDER if tau > table.tau]
    for tau in larger:
        assert not chosen(counted, Wish(12, tau=tau))[2], f"{tau} would have done"
    assert chosen(counted, Wish(12, tau=0.07))[0].tau == 0.07


def test_a_table_fitted_on_noise_is_not_called_good() -> None:
    """A planted bug: scored on what it was fitted on, a table looks better than chance allows."""
    counted = traffic()
    own = scored(fitted(counted.cells, counted.fit, Wish(12), 0.3).lanes, counted.cells, counted.fit)
    held = chosen(counted, Wish(12, tau=0.3))[1]
    assert held is not None
    assert own.cv < 0.5 * held.cv


def test_the_score_is_that_of_the_lanes() -> None:
    counted = traffic()
    lanes = fitted(counted.cells, counted.fit, Wish(5), 0.5).lanes
    sums = lane_sums(lanes, counted.cells, counted.test)
    score = scored(lanes, counted.cells, counted.test)
    assert sums.sum() == counted.test.sum()
    assert score.cv == cv(sums.sum(1))
    assert score.worst_hour_cv == max(cv(sums[:, hour]) for hour in range(24) if sums[:, hour].any())
    assert score.noise_floor == noise_floor(5, int(counted.test.sum()))


def test_a_held_out_table_has_the_noise_of_both_halves() -> None:
    counted = traffic()
    held = chosen(counted, Wish(5))[1]
    assert held is not None
    halves = (counted.fit.sum(), counted.test.sum())
    assert held.noise_floor == pytest.approx(np.sqrt(4 * sum(1 / half for half in halves)), rel=1e-3)


def test_a_table_of_six_cells_on_sixty_lanes_states_what_is_possible() -> None:
    cells = cells_of(*np.array(CITIES[:6]).T)
    homes, load = in_curve_order(cells, np.full((6, 24), 10.0))
    found = document(Counted(homes, load, load), Wish(60))
    assert found["balance"]["least_cv"] == 3.0
    assert found["balance"]["cv"] == 3.0
    assert any("6 cells cannot fill 60 lanes" in note and "300.0% at best" in note for note in found["notes"])


def test_one_home_cell_above_a_lanes_share_is_reported() -> None:
    counted = traffic()
    heavy = counted.fit.copy()
    heavy[0] += heavy.sum()
    found = document(replace(counted, fit=heavy), Wish(12))
    assert any("home cells 1 is" in note for note in found["notes"])
    assert not any("home cells" in note for note in document(counted, Wish(12))["notes"])


def test_a_sticky_change_keeps_most_and_unchanged_traffic_keeps_all() -> None:
    old = chosen(traffic(), Wish(12))[0]
    same = fitted(traffic().cells, traffic().all, Wish(12, old=old.lanes), old.tau)
    assert same.moved is not None
    assert same.moved.leaves == 0
    assert same.leaves.cells.tolist() == old.leaves.cells.tolist()
    grown = traffic(seed=5, shift=0.5)
    before = scored(old.lanes, grown.cells, grown.all)
    changed = fitted(grown.cells, grown.all, Wish(12, old=old.lanes, most_moved=0.2), old.tau)
    assert changed.moved is not None
    assert 0 < changed.moved.share <= 0.2
    assert scored(changed.lanes, grown.cells, grown.all).cv < 0.5 * before.cv


def test_what_a_sticky_change_says_it_moves_is_what_moves() -> None:
    old, grown = chosen(traffic(), Wish(12))[0], traffic(seed=5, shift=0.5)
    changed = fitted(grown.cells, grown.all, Wish(12, old=old.lanes), old.tau)
    assert changed.moved is not None
    other = changed.lanes.of(grown.cells) != old.lanes.of(grown.cells)
    assert grown.all[other].sum() / grown.all.sum() == pytest.approx(changed.moved.share)


def test_places_without_a_time_have_no_hours() -> None:
    counted = traffic()
    flat = Counted(counted.cells, *(half.sum(1, keepdims=True) for half in (counted.fit, counted.test)))
    found = document(flat, Wish(6), timed=False)
    assert found["hours"] is None
    assert found["balance"]["worst_hour_cv"] is None
    assert {cell["hour"] for cell in found["cells"]} == {None}


def test_the_document_adds_up() -> None:
    counted = traffic()
    found = document(counted, Wish(7), radii=(500.0,))
    assert found["records"] == sum(found["lane_loads"]) == sum(cell["records"] for cell in found["cells"]) == 30_000
    assert np.sum(found["hours"], axis=1).tolist() == found["lane_loads"]
    assert found["leaves"] == len(found["cells"])
    by_lane = [0] * 7
    for cell in found["cells"]:
        by_lane[cell["lane"]] += cell["records"]
    assert by_lane == found["lane_loads"]
    assert 1.0 <= found["copies_per_rider"]["500"] < 2.0
    assert [one["strategy"] for one in found["beside"]][-3:] == ["abs-long-hashcode", "curve", "regions"]


def test_the_contract_places_as_the_table_does() -> None:
    counted = traffic()
    table = chosen(counted, Wish(12))[0]
    contract = parse_contract(written(table, ("lat", "lng")))
    assert contract.spec.geo is not None
    assert contract.spec.geo.checksum == leaves_checksum(contract.spec.geo.leaves)
    around = cells_of(*(np.array(CITIES * 40) + np.random.default_rng(3).normal(0, 2, (len(CITIES) * 40, 2))).T)
    asked = np.concatenate([counted.cells, around])
    assert cell_lanes(contract, 12).of(asked).tolist() == table.lanes.of(asked).tolist()


def test_a_contract_keeps_what_it_was_and_has_the_next_epoch() -> None:
    counted = traffic()
    first = written(chosen(counted, Wish(12))[0], ("y", "x"), name="cabs", streams=("pings",))
    before = parse_contract(
        first.replace('"epoch": 1', '"epoch": 4, "owner": "dispatch \\u0007"').replace(
            "    resolution: 3", "    resolution: 3\n    region: [-80, -180, 80, 180]"
        )
        + "  expect: {max_over_mean: 1.5}\n"
    )
    table = chosen(traffic(seed=7), Wish(12, old=cell_lanes(before, 12)))[0]
    after = parse_contract(written(table, ("y", "x"), before))
    assert (after.metadata.name, after.metadata.epoch, after.metadata.owner) == ("cabs", 5, "dispatch \u0007")
    assert (after.spec.streams, after.spec.key, after.spec.expect) == (
        before.spec.streams,
        before.spec.key,
        before.spec.expect,
    )
    assert after.spec.geo is not None
    assert after.spec.geo.region == (-80, -180, 80, 180)


def test_ranges_of_the_curve_are_whole() -> None:
    table = chosen(traffic(), Wish(6, "curve"))[0]
    assert (np.diff(table.lane) >= 0).all()


def test_a_hash_is_of_the_ancestors() -> None:
    counted = traffic()
    parents = ancestor(counted.cells, 4)
    found = hashed("kafka-java", 4, 6, counted.cells, counted.all)
    by_parent = {int(parent): counted.all[parents == parent].sum() for parent in np.unique(parents)}
    from keylane.placement.partitioners import partitioner

    sums = np.zeros(6)
    for parent, load in by_parent.items():
        sums[partitioner("kafka-java").lane(parent.to_bytes(8, "big"), 6) or 0] += load
    assert isinstance(found, TableScore)
    assert found.cv == pytest.approx(cv(sums))


def test_where_one_half_is_empty_nothing_is_called_even() -> None:
    """One record: a score of the half without any would be a CV of 0, and a goal that is met."""
    cell = cells_of([40.7], [-74.0])
    one, none = np.ones((1, 1)), np.zeros((1, 1))
    for halves in ((one, none), (none, one)):
        found = document(Counted(cell, *halves), Wish(6), timed=False)
        assert found["balance"]["held_out"] is None
        assert found["balance"]["cv"] == found["beside"][0]["cv"] > 2
        assert any("too few records" in note for note in found["notes"])
        assert any(note.startswith("1 cell cannot fill 6 lanes") for note in found["notes"])


def test_the_hour_that_misses_its_goal_is_named_and_not_the_one_that_has_few_records() -> None:
    quiet, busy = (0.456, 0.408), (0.2, 0.05)
    score = TableScore(0.01, quiet[0], 1.1, 0.02, quiet[1], (quiet, busy))
    (found,) = missed(score, Wish(60))
    assert (found.what, found.cv, found.noise_floor) == ("CV of an hour", *busy)
    assert found.goal == pytest.approx(0.05 * (1 + 3 / np.sqrt(118)))
    assert missed(score, Wish(60, "curve")) == []
    assert [one.what for one in missed(replace(score, cv=0.5), Wish(60))] == ["CV", "CV of an hour"]


def test_many_lanes_for_one_city_are_called_dear() -> None:
    rng = np.random.default_rng(3)
    homes, both = in_curve_order(
        cells_of(*(np.array([(40.7, -74.0)]) + rng.normal(0, 0.02, (4_000, 2))).T), np.ones((4_000, 1))
    )
    counted = Counted(homes, both, both)
    (note,) = [note for note in document(counted, Wish(60), timed=False)["notes"] if "--radius 1000" in note]
    assert note.startswith("matched within 1,000 m, a request would go to ")
    decided = document(counted, Wish(60, radius=1000.0), radii=(1000.0,), timed=False)["notes"]
    assert any("fewer lanes or a smaller radius help" in note for note in decided)
    cheap = document(traffic(), Wish(7, radius=500.0), radii=(500.0,))["notes"]
    assert not any("radius" in note for note in cheap)


def test_a_change_that_was_held_back_says_by_what() -> None:
    old, grown = chosen(traffic(), Wish(12))[0], traffic(seed=5, shift=0.9)
    held = document(grown, Wish(12, old=old.lanes, most_moved=0.01))["notes"]
    assert any("1.0% of the load" in note for note in held)
    free = document(grown, Wish(12, old=old.lanes, most_moved=1.0))["notes"]
    assert not any("may change lane" in note for note in free)

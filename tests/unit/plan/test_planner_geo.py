"""Plans for keys that are places: lanes of cells, contracts that say them, and what so few cells can and cannot do."""

from __future__ import annotations

import re
from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.plan.cell_profiles import HOUR, SIX, cities, of_cells, six_cells
from tests.unit.plan.conftest import drawn, made

from keylane.batch_router import decide
from keylane.contract.model import Contract, Key
from keylane.contract.parse import parse_contract
from keylane.errors import ContractError, UsageError
from keylane.geo.bits import ancestor, middle
from keylane.geo.cells import cells_of
from keylane.measure.balance import cv, max_over_mean
from keylane.plan.bounds import possible
from keylane.plan.choose import Constraints
from keylane.plan.contract_text import Means
from keylane.plan.current import today_of
from keylane.plan.document import document
from keylane.plan.hashed_keys import ProfiledStream, hours_of, moved_loads
from keylane.plan.planner import Plan, Question, heat_under, make_plan, plainly_hashed
from keylane.plan.reasons import notes
from keylane.profile.document import overview
from keylane.profile.model import Profile, Windows
from keylane.router import Router

if TYPE_CHECKING:
    from keylane.documents.plan import PlanDocument


def planned(profile: Profile, *lanes: int, today: Contract | None = None, **more: Any) -> Plan:
    return make_plan(profile, Question(lanes or (60,), Means("pings", ("pings",), today=today), **more))


def printed(plan: Plan, *, show_keys: bool) -> PlanDocument:
    profile = replace(plan.stream.profile, fingerprint="0" * 64)
    return document(plan, overview(profile, salt=b"salt"), show_keys=show_keys)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(cities(0.02))


def test_places_have_strategies_of_their_own_and_the_others_are_left_out_with_a_reason(plan: Plan) -> None:
    assert {one.candidate.strategy for one in plan.judged} == {"geo-hash", "geo-table", "geo-curve"}
    told = " ".join(notes(plan, show_keys=False))
    assert "geo-regions: compact regions are made for a radius; hint: --radius M" in told
    assert "pin, table, tier" in told
    assert "keyless:" in told
    others = planned(made(drawn(200, 4_000)), 8)
    assert "geo-table" not in {one.candidate.strategy for one in others.judged}
    assert others.stream.places is None
    assert printed(others, show_keys=False).geo is None


def test_hashed_are_resolutions_that_differ(plan: Plan) -> None:
    found = [
        one.candidate.by_place.resolution for one in plan.judged if one.candidate.by_place and not one.candidate.listed
    ]
    assert found == sorted(set(found)) == [3, 4, 5, 6, 7]
    few = planned(six_cells())
    assert few.judged[0].candidate.title == "cells of resolution 3 hashed"
    assert sum(one.candidate.strategy == "geo-hash" for one in few.judged) == 1


def test_the_table_is_more_even_than_any_hash_and_is_taken(plan: Plan) -> None:
    scores = {one.candidate.title: one.candidate.deciding for one in plan.judged}
    hashed = [value for title, value in scores.items() if title.endswith("hashed")]
    assert plan.choice.chosen.candidate.strategy == "geo-table"
    assert plan.choice.chosen.candidate.deciding > max(hashed)
    assert plan.choice.chosen.order_scope == "per-key"


def test_the_contract_places_every_home_cell_where_the_plan_has_counted_it(plan: Plan) -> None:
    """By the router, from the text that is written; the twin with one leaf moved by hand is refused."""
    assert plan.contract.spec.key.fields == ("lat", "lng")
    assert plan.contract.spec.key.is_place
    geo = plan.contract.spec.geo
    assert geo is not None
    assert geo.checksum
    spec = plan.contract.spec.model_copy(update={"key": plan.stream.profile.key})
    router = Router(plan.contract.model_copy(update={"spec": spec}))
    lanes = decide(router, plan.stream.profile.keys).lane
    chosen = plan.choice.chosen.candidate
    assert (np.asarray(lanes) == chosen.home(plan.stream)).all()
    loads = np.bincount(lanes, plan.stream.records, minlength=60)
    assert np.allclose(loads, chosen.loads.sum(axis=1))
    word = geo.leaves[0].split()[0]
    with pytest.raises(ContractError, match="checksum"):
        parse_contract(plan.text.replace(word, "", 1), "pings")


def test_where_a_hash_is_even_enough_no_table_is_written() -> None:
    """Places all over the world, none heavy: the coarsest hash that is nearly as even as the best is taken."""
    rng = np.random.default_rng(5)
    cells = np.unique(cells_of(rng.uniform(-60, 60, 20_000), rng.uniform(-180, 180, 20_000)))
    plan = planned(of_cells(cells, np.full((len(cells), 4), 2)), 8)
    chosen, geo = plan.choice.chosen.candidate, plan.contract.spec.geo
    assert (chosen.strategy, chosen.listed) == ("geo-hash", 0)
    assert geo is not None
    assert (geo.resolution, geo.leaves, "leaves" in plan.text) == (
        chosen.by_place and chosen.by_place.resolution,
        (),
        False,
    )
    lanes = decide(Router(plan.contract), plan.stream.profile.keys).lane
    assert (np.asarray(lanes) == chosen.home(plan.stream)).all()


def test_cells_that_were_counted_as_such_stay_the_key_of_the_contract() -> None:
    profile = replace(cities(0.02, 6_000), facts=())
    plan = planned(profile, 12)
    assert (plan.contract.spec.key.fields, plan.contract.spec.key.encodings) == (("cell",), ("h3",))


def test_a_plan_of_six_cells_on_sixty_lanes_states_what_is_possible_and_what_is_not() -> None:
    told = notes(planned(six_cells()), show_keys=False)
    assert [re.findall(r"\d+(?:\.\d+)?", note) for note in told[:3]] == [
        ["6", "3", "6", "60", "300", "10"],
        ["6", "1.3"],
        ["60", "6", "9"],
    ], "the bound of 6 cells on 60 lanes; what is possible; why finer cells do not help"


def test_a_plan_of_six_cells_on_six_lanes_has_no_note() -> None:
    assert not [text for text in notes(planned(six_cells(), 6), show_keys=False) if "possible" in text]


def test_six_cities_on_sixty_lanes_are_told_which_cells_would_do(plan: Plan) -> None:
    """The figures are those of the home cells, counted here again."""
    geo = printed(plan, show_keys=False).as_json()["geo"]
    found = geo["possible"]
    keys = plan.stream.profile.keys.column("cell").to_numpy()
    for step in found["steps"]:
        assert step["cells"] == len(np.unique(ancestor(keys, step["resolution"])))
    first, enough = found["steps"][0], found["steps"][found["enough_at"] - 3]
    assert first["cells"] < 60 <= enough["cells"]
    assert first["cv"] >= sqrt(60 / first["cells"] - 1)
    assert enough["max_over_mean"] <= 1.3 < found["steps"][found["enough_at"] - 4]["max_over_mean"]
    text = " ".join(found["says"])
    assert f"at resolution {enough['resolution']} there are {enough['cells']:,}" in text


def test_no_candidate_is_more_even_than_the_floor_of_its_cells(plan: Plan) -> None:
    places = plan.stream.places
    assert places is not None
    steps = {one.resolution: one for one in possible(places, 60).steps}
    for one in plan.judged:
        rule = one.candidate.by_place
        assert rule is not None
        least = steps[places.resolution if one.candidate.listed else rule.resolution]
        loads = one.candidate.loads.sum(axis=1)
        assert cv(loads) >= least.cv - 1e-9
        assert max_over_mean(loads) >= least.max_over_mean - 1e-9


def test_unequal_cells_are_told_both_bounds() -> None:
    profile = of_cells([int(cells_of([lat], [lng])[0]) for lat, lng in SIX], [[50], [10], [10], [10], [10], [10]])
    text = notes(planned(profile), show_keys=False)[0]
    found = re.search(r"CV at least (\d+)%, max/mean at least ([\d.]+) \(300% and 10 if all", text)
    assert found
    assert (float(found[1]) > 300, float(found[2])) == (True, 30.0)
    assert "up to 2 lanes" in notes(planned(profile), show_keys=False)[1]


def test_a_contract_that_was_planned_is_left_as_it_is(plan: Plan) -> None:
    again = planned(cities(0.02), today=plan.contract)
    assert not again.changes
    assert again.standing is not None
    assert again.standing.candidate.score == plan.choice.chosen.candidate.score
    moved = [one.moved.traffic for one in again.judged if one.moved and one.candidate.strategy == "geo-table"]
    assert moved == [0.0]


def test_a_radius_brings_compact_regions_and_counts_copies() -> None:
    rng = np.random.default_rng(3)
    at = np.array([40.75, -73.98]) + rng.normal(0, 1, (20_000, 2)) * (0.04, 0.015)
    cells, row = np.unique(cells_of(at[:, 0], at[:, 1]), return_inverse=True)
    counts = np.zeros((len(cells), 8), np.int32)
    np.add.at(counts, (row, rng.integers(0, 8, len(row))), 1)
    city = of_cells(cells, counts, facts=(("place", ["lat", "lng"]), ("scale", 1e4)))
    found = planned(city, 8, radius=1000.0)
    by_name = {one.candidate.strategy: one.candidate for one in found.judged}
    assert found.choice.chosen.candidate.strategy == "geo-regions"
    regions, table = by_name["geo-regions"], by_name["geo-table"]
    assert regions.works[0].copies < table.works[0].copies
    assert regions.deciding > 1.2 * table.deciding
    shown = printed(found, show_keys=False)
    assert shown.chosen.copies is not None
    assert shown.chosen.total_work == pytest.approx(8 / shown.chosen.work, rel=1e-4)
    assert "geo_regions" in shown.how
    assert found.contract.spec.geo is not None
    assert found.contract.spec.geo.scale == 1e4
    without = planned(city, 8)
    assert without.choice.chosen.candidate.strategy != "geo-regions", "the twin: without a radius evenness decides"
    assert printed(without, show_keys=False).chosen.copies is None
    even = without.contract.model_copy(update={"metadata": found.contract.metadata})
    kept = planned(city, 8, today=even)
    assert not kept.changes, "even lanes are left as they are"
    moved = planned(city, 8, today=even, radius=1000.0)
    assert moved.changes, "even lanes that send each request to most lanes are not"
    with pytest.raises(UsageError, match="a radius is of locations"):
        planned(made(drawn(200, 4_000)), 8, radius=1000.0)


def test_a_scale_that_the_profile_was_not_counted_by_is_refused() -> None:
    today = parse_contract(
        """
        apiVersion: keylane/v1
        kind: RoutingContract
        metadata: {name: pings}
        spec: {streams: [pings], lanes: 60, key: {fields: [lat, lng], encoding: place}, partitioner: kafka-java,
               geo: {resolution: 4, scale: 10000}}
        """,
        "today",
    )
    with pytest.raises(UsageError, match=r"scale is not the profile's: got '10000'; allowed: 1"):
        planned(six_cells(), today=today)


def test_a_hash_of_cells_from_today_moves_to_a_table_and_the_change_is_counted(plan: Plan) -> None:
    today = parse_contract(
        """
        apiVersion: keylane/v1
        kind: RoutingContract
        metadata: {name: pings, epoch: 3}
        spec: {streams: [pings], lanes: 60, key: {fields: [lat, lng], encoding: place}, partitioner: kafka-java,
               geo: {resolution: 4, region: [-60, -180, 80, 180]}}
        """,
        "today",
    )
    found = planned(cities(0.02), today=today)
    assert found.changes
    assert (found.contract.metadata.epoch, found.contract.spec.geo and found.contract.spec.geo.region) == (
        4,
        (-60, -180, 80, 180),
    )
    assert found.standing is not None
    hashed = next(one for one in plan.judged if one.candidate.title == "cells of resolution 4 hashed")
    assert found.standing.candidate.score == hashed.candidate.score
    assert found.cost.moved is not None
    assert 0.5 < found.cost.moved.traffic <= 1


def test_cells_that_are_hashed_whole_today_are_compared_with_lanes_by_place() -> None:
    today = parse_contract(
        """
        apiVersion: keylane/v1
        kind: RoutingContract
        metadata: {name: pings}
        spec: {streams: [pings], lanes: 60, key: {fields: [cell], encoding: h3}, partitioner: kafka-java}
        """,
        "today",
    )
    profile = replace(cities(0.02), facts=())
    found = planned(profile, today=today)
    assert found.standing is not None
    lanes = decide(Router(today), profile.keys).lane
    assert np.allclose(found.standing.candidate.loads.sum(axis=1), np.bincount(lanes, profile.records, minlength=60))
    table = next(one for one in found.judged if one.candidate.strategy == "geo-table")
    assert table.moved is not None
    assert table.moved.keys == pytest.approx(float((table.candidate.home(found.stream) != lanes).mean()))


def test_bytes_that_are_all_cells_are_places_and_others_beside_them_are_not(plan: Plan) -> None:
    cells = six_cells().keys.column("cell").to_pylist()
    keys = [cell.to_bytes(8, "big") for cell in cells]
    raw = Key(fields=("key",), encoding="raw")
    profile = replace(six_cells(), key=raw, keys=pa.table({"key": keys}), facts=())
    found = planned(profile, 6)
    assert found.contract.spec.key.encodings == ("raw",)
    assert found.choice.chosen.candidate.strategy.startswith("geo-")
    mixed = replace(profile, keys=pa.table({"key": [*keys[:-1], b"other"]}))
    assert ProfiledStream(mixed).places is None
    spec = plan.contract.spec.model_copy(update={"key": raw})
    today = plan.contract.model_copy(update={"spec": spec})
    with pytest.raises(UsageError, match="not all keys are cells"):
        planned(mixed, today=today)
    stands = today_of(ProfiledStream(mixed), today, 60)
    decided = decide(Router(today), mixed.keys).lane
    assert stands.home.tolist() == np.asarray(decided).tolist()
    loads = moved_loads(
        ProfiledStream(mixed).hashed("kafka-java", 60), stands.fitted.moves, mixed.by_window, stands.fitted.tier_lanes
    )
    assert loads.sum(axis=1).tolist() == np.bincount(decided, mixed.records, minlength=60).tolist()


def test_a_contract_of_another_place_is_refused(plan: Plan) -> None:
    spec = plan.contract.spec.model_copy(update={"key": Key(fields=("y", "x"), encoding="place")})
    with pytest.raises(UsageError, match="contract's key"):
        planned(cities(0.02), today=plan.contract.model_copy(update={"spec": spec}))


def test_cells_coarser_than_the_leaves_of_today_are_refused(plan: Plan) -> None:
    coarse = replace(cities(0.02, 6_000), key=Key(fields=("cell",), encoding="h3"))
    cells = ancestor(coarse.keys.column("cell").to_numpy(), 5)
    with pytest.raises(UsageError, match=r"coarser than the contract's.*resolution 5"):
        planned(replace(coarse, keys=pa.table({"cell": cells})), today=plan.contract)


def test_cells_of_a_coarse_profile_are_split_no_further_than_they_are() -> None:
    fine = cities(0.3, 12_000)
    coarse = replace(fine, keys=pa.table({"cell": ancestor(fine.keys.column("cell").to_numpy(), 6)}))
    plan = planned(coarse, 12)
    assert plan.stream.places is not None
    assert plan.stream.places.resolution == 6
    assert int(plan.stream.places.records.sum()) == coarse.total
    leaves = plan.contract.spec.geo.leaves if plan.contract.spec.geo else ()
    assert all(word[1] <= "6" for words in leaves for word in words.split())


def test_keys_that_are_no_cells_are_counted_and_said() -> None:
    profile = six_cells()
    odd = (1 << 59) | 5
    cells = [*profile.keys.column("cell").to_pylist(), odd]
    counts = np.vstack([profile.by_window, np.full((1, 8), 2)])
    plan = planned(of_cells(cells, counts), 6)
    assert any(note.startswith("16 records") for note in notes(plan, show_keys=False))
    assert plan.choice.chosen.candidate.loads.sum() == profile.total


def test_leaves_that_are_keys_are_shown_only_when_keys_are() -> None:
    """A home cell that is heavy is a leaf, so the contract names a key; coarse leaves are areas that many share."""
    heavy = planned(six_cells(), 6, constraints=Constraints(max_over_mean=1.1))
    assert heavy.choice.chosen.candidate.listed
    assert printed(heavy, show_keys=False).contract is None
    assert printed(heavy, show_keys=True).contract == heavy.text
    wide = planned(cities(0.05), 12)
    assert wide.choice.chosen.candidate.listed
    assert printed(wide, show_keys=False).contract == wide.text


def test_windows_have_the_hour_of_the_day_that_they_lie_in() -> None:
    two_days = Windows("time", tuple(n * HOUR for n in range(20, 69)))
    assert hours_of(two_days).tolist() == [(20 + n) % 24 for n in range(48)]
    assert hours_of(Windows("time", (0, 7 * HOUR, 14 * HOUR))).tolist() == [0, 1]
    assert hours_of(Windows("position", (0, 5, 10))).tolist() == [0, 1]


def test_lanes_are_even_in_every_hour_where_cities_sleep_in_turn() -> None:
    """Two halves of the world, each awake for twelve hours: a lane of the table has both, a range of the curve one."""
    west, east = (np.unique(cells_of(*around(lat, lng))) for lat, lng in (SIX[0], SIX[3]))
    day = np.repeat([[10] * 12 + [0] * 12], len(west), axis=0), np.repeat([[0] * 12 + [10] * 12], len(east), axis=0)
    counts = np.vstack(day)
    plan = planned(of_cells([*west, *east], np.hstack([counts, counts])), 4)
    worst = {one.candidate.strategy: one.candidate.score.worst_window for one in plan.judged}
    assert worst["geo-table"] < 1.2
    assert worst["geo-curve"] > 1.8


def around(lat: float, lng: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    at = np.array([lat, lng]) + rng.normal(0, 0.1, (400, 2))
    return at[:, 0], at[:, 1]


def test_why_a_lane_is_hot_is_told_by_cells_and_not_by_home_cells() -> None:
    """Six cities of thousands of home cells, hashed as the plan compares itself with: not a mishap of the hash."""
    plan = planned(cities(0.02))
    found = heat_under(plan.stream, plainly_hashed(plan), 1)
    assert found is not None
    assert found.cause in ("few-keys", "one-key")
    assert plan.best_hash is not None
    assert found.lanes[0].over_mean == pytest.approx(plan.best_hash.score.max_over_mean)


def test_the_cells_of_a_stream_are_each_there_once_with_all_their_records() -> None:
    finer = [int(middle(cells_of([33.4], [-112.1])[0], 10)), int(cells_of([33.4], [-112.1])[0])]
    places = ProfiledStream(of_cells(finer, [[3, 1], [2, 0]])).places
    assert places is not None
    assert (len(places.cells), places.loads.ravel().tolist(), places.resolution) == (1, [5, 1], 9)

"""Lanes by place as a promise: its fingerprint, its answers, and what a change of it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.contract.answers import Answers, answers
from keylane.contract.evolve import MovedLeaves, evolve, moved_leaves
from keylane.contract.fingerprint import fingerprint, key_bytes_form, placement_fingerprint, placement_form
from keylane.measure.copartition import compare_contracts
from keylane.measure.self_test import contract_findings

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

PLACE = "key: {fields: [lat, lng], encoding: place}\n"
CELL = "key: {fields: [cell], encoding: h3}\n"


def geo(*leaves: str, more: str = "", resolution: int = 3) -> str:
    listed = ", ".join(f'"{text}"' for text in leaves)
    return f"geo: {{resolution: {resolution}, leaves: [{listed}]{more}}}"


ALIKE = {
    "trailing f": (geo("8329b6 8329b0"), geo("8329b6fffffffff 8329b0fff")),
    "order of leaves": (geo("8329b6 8329b0"), geo("8329b0 8329b6")),
    "lanes without leaves at the end": (geo("8329b6"), geo("8329b6", "", "")),
    "a scale with an exponent": (geo(more=", scale: 1e7"), geo(more=", scale: 10000000")),
    "a region in whole numbers": (geo(more=", region: [1, 2, 3, 4]"), geo(more=", region: [1.0, 2.0, 3.0, 4.0]")),
    "a checksum": (
        geo(),
        geo(more=", checksum: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ),
}
UNLIKE = {
    "another lane": (geo("8329b6"), geo("", "8329b6")),
    "another leaf": (geo("8329b6"), geo("8329b0")),
    "another resolution": (geo(), geo(resolution=4)),
    "a region": (geo(), geo(more=", region: [1, 2, 3, 4]")),
    "a scale": (geo(), geo(more=", scale: 10000000")),
    "another scale": (geo(more=", scale: 1e6"), geo(more=", scale: 1e7")),
}


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE)
def test_two_ways_to_write_one_lane_table_have_one_fingerprint(
    one: str, other: str, contract: Callable[..., Contract]
) -> None:
    assert fingerprint(contract(PLACE + one)) == fingerprint(contract(PLACE + other))
    assert evolve(contract(PLACE + one), contract(PLACE + other)).changes == ()


@pytest.mark.parametrize(("one", "other"), UNLIKE.values(), ids=UNLIKE)
def test_other_lanes_by_place_have_another_fingerprint_and_epoch(
    one: str, other: str, contract: Callable[..., Contract]
) -> None:
    old, new = contract(PLACE + one), contract(PLACE + other)
    assert placement_fingerprint(old) != placement_fingerprint(new)
    evolution = evolve(old, new)
    assert [change.kind for change in evolution.changes] == ["moves-keys"]
    assert evolution.changes[0].where.startswith("spec.geo")
    assert evolution.epoch_to_raise == 2


def test_a_contract_without_places_says_nothing_of_them(contract: Callable[..., Contract]) -> None:
    assert "geo" not in placement_form(contract())


def test_what_null_keys_do_means_nothing_for_a_place(contract: Callable[..., Contract]) -> None:
    ruled = PLACE.replace("place}", "place, on_null: random, on_empty: reject}")
    assert placement_fingerprint(contract(ruled + geo())) == placement_fingerprint(contract(PLACE + geo()))


def test_a_place_and_its_cell_are_one_key(contract: Callable[..., Contract]) -> None:
    drivers, riders = contract(PLACE + geo("8329b6")), contract(CELL + geo("8329b6"))
    assert key_bytes_form(drivers) == key_bytes_form(riders)
    assert [f for f in compare_contracts({"drivers": drivers, "riders": riders}) if f.severity == "error"] == []


def test_the_unit_of_a_streams_numbers_is_its_own(contract: Callable[..., Contract]) -> None:
    degrees, whole = contract(PLACE + geo("8329b6")), contract(PLACE + geo("8329b6", more=", scale: 10000000"))
    assert compare_contracts({"drivers": degrees, "riders": whole}) == []


def test_another_lane_table_is_not_co_partitioned_and_is_named(contract: Callable[..., Contract]) -> None:
    one, other = contract(PLACE + geo("8329b6")), contract(PLACE + geo("", "8329b6"))
    (found,) = compare_contracts({"a": one, "b": other})
    assert (found.severity, found.where) == ("error", "spec.geo")


def test_every_cell_has_one_lane_and_keeps_its_order(contract: Callable[..., Contract]) -> None:
    tail = Answers("every other key", "per-key", 1, readers_merge=False)
    assert answers(contract(PLACE + geo())) == (tail,)
    leaves = Answers("geo.leaves", "per-key", 1, readers_merge=False)
    assert answers(contract(PLACE + geo("8329b6"))) == (tail, leaves)


#: The children of 8329b6.
SEVEN = " ".join(f"8429b{digits:x}" for digits in range(0x61, 0x6F, 2))
TABLES = {
    "the same": (["8329b6"], ["8329b6"], MovedLeaves(1, 0, 0, 0)),
    "one moves": (["8329b6 8329b0"], ["8329b6", "8329b0"], MovedLeaves(2, 1, 0, 0)),
    "a split that stays": (["8329b6"], [SEVEN], MovedLeaves(7, 0, 0, 0)),
    "a split of which one moves": (["8329b6"], [SEVEN.replace("8429b6d", ""), "8429b6d"], MovedLeaves(7, 1, 0, 0)),
    "a split of which two are left": (["8329b6"], ["8429b6d", "8429b69"], MovedLeaves(2, 1, 0, 1)),
    "two that become one": (["8429b6d", "8429b69"], ["8329b6"], MovedLeaves(1, 1, 1, 0)),
    "one more": (["8329b6"], ["8329b6 8329b0"], MovedLeaves(2, 0, 1, 0)),
    "one less": (["8329b6 8329b0"], ["8329b0"], MovedLeaves(1, 0, 0, 1)),
    "none any more": (["8329b6"], [], MovedLeaves(0, 0, 0, 1)),
}


@pytest.mark.parametrize(("old", "new", "moved"), TABLES.values(), ids=TABLES)
def test_leaves_that_move_are_counted(old: list[str], new: list[str], moved: MovedLeaves) -> None:
    assert moved_leaves(old, new) == moved


def test_a_rebalance_says_how_many_leaves_move(contract: Callable[..., Contract]) -> None:
    old, new = contract(PLACE + geo("8329b6 8329b0", "8329b1")), contract(PLACE + geo("8329b6", "8329b0 8329b2"))
    (change,) = evolve(old, new).changes
    assert "1 of 3 leaves change lane (33.3%)" in change.message
    assert change.moved_share is None


def test_more_lanes_claim_a_share_of_the_cells_in_no_leaf_only(contract: Callable[..., Contract]) -> None:
    changes = [
        evolve(contract(PLACE + table), contract("lanes: 24\n" + PLACE + table)) for table in (geo(), geo("8329b6"))
    ]
    assert [(one.changes[0].moved_share, one.moved.share) for one in changes] == [(0.5, 0.5), (0.5, 0.5)]


def test_going_over_to_places_moves_nearly_all(contract: Callable[..., Contract]) -> None:
    there = evolve(contract(CELL), contract(CELL + geo()))
    back = evolve(contract(CELL + geo()), contract(CELL))
    assert [(c.where, round(c.moved_share or 0, 4)) for e in (there, back) for c in e.changes] == [
        ("spec.geo", 0.9167),
        ("spec.geo", 0.9167),
    ]


def test_a_golden_place_is_tried_as_its_cell_or_as_its_degrees(contract: Callable[..., Contract]) -> None:
    golden = "golden: [{{key: 8929b6d357bffff, lane: {0}}}, {{record: {{lat: 33.4484, lng: -112.074}}, lane: {0}}}]"
    assert list(contract_findings(contract(PLACE + geo("", "8329b6") + "\n" + golden.format(1)))) == []
    wrong = list(contract_findings(contract(PLACE + geo("", "8329b6") + "\n" + golden.format(2))))
    assert [finding.where for finding in wrong] == ["spec.golden[0]", "spec.golden[1]"]
    assert "in leaf 8329b6fffffffff -> lane 1" in wrong[0].message


def test_a_golden_key_that_is_no_cell_is_found(contract: Callable[..., Contract]) -> None:
    (found,) = contract_findings(contract(PLACE + geo() + "\ngolden: [{key: phoenix, lane: 1}]"))
    assert "not a place key: got str 'phoenix'; allowed: an H3 cell" in found.message


@pytest.mark.parametrize(
    ("old", "new", "joined", "left"),
    [
        (["8329b6"], ["8429b61"], 0, 1),
        (["8429b61"], ["8329b6"], 1, 0),
        (["8329b6"], [SEVEN], 0, 0),
        (["831c00"], [" ".join(f"841c0{digit:02x}" for digit in (0x01, 0x05, 0x07, 0x09, 0x0B, 0x0D))], 0, 0),
    ],
    ids=["cut to a child", "grown from a child", "all seven children", "all six of a pentagon"],
)
def test_a_leaf_that_is_hashed_in_part_is_a_change(old: list[str], new: list[str], joined: int, left: int) -> None:
    """Its lane is the same, so by the leaves alone nothing seemed to move, and no epoch was asked for."""
    found = moved_leaves(old, new)
    assert (found.moved, found.joined, found.left) == (0, joined, left)

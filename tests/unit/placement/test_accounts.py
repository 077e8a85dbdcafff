from __future__ import annotations

from typing import Any

import pytest

from keylane.errors import LaneCountError, UsageError
from keylane.placement.accounts import concentrate, lanes_needed

VOLUMES = {"a": 250.0, "b": 40.0, "c": 30.0}


@pytest.mark.parametrize(
    ("volume", "had", "need"),
    [
        (0, 0, 1),
        (100, 0, 1),
        (100.1, 0, 2),
        (250, 0, 3),
        (250, 2, 3),
        (190, 3, 3),
        (160, 3, 2),
        (161, 3, 3),
        (120, 3, 2),
        (10, 5, 1),
    ],
)
def test_an_account_grows_at_once_and_shrinks_only_well_below(volume: float, had: int, need: int) -> None:
    assert lanes_needed(volume, capacity=100, had=had) == need


def test_a_small_account_is_whole_on_one_lane_and_a_large_one_on_as_few_as_it_needs() -> None:
    assert concentrate(VOLUMES, 4, 100) == {"a": (0, 1, 2), "b": (3,), "c": (3,)}


def test_the_worked_example_keeps_its_lanes_until_it_fits_well_below() -> None:
    table = concentrate(VOLUMES, 4, 100)
    table = concentrate({**VOLUMES, "a": 190}, 4, 100, table)
    assert table["a"] == (0, 1, 2)
    table = concentrate({**VOLUMES, "a": 120}, 4, 100, table)
    assert table["a"] == (0, 1)


def test_the_order_of_the_input_plays_no_part() -> None:
    assert concentrate(dict(reversed(VOLUMES.items())), 4, 100) == concentrate(VOLUMES, 4, 100)


def test_an_account_that_grows_keeps_its_lanes_and_the_others_stay() -> None:
    before = concentrate({"a": 90, "b": 40, "c": 30}, 4, 100)
    after = concentrate({"a": 150, "b": 40, "c": 30}, 4, 100, before)
    assert set(before["a"]) < set(after["a"])
    assert (after["b"], after["c"]) == (before["b"], before["c"])


def test_an_account_whose_lane_has_no_room_left_chooses_again() -> None:
    assert concentrate({"a": 90, "b": 40}, 4, 100, {"a": (2,), "b": (2,)}) == {"a": (2,), "b": (0,)}


def test_a_new_account_takes_the_emptiest_lane_and_moves_nobody() -> None:
    before = concentrate(VOLUMES, 5, 100)
    after = concentrate({**VOLUMES, "d": 60}, 5, 100, before)
    assert after.pop("d") == (4,)
    assert after == before


def test_more_lanes_move_nobody() -> None:
    assert concentrate(VOLUMES, 9, 100, concentrate(VOLUMES, 4, 100)) == concentrate(VOLUMES, 4, 100)


def test_lanes_that_are_gone_are_given_up() -> None:
    assert concentrate({"a": 150}, 4, 100, {"a": (3, 7)}) == {"a": (0, 3)}


def test_an_account_that_left_leaves_the_table() -> None:
    assert concentrate({"b": 40}, 4, 100, {"a": (0, 1), "b": (3,)}) == {"b": (3,)}


@pytest.mark.parametrize("volume", [401, -1, float("nan"), float("inf")])
def test_an_account_that_fits_no_number_of_lanes_is_named(volume: float) -> None:
    with pytest.raises(UsageError, match=r"account 'a' .*0 to 400"):
        concentrate({"a": volume}, 4, 100)


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_lane_must_carry_something(capacity: float) -> None:
    with pytest.raises(UsageError, match="the capacity of a lane is out of range"):
        concentrate({}, 4, capacity)


@pytest.mark.parametrize("lanes", [0, 1.5, "live"], ids=repr)
def test_a_lane_count_that_is_none_is_refused(lanes: Any) -> None:
    with pytest.raises(LaneCountError):
        concentrate(VOLUMES, lanes, 100)

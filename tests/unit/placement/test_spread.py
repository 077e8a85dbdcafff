from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from keylane.contract.model import Spread
from keylane.placement.spread import by_position, by_sub_key, by_sub_keys, lane_set

SUB_KEYS = range(0, 2**32, 2**32 // 3000)


@pytest.mark.parametrize(
    ("spread", "home", "lanes"),
    [
        ({"over": 3, "by": "b"}, 5, (5, 6, 7)),
        ({"over": 3, "by": "b"}, 62, (0, 62, 63)),
        ({"over": 64, "by": "b"}, 9, tuple(range(64))),
        ({"lanes": [9, 2, 40], "by": "b"}, 62, (2, 9, 40)),
    ],
    ids=["from its own lane", "round the end", "all", "listed"],
)
def test_the_lanes_of_a_spread_key(spread: dict[str, Any], home: int, lanes: tuple[int, ...]) -> None:
    assert lane_set(Spread.model_validate(spread), home, 64) == lanes


def test_sub_keys_are_spread_evenly() -> None:
    among = (3, 4, 5, 6)
    times = Counter(by_sub_key(sub_key, among) for sub_key in SUB_KEYS)
    assert set(times) == set(among)
    assert all(600 < count < 900 for count in times.values())


def test_one_more_lane_takes_its_share_and_moves_nothing_else() -> None:
    before = [by_sub_key(sub_key, (3, 4, 5)) for sub_key in SUB_KEYS]
    after = [by_sub_key(sub_key, (3, 4, 5, 6)) for sub_key in SUB_KEYS]
    moved = {new for old, new in zip(before, after, strict=True) if old != new}
    assert moved == {6}
    assert 0.2 < after.count(6) / len(after) < 0.3


@pytest.mark.parametrize("among", [(7,), (0, 1), (2, 9, 40, 41, 63)], ids=str)
def test_arrays_of_sub_keys_give_what_single_ones_give(among: tuple[int, ...]) -> None:
    hashes = np.array([*SUB_KEYS[::50], 0, 2**32 - 1], np.uint32)
    assert by_sub_keys(hashes, np.array(among)).tolist() == [by_sub_key(h, among) for h in hashes.tolist()]


def test_every_sub_key_may_have_a_set_of_its_own() -> None:
    hashes, sets = np.array([1, 2, 3], np.uint32), np.array([[0, 1], [4, 5], [8, 9]])
    expected = [by_sub_key(h, tuple(among)) for h, among in zip(hashes.tolist(), sets.tolist(), strict=True)]
    assert by_sub_keys(hashes, sets).tolist() == expected


def test_a_position_goes_round_the_set() -> None:
    assert [by_position(position, (2, 9, 40)) for position in range(-1, 5)] == [40, 2, 9, 40, 2, 9]

from __future__ import annotations

from collections import Counter
from itertools import groupby

import numpy as np
import pytest

from keylane.placement.keyless import RULES, STICKY_RUN, keyless_lanes, random_at, round_robin_at, sticky_at


def test_round_robin_takes_each_lane_in_turn() -> None:
    assert [round_robin_at(position, 3) for position in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_random_depends_on_the_position_alone_and_reaches_every_lane_evenly() -> None:
    lanes = [random_at(position, 8) for position in range(4000)]
    assert lanes == [random_at(position, 8) for position in range(4000)]
    assert all(400 < times < 600 for times in Counter(lanes).values())
    assert len(set(lanes)) == 8


def test_sticky_stays_for_a_run_and_then_moves_on() -> None:
    lanes = [sticky_at(position, 64) for position in range(STICKY_RUN * 20)]
    runs = [len(list(run)) for _, run in groupby(lanes)]
    assert all(length % STICKY_RUN == 0 for length in runs)
    assert len(runs) > 15


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lanes", [1, 2, 7, 64])
def test_arrays_of_positions_give_what_single_positions_give(rule: str, lanes: int) -> None:
    positions = [0, 1, 255, 256, 257, 2**31, 2**63 - 1, -1, -256, -257]
    assert keyless_lanes(rule, np.array(positions), lanes).tolist() == [RULES[rule](p, lanes) for p in positions]

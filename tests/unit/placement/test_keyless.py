from __future__ import annotations

from collections import Counter
from itertools import count, groupby
from typing import TYPE_CHECKING

import numpy as np
import pytest

from keylane.placement.keyless import (
    RULES,
    STICKY_RUN,
    adaptive_table,
    adaptive_weights,
    keyless_lanes,
    pick,
    random_at,
    round_robin_at,
    sticky_at,
    sticky_by_bytes,
    sticky_per_batch,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def counting() -> Callable[[int], int]:
    """A source of chance that counts, as Kafka's own test has it."""
    numbers = count()
    return lambda below: next(numbers) % below


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


@pytest.mark.parametrize(
    ("queues", "weights", "table"),
    [([5, 0, 3, 0, 1], [1, 6, 3, 6, 5], [1, 7, 10, 16, 21]), ([0, 3, 1], [4, 1, 3], [4, 5, 8])],
    ids=str,
)
def test_adaptive_weights_are_those_of_kip_794(queues: list[int], weights: list[int], table: list[int]) -> None:
    assert adaptive_weights(queues) == weights
    assert adaptive_table(queues) == table


@pytest.mark.parametrize("queues", [[], [3], [2, 2, 2]], ids=["no lanes", "one lane", "all equal"])
def test_there_is_no_table_where_there_is_nothing_to_choose(queues: list[int]) -> None:
    assert adaptive_table(queues) is None


def test_twice_as_many_draws_as_the_table_holds_give_exactly_twice_the_weights() -> None:
    table, draw = adaptive_table([5, 0, 3, 0, 1]), counting()
    assert table is not None
    drawn = Counter(pick(table, draw(table[-1])) for _ in range(42))
    assert [drawn[lane] for lane in range(5)] == [2, 12, 6, 12, 10]


def test_sticky_by_bytes_draws_by_the_queues_it_is_shown() -> None:
    queues = [5, 0, 3, 0, 1]
    lanes = sticky_by_bytes([1] * 42, 5, counting(), batch_size=1, queues=lambda: queues)
    assert Counter(lanes) == {0: 2, 1: 12, 2: 6, 3: 12, 4: 10}


def test_sticky_by_bytes_is_even_when_the_queues_are() -> None:
    assert list(sticky_by_bytes([1] * 4, 3, counting(), batch_size=1, queues=lambda: [2, 2, 2])) == [0, 1, 2, 0]


def test_sticky_by_bytes_moves_on_after_the_record_that_fills_the_batch() -> None:
    assert list(sticky_by_bytes([6000] * 7, 10, counting())) == [0, 0, 0, 1, 1, 1, 2]


def test_sticky_per_batch_moves_on_when_a_batch_opens_and_never_to_the_same_lane() -> None:
    opens = [True, False, False, True, True, False]
    assert list(sticky_per_batch(opens, 4, lambda _: 0)) == [0, 0, 0, 1, 2, 2]


@pytest.mark.parametrize("opens", [[], [True, True, True]], ids=["no records", "three batches"])
def test_sticky_per_batch_has_one_lane_to_stay_on(opens: list[bool]) -> None:
    assert list(sticky_per_batch(opens, 1, lambda _: 0)) == [0] * len(opens)

"""Concentrated accounts: few lanes, within range, and no movement without a cause."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from hypothesis import assume, example, given
from hypothesis import strategies as st

from keylane.placement.accounts import concentrate

if TYPE_CHECKING:
    from random import Random

LANES, CAPACITY = 4, 100
volumes = st.dictionaries(
    st.sampled_from("abcdefghijkl"), st.integers(0, CAPACITY) | st.integers(0, LANES * CAPACITY), max_size=12
)


def loads(table: dict[str, tuple[int, ...]], told: dict[str, int]) -> list[float]:
    out = [0.0] * LANES
    for account, lanes in table.items():
        for lane in lanes:
            out[lane] += told[account] / len(lanes)
    return out


@given(told=volumes)
def test_every_account_has_lanes_within_range_and_no_more_than_it_needs(told: dict[str, int]) -> None:
    table = concentrate(told, LANES, CAPACITY)
    assert sorted(table) == sorted(told)
    for account, lanes in table.items():
        assert list(lanes) == sorted(set(lanes))
        assert set(lanes) <= set(range(LANES))
        assert len(lanes) == max(1, ceil(told[account] / CAPACITY))


@given(told=volumes, order=st.randoms(use_true_random=False))
def test_the_same_accounts_in_another_order_give_the_same_table(told: dict[str, int], order: Random) -> None:
    shuffled = list(told.items())
    order.shuffle(shuffled)
    assert concentrate(dict(shuffled), LANES, CAPACITY) == concentrate(told, LANES, CAPACITY)


@given(told=volumes)
def test_unchanged_volumes_that_fit_their_lanes_give_an_unchanged_table(told: dict[str, int]) -> None:
    table = concentrate(told, LANES, CAPACITY)
    assume(max(loads(table, told)) <= CAPACITY)
    assert concentrate(told, LANES, CAPACITY, table) == table


@given(told=st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(0, CAPACITY), max_size=12))
@example(told={"a": 95, "b": 85, "c": 20, "d": 15, "e": 14})
def test_unchanged_volumes_give_an_unchanged_table_where_lanes_are_too_few(told: dict[str, int]) -> None:
    table = concentrate(told, 2, CAPACITY)
    assert concentrate(told, 2, CAPACITY, table) == table


@given(before=volumes, after=volumes)
def test_an_account_between_its_bounds_keeps_a_part_of_its_lanes(before: dict[str, int], after: dict[str, int]) -> None:
    """A large account never lets go of all its lanes; only a whole small one may have to move."""
    old = concentrate(before, LANES, CAPACITY)
    new = concentrate(after, LANES, CAPACITY, old)
    for account in before.keys() & after.keys():
        if len(new[account]) > 1:
            assert set(old[account]) & set(new[account])

"""Load over the key space: what lies in a range, how far a cap reaches, and the heaviest key."""

from __future__ import annotations

import numpy as np
import pytest

from keylane.errors import UsageError
from keylane.keyspace.layout import Shard, layout_of, new_layout
from keylane.keyspace.load import from_halves, from_layout, from_points

LAST = 2**128 - 1


def test_points_are_in_the_range_that_begins_with_them() -> None:
    curve = from_points([(10, 3.0), (5, 1.0), (10, 4.0), (LAST, 2.0)])
    assert (curve.starts, curve.total) == ([5, 10, LAST], 10.0)
    assert [curve.between(*one) for one in ((0, 5), (0, 6), (5, 10), (10, 11), (11, LAST), (LAST, LAST + 1))] == [
        *(0.0, 1.0, 1.0),
        *(7.0, 0.0, 2.0),
    ]


def test_a_cap_reaches_up_to_the_key_that_would_break_it() -> None:
    curve = from_points([(10, 3.0), (20, 3.0), (30, 9.0), (40, 1.0)])
    assert [curve.furthest(0, cap) for cap in (2.0, 3.0, 6.0, 15.0, 16.0)] == [10, 20, 30, 40, LAST + 1]
    assert curve.furthest(30, 5.0) == 30


def test_the_load_of_a_shard_is_even_inside() -> None:
    curve = from_layout(layout_of([Shard("a", 0, 2**127 - 1, 8.0), Shard("b", 2**127, LAST, 2.0)]))
    assert curve.between(2**125, 2**126) == pytest.approx(2.0)
    assert curve.furthest(0, 4.0) == pytest.approx(2**126)
    assert curve.heaviest_key(0, LAST + 1) is None


def test_the_heaviest_key_is_that_of_the_range() -> None:
    curve = from_points([(10, 3.0), (20, 5.0), (30, 9.0)])
    assert curve.heaviest_key(0, 30) == (20, 5.0)
    assert curve.heaviest_key(21, 30) is None


def test_halves_are_the_same_keys() -> None:
    keys = [LAST, 2**64, 2**64 - 1, 0, 2**64]
    halves = np.array([divmod(key, 2**64) for key in keys], np.uint64)
    assert from_halves(halves, np.arange(1.0, 6.0)) == from_points(zip(keys, [1.0, 2.0, 3.0, 4.0, 5.0], strict=True))
    assert from_points([]).total == 0


def test_a_layout_without_loads_has_no_curve() -> None:
    with pytest.raises(UsageError):
        from_layout(new_layout(2))

"""Load over the key space: what lies in a range, how far a cap reaches, and the heaviest key."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.errors import UsageError
from keylane.keyspace.layout import Shard, layout_from_json, layout_of, layout_to_json, new_layout
from keylane.keyspace.load import ROUNDING, from_halves, from_layout, from_points

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


@given(
    st.lists(st.floats(0.1, 1e6), min_size=1, max_size=12),
    st.floats(0.05, 20),
)
def test_cuts_that_reach_as_far_as_the_cap_keep_it_when_they_are_measured(loads: list[float], part: float) -> None:
    """A load that is even inside a shard is cut at fractions: what is measured again may be off by a rounding."""
    layout = layout_from_json(json.dumps({"shards": shards(loads)}))
    load, cap = from_layout(layout), part * max(loads) / 3
    start, pieces = 0, list[float]()
    while start < 1 << 128 and len(pieces) < 200:
        end = load.furthest(start, cap)
        pieces.append(load.between(start, min(end, 1 << 128)))
        start = max(end, start + 1)
    assert max(pieces) <= cap * (1 + ROUNDING)
    assert not all(piece <= cap * 0.5 for piece in pieces[:-1]) or len(pieces) == 1, "the twin: cuts are no shorter"


def shards(loads: list[float]) -> list[dict[str, Any]]:
    document = layout_to_json(new_layout(len(loads)))
    for shard, load in zip(document["shards"], loads, strict=True):
        shard["load"] = load
    found: list[dict[str, Any]] = document["shards"]
    return found

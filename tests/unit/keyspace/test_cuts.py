"""Where to cut: the fewest calls under a cap, with and without a limit on shards, against every way there is."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random
from typing import Any

import pytest

from keylane.contract.shards import SPACE
from keylane.errors import UsageError
from keylane.keyspace import cuts
from keylane.keyspace.cuts import at_most, even_cuts, fewest_calls, greedy_cuts
from keylane.keyspace.layout import Shard, ShardLayout, layout_of, new_layout
from keylane.keyspace.load import LoadCurve, from_layout, from_points
from keylane.keyspace.reshard import difference


def loaded(*loads: float) -> ShardLayout:
    shards = new_layout(len(loads)).open
    return layout_of(Shard(one.id, one.start, one.end, load) for one, load in zip(shards, loads, strict=True))


def fullest(curve: LoadCurve, starts: list[int]) -> float:
    return max(curve.between(*one) for one in zip(starts, [*starts[1:], SPACE], strict=True))


def test_a_hot_shard_is_halved_and_no_other_is_touched() -> None:
    layout = loaded(10, 1, 1, 1)
    curve = from_layout(layout)
    chosen = fewest_calls(layout, curve, 6)
    assert (len(chosen.starts), set(layout.starts) <= set(chosen.starts)) == (5, True)
    assert fullest(curve, chosen.starts) == pytest.approx(5)


@pytest.mark.parametrize(("loads", "cap", "starts"), [((9,), 5, [0, 2**127]), ((30, 1), 11, None), ((7,), 1, None)])
def test_a_shard_of_even_load_is_cut_where_equal_shards_are(loads: tuple[float], cap: float, starts: Any) -> None:
    layout = loaded(*loads)
    chosen = fewest_calls(layout, from_layout(layout), cap)
    if starts is None:
        parts, width = len(chosen.starts) - len(loads) + 1, layout.open[0].width
        starts = [n * (width // parts) for n in range(parts)] + layout.starts[1:]
    assert chosen.starts == starts


def test_a_cap_that_needs_more_shards_than_there_can_be_is_refused_at_once() -> None:
    layout = loaded(900, 100)
    with pytest.raises(UsageError, match="20,000 shards"):
        fewest_calls(layout, from_layout(layout), 0.001)


def test_with_fewer_shards_cold_ones_merge_in_the_same_programme() -> None:
    layout = loaded(10, 1, 1, 1)
    curve = from_layout(layout)
    chosen = at_most(layout, curve, 6, 3)
    assert (len(chosen.starts), difference(layout, chosen.starts)) == (3, 3)
    assert fullest(curve, chosen.starts) <= 6
    with pytest.raises(UsageError) as caught:
        at_most(layout, curve, 6, 2)
    assert "--shards 3" in str(caught.value)


def test_a_layout_under_the_cap_stays() -> None:
    layout = loaded(1, 2, 3)
    assert fewest_calls(layout, from_layout(layout), 3).starts == layout.starts
    assert at_most(layout, from_layout(layout), 3, 3).starts == layout.starts


def best_of_all_ways(layout: ShardLayout, curve: LoadCurve, cap: float, shards: int) -> int:
    """The fewest calls over every choice of boundaries: old ones, and the starts of keys."""
    places = sorted({*layout.boundaries, *(key for key in curve.starts if key)})
    best = 99
    for size in range(shards):
        for chosen in combinations(places, size):
            starts = [0, *chosen]
            if fullest(curve, starts) <= cap:
                best = min(best, difference(layout, starts))
    return best


@pytest.mark.parametrize("seed", range(25))
def test_no_way_needs_fewer_calls(seed: int) -> None:
    rng = Random(seed)
    layout = new_layout(rng.randint(2, 4))
    curve = from_points([(rng.getrandbits(128), float(rng.randint(1, 9))) for _ in range(7)])
    cap = max(9.0, curve.total / rng.uniform(1.5, 4))
    needed = len(greedy_cuts(curve, 0, SPACE, cap)) + 1
    for shards in (needed, needed + 1):
        chosen = at_most(layout, curve, cap, shards)
        assert difference(layout, chosen.starts) == best_of_all_ways(layout, curve, cap, shards)
        assert (len(chosen.starts) <= shards, fullest(curve, chosen.starts) <= cap) == (True, True)
    free = fewest_calls(layout, curve, cap)
    assert difference(layout, free.starts) == best_of_all_ways(layout, curve, cap, len(layout.open) + 7)


def test_a_programme_that_forgets_merges_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with runs of one old shard only, nothing can merge."""
    layout = loaded(10, 1, 1, 1)
    monkeypatch.setattr(cuts, "_MOST_WORK", 0)
    monkeypatch.setattr(cuts, "_LONGEST_RUN", 1)
    with pytest.raises(UsageError):
        at_most(layout, from_layout(layout), 6, 3)


@pytest.mark.parametrize("seed", range(10))
def test_a_price_of_a_shard_comes_close_and_keeps_both_limits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    layout = new_layout(rng.randint(10, 30))
    curve = from_points([(rng.getrandbits(128), rng.paretovariate(1.3)) for _ in range(500)])
    cap = max(curve.total / len(layout.open) * 1.4, *(b - a for a, b in pairwise(curve.before)))
    shards = len(greedy_cuts(curve, 0, SPACE, cap)) + rng.randint(2, 10)
    exact = at_most(layout, curve, cap, shards)
    monkeypatch.setattr(cuts, "_MOST_WORK", 0)
    priced = at_most(layout, curve, cap, shards)
    assert (exact.proven, priced.proven, len(priced.starts) <= shards) == (True, False, True)
    assert fullest(curve, priced.starts) <= cap * (1 + 1e-6)
    assert difference(layout, exact.starts) <= difference(layout, priced.starts) <= difference(layout, exact.starts) + 3


def test_a_hot_key_is_cut_off_from_its_neighbours_and_from_nothing_else() -> None:
    layout = new_layout(1)
    curve = from_points([(2**126, 1.0), (2**127, 50.0), (3 * 2**126, 1.0)])
    chosen = fewest_calls(layout, curve, 10)
    assert chosen.starts == [0, 2**127, 3 * 2**126]
    alone = from_points([(2**126, 50.0), (3 * 2**126, 1.0)])
    assert fewest_calls(new_layout(2), alone, 10).starts == new_layout(2).starts


def test_beside_hot_keys_every_other_shard_keeps_the_cap() -> None:
    """Two keys of 300 among many of 1 and a cap of 60: the mean of the parts is over the cap, and no part need be."""
    rng, layout = Random(4), new_layout(1)
    points = [(rng.getrandbits(128), 1.0) for _ in range(1_000)] + [(2**126, 300.0), (2**127 + 5, 300.0)]
    curve = from_points(points)
    chosen = fewest_calls(layout, curve, 60)
    parts = [curve.between(*one) for one in zip(chosen.starts, [*chosen.starts[1:], SPACE], strict=True)]
    assert sorted(load for load in parts if load > 60) == [300, 300]
    assert curve.keys_over(60) == 2
    assert len(chosen.starts) <= 1_000 // 60 + 1 + 2 * 3, "as few as greedy cuts"
    cut = layout_of(Shard(str(n), a, b - 1) for n, (a, b) in enumerate(pairwise([*chosen.starts, SPACE])))
    assert fewest_calls(cut, curve, 60).starts == chosen.starts, "a second plan has nothing to add"


def test_every_part_has_two_keys_also_at_the_ends() -> None:
    hot = [(n, 5.0) for n in (0, 1, 2, 3, SPACE - 2, SPACE - 1)]
    starts = fewest_calls(new_layout(1), from_points(hot), 5).starts
    widths = [b - a for a, b in zip(starts, [*starts[1:], SPACE], strict=True)]
    assert min(widths) >= 2
    layout_of(Shard(str(n), a, a + w - 1) for n, (a, w) in enumerate(zip(starts, widths, strict=True)))


def test_parts_are_as_even_as_so_many_can_be() -> None:
    curve = from_layout(loaded(9.0))
    starts = [0, *even_cuts(curve, 0, SPACE, 4)]
    parts = [curve.between(*one) for one in zip(starts, [*starts[1:], SPACE], strict=True)]
    assert parts == [pytest.approx(3, rel=1e-6)] * 3

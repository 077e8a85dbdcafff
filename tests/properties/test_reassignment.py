"""A reassignment against all that there are, on clusters small enough to try them; and its promises on large ones."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keylane.brokers.layout import Broker, Lane, Layout, figures, spread
from keylane.brokers.rebalance import reassignment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.brokers.rebalance import Reassignment


@st.composite
def small_layouts(draw: st.DrawFn, racks: tuple[str | None, ...] = (None,)) -> Layout:
    """Three or four brokers, up to five lanes."""
    size = draw(st.integers(3, 4))
    brokers = tuple(Broker(i + 1, racks[i % len(racks)]) for i in range(size))
    lists = st.permutations(range(1, size + 1))
    lanes = []
    for p in range(draw(st.integers(1, 5))):
        replicas = tuple(draw(lists)[: draw(st.integers(1, 2))])
        lanes.append(Lane("t", p, replicas, draw(st.sampled_from(replicas)), replicas, draw(st.integers(0, 9))))
    return Layout(brokers, tuple(lanes))


def racks_of(layout: Layout, brokers: tuple[int, ...]) -> int:
    return len({layout.racks.get(broker) for broker in brokers})


def every_state(layout: Layout) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to put the lanes' copies that keeps their number, and no fewer racks."""
    ids = [broker.id for broker in layout.brokers]
    choices = [
        [
            to
            for to in combinations(ids, len(lane.replicas))
            if not layout.has_racks or racks_of(layout, to) >= racks_of(layout, lane.replicas)
        ]
        for lane in layout.lanes
    ]
    return product(*choices)


def least_bytes(layout: Layout) -> int | None:
    """The fewest bytes that bring the copies into balance, by trying everything; None when nothing does."""
    costs = [
        sum((lane.size or 0) * len(set(to) - set(lane.replicas)) for lane, to in zip(layout.lanes, state, strict=True))
        for state in every_state(layout)
        if spread([Counter(b for to in state for b in to)[broker.id] for broker in layout.brokers]).even
    ]
    return min(costs, default=None)


def least_leader_changes(change: Reassignment) -> int | None:
    """The fewest lanes with another first replica, given where the copies end up; None when no order is even."""
    lanes = change.after
    before = {move.place: move.before for move in change.moves}
    found = []
    for first in product(*(lane.replicas for lane in lanes)):
        if spread([Counter(first)[broker.id] for broker in change.brokers]).even:
            firsts = [before.get(lane.place, lane.replicas)[0] for lane in lanes]
            kept = [old in lane.replicas for old, lane in zip(firsts, lanes, strict=True)]
            found.append(sum(a != b for a, b, stays in zip(first, firsts, kept, strict=True) if stays))
    return min(found, default=None)


@given(layout=small_layouts())
def test_no_reassignment_that_balances_moves_fewer_bytes(layout: Layout) -> None:
    change = reassignment(layout)
    assert change.bytes == least_bytes(layout)
    assert figures(Layout(layout.brokers, change.after)).replicas.even


@given(layout=small_layouts())
def test_no_order_of_replicas_that_balances_leaders_changes_fewer_of_them(layout: Layout) -> None:
    change = reassignment(layout)
    least = least_leader_changes(change)
    assume(least is not None)
    firsts = {lane.place: lane.replicas[0] for lane in layout.lanes}
    after = {lane.place: lane.replicas for lane in change.after}
    assert sum(firsts[place] in to and firsts[place] != to[0] for place, to in after.items()) == least
    assert figures(Layout(layout.brokers, change.after)).leaders.even


@given(layout=small_layouts(("a", "b")))
def test_with_racks_the_balance_is_reached_where_there_is_one(layout: Layout) -> None:
    change, least = reassignment(layout), least_bytes(layout)
    assert held(layout, change) == []
    if least is not None:
        assert figures(Layout(layout.brokers, change.after)).replicas.even
        assert change.bytes is not None
        assert least <= change.bytes


def held(layout: Layout, change: Reassignment) -> list[str]:
    """What a change breaks of what it promises."""
    after = {lane.place: lane for lane in change.after}
    known = {broker.id for broker in layout.brokers}
    broken = [] if list(after) == [lane.place for lane in layout.lanes] else ["a lane lost or made"]
    for lane in layout.lanes:
        new = after[lane.place].replicas
        broken += ["a broker twice"] if len(set(new)) != len(new) else []
        broken += ["another replication factor"] if len(new) != len(lane.replicas) else []
        broken += ["an unknown broker"] if not set(new) - set(lane.replicas) <= known else []
        whole = layout.has_racks and set(lane.replicas) <= known
        broken += ["fewer racks"] if whole and racks_of(layout, new) < racks_of(layout, lane.replicas) else []
        broken += ["a lane that is not whole moved"] if new != lane.replicas and not lane.is_whole else []
    moved = {move.place: move.replicas for move in change.moves}
    same = {lane.place: lane.replicas for lane in layout.lanes} | moved
    return broken + (
        [] if same == {place: lane.replicas for place, lane in after.items()} else ["moves and end differ"]
    )


def random_layout(seed: int, size: int, lanes: int, racks: int = 0, new: int = 0) -> Layout:
    """Lanes of unequal sizes on brokers of unequal favour, some of them new and empty."""
    chance = random.Random(seed)
    brokers = tuple(Broker(i + 1, f"rack-{i % racks}" if racks else None) for i in range(size))
    favour = [chance.uniform(0.5, 1.0) for _ in range(size - new)]
    return Layout(brokers, tuple(_random_lane(chance, p, favour) for p in range(lanes)))


def _random_lane(chance: random.Random, partition: int, favour: list[float]) -> Lane:
    order = sorted(range(len(favour)), key=lambda i: chance.random() ** (1 / favour[i]), reverse=True)
    replicas = tuple(i + 1 for i in order[: chance.choice([1, 2, 3, 3, 3])])
    behind = chance.random() < 0.01
    isr = replicas[:-1] if behind else replicas
    leader = -1 if not isr else chance.choice(isr)
    return Lane(f"topic-{partition % 7}", partition, replicas, leader, isr, int(chance.paretovariate(1.2) * 1e6))


@pytest.mark.parametrize(
    ("size", "lanes", "racks", "new"),
    [
        (3, 1_000, 0, 0),
        (4, 1_000, 2, 1),
        pytest.param(6, 2_000, 3, 2, marks=pytest.mark.faults),
        pytest.param(12, 3_000, 4, 0, marks=pytest.mark.faults),
        pytest.param(12, 3_000, 0, 3, marks=pytest.mark.faults),
        pytest.param(30, 5_000, 3, 0, marks=pytest.mark.faults),
    ],
)
def test_every_promise_holds_on_large_clusters(size: int, lanes: int, racks: int, new: int) -> None:
    layout = random_layout(size + lanes, size, lanes, racks, new)
    change = reassignment(layout)
    found = figures(Layout(layout.brokers, change.after))
    assert held(layout, change) == []
    assert found.replicas.even
    assert found.leaders.even
    assert reassignment(layout) == change


@given(layout=small_layouts(("a", "b")))
def test_what_is_fixed_is_in_balance_and_asks_for_nothing_more(layout: Layout) -> None:
    assert reassignment(Layout(layout.brokers, reassignment(layout).after)).moves == ()


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (((1, 1), (2, 3)), "a broker twice"),
        (((1,), (2, 3)), "another replication factor"),
        (((1, 9), (2, 3)), "an unknown broker"),
        (((1, 3), (2, 3)), "fewer racks"),
    ],
)
def test_a_planted_breach_is_noticed(planted: tuple[tuple[int, ...], ...], said: str) -> None:
    brokers = (Broker(1, "a"), Broker(2, "b"), Broker(3, "a"), Broker(4, "b"))
    lanes = tuple(Lane("t", p, to, to[0], to, 1) for p, to in enumerate([(1, 2), (2, 3)]))
    layout = Layout(brokers, lanes)
    after = tuple(replace(lane, replicas=to) for lane, to in zip(lanes, planted, strict=True))
    assert held(layout, reassignment(layout)) == []
    assert said in held(layout, replace(reassignment(layout), after=after))

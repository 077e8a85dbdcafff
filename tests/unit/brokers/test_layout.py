"""The figures of a layout, each with a layout that has just that fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.brokers.example_clusters import lane, layout, on_two_brokers

from keylane.brokers.layout import Broker, figures, fingerprint, spread

if TYPE_CHECKING:
    from keylane.brokers.layout import Layout

WHOLE = layout(lane(0, 1, 2), lane(1, 2, 3), lane(2, 3, 1), racks=("a", "b", "c"))


def test_a_layout_without_a_fault_has_none() -> None:
    found = figures(WHOLE)
    assert (found.replicas.counts, found.leaders.counts, found.bytes) == ((2, 2, 2), (1, 1, 1), (2_000_000,) * 3)
    assert (found.replicas.over_min, found.replicas.over_mean, found.replicas.even) == (1.0, 1.0, True)
    assert (found.under_replicated, found.offline, found.not_preferred, found.rack_violations) == (0, 0, 0, 0)
    assert (found.below_min_isr, found.over_limit) == (None, ())


@pytest.mark.parametrize(
    ("fault", "name", "value"),
    [
        (lane(0, 1, 2, isr=(1,)), "under_replicated", 1),
        (lane(0, 1, 2, isr=(), leader=-1), "offline", 1),
        (lane(0, 1, 2, leader=2), "not_preferred", 1),
        (lane(0, 1, 2, isr=(1,), min_isr=2), "below_min_isr", 1),
        (lane(0, 1, 2, min_isr=2), "below_min_isr", 0),
        (lane(0, 1, 4), "rack_violations", 1),
        (lane(0, 1, 2, size=None), "bytes", None),
    ],
)
def test_each_fault_is_counted(fault: Any, name: str, value: int | None) -> None:
    found = figures(layout(fault, lane(1, 2, 3), lane(2, 3, 1), brokers=4, racks=("a", "b", "c")))
    assert getattr(found, name) == value


def test_brokers_over_the_limit_are_named() -> None:
    assert figures(on_two_brokers(), limit=5).over_limit == (1, 2)
    assert figures(on_two_brokers(), limit=6).over_limit == ()


def test_racks_are_not_judged_where_a_broker_says_none() -> None:
    assert figures(layout(lane(0, 1, 3), racks=("a", None))).rack_violations is None


def test_a_copy_on_a_broker_that_is_gone_is_on_nobodys_count() -> None:
    found = figures(layout(lane(0, 1, 9, isr=(1,))))
    assert (found.replicas.counts, found.bytes, found.under_replicated) == ((1, 0, 0), (1_000_000, 0, 0), 1)


@pytest.mark.parametrize(
    ("counts", "even"),
    [([13, 10], True), ([131, 100], False), ([1, 0], True), ([2, 0], False), ([], True), ([0], True)],
)
def test_even_is_within_the_alert_or_one_apart(counts: list[int], even: bool) -> None:
    assert spread(counts).even is even


def changed(**more: Any) -> Layout:
    return layout(lane(0, 1, 2, **more), lane(1, 2, 3), lane(2, 3, 1), racks=("a", "b", "c"))


def print_of(one: Layout) -> str:
    return fingerprint(one.brokers, {found.place: found.replicas for found in one.lanes})


def test_a_fingerprint_is_of_brokers_racks_and_replica_lists_and_of_nothing_else() -> None:
    assert print_of(changed(leader=2, size=5, isr=(2,))) == print_of(WHOLE)
    lists = {found.place: found.replicas for found in WHOLE.lanes}
    others = [
        fingerprint(WHOLE.brokers, {**lists, ("t", 0): (2, 1)}),
        fingerprint(WHOLE.brokers, {**lists, ("u", 0): (1,)}),
        fingerprint(WHOLE.brokers[:2], lists),
        fingerprint([Broker(1, "z"), *WHOLE.brokers[1:]], lists),
    ]
    assert len({print_of(WHOLE), *others}) == 5

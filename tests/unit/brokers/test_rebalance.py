"""What a reassignment moves, what it leaves alone, and what it says it costs."""

from __future__ import annotations

import pytest
from tests.unit.brokers.example_clusters import lane, layout, on_two_brokers

from keylane.brokers.layout import Layout, figures
from keylane.brokers.rebalance import Band, Item, kafka_json, reassignment, settled


def test_a_cluster_in_balance_asks_for_nothing() -> None:
    change = reassignment(layout(lane(0, 1, 2), lane(1, 2, 3), lane(2, 3, 1)))
    assert change.is_empty
    assert (change.copies, change.leaders, change.bytes, change.seconds(1)) == (0, 0, 0, 0.0)


def test_an_empty_broker_gets_its_share_and_no_more_moves_than_that() -> None:
    found = on_two_brokers()
    change = reassignment(found)
    after = figures(Layout(found.brokers, change.after))
    assert (after.replicas.counts, after.leaders.counts) == ((4, 4, 4), (2, 2, 2))
    assert (change.copies, change.bytes) == (4, 4_000_000)
    assert change.received() == {1: 0, 2: 0, 3: 4_000_000}
    sent = change.sent()
    assert sent is not None
    assert sum(sent.values()) == 4_000_000
    assert change.seconds(1_000_000) == 4.0
    assert change.seconds(None) is None


def test_leaders_are_evened_out_by_the_order_of_lists_alone() -> None:
    """Every list begins with broker 1: nothing is copied, and the lists name the same brokers as before."""
    found = layout(*(lane(p, 1, 2, 3) for p in range(6)))
    change = reassignment(found)
    assert (change.copies, change.bytes, len(change.moves), change.leaders) == (0, 0, 4, 4)
    assert all(set(move.replicas) == set(move.before) for move in change.moves)
    assert figures(Layout(found.brokers, change.after)).leaders.counts == (2, 2, 2)


def test_a_leader_that_is_not_the_preferred_one_is_elected_and_no_list_changes() -> None:
    change = reassignment(layout(lane(0, 1, 2, leader=2), lane(1, 2, 3), lane(2, 3, 1)))
    assert (change.moves, change.elections, change.leaders) == ((), (("t", 0),), 1)


@pytest.mark.parametrize("fault", [{"isr": (1,)}, {"isr": (), "leader": -1}], ids=["a copy behind", "without a leader"])
def test_lanes_that_are_not_whole_are_counted_and_stay(fault: dict[str, object]) -> None:
    change = reassignment(on_two_brokers(**fault))
    assert change.is_empty


def test_lanes_with_a_copy_on_a_broker_that_is_gone_stay() -> None:
    assert reassignment(layout(*(lane(p, 1, 9) for p in range(6)))).moves == ()


def test_only_the_topics_that_are_meant_are_moved_and_all_are_counted() -> None:
    mine = [lane(p, 1, 2, topic="mine") for p in range(12)]
    other = [lane(p, 1, 2, topic="other", size=1) for p in range(6)]
    change = reassignment(layout(*mine, *other), topics=["mine"])
    assert {move.topic for move in change.moves} == {"mine"}
    assert figures(Layout(change.brokers, change.after)).replicas.even


def test_a_replication_factor_of_all_brokers_cannot_be_uneven_and_moves_nothing() -> None:
    assert reassignment(layout(*(lane(p, *(1, 2, 3)) for p in range(4)), brokers=3)).copies == 0


def test_what_cannot_be_fixed_is_brought_as_near_as_possible() -> None:
    """Two racks, and every lane on both: the one broker of rack b keeps a copy of each."""
    found = layout(*(lane(p, 1, 2) for p in range(6)), racks=("a", "b", "a"))
    change = reassignment(found)
    after = figures(Layout(found.brokers, change.after))
    assert after.replicas.counts == (3, 6, 3)
    assert not after.replicas.even


def test_without_sizes_the_fewest_copies_move_and_the_bytes_are_not_known() -> None:
    change = reassignment(on_two_brokers(size=None))
    assert (change.copies, change.bytes, change.received(), change.seconds(1)) == (4, None, None, None)


def test_a_lane_of_unknown_size_moves_last() -> None:
    found = layout(*(lane(p, 1, size=None if p < 2 else 10**9) for p in range(4)), lane(4, 2), lane(5, 2))
    assert {move.partition for move in reassignment(found).moves} <= {2, 3, 4, 5}


def test_kafkas_own_form() -> None:
    assert kafka_json([("t", 0, (3, 2))]) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}],
    }


def test_a_way_over_a_third_place_is_taken_where_it_is_cheaper() -> None:
    """The heavy item could go straight from 0 to 2; a light one goes from 0 to 1, and another light one from 1 to 2."""
    items = [Item((0,), 9), Item((0,), 1, frozenset({1})), Item((1,), 1)]
    assert settled(items, 3, Band(1, 1)).places == ((0,), (1,), (2,))

"""A lane's entries: joined in order, each once; and how long each is the newest."""

from __future__ import annotations

from tests.unit.matching.example_tables import LEFT, at, entries, rows

from keylane.matching.timeline import NEVER, empty_entries, last_seen, merged, until

KEY = ("driver", "ts", "offset", "kind")


def test_entries_come_into_order_and_what_comes_twice_counts_once() -> None:
    known = merged(entries(at("b", 5), at("a", 9)), entries(at("a", 1, 7), at("b", 5), at("a", 1, 2)))
    assert rows(known, "driver", "ts", "offset") == [("a", 1, 2), ("a", 1, 7), ("a", 9, 0), ("b", 5, 0)]


def test_a_ping_counts_more_than_a_tombstone_at_its_own_moment() -> None:
    for one, other in ((at("a", 1), at("a", 1, kind=LEFT)), (at("a", 1, kind=LEFT), at("a", 1))):
        assert rows(merged(entries(one), entries(other)), "kind") == [(2,)]


def test_nothing_and_nothing_is_nothing() -> None:
    assert merged(empty_entries(), empty_entries()).num_rows == 0
    assert until(empty_entries()).tolist() == []


def test_an_entry_is_the_newest_until_the_next_of_its_driver() -> None:
    known = entries(at("a", 1), at("a", 4, 1), at("a", 4, 2), at("b", 2))
    assert until(known).tolist() == [4, 4, NEVER, NEVER]


def test_an_entry_is_seen_as_long_as_it_is_not_too_old() -> None:
    known = entries(at("a", 1), at("a", 40), at("b", NEVER - 3))
    assert last_seen(known, 10).tolist() == [12, 51, NEVER]
    assert last_seen(known, None).tolist() == [40, NEVER, NEVER]

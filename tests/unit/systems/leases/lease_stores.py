"""What every store of leases has to do, whichever it is: run over two stores of one group, opened apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.groups.ownership import Acquire, Release, Renew

if TYPE_CHECKING:
    from keylane.groups.ownership import LeaseStore

#: Long enough for a busy machine, and the longest that the ensemble of the tests grants but two seconds.
TTL = 8.0


def check_store(one: LeaseStore, other: LeaseStore) -> None:
    """Two instances of a group with two ids take, renew, release; terms grow by one for each lease that is given."""
    first = one.answer(Acquire("a", (0, 1), TTL))
    assert first is not None
    assert (first.instance, first.term, first.owner) == (0, 1, "a")
    second = other.answer(Acquire("b", (0, 1), TTL))
    assert second is not None
    assert (second.instance, second.term) == (1, 2)
    assert [one.answer(Acquire("c", (k,), TTL)) for k in (1,)] == [None]
    assert [(held.instance, held.term, held.owner) for held in other.read()] == [(0, 1, "a"), (1, 2, "b")]
    assert one.answer(Renew(first)) is not None
    assert one.answer(Release(first)) is not None
    assert one.answer(Renew(first)) is None
    assert [held.owner for held in one.read()] == ["", "b"]
    third = other.answer(Acquire("c", (0,), TTL))
    assert third is not None
    assert third.term == 3
    assert one.answer(Renew(first)) is None
    # A store that has lost what it gave goes on above what somebody else has kept of it, and never below its own.
    for above, term in ((40, 41), (7, 42)):
        held = other.answer(Release(third))
        assert held is not None
        third = other.answer(Acquire("c", (0,), TTL, above))
        assert third is not None
        assert third.term == term

"""Leases, claims and the fence, as values: no clock runs here. The stores: tests/unit/systems/leases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.errors import UsageError
from keylane.groups.ownership import (
    Acquire,
    Claim,
    Lease,
    LeaseTable,
    Release,
    Renew,
    TermFence,
    Terms,
    claim_of,
    lanes_of,
)


@given(st.integers(1, 40), st.integers(0, 300))
def test_every_lane_has_one_id_and_one_more_lane_moves_none(instances: int, lanes: int) -> None:
    owned = [list(lanes_of(k, instances, lanes)) for k in range(instances)]
    assert sorted(lane for one in owned for lane in one) == list(range(lanes))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1
    assert [list(lanes_of(k, instances, lanes + 1))[: len(owned[k])] for k in range(instances)] == owned


@pytest.mark.parametrize(("instance", "instances"), [(3, 3), (-1, 3), (0, 0)])
def test_an_id_that_the_group_does_not_have_is_refused(instance: int, instances: int) -> None:
    with pytest.raises(UsageError):
        lanes_of(instance, instances, 8)
    with pytest.raises(UsageError):
        claim_of("a", instances, Terms(), instance)


@pytest.mark.parametrize(
    "terms",
    [
        {"ttl": 0},
        {"ttl": float("nan")},
        {"ttl": float("inf")},
        {"every": 10},
        {"every": -1},
        {"drift": 1},
        {"drift": -0.1},
    ],
)
def test_terms_that_cannot_hold_are_refused(terms: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Terms(**terms)


def test_a_live_lease_is_given_to_nobody_not_even_to_its_owner() -> None:
    table, mine = LeaseTable.of(1).answer(Acquire("a", (0,), 10), now=0)
    assert mine is not None
    assert [table.answer(Acquire(who, (0,), 10), now=9.9)[1] for who in "ab"] == [None, None]


def test_a_released_lease_is_free_at_once_and_its_term_is_not_used_again() -> None:
    table, mine = LeaseTable.of(1).answer(Acquire("a", (0,), 10), now=0)
    assert mine is not None
    table, _ = table.answer(Release(mine), now=1)
    assert table.answer(Renew(mine), now=1)[1] is None
    assert table.answer(Acquire("b", (0,), 10), now=1)[1] == Lease(0, 2, "b", 10, 11)


def test_a_lease_that_is_over_is_not_renewed_though_nobody_has_taken_it() -> None:
    table, mine = LeaseTable.of(1).answer(Acquire("a", (0,), 10), now=0)
    assert mine is not None
    assert table.answer(Renew(mine), now=10)[1] is None
    assert table.answer(Renew(mine), now=9)[1] == replace(mine, expires=19)


def test_a_clock_that_began_anew_ends_leases() -> None:
    table, mine = LeaseTable.of(1).answer(Acquire("a", (0,), 10), now=1e6)
    assert mine is not None
    assert table.answer(Acquire("b", (0,), 10), now=5)[1] == Lease(0, 2, "b", 10, 15)


#: Who asks for what, and how much later than the request before.
STEPS = st.tuples(st.sampled_from("abcd"), st.sampled_from(["acquire", "renew", "release"]), st.floats(0, 15))


@given(st.lists(STEPS, max_size=60))
def test_ids_have_one_holder_and_terms_only_grow(steps: list[tuple[str, str, float]]) -> None:
    table, held, now, terms = LeaseTable.of(2), dict[str, Lease](), 0.0, [0]
    for who, what, later in steps:
        now += later
        before = [lease for lease in table.leases if lease.is_live(now)]
        if what == "acquire":
            table, answer = table.answer(Acquire(who, (0, 1), 10), now)
            assert (answer is None) == (len(before) == 2)
            if answer is not None:
                assert answer.instance not in {lease.instance for lease in before}
                terms.append(answer.term)
                held[who] = answer
        elif who in held:
            table, answer = table.answer(Renew(held[who]) if what == "renew" else Release(held[who]), now)
            assert (answer is not None) == (held[who].term in {lease.term for lease in before})
    assert terms == sorted(set(terms))


def test_a_holder_stops_before_the_store_ends_its_lease() -> None:
    """Also with the slowest clock that the terms allow for: one that shows 0.9 s for each second of the store."""
    terms = Terms(ttl=10, drift=0.1)
    claim = claim_of("a", 1, terms)
    table, lease = LeaseTable.of(1).answer(claim.request(0) or pytest.fail("no request"), now=500)
    claim = claim.answered(Acquire("a", (0,), 10), sent=0, answer=lease, now=0)
    over = next(tenth for tenth in range(200) if table.answer(Acquire("b", (0,), 10), 500 + tenth / 10)[1])
    assert not claim.holds(over / 10 * 0.9)
    assert claim.holds(over / 10 * 0.9 - 0.1)
    assert claim.holds(over / 10 * 0.8), "twin: a slower clock than allowed for"


def test_late_and_repeated_answers_change_nothing() -> None:
    asked = Acquire("a", (0, 1), 10)
    claim = Claim("a", (0, 1), Terms(ttl=10)).answered(asked, 0, Lease(0, 1, "a", 10, 10), now=1)
    assert claim.answered(asked, 0, Lease(1, 2, "a", 10, 10), now=2) == claim
    renewed = claim.answered(Renew(Lease(0, 1, "a", 10, 10)), 5, Lease(0, 1, "a", 10, 15), now=5)
    assert renewed.answered(Renew(Lease(0, 1, "a", 10, 10)), 2, Lease(0, 1, "a", 10, 12), now=6).until == renewed.until
    lost = renewed.answered(Renew(Lease(0, 1, "a", 10, 15)), 30, None, now=30)
    again = lost.answered(asked, 30, Lease(0, 7, "a", 10, 40), now=30)
    assert again.answered(Renew(Lease(0, 1, "a", 10, 15)), 30, None, now=31) == again


def test_a_store_that_does_not_answer_is_asked_again_and_the_own_view_runs_out() -> None:
    claim = Claim("a", (0,), Terms(ttl=10)).answered(Acquire("a", (0,), 10), 0, Lease(0, 1, "a", 10, 10), now=0)
    silent = claim.unanswered(2.5, now=2.6)
    assert silent.request(2.6) is None
    assert silent.request(3.75) == Renew(Lease(0, 1, "a", 10, 10))
    assert silent.holds(8.9)
    assert not silent.holds(9.0)
    assert silent.request(9.5) == Renew(Lease(0, 1, "a", 10, 10)), "nobody may have taken it yet"


def test_the_fence_goes_on_from_what_was_kept() -> None:
    fence = TermFence()
    assert fence.accepts("orders/0", 4)
    assert fence.accepts("orders/1", 2)
    assert not TermFence(fence.highest).accepts("orders/0", 3)
    assert TermFence().accepts("orders/0", 3), "twin: a reader that has forgotten"

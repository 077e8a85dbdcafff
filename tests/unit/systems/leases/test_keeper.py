"""The thread that keeps a claim up, over a store in memory that can fall silent. Time passes when a test lets it."""

from __future__ import annotations

import time
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

import pytest

from keylane.errors import BrokerError, UsageError
from keylane.groups.ownership import Acquire, Lease, LeaseTable, Terms, claim_of
from keylane.systems.leases import keeper as keeping
from keylane.systems.leases.keeper import LeaseKeeper

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.groups.ownership import LeaseRequest

TERMS = Terms(12.0)
TTL, EVERY = TERMS.ttl, TERMS.every


class InMemory:
    """A store that raises what it is told to, and the clock that its owners go by."""

    def __init__(self, instances: int = 1) -> None:
        self.table, self.instances, self.turn = LeaseTable.of(instances), instances, Lock()
        self.trouble: Exception | None = None
        self.asked, self.now, self.looks = Counter[str](), 1_000.0, 0

    def clock(self) -> float:
        self.looks += 1
        return self.now

    def answer(self, request: LeaseRequest) -> Lease | None:
        with self.turn:
            self.asked[request.owner if isinstance(request, Acquire) else request.lease.owner] += 1
            if self.trouble is not None:
                raise self.trouble
            self.table, answer = self.table.answer(request, self.now)
            return answer

    def read(self) -> tuple[Lease, ...]:
        return self.table.leases

    def resize(self, instances: int) -> None:
        self.table, self.instances = LeaseTable.of(instances), instances


def keeper_of(store: InMemory, name: str = "a", stuck_seconds: float = 1e6) -> LeaseKeeper:
    return LeaseKeeper(store, claim_of(name, store.instances, TERMS), store.clock, stuck_seconds=stuck_seconds)


def soon(is_true: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.01)


def asked_again(store: InMemory, name: str = "a") -> None:
    """Let the time pass after which the keeper asks anew, until it has."""
    before = store.asked[name]
    store.now += EVERY
    soon(lambda: store.asked[name] > before)


def test_a_lease_is_kept_for_longer_than_it_lives_and_given_back_at_the_end() -> None:
    store = InMemory()
    with keeper_of(store) as keeper:
        soon(keeper.lease)
        lease = keeper.lease()
        assert lease is not None
        began = store.now
        while store.now < began + 2.5 * TTL:
            asked_again(store)
            assert keeper.verify(lease)
        with keeper_of(store, "b") as spare:
            soon(lambda: store.asked["b"])
            asked_again(store, "b")
            assert spare.lease() is None
            assert keeper.verify(lease)
    assert store.table.leases[0].owner == ""


def test_a_store_that_falls_silent_ends_the_own_view_and_no_epoch_is_lost_where_nobody_came() -> None:
    store = InMemory()
    with keeper_of(store) as keeper:
        soon(keeper.lease)
        lease = keeper.lease()
        assert lease is not None
        store.trouble = BrokerError("no answer")
        assert not keeper.verify(lease)
        asked_again(store)
        store.now += TTL
        assert keeper.lease() is None
        assert not keeper.has_lost(lease)
        assert keeper.silence == "no answer"
        store.table = LeaseTable((Lease(0, lease.term, "a", TTL, store.now + TTL),), lease.term)
        store.trouble = None
        asked_again(store)
        soon(lambda: keeper.holds(lease))


def test_an_id_that_another_has_taken_is_lost_and_waited_for() -> None:
    store = InMemory()
    with keeper_of(store) as keeper:
        soon(keeper.lease)
        lease = keeper.lease()
        assert lease is not None
        with store.turn:
            store.table, _ = LeaseTable.of(1).answer(Acquire("x", (0,), TTL), 0)
            store.table, taken = LeaseTable(store.table.leases, 5).answer(Acquire("b", (0,), TTL), store.now)
        assert taken is not None
        asked_again(store)
        soon(lambda: keeper.has_lost(lease))
        assert keeper.lease() is None
        store.now += TTL
        soon(keeper.lease)
        now = keeper.lease()
        assert now is not None
        assert now.term > taken.term


def test_a_loop_that_is_stuck_loses_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "STUCK_LEASES", 1.0)
    store = InMemory()
    with keeper_of(store, stuck_seconds=0.0) as keeper:
        soon(lambda: store.table.leases[0].owner)
        asked = store.asked["a"]
        store.now += 1.1 * TTL
        assert not store.table.leases[0].is_live(store.now)
        looks = store.looks
        soon(lambda: store.looks > looks + 6)
        assert store.asked["a"] == asked
        assert keeper.lease() is None
        soon(keeper.lease)


def test_work_that_takes_long_and_goes_on_keeps_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "STUCK_LEASES", 1.0)
    store = InMemory()
    with keeper_of(store, stuck_seconds=0.0) as keeper:
        soon(keeper.lease)
        lease = keeper.lease()
        assert lease is not None
        began = store.now
        while store.now < began + 4 * TTL:
            asked_again(store)
            keeper.note_progress()
        assert keeper.holds(lease)


@pytest.mark.parametrize("trouble", [UsageError("another number of ids"), TypeError(), KeyError("instances")])
def test_what_will_never_pass_ends_the_loop(trouble: Exception) -> None:
    """An error that nobody thought of, too: the loop would wait for ever for a thread that has ended."""
    store = InMemory()
    store.trouble = trouble
    until = time.monotonic() + 120
    with keeper_of(store) as keeper, pytest.raises(type(trouble)):  # noqa: PT012  asked until it is there
        while time.monotonic() < until:
            keeper.lease()
            time.sleep(0.01)

"""Simulated events a second a core, of groups and of leases, and what leases with and without a fence let through.

The peer is the queue alone: `heapq` with as many events waiting, each of which enters the next and does nothing else.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from random import Random
from time import process_time
from typing import TYPE_CHECKING

from benchmarks.timing import Figure
from keylane.groups.assignors import assignor
from keylane.groups.coordinator import GroupRules
from keylane.groups.exhaustive import SmallGroup
from keylane.groups.group_simulation import GroupSetup, GroupSimulation
from keylane.groups.lease_simulation import LeaseSetup, LeaseSimulation
from keylane.groups.ownership import Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keylane.groups.group_simulation import GroupOutcome
    from keylane.groups.lease_simulation import LeaseOutcome

HOURS, ROUNDS = 20.0, 3
SEEDS, SEED_HOURS = 100, 1.0
WAITING, EVENTS = 40, 1_000_000


def run() -> Iterator[Figure]:
    """Speed, and then what was seen."""
    sticky = assignor("sticky")
    queue = max(_of_the_queue() for _ in range(ROUNDS))
    yield Figure("heapq alone", queue, "events/s")
    groups = max(_speed(GroupSimulation(Random(seed).random, sticky, GroupSetup()).run) for seed in range(ROUNDS))
    yield Figure("two groups, their coordinator and 5 readers", groups, "events/s", at_least=300_000)
    yield Figure("  of the speed of heapq alone", groups / queue, "ratio")
    leases = max(_speed(LeaseSimulation(Random(seed).random, LeaseSetup()).run) for seed in range(ROUNDS))
    yield Figure("3 owners, a spare, 12 lanes, a store and a log", leases, "events/s", at_least=300_000)
    yield Figure("  of the speed of heapq alone", leases / queue, "ratio")
    yield from _zombies()
    yield from _orders(GroupRules(sticky, session=1.0, wait=1.0))


def _speed(simulated: Callable[[float], GroupOutcome | LeaseOutcome]) -> float:
    """Processor time, because other work on the machine is none of the simulator's."""
    begin = process_time()
    outcome = simulated(HOURS)
    return outcome.events / (process_time() - begin)


def _of_the_queue() -> float:
    queue = [(float(number), number, None) for number in range(WAITING)]
    heapify(queue)
    begin = process_time()
    for order in range(WAITING, WAITING + EVENTS):
        when, _, _ = heappop(queue)
        heappush(queue, (when + WAITING, order, None))
    return EVENTS / (process_time() - begin)


def _zombies() -> Iterator[Figure]:
    """Seeds in which a former owner's write was accepted after one of the new owner."""
    name = f"seeds of {SEEDS}, {SEED_HOURS:g} h each, with a zombie's write accepted"
    for how, fenced, drift, most in (
        ("leases alone", False, 0.1, None),
        ("leases alone, owners stop 30 % earlier", False, 0.3, None),
        ("leases and a fence", True, 0.1, 0),
    ):
        setup = LeaseSetup(fenced=fenced, terms=Terms(ttl=10.0, drift=drift))
        outcomes = [LeaseSimulation(Random(seed).random, setup).run(SEED_HOURS) for seed in range(SEEDS)]
        caught = [any(one.rule == "no zombie writes" for one in outcome.broken) for outcome in outcomes]
        yield Figure(f"{how}: {name}", sum(caught), "seeds", at_most=most)
        if fenced:
            yield Figure("  writes that the fence refused there", sum(one.refused for one in outcomes), "writes")


def _orders(rules: GroupRules) -> Iterator[Figure]:
    found = SmallGroup(rules, numbers=2).explore()
    yield Figure(
        "2 members, 2 lanes, 3 generations: states in which every rule holds", found.states, "states", at_least=1e5
    )
    twin = SmallGroup(rules._replace(fenced=False), numbers=2).explore()
    yield Figure("  without the fence: steps to the first broken rule", len(twin.path), "steps")

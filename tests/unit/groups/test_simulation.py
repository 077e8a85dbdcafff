"""The simulator itself: its time, its network, its faults do what they say; and its checks notice what is wrong."""

from __future__ import annotations

from random import Random

import pytest

from keylane.groups.simulation import AcceptedWrites, FencedLog, FreeLanes, Network, Simulation

QUIET = Network(lost=0.0, twice=0.0, late=0.0, delay=0.1)


def simulation(network: Network = QUIET) -> Simulation:
    return Simulation(Random(1).random, network)


def arrivals(network: Network, messages: int = 20_000) -> list[tuple[int, float]]:
    """What arrives of messages that are sent one a second, and after how long."""
    world, seen = simulation(network), list[tuple[int, float]]()
    a, b = world.process("a"), world.process("b")
    for number in range(messages):
        world.at(float(number), lambda n: a.send(b, lambda m: seen.append((m, world.now - m)), n), number)
    world.run(messages * 2.0)
    return seen


def test_a_network_loses_repeats_delays_and_reorders_as_often_as_it_says() -> None:
    seen = arrivals(Network(lost=0.1, twice=0.05, late=0.02, delay=0.1, latest=40.0))
    once = {number for number, _ in seen}
    assert len(once) / 20_000 == pytest.approx(0.9, abs=0.01)
    assert (len(seen) - len(once)) / 20_000 == pytest.approx(0.05, abs=0.01)
    assert sum(after > 1.0 for _, after in seen) / 20_000 == pytest.approx(0.04, abs=0.01)
    assert max(after for _, after in seen) < 80.1
    assert [number for number, _ in seen] != sorted(number for number, _ in seen)


def test_a_quiet_network_carries_everything_once_and_in_order() -> None:
    seen = arrivals(QUIET, 1000)
    assert [number for number, _ in seen] == list(range(1000))


def test_a_cut_is_one_way_and_ends_when_all_cuts_have_ended() -> None:
    world, seen = simulation(), list[str]()
    a, b = world.process("a"), world.process("b")
    world.cut([(a, b)])
    world.cut([(a, b), (b, a)])
    world.heal([(a, b), (b, a)])
    assert not a.send(b, seen.append, "lost")
    assert b.send(a, seen.append, "back")
    world.heal([(a, b)])
    assert a.send(b, seen.append, "there")
    world.run(1.0)
    assert sorted(seen) == ["back", "there"]


def test_a_paused_process_does_on_waking_what_it_was_about_to_do() -> None:
    world, seen = simulation(), list[tuple[str, float]]()
    one = world.process("one")
    one.after(5.0, lambda text: seen.append((text, world.now)), "decided before")
    world.at(1.0, lambda _: one.pause(), None)
    world.at(9.0, lambda _: one.wake(), None)
    world.run(20.0)
    assert seen == [("decided before", 9.0)]


def test_a_crash_loses_timers_and_messages_and_whatever_waited() -> None:
    world, seen = simulation(), list[str]()
    one, other = world.process("one"), world.process("other")
    one.after(5.0, seen.append, "timer")
    other.send(one, seen.append, "message")
    one.pause()
    world.run(1.0)
    one.crash()
    one.start()
    world.run(10.0)
    assert seen == []
    other.send(one, seen.append, "to the new process")
    world.run(11.0)
    assert seen == ["to the new process"]


def test_clocks_drift() -> None:
    world, seen = simulation(), list[float]()
    fast = world.process("fast", 1.25)
    fast.after(10.0, lambda _: seen.append(world.now), None)
    world.run(100.0)
    assert seen == [8.0]
    assert fast.clock() == 125.0


@pytest.mark.parametrize(
    ("written", "broken"),
    [
        ([(1, "a", 1), (1, "a", 2), (2, "b", 3)], []),
        ([(1, "a", 1), (2, "b", 2), (1, "a", 3)], ["no zombie writes"]),
        ([(1, "a", 1), (1, "b", 2)], ["one owner a term"]),
        ([(1, "a", 1), (1, "a", 3)], ["every record once"]),
        ([(1, "a", 1), (1, "a", 1)], ["every record once"]),
    ],
    ids=["right", "zombie", "two owners", "gap", "repeat"],
)
def test_accepted_writes_are_checked(written: list[tuple[int, str, int]], broken: list[str]) -> None:
    world = simulation()
    writes = AcceptedWrites(world)
    for term, owner, position in written:
        writes.note("lane", term, owner, position)
    assert [one.rule for one in world.broken] == broken
    assert writes.accepted == len(written)


@pytest.mark.parametrize("fenced", [True, False])
def test_a_log_with_a_fence_refuses_the_earlier_owner_from_the_announcement_on(fenced: bool) -> None:
    world = simulation()
    log = FencedLog(AcceptedWrites(world), fenced=fenced)
    assert log.open(0, 1) == 0
    assert log.write(0, 1, "a", 1)
    assert log.open(0, 2) == 1
    assert log.write(0, 1, "a", 2) is not fenced
    assert log.write(0, 2, "b", 2)
    assert (log.open(0, 1) is None) is fenced
    assert bool(world.broken) is not fenced


def test_free_lanes_count_from_the_last_fault_and_only_where_somebody_could_take_them() -> None:
    world = simulation()
    free = FreeLanes(world, most=20.0)
    free.see("a", taken=False)
    world.run(15.0)
    free.fault(lambda _: True)
    world.run(30.0)
    free.see("a", taken=True)
    assert (free.longest, world.broken) == (15.0, [])
    free.see("b", taken=False)
    world.run(60.0)
    free.fault(lambda _: False)
    assert world.broken == []
    world.run(90.0)
    free.fault(lambda _: True)
    assert [one.rule for one in world.broken] == ["free lanes are taken"]

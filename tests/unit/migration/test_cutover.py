"""The cut-over as a state machine: the way of a run, waits, refusals, and every interleaving of the small case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.migration.cutover import (
    FOLLOWING,
    OVER,
    PHASES,
    Append,
    CutoverCall,
    CutoverPlan,
    Entry,
    Finished,
    Refuse,
    Wait,
    World,
    accepts,
    may_roll_back,
    may_send,
    next_step,
    opened,
)
from keylane.migration.exhaustive_cutover import SmallCutover
from keylane.migration.gate import LaneGate, MirrorGate

if TYPE_CHECKING:
    from keylane.groups.exhaustive import Exploration

GROWN = CutoverPlan(2, 3, producers=("p",))
NAMED = {
    *("phase none", "phase begun", "phase holding", "phase fenced", "phase growing", "phase open", "phase drained"),
    *("phase done", "all is applied", "appended", "refused", "held by the gate", "waits for producers"),
    *("waits for readers", "two drivers are about to do something"),
}


def driven(plan: CutoverPlan, world: World, entries: list[Entry]) -> list[str]:
    """Append until something else is due; the phases, and what is due then."""
    seen: list[str] = []
    while isinstance(step := next_step(plan, entries, world, 1), Append):
        assert accepts(entries, step.entry)
        entries.append(step.entry)
        seen.append(step.entry.phase)
    return [*seen, type(step).__name__ if not isinstance(step, Wait) else f"wait for {step.why}"]


def test_a_stream_grows_in_these_steps() -> None:
    entries: list[Entry] = []
    world = World(2, (5, 7), applied=(0, 0))
    assert driven(GROWN, world, entries) == ["begun", "holding", "wait for producers"]
    # Whoever is named acknowledges; that all others have stopped is no word for it.
    assert driven(GROWN, world._replace(all_stopped=True), entries) == ["wait for producers"]
    world = world._replace(stopped=frozenset("p"))
    assert driven(GROWN, world._replace(still=False), entries) == ["wait for writes"]
    assert driven(GROWN, world, entries) == ["fenced", "growing", "CutoverCall"]
    assert next_step(GROWN, entries, world, 1) == CutoverCall("grow")
    world = world._replace(lanes=3, ends=(5, 7, 0))
    assert driven(GROWN, world, entries) == ["open", "wait for readers"]
    entry = opened(entries)
    assert entry is not None
    assert (entry.fences, entry.starts) == ((5, 7), (5, 7, 0))
    assert driven(GROWN, world._replace(applied=(5, 7)), entries) == ["drained", "done", "Finished"]
    assert next_step(GROWN, entries, world, 1) == Finished()


def test_who_writes_after_the_fence_raises_it() -> None:
    entries: list[Entry] = []
    world = World(2, (5, 7), stopped=frozenset("p"))
    assert driven(GROWN, world, entries)[-1] == "CutoverCall"
    assert driven(GROWN, world._replace(ends=(5, 8)), entries) == ["growing", "CutoverCall"]
    assert entries[-1].fences == (5, 8)
    assert driven(GROWN, world._replace(ends=(6, 8), still=False), entries) == ["wait for writes"]


def test_readers_without_a_gate_drain_first() -> None:
    plan = GROWN._replace(gated=False)
    world = World(2, (5, 7), stopped=frozenset("p"), applied=(5, 6))
    entries: list[Entry] = []
    assert driven(plan, world, entries)[-1] == "CutoverCall"
    world = world._replace(lanes=3, ends=(5, 7, 0))
    assert next_step(plan, entries, world, 1) == Wait("readers", ("1",))
    assert driven(plan, world._replace(applied=(5, 7)), entries)[0] == "open"


def test_a_lane_count_that_nobody_planned_is_refused_in_every_phase() -> None:
    for entries in ([], [Entry(0, 1, "begun")], [Entry(0, 1, "begun"), Entry(1, 1, "holding")]):
        assert isinstance(next_step(GROWN, entries, World(3, (0, 0, 0)), 1), Refuse)
    grown = [Entry(0, 1, "growing", (0, 0))]
    assert isinstance(next_step(GROWN, grown, World(4, (0,) * 4), 1), Refuse)


def test_a_mirror_copies_holds_and_copies_the_rest() -> None:
    plan = CutoverPlan(4, 2, mirror=True, producers=("p",))
    world = World(2, (5, 7, 0, 1), copied=False)
    entries: list[Entry] = []
    assert driven(plan, world, entries) == ["begun", "copying", "CutoverCall"]
    world = world._replace(copied=True, stopped=frozenset("p"))
    assert driven(plan, world._replace(stopped=frozenset()), entries) == ["holding", "wait for producers"]
    assert driven(plan, world._replace(copied=False), entries) == ["fenced", "CutoverCall"]
    assert driven(plan, world._replace(new_ends=(6, 7)), entries)[0] == "open"
    assert entries[-2].starts == (6, 7)


def test_producers_that_write_to_both_streams_never_stop() -> None:
    plan = CutoverPlan(2, 3, mirror=True, producers=("p",), dual=True)
    world = World(3, (5, 7), copied=True)
    entries: list[Entry] = []
    assert driven(plan, world, entries) == ["begun", "copying", "doubling", "wait for producers"]
    assert may_send(entries, new=False), "they go on with the old stream"
    assert not may_send(entries, new=True)
    world = world._replace(stopped=frozenset("p"), copied=False)
    assert driven(plan, world._replace(settled=False), entries) == ["wait for writes"], "a copy ends at a transaction"
    assert driven(plan, world, entries) == ["CutoverCall"]
    world = world._replace(copied=True, copied_to=(6, 9), new_ends=(5, 5, 5))
    assert driven(plan, world._replace(applied=(6, 8)), entries) == ["open", "wait for readers"]
    assert (entries[-1].fences, entries[-1].starts) == ((6, 9), (5, 5, 5)), "where the copy ended is the fence"
    assert may_send(entries, new=False)
    assert may_send(entries, new=True)
    assert driven(plan, world._replace(applied=(6, 9), translated=False), entries) == ["drained", "CutoverCall"]
    assert driven(plan, world._replace(applied=(6, 9)), entries) == ["done", "Finished"]
    assert not may_send(entries, new=False), "the old stream is written to no more"


def test_a_journal_takes_the_next_entry_of_the_newest_driver_only() -> None:
    journal = [Entry(0, 2, "begun")]
    assert accepts(journal, Entry(1, 2, "holding"))
    assert accepts(journal, Entry(1, 3, "holding"))
    assert not accepts(journal, Entry(1, 1, "holding"))
    assert not accepts(journal, Entry(0, 2, "holding"))
    assert not accepts(journal, Entry(1, 2, "open"))


def test_phases_follow_each_other_to_an_end() -> None:
    assert set(PHASES) == FOLLOWING.keys() - {None}
    assert {phase for phase, following in FOLLOWING.items() if not following} == OVER
    for new in (False, True):
        held = [phase for phase in PHASES if may_send([Entry(0, 1, phase)], new=new)]
        old = ["begun", "copying", "doubling", "resharding", "rolled-back"]
        assert held == (["open", "drained", "done"] if new else old)
    back = [phase for phase in PHASES if may_roll_back([Entry(0, 1, phase)])]
    assert back == ["begun", "copying", "holding", "doubling", "fenced"]


def test_the_gate_of_a_lane_opens_with_its_last_parent() -> None:
    gate = LaneGate((40, 37), (40, 37, 0, 0), ((0,), (1,), (0,), (0, 1)))
    assert gate.waits_for(3, {0: 40, 1: 36}) == (1,)
    assert not gate.allows(3, 0, {0: 40, 1: 36})
    assert gate.allows(2, 0, {0: 40, 1: 36})
    assert gate.allows(1, 36, {0: 0, 1: 36})
    assert not gate.allows(1, 37, {0: 0, 1: 36})
    assert gate.readable({0: 40}, dict.fromkeys(range(4), 50)) == {0: (40, 50), 1: (0, 37), 2: (0, 50), 3: (0, 0)}


def test_a_reader_of_a_mirror_applies_each_record_by_one_stream() -> None:
    begun = [Entry(0, 1, "begun"), Entry(1, 1, "copying"), Entry(2, 1, "doubling")]
    before, back = MirrorGate.of(begun, [(0,)]), MirrorGate.of([*begun, Entry(3, 1, "rolled-back")], [(0,)])
    assert (before.old_allows(0, 5, kept=False), before.old_allows(0, 6, kept=True)) == ("apply", "hold")
    assert back.old_allows(0, 6, kept=True) == "apply", "the old stream is the only one again"
    assert before.new_allows(0, 9, {0: 6}) == back.new_allows(0, 9, {0: 6}) == "hold"
    after = MirrorGate.of([*begun, Entry(3, 1, "open", (6,), (7,))], [(0,)])
    assert [after.old_allows(0, offset, kept=True) for offset in (5, 6)] == ["apply", "skip"]
    assert after.old_allows(0, 6, kept=False) == "hold", "of a producer that did not stop"
    assert [after.new_allows(0, offset, {0: 6}) for offset in (6, 7)] == ["skip", "apply"]
    assert after.new_allows(0, 7, {0: 5}) == "hold"


def check(found: Exploration, states: int) -> None:
    print(found)
    assert found.broken is None, "\n".join(found.path)
    assert found.states > states
    assert NAMED - found.reached.keys() == set()


def test_every_interleaving_of_one_lane_that_becomes_two() -> None:
    check(SmallCutover(keys=((0, 1),)).explore(), 10_000)


@pytest.mark.faults
def test_every_interleaving_of_two_keys() -> None:
    check(SmallCutover().explore(), 100_000)


@pytest.mark.faults
def test_every_interleaving_of_two_lanes_that_become_three_under_three_leases() -> None:
    check(SmallCutover(2, 3, keys=((1, 2),), leases=3, rollback=True).explore(), 90_000)


def test_the_way_back_leaves_the_stream_as_it_was() -> None:
    found = SmallCutover(keys=((0, 1),), crashes=0, rollback=True).explore()
    check(found, 10_000)
    assert found.reached["phase rolled-back"] > 0


@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("gated", "no old record of a key is applied after a new one"),
        ("acknowledged", "what is below a fence is old, and what is behind it is new"),
        ("fenced", "a journal has one entry open"),
    ],
)
def test_a_twin_without_one_guard_is_caught(twin: str, rule: str) -> None:
    found = SmallCutover(keys=((0, 1),))._replace(**{twin: False}).explore()  # type: ignore[arg-type]  # a flag
    print(found.broken, *found.path, sep="\n")
    assert found.broken == rule

"""A mirror, with a pause and with producers that write to both streams: every interleaving of the small case."""

from __future__ import annotations

import pytest

from keylane.migration.cutover import Append, CutoverPlan, Entry, Wait, World, accepts, hold_of, may_copy, next_step
from keylane.migration.exhaustive_mirror import SmallMirror

LOG = "the log of the new stream has each key's records once, in their order, without a gap"
STARTS = "below the starts of the new stream are the copies, and nothing else"
FENCES = "behind a fence is only what its producer keeps"
BOTH = {
    *("phase none", "phase begun", "phase copying", "phase open", "phase drained", "phase done", "all is applied"),
    *("appended", "waits for producers", "waits for readers", "old stream applied", "new stream applied"),
    *("new stream held", "new stream skipped"),
}
PAUSE = BOTH | {"phase holding", "phase fenced"}
DUAL = BOTH | {"phase doubling", "a producer keeps records", "old stream held", "old stream skipped"}
LATE = {"refused", "fenced", "copies nothing", "two copiers", "two drivers are about to do something"}


def check(case: SmallMirror, states: int, named: set[str]) -> None:
    found = case.explore()
    print(case, found)
    assert found.broken is None, "\n".join(found.path)
    assert found.states > states
    assert named - found.reached.keys() == set()


def test_a_driver_copies_behind_an_entry_of_its_own_while_producers_go_on() -> None:
    plan = CutoverPlan(1, 1, mirror=True, producers=("p",), dual=True)
    entries = [Entry(0, 1, "begun"), Entry(1, 1, "copying"), Entry(2, 1, "doubling")]
    world = World(1, (5,), (3,), frozenset("p"), copied_to=(4,))
    late = next_step(plan, entries, world, 1)
    assert isinstance(late, Append)
    assert late.entry.phase == "open"
    step = next_step(plan, entries, world, 2)
    assert isinstance(step, Append)
    assert step.entry.phase == "doubling"
    assert not may_copy(entries, 2)
    entries.append(step.entry)
    assert may_copy(entries, 2)
    assert not accepts(entries, late.entry), "the driver before cannot open where another copies"
    assert hold_of(entries) == 2, "producers acknowledge once"


def test_nobody_goes_on_where_no_producer_is_named_and_none_is_said_to_have_stopped() -> None:
    plan = CutoverPlan(1, 1, mirror=True, dual=True)
    assert next_step(plan, [Entry(0, 1, "doubling")], World(1, (5,)), 1) == Wait("producers")


def test_every_interleaving_of_a_mirror_with_one_driver() -> None:
    check(SmallMirror(leases=1), 2_000, PAUSE)
    check(SmallMirror(leases=1, dual=True), 30_000, DUAL)


def test_every_interleaving_of_a_way_back_from_both_streams() -> None:
    check(SmallMirror(leases=1, crashes=0, dual=True, rollback=True), 10_000, DUAL | {"phase rolled-back"})


@pytest.mark.faults
def test_every_interleaving_of_a_mirror_with_two_drivers() -> None:
    check(SmallMirror(crashes=0), 100_000, PAUSE | LATE)


@pytest.mark.faults
def test_every_interleaving_of_writes_to_both_streams_with_two_drivers() -> None:
    check(SmallMirror(crashes=0, dual=True), 1_000_000, DUAL | LATE | {"doubling again"})


@pytest.mark.faults
def test_every_interleaving_of_two_lanes_that_become_one() -> None:
    check(SmallMirror(2, 1, keys=((0, 0), (1, 0)), leases=1, crashes=0), 10_000, PAUSE)


@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("gated", "records of a key are applied in their order"),
        ("acknowledged", FENCES),
        ("copied_late", "all that is below a fence is in the new stream"),
    ],
)
def test_a_twin_with_a_pause_is_caught(twin: str, rule: str) -> None:
    caught(SmallMirror(leases=1), twin, rule)


@pytest.mark.parametrize(
    ("twin", "rule"),
    [
        ("gated", "records of a key are applied in their order"),
        ("acknowledged", FENCES),
        ("holds_kept", "each record is applied by one stream"),
        ("drops_kept", LOG),
    ],
)
def test_a_twin_that_writes_to_both_streams_is_caught(twin: str, rule: str) -> None:
    caught(SmallMirror(leases=1, dual=True), twin, rule)


def test_two_copiers_that_nobody_fences_are_caught() -> None:
    caught(SmallMirror(), "copier_fenced", LOG)
    caught(SmallMirror(dual=True), "copier_fenced", LOG)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("twin", "dual", "rule"),
    [
        ("own_entry", True, FENCES),
        ("copier_looks", True, STARTS),
        ("fenced", True, STARTS),
        ("fenced", False, FENCES),
    ],
)
def test_a_twin_with_two_drivers_is_caught(twin: str, dual: bool, rule: str) -> None:
    caught(SmallMirror(dual=dual), twin, rule)


def test_a_producer_that_is_killed_while_it_keeps_records_leaves_a_gap_in_the_new_stream() -> None:
    found = SmallMirror(leases=1, crashes=0, dual=True, kills=1).explore()
    assert found.broken == LOG


def caught(case: SmallMirror, twin: str, rule: str) -> None:
    found = case._replace(**{twin: False}).explore()  # type: ignore[arg-type]  # a flag
    print(found.broken, *found.path, sep="\n")
    assert found.broken == rule

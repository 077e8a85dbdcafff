"""Every interleaving of the small case: rules hold in all states, every named state is reached, twins are caught."""

from __future__ import annotations

import pytest
from tests.unit.groups.planted_assignors import sticky

from keylane.groups.coordinator import GroupRules
from keylane.groups.exhaustive import Exploration, SmallGroup, explore

RULES = GroupRules(sticky, session=1.0, wait=1.0)

#: What two dynamic members must meet; a rule that is never put to the test proves nothing.
NAMED = {
    "a lane is to be let go of",
    "a member believes in a lane that it has lost",
    "all is committed",
    "both read",
    "commit refused: stale-generation",
    "commit refused: unknown-member",
    "group empty",
    "group joining",
    "group stable",
    "heartbeat refused: rebalancing",
    "heartbeat refused: unknown-member",
    "join refused: unknown-member",
    "member entering",
    "member joining",
    "member reading",
    "member syncing",
    "sync refused: unknown-member",
}
#: And what two processes with one instance id do.
FENCED = {
    "commit refused: fenced",
    "heartbeat refused: fenced",
    "join refused: fenced",
    "member fenced",
    "sync refused: fenced",
}


def check(found: Exploration, named: set[str], states: int) -> None:
    print(found)
    assert found.broken is None, "\n".join(found.path)
    assert found.states > states
    assert named - found.reached.keys() == set()


def test_two_members_one_lane_two_generations() -> None:
    found = SmallGroup(RULES, lanes=1, numbers=2, generations=2).explore()
    check(found, NAMED - {"a lane is to be let go of", "both read"}, 5_000)


@pytest.mark.faults
def test_two_members_two_lanes_three_generations() -> None:
    found = SmallGroup(RULES, numbers=2, generations=3).explore()
    check(found, NAMED | {"generation 3"}, 100_000)


@pytest.mark.faults
def test_two_processes_with_one_id() -> None:
    found = SmallGroup(RULES, instances=("i", "i"), numbers=3, generations=2).explore()
    check(found, FENCED, 100_000)


def test_two_processes_with_one_id_and_one_lane() -> None:
    check(SmallGroup(RULES, instances=("i", "i"), lanes=1, numbers=2, generations=2).explore(), FENCED, 3_000)


def test_twin_without_the_fence_is_caught_on_the_shortest_way() -> None:
    found = SmallGroup(RULES._replace(fenced=False), numbers=2).explore()
    print(found.broken, *found.path, sep="\n")
    assert found.broken == "no commit of an earlier generation is accepted"
    assert found.path[-1].startswith("arrives: commit of lane 0 from a, number 1 in generation 1")
    assert "the session of a ends" in found.path
    assert len(found.path) == 15


def test_all_states_of_a_small_case_are_found_once() -> None:
    """Two bits that can be set in any order."""

    def moves(state: tuple[int, int]) -> list[tuple[str, tuple[int, int]]]:
        one, two = state
        return [("first -> set", (1, two)), ("second", (one, 1))]

    found = explore((0, 0), moves, lambda _: None, lambda state: ["both"] if state == (1, 1) else [])
    assert found == Exploration(4, 8, 2, {"both": 1, "set": 4}, None, ())
    found = explore((0, 0), moves, lambda state: "both" if state == (1, 1) else None, lambda _: [])
    assert (found.broken, found.path) == ("both", ("first -> set", "second"))

"""What a change of members moves and stops, and for how long."""

from __future__ import annotations

import pytest

from keylane.errors import UnknownNameError, UsageError
from keylane.groups.assignors import ASSIGNORS
from keylane.groups.changes import PROTOCOLS, WaitTiming, carried_out, steps
from keylane.groups.model import Assignment, Lanes, Member

LANES = Lanes.of({"t": 12})
THREE = [Member(name) for name in "ABC"]
TIMING = WaitTiming(round=3.0, restart=30.0, restore=10.0)


def before(name: str) -> Assignment:
    return ASSIGNORS[name](THREE, LANES, None)


def test_every_assignor_has_a_protocol() -> None:
    assert set(PROTOCOLS) == set(ASSIGNORS)


@pytest.mark.parametrize(
    ("name", "moves", "lanes", "longest", "stopped"),
    [
        # Two lanes more for A and for C: each restores both, after a round.
        ("sticky", 4, 12, 3.0 + 20.0, 2),
        ("cooperative-sticky", 4, 4, 3.0 + 20.0, 0),
        ("uniform", 4, 4, 3.0 + 20.0, 0),
        # A gets 4 and 5, C gets 6 and 7.
        ("range", 4, 12, 3.0 + 20.0, 2),
        ("static", 0, 0, 0.0, 0),
    ],
)
def test_a_member_leaves(name: str, moves: int, lanes: int, longest: float, stopped: int) -> None:
    found = carried_out(name, before(name), steps(THREE, remove=["B"]), LANES, TIMING)
    assert (found.moves, found.lanes, found.longest, len(found.stopped)) == (moves, lanes, longest, stopped)


def test_a_member_joins_and_lanes_are_given_up_before_they_are_given() -> None:
    joined = steps(THREE, add=[Member("D")])
    found = carried_out("cooperative-sticky", before("cooperative-sticky"), joined, LANES, TIMING)
    assert (found.moves, found.rounds, found.longest) == (3, 2, 2 * 3.0 + 3 * 10.0)
    assert found.stopped == ("A", "B", "C"), "each gives one lane up"
    eager = carried_out("sticky", before("sticky"), joined, LANES, TIMING)
    assert (eager.lanes, eager.rounds) == (12, 1)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "uniform", "static", "by-load"])
def test_a_member_that_replaces_another_takes_its_lanes_and_nothing_else_moves(name: str) -> None:
    began = before(name)
    replaced = steps(THREE, remove=["B"], add=[Member("D")])
    assert [step.what for step in replaced] == ["remove B, add D"]
    found = carried_out(name, began, replaced, LANES, TIMING)
    assert (found.moves, found.after.of("D")) == (4, began.of("B"))
    one_by_one = [*steps(THREE, remove=["B"]), *steps([THREE[0], THREE[2]], add=[Member("D")])]
    if name != "static":
        assert carried_out(name, began, one_by_one, LANES, TIMING).moves > 4, "twin: two changes move more"


def test_a_rolling_deploy_moves_little_with_static_members_and_much_without() -> None:
    rolled = steps(THREE, rolling=True)
    assert [step.what for step in rolled][:2] == ["stop A", "start A"]
    plain = carried_out("cooperative-sticky", before("cooperative-sticky"), rolled, LANES, TIMING)
    held = carried_out("cooperative-sticky", before("cooperative-sticky"), rolled, LANES, TIMING, static_members=True)
    static = carried_out("static", before("static"), rolled, LANES, TIMING)
    assert plain.moves == 2 * 4 * 3, "each member gives its four lanes away, and takes as many back"
    for found in (held, static):
        assert (found.moves, found.longest, found.lanes, found.rounds) == (0, 30.0, 12, 0)
        assert found.after == found.before
    one = carried_out("static", before("static"), steps(THREE, bounce=["B"]), LANES, TIMING)
    assert (one.lanes, one.stopped) == (4, ("B",))


def test_changes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="'D'"):
        steps(THREE, remove=["D"])
    with pytest.raises(UnknownNameError, match="'D'"):
        steps(THREE, bounce=["D"])
    with pytest.raises(UsageError, match="named twice"):
        steps(THREE, add=[Member("A")])
    with pytest.raises(UsageError, match="needs a member"):
        steps(THREE, remove=["A", "B", "C"])
    with pytest.raises(UsageError, match="nobody to take over"):
        steps(THREE[:1], rolling=True)
    assert len(steps(THREE, remove=["A"], add=[Member("A")])) == 2, "leaves, and comes again"

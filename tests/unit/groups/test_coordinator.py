"""The coordinator, request by request: generations, two phases, sessions, static members, and the fence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.groups.planted_assignors import sticky

from keylane.groups import coordinator
from keylane.groups.coordinator import NOBODY, Answer, GroupRules, GroupState, Request, new_group, next_deadline, tick

if TYPE_CHECKING:
    from keylane.groups.coordinator import Verb

RULES = GroupRules(sticky, session=10.0, wait=6.0)


class Group:
    """A group that takes requests one after the other, at a clock that tests set."""

    def __init__(self, lanes: int = 4, rules: GroupRules = RULES) -> None:
        self.rules = rules
        self.now = 0.0
        self.state = new_group(lanes)

    def ask(self, verb: Verb, client: str, number: int = NOBODY, **more: Any) -> tuple[Answer, ...]:
        request = Request(verb, "g", client, number, **more)
        self.state, answers = coordinator.handle(self.rules, self.state, request, self.now)
        return answers

    def pass_time(self, seconds: float) -> tuple[Answer, ...]:
        self.now += seconds
        self.state, answers = tick(self.rules, self.state, self.now)
        return answers

    def enter(self, client: str, instance: str | None = None) -> int:
        number = self.ask("enter", client, instance=instance)[0].number
        self.ask("join", client, number, instance=instance)
        return number

    def lanes(self, client: str, number: int) -> tuple[int, ...]:
        (answer,) = self.ask("sync", client, number, generation=self.state.generation)
        assert answer.refusal == ""
        return tuple(lane for lane, _ in answer.lanes)


def two_readers() -> tuple[Group, int, int]:
    """A and B, each with two lanes, in generation 3."""
    group = Group()
    a = group.enter("a")
    b = group.enter("b")
    group.ask("join", "a", a, generation=1)
    group.ask("join", "a", a, generation=2)
    group.ask("join", "b", b, generation=2)
    return group, a, b


def test_the_first_member_has_all_lanes() -> None:
    group = Group()
    number = group.enter("a")
    assert group.state.phase == "stable"
    assert group.state.generation == 1
    assert group.lanes("a", number) == (0, 1, 2, 3)


def test_a_lane_that_moves_is_let_go_of_first_and_given_in_the_next_generation() -> None:
    group = Group()
    a = group.enter("a")
    b = group.enter("b")
    assert group.state.phase == "joining"
    assert group.ask("heartbeat", "a", a, generation=1)[0].refusal == "rebalancing"
    answers = group.ask("join", "a", a, generation=1)
    assert [(one.client, one.generation) for one in answers] == [("a", 2), ("b", 2)]
    (answer,) = group.ask("sync", "a", a, generation=2)
    assert answer.lanes == ((0, 0), (1, 0))
    assert answer.revoked == (2, 3)
    assert group.lanes("b", b) == ()
    # Until A joins again it may still commit what it finishes.
    assert group.ask("commit", "a", a, generation=2, lane=3, position=1)[0].refusal == ""
    group.ask("join", "a", a, generation=2)
    group.ask("join", "b", b, generation=2)
    assert group.state.generation == 3
    assert (group.lanes("a", a), group.lanes("b", b)) == ((0, 1), (2, 3))
    assert group.state.positions == (0, 0, 0, 1)


def test_a_join_of_an_earlier_generation_lets_go_of_nothing() -> None:
    group = Group()
    a = group.enter("a")
    b = group.enter("b")
    group.ask("join", "a", a, generation=1)
    group.ask("join", "b", b, generation=2)
    # The join that A sent in generation 1 comes once more: A has not seen what it is to let go of.
    group.ask("join", "a", a, generation=1)
    assert group.state.generation == 2
    assert group.state.holders == (a, a, a, a)


def test_only_the_holder_in_the_current_generation_commits() -> None:
    group, a, b = two_readers()
    assert group.lanes("b", b) == (2, 3)
    refused = [
        group.ask("commit", "a", a, generation=2, lane=0, position=1)[0].refusal,
        group.ask("commit", "a", a, generation=3, lane=2, position=1)[0].refusal,
        group.ask("commit", "c", 77, generation=3, lane=2, position=1)[0].refusal,
    ]
    assert refused == ["stale-generation", "not-holder", "unknown-member"]
    assert group.state.positions == (0, 0, 0, 0)
    assert group.ask("commit", "b", b, generation=3, lane=2, position=1)[0].refusal == ""
    assert group.state.positions == (0, 0, 1, 0)


def test_twin_without_the_fence_takes_the_commit_of_anybody() -> None:
    group = Group(rules=RULES._replace(fenced=False))
    assert group.ask("commit", "c", 77, generation=-1, lane=2, position=9)[0].refusal == ""
    assert group.state.positions == (0, 0, 9, 0)


def test_a_commit_that_comes_twice_or_late_takes_nothing_back() -> None:
    group = Group()
    a = group.enter("a")
    for position in (1, 2, 1, 2):
        assert group.ask("commit", "a", a, generation=1, lane=0, position=position)[0].refusal == ""
    assert group.state.positions == (2, 0, 0, 0)


def test_who_is_not_heard_of_is_removed_and_its_lanes_are_given_to_the_others() -> None:
    group, a, b = two_readers()
    group.pass_time(9.0)
    group.ask("heartbeat", "a", a, generation=3)
    assert next_deadline(group.state) == 10.0
    group.pass_time(1.0)
    assert group.state.holders == (a, a, NOBODY, NOBODY)
    assert group.ask("heartbeat", "b", b, generation=3)[0].refusal == "unknown-member"
    group.ask("join", "a", a, generation=3)
    assert group.lanes("a", a) == (0, 1, 2, 3)
    assert group.ask("commit", "b", b, generation=3, lane=2, position=1)[0].refusal == "unknown-member"


def test_a_generation_does_not_wait_for_ever_and_fences_who_has_missed_it() -> None:
    group, a, b = two_readers()
    group.enter("c")
    group.ask("join", "a", a, generation=3)
    group.ask("heartbeat", "b", b, generation=3)
    answers = group.pass_time(6.0)
    assert [one.client for one in answers] == ["a", "c"]
    assert group.state.generation == 4
    assert group.ask("commit", "b", b, generation=3, lane=2, position=1)[0].refusal == "unknown-member"


def test_a_wait_that_nobody_has_joined_goes_on() -> None:
    group, a, b = two_readers()
    group.ask("leave", "b", b, generation=3)
    group.pass_time(6.0)
    assert group.state.phase == "joining"
    assert group.state.waits_until == 12.0
    group.ask("join", "a", a, generation=3)
    assert group.state.generation == 4


def test_who_leaves_is_not_waited_for() -> None:
    group, a, b = two_readers()
    group.ask("leave", "b", b, generation=3)
    group.ask("join", "a", a, generation=3)
    assert group.lanes("a", a) == (0, 1, 2, 3)
    group.ask("leave", "a", a, generation=4)
    assert (group.state.phase, group.state.members) == ("empty", ())
    assert group.state.generation == 4


def test_a_static_member_that_starts_again_moves_nothing_and_fences_its_predecessor() -> None:
    group = Group()
    a = group.enter("a", "i")
    b = group.enter("b", "j")
    group.ask("join", "a", a, generation=1, instance="i")
    group.ask("join", "a", a, generation=2, instance="i")
    group.ask("join", "b", b, generation=2, instance="j")
    before = group.state.generation
    later = group.enter("b again", "j")
    assert group.state.generation == before
    assert group.lanes("b again", later) == (2, 3)
    assert group.lanes("a", a) == (0, 1)
    for verb in ("heartbeat", "commit", "sync", "join"):
        assert group.ask(verb, "b", b, generation=before, instance="j", lane=2)[0].refusal == "fenced"


def test_the_later_of_two_processes_with_one_id_wins_whoever_joins_last() -> None:
    group = Group()
    early = group.ask("enter", "early", instance="i")[0].number
    late = group.ask("enter", "late", instance="i")[0].number
    group.ask("join", "late", late, instance="i")
    assert group.ask("join", "early", early, instance="i")[0].refusal == "fenced"
    assert [one.number for one in group.state.members] == [late]


def test_a_static_member_that_is_away_keeps_its_lanes_through_a_generation() -> None:
    group = Group()
    a = group.enter("a")
    i = group.enter("i", "i")
    group.ask("join", "a", a, generation=1)
    group.ask("join", "a", a, generation=2)
    group.ask("join", "i", i, generation=2, instance="i")
    group.enter("c")
    group.ask("join", "a", a, generation=3)
    group.pass_time(6.0)
    assert group.state.generation == 4
    assert i in group.state.holders
    assert group.ask("heartbeat", "i", i, generation=3, instance="i")[0].refusal == "stale-generation"


def test_a_restarted_coordinator_gives_everybody_a_new_session() -> None:
    group, _, _ = two_readers()
    group.now = 100.0
    group.state = coordinator.recover(RULES, group.state, group.now)
    assert group.pass_time(9.0) == ()
    assert len(group.state.members) == 2
    group.pass_time(1.0)
    assert next_deadline(group.state) == float("inf")


def test_numbers_that_nobody_joins_with_are_forgotten() -> None:
    group = Group()
    number = group.ask("enter", "a")[0].number
    group.pass_time(10.0)
    assert group.state.entered == ()
    assert group.ask("join", "a", number)[0].refusal == "unknown-member"


def test_groups_of_one_stream_are_apart() -> None:
    one, two = Group(), Group()
    a, b = one.enter("a"), two.enter("b")
    one.ask("commit", "a", a, generation=1, lane=0, position=5)
    assert (one.state.positions[0], two.state.positions[0]) == (5, 0)
    assert two.lanes("b", b) == (0, 1, 2, 3)


def test_a_state_is_a_value() -> None:
    group, _, b = two_readers()
    before = group.state
    copy = GroupState(*before)
    group.ask("leave", "b", b, generation=3)
    assert before == copy
    assert hash(before) == hash(copy)
    assert group.state != before

"""The coordinator against a model in dictionaries, under random requests of anybody at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.unit.groups.planted_assignors import sticky

from keylane.groups import coordinator
from keylane.groups.coordinator import NOBODY, Answer, GroupRules, Request, new_group
from keylane.groups.model import Assignment, Lanes, Member

if TYPE_CHECKING:
    from collections.abc import Iterable

LANES, SESSION, WAIT = 3, 10.0, 6.0
CLIENTS = {"a": None, "b": None, "c": "i", "d": "i"}


class ModelGroup:
    """The rules of a group, word by word: no state is a value here, and nothing is fast."""

    def __init__(self) -> None:
        self.generation = 0
        self.waits = False
        self.waits_until = 0.0
        self.numbers = 0
        self.entered: dict[int, float] = {}
        #: By number: client, instance, deadline, whether it has joined, and whether it has let go.
        self.members: dict[int, dict[str, Any]] = {}
        self.holder: dict[int, int] = dict.fromkeys(range(LANES), NOBODY)
        self.asked: set[int] = set()
        self.position: dict[int, int] = dict.fromkeys(range(LANES), 0)

    def of_instance(self, instance: str | None) -> int:
        return max((n for n, one in self.members.items() if instance and one["instance"] == instance), default=NOBODY)

    def remove(self, numbers: Iterable[int], now: float) -> None:
        for number in numbers:
            del self.members[number]
            for lane in range(LANES):
                if self.holder[lane] == number:
                    self.holder[lane] = NOBODY
                    self.asked.discard(lane)
            self.somebody_came_or_went(now)

    def somebody_came_or_went(self, now: float) -> None:
        if not self.members:
            self.waits = False
            return
        if not self.waits:
            self.waits, self.waits_until = True, now + WAIT
        if all(one["joined"] for one in self.members.values()):
            self.begin()

    def begin(self) -> None:
        for lane in list(self.asked):
            if self.members[self.holder[lane]]["let_go"]:
                self.holder[lane] = NOBODY
                self.asked.discard(lane)
        lanes = Lanes.of({"stream": LANES})
        names = {number: one["instance"] or f"member-{number}" for number, one in self.members.items()}
        had = {name: [("stream", lane) for lane in range(LANES) if self.holder[lane] == n] for n, name in names.items()}
        members = [Member(name, instance=self.members[number]["instance"]) for number, name in names.items()]
        given = sticky(members, lanes, Assignment.of_lists(lanes, had))
        for number, name in names.items():
            for _, lane in given.of(name):
                if self.holder[lane] == NOBODY:
                    self.holder[lane] = number
                (self.asked.discard if self.holder[lane] == number else self.asked.add)(lane)
        self.generation += 1
        self.waits = False
        for one in self.members.values():
            one["joined"] = one["let_go"] = False


class Coordinated(RuleBasedStateMachine):
    """Any request of any client with any number and any generation, and any passing of time."""

    fenced = True

    def __init__(self) -> None:
        super().__init__()
        self.group_rules = GroupRules(sticky, SESSION, WAIT, self.fenced)
        self.group = new_group(LANES)
        self.model = ModelGroup()
        self.now = 0.0

    def ask(self, request: Request) -> Answer | None:
        self.group, answers = coordinator.handle(self.group_rules, self.group, request, self.now)
        return next((one for one in answers if one.client == request.client and one.verb == request.verb), None)

    @rule(client=st.sampled_from(sorted(CLIENTS)))
    def enter(self, client: str) -> None:
        answer = self.ask(Request("enter", "g", client))
        self.model.numbers += 1
        self.model.entered[self.model.numbers] = self.now + SESSION
        assert answer is not None
        assert answer.number == self.model.numbers

    @rule(client=st.sampled_from(sorted(CLIENTS)), back=st.integers(0, 3), late=st.integers(0, 2))
    def join(self, client: str, back: int, late: int) -> None:
        model, instance = self.model, CLIENTS[client]
        number, generation = max(1, model.numbers - back), model.generation - late
        answer = self.ask(Request("join", "g", client, number, generation, instance))
        one = model.members.get(number)
        if one is not None:
            one["deadline"] = self.now + SESSION
            released = generation == model.generation
            if model.waits or (released and any(model.holder[lane] == number for lane in model.asked)):
                one["joined"], one["let_go"] = True, one["let_go"] or released
                model.somebody_came_or_went(self.now)
            return
        if number not in model.entered or model.of_instance(instance) > number:
            assert answer is not None
            assert answer.refusal == ("fenced" if model.of_instance(instance) > number else "unknown-member")
            return
        del model.entered[number]
        former = model.of_instance(instance)
        new = {"client": client, "instance": instance, "deadline": self.now + SESSION, "joined": True, "let_go": True}
        if former == NOBODY:
            model.members[number] = new
            model.somebody_came_or_went(self.now)
            return
        model.members = {(number if n == former else n): (new if n == former else m) for n, m in model.members.items()}
        model.holder = {lane: number if holder == former else holder for lane, holder in model.holder.items()}
        if model.waits:
            model.somebody_came_or_went(self.now)
        else:
            new["joined"] = new["let_go"] = False

    @rule(back=st.integers(0, 3), late=st.integers(0, 1), verb=st.sampled_from(["heartbeat", "sync"]))
    def renew(self, back: int, late: int, verb: Any) -> None:
        model = self.model
        number, generation = max(1, model.numbers - back), model.generation - late
        one = model.members.get(number)
        client, instance = (one["client"], one["instance"]) if one else ("a", None)
        answer = self.ask(Request(verb, "g", client, number, generation, instance))
        assert answer is not None
        if one is None or late:
            assert answer.refusal == ("unknown-member" if one is None else "stale-generation")
            return
        one["deadline"] = self.now + SESSION
        if verb == "heartbeat":
            assert answer.refusal == ("rebalancing" if model.waits and not one["joined"] else "")
        else:
            mine = {lane for lane, holder in model.holder.items() if holder == number}
            assert dict(answer.lanes) == {lane: model.position[lane] for lane in mine - model.asked}
            assert set(answer.revoked) == mine & model.asked

    @rule(back=st.integers(0, 3), late=st.integers(0, 1), lane=st.integers(0, LANES - 1), ahead=st.integers(-1, 2))
    def commit(self, back: int, late: int, lane: int, ahead: int) -> None:
        model = self.model
        number, generation = max(1, model.numbers - back), model.generation - late
        one = model.members.get(number)
        client, instance = (one["client"], one["instance"]) if one else ("a", None)
        position = model.position[lane] + ahead
        request = Request("commit", "g", client, number, generation, instance, lane, position)
        answer = self.ask(request)
        assert answer is not None
        accepted = one is not None and not late and model.holder[lane] == number
        assert (answer.refusal == "") is accepted, f"{request} was answered with {answer}"
        if accepted:
            model.position[lane] = max(model.position[lane], position)

    @precondition(lambda self: self.model.members)
    @rule(back=st.integers(0, 3))
    def leave(self, back: int) -> None:
        number = max(1, self.model.numbers - back)
        one = self.model.members.get(number)
        self.ask(Request("leave", "g", one["client"] if one else "a", number))
        if one is not None:
            self.model.remove([number], self.now)

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 6.0, 10.0]))
    def pass_time(self, seconds: float) -> None:
        model = self.model
        self.now += seconds
        self.group, _ = coordinator.tick(self.group_rules, self.group, self.now)
        model.entered = {number: end for number, end in model.entered.items() if end > self.now}
        model.remove([number for number, one in model.members.items() if one["deadline"] <= self.now], self.now)
        if model.waits and model.waits_until <= self.now:
            if not any(one["joined"] for one in model.members.values()):
                model.waits_until = self.now + WAIT
                return
            late = [n for n, one in model.members.items() if not one["joined"] and one["instance"] is None]
            for number in late:
                del model.members[number]
                for lane in range(LANES):
                    if model.holder[lane] == number:
                        model.holder[lane] = NOBODY
                        model.asked.discard(lane)
            model.begin()

    @invariant()
    def is_the_model(self) -> None:
        group, model = self.group, self.model
        assert group.generation == model.generation
        assert (group.phase == "joining") is model.waits
        assert [one.number for one in group.members] == list(model.members)
        assert dict(enumerate(group.holders)) == model.holder
        assert {lane for lane, asked in enumerate(group.revoked) if asked} == model.asked
        assert dict(enumerate(group.positions)) == model.position

    @invariant()
    def every_lane_has_an_owner_in_a_generation(self) -> None:
        if self.group.phase == "stable":
            assert NOBODY not in self.group.holders


class Unfenced(Coordinated):
    """The twin: it accepts every commit."""

    fenced = False


def test_the_coordinator_is_the_model() -> None:
    run_state_machine_as_test(Coordinated, settings=settings(stateful_step_count=40))


def test_twin_without_the_fence_is_not() -> None:
    with pytest.raises(AssertionError, match="was answered with"):
        run_state_machine_as_test(Unfenced, settings=settings(max_examples=200, stateful_step_count=40))


@pytest.mark.faults
def test_the_coordinator_is_the_model_in_500_examples_of_100_steps() -> None:
    run_state_machine_as_test(
        Coordinated, settings=settings(max_examples=500, stateful_step_count=100, derandomize=False)
    )

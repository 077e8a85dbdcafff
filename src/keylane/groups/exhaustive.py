"""Every interleaving of a small case, breadth first: each rule in each state, and the shortest way to a fault.

A simulation shows what a seed happens to meet; this shows that nothing else is left. There is no time here: a session
may end at any moment, which covers every pause and every drift, and a message may arrive at any moment, twice or
never.

`explore` knows nothing of groups: a case is a start, the moves of a state, the rules and the names of states. A rule
that is never put to the test proves nothing, so that `Exploration.reached` counts the states of each name, and the
moves of each outcome (`"a asks -> refused"`): all have to be met.

    >>> def moves(state): return [("one more", state + 1)] if state < 4 else []
    >>> found = explore(0, moves, lambda state: "four" if state == 4 else None, lambda state: [str(state)])
    >>> found.broken, found.path
    ('four', ('one more', 'one more', 'one more', 'one more'))

The case of a coordinator and two members is `SmallGroup`.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from keylane.groups import coordinator, member
from keylane.groups.coordinator import NOBODY, Answer, GroupRules, GroupState, Request, new_group
from keylane.groups.member import MemberState

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    State = TypeVar("State", bound=Hashable)


class Exploration(NamedTuple):
    """What was found: states and moves, states by name, the longest of the shortest ways, and the first broken rule."""

    states: int
    moves: int
    depth: int
    reached: dict[str, int]
    broken: str | None
    path: tuple[str, ...]


def explore(
    start: State,
    moves: Callable[[State], Iterable[tuple[str, State]]],
    broken: Callable[[State], str | None],
    names: Callable[[State], Iterable[str]],
) -> Exploration:
    """All states from a start. Ends at the first that breaks a rule: none is nearer."""
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    reached: Counter[str] = Counter()
    waiting = deque([(start, 0)])
    made = depth = 0
    while waiting:
        state, depth = waiting.popleft()
        reached.update(names(state))
        rule = broken(state)
        if rule is not None:
            return Exploration(
                len(came_from), made, depth, dict(sorted(reached.items())), rule, _path(came_from, state)
            )
        for name, following in moves(state):
            made += 1
            if outcome := name.partition(" -> ")[2]:
                reached[outcome] += 1
            if following not in came_from:
                came_from[following] = (state, name)
                waiting.append((following, depth + 1))
    return Exploration(len(came_from), made, depth, dict(sorted(reached.items())), None, ())


def _path(came_from: dict[Any, tuple[Any, str] | None], state: Any) -> tuple[str, ...]:
    steps = []
    while (step := came_from[state]) is not None:
        state, name = step
        steps.append(name)
    return tuple(reversed(steps))


class SmallState(NamedTuple):
    """The coordinator, the members, what is on its way, and of each lane the term and position accepted last."""

    group: GroupState
    members: tuple[MemberState, ...]
    wire: frozenset[Request | Answer]
    accepted: tuple[tuple[int, int, int], ...]
    broken: str | None = None


class SmallGroup(NamedTuple):
    """A coordinator, some members, some lanes, within bounds: what is beyond them is not looked at.

    `wire` is how many messages can be on their way at once: one more is lost, as a network may. `records` is how many a
    lane has, `numbers` how often somebody can enter.
    """

    rules: GroupRules
    instances: tuple[str | None, ...] = (None, None)
    lanes: int = 2
    generations: int = 3
    numbers: int = 3
    records: int = 1
    wire: int = 1
    twice: bool = True

    def start(self) -> SmallState:
        """Nobody has come."""
        members = tuple(
            MemberState("g", chr(ord("a") + place), instance) for place, instance in enumerate(self.instances)
        )
        return SmallState(new_group(self.lanes), members, frozenset(), ((0, 0, 0),) * self.lanes)

    def explore(self) -> Exploration:
        """All of it."""
        return explore(self.start(), self.moves, self.broken, self.names)

    def moves(self, state: SmallState) -> Iterator[tuple[str, SmallState]]:
        """All that can happen next."""
        for name, following in self._moves(state):
            group = following.group
            if group.generation <= self.generations and group.last_number <= self.numbers:
                yield name, following

    def _moves(self, state: SmallState) -> Iterator[tuple[str, SmallState]]:
        for place, member_state in enumerate(state.members):
            yield from self._member_moves(state, place, member_state)
        group = state.group
        for one in group.members:
            yield (
                f"the session of {one.client} ends",
                self._moved_on(state, *coordinator.expire(self.rules, group, one.number, 0)),
            )
        if group.phase == "joining" and any(membership.joined for membership in group.members):
            yield "the wait for members ends", self._moved_on(state, *coordinator.end_wait(self.rules, group, 0))
        for message in state.wire:
            without = state._replace(wire=state.wire - {message})
            yield f"lost: {_text(message)}", without
            yield self._arrived("arrives", without, message)
            if self.twice:
                yield self._arrived("arrives, and will again", state, message)

    def _member_moves(self, state: SmallState, place: int, one: MemberState) -> Iterator[tuple[str, SmallState]]:
        requests = member.asking(one)
        if requests and not state.wire.issuperset(requests):
            yield f"{one.client} asks: {requests[0].verb}", self._sent(state, requests)
        for request in member.commits(one):
            if request.position <= self.records and request not in state.wire:
                yield f"{one.client} commits lane {request.lane}", self._sent(state, (request,))
        if one.phase in {"joining", "syncing", "reading"}:
            given_up, requests = member.beat(one, 1.0, 0.0)
            yield f"{one.client} gives up", self._sent(self._with(state, place, given_up._replace(heard=0.0)), requests)
        elif one.phase == "fenced":
            yield f"{one.client} starts again", self._with(state, place, MemberState("g", one.client, one.instance))

    def _sent(self, state: SmallState, requests: tuple[Request | Answer, ...]) -> SmallState:
        wire = state.wire
        for request in requests:
            if len(wire) < self.wire:
                wire |= {request}
        return state._replace(wire=wire)

    def _with(self, state: SmallState, place: int, one: MemberState) -> SmallState:
        return state._replace(members=(*state.members[:place], one, *state.members[place + 1 :]))

    def _moved_on(self, state: SmallState, group: GroupState, answers: tuple[Answer, ...]) -> SmallState:
        """The coordinator has moved on. A lane that goes from a member that stays to another was let go of before."""
        stays = {one.number for one in group.members}
        broken = state.broken
        for lane, (old, new) in enumerate(zip(state.group.holders, group.holders, strict=True)):
            believes = any(one.number == old and lane in one.lanes for one in state.members)
            if old != new and old in stays and believes:
                broken = "a lane is let go of before it is given"
        return self._sent(state._replace(group=group, broken=broken), answers)

    def _arrived(self, how: str, state: SmallState, message: Request | Answer) -> tuple[str, SmallState]:
        if isinstance(message, Answer):
            place = next(place for place, one in enumerate(state.members) if one.client == message.client)
            one, requests = member.receive(state.members[place], message, 0.0)
            return f"{how}: {_text(message)}", self._sent(self._with(state, place, one), requests)
        group, answers = coordinator.handle(self.rules, state.group, message, 0.0)
        refused = f" -> {message.verb} refused: {answers[0].refusal}" if answers[0].refusal else ""
        if group.positions is not state.group.positions:
            state = self._committed(state, message, group)
        return f"{how}: {_text(message)}{refused}", self._moved_on(state, group, answers)

    def _committed(self, state: SmallState, request: Request, group: GroupState) -> SmallState:
        lane, term = request.lane, (request.generation, request.number)
        *last, position = state.accepted[lane]
        broken = state.broken
        if request.generation < group.generation:
            broken = "no commit of an earlier generation is accepted"
        if term < tuple(last):
            broken = "no commit is accepted after one of a later owner"
        if request.position != position + 1:
            broken = "each group has every record once"
        accepted = (*state.accepted[:lane], (*term, request.position), *state.accepted[lane + 1 :])
        return state._replace(accepted=accepted, broken=broken)

    def broken(self, state: SmallState) -> str | None:
        """The rule that a state breaks."""
        group = state.group
        numbers = {one.number for one in group.members}
        if not numbers.issuperset(set(group.holders) - {NOBODY}):
            return "only members hold lanes"
        if group.phase == "stable" and NOBODY in group.holders:
            return "in a generation each lane has an owner"
        if any(revoked and holder == NOBODY for holder, revoked in zip(group.holders, group.revoked, strict=True)):
            return "only what is held is to be let go of"
        for one in state.members:
            current = one.synced == group.generation and one.number in numbers
            if current and any(group.holders[lane] != one.number for lane in one.lanes):
                return "who has the current generation's lanes is their holder"
        return state.broken

    def names(self, state: SmallState) -> Iterator[str]:
        """What a state is called."""
        group = state.group
        yield f"group {group.phase}"
        yield f"generation {group.generation}"
        if any(group.revoked):
            yield "a lane is to be let go of"
        for one in state.members:
            yield f"member {one.phase}"
            if any(group.holders[lane] != one.number for lane in one.lanes):
                yield "a member believes in a lane that it has lost"
        if all(one.lanes for one in state.members):
            yield "both read"
        if max(group.positions) == self.records and min(group.positions) == self.records:
            yield "all is committed"


def _text(message: Request | Answer) -> str:
    """A message in one line, for the path to a fault."""
    number = f"{message.client}, number {message.number}" if message.number else message.client
    lane = f" of lane {message.lane}" if message.verb == "commit" else ""
    in_generation = f" in generation {message.generation}" if message.generation else ""
    if isinstance(message, Request):
        return f"{message.verb}{lane} from {number}{in_generation}"
    return f"{message.refusal or 'yes'} to {message.verb}{lane} of {number}{in_generation}"

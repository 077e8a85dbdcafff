"""A group coordinator as a pure state machine: join, sync, heartbeat, leave, commit; sessions, generations, fences.

It is not a broker: it answers one request at a time, keeps no connections and stores nothing. It serves the simulator
(`group_simulation`), the exhaustive search (`exhaustive`), lessons and tests. The other end of the protocol is
`member`. Which lane goes to whom is decided by an assignor, which is passed in.

Rule. A client asks for a number (`enter`), joins with it, and waits until every member has joined: then a generation
begins, the assignor divides the lanes, and each member fetches its own (`sync`). Whoever is not heard of for a
session is removed, and so is a dynamic member that has not joined when the wait for a generation ends. A rebalance
has two phases: a lane that moves stays with its holder, who is asked to let go of it; when the holder joins again it
has done so, and the next generation gives the lane to the new owner. All other lanes are read on meanwhile.

A commit is accepted of the lane's holder in the current generation and of nobody else. That is the fence: a session
only estimates that a member is gone, and one that was paused may still believe that it owns lanes. Numbers only grow,
so that of two clients with one instance id the later one takes over the lanes, without a rebalance, and the earlier
one is fenced.

Worked example: two lanes. A joins: generation 1, lanes 0 and 1 are A's. B joins: the group waits for A, who learns of
it by a heartbeat and joins: generation 2, B has nothing, A is to let go of lane 1. A joins again: generation 3, lane
1 is B's. A commits lane 1 with generation 2, late: refused as `stale-generation`.

A change of membership costs one generation, and two where a lane moves between members that both stay. The lane count
is that of the state: a stream that grows is a new state with more lanes, at the positions of the old one.

When not to use it: where members must keep their lanes for life, whoever comes and goes; that is `ownership`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from keylane.groups.model import FREE, Assignment, Lanes, Member

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.groups.assignors import Assignor

Verb = Literal["enter", "join", "sync", "heartbeat", "leave", "commit"]
Refusal = Literal["", "rebalancing", "unknown-member", "fenced", "stale-generation", "not-holder"]
Phase = Literal["empty", "joining", "stable"]

#: The holder of a lane that nobody holds. Numbers of members begin at 1.
NOBODY: Final = 0


class Request(NamedTuple):
    """What a client asks. `client` is its address; `number` is 0 until it has one.

    `generation` is, of a join, the one whose lanes the client has fetched last: it has let go of all others.
    """

    verb: Verb
    group: str
    client: str
    number: int = NOBODY
    generation: int = 0
    instance: str | None = None
    lane: int = 0
    position: int = 0


class Answer(NamedTuple):
    """What a client is answered. `lanes` are its lanes with their positions, `revoked` those to let go of."""

    verb: Verb
    client: str
    refusal: Refusal = ""
    number: int = NOBODY
    generation: int = 0
    lanes: tuple[tuple[int, int], ...] = ()
    revoked: tuple[int, ...] = ()
    lane: int = 0
    position: int = 0


class Membership(NamedTuple):
    """One member; a static one has an `instance`.

    `joined` is whether it waits for the next generation, `let_go` whether it has let go of what it was asked for.
    """

    number: int
    client: str
    instance: str | None = None
    joined: bool = False
    let_go: bool = False

    @property
    def name(self) -> str:
        """What the assignor calls it: a static member keeps its name when it starts again."""
        return self.instance or f"member-{self.number}"


class GroupState(NamedTuple):
    """A group, as a value. Each lane has one holder or none, so that no state can give a lane to two members.

    `deadlines` are those of `members`, place by place: when each session ends. `waits_until` is when the wait for the
    next generation ends. `entered` are numbers that were given out and have not joined, with their ends.
    """

    positions: tuple[int, ...]
    holders: tuple[int, ...]
    #: Whether the holder of a lane is to let go of it.
    revoked: tuple[bool, ...]
    phase: Phase = "empty"
    generation: int = 0
    members: tuple[Membership, ...] = ()
    deadlines: tuple[float, ...] = ()
    waits_until: float = 0.0
    entered: tuple[tuple[int, float], ...] = ()
    last_number: int = NOBODY

    def lanes_of(self, number: int) -> tuple[int, ...]:
        """The lanes that a member has and keeps."""
        return tuple(
            lane
            for lane, (holder, revoked) in enumerate(zip(self.holders, self.revoked, strict=True))
            if holder == number and not revoked
        )


class GroupRules(NamedTuple):
    """What does not change while a group lives.

    `fenced` is False in the twin that has to be caught: it accepts every commit, as a store without a check does.
    """

    assignor: Assignor
    session: float
    wait: float
    fenced: bool = True


Step = tuple[GroupState, tuple[Answer, ...]]


def new_group(lanes: int) -> GroupState:
    """A group without members, at the beginning of every lane."""
    return GroupState((0,) * lanes, (NOBODY,) * lanes, (False,) * lanes)


def handle(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:
    """One request: the state after it, and the answers; all who wait are answered when a generation begins."""
    return _HANDLERS[request.verb](rules, group, request, now)


def next_deadline(group: GroupState) -> float:
    """When `tick` has something to do; infinite where nothing is waited for."""
    ends = [*group.deadlines, *(end for _, end in group.entered)]
    if group.phase == "joining":
        ends.append(group.waits_until)
    return min(ends, default=float("inf"))


def tick(rules: GroupRules, group: GroupState, now: float) -> Step:
    """What time alone brings: sessions end, and the wait for a generation ends."""
    if group.entered and any(end <= now for _, end in group.entered):
        group = group._replace(entered=tuple(one for one in group.entered if one[1] > now))
    answers: tuple[Answer, ...] = ()
    for member, deadline in zip(group.members, group.deadlines, strict=True):
        if deadline <= now:
            group, more = expire(rules, group, member.number, now)
            answers += more
    if group.phase == "joining" and group.waits_until <= now:
        group, more = end_wait(rules, group, now)
        answers += more
    return group, answers


def expire(rules: GroupRules, group: GroupState, number: int, now: float) -> Step:
    """Remove a member whose session has ended, and free its lanes."""
    return _go_on(rules, _without(group, number), now)


def end_wait(rules: GroupRules, group: GroupState, now: float) -> Step:
    """Begin the generation with those who have joined; static members that have not keep their lanes.

    Where nobody has joined, the wait goes on: there is nobody to tell.
    """
    if not any(member.joined for member in group.members):
        return group._replace(waits_until=now + rules.wait), ()
    for member in group.members:
        if not member.joined and member.instance is None:
            group = _without(group, member.number)
    return _begin_generation(rules, group)


def recover(rules: GroupRules, group: GroupState, now: float) -> GroupState:
    """After a restart of the coordinator: the state was stored, the sessions were not, and all begin anew."""
    return group._replace(
        deadlines=(now + rules.session,) * len(group.members),
        entered=tuple((number, now + rules.session) for number, _ in group.entered),
        waits_until=now + rules.wait,
    )


def _enter(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:
    number = group.last_number + 1
    group = group._replace(last_number=number, entered=(*group.entered, (number, now + rules.session)))
    return group, (Answer("enter", request.client, number=number),)


def _join(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:
    place = _place(group, request.number)
    if place is None:
        return _first_join(rules, group, request, now)
    group = _renewed(group, place, now + rules.session)
    let_go = request.generation == group.generation
    asked = any(group.revoked[lane] for lane, holder in enumerate(group.holders) if holder == request.number)
    if group.phase == "stable":
        if not (let_go and asked):
            # A join whose answer was lost, or one that comes twice: there is nothing to wait for.
            return group, (_joined(group, place),)
        group = _waiting(rules, group, now)
    return _awaited(request, _go_on(rules, _with_joined(group, place, let_go=let_go), now))


def _first_join(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:
    """Of a number that was given out: a new member, or the next start of a static one, which takes over its lanes."""
    number = request.number
    earlier = _of_instance(group, request.instance)
    if not any(one == number for one, _ in group.entered) or (earlier and earlier.number > number):
        return group, (_refused(group, request),)
    group = group._replace(entered=tuple(one for one in group.entered if one[0] != number))
    # A process that has just started holds nothing, so it has let go of whatever its predecessor was asked for.
    member = Membership(number, request.client, request.instance, joined=True, let_go=True)
    if earlier is None:
        members = (*group.members, member)
        group = group._replace(members=members, deadlines=(*group.deadlines, now + rules.session))
        return _awaited(request, _go_on(rules, _waiting(rules, group, now), now))
    place = group.members.index(earlier)
    group = _renewed(group, place, now + rules.session)
    group = group._replace(
        members=_changed(group.members, place, member),
        holders=tuple(number if holder == earlier.number else holder for holder in group.holders),
    )
    if group.phase == "joining":
        return _awaited(request, _go_on(rules, group, now))
    group = group._replace(members=_changed(group.members, place, member._replace(joined=False, let_go=False)))
    return group, (_joined(group, place),)


def _sync(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:
    place = _place(group, request.number)
    if place is None or request.generation != group.generation:
        return group, (_refused(group, request),)
    number = request.number
    return _renewed(group, place, now + rules.session), (
        Answer(
            "sync",
            request.client,
            number=number,
            generation=group.generation,
            lanes=tuple((lane, group.positions[lane]) for lane in group.lanes_of(number)),
            revoked=tuple(
                lane for lane, holder in enumerate(group.holders) if holder == number and group.revoked[lane]
            ),
        ),
    )


def _heartbeat(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:
    place = _place(group, request.number)
    if place is None or request.generation != group.generation:
        return group, (_refused(group, request),)
    waits = group.phase == "joining" and not group.members[place].joined
    return _renewed(group, place, now + rules.session), (
        Answer("heartbeat", request.client, "rebalancing" if waits else "", request.number, group.generation),
    )


def _leave(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:
    if _place(group, request.number) is None:
        return group, (_refused(group, request),)
    group, answers = _go_on(rules, _without(group, request.number), now)
    return group, (*answers, Answer("leave", request.client, number=request.number, generation=group.generation))


def _commit(rules: GroupRules, group: GroupState, request: Request, now: float) -> Step:  # noqa: ARG001  one signature
    """The fence. A position that is not ahead is that of a commit which comes twice, and changes nothing."""
    lane, position = request.lane, request.position
    # Two holders of one number do not exist: a number belongs to one start of one process.
    if group.holders[lane] == request.number and request.generation == group.generation:
        position = max(position, group.positions[lane])
    elif rules.fenced:
        return group, (_refused(group, request),)
    positions = group.positions
    if position != positions[lane]:
        (_, holders, revoked, phase, generation, members, deadlines, waits_until, entered, last_number) = group
        positions = (*positions[:lane], position, *positions[lane + 1 :])
        group = GroupState(
            positions, holders, revoked, phase, generation, members, deadlines, waits_until, entered, last_number
        )
    return group, (Answer("commit", request.client, "", request.number, request.generation, (), (), lane, position),)


_HANDLERS: Final[dict[Verb, Callable[[GroupRules, GroupState, Request, float], Step]]] = {
    "enter": _enter,
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "commit": _commit,
}


def _refused(group: GroupState, request: Request) -> Answer:
    """Why, so that the client knows what to do: stop for good, enter anew, or join."""
    current = _of_instance(group, request.instance)
    refusal: Refusal
    if current and current.number > request.number:
        refusal = "fenced"
    elif _place(group, request.number) is None:
        refusal = "unknown-member"
    elif request.generation != group.generation:
        refusal = "stale-generation"
    else:
        refusal = "not-holder"
    return Answer(request.verb, request.client, refusal, request.number, request.generation, lane=request.lane)


def _joined(group: GroupState, place: int) -> Answer:
    member = group.members[place]
    return Answer("join", member.client, number=member.number, generation=group.generation)


def _awaited(request: Request, step: Step) -> Step:
    """A join that others are waited for is answered too, lest the client believe that nobody listens."""
    group = step[0]
    if group.phase != "joining":
        return step
    return group, (Answer("join", request.client, "rebalancing", request.number, group.generation),)


def _place(group: GroupState, number: int) -> int | None:
    for place, member in enumerate(group.members):
        if member[0] == number:
            return place
    return None


def _of_instance(group: GroupState, instance: str | None) -> Membership | None:
    if instance is None:
        return None
    return next((member for member in group.members if member.instance == instance), None)


def _renewed(group: GroupState, place: int, deadline: float) -> GroupState:
    """Written out: `_replace` takes four times as long, and this is what happens most often."""
    (positions, holders, revoked, phase, generation, members, deadlines, waits_until, entered, last_number) = group
    deadlines = (*deadlines[:place], deadline, *deadlines[place + 1 :])
    return GroupState(
        positions, holders, revoked, phase, generation, members, deadlines, waits_until, entered, last_number
    )


def _changed(members: tuple[Membership, ...], place: int, member: Membership) -> tuple[Membership, ...]:
    return (*members[:place], member, *members[place + 1 :])


def _with_joined(group: GroupState, place: int, *, let_go: bool) -> GroupState:
    """What a member has let go of stays so until the next generation, also when an older join comes late."""
    member = group.members[place]
    member = member._replace(joined=True, let_go=let_go or member.let_go)
    return group._replace(members=_changed(group.members, place, member))


def _waiting(rules: GroupRules, group: GroupState, now: float) -> GroupState:
    """Begin to wait for every member to join; one who waits already waits no longer for that."""
    return group if group.phase == "joining" else group._replace(phase="joining", waits_until=now + rules.wait)


def _without(group: GroupState, number: int) -> GroupState:
    kept = [place for place, member in enumerate(group.members) if member.number != number]
    return group._replace(
        members=tuple(group.members[place] for place in kept),
        deadlines=tuple(group.deadlines[place] for place in kept),
        holders=tuple(NOBODY if holder == number else holder for holder in group.holders),
        revoked=tuple(
            revoked and holder != number for holder, revoked in zip(group.holders, group.revoked, strict=True)
        ),
    )


def _go_on(rules: GroupRules, group: GroupState, now: float) -> Step:
    """After somebody came or went: nobody is left, all have joined, or the others are waited for."""
    if not group.members:
        return group._replace(phase="empty", waits_until=0.0), ()
    group = _waiting(rules, group, now)
    return _begin_generation(rules, group) if all(member.joined for member in group.members) else (group, ())


def _begin_generation(rules: GroupRules, group: GroupState) -> Step:
    """Divide the lanes. One that moves away from a member that has not let go of it stays there, revoked."""
    released = {member.number for member in group.members if member.let_go}
    places = {member.number: place for place, member in enumerate(group.members)}
    before = tuple(
        FREE if holder == NOBODY or (revoked and holder in released) else places[holder]
        for holder, revoked in zip(group.holders, group.revoked, strict=True)
    )
    names = tuple((member.name, member.instance) for member in group.members)
    after = _assigned(rules.assignor, names, before)
    numbers = [*(member.number for member in group.members), NOBODY]
    holders = [numbers[new if old == FREE else old] for old, new in zip(before, after, strict=True)]
    revoked = [old not in {FREE, new} for old, new in zip(before, after, strict=True)]
    begun = group._replace(
        phase="stable",
        generation=group.generation + 1,
        holders=tuple(holders),
        revoked=tuple(revoked),
        waits_until=0.0,
        members=tuple(member._replace(joined=False, let_go=False) for member in group.members),
    )
    return begun, tuple(_joined(begun, place) for place, member in enumerate(group.members) if member.joined)


@lru_cache(maxsize=1 << 12)
def _assigned(
    assignor: Assignor, names: tuple[tuple[str, str | None], ...], before: tuple[int, ...]
) -> tuple[int, ...]:
    """What an assignor gives, lane by lane, as places in `names`, or FREE. Kept: assignors are made for more lanes."""
    lanes = Lanes.of({"stream": len(before)})
    ids = tuple(name for name, _ in names)
    members = [Member(name, instance=instance) for name, instance in names]
    given = assignor(members, lanes, Assignment(lanes, ids, np.array(before, dtype=np.int32)))
    place = [ids.index(name) for name in given.members]
    return tuple(FREE if owner == FREE else place[owner] for owner in given.owners.tolist())

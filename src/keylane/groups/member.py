"""A member of a group as a pure state machine: the client's end of the protocol that `coordinator` answers.

It is not a Kafka consumer: it serves the simulator, the exhaustive search and tests, so that these have both ends.

Rule. A member asks again at every beat for what its phase lacks: a number, a generation, its lanes; and in a
generation it sends a heartbeat. What is lost on the way is thus asked again. It reads its lanes on while a rebalance
is under way, and lets go of what it is asked for at once, and then joins again. Who is not answered for as long as
its patience lasts gives up its lanes, says so, and enters anew: where only answers are lost, the others need not wait
for its session to end. Who is fenced stops for good.

Worked example: `joining` -> answered with generation 3 -> `syncing` -> answered with lanes 0 and 2 -> `reading`; a
heartbeat is answered with `rebalancing` -> `joining`, and lanes 0 and 2 are read on.

What it believes may be wrong: it may be paused after it looked at its lanes and before it commits. Giving up early
makes that rare, and never impossible; the coordinator's fence does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from keylane.groups.coordinator import NOBODY, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.groups.coordinator import Answer

MemberPhase = Literal["entering", "joining", "syncing", "reading", "fenced", "left"]


class MemberState(NamedTuple):
    """A member, as a value. `generation` is the one that it has joined, `synced` the one that its lanes are of."""

    group: str
    client: str
    instance: str | None = None
    phase: MemberPhase = "entering"
    number: int = NOBODY
    generation: int = 0
    synced: int = 0
    lanes: tuple[int, ...] = ()
    #: The next position of each of `lanes`, place by place.
    positions: tuple[int, ...] = ()
    #: When the coordinator was last heard of, by the member's own clock.
    heard: float = 0.0


Requests = tuple[Request, ...]


def asking(member: MemberState) -> Requests:
    """What the phase lacks, or a heartbeat; nothing once it has stopped."""
    group, client, instance, phase, number, generation, synced, *_ = member
    if phase == "reading":
        return (Request("heartbeat", group, client, number, generation, instance),)
    if phase == "joining":
        return (Request("join", group, client, number, synced, instance),)
    if phase == "syncing":
        return (Request("sync", group, client, number, generation, instance),)
    return (Request("enter", group, client, NOBODY, 0, instance),) if phase == "entering" else ()


def beat(member: MemberState, now: float, patience: float) -> tuple[MemberState, Requests]:
    """At regular intervals: ask again, or give up where nothing has been heard for too long."""
    if now - member.heard > patience and member.phase in {"joining", "syncing", "reading"}:
        _, goodbye = leaving(member)
        member = _entering(member, now)
        return member, (*goodbye, *asking(member))
    return member, asking(member)


def leaving(member: MemberState) -> tuple[MemberState, Requests]:
    """Stop, and say so, so that nobody waits for a session to end."""
    left = member._replace(phase="left", lanes=(), positions=())
    if member.number == NOBODY or member.phase in {"fenced", "left"}:
        return left, ()
    return left, (Request("leave", member.group, member.client, member.number, member.generation, member.instance),)


def commits(member: MemberState) -> Iterator[Request]:
    """The next record of each lane, done. None is due between a new generation and its lanes."""
    if member.phase in {"reading", "joining"}:
        group, client, instance, _, number, _, synced, lanes, positions, _ = member
        for lane, position in zip(lanes, positions, strict=True):
            yield Request("commit", group, client, number, synced, instance, lane, position + 1)


def receive(member: MemberState, answer: Answer, now: float) -> tuple[MemberState, Requests]:
    """One answer: the state after it, and what is asked at once. Answers to an earlier number are none of ours."""
    verb = answer.verb
    if verb == "enter" and member.phase == "entering":
        member = member._replace(phase="joining", number=answer.number, heard=now)
        return member, asking(member)
    if answer.number != member.number or member.phase in {"fenced", "left", "entering"}:
        return member, ()
    if answer.refusal:
        return _refused(member, answer, now)
    if verb == "heartbeat":
        return _heard(member, now), ()
    if verb == "commit":
        return _committed(member, answer), ()
    return _on_generation(member, answer, now)


def _refused(member: MemberState, answer: Answer, now: float) -> tuple[MemberState, Requests]:
    refusal = answer.refusal
    if refusal == "fenced":
        return member._replace(phase="fenced", lanes=(), positions=()), ()
    if refusal == "unknown-member":
        member = _entering(member, now)
        return member, asking(member)
    if answer.verb == "join":
        # It is waited for the others.
        return _heard(member, now), ()
    if answer.generation != member.generation or member.phase not in {"reading", "syncing"}:
        return member, ()
    if refusal == "rebalancing":
        member = member._replace(phase="joining", heard=now)
    elif refusal == "stale-generation":
        # A generation began without it: what it held may be another's by now.
        member = member._replace(phase="joining", lanes=(), positions=(), heard=now)
    else:
        return member, ()
    return member, asking(member)


def _on_generation(member: MemberState, answer: Answer, now: float) -> tuple[MemberState, Requests]:
    """A generation has begun, or its lanes have come; an answer that another phase waited for changes nothing."""
    if answer.verb == "join" and member.phase == "joining" and answer.generation >= member.synced:
        member = member._replace(phase="syncing", generation=answer.generation, heard=now)
        return member, asking(member)
    if answer.verb == "sync" and member.phase == "syncing" and answer.generation == member.generation:
        return _synced(member, answer, now)
    return member, ()


def _synced(member: MemberState, answer: Answer, now: float) -> tuple[MemberState, Requests]:
    """Take the lanes over. What it read already goes on where it is, which may be ahead of what was committed."""
    own = dict(zip(member.lanes, member.positions, strict=True))
    given = dict(answer.lanes)
    member = member._replace(
        phase="joining" if answer.revoked else "reading",
        synced=answer.generation,
        lanes=tuple(given),
        positions=tuple(max(position, own.get(lane, 0)) for lane, position in given.items()),
        heard=now,
    )
    return member, asking(member) if answer.revoked else ()


def _entering(member: MemberState, now: float) -> MemberState:
    return MemberState(member.group, member.client, member.instance, heard=now)


def _heard(member: MemberState, now: float) -> MemberState:
    group, client, instance, phase, number, generation, synced, lanes, positions, _ = member
    return MemberState(group, client, instance, phase, number, generation, synced, lanes, positions, now)


def _committed(member: MemberState, answer: Answer) -> MemberState:
    group, client, instance, phase, number, generation, synced, lanes, positions, heard = member
    if answer.lane not in lanes:
        return member
    place = lanes.index(answer.lane)
    if answer.position <= positions[place]:
        return member
    positions = (*positions[:place], answer.position, *positions[place + 1 :])
    return MemberState(group, client, instance, phase, number, generation, synced, lanes, positions, heard)

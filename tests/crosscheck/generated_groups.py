"""Groups by chance: topics, members, subscriptions, racks, and a change of them; and how an assignment is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keylane.groups.invariants import moved
from keylane.groups.model import Lanes, Member

if TYPE_CHECKING:
    from random import Random

    from keylane.groups.model import Assignment

RACKS = ("r1", "r2", "r3")
#: Names that Java and Python sort differently, and one that is a number.
NAMES = ("a", "B", "10", "9", "é", "\uff5e", "\U0001f600", "z-")


@dataclass(frozen=True)
class Case:
    """A group, and the same group after somebody came or went."""

    members: list[Member]
    lanes: Lanes
    members_after: list[Member]
    lanes_after: Lanes


def generated(rng: Random, *, racks: bool | None = None) -> Case:
    """One of them; every topic has a reader, as brokers and clients see to it."""
    in_racks = rng.random() < 0.4 if racks is None else racks
    topics = {f"t{number}": rng.randint(1, 12) for number in range(rng.randint(1, 6))}
    unequal = rng.random() < 0.5
    members = [
        _member(rng, number, list(topics), in_racks=in_racks, unequal=unequal) for number in range(rng.randint(1, 9))
    ]
    rng.shuffle(members)
    lanes = _read(rng, topics, members, in_racks=in_racks)
    after = [member for member in members if rng.random() < 0.8] or members[:1]
    after += [
        Member(f"new{number}", rng.choice(members).topics, None, rng.choice(RACKS) if in_racks else None)
        for number in range(rng.randint(0, 3))
    ]
    grown = {topic: count + rng.choice((0, 0, 0, 2)) for topic, count in zip(lanes.topics, lanes.counts, strict=True)}
    later = _read(rng, grown, after, in_racks=False)
    if in_racks:
        there = {lane: lanes.racks.get(lane, frozenset({"r1"})) for lane in _every(later)}
        later = Lanes(later.topics, later.counts, there)
    return Case(members, lanes, after, later)


def _member(rng: Random, number: int, topics: list[str], *, in_racks: bool, unequal: bool) -> Member:
    reads = frozenset(rng.sample(topics, rng.randint(1, len(topics)))) if unequal else None
    instance = f"{rng.choice(NAMES)}{rng.randint(0, 99)}-{number}" if rng.random() < 0.4 else None
    return Member(f"{rng.choice(NAMES)}{number}", reads, instance, rng.choice((*RACKS, None)) if in_racks else None)


def _read(rng: Random, topics: dict[str, int], members: list[Member], *, in_racks: bool) -> Lanes:
    """The topics that somebody reads, with copies in racks by chance."""
    read = Lanes.of({topic: count for topic, count in topics.items() if any(one.takes(topic) for one in members)})
    if not in_racks:
        return read
    return Lanes(
        read.topics, read.counts, {lane: frozenset(rng.sample(RACKS, rng.randint(1, 3))) for lane in _every(read)}
    )


def _every(lanes: Lanes) -> list[tuple[str, int]]:
    return [lanes.lane(number) for number in range(lanes.total)]


def judged(
    case_members: list[Member], lanes: Lanes, found: Assignment, before: Assignment | None
) -> tuple[int, int, int]:
    """The squares of the counts, lanes read from another rack, and lanes moved: less is better, in this order."""
    squares = sum(count * count for count in found.counts().tolist())
    rack = {member.id: member.rack for member in case_members}
    far = sum(
        rack[name] is not None and rack[name] not in lanes.racks[lane]
        for name, held in found.as_lists().items()
        for lane in held
        if lane in lanes.racks
    )
    return squares, far, 0 if before is None else moved(before, found)

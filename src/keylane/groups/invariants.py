"""What every assignment must keep, whoever made it, and how even and how near to the one before it is.

`broken` names what is wrong. `GroupEvenness` and `moved` are measures: by them assignors are compared. What a change
costs in pauses: `changes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from keylane.groups.assignors.uniform import uniform
from keylane.groups.model import FREE, Member, subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from keylane.groups.model import Assignment, Lanes


def broken(members: Sequence[Member], lanes: Lanes, found: Assignment, previous: Assignment | None = None) -> list[str]:
    """Which of the rules an assignment by count breaks, each in one line.

    Each lane that somebody may read has an owner, a member that is there and subscribed to its topic (that it has one
    only, the form of an assignment holds); counts are as even as subscriptions allow; and, given the assignment before,
    no lane moved that need not. Range and round robin promise the first only: `owned`.
    """
    problems = owned(members, lanes, found)
    if problems:
        return problems
    best = uniform(members, lanes, previous)
    if (counts := sorted(found.counts().tolist())) != (least := sorted(best.counts().tolist())):
        problems.append(f"counts {counts} could be {least}")
    elif previous is not None and (needed := moved(previous, best)) < (seen := moved(previous, found)):
        problems.append(f"{seen} lanes moved, and {needed} would do")
    return problems


def owned(members: Sequence[Member], lanes: Lanes, found: Assignment) -> list[str]:
    """Lanes that nobody owns though somebody may read them, and owners that are no members, or not subscribed."""
    here = {member.id for member in members}
    problems = [f"{name!r} is no member" for name in found.members if name not in here]
    ordered = list(members)
    owners = found.seen_by(ordered, lanes)
    allowed = subscriptions(ordered, lanes)
    may = np.ones((len(lanes.topics), len(ordered)), np.bool_) if allowed is None else allowed
    topics = lanes.topic_of_lanes()
    readable = may.sum(axis=1) > 0
    free = np.flatnonzero((owners == FREE) & readable[topics]).tolist()
    wrong = np.flatnonzero((owners != FREE) & ~may[topics, owners]).tolist()
    problems += [f"lane {lanes.lane(number)} has no owner" for number in free]
    return problems + [f"{ordered[owners[number]].id!r} does not read {lanes.lane(number)}" for number in wrong]


def moved_lanes(before: Assignment, after: Assignment) -> NDArray[np.bool_]:
    """For each lane of `after`: whether it had another owner before. One that had or has none has not moved."""
    everyone = [Member(name) for name in dict.fromkeys((*after.members, *before.members))]
    then, now = before.seen_by(everyone, after.lanes), after.seen_by(everyone, after.lanes)
    return (then != FREE) & (now != FREE) & (then != now)


def moved(before: Assignment, after: Assignment) -> int:
    """How many lanes had another owner before."""
    return int(moved_lanes(before, after).sum())


@dataclass(frozen=True, slots=True)
class GroupEvenness:
    """Lanes of the members with the fewest and the most, and the fullest load over the mean; None without loads."""

    fewest: int
    most: int
    max_over_mean: float | None

    @classmethod
    def of(cls, found: Assignment, weights: NDArray[np.float64] | None = None) -> GroupEvenness:
        """How even an assignment is; `weights` are loads by the numbers of lanes."""
        counts = found.counts()
        load = carried(found, weights) if weights is not None else None
        fullest = None if load is None or not load.sum() else float(load.max() / load.mean())
        return cls(int(counts.min()), int(counts.max()), fullest)


def carried(found: Assignment, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each member carries, in the order of `members`."""
    there = found.owners != FREE
    return np.bincount(found.owners[there], weights[there], len(found.members)).astype(np.float64)


def ceiling(name: str, lanes: Lanes) -> int:
    """The most members that can have a lane: members beyond it are idle, however many are added.

    Under `range` it is the largest topic, because every topic begins with the first member; under `by-load` lanes of
    one index of topics with equal counts count as one.
    """
    if name == "range":
        return max(lanes.counts, default=0)
    return sum(set(lanes.counts)) if name == "by-load" else lanes.total

"""Static: a lane belongs to an instance for life, and waits for it when it is away.

The rule: members in order get lanes in turns, once. From then on everybody keeps exactly what it has. What a member
that is away had stays together: the first spare (a member without a lane) takes all of it over; where there is no
spare it waits, and is nobody's. Lanes that a topic gains go to those with the fewest.

B restarts: its lanes wait, and nothing moves. With the spare S they would be S's.

    >>> from keylane.groups.model import Lanes, Member
    >>> lanes = Lanes.of({"t": 4})
    >>> before = static([Member("A"), Member("B")], lanes, None)
    >>> static([Member("A")], lanes, before).as_lists()
    {'A': [('t', 0), ('t', 2)]}
    >>> static([Member("A"), Member("S")], lanes, before).of("S")
    [('t', 1), ('t', 3)]

For readers whose state is too dear to drop, and deploys that must move nothing. Not where lanes must be read without
a pause while a member is away and no spare waits; and a group does not grow by it: members beyond the first ones are
spares. Who may hold an instance, and how a zombie is kept out, is a matter of leases and not of this rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.groups.assignors.round_robin import round_robin
from keylane.groups.balance import poured
from keylane.groups.model import FREE, Assignment, Lanes, Member, check_members, subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def static(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    """Everybody keeps what it has; a spare takes over all that one member had."""
    check_members(members)
    if previous is None:
        return round_robin(members, lanes, None)
    ordered = sorted(members, key=lambda member: member.order)
    here = {member.id for member in ordered}
    away = [Member(name) for name in previous.members if name not in here]
    everyone = [*ordered, *away]
    owners = previous.seen_by(everyone, lanes)
    known = owners != FREE
    allowed = subscriptions(ordered, lanes)
    held = np.bincount(owners[known], minlength=len(everyone))
    spares = [number for number in range(len(ordered)) if not held[number]]
    for absent in range(len(ordered), len(everyone)):
        left = owners == absent
        taker = next((n for n in spares if allowed is None or _may_take_all(allowed[:, n], left, lanes)), None)
        if left.any() and taker is not None:
            spares.remove(taker)
            owners[left] = taker
    owners[owners >= len(ordered)] = FREE
    _give_new(owners, ~known, allowed, lanes, len(ordered))
    return Assignment(lanes, tuple(member.id for member in ordered), owners)


def _may_take_all(column: np.ndarray, left: np.ndarray, lanes: Lanes) -> bool:
    return bool(column[lanes.topic_of_lanes()[left]].all())


def _give_new(owners: np.ndarray, new: np.ndarray, allowed: np.ndarray | None, lanes: Lanes, members: int) -> None:
    """Lanes that nobody ever had, to those with the fewest that may read them."""
    load = np.bincount(owners[owners != FREE], minlength=members)
    topics = lanes.topic_of_lanes()
    for topic in np.unique(topics[new]):
        takers = np.arange(members) if allowed is None else np.flatnonzero(allowed[topic])
        if len(takers):
            free = np.flatnonzero(new & (topics == topic))
            more = poured(load[takers], len(free))
            owners[free] = np.repeat(takers, more)
            load[takers] += more

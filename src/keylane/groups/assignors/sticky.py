"""Sticky: counts as even as can be, and no lane moved that need not.

The rule: members keep what they have as far as counts allow; what is free, or too much, goes to those with the
fewest. Even counts come before kept lanes. A lane that its owner may no longer read is free.

C leaves; its two lanes are dealt out, and nothing else moves.

    >>> from keylane.groups.model import Assignment, Lanes, Member
    >>> lanes = Lanes.of({"t": 6})
    >>> before = sticky([Member("A"), Member("B"), Member("C")], lanes, None)
    >>> before.as_lists()
    {'A': [('t', 0), ('t', 3)], 'B': [('t', 1), ('t', 4)], 'C': [('t', 2), ('t', 5)]}
    >>> sticky([Member("A"), Member("B")], lanes, before).as_lists()
    {'A': [('t', 0), ('t', 2), ('t', 3)], 'B': [('t', 1), ('t', 4), ('t', 5)]}

A member that leaves moves what it had; one that comes takes its share, no more; lanes that a topic gains move nothing
unless counts demand it. In the classic protocol of Kafka all members still stop while it is agreed on: `cooperative`
does not. Not for lanes of unequal load: counts are even, traffic is not (`by_load`). Not for co-partitioned topics:
lane i of two topics may have two owners (`range`, `by_load`).

Unequal subscriptions: the most even counts that subscriptions allow, and among those the fewest moves, proven. Racks:
counts come first, then lanes with a copy in the member's rack, then kept lanes. `balance` says how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.groups.balance import balanced, even, matters
from keylane.groups.model import FREE, Assignment, Lanes, Member, check_members, subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def sticky(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    """Even counts with the fewest moves."""
    return kept_even(members, lanes, previous, in_turns=True, racks=True)


def kept_even(
    members: Sequence[Member], lanes: Lanes, previous: Assignment | None, *, in_turns: bool, racks: bool
) -> Assignment:
    """What sticky and uniform share: they differ in how free lanes are dealt out, and whether racks count."""
    check_members(members)
    ordered = sorted(members, key=lambda member: member.order)
    names = tuple(member.id for member in ordered)
    before = np.full(lanes.total, FREE, np.int32) if previous is None else previous.seen_by(ordered, lanes)
    allowed = subscriptions(ordered, lanes)
    if allowed is None and not (racks and matters(ordered, lanes)):
        return Assignment(lanes, names, even(before, len(ordered), in_turns=in_turns))
    return Assignment(lanes, names, balanced(ordered, lanes, before, allowed, racks=racks))

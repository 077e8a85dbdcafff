"""Round robin: all lanes of all topics dealt out in a circle of members.

The rule: lanes by topic and index, members in order (static ones first, by instance; the others by id). Each lane
goes to the next member of the circle that is subscribed to its topic; the circle goes on from there.

Three lanes and two lanes for A and B: A gets the first, third and fifth.

    >>> from keylane.groups.model import Lanes, Member
    >>> round_robin(members=[Member("A"), Member("B")], lanes=Lanes.of({"t": 3, "u": 2}), previous=None).as_lists()
    {'A': [('t', 0), ('t', 2), ('u', 1)], 'B': [('t', 1), ('u', 0)]}

Counts differ by at most one where all are subscribed to all. Almost every lane moves when a member comes or goes, and
when a topic gains a lane: use a sticky assignor where readers keep state. Not for unequal subscriptions either: a
member with few topics gets as many lanes of them as one that has others to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.groups.model import FREE, Assignment, Lanes, Member, check_members, subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def round_robin(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:  # noqa: ARG001  as all assignors
    """All lanes in a circle."""
    check_members(members)
    order = np.array(sorted(range(len(members)), key=lambda number: members[number].order), dtype=np.int32)
    names = tuple(member.id for member in members)
    allowed = subscriptions(members, lanes)
    if allowed is None:
        return Assignment(lanes, names, order[np.arange(lanes.total) % len(order)])
    owners = np.full(lanes.total, FREE, dtype=np.int32)
    following = 0
    for topic, count in enumerate(lanes.counts):
        seats = np.flatnonzero(allowed[topic][order])
        if not len(seats):
            continue
        turns = seats[(np.searchsorted(seats, following) + np.arange(count)) % len(seats)]
        start = lanes.starts[topic]
        owners[start : start + count] = order[turns]
        following = (int(turns[-1]) + 1) % len(order)
    return Assignment(lanes, names, owners)

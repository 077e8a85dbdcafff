"""Cooperative sticky: where `sticky` ends, in two rounds, so that lanes which stay are read all the while.

The rule: in the first round a member keeps what it keeps, and gives up what moves; such a lane has no owner for that
moment. In the second round, when its former owner has confirmed, it is given to the new one. No lane is ever read by
two.

D joins. In the first round lane 3 is nobody's, and A and B go on with the others.

    >>> from keylane.groups.model import Assignment, Lanes, Member
    >>> lanes = Lanes.of({"t": 4})
    >>> before = Assignment.of_lists(lanes, {"A": [("t", 0), ("t", 2)], "B": [("t", 1), ("t", 3)]})
    >>> first, second = rounds(before, cooperative_sticky([Member("A"), Member("B"), Member("D")], lanes, before))
    >>> first.as_lists()
    {'A': [('t', 0), ('t', 2)], 'B': [('t', 1)], 'D': []}
    >>> second.of("D")
    [('t', 3)]

Lanes of a member that is gone, and new lanes, are given in the first round: nobody has to give them up. A member that
leaves or comes moves what it does under `sticky`. Not for a group in which some members still run an eager assignor:
they must be upgraded in two deploys, the first with both assignors in the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.groups.assignors.sticky import sticky
from keylane.groups.model import FREE, Assignment, Lanes, Member

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.groups.model import Lane


def cooperative_sticky(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    """Where the second round ends; `rounds` gives both."""
    return sticky(members, lanes, previous)


def rounds(previous: Assignment | None, target: Assignment) -> tuple[Assignment, ...]:
    """The assignments on the way to a target: one that only takes away, where that is needed, and the target.

    Lanes that another member of the target owns now are withheld in the first.
    """
    if previous is None:
        return (target,)
    now = previous.seen_by([Member(name) for name in target.members], target.lanes)
    withheld = (now != FREE) & (now != target.owners)
    if not withheld.any():
        return (target,)
    first = Assignment(target.lanes, target.members, np.where(withheld, FREE, target.owners).astype(np.int32))
    return first, target


def settled(lanes: Lanes, claims: Mapping[str, tuple[int, Sequence[Lane]]]) -> Assignment:
    """Who owns which lane, of what members say themselves: a generation, and the lanes that it gave them.

    Of two that claim one lane the later generation counts, because the other missed a rebalance; where both are of one
    generation, neither does.

    >>> found = settled(Lanes.of({"t": 2}), {"A": (7, [("t", 0), ("t", 1)]), "B": (8, [("t", 1)])})
    >>> found.as_lists()
    {'A': [('t', 0)], 'B': [('t', 1)]}
    """
    names = tuple(claims)
    owners = np.full(lanes.total, FREE, dtype=np.int32)
    since: dict[int, int] = {}
    for number, name in enumerate(names):
        generation, held = claims[name]
        for lane in {*held}:
            place = lanes.number(lane)
            if place is None or since.get(place, generation - 1) > generation:
                continue
            owners[place] = FREE if since.get(place) == generation else number
            since[place] = generation
    return Assignment(lanes, names, owners)

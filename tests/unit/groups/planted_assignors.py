"""Assignors for the simulations: one that is right, and some with a planted fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.groups.model import FREE, Assignment, Lanes, Member

if TYPE_CHECKING:
    from collections.abc import Sequence


def forgetful(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    """Forgets lane 0 once there are two members."""
    given = sticky(members, lanes, previous)
    owners = given.owners.copy()
    if len(members) > 1:
        owners[0] = FREE
    return Assignment(lanes, given.members, owners)


def sticky(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    """Who has most keeps most, up to an even share; the rest goes to those with fewer."""
    names = tuple(member.id for member in members)
    before = [] if previous is None else [previous.members[one] if one != FREE else "" for one in previous.owners]
    had = {name: [lane for lane, owner in enumerate(before) if owner == name] for name in names}
    order = sorted(names, key=lambda name: (-len(had[name]), names.index(name)))
    share, more = divmod(lanes.total, len(names))
    quota = {name: share + (place < more) for place, name in enumerate(order)}
    kept = {name: had[name][: quota[name]] for name in order}
    free = [lane for lane in range(lanes.total) if not any(lane in some for some in kept.values())]
    owners = np.full(lanes.total, FREE, np.int32)
    for place, name in enumerate(names):
        while len(kept[name]) < quota[name]:
            kept[name].append(free.pop(0))
        owners[kept[name]] = place
    return Assignment(lanes, names, owners)

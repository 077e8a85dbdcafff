"""Assignors: members, lanes and the assignment before -> the assignment after. One algorithm a file, one table here.

    range         each topic by itself, in contiguous blocks
    round_robin   all lanes in a circle of members

Each is a pure function of its three arguments; the same answer follows from the same input, whatever the order of
members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from keylane.errors import UnknownNameError
from keylane.groups.assignors.range import range_
from keylane.groups.assignors.round_robin import round_robin
from keylane.groups.model import Assignment, Lanes, Member

Assignor: TypeAlias = Callable[[Sequence[Member], Lanes, Assignment | None], Assignment]

ASSIGNORS: Final[dict[str, Assignor]] = {
    "range": range_,
    "round-robin": round_robin,
}


def assignor(name: str) -> Assignor:
    """The assignor of a name."""
    if name not in ASSIGNORS:
        raise UnknownNameError.among("assignor", name, list(ASSIGNORS))
    return ASSIGNORS[name]

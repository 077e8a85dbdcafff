"""Assignors: members, lanes and the assignment before -> the assignment after. One algorithm a file, one table here.

    range         each topic by itself, in contiguous blocks
    round_robin   all lanes in a circle of members
    sticky        counts as even as can be, with the fewest moves
    cooperative   the same in two rounds, so that what stays is read all the while
    uniform       the same as brokers do it since Kafka 4
    static        lanes belong to an instance for life, and wait for it
    by_load       even by what lanes carry, with few moves, co-partitioned lanes together

Each is a pure function: the same answer follows from the same input, whatever the order of members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from keylane.errors import UnknownNameError
from keylane.groups.assignors.by_load import by_load
from keylane.groups.assignors.cooperative import cooperative_sticky
from keylane.groups.assignors.range import range_
from keylane.groups.assignors.round_robin import round_robin
from keylane.groups.assignors.static import static
from keylane.groups.assignors.sticky import sticky
from keylane.groups.assignors.uniform import uniform
from keylane.groups.model import Assignment, Lanes, Member

Assignor: TypeAlias = Callable[[Sequence[Member], Lanes, Assignment | None], Assignment]

ASSIGNORS: Final[dict[str, Assignor]] = {
    "range": range_,
    "round-robin": round_robin,
    "sticky": sticky,
    "cooperative-sticky": cooperative_sticky,
    "uniform": uniform,
    "static": static,
    "by-load": by_load,
}


def assignor(name: str) -> Assignor:
    """The assignor of a name."""
    if name not in ASSIGNORS:
        raise UnknownNameError.among("assignor", name, list(ASSIGNORS))
    return ASSIGNORS[name]

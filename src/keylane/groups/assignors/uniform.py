"""Uniform: the brokers' own assignor since Kafka 4, where the coordinator decides and no client does.

The rule: every member gets `lanes // members`, some one more; members keep what they have up to that, and free lanes
are dealt out in blocks, so that neighbours of a topic mostly stay with one member. It is `sticky` with blocks for
turns.

    >>> from keylane.groups.model import Lanes, Member
    >>> uniform([Member("A"), Member("B"), Member("C")], Lanes.of({"t": 5, "u": 2}), None).as_lists()
    {'A': [('t', 0), ('t', 1), ('t', 2)], 'B': [('t', 3), ('t', 4)], 'C': [('u', 0), ('u', 1)]}

A member that leaves moves what it had, one that comes takes its share. Brokers ignore racks here, and so does this. For
unequal subscriptions they stop after 16 rounds of balancing, and this goes on until counts are as even as they can
be: then it may move more lanes than theirs. Which of several equally good members gets a lane is not promised to be
the broker's choice. Under this protocol no client can bring an assignor of its own; what a plan of another one is
good for: docs/commands/assign.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.groups.assignors.sticky import kept_even

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.groups.model import Assignment, Lanes, Member


def uniform(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    """Even counts with the fewest moves, free lanes in blocks, racks ignored."""
    return kept_even(members, lanes, previous, in_turns=False, racks=False)

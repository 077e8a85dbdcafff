"""Range: each topic by itself, in contiguous blocks; the first members get the extra lanes.

The rule, for each topic: its subscribers in order (static members first, by instance; the others by id), and
`lanes // subscribers` lanes for each, one more for the first `lanes % subscribers`.

Seven lanes for three members: A gets 0 to 2, B 3 and 4, C 5 and 6.

    >>> from keylane.groups.model import Lanes, Member
    >>> range_(members=[Member("A"), Member("B"), Member("C")], lanes=Lanes.of({"t": 7}), previous=None).as_lists()
    {'A': [('t', 0), ('t', 1), ('t', 2)], 'B': [('t', 3), ('t', 4)], 'C': [('t', 5), ('t', 6)]}

Lane i of topics with equal counts and the same subscribers has the same owner: co-partitioned topics stay together.
That is its use. A member more or less shifts the blocks of all that come behind it, and so does a lane more. Not for
many topics of few lanes: the first members get the extra lane of every topic, and members beyond the largest topic
get nothing.

Where members and copies have racks, Kafka first gives a member lanes of its own rack, within the same counts; topics of
equal count with the same subscribers lane by lane together. That is done only where it can matter: where some lane
has no copy in some rack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keylane.groups.model import FREE, Assignment, Lanes, Member, Owners, check_members

if TYPE_CHECKING:
    from collections.abc import Sequence


def range_(members: Sequence[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:  # noqa: ARG001  as all assignors
    """Contiguous blocks, topic by topic."""
    check_members(members)
    order = sorted(range(len(members)), key=lambda number: members[number].order)
    owners = np.full(lanes.total, FREE, dtype=np.int32)
    readers = [[n for n in order if members[n].takes(name)] for name in lanes.topics]
    topics = [_Topic(lanes, topic, those) for topic, those in enumerate(readers) if those]
    racks = [member.rack for member in members]
    if any(topic.needs_racks(racks) for topic in topics):
        _match_racks(topics, racks, owners)
    for topic in topics:
        topic.fill(owners)
    return Assignment(lanes, tuple(member.id for member in members), owners)


class _Topic:
    """A topic while its lanes are handed out: how many each reader may still have."""

    def __init__(self, lanes: Lanes, topic: int, readers: list[int]) -> None:
        self.start, self.count, self.readers = lanes.starts[topic], lanes.counts[topic], readers
        name = lanes.topics[topic]
        self.racks = [lanes.racks.get((name, index), frozenset()) for index in range(self.count)] if lanes.racks else []
        self.least, self.extra = divmod(self.count, len(readers))
        self.given = dict.fromkeys(readers, 0)

    def needs_racks(self, racks: list[str | None]) -> bool:
        """Whether a choice by rack can bring a reader nearer: some lane lacks a copy in a rack that has others."""
        of_readers = {racks[reader] for reader in self.readers} - {None}
        of_lanes = frozenset[str]().union(*self.racks)
        return bool(of_readers & of_lanes) and any(own != of_lanes for own in self.racks)

    def may_take(self, reader: int) -> int:
        return max(0, self.least + (self.extra > 0) - self.given[reader])

    def matches(self, rack: str | None, index: int) -> bool:
        return rack is None or rack in self.racks[index]

    def give(self, reader: int, indexes: Sequence[int], owners: Owners) -> None:
        owners[self.start + np.asarray(indexes, dtype=np.int64)] = reader
        self.given[reader] += len(indexes)
        self.extra -= self.given[reader] > self.least

    def fill(self, owners: Owners, racks: list[str | None] | None = None) -> None:
        """Give what is free, block by block; with racks, only lanes that match."""
        free = (np.flatnonzero(owners[self.start : self.start + self.count] == FREE)).tolist()
        for reader in self.readers:
            most = self.may_take(reader)
            if racks is None:
                chosen, free = free[:most], free[most:]
            else:
                chosen = [index for index in free if self.matches(racks[reader], index)][:most]
                free = [index for index in free if index not in set(chosen)] if chosen else free
            if chosen:
                self.give(reader, chosen, owners)


def _match_racks(topics: list[_Topic], racks: list[str | None], owners: Owners) -> None:
    """Lanes for readers of their own rack: co-partitioned topics together, any other topic by itself."""
    alike: dict[tuple[tuple[int, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((tuple(topic.readers), topic.count), []).append(topic)
    for (readers, count), together in alike.items():
        if len(together) == 1:
            if together[0].needs_racks(racks):
                together[0].fill(owners, racks)
            continue
        left = list(readers)
        for index in range(count):
            found = next((r for r in left if all(t.may_take(r) and t.matches(racks[r], index) for t in together)), None)
            if found is not None:
                for topic in together:
                    topic.give(found, [index], owners)
                left = [reader for reader in left if reader != found or any(t.may_take(reader) for t in together)]

"""The values of a group: a member and its subscription, the lanes of its topics, and who owns which.

A lane (partition) is the pair of its topic and its index. Inside an assignment it is a number, so that a million
lanes are one array and not a million objects; `Assignment.of` and `as_lists` give pairs again. What decides is in
`assignors`.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import numpy as np

from keylane.errors import LaneCountError, UsageError
from keylane.numbers import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

Lane: TypeAlias = tuple[str, int]
Owners: TypeAlias = "NDArray[np.int32]"

#: The owner of a lane that nobody owns.
FREE: Final = -1
#: Lanes of one topic, and of one group.
MOST_OF_TOPIC: Final = 1_000_000
MOST_LANES: Final = 20_000_000


def java_order(text: str) -> bytes:
    """What Java's `String.compareTo` sorts by: UTF-16 code units, which is not the order of Python's characters.

    >>> sorted(["\U0001f600", "\uff5e"], key=java_order) == sorted(["\U0001f600", "\uff5e"])
    False
    """
    return text.encode("utf-16-be", "surrogatepass")


def check_text(name: str, what: str) -> None:
    """Refuse a name with half of a surrogate pair: bytes of a command line that are not UTF-8, or an escape of JSON."""
    try:
        name.encode()
    except UnicodeEncodeError:
        allowed = "text that has a UTF-8 form"
        raise UsageError.of(f"the name of a {what} is not text", got=name, allowed=allowed) from None


@dataclass(frozen=True, slots=True)
class Member:
    """One reader of a group.

    `topics` None: all topics of the group. `instance` is the name of a static member, which it keeps through a
    restart. `rack` is where it runs.
    """

    id: str
    topics: frozenset[str] | None = None
    instance: str | None = None
    rack: str | None = None

    def takes(self, topic: str) -> bool:
        """Whether it is subscribed to a topic."""
        return self.topics is None or topic in self.topics

    @property
    def order(self) -> tuple[bool, bytes, bytes]:
        """How Kafka's assignors sort members: static ones first and by instance, the others by id."""
        static = self.instance is not None
        return (not static, java_order(self.instance or ""), java_order(self.id))


@dataclass(frozen=True)
class Lanes:
    """The lanes of several topics, numbered through: topics in the order of their names, and lanes within by index.

    `racks` are those that have a copy of a lane; a lane that is not in it has none that is known.

    >>> lanes = Lanes.of({"payments": 2, "orders": 3})
    >>> lanes.topics, lanes.total, lanes.lane(3), lanes.number(("payments", 0))
    (('orders', 'payments'), 5, ('payments', 0), 3)
    """

    topics: tuple[str, ...]
    counts: tuple[int, ...]
    racks: Mapping[Lane, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Mapping[str, int], racks: Mapping[Lane, frozenset[str]] | None = None) -> Self:
        """Topics with their lane counts."""
        for topic, lanes in counts.items():
            check_text(topic, "topic")
            if not 1 <= lanes <= MOST_OF_TOPIC:
                raise LaneCountError.of(f"lanes of topic {topic!r}", got=lanes, allowed=f"1 to {count(MOST_OF_TOPIC)}")
        if (total := sum(counts.values())) > MOST_LANES:
            raise LaneCountError.of("lanes of a group", got=total, allowed=f"at most {count(MOST_LANES)}")
        names = tuple(sorted(counts, key=java_order))
        return cls(names, tuple(counts[name] for name in names), racks or {})

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of each topic's first lane, and the total behind the last."""
        return (0, *np.cumsum(self.counts, dtype=np.int64).tolist())

    @cached_property
    def topic_numbers(self) -> dict[str, int]:
        """Topic -> where it stands in `topics`."""
        return {topic: number for number, topic in enumerate(self.topics)}

    @property
    def total(self) -> int:
        """How many lanes there are: the most members that can have one."""
        return self.starts[-1]

    def lane(self, number: int) -> Lane:
        """The lane of a number."""
        topic = bisect_right(self.starts, number) - 1
        return self.topics[topic], number - self.starts[topic]

    def number(self, lane: Lane) -> int | None:
        """The number of a lane; None where there is no such lane."""
        topic = self.topic_numbers.get(lane[0])
        if topic is None or not 0 <= lane[1] < self.counts[topic]:
            return None
        return self.starts[topic] + lane[1]

    def numbers(self, lanes: Iterable[Lane]) -> NDArray[np.int64]:
        """The numbers of many lanes; those that are not there are left out."""
        given = list(lanes)
        topics = np.array([self.topic_numbers.get(topic, -1) for topic, _ in given], dtype=np.int64)
        indexes = np.array([index for _, index in given], dtype=np.int64)
        counts = np.append(np.asarray(self.counts, dtype=np.int64), 0)
        there = (indexes >= 0) & (indexes < counts[topics])
        return np.asarray(self.starts, dtype=np.int64)[topics[there]] + indexes[there]

    def topic_of_lanes(self) -> NDArray[np.int32]:
        """For every lane, where its topic stands in `topics`."""
        return np.repeat(np.arange(len(self.topics), dtype=np.int32), self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Who owns which lane: for each lane where its owner stands in `members`, or `FREE`.

    One array, so a lane never has two owners; whether it must have one is a question for `invariants`.

    >>> lanes = Lanes.of({"orders": 3})
    >>> now = Assignment.of_lists(lanes, {"A": [("orders", 0), ("orders", 2)], "B": [("orders", 1)], "C": []})
    >>> now.owner(("orders", 1)), now.of("A"), now.idle
    ('B', [('orders', 0), ('orders', 2)], ('C',))
    """

    lanes: Lanes
    members: tuple[str, ...]
    owners: Owners

    @classmethod
    def of_lists(cls, lanes: Lanes, owned: Mapping[str, Iterable[Lane]]) -> Self:
        """From the lanes of each member; lanes that are not there are left out. A lane with two owners is refused."""
        members = tuple(owned)
        owners = np.full(lanes.total, FREE, dtype=np.int32)
        for index, name in enumerate(members):
            numbers = lanes.numbers(owned[name])
            if len(taken := numbers[(owners[numbers] != FREE) & (owners[numbers] != index)]):
                topic, at = lanes.lane(int(taken[0]))
                both = f"{members[owners[taken[0]]]!r} and {name!r}"
                raise UsageError.of(f"lane {at} of {topic!r} has two owners: {both}")
            owners[numbers] = index
        return cls(lanes, members, owners)

    def __eq__(self, other: object) -> bool:
        """Equal where every lane has the same owner, by name; members without a lane count too, not their order."""
        if not isinstance(other, Assignment):
            return NotImplemented
        return set(self.members) == set(other.members) and self.as_lists() == other.as_lists()

    def __hash__(self) -> int:
        return hash((frozenset(self.members), self.lanes.topics, self.lanes.counts))

    def owner(self, lane: Lane) -> str | None:
        """Who owns a lane; None where nobody does, or where there is no such lane."""
        number = self.lanes.number(lane)
        return None if number is None or self.owners[number] == FREE else self.members[self.owners[number]]

    def of(self, member: str) -> list[Lane]:
        """The lanes of a member, in order."""
        if member not in self.members:
            return []
        return [self.lanes.lane(n) for n in np.flatnonzero(self.owners == self.members.index(member)).tolist()]

    def as_lists(self) -> dict[str, list[Lane]]:
        """The lanes of every member, in order; members without a lane too."""
        order = np.argsort(self.owners, kind="stable")
        ends = np.searchsorted(self.owners[order], np.arange(len(self.members) + 1)).tolist()
        topic = self.lanes.topic_of_lanes()[order]
        index = order - np.asarray(self.lanes.starts, dtype=np.int64)[topic]
        # Names and numbers are shared among the pairs: a million pairs take longer than to decide who owns them.
        topics = np.array(self.lanes.topics, dtype=np.object_)[topic].tolist()
        indexes = np.array(range(max(self.lanes.counts, default=0)), dtype=np.object_)[index].tolist()
        with _collector_at_rest():
            return {
                name: list(zip(topics[begin:end], indexes[begin:end], strict=True))
                for name, begin, end in zip(self.members, ends, ends[1:], strict=False)
            }

    def counts(self) -> NDArray[np.int64]:
        """How many lanes each member has, in the order of `members`."""
        return np.bincount(self.owners[self.owners != FREE], minlength=len(self.members))

    @property
    def idle(self) -> tuple[str, ...]:
        """Members without a lane."""
        return tuple(name for name, lanes in zip(self.members, self.counts().tolist(), strict=True) if not lanes)

    def seen_by(self, members: Sequence[Member], lanes: Lanes) -> Owners:
        """The same owners, numbered as `members` and `lanes` are: what has gone is left out, what is new is free."""
        place = {member.id: number for number, member in enumerate(members)}
        renumbered = np.array([*(place.get(name, FREE) for name in self.members), FREE], dtype=np.int32)
        if (lanes.topics, lanes.counts) == (self.lanes.topics, self.lanes.counts):
            return renumbered[self.owners]
        found = np.full(lanes.total, FREE, dtype=np.int32)
        for topic, name in enumerate(lanes.topics):
            if (before := self.lanes.topic_numbers.get(name)) is not None:
                length = min(lanes.counts[topic], self.lanes.counts[before])
                begin, source = lanes.starts[topic], self.lanes.starts[before]
                found[begin : begin + length] = renumbered[self.owners[source : source + length]]
        return found


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Without Python's cycle collector, which would go through a million new pairs again and again and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def check_members(members: Sequence[Member]) -> None:
    """Refuse a group without members, and one that names a member twice."""
    if not members:
        raise UsageError.of("a group needs a member", got=0, allowed="at least one")
    seen: set[str] = set()
    for member in members:
        if not member.id:
            raise UsageError.of("a member needs a name", got=member.id)
        for name, what in ((member.id, "member"), (member.instance, "instance"), (member.rack, "rack")):
            check_text(name or "", what)
        if member.id in seen:
            raise UsageError.of("a member is named twice", got=member.id, hint="give each member once")
        seen.add(member.id)


def subscriptions(members: Sequence[Member], lanes: Lanes) -> NDArray[np.bool_] | None:
    """A row for each topic, a column for each member: who is subscribed to what; None where all are to all."""
    everything = frozenset(lanes.topics)
    if all(member.topics is None or member.topics >= everything for member in members):
        return None
    found = np.zeros((len(lanes.topics), len(members)), dtype=np.bool_)
    for number, member in enumerate(members):
        if member.topics is None:
            found[:, number] = True
        else:
            found[[lanes.topic_numbers[topic] for topic in member.topics if topic in lanes.topic_numbers], number] = (
                True
            )
    return found

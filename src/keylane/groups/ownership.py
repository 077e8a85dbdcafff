"""Static ownership: an instance takes an id, computes its lanes from it, and holds them for as long as it lives.

The rule. A group has a fixed number of ids. Whoever holds id k of n owns every lane whose number leaves the remainder k
when it is divided by n, in every topic of the group. An id is held by a lease with a time to live, judged by the clock
of the store alone. A lease that is live is given to nobody, not even to its own holder again; one that is over is never
renewed. Every lease that is given gets a term, one more than any term that the group has given before. Who holds no
id is a spare: it asks again until an id is free.

Worked example: 3 ids, 8 lanes, a time to live of 10 s. Instance a takes id 0 with term 1 and owns lanes 0, 3 and 6; b
takes id 1 with term 2, c id 2 with term 3; d waits. At 20 s b stops without a word, having renewed at 18 s. At 28 s
its lease is over, and d, which asks every 2.5 s, takes id 1 with term 4 and owns lanes 1, 4 and 7. a and c notice
nothing. When b wakes up it still believes that it owns id 1, and writes with term 2: whatever it writes is refused by
the fence, because term 4 is known there. Then its renewal is refused, and b is the spare.

What a change does. One more lane goes to the id of its remainder, and no other lane moves. An instance that goes moves
the lanes of its own id to a spare. Another number of ids moves most lanes, so it is changed only while nobody holds a
lease; terms go on from where they were.

A store that is lost, or put back to an older copy, would give terms anew that were given before: new owners would be
taken for former ones. So whoever takes an id compares its term with those that were left behind, in snapshots and with
the group, and asks for one above them where it is not (`Acquire.above`).

Safety never rests on the lease. The holder's own view of it ends earlier than the store's, by what clocks may drift,
which keeps two owners from working side by side as a rule; a process that is paused between a look at its clock and a
write breaks it all the same. What holds is the fence: what is written carries the term, and is refused where a higher
one is known. Kafka's brokers do that for a transactional id, `TermFence` does it for readers of a header.

When not to use it: where state is cheap to rebuild and members come and go with the load. The assignors of this package
balance then; static ownership does not.

Everything here is pure: clocks are arguments, in seconds, of the store (`LeaseTable`) or of the instance (`Claim`).
Stores on disk and in ZooKeeper: `keylane.systems.leases`. The loop that uses all this: `keylane.systems.kafka.owner`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How often a holder renews within one time to live, and how often a spare asks.
RENEWALS: Final = 4
#: What a holder takes off its own view of a lease: clocks of one second that differ by so much a second.
DRIFT: Final = 0.1


def lanes_of(instance: int, instances: int, lanes: int) -> range:
    """The lanes of an id.

    >>> [list(lanes_of(k, 3, 8)) for k in range(3)]
    [[0, 3, 6], [1, 4, 7], [2, 5]]
    """
    if instances < 1 or not 0 <= instance < instances:
        raise UsageError.of("no such instance id", got=instance, allowed=f"0 to {instances - 1}")
    return range(instance, lanes, instances)


@dataclass(frozen=True, slots=True)
class Lease:
    """An id and its last ownership. `owner` is empty once it was released; `expires` is by the clock of the store."""

    instance: int
    term: int = 0
    owner: str = ""
    ttl: float = 0.0
    expires: float = 0.0

    def is_live(self, now: float) -> bool:
        """Whether somebody holds it by the clock of the store.

        More than its time to live cannot be left: a clock that went back, as one that counts from the start of a
        machine does, ends a lease instead of prolonging it.
        """
        return bool(self.owner) and 0 < self.expires - now <= self.ttl


@dataclass(frozen=True, slots=True)
class Acquire:
    """Ask for the first of some ids that is free. Its term is above this one, which something else has shown."""

    owner: str
    wanted: tuple[int, ...]
    ttl: float
    above: int = 0


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask for another time to live of a lease."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Release:
    """Give a lease back before its time."""

    lease: Lease


LeaseRequest: TypeAlias = Acquire | Renew | Release


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """What a store holds: the last lease of every id, and the last term. Each step compares and sets, as one.

    >>> table = LeaseTable.of(2)
    >>> table, mine = table.answer(Acquire("a", (0, 1), ttl=10), now=100)
    >>> mine
    Lease(instance=0, term=1, owner='a', ttl=10, expires=110)
    >>> table, yours = table.answer(Acquire("b", (0,), ttl=10), now=109)
    >>> yours is None
    True
    >>> table, yours = table.answer(Acquire("b", (0,), ttl=10), now=110)
    >>> yours.term, table.answer(Renew(mine), now=110)[1] is None
    (2, True)
    """

    leases: tuple[Lease, ...]
    term: int = 0

    @classmethod
    def of(cls, instances: int) -> LeaseTable:
        """A group with so many ids, of which nobody holds one."""
        return cls(tuple(Lease(instance) for instance in range(instances)))

    def answer(self, request: LeaseRequest, now: float) -> tuple[LeaseTable, Lease | None]:
        """The table after a request, and what is answered: the lease, or None where the request is refused."""
        if isinstance(request, Acquire):
            return self._acquired(request, now)
        lease = request.lease
        held = self.leases[lease.instance]
        if held.term != lease.term or not held.is_live(now):
            return self, None
        if isinstance(request, Release):
            return self._with(replace(held, owner="", expires=now))
        return self._with(replace(held, expires=now + held.ttl))

    def _acquired(self, request: Acquire, now: float) -> tuple[LeaseTable, Lease | None]:
        for instance in request.wanted:
            if not self.leases[instance].is_live(now):
                term = max(self.term, request.above) + 1
                lease = Lease(instance, term, request.owner, request.ttl, now + request.ttl)
                return self._with(lease, term)
        return self, None

    def _with(self, lease: Lease, term: int | None = None) -> tuple[LeaseTable, Lease]:
        leases = (*self.leases[: lease.instance], lease, *self.leases[lease.instance + 1 :])
        return LeaseTable(leases, term or self.term), lease


class LeaseStore(Protocol):
    """Where the leases of a group are kept. Every answer is as of one moment of the store's own clock.

    A store that cannot be reached raises `KeylaneError`: whether the request took effect is then unknown.
    """

    @property
    def instances(self) -> int:
        """How many ids the group has."""

    def answer(self, request: LeaseRequest) -> Lease | None:
        """Carry a request out as `LeaseTable.answer` does."""

    def read(self) -> tuple[Lease, ...]:
        """The ids and who holds them now: the lease of an id that nobody holds has no owner."""

    def resize(self, instances: int) -> None:
        """Give the group another number of ids; refused while anybody holds one. Terms go on from where they were."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a lease lives, how often it is renewed or asked for, and what the holder takes off for drift.

    `every` 0: four times in a time to live.
    """

    ttl: float = 10.0
    every: float = 0.0
    drift: float = DRIFT

    def __post_init__(self) -> None:
        if not 0 < self.ttl < inf or not 0 <= self.drift < 1 or not 0 <= self.every < self.ttl:
            raise UsageError.of("not the terms of a lease", got=self, allowed="0 <= every < ttl and 0 <= drift < 1")
        if not self.every:
            object.__setattr__(self, "every", self.ttl / RENEWALS)

    @property
    def own_view(self) -> float:
        """How long a holder counts on a lease, from the moment at which it sent the request."""
        return self.ttl * (1 - self.drift)


@dataclass(frozen=True, slots=True)
class Claim:
    """An instance's side: which ids it may take, in the order of preference, what it holds, and until when.

    All times are of the instance's own clock. A lease is counted on from the moment at which its request was sent,
    since the store may have answered at once. Answers may come late, twice or never:

    >>> claim = Claim("b", (1,), Terms(ttl=10))
    >>> asked = claim.request(now=50)
    >>> claim = claim.answered(asked, sent=50, answer=Lease(1, 2, "b", 10, 7310), now=53)
    >>> claim.holds(58.9), claim.holds(59), claim.request(now=52), claim.request(now=53) == Renew(claim.lease)
    (True, False, None, True)
    >>> lost = claim.answered(Renew(claim.lease), sent=60, answer=None, now=61)
    >>> lost.lease is None, lost.request(now=61) == asked
    (True, True)
    """

    owner: str
    wanted: tuple[int, ...]
    terms: Terms = field(default_factory=Terms)
    lease: Lease | None = None
    until: float = 0.0
    again: float = float("-inf")
    #: The highest term that is known to have been given, by whatever shows it: the store may have lost its own.
    above: int = 0

    def holds(self, now: float) -> bool:
        """Whether the instance may work: by its own view, which ends before the store's."""
        return self.lease is not None and now < self.until

    def request(self, now: float) -> LeaseRequest | None:
        """What to ask the store now; None where it is not time yet.

        A lease that is over by the instance's own view is asked to be renewed, too: as long as nobody has taken the id
        the store may still have it, and work goes on without a new term.
        """
        if now < self.again:
            return None
        if self.lease is not None:
            return Renew(self.lease)
        return Acquire(self.owner, self.wanted, self.terms.ttl, self.above)

    def answered(self, request: LeaseRequest, sent: float, answer: Lease | None, now: float) -> Claim:
        """The claim after an answer of the store to a request that was sent at `sent`."""
        if isinstance(request, Release) or not self._is_current(request):
            return self
        if answer is None:
            # A refused renewal is final: the term is over. The next request is for a new lease, at once.
            lost = self.lease is not None
            return replace(self, lease=None, until=0.0, again=now if lost else sent + self.terms.every)
        until = max(self.until, sent + self.terms.own_view) if self.lease else sent + self.terms.own_view
        return replace(self, lease=answer, until=until, again=sent + self.terms.every)

    def unanswered(self, sent: float, now: float) -> Claim:
        """The claim when the store could not be asked: it is asked again soon, and the own view runs on."""
        return replace(self, again=max(now, sent + self.terms.every / 2))

    def _is_current(self, request: Acquire | Renew) -> bool:
        """An answer to a renewal of an earlier lease, or to a second request for one, changes nothing."""
        if isinstance(request, Renew):
            return self.lease is not None and request.lease.term == self.lease.term
        return self.lease is None


def claim_of(owner: str, instances: int, terms: Terms, instance: int | None = None) -> Claim:
    """A claim on one id, or on whichever is free.

    >>> claim_of("a", 4, Terms()).wanted, claim_of("a", 4, Terms(), instance=2).wanted
    ((0, 1, 2, 3), (2,))
    """
    wanted = range(instances) if instance is None else (instance,)
    for one in wanted:
        lanes_of(one, instances, 0)
    return Claim(owner, tuple(wanted), terms)


class TermFence:
    """What a reader keeps to refuse the records of former owners: the highest term of every lane.

    Rule: a record whose term is below the highest that the lane has shown is stale. An owner's first record in a lane
    raises it, so a new owner writes one before it does anything else (`keylane.systems.kafka.owner_terms`).
    Order in the log decides, no clock does: what a former owner wrote before that is its own, what comes behind is not.

    >>> fence = TermFence()
    >>> [fence.accepts("orders/1", term) for term in (2, 2, 4, 2, 4)]
    [True, True, True, False, True]
    >>> fence.stale["orders/1"], fence.highest
    (1, {'orders/1': 4})

    A reader keeps `highest` with its position, and begins with it again: from an empty one it would accept the stale
    records that come before the next record of the owner.
    """

    def __init__(self, highest: Mapping[str, int] | None = None) -> None:
        self.highest: dict[str, int] = dict(highest or {})
        self.stale: Counter[str] = Counter()

    def accepts(self, lane: str, term: int) -> bool:
        """Whether a record of this term is its lane's owner's; a stale one is counted."""
        if term < self.highest.get(lane, term):
            self.stale[lane] += 1
            return False
        self.highest[lane] = term
        return True

"""Simulated hours of static ownership: owners and spares, the store of their leases, and the log that they write to.

Owners renew, work by their own view of the lease, and write with their term; they are paused for up to four leases,
also between the look at the lease and the write, crash, are cut off, and the store is started again. Rules: the log
accepts no write of an earlier owner (a zombie), every record is written once, the store never has two live leases of
one id, a lane that is free has an owner again within two leases of the last fault, and who is healthy keeps its
term.

With `fenced=False` the log takes whatever comes, and the leases are all that is left: this twin has to be caught. A
larger `Terms.drift` in the setup, an owner that stops counting on its lease earlier, makes zombies rarer and does not
end them.

The state machines are those of `ownership`; queue, network and log are in `simulation`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from keylane.groups.ownership import Acquire, Claim, LeaseTable, Release, Terms, claim_of, lanes_of
from keylane.groups.simulation import (
    AcceptedWrites,
    BrokenRule,
    Faults,
    FencedLog,
    FreeLanes,
    Network,
    Participant,
    ProcessFaults,
    SimulatedProcess,
    Simulation,
    Spell,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.groups.ownership import Lease, LeaseRequest


class LeaseSetup(NamedTuple):
    """What is simulated: ids, processes (those beyond the ids are spares), lanes, and times in seconds."""

    ids: int = 3
    processes: int = 4
    lanes: int = 12
    terms: Terms = Terms(ttl=10.0)
    #: How often an owner works, and how long a record takes at most.
    pace: float = 4.0
    #: The most that a clock is off.
    drift: float = 0.05
    #: Seconds from one fault to the next, on average, and the longest pause or cut, in leases.
    fault_every: float = 60.0
    longest: float = 4.0
    fenced: bool = True
    network: Network = Network()

    def lasting(self, terms: Terms) -> LeaseSetup:
        """The same with other leases: all other times in proportion."""
        scale = terms.ttl / self.terms.ttl
        network = self.network.scaled(scale)
        return self._replace(terms=terms, pace=scale * self.pace, fault_every=scale * self.fault_every, network=network)


class LeaseOutcome(NamedTuple):
    """What a run has shown."""

    hours: float
    events: int
    faults: dict[str, int]
    terms: int
    accepted: int
    #: Writes and announcements of earlier owners that the fence refused.
    refused: int
    #: The longest that a lane was free after the last fault, in leases.
    longest_free: float
    broken: tuple[BrokenRule, ...]


class LeaseSimulation:
    """A store of leases, a log, and the processes that own lanes."""

    def __init__(self, chance: Callable[[], float], setup: LeaseSetup) -> None:
        self.setup = setup
        self.simulation = simulation = Simulation(chance, setup.network)
        self.writes = AcceptedWrites(simulation)
        self.log_store = FencedLog(self.writes, fenced=setup.fenced)
        self.free = FreeLanes(simulation, 2 * setup.terms.ttl)
        self.store = simulation.process("store", self.some_rate())
        self.log = simulation.process("log")
        self.table = LeaseTable.of(setup.ids)
        self.owners = [
            LeaseOwner(self, simulation.process(f"owner-{n}", self.some_rate())) for n in range(setup.processes)
        ]
        #: Until when the store has promised each id, by its own clock.
        self._promised = [0.0] * setup.ids
        self.look_anew()
        self.faults = Faults(simulation, setup.fault_every, self.kinds_of_faults(), self.before_fault, self.look_anew)

    def __repr__(self) -> str:
        return "<leases>"

    def run(self, hours: float) -> LeaseOutcome:
        """That many hours, with faults."""
        self.simulation.run(hours * 3600)
        return self.outcome()

    def outcome(self) -> LeaseOutcome:
        """What was seen so far."""
        return LeaseOutcome(
            self.simulation.now / 3600,
            self.simulation.events,
            dict(sorted(self.faults.begun.items())),
            self.table.term,
            self.writes.accepted,
            self.log_store.refused,
            self.free.longest / self.setup.terms.ttl,
            tuple(self.simulation.broken),
        )

    def some_rate(self) -> float:
        """How fast some clock goes."""
        return self.simulation.between(1 - self.setup.drift, 1 + self.setup.drift)

    # The store and the log.

    def ask_store(self, given: tuple[LeaseOwner, LeaseRequest, float]) -> None:
        """A request for a lease, at the store."""
        owner, request, sent = given
        if not owner.able:
            # What is late may renew a lease whose process is gone, so that this is a fault as well.
            self.before_fault()
        now = self.store.clock()
        self.table, answer = self.table.answer(request, now)
        if answer is not None:
            if isinstance(request, Acquire):
                if now < self._promised[answer.instance]:
                    self.simulation.breaks("one live lease of an id", f"{answer} while another is live")
                self.check_healthy(answer)
            self._promised[answer.instance] = answer.expires
        in_time = self.store.send(owner.process, owner.answered, (request, sent, answer))
        if answer is not None and not in_time:
            # Who is given a lease and does not learn of it can have it again when it is over: a fault of the network.
            self.before_fault()

    def check_healthy(self, lease: Lease) -> None:
        """Nobody loses its id while it works and can be reached."""
        for owner in self.owners:
            held = owner.claim.lease
            if owner.able and held and held.instance == lease.instance and owner.claim.holds(owner.process.clock()):
                self.simulation.breaks("owners keep their lanes", f"{owner} lost id {lease.instance}")

    def open_lane(self, given: tuple[LeaseOwner, int, int]) -> None:
        """A term is announced, at the log."""
        owner, lane, term = given
        self.log.send(owner.process, owner.opened, (lane, term, self.log_store.open(lane, term)))

    def write(self, given: tuple[LeaseOwner, int, int, int]) -> None:
        """A record, at the log."""
        owner, lane, term, position = given
        accepted = self.log_store.write(lane, term, f"{owner.process.name} in term {term}", position)
        self.log.send(owner.process, owner.written, (lane, term, position if accepted else None))

    # How long lanes are free, and faults.

    def look(self) -> None:
        """Which ids have an owner that can work."""
        taken = {owner.claim.lease.instance for owner in self.owners if owner.able and owner.claim.lease}
        live = {lease.instance for lease in self.table.leases if lease.owner}
        for instance in range(self.setup.ids):
            self.free.see(instance, taken=instance in taken and instance in live)

    def look_anew(self) -> None:
        """After a fault has begun or ended."""
        for owner in self.owners:
            owner.look()
        self.look()

    def before_fault(self) -> None:
        """What could be taken until now: with a store that runs, as many ids as there are processes that can work."""
        runs = self.store.up and not self.store.paused
        able = sum(owner.able for owner in self.owners) >= self.setup.ids
        self.free.fault(lambda _: runs and able)

    def kinds_of_faults(self) -> dict[str, Callable[[], Spell | None]]:
        """By name. A store that starts again has all that it held."""
        processes = ProcessFaults(self.owners, self.store, self.setup.longest * self.setup.terms.ttl)
        return processes.kinds(self.store.start) | {"cut from the log": partial(processes.cut, self.log)}


class LeaseOwner(Participant):
    """A process that owns lanes while it counts on its lease, and is a spare otherwise.

    One that does not reach the log owns lanes all the same: the lease says nothing about that.
    """

    __slots__ = ("claim", "leases", "positions")

    def __init__(self, leases: LeaseSimulation, process: SimulatedProcess) -> None:
        super().__init__(process, leases.store)
        self.leases = leases
        self.claim: Claim
        #: The last position of each lane that was opened in the current term.
        self.positions: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """Start as a new process."""
        process, setup = self.process, self.leases.setup
        self.claim = claim_of(f"{process.name}.{process.life}", setup.ids, setup.terms)
        self.positions = {}
        process.after(process.simulation.between(0, setup.terms.every), self.ask, None)
        process.after(process.simulation.between(0, setup.pace), self.work, None)

    def say_goodbye(self) -> None:
        """Give the id back."""
        lease = self.claim.lease
        if lease is not None:
            self.process.send(self.leases.store, self.leases.ask_store, (self, Release(lease), self.process.clock()))

    def ask(self, _: None) -> None:
        """Acquire or renew, and ask again when the claim says so, or when no answer has come."""
        process, claim = self.process, self.claim
        now = process.clock()
        request = claim.request(now)
        if request is not None:
            self.claim = claim.unanswered(now, now)
            process.send(self.leases.store, self.leases.ask_store, (self, request, now))
        process.after(max(self.claim.again - now, 0.05), self.ask, None)

    def answered(self, given: tuple[LeaseRequest, float, Lease | None]) -> None:
        """The store's answer. A new term is announced to the log before anything is written."""
        request, sent, answer = given
        before = self.claim.lease
        self.claim = self.claim.answered(request, sent, answer, self.process.clock())
        lease = self.claim.lease
        if (lease and lease.term) != (before and before.term):
            self.positions = {}
            self.leases.look()

    def opened(self, given: tuple[int, int, int | None]) -> None:
        """The log's answer to a term: where the lane ends."""
        lane, term, position = given
        lease = self.claim.lease
        if lease is not None and lease.term == term and position is not None:
            self.positions[lane] = position

    def written(self, given: tuple[int, int, int | None]) -> None:
        """The log's answer to a record."""
        lane, term, position = given
        lease = self.claim.lease
        if lease is not None and lease.term == term and position is not None and lane in self.positions:
            self.positions[lane] = max(self.positions[lane], position)

    def work(self, _: None) -> None:
        """Look at the lease, and write a record of each lane a little later, without another look."""
        leases, process, claim = self.leases, self.process, self.claim
        setup = leases.setup
        if claim.lease is not None and claim.holds(process.clock()):
            term, between = claim.lease.term, process.simulation.between
            for lane in lanes_of(claim.lease.instance, setup.ids, setup.lanes):
                position = self.positions.get(lane)
                if position is None:
                    process.send(leases.log, leases.open_lane, (self, lane, term))
                else:
                    process.after(between(0, setup.pace), self.send, (self, lane, term, position + 1))
        process.after(setup.pace, self.work, None)

    def send(self, given: tuple[LeaseOwner, int, int, int]) -> None:
        """A record, on its way."""
        self.process.send(self.leases.log, self.leases.write, given)

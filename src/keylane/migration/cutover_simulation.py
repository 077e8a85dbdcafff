"""Simulated hours of cut-overs: drivers under leases, producers, readers, the journal and the stream, under faults.

A stream grows from two lanes to three, four and six, and then places its keys anew again and again, one migration after
the other. Drivers look, decide and append as `keylane.systems.migrations` does, by messages that are late, lost and
repeated; two of them want to drive. Producers send while they believe that they may, and acknowledge when their last
record was; readers fetch, look at the journal, apply by the gate, and commit later; all are paused, crash, and are cut
off. Rules: a key's records are applied in their order and none is left out, none of an earlier contract is applied
after one of a later, and a journal has one entry `open`.

The twins, each of which has to be caught: `gated=False`, `acknowledged=False`, `fenced=False`, as in
`exhaustive_cutover`, which has every interleaving of a smaller case. Queue, network and faults:
`keylane.groups.simulation`. What is taken from elsewhere: the stream drops what a former life of a producer had on its
way, as a transactional id or the end of a connection does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from keylane.groups.ownership import LeaseTable, Terms, claim_of
from keylane.groups.simulation import Faults, Network, Participant, ProcessFaults, Simulation
from keylane.migration.cutover import (
    OVER,
    Append,
    CutoverCall,
    CutoverPlan,
    Entry,
    World,
    accepts,
    hold_of,
    may_send,
    next_step,
    opened,
    phase_of,
)
from keylane.migration.gate import LaneGate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.groups.ownership import Claim, Lease, LeaseRequest
    from keylane.groups.simulation import BrokenRule, SimulatedProcess, Spell

#: Lanes of the first contracts; later ones have as many as the last of these.
GROWTH = (2, 3, 4, 6)


class CutoverSetup(NamedTuple):
    """What is simulated; times in seconds."""

    drivers: int = 2
    producers: int = 3
    readers: int = 2
    keys: int = 6
    terms: Terms = Terms(ttl=10.0)
    pace: float = 2.0
    drift: float = 0.05
    fault_every: float = 60.0
    longest: float = 40.0
    #: Seconds from the end of a migration to the next.
    rest: float = 30.0
    gated: bool = True
    acknowledged: bool = True
    fenced: bool = True
    network: Network = Network()


class CutoverOutcome(NamedTuple):
    """What a run has shown."""

    hours: float
    events: int
    faults: dict[str, int]
    migrations: int
    applied: int
    #: Entries of drivers that were late, and looks at lanes that the gate held.
    refused: int
    held: int
    broken: tuple[BrokenRule, ...]


class SimulatedRecord(NamedTuple):
    """A record: its key, its number among the records of the key, and the contract that placed it."""

    key: int
    number: int
    epoch: int


class CutoverSimulation:
    """One stream, one journal after the other, and everybody who uses them."""

    def __init__(self, chance: Callable[[], float], setup: CutoverSetup) -> None:
        self.setup = setup
        self.simulation = simulation = Simulation(chance, setup.network)
        self.store, self.stream = simulation.process("store"), simulation.process("stream")
        self.table = LeaseTable.of(1)
        self.epoch = 1
        self.entries: tuple[Entry, ...] = ()
        self.stopped: dict[str, tuple[int, int]] = {}
        self.lanes: list[list[SimulatedRecord]] = [[] for _ in range(GROWTH[0])]
        self.committed: dict[int, int] = {}
        self.lives: dict[str, int] = {}
        self.numbers: dict[int, int] = dict.fromkeys(range(setup.keys), 0)
        self.last: dict[int, tuple[int, int]] = dict.fromkeys(range(setup.keys), (0, 0))
        self.gates: dict[int, LaneGate] = {}
        self.migrations = self.applied = self.refused = self.held = 0
        self.drivers = [CutoverDriver(self, self.process(f"driver-{n}")) for n in range(setup.drivers)]
        self.producers = [CutoverProducer(self, self.process(f"producer-{n}"), n) for n in range(setup.producers)]
        self.readers = [CutoverReader(self, self.process(f"reader-{n}"), n) for n in range(setup.readers)]
        everybody = [*self.drivers, *self.producers, *self.readers]
        self.faults = Faults(simulation, setup.fault_every, self.kinds(everybody), _nothing, partial(_look, everybody))

    def __repr__(self) -> str:
        return "<cutover>"

    def process(self, name: str) -> SimulatedProcess:
        """A process with a clock of its own."""
        drift = self.setup.drift
        return self.simulation.process(name, self.simulation.between(1 - drift, 1 + drift))

    def kinds(self, everybody: list[Any]) -> dict[str, Callable[[], Spell | None]]:
        """The faults by name."""
        faults = ProcessFaults(everybody, self.store, self.setup.longest)
        return faults.kinds(self.store.start) | {"cut from the stream": partial(faults.cut, self.stream)}

    def run(self, hours: float) -> CutoverOutcome:
        """That many hours, with faults."""
        self.simulation.run(hours * 3600)
        return CutoverOutcome(
            self.simulation.now / 3600,
            self.simulation.events,
            dict(sorted(self.faults.begun.items())),
            self.migrations,
            self.applied,
            self.refused,
            self.held,
            tuple(self.simulation.broken),
        )

    # Contracts.

    def lanes_of(self, epoch: int) -> int:
        """How many lanes a contract has."""
        return GROWTH[min(epoch, len(GROWTH)) - 1]

    def lane_of(self, key: int, epoch: int) -> int:
        """Where a contract puts a key: the first ones by the number of lanes alone, later ones each in its own way."""
        return (key + max(0, epoch - len(GROWTH))) % self.lanes_of(epoch)

    def plan(self) -> CutoverPlan:
        """The next change."""
        names = tuple(one.process.name for one in self.producers)
        return CutoverPlan(self.lanes_of(self.epoch), self.lanes_of(self.epoch + 1), producers=names)

    def parents(self, epoch: int) -> tuple[tuple[int, ...], ...]:
        """The old lanes of each new lane's keys; a lane that stays is its own parent."""
        old = [{lane} if lane < self.lanes_of(epoch) else set[int]() for lane in range(self.lanes_of(epoch + 1))]
        for key in range(self.setup.keys):
            old[self.lane_of(key, epoch + 1)].add(self.lane_of(key, epoch))
        return tuple(tuple(sorted(one)) for one in old)

    # The store: leases, entries, acknowledgements.

    def ask(self, given: tuple[CutoverDriver, LeaseRequest, float]) -> None:
        """A request for the lease."""
        driver, request, sent = given
        self.table, answer = self.table.answer(request, self.store.clock())
        self.store.send(driver.process, driver.answered, (request, sent, answer))

    def journal(self, given: tuple[Participant, Callable[[Any], None], int]) -> None:
        """What the journal holds, to whoever asks."""
        asker, reply, number = given
        hold = hold_of(self.entries)
        stopped = frozenset(name for name, of in self.stopped.items() if of == (self.epoch, hold))
        self.store.send(asker.process, reply, (number, self.epoch, self.entries, stopped))

    def append(self, given: tuple[int, Entry]) -> None:
        """An entry for the journal of an epoch. A journal without a fence believes whoever comes last."""
        epoch, entry = given
        if epoch != self.epoch or not accepts(self.entries, entry):
            self.refused += 1
            if self.setup.fenced or epoch != self.epoch or entry.phase == phase_of(self.entries):
                return
        entry = entry._replace(number=len(self.entries))
        self.entries = (*self.entries, entry)
        openings = [one for one in self.entries if one.phase == "open"]
        if len(openings) > 1:
            self.simulation.breaks("one entry open", f"{len(openings)} in epoch {self.epoch}")
        if entry.phase == "open":
            self.gates[self.epoch + 1] = LaneGate.of(entry, self.parents(self.epoch))
        if entry.phase == "done":
            self.migrations += 1
            self.simulation.at(self.simulation.now + self.setup.rest, self.next_migration, None)

    def next_migration(self, _: None) -> None:
        """A new journal, for the next contract."""
        self.epoch += 1
        self.entries = ()

    def acknowledge(self, given: tuple[str, int, int]) -> None:
        """A producer has stopped."""
        name, epoch, hold = given
        self.stopped[name] = max(self.stopped.get(name, (0, -1)), (epoch, hold))

    # The stream: records, growth, committed offsets.

    def ends(self, given: tuple[CutoverDriver, int]) -> None:
        """How long the lanes are, and how far they are committed."""
        driver, number = given
        committed = tuple(self.committed.get(lane, 0) for lane in range(len(self.lanes)))
        self.stream.send(driver.process, driver.seen, (number, tuple(map(len, self.lanes)), committed))

    def grow(self, lanes: int) -> None:
        """Give the stream so many lanes."""
        self.lanes += [[] for _ in range(lanes - len(self.lanes))]

    def begin(self, given: tuple[CutoverProducer, int]) -> None:
        """A producer begins a life: what earlier lives have on their way is dropped, and it learns its last numbers."""
        producer, life = given
        name = producer.process.name
        self.lives[name] = max(life, self.lives.get(name, 0))
        last = {key: self.numbers[key] for key in producer.keys}
        self.stream.send(producer.process, producer.begun, (life, last))

    def write(self, given: tuple[CutoverProducer, int, SimulatedRecord]) -> None:
        """A record; one that is there already is acknowledged again."""
        producer, life, record = given
        if life != self.lives.get(producer.process.name):
            return
        if record.number == self.numbers[record.key] + 1:
            self.numbers[record.key] = record.number
            lane = self.lane_of(record.key, record.epoch)
            if lane < len(self.lanes):
                self.lanes[lane].append(record)
        self.stream.send(producer.process, producer.written, (life, record))

    def fetch(self, given: tuple[CutoverReader, int, dict[int, int]]) -> None:
        """The next record of each lane of a reader, and what is committed of all lanes."""
        reader, number, positions = given
        mine = {
            lane: positions.get(lane, self.committed.get(lane, 0))
            for lane in range(reader.number, len(self.lanes), self.setup.readers)
        }
        found = {lane: (at, self.lanes[lane][at : at + 3]) for lane, at in mine.items()}
        self.stream.send(reader.process, reader.fetched, (number, found, dict(self.committed)))

    def commit(self, given: dict[int, int]) -> None:
        """Positions of a reader."""
        for lane, at in given.items():
            self.committed[lane] = max(at, self.committed.get(lane, 0))

    def apply(self, record: SimulatedRecord) -> None:
        """A record takes effect."""
        self.applied += 1
        last, epoch = self.last[record.key]
        if record.epoch < epoch:
            self.simulation.breaks("no old record after a new one", f"{record} after epoch {epoch}")
        elif record.number > last + 1:
            self.simulation.breaks("records of a key in their order", f"{record} after {last}")
        self.last[record.key] = max(last, record.number), max(epoch, record.epoch)


def _nothing() -> None:
    """Nothing is to be noted before a fault."""


def _look(everybody: Sequence[Participant]) -> None:
    for one in everybody:
        one.look()


class _Actor(Participant):
    """A participant that works at its pace, and asks one question at a time."""

    def __init__(self, cutover: CutoverSimulation, process: SimulatedProcess) -> None:
        super().__init__(process, cutover.store)
        self.cutover = cutover
        self.asked = 0
        self.begin()

    def begin(self) -> None:
        """Start as a new process."""
        self.process.after(self.process.simulation.between(0, self.cutover.setup.pace), self.work, None)

    def say_goodbye(self) -> None:
        """It leaves without a word."""

    def work(self, _: None) -> None:
        """A turn, and the next one later."""
        self.asked += 1
        self.turn()
        self.process.after(self.cutover.setup.pace, self.work, None)

    def turn(self) -> None:
        """What is done at each turn."""
        raise NotImplementedError


class CutoverDriver(_Actor):
    """A driver: looks at the journal, then at the stream, decides, and appends or calls."""

    def begin(self) -> None:
        """A new process holds no lease."""
        setup, process = self.cutover.setup, self.process
        self.claim: Claim = claim_of(f"{process.name}.{process.life}", 1, setup.terms)
        self.before: tuple[int, ...] = ()
        self.since = process.clock()
        super().begin()

    def turn(self) -> None:
        """Acquire or renew; look, if the lease is held."""
        now = self.process.clock()
        request = self.claim.request(now)
        if request is not None:
            self.claim = self.claim.unanswered(now, now)
            self.process.send(self.cutover.store, self.cutover.ask, (self, request, now))
        if self.claim.holds(now):
            self.process.send(self.cutover.store, self.cutover.journal, (self, self.listed, self.asked))

    def answered(self, given: tuple[LeaseRequest, float, Lease | None]) -> None:
        """The store's answer about the lease."""
        self.claim = self.claim.answered(*given, self.process.clock())

    def listed(self, given: tuple[int, int, tuple[Entry, ...], frozenset[str]]) -> None:
        """The journal; the stream is looked at behind it."""
        number, self.epoch, self.entries, self.stopped = given
        if number == self.asked and phase_of(self.entries) not in OVER:
            self.process.send(self.cutover.stream, self.cutover.ends, (self, number))

    def seen(self, given: tuple[int, tuple[int, ...], tuple[int, ...]]) -> None:
        """The stream: what is decided now is done a little later, without another look."""
        number, ends, committed = given
        if number != self.asked or self.claim.lease is None:
            return
        if ends != self.before:
            self.before, self.since = ends, self.process.clock()
        cutover, setup = self.cutover, self.cutover.setup
        still = self.process.clock() > self.since
        plan = cutover.plan()
        stopped = self.stopped if setup.acknowledged else frozenset(plan.producers)
        world = World(len(ends), ends, (), stopped, still=still, applied=committed)
        step = next_step(plan, self.entries, world, self.claim.lease.term)
        wait = self.process.simulation.between(0, setup.pace / 2)
        if isinstance(step, Append):
            self.process.after(wait, self.send_entry, (self.epoch, step.entry))
        elif isinstance(step, CutoverCall):
            self.process.after(wait, self.send_growth, plan.new_lanes)

    def send_entry(self, given: tuple[int, Entry]) -> None:
        """An entry, on its way."""
        self.process.send(self.cutover.store, self.cutover.append, given)

    def send_growth(self, lanes: int) -> None:
        """The call, on its way."""
        self.process.send(self.cutover.stream, self.cutover.grow, lanes)


class CutoverProducer(_Actor):
    """A producer of some keys: sends while it believes that it may, one record of a key at a time."""

    def __init__(self, cutover: CutoverSimulation, process: SimulatedProcess, number: int) -> None:
        self.keys = range(number, cutover.setup.keys, cutover.setup.producers)
        super().__init__(cutover, process)

    def begin(self) -> None:
        """A new life knows nothing, and sends nothing before it has looked."""
        self.last: dict[int, int] | None = None
        self.flying: dict[int, SimulatedRecord] = {}
        self.epoch: int | None = None
        self.hold: tuple[int, int] | None = None
        super().begin()

    def turn(self) -> None:
        """Send again what is on its way, then new records, and look at the journal."""
        cutover, process = self.cutover, self.process
        process.send(cutover.store, cutover.journal, (self, self.listed, self.asked))
        if self.last is None:
            process.send(cutover.stream, cutover.begin, (self, process.life))
            return
        for key in self.keys:
            if key not in self.flying and self.epoch is not None:
                self.flying[key] = SimulatedRecord(key, self.last[key] + 1, self.epoch)
            if key in self.flying:
                process.send(cutover.stream, cutover.write, (self, process.life, self.flying[key]))

    def begun(self, given: tuple[int, dict[int, int]]) -> None:
        """The numbers to go on from."""
        life, last = given
        if life == self.process.life and self.last is None:
            self.last = last

    def written(self, given: tuple[int, SimulatedRecord]) -> None:
        """A record is there."""
        life, record = given
        if life == self.process.life and self.last is not None and self.flying.get(record.key) == record:
            del self.flying[record.key]
            self.last[record.key] = record.number
            self.acknowledge()

    def listed(self, given: tuple[int, int, tuple[Entry, ...], frozenset[str]]) -> None:
        """The journal: go on under the contract that holds, or stop, and acknowledge when nothing is on its way."""
        number, epoch, entries, _ = given
        if number != self.asked:
            return
        hold = hold_of(entries)
        if may_send(entries, new=False):
            self.epoch, self.hold = epoch, None
        elif may_send(entries, new=True):
            # What is still on its way is of the old contract, and was to be written before.
            self.epoch, self.hold = (epoch + 1 if not self.flying else None), None
        elif hold is not None:
            self.epoch, self.hold = None, (epoch, hold)
            self.acknowledge()

    def acknowledge(self) -> None:
        """Say that all is written."""
        if self.hold is not None and not self.flying and self.last is not None:
            self.process.send(self.cutover.store, self.cutover.acknowledge, (self.process.name, *self.hold))


class CutoverReader(_Actor):
    """A reader of every so manieth lane: fetches, looks at the journal, applies by the gate, commits a turn later."""

    def __init__(self, cutover: CutoverSimulation, process: SimulatedProcess, number: int) -> None:
        self.number = number
        super().__init__(cutover, process)

    def begin(self) -> None:
        """A new process begins where the lanes are committed."""
        self.positions: dict[int, int] = {}
        self.waiting: tuple[dict[int, tuple[int, list[SimulatedRecord]]], dict[int, int]] | None = None
        super().begin()

    def turn(self) -> None:
        """Commit what was applied at the last turn, and fetch more."""
        cutover, process = self.cutover, self.process
        if self.positions:
            process.send(cutover.stream, cutover.commit, dict(self.positions))
        process.send(cutover.stream, cutover.fetch, (self, self.asked, dict(self.positions)))

    def fetched(self, given: tuple[int, dict[int, tuple[int, list[SimulatedRecord]]], dict[int, int]]) -> None:
        """Records; the journal is looked at behind them."""
        number, found, committed = given
        if number == self.asked:
            self.waiting = found, committed
            self.process.send(self.cutover.store, self.cutover.journal, (self, self.listed, number))

    def listed(self, given: tuple[int, int, tuple[Entry, ...], frozenset[str]]) -> None:
        """Apply what the gate allows."""
        number, epoch, entries, _ = given
        if number != self.asked or self.waiting is None:
            return
        (found, committed), self.waiting = self.waiting, None
        entry, cutover = opened(entries), self.cutover
        gate = None if entry is None else LaneGate.of(entry, cutover.parents(epoch))
        for lane, (start, records) in found.items():
            at = self.positions.get(lane, start)
            for record in records[at - start :] if at >= start else ():
                if cutover.setup.gated and gate is not None and not self.allowed(gate, lane, at, committed):
                    cutover.held += 1
                    break
                cutover.apply(record)
                at += 1
            self.positions[lane] = at

    def allowed(self, gate: LaneGate, lane: int, at: int, committed: dict[int, int]) -> bool:
        """By the gate of the migration that is open."""
        return gate.allows(lane, at, {old: committed.get(old, 0) for old in range(len(gate.fences))})

"""Simulated hours of a group's life: readers and their coordinator, under pauses, crashes, cuts and a bad network.

Several groups read one stream. Rules, checked at every event that could break them: no two owners of a lane are
accepted, no commit of an earlier generation is accepted, each group has every record once, a lane that is free has a
reader again within two sessions of the last fault, and who stays in the group keeps its lanes while nobody new comes.

The queue, the network and the faults of processes are in `simulation`; the protocol in `coordinator` and `member`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from keylane.groups import coordinator, member
from keylane.groups.coordinator import GroupRules, GroupState, new_group
from keylane.groups.member import MemberState
from keylane.groups.simulation import (
    AcceptedWrites,
    BrokenRule,
    Faults,
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

    from keylane.groups.assignors import Assignor
    from keylane.groups.coordinator import Answer, Request


class GroupSetup(NamedTuple):
    """What is simulated: readers of each group, lanes, seconds; `drift` is the most that a clock is off."""

    #: One entry for each group: its readers, of whom every second is a static member.
    readers: tuple[int, ...] = (3, 2)
    lanes: int = 4
    session: float = 10.0
    beat: float = 2.0
    patience: float = 6.0
    #: How often a reader works, and how often each lane gets a record.
    pace: float = 3.0
    records_every: float = 8.0
    drift: float = 0.05
    #: Seconds from one fault to the next, on average, and the longest pause or cut, in sessions.
    fault_every: float = 60.0
    longest: float = 4.0
    fenced: bool = True
    network: Network = Network()

    def lasting(self, session: float) -> GroupSetup:
        """The same with other sessions: all other times in proportion."""
        scale = session / self.session
        return self._replace(
            session=session,
            beat=scale * self.beat,
            patience=scale * self.patience,
            pace=scale * self.pace,
            records_every=scale * self.records_every,
            fault_every=scale * self.fault_every,
            network=self.network.scaled(scale),
        )


class GroupOutcome(NamedTuple):
    """What a run has shown."""

    hours: float
    events: int
    faults: dict[str, int]
    generations: int
    accepted: int
    #: Commits that the fence refused: each would have been a record of a lane that another member reads.
    refused: int
    #: The longest that a lane was free after the last fault, in sessions.
    longest_free: float
    broken: tuple[BrokenRule, ...]


class GroupSimulation:
    """One stream, its groups, their coordinator and their readers."""

    def __init__(self, chance: Callable[[], float], assignor: Assignor, setup: GroupSetup) -> None:
        self.setup = setup
        self.simulation = simulation = Simulation(chance, setup.network)
        self.rules = GroupRules(assignor, setup.session, 0.6 * setup.session, setup.fenced)
        self.writes = AcceptedWrites(simulation)
        self.free = FreeLanes(simulation, 2 * setup.session)
        self.ends = [0] * setup.lanes
        self.coordinator = simulation.process("coordinator", self.some_rate())
        self.groups: dict[str, GroupState] = {}
        self.readers: list[SimulatedReader] = []
        self.numbered: dict[tuple[str, int], SimulatedReader] = {}
        self.refused = 0
        self.started = 0
        #: The lanes of each member when the last generation of a group began.
        self._kept: dict[str, dict[str, set[int]]] = {}
        for place, readers in enumerate(setup.readers):
            name = f"group-{place}"
            self.groups[name] = new_group(setup.lanes)
            self._kept[name] = {}
            for reader in range(readers):
                self.add_reader(name, f"{name}-reader-{reader}" if reader % 2 else None)
            self.look(name)
        self.watch_sessions()
        simulation.at(setup.records_every, self.produce, None)
        self.faults = Faults(simulation, setup.fault_every, self.kinds_of_faults(), self.before_fault, self.look_anew)

    def __repr__(self) -> str:
        return "<groups>"

    def run(self, hours: float) -> GroupOutcome:
        """That many hours with faults, and then as long without new ones as it takes to have read everything."""
        self.simulation.run(hours * 3600)
        self.faults.stopped = True
        ends, self.ends = self.ends, [*self.ends]
        quiet = 3 * self.setup.longest * self.setup.session
        self.simulation.run(hours * 3600 + quiet + 2 * self.setup.pace * self.most_behind())
        for name, group in self.groups.items():
            if any(position < end for position, end in zip(group.positions, ends, strict=True)):
                self.simulation.breaks("every record once", f"{name} is at {group.positions} of {ends}")
        return self.outcome()

    def most_behind(self) -> int:
        """How many records the slowest group has still to read of some lane."""
        ends = self.ends
        return max(end - one for group in self.groups.values() for end, one in zip(ends, group.positions, strict=True))

    def outcome(self) -> GroupOutcome:
        """What was seen so far."""
        return GroupOutcome(
            self.simulation.now / 3600,
            self.simulation.events,
            dict(sorted(self.faults.begun.items())),
            sum(group.generation for group in self.groups.values()),
            self.writes.accepted,
            self.refused,
            self.free.longest / self.setup.session,
            tuple(self.simulation.broken),
        )

    def some_rate(self) -> float:
        """How fast some clock goes."""
        return self.simulation.between(1 - self.setup.drift, 1 + self.setup.drift)

    def add_reader(self, group: str, instance: str | None) -> None:
        """Start one more reader."""
        self.started += 1
        process = self.simulation.process(f"reader-{self.started}", self.some_rate())
        reader = SimulatedReader(self, process, MemberState(group, "", instance))
        self.readers.append(reader)
        reader.begin()

    def produce(self, _: None) -> None:
        """One more record in every lane."""
        if not self.faults.stopped:
            self.ends = [end + 1 for end in self.ends]
        self.simulation.at(self.simulation.now + self.setup.records_every, self.produce, None)

    # The coordinator's side.

    def receive(self, given: tuple[SimulatedReader, Request]) -> None:
        """One request at the coordinator."""
        sender, request = given
        if not sender.able:
            # What is late renews a session whose process is gone, so that this is a fault as well.
            self.before_fault()
        name = request.group
        before = self.groups[name]
        group, answers = coordinator.handle(self.rules, before, request, self.coordinator.clock())
        self.groups[name] = group
        if request.verb == "commit":
            if group.positions is not before.positions:
                self.accepted(group, request)
            elif answers[0].refusal:
                self.refused += 1
        elif group.holders is not before.holders or group.phase is not before.phase:
            self.changed(name, before, group)
        process = self.coordinator
        for answer in answers:
            reader = sender if answer.client == request.client else self.numbered[name, answer.number]
            process.send(reader.process, reader.receive, answer)

    def accepted(self, group: GroupState, request: Request) -> None:
        """Hold the rules of commits over one that was accepted."""
        if request.generation < group.generation:
            self.simulation.breaks("no stale generation", f"{request} was accepted in generation {group.generation}")
        lane = (request.group, request.lane)
        self.writes.note(lane, (request.generation, request.number), request.client, request.position)
        if request.position > self.ends[request.lane]:
            self.simulation.breaks("every record once", f"{request} is beyond the end of the lane")

    def changed(self, name: str, before: GroupState, group: GroupState) -> None:
        """After somebody came or went, or a generation began."""
        if group.phase == "joining" and before.phase != "joining":
            self.coordinator.after(self.rules.wait, self.end_waits, None)
        if len(group.members) < len(before.members):
            # Who was removed and comes back is new: others may have been given its lanes.
            stayed = {one.name for one in group.members}
            self._kept[name] = {one: lanes for one, lanes in self._kept[name].items() if one in stayed}
        if group.generation != before.generation:
            self.check_kept(name, group)
        if group.holders != before.holders:
            self.check_let_go(name, before, group)
        self.look(name)

    def check_let_go(self, name: str, before: GroupState, group: GroupState) -> None:
        """A lane that goes from a member that stays to another was let go of before."""
        stay = {one.number for one in group.members}
        for lane, (old, new) in enumerate(zip(before.holders, group.holders, strict=True)):
            if old != new and old in stay:
                state = self.numbered[name, old].state
                if state.number == old and lane in state.lanes:
                    self.simulation.breaks("lanes are let go of first", f"lane {lane} of {name} was taken from {old}")

    def check_kept(self, name: str, group: GroupState) -> None:
        """Who stays keeps its lanes, unless somebody new has come."""
        old, new = self._kept[name], {one.name: set(group.lanes_of(one.number)) for one in group.members}
        self._kept[name] = new
        if not new.keys() - old.keys():
            for member_name, lanes in new.items():
                if lost := sorted(old[member_name] - lanes):
                    self.simulation.breaks("members keep their lanes", f"{member_name} lost {lost} to nobody new")

    def watch_sessions(self, _: None = None) -> None:
        """The coordinator's timer: what time alone brings, and when it does so next."""
        self.end_waits(None)
        now = self.coordinator.clock()
        due = min(coordinator.next_deadline(group) for group in self.groups.values())
        wait = min(max(due - now, 0.001), self.rules.session)
        self.coordinator.after(wait, self.watch_sessions, None)

    def end_waits(self, _: None) -> None:
        """What time alone brings."""
        now = self.coordinator.clock()
        for name, before in self.groups.items():
            if coordinator.next_deadline(before) <= now:
                group, answers = coordinator.tick(self.rules, before, now)
                self.groups[name] = group
                self.changed(name, before, group)
                for answer in answers:
                    reader = self.numbered[name, answer.number]
                    self.coordinator.send(reader.process, reader.receive, answer)

    # How long lanes are free.

    def look(self, name: str) -> None:
        """Which lanes of a group have a reader that can work."""
        for lane, holder in enumerate(self.groups[name].holders):
            reader = self.numbered.get((name, holder))
            taken = reader is not None and reader.able and reader.state.number == holder and lane in reader.state.lanes
            self.free.see((name, lane), taken=taken)

    def look_anew(self) -> None:
        """After a fault has begun or ended: who can work, and which lanes have a reader."""
        for reader in self.readers:
            reader.look()
        for name in self.groups:
            self.look(name)

    def before_fault(self) -> None:
        """What could be taken until now: all, with somebody who can work and a coordinator that runs."""
        runs = self.coordinator.up and not self.coordinator.paused
        able = {reader.state.group for reader in self.readers if reader.able} if runs else set()
        self.free.fault(lambda lane: lane[0] in able)

    # Faults.

    def kinds_of_faults(self) -> dict[str, Callable[[], Spell | None]]:
        """By name."""
        processes = ProcessFaults(self.readers, self.coordinator, self.setup.longest * self.setup.session)

        def second() -> Spell | None:
            reader = processes.some()
            if not isinstance(reader, SimulatedReader) or reader.state.instance is None:
                return None
            begin = partial(self.add_reader, reader.state.group, reader.state.instance)
            return Spell(0.0, begin, lambda: None)

        return processes.kinds(self.restart_coordinator) | {"second process of one id": second}

    def restart_coordinator(self) -> None:
        """It is back, with its state and without the sessions."""
        self.coordinator.start()
        for name, group in self.groups.items():
            self.groups[name] = coordinator.recover(self.rules, group, self.coordinator.clock())
        self.watch_sessions()

    def fenced_out(self, reader: SimulatedReader) -> None:
        """A reader was fenced by a later one of the same id: it has stopped for good."""
        self.before_fault()
        reader.process.crash()
        self.readers.remove(reader)
        reader.look()
        self.look_anew()


class SimulatedReader(Participant):
    """A member in a process: it beats, works on its lanes, and may be paused between looking and committing."""

    __slots__ = ("groups", "state")

    def __init__(self, groups: GroupSimulation, process: SimulatedProcess, state: MemberState) -> None:
        super().__init__(process, groups.coordinator)
        self.groups = groups
        self.state = state

    def begin(self) -> None:
        """Start as a new process, with a new address."""
        process = self.process
        client = f"{process.name}.{process.life}"
        self.state = MemberState(self.state.group, client, self.state.instance, heard=process.clock())
        process.after(process.simulation.between(0, self.groups.setup.beat), self.beat, None)
        process.after(process.simulation.between(0, self.groups.setup.pace), self.work, None)

    def say_goodbye(self) -> None:
        """Leave the group."""
        self.become(*member.leaving(self.state))

    def beat(self, _: None) -> None:
        """At every beat."""
        process, setup = self.process, self.groups.setup
        state, requests = member.beat(self.state, process.clock(), setup.patience)
        self.become(state, requests)
        process.after(setup.beat, self.beat, None)

    def receive(self, answer: Answer) -> None:
        """An answer of the coordinator."""
        state, requests = member.receive(self.state, answer, self.process.clock())
        self.become(state, requests)

    def become(self, state: MemberState, requests: tuple[Request, ...]) -> None:
        """Take on the state, and send."""
        before, self.state = self.state, state
        groups = self.groups
        if state.number != before.number:
            groups.numbered[state.group, state.number] = self
        if state.lanes is not before.lanes:
            groups.look(state.group)
        for request in requests:
            self.send(request)
        if state.phase == "fenced" and before.phase != "fenced":
            groups.fenced_out(self)

    def send(self, request: Request) -> None:
        """A request, on its way."""
        self.process.send(self.groups.coordinator, self.groups.receive, (self, request))

    def work(self, _: None) -> None:
        """Look at what it owns, and commit a record of each lane a little later, without another look."""
        groups, process = self.groups, self.process
        pace, between = groups.setup.pace, process.simulation.between
        for request in member.commits(self.state):
            if request.position <= groups.ends[request.lane]:
                process.after(between(0, pace), self.send, request)
        process.after(pace, self.work, None)

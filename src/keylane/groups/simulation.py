"""A seeded simulator of processes that are paused, crash, and talk over a network that loses, delays and repeats.

One queue of events, no threads, no clock and no chance of its own: `chance` is passed in (`Random(seed).random`), and
the same seed gives the same run, event by event; `digest` proves that. The protocols that run on it are in
`group_simulation` and `lease_simulation`; every small case without a seed is in `exhaustive`.

    simulation = Simulation(Random(7).random, Network())
    a, b = simulation.process("a"), simulation.process("b")
    a.after(1.5, a.send, ...)            a timer, by a's own clock
    a.send(b, receive, "ping")           receive("ping") is called at b, late, twice or never
    a.pause(30)                          what comes meanwhile waits, timers too: a process that is stopped and continued

What a process was about to do when it was paused it does when it wakes up, without another look: that is how a lease
that has ended is still believed in. A crash loses timers and whatever was on its way, and the process starts again
with nothing.

`Faults` begins faults and ends them, `FreeLanes` measures how long lanes are without a reader, `AcceptedWrites`
checks what a store has accepted, whoever the writers are, and `FencedLog` is such a store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from heapq import heappop, heappush
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

Act: TypeAlias = Callable[[Any], object]


class Network(NamedTuple):
    """Shares of messages that are lost, arrive twice or late; the most seconds that one takes, and a late one."""

    lost: float = 0.01
    twice: float = 0.01
    late: float = 0.002
    delay: float = 0.05
    latest: float = 40.0

    def scaled(self, scale: float) -> Network:
        """The same, with all times so many times as long."""
        return self._replace(delay=scale * self.delay, latest=scale * self.latest)


class BrokenRule(NamedTuple):
    """A rule that did not hold, when, and what was seen."""

    rule: str
    at: float
    seen: str


class Simulation:
    """The queue, the time, the network, and the rules that were broken."""

    __slots__ = ("_cut", "_network", "_order", "_queue", "broken", "chance", "events", "now")

    def __init__(self, chance: Callable[[], float], network: Network) -> None:
        self.chance = chance
        self.now = 0.0
        self.events = 0
        self.broken: list[BrokenRule] = []
        self._network = network
        self._queue: list[tuple[float, int, Act, Any]] = []
        self._order = 0
        self._cut: dict[tuple[SimulatedProcess, SimulatedProcess], int] = {}

    def process(self, name: str, rate: float = 1.0) -> SimulatedProcess:
        """One more process, with a clock that goes `rate` times as fast as time."""
        return SimulatedProcess(self, name, rate)

    def at(self, when: float, act: Act, subject: Any) -> None:
        """Call `act(subject)` then. Events of one time come in the order in which they were entered."""
        self._order = order = self._order + 1
        heappush(self._queue, (when, order, act, subject))

    def run(self, until: float) -> None:
        """Every event up to that time."""
        queue, pop, events = self._queue, heappop, self.events
        while queue and queue[0][0] <= until:
            self.now, _, act, subject = pop(queue)
            events += 1
            act(subject)
        self.now, self.events = until, events

    def digest(self, until: float) -> str:
        """Run, and give the digest of all events: equal for equal seeds, in every process."""
        queue, seen = self._queue, blake2b(digest_size=16)
        while queue and queue[0][0] <= until:
            self.now, order, act, subject = heappop(queue)
            self.events += 1
            seen.update(f"{self.now!r} {order} {act.__qualname__} {subject!r}\n".encode())
            act(subject)
        self.now = until
        return seen.hexdigest()

    def breaks(self, rule: str, seen: str) -> None:
        """Note a rule that does not hold."""
        self.broken.append(BrokenRule(rule, self.now, seen))

    def between(self, low: float, high: float) -> float:
        """Some number from `low` to `high`."""
        return low + self.chance() * (high - low)

    def about(self, mean: float) -> float:
        """Some time, of that mean, by the exponential law: what has happened says nothing about what comes."""
        return -log(1.0 - self.chance()) * mean

    def one_of(self, given: list[Any]) -> Any:
        """One of these."""
        return given[int(self.chance() * len(given))]

    def cut(self, ways: Iterable[tuple[SimulatedProcess, SimulatedProcess]]) -> None:
        """Lose every message from one to the other, until that is healed as often as it was cut."""
        for way in ways:
            self._cut[way] = self._cut.get(way, 0) + 1

    def heal(self, ways: Iterable[tuple[SimulatedProcess, SimulatedProcess]]) -> None:
        """Undo a cut."""
        for way in ways:
            self._cut[way] -= 1
            if not self._cut[way]:
                del self._cut[way]

    def is_cut(self, source: SimulatedProcess, target: SimulatedProcess) -> bool:
        """Whether messages from one to the other are lost."""
        return (source, target) in self._cut

    def carry(self, source: SimulatedProcess, target: SimulatedProcess, act: Act, subject: Any) -> bool:
        """A message; False where it is lost or late. One draw decides that: nothing happens more often."""
        draw = self.chance()
        lost, twice, late, delay, latest = self._network
        if draw < lost or (self._cut and (source, target) in self._cut):
            return False
        when = self.now + delay * draw
        rest = draw - lost
        if rest < twice:
            again = when + self.between(0, latest if rest < late else 4 * delay)
            self.at(again, target.take, (target.life, act, subject))
        elif rest < twice + late:
            when += self.between(0, latest)
        self._order = order = self._order + 1
        heappush(self._queue, (when, order, target.take, (target.life, act, subject)))
        return when <= self.now + delay


class SimulatedProcess:
    """A process: its clock, whether it is up or paused, and what waits for it to wake up."""

    __slots__ = ("_held", "life", "name", "paused", "rate", "simulation", "up")

    def __init__(self, simulation: Simulation, name: str, rate: float) -> None:
        self.simulation = simulation
        self.name = name
        self.rate = rate
        self.life = 1
        self.up = True
        self.paused = False
        self._held: list[tuple[int, Act, Any]] = []

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def clock(self) -> float:
        """The time, as this process sees it."""
        return self.simulation.now * self.rate

    def after(self, seconds: float, act: Act, subject: Any) -> None:
        """A timer, in seconds of its own clock; a crash loses it."""
        simulation = self.simulation
        simulation.at(simulation.now + seconds / self.rate, self.take, (self.life, act, subject))

    def send(self, target: SimulatedProcess, act: Act, subject: Any) -> bool:
        """Call `act(subject)` at the target, if the message arrives before the target's next crash; whether in time."""
        return self.simulation.carry(self, target, act, subject)

    def take(self, given: tuple[int, Act, Any]) -> None:
        """A timer or a message: now, or on waking up; not at all after a crash."""
        if self.paused:
            self._held.append(given)
            return
        life, act, subject = given
        if life == self.life and self.up:
            act(subject)

    def pause(self) -> None:
        """Stop; whatever comes waits."""
        self.paused = True

    def wake(self) -> None:
        """Go on, first with what has waited, in its order."""
        self.paused = False
        held, self._held = self._held, []
        for given in held:
            self.take(given)

    def crash(self) -> None:
        """Lose everything."""
        self.up, self.paused = False, False
        self.life += 1
        self._held.clear()

    def start(self) -> None:
        """Be up again, with nothing."""
        self.up = True


class Spell(NamedTuple):
    """A fault: how long it lasts, what begins it and what ends it."""

    seconds: float
    begin: Callable[[], None]
    end: Callable[[], None]

    def __repr__(self) -> str:
        return f"<spell of {self.seconds!r} s>"


class Faults:
    """From time to time one of the kinds of faults, of chance; None of a kind means that it cannot be just now.

    `before` is called before anything changes, at the beginning and at the end of each fault, and `after` afterwards.
    """

    __slots__ = ("_after", "_before", "_every", "_kinds", "begun", "simulation", "stopped")

    def __init__(
        self,
        simulation: Simulation,
        every: float,
        kinds: Mapping[str, Callable[[], Spell | None]],
        before: Callable[[], None],
        after: Callable[[], None],
    ) -> None:
        self.simulation = simulation
        self.begun: Counter[str] = Counter()
        self.stopped = False
        self._every = every
        self._kinds = dict(kinds)
        self._before = before
        self._after = after
        simulation.at(simulation.about(every), self._begin, None)

    def _begin(self, _: None) -> None:
        if self.stopped:
            return
        simulation = self.simulation
        simulation.at(simulation.now + simulation.about(self._every), self._begin, None)
        kind = simulation.one_of(list(self._kinds))
        spell = self._kinds[kind]()
        if spell is not None:
            self.begun[kind] += 1
            self._before()
            spell.begin()
            self._after()
            simulation.at(simulation.now + spell.seconds, self._end, spell)

    def _end(self, spell: Spell) -> None:
        self._before()
        spell.end()
        self._after()


class Participant:
    """A process with a protocol in it, and the server that it depends on. The protocol is that of a subclass."""

    __slots__ = ("able", "process", "server")

    def __init__(self, process: SimulatedProcess, server: SimulatedProcess) -> None:
        self.process = process
        self.server = server
        self.able = True

    def __repr__(self) -> str:
        return f"<{self.process.name}>"

    def begin(self) -> None:
        """What a new process does first."""
        raise NotImplementedError

    def say_goodbye(self) -> None:
        """What a process does last when it ends in good order; messages may be lost."""
        raise NotImplementedError

    def look(self) -> None:
        """Note whether it can work: it runs, and reaches the server."""
        process, server, is_cut = self.process, self.server, self.process.simulation.is_cut
        self.able = process.up and not process.paused and not is_cut(process, server) and not is_cut(server, process)

    def stop(self, *, in_order: bool) -> None:
        """End, in good order or without a word."""
        if in_order:
            self.say_goodbye()
        self.process.crash()

    def start(self) -> None:
        """Start again."""
        self.process.start()
        self.begin()


class ProcessFaults:
    """The faults of participants and of their server: pauses, crashes, cuts. `longest` seconds at most, each.

    The server stops for an eighth of that at most: while it does so, nothing is taken over.
    """

    def __init__(self, participants: list[Any], server: SimulatedProcess, longest: float) -> None:
        self.participants = participants
        self.server = server
        self.simulation = server.simulation
        self._longest = longest

    def kinds(self, restart: Callable[[], None]) -> dict[str, Callable[[], Spell | None]]:
        """By name. `restart` starts a server that has crashed."""
        return {
            "pause": self.pause,
            "crash": self.crash,
            "quick restart": partial(self.crash, 0.05),
            "restart in order": partial(self.crash, in_order=True),
            "cut both ways": partial(self.cut, self.server),
            "cut one way": partial(self.cut, self.server, back=False),
            "cut the other way": partial(self.cut, self.server, there=False),
            "server pauses": partial(self.server_stops, self.server.pause, self.server.wake),
            "server restarts": partial(self.server_stops, self.server.crash, restart),
        }

    def some(self) -> Participant | None:
        """A participant without a fault, or None."""
        found: Participant = self.simulation.one_of(self.participants)
        return found if found.able else None

    def seconds(self) -> float:
        """How long a fault lasts."""
        return self.simulation.between(0, self._longest)

    def pause(self) -> Spell | None:
        """A process is stopped and continued."""
        found = self.some()
        return Spell(self.seconds(), found.process.pause, found.process.wake) if found else None

    def crash(self, share: float = 1.0, *, in_order: bool = False) -> Spell | None:
        """A process ends and is started again."""
        found = self.some()
        return Spell(share * self.seconds(), partial(found.stop, in_order=in_order), found.start) if found else None

    def cut(self, other: SimulatedProcess, *, there: bool = True, back: bool = True) -> Spell | None:
        """Messages between a participant and another process are lost, one way or both."""
        found = self.some()
        if found is None:
            return None
        ways = [(found.process, other)] * there + [(other, found.process)] * back
        return Spell(self.seconds(), partial(self.simulation.cut, ways), partial(self.simulation.heal, ways))

    def server_stops(self, begin: Callable[[], None], end: Callable[[], None]) -> Spell | None:
        """The server is gone for a while."""
        runs = self.server.up and not self.server.paused
        return Spell(self.seconds() / 8, begin, end) if runs else None


class FreeLanes:
    """How long lanes are without a reader that can work, from when they became so or from the last fault.

    Between two faults nothing changes but by the protocol itself, so that it had that time to give a lane to somebody.
    """

    __slots__ = ("_last_fault", "_most", "_since", "longest", "simulation")

    def __init__(self, simulation: Simulation, most: float) -> None:
        self.simulation = simulation
        self.longest = 0.0
        self._most = most
        self._last_fault = 0.0
        self._since: dict[Hashable, float] = {}

    def see(self, lane: Hashable, *, taken: bool) -> None:
        """Whether a lane has a reader now."""
        if not taken:
            self._since.setdefault(lane, self.simulation.now)
        elif lane in self._since:
            self._check(lane, self._since.pop(lane))

    def fault(self, could_be_taken: Callable[[Any], bool]) -> None:
        """A fault begins or ends. Lanes that are free and could be taken until now have to have been."""
        for lane, freed in self._since.items():
            if could_be_taken(lane):
                self._check(lane, freed)
        self._last_fault = self.simulation.now

    def _check(self, lane: Hashable, freed: float) -> None:
        free = self.simulation.now - max(freed, self._last_fault)
        self.longest = max(self.longest, free)
        if free > self._most:
            self.simulation.breaks("free lanes are taken", f"lane {lane} was free for {free:.1f} s")


class AcceptedWrites:
    """What was accepted of each lane, by term, owner and position; anything that must not be there is a broken rule.

    A term is any value that can be compared and that only grows. The rules: the terms of a lane never decrease, one
    term has one owner, and positions follow each other without a gap and without a repeat.
    """

    __slots__ = ("_last", "accepted", "simulation")

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.accepted = 0
        self._last: dict[Any, tuple[Any, Any, int]] = {}

    def note(self, lane: Any, term: Any, owner: Any, position: int) -> None:
        """One accepted write."""
        self.accepted += 1
        last_term, last_owner, last = self._last.get(lane, (term, owner, 0))
        if term < last_term:
            seen = f"{owner} wrote {lane} in {term} after {last_owner} in {last_term}"
            self.simulation.breaks("no zombie writes", seen)
        elif term == last_term and owner != last_owner:
            self.simulation.breaks("one owner a term", f"{owner} and {last_owner} wrote {lane} in {term}")
        if position != last + 1:
            self.simulation.breaks("every record once", f"{owner} wrote {position} of {lane} after {last}")
        self._last[lane] = (term, owner, position) if term >= last_term else (last_term, last_owner, position)

    def last(self, lane: Any) -> int:
        """The last position of a lane; 0 where there is none."""
        return self._last[lane][2] if lane in self._last else 0

    def owner(self, lane: Any) -> Any:
        """The owner who wrote last."""
        return self._last[lane][1] if lane in self._last else None


class FencedLog:
    """A log of lanes that takes a write only of the highest term that it knows of a lane; or, as a twin, of anybody.

    A new owner announces its term first (`open`), and is given the position where it goes on. From then on no write of
    an earlier term is accepted, however late it comes. Without that first step a write that is under way could still
    be accepted after the new owner has read where the lane ends.
    """

    __slots__ = ("_fenced", "_terms", "refused", "writes")

    def __init__(self, writes: AcceptedWrites, *, fenced: bool) -> None:
        self.writes = writes
        self.refused = 0
        self._fenced = fenced
        self._terms: dict[Any, Any] = {}

    def open(self, lane: Any, term: Any) -> int | None:
        """The last position of a lane, from now on closed to earlier terms; None for an earlier term."""
        known = self._terms.get(lane)
        if self._fenced and known is not None and term < known:
            self.refused += 1
            return None
        self._terms[lane] = term
        return self.writes.last(lane)

    def write(self, lane: Any, term: Any, owner: Any, position: int) -> bool:
        """Whether it was accepted. What an owner sends twice is written once, with a fence and without."""
        known = self._terms.get(lane)
        if self._fenced and (known is None or term < known):
            self.refused += 1
            return False
        if position > self.writes.last(lane) or owner != self.writes.owner(lane):
            self.writes.note(lane, term, owner, position)
        return True

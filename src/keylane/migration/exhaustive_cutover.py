"""Every interleaving of a small cut-over: two drivers, two producers, readers that crash, a stream that grows.

The drivers are those of `cutover` and the readers those of `gate`: what is searched is the code that runs. A driver
does what it has decided at any later moment (`exhaustive_drivers`), so that each of them may be a zombie; a record is
sent at one moment and written at another; readers apply a lane as far as the gate lets them, commit at some other
moment, and start again from there after a crash.

Rules, in every state: a key's records are applied in their order; none of the old contract is applied after one of the
new; none of the old contract lies behind a fence, and none of the new one below; a journal has one entry `open`; a
stream that was rolled back has its lanes as before.

The twins, each of which must be caught: `gated=False` readers apply whatever comes; `acknowledged=False` the driver
does not wait for producers; `fenced=False` the journal takes entries of drivers that are late.

How states are searched: `keylane.groups.exhaustive`. With time, for hours: `cutover_simulation`. Into another stream:
`exhaustive_mirror`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from keylane.groups.exhaustive import Exploration, explore
from keylane.migration.cutover import (
    CutoverCall,
    CutoverPlan,
    World,
    hold_of,
    may_send,
    next_step,
    opened,
    phase_of,
)
from keylane.migration.exhaustive_drivers import SmallDrivers, SmallJournal
from keylane.migration.gate import LaneGate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.migration.cutover import Entry, Step
    from keylane.migration.exhaustive_drivers import SmallDriver


class SmallProducer(NamedTuple):
    """A producer of one key: its contract, the last number it has sent, whether that is written, what it acknowledged.

    `waits` is whether it has seen that nobody may write.
    """

    new: bool = False
    sent: int = 0
    in_flight: bool = False
    waits: bool = False
    acknowledged: int = -1


class SmallRecord(NamedTuple):
    """A record: its key, its number among the records of the key, and whether it was placed by the new contract."""

    key: int
    number: int
    new: bool


class SmallCutoverState(NamedTuple):
    """Everything there is."""

    journal: SmallJournal
    producers: tuple[SmallProducer, ...]
    lanes: tuple[tuple[SmallRecord, ...], ...]
    applied: tuple[int, ...]
    committed: tuple[int, ...]
    #: Of each key the last number applied, and whether one of the new contract was.
    seen: tuple[tuple[int, bool], ...]
    crashes: int = 0
    broken: str | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Those of the journal."""
        return self.journal.entries


class SmallCutover(NamedTuple):
    """A cut-over within bounds. `keys` are the old and the new lane of each; each has a producer of its own."""

    old_lanes: int = 1
    new_lanes: int = 2
    keys: tuple[tuple[int, int], ...] = ((0, 0), (0, 1))
    #: Records that a producer sends at most under each contract.
    records: int = 1
    leases: int = 2
    crashes: int = 1
    #: Whether a driver may want to go back instead.
    rollback: bool = False
    gated: bool = True
    acknowledged: bool = True
    fenced: bool = True

    @property
    def plan(self) -> CutoverPlan:
        """All producers are named."""
        return CutoverPlan(self.old_lanes, self.new_lanes, producers=tuple(map(str, range(len(self.keys)))))

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The old lanes of each new lane's keys."""
        return tuple(
            tuple(sorted({old for old, new in self.keys if new == lane} | ({lane} if lane < self.old_lanes else set())))
            for lane in range(self.new_lanes)
        )

    def start(self) -> SmallCutoverState:
        """Nothing has been written, and nobody has a lease."""
        return SmallCutoverState(
            journal=SmallJournal(),
            producers=(SmallProducer(),) * len(self.keys),
            lanes=((),) * self.old_lanes,
            applied=(0,) * self.new_lanes,
            committed=(0,) * self.new_lanes,
            seen=((0, False),) * len(self.keys),
        )

    def explore(self) -> Exploration:
        """All of it."""
        return explore(self.start(), self.moves, self.broken, self.names)

    def moves(self, state: SmallCutoverState) -> Iterator[tuple[str, SmallCutoverState]]:
        """All that can happen next."""
        yield from self._driver_moves(state)
        for place, producer in enumerate(state.producers):
            yield from self._producer_moves(state, place, producer)
        for lane in range(len(state.lanes)):
            yield from self._reader_moves(state, lane)
        if state.crashes < self.crashes and state.applied != state.committed:
            yield "readers start again", state._replace(applied=state.committed, crashes=state.crashes + 1)

    # The drivers.

    def _driver_moves(self, state: SmallCutoverState) -> Iterator[tuple[str, SmallCutoverState]]:
        journal = state.journal
        drivers = SmallDrivers(self.leases, self.rollback, self.fenced)
        for name, following in drivers.moves(journal, partial(self._decided, state)):
            yield name, state._replace(journal=following)
        for place, driver in enumerate(journal.drivers):
            if isinstance(driver.decided, CutoverCall):
                grown = (*state.lanes, *((),) * (self.new_lanes - len(state.lanes)))
                without = journal.with_driver(place, driver._replace(decided=None))
                yield f"{'ab'[place]} grows the stream", state._replace(journal=without, lanes=grown)

    def _decided(self, state: SmallCutoverState, driver: SmallDriver) -> Step:
        acknowledged = state.journal.acknowledged(one.acknowledged for one in state.producers)
        stopped = acknowledged if self.acknowledged else frozenset(self.plan.producers)
        ends = tuple(map(len, state.lanes))
        applied = state.committed[: self.old_lanes]
        world = World(len(state.lanes), ends, ends, stopped, applied=applied)
        return next_step(self.plan, state.entries, world, driver.claim)

    # The producers.

    def _producer_moves(
        self, state: SmallCutoverState, place: int, one: SmallProducer
    ) -> Iterator[tuple[str, SmallCutoverState]]:
        most = self.records * (2 if one.new else 1)
        if one.in_flight:
            yield f"a record of producer {place} is written", self._written(state, place, one)
        elif not one.waits and one.sent < most:
            # It does not look again before each record.
            sent = one._replace(sent=one.sent + 1, in_flight=True)
            yield f"producer {place} sends", self._with_producer(state, place, sent)
        hold = hold_of(state.entries)
        if not one.new and may_send(state.entries, new=True):
            if not one.in_flight:
                switched = one._replace(new=True, waits=False, sent=max(one.sent, self.records))
                yield f"producer {place} switches", self._with_producer(state, place, switched)
        elif one.waits and may_send(state.entries, new=False):
            yield f"producer {place} goes on", self._with_producer(state, place, one._replace(waits=False))
        elif hold is not None and not one.new and not may_send(state.entries, new=False):
            if not one.waits:
                yield f"producer {place} stops", self._with_producer(state, place, one._replace(waits=True))
            elif not one.in_flight and one.acknowledged != hold:
                acknowledged = one._replace(acknowledged=hold)
                yield f"producer {place} acknowledges", self._with_producer(state, place, acknowledged)

    def _written(self, state: SmallCutoverState, place: int, one: SmallProducer) -> SmallCutoverState:
        lane = self.keys[place][one.new]
        lanes = list(state.lanes)
        lanes[lane] = (*lanes[lane], SmallRecord(place, one.sent, one.new))
        state = state._replace(lanes=tuple(lanes))
        return self._with_producer(state, place, one._replace(in_flight=False))

    @staticmethod
    def _with_producer(state: SmallCutoverState, place: int, one: SmallProducer) -> SmallCutoverState:
        return state._replace(producers=(*state.producers[:place], one, *state.producers[place + 1 :]))

    # The readers: each lane is somebody's, and whose does not matter to the gate.

    def _reader_moves(self, state: SmallCutoverState, lane: int) -> Iterator[tuple[str, SmallCutoverState]]:
        at = state.applied[lane]
        if at > state.committed[lane]:
            committed = (*state.committed[:lane], at, *state.committed[lane + 1 :])
            yield f"lane {lane} is committed up to {at}", state._replace(committed=committed)
        if at == len(state.lanes[lane]):
            return
        entry = opened(state.entries)
        if self.gated and entry is not None:
            gate = LaneGate.of(entry, self.parents)
            if not gate.allows(lane, at, state.committed[: self.old_lanes]):
                yield f"lane {lane} is looked at -> held by the gate", state
                return
        yield f"record {at} of lane {lane} is applied", self._applied(state, lane, state.lanes[lane][at])

    def _applied(self, state: SmallCutoverState, lane: int, record: SmallRecord) -> SmallCutoverState:
        last, switched = state.seen[record.key]
        broken = state.broken
        if switched and not record.new:
            broken = "no old record of a key is applied after a new one"
        elif record.number > last + 1 and record.new == switched:
            broken = "records of a key are applied in their order"
        seen = (max(last, record.number), switched or record.new)
        return state._replace(
            applied=(*state.applied[:lane], state.applied[lane] + 1, *state.applied[lane + 1 :]),
            seen=(*state.seen[: record.key], seen, *state.seen[record.key + 1 :]),
            broken=broken,
        )

    def broken(self, state: SmallCutoverState) -> str | None:
        """The rule that a state breaks."""
        openings = [one for one in state.entries if one.phase == "open"]
        if len(openings) > 1:
            return "a journal has one entry open"
        if phase_of(state.entries) == "rolled-back" and len(state.lanes) != self.old_lanes:
            return "what is rolled back is as it was"
        for lane, records in enumerate(state.lanes) if openings else ():
            for offset, record in enumerate(records):
                if record.new != (offset >= openings[0].starts[lane]):
                    return "what is below a fence is old, and what is behind it is new"
        return state.broken

    def names(self, state: SmallCutoverState) -> Iterator[str]:
        """What a state is called."""
        phase = phase_of(state.entries)
        yield f"phase {phase or 'none'}"
        if state.journal.late:
            yield "two drivers are about to do something"
        if sum(one.phase == "fenced" for one in state.entries) > 1:
            yield "fenced again"
        all_sent = all(one.sent == 2 * self.records for one in state.producers)
        if phase == "done" and all_sent and state.committed == tuple(map(len, state.lanes)):
            yield "all is applied"
        if state.crashes:
            yield "readers have started again"

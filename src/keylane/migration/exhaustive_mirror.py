"""Every interleaving of a small mirror: two drivers that copy, producers that pause or write to both streams, readers.

Steps, gates and who may copy are those of `cutover` and `gate`: what is searched is the code that runs. Two streams are
there from the beginning. A copier opens the writer of the copies, by which every other is fenced whoever it is, looks
at the journal, and then moves one record at a time, with how far it is, from an old lane into the lane that the new
contract gives the key; it may be killed between any two. A producer has a record on its way while others go on. With
`dual` it marks what it writes behind the entry `doubling` as kept; each of its records comes into the new stream at any
moment after `open`, in their order. Readers look at the journal behind the fetch, go by `MirrorGate`, commit at some
other moment, and start again from there after a crash.

Rules, in every state: each record is applied by one stream, a key's records in their order, and none of the old stream
after one of the new; in the new stream copies and nothing else lie below the starts; every record below a fence is
there, and behind a fence only what its producer keeps; the log of the new stream has each key's records once, in their
order and without a gap; a journal has one entry `open`; when all is done and read, everything was applied.

The twins, each of which must be caught: `gated=False` readers apply the new stream at once; `acknowledged=False` the
driver does not wait for producers; `fenced=False` the journal takes entries of drivers that are late; `copied_late=
False` a copy counts that began before the fence; `copier_fenced=False` two copiers write; `copier_looks=False` one that
was called late does not look at the journal; `own_entry=False` a driver copies behind the entry `doubling` of another;
`holds_kept=False` readers apply kept records before the fence is known; `drops_kept=False` producers write all that
they kept to the new stream.

And one thing that the protocol does not survive, to be seen by `kills`: a producer that is killed while it keeps
records for the new stream loses them there.

How states are searched: `keylane.groups.exhaustive`; drivers and journal: `exhaustive_drivers`; in place:
`exhaustive_cutover`.
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
    is_dual,
    may_copy,
    may_send,
    next_step,
    opened,
    phase_of,
)
from keylane.migration.exhaustive_drivers import SmallCopy, SmallDrivers, SmallJournal
from keylane.migration.gate import MirrorGate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.migration.cutover import Entry, Step
    from keylane.migration.exhaustive_drivers import SmallDriver
    from keylane.migration.gate import Leave


class MirrorRecord(NamedTuple):
    """A record: its key, its number among the records of the key, and a mark.

    In the old stream the mark says that its producer keeps it, in the new one that it is a copy.
    """

    key: int
    number: int
    marked: bool = False


class MirrorProducer(NamedTuple):
    """A producer of one key: the last number that it has sent, and what of it is on its way to the old stream.

    `kept` are numbers for the new stream, with their old offsets, -1 where they do not matter any more; `to_old` and
    `to_new` are where it writes; `keeps` is whether it marks and keeps.
    """

    sent: int = 0
    flying: MirrorRecord | None = None
    kept: tuple[tuple[int, int], ...] = ()
    keeps: bool = False
    to_old: bool = True
    to_new: bool = False
    acknowledged: int = -1
    killed: bool = False


class SmallReader(NamedTuple):
    """How far a lane is applied, and how far that is committed."""

    applied: int = 0
    committed: int = 0


#: Where a key's record was applied from: whether by the new stream, and its offset there.
Applied = tuple[bool, int]
Lanes = tuple[tuple[MirrorRecord, ...], ...]


class SmallMirrorState(NamedTuple):
    """Everything there is; of two things those of the old stream come first."""

    journal: SmallJournal
    producers: tuple[MirrorProducer, ...]
    streams: tuple[Lanes, Lanes]
    #: How far each old lane is copied, and the place of the driver that has opened the writer of the copies last.
    copied_to: tuple[int, ...]
    readers: tuple[tuple[SmallReader, ...], tuple[SmallReader, ...]]
    #: Of each key where its records were applied from, in the order of their numbers.
    seen: tuple[tuple[Applied, ...], ...]
    copier: int = -1
    crashes: int = 0
    broken: str | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Those of the journal."""
        return self.journal.entries


class SmallMirror(NamedTuple):
    """A mirror within bounds. `keys` are the old and the new lane of each; each has a producer of its own."""

    old_lanes: int = 1
    new_lanes: int = 1
    keys: tuple[tuple[int, int], ...] = ((0, 0),)
    dual: bool = False
    #: Records that a producer sends at most in each stage: to the old stream, kept, and after `open`.
    records: int = 1
    leases: int = 2
    crashes: int = 1
    #: Whether a driver may want to go back instead; and how many producers are killed while they keep records.
    rollback: bool = False
    kills: int = 0
    gated: bool = True
    acknowledged: bool = True
    fenced: bool = True
    copied_late: bool = True
    copier_fenced: bool = True
    copier_looks: bool = True
    own_entry: bool = True
    holds_kept: bool = True
    drops_kept: bool = True

    @property
    def plan(self) -> CutoverPlan:
        """All producers are named."""
        names = tuple(map(str, range(len(self.keys))))
        return CutoverPlan(self.old_lanes, self.new_lanes, mirror=True, producers=names, dual=self.dual)

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The old lanes of each new lane's keys."""
        return tuple(tuple(sorted({old for old, new in self.keys if new == lane})) for lane in range(self.new_lanes))

    def start(self) -> SmallMirrorState:
        """Nothing has been written, and nobody has a lease."""
        return SmallMirrorState(
            journal=SmallJournal(),
            producers=(MirrorProducer(),) * len(self.keys),
            streams=(((),) * self.old_lanes, ((),) * self.new_lanes),
            copied_to=(0,) * self.old_lanes,
            readers=((SmallReader(),) * self.old_lanes, (SmallReader(),) * self.new_lanes),
            seen=((),) * len(self.keys),
        )

    def explore(self) -> Exploration:
        """All of it."""
        return explore(self.start(), self.moves, self.broken, self.names)

    def moves(self, state: SmallMirrorState) -> Iterator[tuple[str, SmallMirrorState]]:
        """All that can happen next."""
        yield from self._driver_moves(state)
        for place, producer in enumerate(state.producers):
            for what, following in self._producer_moves(state, place, producer):
                yield f"producer {place} {what}", following
        for new in (False, True):
            for lane in range(len(state.streams[new])):
                yield from self._reader_moves(state, new, lane)
        of_old, of_new = state.readers
        again = (_restarted(of_old), _restarted(of_new))
        if state.crashes < self.crashes and again != state.readers:
            yield "readers start again", state._replace(readers=again, crashes=state.crashes + 1)

    # The drivers, and the copies that they make.

    def _driver_moves(self, state: SmallMirrorState) -> Iterator[tuple[str, SmallMirrorState]]:
        journal, drivers = state.journal, SmallDrivers(self.leases, self.rollback, self.fenced)
        for name, following in drivers.moves(journal, partial(self._decided, state)):
            yield name, state._replace(journal=following)
        for place, driver in enumerate(journal.drivers):
            for what, following_state in self._copier_moves(state, place, driver):
                yield f"{'ab'[place]} {what}", following_state

    def _decided(self, state: SmallMirrorState, driver: SmallDriver) -> Step:
        ends, new_ends = (tuple(map(len, lanes)) for lanes in state.streams)
        needed = len(state.entries) - 1 if self.copied_late else 0
        world = World(
            self.new_lanes,
            ends,
            new_ends,
            state.journal.acknowledged(one.acknowledged for one in state.producers)
            if self.acknowledged
            else frozenset(self.plan.producers),
            applied=tuple(one.committed for one in state.readers[0]),
            copied=driver.copied >= needed,
            copied_to=state.copied_to,
        )
        return next_step(self.plan, self._believed(state.entries, driver), world, driver.claim)

    def _believed(self, entries: tuple[Entry, ...], driver: SmallDriver) -> tuple[Entry, ...]:
        """The journal; a driver without an entry of its own takes the last for one."""
        if self.own_entry or not entries:
            return entries
        return (*entries[:-1], entries[-1]._replace(claim=driver.claim))

    def _copier_moves(
        self, state: SmallMirrorState, place: int, driver: SmallDriver
    ) -> Iterator[tuple[str, SmallMirrorState]]:
        if isinstance(driver.decided, CutoverCall):
            opening = driver._replace(decided=None, copy=SmallCopy())
            yield "opens the writer of copies", self._with_driver(state, place, opening)._replace(copier=place)
        run = driver.copy
        if run is None:
            return
        if run.behind < 0:
            yield self._begun(state, place, driver)
        elif state.copier != place and self.copier_fenced:
            yield "copies -> fenced", self._with_driver(state, place, driver._replace(copy=None))
        else:
            at = state.copied_to if self.copier_fenced else run.at
            yield from self._copied(state, place, driver, at)
            if all(done >= end for done, end in zip(at, run.upto, strict=True)):
                ended = driver._replace(copy=None, copied=run.behind)
                yield "ends its copy", self._with_driver(state, place, ended)

    def _begun(self, state: SmallMirrorState, place: int, driver: SmallDriver) -> tuple[str, SmallMirrorState]:
        """A copier looks at the journal behind the fence that it has set, and then at where the old lanes end."""
        entries = self._believed(state.entries, driver)
        if self.copier_looks and not may_copy(entries, driver.claim):
            return "looks at the journal -> copies nothing", self._with_driver(state, place, driver._replace(copy=None))
        upto = tuple(map(len, state.streams[0]))
        run = SmallCopy(len(entries) - 1, upto, () if self.copier_fenced else state.copied_to)
        return "begins to copy", self._with_driver(state, place, driver._replace(copy=run))

    def _copied(
        self, state: SmallMirrorState, place: int, driver: SmallDriver, at: tuple[int, ...]
    ) -> Iterator[tuple[str, SmallMirrorState]]:
        old, _ = state.streams
        for lane, offset in enumerate(at):
            if offset == len(old[lane]):
                continue
            record = old[lane][offset]
            moved = (*at[:lane], offset + 1, *at[lane + 1 :])
            copied = _written(state, True, self.keys[record.key][1], record._replace(marked=True))
            if self.copier_fenced:
                yield f"copies record {offset} of lane {lane}", copied._replace(copied_to=moved)
            elif driver.copy is not None:
                known = tuple(map(max, moved, state.copied_to))
                run = driver._replace(copy=driver.copy._replace(at=moved))
                following = self._with_driver(copied._replace(copied_to=known), place, run)
                yield f"copies record {offset} of lane {lane}", following

    @staticmethod
    def _with_driver(state: SmallMirrorState, place: int, driver: SmallDriver) -> SmallMirrorState:
        return state._replace(journal=state.journal.with_driver(place, driver))

    # The producers. Each looks at the journal when it likes.

    def _producer_moves(
        self, state: SmallMirrorState, place: int, one: MirrorProducer
    ) -> Iterator[tuple[str, SmallMirrorState]]:
        if one.flying is not None:
            yield f"has record {one.flying.number} written to the old stream", self._landed(state, place, one.flying)
        elif one.sent < self.records * (1 + one.keeps + one.to_new * (1 if one.keeps else 2)) and (
            one.to_old or one.to_new
        ):
            yield f"sends record {one.sent + 1}", self._with_producer(state, place, self._sent(place, one))
        if one.to_new and one.kept:
            (number, _), *rest = one.kept
            written = _written(state, True, self.keys[place][1], MirrorRecord(place, number))
            following = self._with_producer(written, place, one._replace(kept=tuple(rest)))
            yield f"writes record {number} to the new stream", following
        for what, looked in self._looks(state, place, one):
            yield what, self._with_producer(state, place, looked)
        if one.kept and one.flying is None and sum(other.killed for other in state.producers) < self.kills:
            yield "is killed", self._with_producer(state, place, one._replace(kept=(), killed=True))

    @staticmethod
    def _sent(place: int, one: MirrorProducer) -> MirrorProducer:
        """A record on its way to the old stream, to both, or kept for the new one, which takes it next."""
        number = one.sent + 1
        flying = MirrorRecord(place, number, one.keeps) if one.to_old else None
        kept = (*one.kept, (number, -1)) if one.to_new else one.kept
        return one._replace(sent=number, flying=flying, kept=kept)

    def _landed(self, state: SmallMirrorState, place: int, record: MirrorRecord) -> SmallMirrorState:
        lane, one = self.keys[place][0], state.producers[place]
        kept = one.kept
        if record.marked and not one.to_new:
            kept = (*kept, (record.number, len(state.streams[0][lane])))
        written = _written(state, False, lane, record)
        return self._with_producer(written, place, one._replace(flying=None, kept=kept))

    def _looks(self, state: SmallMirrorState, place: int, one: MirrorProducer) -> Iterator[tuple[str, MirrorProducer]]:
        entries, hold = state.entries, hold_of(state.entries)
        to_old, to_new, keeps = may_send(entries, new=False), may_send(entries, new=True), is_dual(entries)
        entry = opened(entries)
        if to_new and entry is not None and not one.to_new:
            # What is on its way has no offset yet, and may be on either side of the fence.
            if one.flying is None:
                fence = entry.fences[self.keys[place][0]] if self.drops_kept else 0
                kept = tuple((number, -1) for number, offset in one.kept if offset >= fence)
                yield "switches", one._replace(to_old=to_old, to_new=True, kept=kept, keeps=keeps)
        elif phase_of(entries) == "rolled-back" and (one.keeps or not one.to_old):
            yield "goes on as before", one._replace(to_old=True, keeps=False, kept=())
        elif (to_old, keeps) != (one.to_old, one.keeps):
            yield "looks at the journal", one._replace(to_old=to_old, keeps=keeps)
        elif hold is not None and not one.to_new and one.acknowledged != hold and (keeps or not to_old):
            flushed = one.flying is None or one.flying.marked
            yield from [("acknowledges", one._replace(acknowledged=hold))] if flushed else []

    @staticmethod
    def _with_producer(state: SmallMirrorState, place: int, one: MirrorProducer) -> SmallMirrorState:
        return state._replace(producers=(*state.producers[:place], one, *state.producers[place + 1 :]))

    # The readers: each lane is somebody's, and whose does not matter to the gate.

    def _reader_moves(self, state: SmallMirrorState, new: bool, lane: int) -> Iterator[tuple[str, SmallMirrorState]]:
        stream, reader = ("old", "new")[new], state.readers[new][lane]
        if reader.applied > reader.committed:
            committed = reader._replace(committed=reader.applied)
            yield f"{stream} lane {lane} is committed", _with_reader(state, new, lane, committed)
        if reader.applied == len(state.streams[new][lane]):
            return
        record, passed = state.streams[new][lane][reader.applied], reader._replace(applied=reader.applied + 1)
        leave = self._leave(state, new, lane, reader.applied, record)
        if leave == "hold":
            yield f"{stream} lane {lane} is looked at -> {stream} stream held", state
            return
        following = _with_reader(state, new, lane, passed)
        if leave == "apply":
            following = self._applied(following, (new, reader.applied), record)
        did = "applied" if leave == "apply" else "skipped"
        yield f"record {reader.applied} of {stream} lane {lane} -> {stream} stream {did}", following

    def _leave(self, state: SmallMirrorState, new: bool, lane: int, offset: int, record: MirrorRecord) -> Leave:
        gate = MirrorGate.of(state.entries, self.parents)
        if not new:
            if gate.lanes is None and not self.holds_kept:
                return "apply"
            return gate.old_allows(lane, offset, kept=record.marked)
        leave = gate.new_allows(lane, offset, tuple(one.committed for one in state.readers[0]))
        return leave if self.gated or gate.lanes is None or leave != "hold" else "apply"

    @staticmethod
    def _applied(state: SmallMirrorState, source: Applied, record: MirrorRecord) -> SmallMirrorState:
        seen, broken = state.seen[record.key], state.broken
        if not source[0] and any(new for new, _ in seen):
            broken = "no record of the old stream is applied after one of the new"
        elif record.number <= len(seen):
            if seen[record.number - 1] != source:
                broken = "each record is applied by one stream"
        elif record.number == len(seen) + 1:
            seen = (*seen, source)
        else:
            broken = "records of a key are applied in their order"
        return state._replace(seen=(*state.seen[: record.key], seen, *state.seen[record.key + 1 :]), broken=broken)

    # The rules.

    def broken(self, state: SmallMirrorState) -> str | None:
        """The rule that a state breaks."""
        if sum(one.phase == "open" for one in state.entries) > 1:
            return "a journal has one entry open"
        if not self._log_is_whole(state):
            return "the log of the new stream has each key's records once, in their order, without a gap"
        entry = opened(state.entries)
        if entry is not None:
            rule = self._broken_when_open(state, entry)
            if rule is not None:
                return rule
        if self._all_is_read(state) and any(
            len(seen) != one.sent for seen, one in zip(state.seen, state.producers, strict=True)
        ):
            return "when all is read, all was applied"
        return state.broken

    @staticmethod
    def _log_is_whole(state: SmallMirrorState) -> bool:
        last = [0] * len(state.producers)
        for lane in state.streams[1]:
            for record in lane:
                if record.number != last[record.key] + 1:
                    return False
                last[record.key] += 1
        return True

    def _broken_when_open(self, state: SmallMirrorState, entry: Entry) -> str | None:
        old, new = state.streams
        for lane, records in enumerate(new):
            for offset, record in enumerate(records):
                if record.marked != (offset < entry.starts[lane]):
                    return "below the starts of the new stream are the copies, and nothing else"
        copies = {(one.key, one.number) for lane in new for one in lane if one.marked}
        for lane, records in enumerate(old):
            if any((one.key, one.number) not in copies for one in records[: entry.fences[lane]]):
                return "all that is below a fence is in the new stream"
            if any(not one.marked for one in records[entry.fences[lane] :]):
                return "behind a fence is only what its producer keeps"
        return None

    def _all_is_read(self, state: SmallMirrorState) -> bool:
        """Whether it is over, nothing is on its way, and readers have applied and committed all there is."""
        over = phase_of(state.entries) in {"done", "rolled-back"}
        quiet = all(one.flying is None and not one.kept for one in state.producers)
        back = phase_of(state.entries) == "rolled-back"
        return (
            over
            and quiet
            and all(
                reader.committed == len(records)
                for new in (False, True)[: 1 if back else 2]
                for reader, records in zip(state.readers[new], state.streams[new], strict=True)
            )
        )

    def names(self, state: SmallMirrorState) -> Iterator[str]:
        """What a state is called."""
        phase = phase_of(state.entries)
        yield f"phase {phase or 'none'}"
        if state.journal.late:
            yield "two drivers are about to do something"
        if sum(one.copy is not None for one in state.journal.drivers) > 1:
            yield "two copiers"
        if any(one.kept and not one.to_new for one in state.producers):
            yield "a producer keeps records"
        if sum(one.phase == "doubling" for one in state.entries) > 1:
            yield "doubling again"
        if phase == "done" and self._all_is_read(state) and all(one.to_new for one in state.producers):
            yield "all is applied"
        if state.crashes:
            yield "readers have started again"


def _written(state: SmallMirrorState, new: bool, lane: int, record: MirrorRecord) -> SmallMirrorState:
    old_lanes, new_lanes = state.streams
    lanes = state.streams[new]
    lanes = (*lanes[:lane], (*lanes[lane], record), *lanes[lane + 1 :])
    return state._replace(streams=(old_lanes, lanes) if new else (lanes, new_lanes))


def _restarted(lanes: tuple[SmallReader, ...]) -> tuple[SmallReader, ...]:
    return tuple(one._replace(applied=one.committed) for one in lanes)


def _with_reader(state: SmallMirrorState, new: bool, lane: int, reader: SmallReader) -> SmallMirrorState:
    of_old, of_new = state.readers
    lanes = state.readers[new]
    lanes = (*lanes[:lane], reader, *lanes[lane + 1 :])
    return state._replace(readers=(of_old, lanes) if new else (lanes, of_new))

"""A migration carried out on a stream, step by step: looked at, decided, recorded, done; by one driver at a time.

The loop is: read the journal, look at the stream, let `keylane.migration.cutover.next_step` decide, and append the
entry or make the call. All that a driver knows is in the journal, so that any process goes on where another was killed.
A broker that does not answer is asked again for as long as the patience lasts; nothing is taken for failed: after an
unknown outcome the next look shows what is there.

The lease (`keylane.groups.ownership`) lets one process drive; the journal's refusal of a late entry is what is relied
on. Where the entries are kept: `migration_journal`. Splits and merges of shards: `shard_migrations`. Kafka:
`keylane.systems.kafka.migration`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from keylane.errors import BrokerError, FencedError, TargetError
from keylane.migration.cutover import (
    HELD,
    OVER,
    Append,
    CutoverCall,
    Finished,
    Refuse,
    Wait,
    World,
    hold_of,
    may_copy,
    may_roll_back,
    next_step,
    opened,
    phase_of,
)
from keylane.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from keylane.groups.ownership import Lease
    from keylane.migration.cutover import CutoverPlan, Entry, Step
    from keylane.systems.leases.keeper import LeaseKeeper
    from keylane.systems.migration_journal import MigrationJournal
    from keylane.systems.migration_marks import MigrationMark
    from keylane.systems.resharding import Waiting

#: How long a lane must not have grown to be taken for fenced, in seconds.
SETTLE: Final = 0.25
#: What a writer whose records have no headers is called.
UNNAMED: Final = "records without keylane.source"
#: Seconds between two looks: while producers wait, and while readers are waited for.
SOON, LATER = 0.05, 0.5
#: Seconds after which a wait is reported, and how often it is again.
SAY_AFTER, SAY_AGAIN = 3.0, 30.0
#: How many old lanes such a report names.
_NAMED: Final = 12


@dataclass(frozen=True, slots=True)
class ObservedStream:
    """A stream as it was when a plan was made: what must not change until it is carried out.

    `starts` and `ends` are offsets by lane; `retention` is how long records are kept, in seconds, None for ever.
    """

    address: str
    id: str
    lanes: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    retention: float | None
    cleanup: str

    @property
    def records(self) -> int:
        """How many offsets there are, some of which may be marks of transactions."""
        return sum(end - start for start, end in zip(self.starts, self.ends, strict=True))


@dataclass(frozen=True, slots=True)
class LateWriter:
    """Who wrote records behind a fence that are of an earlier epoch. No name, no epoch: its records have none.

    `foreign` is what stands in their header instead, where that is no epoch of a contract.
    """

    writer: str
    epoch: int | None
    foreign: str | None
    records: int
    #: The first of them.
    lane: int
    offset: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Where a transaction stands open in a lane: from this offset on, readers of committed records wait for its end."""

    lane: int
    offset: int
    #: Up to where records were asked for.
    end: int
    #: A command that ends it, where nobody is there who would.
    end_it: str = ""


class Migrator(Protocol):
    """What a system does to change the lanes of a stream in place."""

    def observe(self) -> ObservedStream:
        """The stream as it is now."""

    def marked(self) -> MigrationMark | None:
        """The mark that the stream keeps of its last migration; None where it has none."""

    def mark(self, mark: MigrationMark) -> None:
        """Keep a mark with the stream, in place of an earlier one; a system that cannot keeps none."""

    def check(self, lanes: int, groups: Sequence[str]) -> None:
        """Refuse a stream that cannot be changed in place to so many lanes, or whose groups have missed records."""

    def committed(self, groups: Sequence[str], lanes: int) -> dict[str, tuple[int, ...]]:
        """The offset that each group has committed of each of so many lanes; -1 where it has none."""

    def check_missed(self, groups: Sequence[str]) -> None:
        """Refuse groups that have missed records."""

    def starts(self) -> tuple[int, ...]:
        """The first offset of each lane now: what was before it is deleted."""

    def ends(self) -> tuple[int, ...]:
        """The end offset of each lane now; as many as there are lanes."""

    def open_transactions(self, ends: Sequence[int] = (), seconds: float = 0.0) -> tuple[OpenTransaction, ...]:
        """Transactions that are open below these ends, or below those of now; waited for so long that they end."""

    def grow(self, lanes: int) -> None:
        """Give the stream so many lanes; returns when they are there. One that has them is left as it is."""

    def applied(self, groups: Sequence[str], fences: Sequence[int]) -> tuple[int, ...]:
        """The lowest offset of each old lane that all groups have committed.

        A lane without any record from there up to its fence counts as committed up to it. One that has a transaction
        open there does not: what is in it is not known yet.
        """

    def records(self, ranges: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """The records in these offsets of each lane: lane, offset, key; and by their headers writer, seq and epoch.

        `foreign` is what stands where an epoch would, null where that is an epoch or nothing. A lane is read up to the
        first transaction that is open in it.
        """


class Mirror(Protocol):
    """The other half of a migration into another stream: who copies, and the stream that is copied into."""

    def copy(self, check: Callable[[], None]) -> bool:
        """Copy all that the old stream has now, exactly once where the new one can; whether that has caught up.

        `check` refuses a copy that comes late: it is called when no other can be at it, and before the first record.
        """

    def copied_to(self) -> tuple[int, ...]:
        """How far the copy is in each old lane."""

    def lanes(self) -> int:
        """The lanes of the new stream."""

    def ends(self) -> tuple[int, ...]:
        """The end offset of each new lane; none where its system has no offsets."""

    def translate(self, groups: Sequence[str], starts: Sequence[int]) -> None:
        """Let reader groups that have no offsets in the new stream begin behind the copies."""


def unread(
    committed: Mapping[str, Sequence[int]],
    starts: Sequence[int],
    begins: Sequence[int] | None = None,
    ends: Sequence[int] | None = None,
) -> dict[str, list[int]]:
    """By group the lanes of which records are gone that the group has not committed.

    `starts` is where lanes begin now, by what is deleted. `begins` is where a group stands in a lane of which it has
    committed nothing; without it such lanes are left out. With `ends` only what is below counts.

    >>> unread({"ledger": (40, 5, -1)}, (40, 6, 3)), unread({"ledger": (40, 5, -1)}, (40, 6, 3), (0, 0, 0))
    ({'ledger': [1]}, {'ledger': [1, 2]})
    >>> unread({"ledger": (40, 5, -1)}, (41, 6, 3), (0, 0, 0), ends=(40, 5, 0))
    {}
    """
    found: dict[str, list[int]] = {}
    for group, offsets in committed.items():
        for lane, (at, start) in enumerate(zip(offsets, starts, strict=False)):
            stands = at if at >= 0 or begins is None else begins[lane]
            gone = start if ends is None else min(start, ends[lane])
            if 0 <= stands < gone:
                found.setdefault(group, []).append(lane)
    return found


class LateWriters:
    """Counts, batch by batch, who wrote records of an earlier epoch, or of none; no record is kept."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._found: dict[tuple[str, int | None, bool], LateWriter] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Records of one lane, behind its fence."""
        import pyarrow.compute as pc

        late = batch.filter(pc.less(batch.column("epoch"), self._epoch).fill_null(True))
        for row in late.select(["lane", "offset", "writer", "epoch", "foreign"]).to_pylist():
            writer, epoch, foreign = row["writer"] or UNNAMED, row["epoch"], row["foreign"]
            # Foreign headers may be another one in each record: one of them is shown.
            key = writer, epoch, foreign is not None
            first = self._found.get(key) or LateWriter(writer, epoch, foreign, 0, row["lane"], row["offset"])
            self._found[key] = replace(first, records=first.records + 1)

    @property
    def found(self) -> list[LateWriter]:
        """Who wrote most of them comes first."""
        return sorted(self._found.values(), key=lambda one: (-one.records, one.writer))


def late_writers(batches: Iterable[pa.RecordBatch], epoch: int) -> list[LateWriter]:
    """Who wrote those of the records that are of an earlier epoch, or of none; who wrote most of them comes first."""
    late = LateWriters(epoch)
    for batch in batches:
        late.add(batch)
    return late.found


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    """How a run ended: the journal, and what it waits for where it is not over."""

    entries: tuple[Entry, ...]
    waits: Wait | None
    appended: int


class Driver:
    """Drives one migration for as long as it holds the lease. `clock` is wall time, for the entries."""

    def __init__(
        self,
        plan: CutoverPlan,
        groups: Sequence[str],
        journal: MigrationJournal,
        migrator: Migrator,
        keeper: LeaseKeeper,
        waiting: Waiting,
        *,
        clock: Callable[[], float],
        say: Callable[[str], None],
        mirror: Mirror | None = None,
        mark: Callable[[Sequence[Entry]], MigrationMark] | None = None,
    ) -> None:
        self._mark, self._marked = mark, 0
        self.plan, self.groups, self.journal, self.migrator = plan, groups, journal, migrator
        self.keeper, self.waiting, self.clock, self.say, self.mirror = keeper, waiting, clock, say, mirror
        self._ends: tuple[int, ...] = ()
        self._since = 0.0
        self._appended = 0
        #: How many entries there were when the last copy began, and whether it had caught up at its end.
        self._copied: tuple[int, bool] = (-1, False)
        self._translated = False
        #: Old lanes of which records below the fences were deleted before every group had committed them.
        self._unread: set[int] = set()

    def run(
        self, check: Callable[[tuple[Entry, ...]], None], *, all_stopped: bool, most: int | None = None
    ) -> MigrationOutcome:
        """Go on until it is over, or until something is waited for beyond the patience.

        `check` refuses a stream that is not the planned one; it is called with every look. `all_stopped`: somebody says
        that producers which do not acknowledge have stopped. `most` entries are appended at most.
        """
        lease = self._lease()
        begun, waits = self.waiting.clock(), None
        said = begun - SAY_AGAIN + SAY_AFTER
        while True:
            if not self.keeper.holds(lease):
                lease = self._lease(lease)
            try:
                entries = self.journal.entries()
                check(entries)
                self._keep_mark(entries)
                step = self._next_step(entries, all_stopped, lease.term)
                if isinstance(step, Finished) or (most is not None and self._appended >= most):
                    return MigrationOutcome(entries, None, self._appended)
                if self._take(step, len(entries), lease.term):
                    begun = self.waiting.clock()
                    said = begun - SAY_AGAIN + SAY_AFTER
                    continue
                waits = step if isinstance(step, Wait) else None
                if waits and self.waiting.clock() - said > SAY_AGAIN:
                    said = self.waiting.clock()
                    self._say_waits(waits, entries)
            except FencedError:
                raise
            except BrokerError as error:
                if self.waiting.clock() - begun > self.waiting.longest:
                    raise
                self.say(f"{error}; asking again")
                self.waiting.pause(LATER)
                continue
            if self.waiting.clock() - begun > self.waiting.longest:
                return MigrationOutcome(self.journal.entries(), waits, self._appended)
            self.waiting.pause(LATER if waits and waits.why == "readers" else SOON)

    def _next_step(self, entries: tuple[Entry, ...], all_stopped: bool, claim: int) -> Step:
        step = next_step(self.plan, entries, self._look(entries, all_stopped), claim, self.clock())
        if isinstance(step, Refuse):
            raise not_as_planned(step, self.plan, entries)
        return step

    def roll_back(self) -> MigrationOutcome:
        """Append the entry by which producers go on under the old contract; refused where the way back is closed."""
        append_rollback(self.journal, self._lease().term, self.clock())
        entries = self.journal.entries()
        self._keep_mark(entries)
        return MigrationOutcome(entries, None, 1)

    def _keep_mark(self, entries: Sequence[Entry]) -> None:
        """Behind every entry that holds nobody up."""
        if self._mark is not None and len(entries) != self._marked and phase_of(entries) not in HELD | {None}:
            self.migrator.mark(self._mark(entries))
            self._marked = len(entries)

    def _lease(self, lost: Lease | None = None) -> Lease:
        found = awaited_lease(self.keeper, self.waiting)
        if lost is not None and found.term != lost.term:
            self.say(f"the lease was lost, and is held again: term {found.term}")
        return found

    def _look(self, entries: tuple[Entry, ...], all_stopped: bool) -> World:
        hold, phase = hold_of(entries), phase_of(entries)
        stopped = self.journal.stopped(hold) if hold is not None and phase not in OVER else frozenset[str]()
        # Behind the acknowledgements: what a producer wrote before its own is in the ends.
        ends = self.migrator.ends()
        now = self.waiting.clock()
        if ends != self._ends:
            self._ends, self._since = ends, now
        fences = entries[-1].fences if entries else ()
        watched = bool(self.groups) and bool(fences) and (phase == "open" or not self.plan.gated)
        applied = self.migrator.applied(self.groups, fences) if watched else None
        if watched:
            # Where a group goes on behind them, nothing shows any more that it has not read them.
            gone = unread(self.migrator.committed(self.groups, len(fences)), self.migrator.starts(), ends=fences)
            self._unread.update(*gone.values())
        still = now - self._since >= SETTLE
        world = World(
            len(ends),
            ends,
            stopped=stopped,
            all_stopped=all_stopped,
            still=still,
            applied=applied,
            unread=tuple(sorted(self._unread)),
        )
        return world if self.mirror is None else self._look_at_mirror(self.mirror, world, entries)

    def _say_waits(self, waits: Wait, entries: Sequence[Entry]) -> None:
        """What it waits for, and the transactions that readers or the copy have to wait for."""
        if waits.why == "producers":
            self.say(f"it {waits_in_words(waits)}; once they have: migrate run with --producers-stopped")
            return
        self.say(f"it {waits_in_words(waits)}")
        fences = entries[-1].fences if waits.why == "readers" else ()
        for one in self.migrator.open_transactions(fences):
            self.say(open_in_words(one))

    def _look_at_mirror(self, mirror: Mirror, world: World, entries: tuple[Entry, ...]) -> World:
        """The same with the new stream. A copy counts where it began behind the last entry: it has all up to there."""
        at, caught_up = self._copied
        copied = at == len(entries) and (caught_up or phase_of(entries) != "copying")
        done = copied and phase_of(entries) != "copying"
        settled = done or phase_of(entries) not in HELD | {"doubling"} or not self.migrator.open_transactions()
        return world._replace(
            lanes=mirror.lanes(),
            new_ends=mirror.ends() if done else (),
            settled=settled,
            copied=copied,
            copied_to=mirror.copied_to() if done and self.plan.dual else (),
            translated=self._translated or not self.groups,
        )

    def _take(self, step: Step, entries: int, claim: int) -> bool:
        """Append, or call; False where nothing was done. `entries` is how many the step was decided by."""
        if isinstance(step, Append):
            self.journal.append(step.entry)
            self._appended += 1
            self.say(f"entry {step.entry.number}: {step.entry.phase}")
            return True
        if isinstance(step, CutoverCall):
            self._call(step, entries, claim)
            return True
        return False

    def _call(self, step: CutoverCall, entries: int, claim: int) -> None:
        if step.name == "grow":
            self.migrator.grow(self.plan.new_lanes)
            return
        assert self.mirror is not None
        if step.name == "copy":
            self._copied = entries, self.mirror.copy(lambda: self._check_may_copy(claim))
            return
        opening = opened(self.journal.entries())
        assert opening is not None
        self.mirror.translate(self.groups, opening.starts)
        self._translated = True

    def _check_may_copy(self, claim: int) -> None:
        entries = self.journal.entries()
        if not may_copy(entries, claim):
            got = f"a copy of the driver with claim {claim}, while the journal is at {phase_of(entries)}"
            raise FencedError.of("another process drives this migration; nothing was copied", got=got)


def not_as_planned(refused: Refuse, plan: CutoverPlan, entries: Sequence[Entry]) -> TargetError:
    """The error for a stream with other lanes than the journal has it: two things can be the reason."""
    hint = "somebody else has changed the stream: keylane migrate plan again, of the stream as it is now"
    if refused.got == str(plan.new_lanes):
        at = f"ends at {phase_of(entries)}" if entries else "has no entry"
        hint = (
            f"it has the lanes of the new contract, while the journal {at}: either the journal is gone or an old copy: "
            "restore it as it was last, or name where it is by --journal; or somebody else has given them: keylane "
            "migrate plan again, of the stream as it is now"
        )
    what = f"{refused.what}; nothing was changed"
    return TargetError.of(what, got=refused.got, allowed=refused.allowed, hint=hint)


def append_rollback(journal: MigrationJournal, claim: int, at: float) -> None:
    """Append the entry by which producers go on under the old contract; refused where the way back is closed."""
    entries = journal.entries()
    if not may_roll_back(entries):
        phase = phase_of(entries)
        hint = "it is forward-only from here: keylane migrate run goes on" if phase not in OVER else ""
        raise TargetError.of("the migration cannot be rolled back any more", got=phase, hint=hint)
    ended = entries[-1]._replace(number=len(entries), claim=claim, phase="rolled-back", fences=(), starts=(), at=at)
    journal.append(ended)


def awaited_lease(keeper: LeaseKeeper, waiting: Waiting) -> Lease:
    """The lease, waited for as long as the patience lasts: one that a killed driver held runs out by itself."""
    until = waiting.clock() + waiting.longest
    while (found := keeper.lease()) is None:
        if waiting.clock() > until:
            what, silence = "another process drives this migration", keeper.silence or None
            hint = "wait for it, or stop it; a lease of a process that was killed runs out by itself"
            raise TargetError.of(what, got=silence, hint=hint)
        keeper.wait(SOON)
    return found


def pause_of(entries: Sequence[Entry]) -> float | None:
    """Seconds from the entry that let producers stop to the one that let them go on; None where they did not."""
    hold = next((one for one in entries if one.phase == "holding"), None)
    end = opened(entries) or next((one for one in entries if one.phase == "rolled-back"), None)
    return None if hold is None or end is None else max(0.0, end.at - hold.at)


def open_in_words(one: OpenTransaction) -> str:
    """An open transaction, and how it ends, for people."""
    ends = "it ends when its producer commits or aborts it, or begins anew under its transactional.id"
    return (
        f"a transaction is open in lane {one.lane} from offset {one.offset} on, below {one.end}: nobody can read "
        f"committed records behind that; {ends}{f', or by: {one.end_it}' if one.end_it else ''}"
    )


def waits_in_words(waits: Wait) -> str:
    """What a run waits for, for people."""
    if waits.why == "producers":
        missing = ", ".join(waits.names)
        return f"waits for producers to stop and acknowledge: {missing}" if missing else "waits for producers to stop"
    if waits.why == "writes":
        return "waits for writes to the old lanes to end: a producer was not stopped, or has a transaction open"
    behind, more = plural(len(waits.names), "old lane"), ", …" if len(waits.names) > _NAMED else ""
    return f"waits for readers to drain {behind} by commits up to the fences: {', '.join(waits.names[:_NAMED])}{more}"

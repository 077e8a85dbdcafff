"""A migration by splits and merges: the calls of its plan, made one by one by one driver, recorded in its journal.

    ShardLineage    what a system says of its shards, closed ones too, and what is in each
    JournalRecord   the journal as the record that `resharding.carry_out` makes its calls by
    ShardDriver     begun, a call after the other, open, done

Nothing is copied and nobody stops: a shard that is split or merged ends at once, and its children begin empty. Where it
ended is the fence, which the system keeps by itself; readers that read parents to their end before their children have
every key in order. So the steps are few, and the journal is there for what may be killed between them: the entry
`resharding` with so many calls is appended before the next call is made. Whoever goes on compares the stream with it.

A driver that is held up between its entry and its call, and has lost its lease meanwhile, makes a call that another has
made. A service refuses to split or merge a shard that is closed, so that nothing happens twice.

The steps: `keylane.migration.cutover`. What is proven afterwards: `keylane.pipelines.migrate_lineage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from keylane.errors import BrokerError, FencedError, TargetError
from keylane.migration.cutover import OVER, Entry, phase_of
from keylane.systems.migrations import LATER, awaited_lease
from keylane.systems.resharding import AGAIN, carry_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from keylane.documents.shards import ShardRow, ShardsPlanDocument
    from keylane.groups.ownership import Lease
    from keylane.keyspace.layout import Shard
    from keylane.systems.leases.keeper import LeaseKeeper
    from keylane.systems.migration_journal import MigrationJournal
    from keylane.systems.resharding import Resharder, Waiting


@dataclass(frozen=True, slots=True)
class LineageShard:
    """A shard with the numbers that the system gives its records: the one it begins at, and the one it ended at.

    `ends_at` is None of a shard that is open, and 0 of a closed one whose end the system does not say.
    """

    shard: Shard
    begins_at: int
    ends_at: int | None


class ShardLineage(Protocol):
    """The shards of a stream, parents before children, and their records."""

    def shards(self) -> list[LineageShard]:
        """All that the system still lists, each behind its parents."""

    def retention(self) -> float:
        """How long records are kept, in seconds."""

    def records(self, shard: Shard) -> Iterator[pa.RecordBatch]:
        """What is in a shard now: position, number (text), key, inside, writer, seq, epoch.

        `inside` is whether the record's hash key is in the shard's range; null where its hash key is not known.
        """


class Unbegun:
    """What is known of the calls where there is no journal: none was made, or all were."""

    done, begun, is_new = 0, False, True

    def note(self, done: int, *, begun: bool) -> None:
        """Nothing is kept before a journal is begun."""


class JournalRecord:
    """What the journal says of the calls. `holds` is whether the lease is still held."""

    def __init__(
        self, journal: MigrationJournal, claim: int, holds: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._journal, self._claim, self._holds, self._clock = journal, claim, holds, clock
        last = journal.entries()[-1]
        self.is_new = last.phase != "resharding"
        self.done, self.begun = last.calls, not self.is_new
        self.appended = 0

    def note(self, done: int, *, begun: bool) -> None:
        """Append an entry before a call; that it is done, the stream shows."""
        if begun:
            if not self._holds():
                raise FencedError.of("the lease of this migration was lost; no further call was made")
            entry = Entry(len(self._journal.entries()), self._claim, "resharding", at=self._clock(), calls=done)
            self._journal.append(entry)
            self.appended += 1
        self.done, self.begun, self.is_new = done, begun, False


class ShardDriver:
    """Drives a migration by splits and merges for as long as it holds the lease. `clock` is wall time, for entries."""

    def __init__(
        self,
        plan: ShardsPlanDocument,
        journal: MigrationJournal,
        lineage: ShardLineage,
        resharder: Resharder,
        keeper: LeaseKeeper,
        waiting: Waiting,
        *,
        clock: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self.plan, self.journal, self.lineage, self.resharder = plan, journal, lineage, resharder
        self.keeper, self.waiting, self.clock, self.say = keeper, waiting, clock, say
        self.appended = 0

    def run(self) -> None:
        """Go on until it is over. A service that does not answer is asked again for as long as the patience lasts."""
        until = self.waiting.clock() + self.waiting.longest
        while phase_of(self.journal.entries()) not in OVER:
            try:
                self._step(awaited_lease(self.keeper, self.waiting))
                until = self.waiting.clock() + self.waiting.longest
            except FencedError:
                raise
            except BrokerError as error:
                if self.waiting.clock() > until:
                    raise
                self.say(f"{error}; asking again")
                self.waiting.pause(LATER)

    def _step(self, lease: Lease) -> None:
        entries = self.journal.entries()
        phase = phase_of(entries)
        following = Entry(len(entries), lease.term, "begun", at=self.clock())
        if phase in {"begun", "resharding"}:
            record = JournalRecord(self.journal, lease.term, lambda: self.keeper.holds(lease), self.clock)
            try:
                carry_out(self.plan, self.resharder, record, self.waiting, self.say)
            finally:
                self.appended += record.appended
            fences, starts = borders(self.plan, self.lineage.shards())
            number = len(self.journal.entries())
            self._append(following._replace(number=number, phase="open", fences=fences, starts=starts, at=self.clock()))
        else:
            self._append(following._replace(phase="begun" if phase is None else "done"))

    def _append(self, entry: Entry) -> None:
        # A journal takes no calls but as resharding; one that needed none is resharded all the same.
        if entry.phase == "open" and phase_of(self.journal.entries()) == "begun":
            self.journal.append(entry._replace(phase="resharding", fences=(), starts=(), calls=len(self.plan.calls)))
            self.appended, entry = self.appended + 1, entry._replace(number=entry.number + 1)
        self.journal.append(entry)
        self.appended += 1
        self.say(f"entry {entry.number}: {entry.phase}")


def borders(plan: ShardsPlanDocument, shards: Sequence[LineageShard]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the shards of before ended, 0 of those that are open, and where those of after begin, by lane."""
    known = {one.shard.id: one for one in shards}
    fences = tuple((found.ends_at or 0) if (found := known.get(row.id)) else 0 for row in plan.before.layout)
    return fences, tuple(_open_at(row, shards).begins_at for row in plan.after.layout)


def _open_at(row: ShardRow, shards: Sequence[LineageShard]) -> LineageShard:
    place = int(row.start), int(row.end)
    for one in shards:
        if not one.shard.closed and (one.shard.start, one.shard.end) == place:
            return one
    what = "the stream was changed by somebody else as the last call was made"
    raise TargetError.of(what, got=f"no open shard from {row.start} to {row.end}", hint=AGAIN)

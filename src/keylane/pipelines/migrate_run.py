"""`migrate run`, `status` and `rollback`: a saved plan, carried out on its stream, looked at, and taken back.

The steps: `keylane.migration.cutover`. Who takes them: `keylane.systems.migrations`. The plan: `migrate`.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from keylane.contract.parse import load_contract
from keylane.documents.migrate import (
    MigratePlanDocument,
    MigrateStatusDocument,
    MigrationBegin,
    MigrationEntry,
    MigrationLane,
    MigrationTransaction,
    MigrationWait,
    MigrationWriter,
)
from keylane.errors import DataError, TargetError, UnsupportedError, UsageError
from keylane.groups.ownership import Claim, Terms
from keylane.migration.cutover import OVER, CutoverPlan, Refuse, hold_of, opened, phase_of
from keylane.migration.drain import drain_graph
from keylane.pipelines.changes import JOURNAL_ENDING
from keylane.pipelines.migrate_mirror import RouteMirror
from keylane.pipelines.migrate_shards import begin_shards, roll_back_shards, run_shards, status_shards
from keylane.pipelines.shards_files import text_in
from keylane.router import Router
from keylane.systems.endpoint import StreamOptions, open_endpoint, resolved
from keylane.systems.journal import OWN
from keylane.systems.leases import open_leases
from keylane.systems.leases.keeper import LeaseKeeper
from keylane.systems.migration_journal import FolderJournal, check_same_plan
from keylane.systems.migration_marks import MigrationMark, check_mark
from keylane.systems.migrations import Driver, late_writers, not_as_planned, pause_of
from keylane.systems.resharding import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from keylane.contract.model import Contract
    from keylane.migration.cutover import Entry, Wait
    from keylane.migration.drain import DrainGraph
    from keylane.systems.migration_journal import MigrationJournal
    from keylane.systems.migrations import LateWriter, Migrator, Mirror

#: Seconds of a driver's lease: how long another waits after one was killed.
TTL: Final = 5.0
#: How long a step may wait, by default.
PATIENCE: Final = 600.0
#: How long markers of a commit are waited for: a transaction that is open for longer is somebody's.
SETTLE_SECONDS: Final = 3.0
#: Seconds for which a stream that was compared with the plan is taken for the same, while a step waits.
CHECK_AGAIN: Final = 1.0
LEASE_ENDING, COPY_ENDING = ".lease", ".copy"


@dataclass(frozen=True, slots=True)
class SavedMigration:
    """A saved plan with its contracts, its stream and its journal."""

    path: Path
    plan: MigratePlanDocument
    journal: MigrationJournal
    journal_at: str
    options: StreamOptions | None
    routers: tuple[Router, Router]

    @property
    def address(self) -> str:
        """The stream."""
        assert self.plan.observed is not None
        return self.plan.observed.address

    @property
    def is_mirror(self) -> bool:
        """Whether records are copied into another stream."""
        return self.plan.mode == "mirror"

    @property
    def new_address(self) -> str:
        """The stream that has the lanes of the new contract: the same one, unless it is a mirror."""
        if not self.is_mirror:
            return self.address
        assert self.plan.new.address is not None
        return self.plan.new.address

    @property
    def cutover(self) -> CutoverPlan:
        """What the steps depend on."""
        plan = self.plan
        lanes = plan.old.lanes, plan.new.lanes
        return CutoverPlan(*lanes, self.is_mirror, tuple(plan.producers), plan.gated, plan.dual)

    def mirror(self, say: Callable[[str], None], *, allow_dead: bool = False) -> RouteMirror | None:
        """Who copies; None where the stream is changed in place."""
        if not self.is_mirror:
            return None
        contract, lanes = self.routers[1].contract, self.plan.new.lanes
        return RouteMirror(
            contract, self.address, self.new_address, lanes, self._copy_state, self.copy_options, say, allow_dead
        )

    @property
    def copy_options(self) -> StreamOptions:
        """How records are read that are copied: the key is the record's own, unless a format of values is given."""
        given, (old, new) = self.options or StreamOptions(), (one.contract.spec.key for one in self.routers)
        same = (old.fields, old.encodings) == (new.fields, new.encodings)
        return replace(given, keys_sent=same and given.value is None)

    @property
    def _copy_state(self) -> Path:
        """In the journal, where that is a folder; otherwise beside the plan."""
        if isinstance(self.journal, FolderJournal):
            return self.journal.path / "copy"
        return self.path.with_name(f"{self.path.name}{COPY_ENDING}").absolute()

    def mark(self, entries: Sequence[Entry]) -> MigrationMark:
        """What the stream keeps of the migration."""
        at = self.journal_at if not isinstance(self.journal, FolderJournal) else str(self.journal.path.absolute())
        return MigrationMark.of(self.plan.as_json(), at, entries)

    def check_journal(self, migrator: Migrator, entries: Sequence[Entry]) -> None:
        """Refuse a journal that is behind its stream: an older copy, or another folder than the one that it was in."""
        check_mark(migrator.marked(), self.plan.as_json(), self.journal_at, entries)

    @contextmanager
    def migrator(self) -> Iterator[Migrator]:
        """The stream as it is changed."""
        with open_endpoint(self.address, self.options).migrator() as found:
            yield found

    def check_stream(self, migrator: Migrator, entries: Sequence[Entry] = ()) -> None:
        """Refuse a stream that is not the one that the plan was made of, or has other settings by now.

        The old stream of a mirror may get lanes once the fences stand: what is written there is behind them.
        """
        now, then = migrator.observe(), self.plan.observed
        assert then is not None
        again = "keylane migrate plan makes a plan of the stream as it is now"
        if then.id and now.id != then.id:
            what = "the stream was deleted and recreated since the plan was made; nothing was changed"
            raise TargetError.of(what, got=now.id, allowed=then.id, hint=again)
        if now.cleanup != then.cleanup_policy:
            what = "cleanup.policy is another one than when the plan was made; nothing was changed"
            raise TargetError.of(what, got=now.cleanup, allowed=then.cleanup_policy, hint=again)
        if self.is_mirror and now.lanes != then.lanes and opened(entries) is None:
            what = "the old stream has another lane count than when the plan was made; nothing was changed"
            raise TargetError.of(what, got=str(now.lanes), allowed=str(then.lanes), hint=again)
        if any(end < before for end, before in zip(now.ends, then.ends, strict=False)):
            raise TargetError.of("lanes end before where they did when the plan was made", got=self.address, hint=again)


def read_plan(path: Path, journal: str | None, options: StreamOptions | None) -> SavedMigration:
    """A plan that `migrate plan --out` saved, its contracts and its journal; refused where it cannot be carried out."""
    text = text_in(path)
    try:
        plan = MigratePlanDocument.from_json(json.loads(text))
    except (ValueError, RecursionError, DataError):
        hint = "keylane migrate plan OLD.yaml NEW.yaml --from ADDRESS --out FILE saves one"
        raise UsageError.of("not a saved plan of a migration", got=str(path), hint=hint) from None
    routers = _check_can_run(plan, path)
    if plan.mode == "mirror" and (tiers := {name for one in routers for name in one.contract.tiers}):
        what = "a mirror is of one stream into one other, and records of a tier are in a stream of their own"
        raise UnsupportedError.of(what, got=", ".join(sorted(tiers)), hint="contracts without tiers")
    at = resolved(journal) if journal else f"{path}{JOURNAL_ENDING}"
    return SavedMigration(path, plan, open_endpoint(at, options).migration_journal(), at, options, routers)


def _check_can_run(plan: MigratePlanDocument, path: Path) -> tuple[Router, Router]:
    if not plan.steps:
        raise UsageError.of("the plan has nothing to do", got=str(path))
    if plan.observed is None:
        hint = "keylane migrate plan OLD.yaml NEW.yaml --from kafka://host:port/topic --out FILE"
        raise UsageError.of("the plan is from contracts alone, and names no stream to change", got=str(path), hint=hint)
    if plan.mode == "mirror" and plan.new.address is None:
        hint = "keylane migrate plan OLD.yaml NEW.yaml --from ADDRESS --to ADDRESS --out FILE"
        raise UsageError.of("the plan is a mirror, and names no stream to copy into", got=str(path), hint=hint)
    for one in filter(None, (plan.old.address, plan.new.address)):
        if resolved(one) != one:
            hint = "keylane migrate plan again: it writes the broker that is configured into the plan"
            what = "the plan names a stream by a short address, which means another broker in each environment"
            raise UsageError.of(what, got=one, allowed=resolved(one), hint=hint)
    if plan.epoch_to_raise is not None:
        got = f"epoch {plan.new.epoch} of {plan.new.file}"
        hint = "raise metadata.epoch there, then keylane migrate plan again"
        raise UsageError.of(
            "records of both contracts would have one epoch", got=got, allowed=str(plan.epoch_to_raise), hint=hint
        )
    in_place = plan.mode == "in-place" and plan.shards is None
    old, new = (_router(side.file, side.fingerprint, side.lanes, in_place=in_place) for side in (plan.old, plan.new))
    return old, new


def _router(file: str, fingerprint: str, lanes: int, *, in_place: bool) -> Router:
    contract = load_contract(file)
    if contract.fingerprint != fingerprint:
        hint = "keylane migrate plan again, or the file as it was"
        raise UsageError.of(f"{file} has changed since the plan was made", got=contract.fingerprint[:12], hint=hint)
    if in_place and not by_key_alone(contract):
        what = "a stream is changed in place where lanes follow from the record's key alone"
        allowed = "no window, tier, spread, sub-key, place or registry header"
        raise UnsupportedError.of(what, got=file, allowed=allowed, hint="--mode mirror, into another stream")
    return Router(contract, lanes=lanes if contract.spec.lanes == "live" else None)


def listed_parents(drain: DrainGraph) -> dict[str, list[int | str]]:
    """Who waits for whom, as a plan has it: lanes of the stream as numbers, those of tiers by name."""
    return {
        lane: [int(parent) if parent.isdecimal() else parent for parent in parents]
        for lane, parents in (drain.listed or {}).items()
    }


def _check_parents(saved: SavedMigration) -> None:
    """Refuse a plan that says something else than its contracts: readers go by it."""
    plan, (old, new) = saved.plan, saved.routers
    drain = drain_graph(old, new)
    planned = {
        "old.lanes": (plan.old.lanes, old.lane_count),
        "new.lanes": (plan.new.lanes, new.lane_count),
        "old.epoch": (plan.old.epoch, old.contract.metadata.epoch),
        "new.epoch": (plan.new.epoch, new.contract.metadata.epoch),
        "drain_rule": (plan.drain_rule, drain.rule),
        "drain": (plan.drain, listed_parents(drain)),
    }
    for name, (got, allowed) in planned.items():
        if got != allowed:
            hint = "keylane migrate plan again: a plan that was edited is not carried out"
            what = f"{name} of the plan is not what its contracts give"
            raise UsageError.of(what, got=str(saved.path), hint=hint)


def by_key_alone(contract: Contract) -> bool:
    """Whether a record's lane follows from the bytes of its key."""
    spec = contract.spec
    by_more = bool(spec.key.window) or any(rule.tier or rule.spread for rule in spec.hot_keys)
    return not (by_more or (spec.table and spec.table.by) or spec.geo or spec.key.registry_header == "strip")


def run_migrate(
    path: Path,
    *,
    journal: str | None = None,
    lease: str | None = None,
    all_stopped: bool = False,
    allow_dead: bool = False,
    patience: float = PATIENCE,
    most: int | None = None,
    options: StreamOptions | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> MigrateStatusDocument:
    """Carry a saved plan out, from wherever it is, until it is over or waits for somebody beyond the patience."""
    saved = read_plan(path, journal, options)
    if saved.plan.shards is not None:
        begin_shards(saved)
        with _keeper(saved, lease) as keeper:
            return run_shards(saved, keeper, patience, say)
    _check_parents(saved)
    mirror = saved.mirror(say, allow_dead=allow_dead)
    with saved.migrator() as migrator:
        entries = entries_of(saved)
        phase = phase_of(entries)
        saved.check_journal(migrator, entries)
        if phase is None:
            migrator.check_missed(saved.plan.groups)
            _check_lanes(saved, migrator)
        if phase in (None, "begun", "copying"):
            saved.check_stream(migrator)
            if mirror is not None:
                mirror.prepare()
    saved.journal.begin(saved.plan.as_json())
    with saved.migrator() as migrator, _driver(saved, migrator, lease, patience, say, mirror) as driver:
        checked: dict[int, float] = {}

        def check(entries: tuple[Entry, ...]) -> None:
            known = checked.get(len(entries))
            if phase_of(entries) not in OVER and (known is None or time.monotonic() - known > CHECK_AGAIN):
                saved.check_stream(migrator, entries)
                checked[len(entries)] = time.monotonic()

        outcome = driver.run(check, all_stopped=all_stopped, most=most)
        return _status(saved, migrator, outcome.waits, outcome.appended)


def _check_lanes(saved: SavedMigration, migrator: Migrator) -> None:
    """Refuse before a journal is begun what the first step would refuse behind it."""
    lanes = len(migrator.ends())
    if not saved.is_mirror and lanes != saved.plan.old.lanes:
        refused = Refuse("the stream has another lane count than planned", str(lanes), str(saved.plan.old.lanes))
        raise not_as_planned(refused, saved.cutover, ())


def rollback_migrate(
    path: Path,
    *,
    journal: str | None = None,
    lease: str | None = None,
    patience: float = PATIENCE,
    options: StreamOptions | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> MigrateStatusDocument:
    """Let producers go on under the old contract; refused once the stream has been given its lanes."""
    saved = read_plan(path, journal, options)
    if saved.plan.shards is None:
        with saved.migrator() as migrator:
            saved.check_journal(migrator, entries_of(saved))
    if check_same_plan(saved.journal.plan(), saved.plan.as_json(), saved.journal_at):
        hint = "nothing was changed, so there is nothing to roll back; keylane migrate run begins it"
        raise UsageError.of("the migration has not been begun", got=saved.journal_at, hint=hint)
    if saved.plan.shards is not None:
        with _keeper(saved, lease) as keeper:
            return roll_back_shards(saved, keeper, patience)
    with saved.migrator() as migrator, _driver(saved, migrator, lease, patience, say) as driver:
        outcome = driver.roll_back()
        return _status(saved, migrator, None, outcome.appended)


def status_migrate(
    path: Path, *, journal: str | None = None, options: StreamOptions | None = None
) -> MigrateStatusDocument:
    """How far a migration is; nothing is changed."""
    saved = read_plan(path, journal, options)
    if saved.plan.shards is not None:
        return status_shards(saved)
    with saved.migrator() as migrator:
        entries = entries_of(saved)
        saved.check_journal(migrator, entries)
        if entries and phase_of(entries) not in OVER:
            # Offsets of another stream would be compared with the fences. What is over may be gone.
            saved.check_stream(migrator, entries)
        found = _status(saved, migrator, None, 0)
    waits = _waits(saved, found)
    return found.model_copy(update={"waits_for": waits}) if waits is not None else found


def _waits(saved: SavedMigration, found: MigrateStatusDocument) -> MigrationWait | None:
    """Whom the phase waits for: producers without an acknowledgement, or old lanes that are not drained."""
    entries = entries_of(saved)
    hold = hold_of(entries)
    if hold is not None and found.phase in {"holding", "doubling"}:
        missing = sorted(set(saved.plan.producers) - saved.journal.stopped(hold))
        if missing or not saved.plan.producers:
            return MigrationWait(why="producers", names=missing)
    behind = [str(one.lane) for one in found.lanes if one.drained is False]
    for_readers = found.phase == "open" or (not saved.plan.gated and found.phase in {"fenced", "growing"})
    return MigrationWait(why="readers", names=behind) if behind and for_readers else None


@contextmanager
def _driver(
    saved: SavedMigration,
    migrator: Migrator,
    lease: str | None,
    patience: float,
    say: Callable[[str], None],
    mirror: Mirror | None = None,
) -> Iterator[Driver]:
    """A driver under the lease of the migration."""
    waiting = Waiting(time.monotonic, time.sleep, patience)
    with _keeper(saved, lease) as keeper:
        yield Driver(
            saved.cutover,
            saved.plan.groups,
            saved.journal,
            migrator,
            keeper,
            waiting,
            clock=time.time,
            say=say,
            mirror=mirror,
            mark=saved.mark,
        )


@contextmanager
def _keeper(saved: SavedMigration, lease: str | None) -> Iterator[LeaseKeeper]:
    """The claim of this process on the lease of the migration."""
    owner = f"{socket.gethostname()}.{os.getpid()}"
    at = lease or _lease_beside(saved)
    with open_leases(at, "migrate", 1, TTL) as store, LeaseKeeper(store, Claim(owner, (0,), Terms(ttl=TTL))) as keeper:
        yield keeper


def _lease_beside(saved: SavedMigration) -> str:
    """In the journal, where that is a folder; otherwise beside the plan."""
    if isinstance(saved.journal, FolderJournal):
        return str(saved.journal.path / OWN / "lease.sqlite")
    return f"{saved.path}{LEASE_ENDING}"


def entries_of(saved: SavedMigration) -> tuple[Entry, ...]:
    """The entries of its journal; none before it was begun. The journal of another plan is refused."""
    new = check_same_plan(saved.journal.plan(), saved.plan.as_json(), saved.journal_at)
    return () if new else saved.journal.entries()


def _status(saved: SavedMigration, migrator: Migrator, waits: Wait | None, appended: int) -> MigrateStatusDocument:
    entries = entries_of(saved)
    fences = next((one.fences for one in reversed(entries) if one.fences), ())
    groups = saved.plan.groups
    applied = migrator.applied(groups, fences) if groups and fences else None
    lanes = [_lane(lane, fence, applied) for lane, fence in enumerate(fences)]
    lag = None if applied is None else sum(one.left or 0 for one in lanes)
    phase = phase_of(entries)
    return MigrateStatusDocument(
        plan=str(saved.path),
        journal=saved.journal_at,
        stream=saved.address,
        mode=saved.plan.mode,
        phase=phase,
        over=phase in OVER,
        appended=appended,
        looked_at=round(time.time(), 3),
        waits_for=None if waits is None else MigrationWait(why=waits.why, names=list(waits.names)),
        pause_seconds=_rounded(pause_of(entries)),
        lanes=lanes,
        lag=lag,
        copy_lag=_copy_lag(saved, migrator) if phase == "copying" else None,
        new_stream=saved.new_address,
        starts=list(entry.starts) if (entry := opened(entries)) is not None else [],
        seconds_left=_seconds_left(migrator, groups, fences, lag) if lag and phase not in OVER else None,
        late_writers=_late(saved, migrator, entries),
        open_transactions=_open_transactions(migrator, entries),
        copies=saved.plan.copies,
        begins=begins_of(saved, opened(entries)),
        entries=[
            MigrationEntry(number=one.number, phase=one.phase, at=round(one.at, 3), driver=one.claim) for one in entries
        ],
    )


def _open_transactions(migrator: Migrator, entries: Sequence[Entry]) -> list[MigrationTransaction]:
    """Those that somebody waits for: readers below the fences, and the copy of a mirror below the ends."""
    phase = phase_of(entries)
    if phase is None or phase in OVER | {"begun"}:
        return []
    found = migrator.open_transactions(entries[-1].fences, SETTLE_SECONDS)
    return [MigrationTransaction(lane=one.lane, offset=one.offset, end=one.end, end_it=one.end_it) for one in found]


def _copy_lag(saved: SavedMigration, migrator: Migrator) -> int | None:
    """Offsets that are not copied yet; None where the old stream is files."""
    mirror = saved.mirror(lambda _: None)
    assert mirror is not None
    try:
        pairs = zip(migrator.ends(), mirror.copied_to(), strict=False)
    except UnsupportedError:
        return None
    return sum(max(0, end - at) for end, at in pairs)


def _late(saved: SavedMigration, migrator: Migrator, entries: Sequence[Entry]) -> list[MigrationWriter]:
    """Who wrote behind the fences without being of the new epoch."""
    entry = opened(entries)
    if entry is None:
        return []
    if not saved.is_mirror:
        behind = list(zip(entry.starts, migrator.ends(), strict=False))
        return writers_of(late_writers(migrator.records(behind), saved.plan.new.epoch))
    if saved.plan.dual:
        # Both streams are written to.
        return []
    # Nobody is to write to the old stream any more, nor to lanes that somebody has given it since.
    behind = list(zip_longest(entry.fences, migrator.ends(), fillvalue=0))
    try:
        return writers_of(late_writers(migrator.records(behind), saved.plan.new.epoch))
    except UnsupportedError:
        return []


def begins_of(saved: SavedMigration, entry: Entry | None) -> list[MigrationBegin] | None:
    """Where readers begin in the new stream of a mirror, by the names of its system; None where offsets say it."""
    if entry is None or not saved.is_mirror:
        return None
    found = open_endpoint(saved.new_address, saved.options).reader_starts(entry.starts)
    return [MigrationBegin(shard=shard, after=at) for shard, at in found] or None


def writers_of(found: Sequence[LateWriter]) -> list[MigrationWriter]:
    """As documents have them."""
    return [
        MigrationWriter(
            writer=one.writer,
            epoch=one.epoch,
            header=one.foreign,
            records=one.records,
            lane=one.lane,
            offset=one.offset,
        )
        for one in found
    ]


def _lane(lane: int, fence: int, applied: Sequence[int] | None) -> MigrationLane:
    at = None if applied is None else max(0, applied[lane])
    left = None if at is None else max(0, fence - at)
    return MigrationLane(lane=lane, fence=fence, applied=at, left=left, drained=None if left is None else not left)


def _seconds_left(migrator: Migrator, groups: Sequence[str], fences: Sequence[int], lag: int) -> float | None:
    """At the speed of a second; None where nothing was drained in it."""
    time.sleep(1.0)
    applied = migrator.applied(groups, fences)
    left = sum(max(0, fence - at) for fence, at in zip(fences, applied, strict=True))
    return round(left / (lag - left), 1) if left < lag else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

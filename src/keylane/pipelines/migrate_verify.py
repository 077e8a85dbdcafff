"""`migrate verify`: the certificate of a migration, from the journal and the records of the stream alone.

    rules of `keylane.history`   reordered, split keys, misrouted, duplicated, stale epochs; generation 0 is what lies
                                 below the start of a lane, 1 what lies behind it, each by its own contract
    here                         a record whose epoch is not that of its side of the fence, and lanes not drained

What a stream cannot show is when records were applied. For readers that honour the gate it follows: the gate lets a
lane go on when its parents are committed up to their fences, and that is what the committed offsets of the named groups
show. Carrying it out: `migrate_run`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.batch_router import decide
from keylane.documents.migrate import CertificateCount, CertificateLane, MigrateCertificateDocument
from keylane.errors import UsageError
from keylane.history.check import check
from keylane.history.rows import rows
from keylane.history.verdict import Settings
from keylane.keys.read import sent_keys
from keylane.migration.cutover import opened, phase_of
from keylane.numbers import count, plural
from keylane.pipelines.migrate_run import read_plan, writers_of
from keylane.systems.migrations import LateWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from keylane.history.verdict import Verdict
    from keylane.migration.cutover import Entry
    from keylane.pipelines.migrate_run import SavedMigration
    from keylane.router import Router
    from keylane.systems.endpoint import StreamOptions

#: Examples of a rule, where the checker of histories does not choose them.
EXAMPLES: Final = 5
MEANINGS: Final = {
    "reordered": "records of one writer and key stand in the order in which they were sent, across the fence too",
    "split_keys": "on each side of the fence a key is in one lane",
    "misrouted": "each record is in the lane that its side's contract gives its key",
    "duplicated": "each record of a named writer is there once",
    "stale_epochs": "along a lane epochs never decrease",
    "wrong_epoch": "records below a fence are of the old epoch, and those behind it of the new one",
    "undrained": "old lanes that a named group has not committed up to their fences",
}


def verify_migrate(
    path: Path,
    *,
    journal: str | None = None,
    around: int | None = None,
    keep: int = 5,
    options: StreamOptions | None = None,
    watch: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]] = iter,
) -> MigrateCertificateDocument:
    """Judge a migration that is open or over. `around` reads so many offsets on each side of every start, at most."""
    saved = read_plan(path, journal, options)
    entries = saved.journal.entries() if saved.journal.plan() is not None else ()
    entry = opened(entries)
    if entry is None:
        hint = "keylane migrate run carries it out; a stream without a migration: keylane verify, keylane check"
        raise UsageError.of("the migration has no fences yet", got=phase_of(entries) or "not begun", hint=hint)
    with saved.migrator() as migrator:
        saved.check_stream(migrator)
        now = migrator.observe()
        ranges = _ranges(entry, now.starts, now.ends, around)
        seen = _SeenRecords(saved, entry)
        verdict = check(seen.judged(watch(migrator.records(ranges))), Settings(keep=keep))
        applied = migrator.applied(saved.plan.groups, entry.fences) if saved.plan.groups else None
    return _certificate(saved, entry, seen, verdict, ranges, applied, around)


def _ranges(entry: Entry, starts: Sequence[int], ends: Sequence[int], around: int | None) -> list[tuple[int, int]]:
    """The offsets of each lane that are read: all, or those next to where the new contract begins."""
    if around is None:
        return list(zip(starts, ends, strict=True))
    return [
        (max(first, start - around), min(end, start + around))
        for first, end, start in zip(starts, ends, entry.starts, strict=True)
    ]


class _SeenRecords:
    """Records on their way to the rules, and what is counted of them."""

    def __init__(self, saved: SavedMigration, entry: Entry) -> None:
        self._routers, self._stream = saved.routers, saved.routers[1].stream
        self._epochs = saved.plan.old.epoch, saved.plan.new.epoch
        self._starts = entry.starts
        #: By column: in which batches records come is not part of what they are.
        self._digests: dict[str, Any] = {}
        self.records = self.unsourced = self.unmarked = self.wrong_epoch = 0
        self.sides: dict[int, list[int]] = {}
        self.late = LateWriters(saved.plan.new.epoch)
        self.examples: list[str] = []

    @property
    def digest(self) -> str:
        """Of all that was read, in the order of lanes and offsets."""
        return hashlib.sha256(b"".join(one.digest() for one in self._digests.values())).hexdigest()

    def judged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a history: each side of a lane's start by its own contract."""
        for batch in batches:
            lane = batch.column("lane")[0].as_py()
            self._note(batch)
            old = int(np.searchsorted(batch.column("offset").to_numpy(), self._starts[lane]))
            for side, part in enumerate((batch.slice(0, old), batch.slice(old))):
                if len(part):
                    self.sides.setdefault(lane, [0, 0])[side] += len(part)
                    yield self._rows(part, side, lane)

    def _note(self, batch: pa.RecordBatch) -> None:
        self.records += len(batch)
        self.unsourced += batch.column("writer").null_count
        self.unmarked += batch.column("epoch").null_count
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._digests.setdefault(name, hashlib.sha256()).update(_bytes_of(column))

    def _rows(self, part: pa.RecordBatch, side: int, lane: int) -> pa.RecordBatch:
        other = pc.not_equal(part.column("epoch"), self._epochs[side]).fill_null(False)
        if pc.any(other).as_py():
            wrong = part.filter(other)
            self.wrong_epoch += len(wrong)
            first = wrong.slice(0, 1).to_pylist()[0]
            where = "behind" if side else "below"
            if len(self.examples) < EXAMPLES:
                self.examples.append(
                    f"wrong_epoch: lane {lane}, offset {first['offset']}: epoch {first['epoch']} {where} the fence"
                )
        if side:
            self.late.add(part)
        named = pc.and_(part.column("writer").is_valid(), part.column("seq").is_valid())
        return rows(
            "read",
            # A record without a source is known by its place: it is there once, and in the order of its lane.
            writer=pc.if_else(named, part.column("writer"), f"//{lane}"),
            seq=pc.if_else(named, part.column("seq"), part.column("offset")),
            key=part.column("key"),
            generation=side,
            stream=self._stream,
            lane=part.column("lane"),
            offset=part.column("offset"),
            epoch=part.column("epoch"),
            expected_stream=self._stream,
            expected_lane=_lanes(self._routers[side], part.column("key")),
        )


def _bytes_of(column: pa.Array) -> bytes:
    """The values of a column, and their lengths where they have such; null is a length or a number of -1."""
    if pa.types.is_integer(column.type):
        return bytes(column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False).tobytes())
    lengths = pc.binary_length(column).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return bytes(lengths.tobytes()) + b"".join(one for one in column.cast(pa.binary()).to_pylist() if one)


def _lanes(router: Router, keys: pa.Array) -> pa.Array:
    """The lanes of keys that came as bytes; null where the key decides none."""
    spec = router.contract.spec
    known = sent_keys(keys, np.zeros(len(keys), bool), spec.key, spec.geo)
    return decide(router, pa.RecordBatch.from_arrays([keys], ["key"]), keys=known).lane_column()


def _certificate(
    saved: SavedMigration,
    entry: Entry,
    seen: _SeenRecords,
    verdict: Verdict,
    ranges: Sequence[tuple[int, int]],
    applied: Sequence[int] | None,
    around: int | None,
) -> MigrateCertificateDocument:
    plan = saved.plan
    assert plan.observed is not None
    behind = [lane for lane, fence in enumerate(entry.fences) if applied is not None and applied[lane] < fence]
    broken: dict[str, tuple[int, int]] = {
        rule: (seen.records, verdict.counts[rule])
        for rule in ("reordered", "split_keys", "misrouted", "duplicated", "stale_epochs")
    }
    broken["wrong_epoch"] = seen.records - seen.unmarked, seen.wrong_epoch
    broken["undrained"] = len(entry.fences) if applied is not None else 0, len(behind)
    unproven = _unproven(seen, applied, around)
    violations = sum(number for _, number in broken.values())
    return MigrateCertificateDocument(
        ok=not violations and not unproven,
        verdict="broken" if violations else "not proven" if unproven else "certified",
        plan=str(saved.path),
        journal=saved.journal_at,
        stream=saved.address,
        stream_id=plan.observed.id,
        old=plan.old,
        new=plan.new,
        records=seen.records,
        sample=None if around is None else f"{plural(around, 'offset')} on each side of every lane's start",
        digest=seen.digest,
        violations=violations,
        rules=[_rule(rule, *numbers) for rule, numbers in broken.items()],
        lanes=[_lane(lane, entry, span, seen) for lane, span in enumerate(ranges)],
        groups=plan.groups,
        late_writers=writers_of(seen.late.found),
        examples=[
            *(f"{one.rule}: lane {one.lane}, offset {one.offset}: {one.detail}" for one in verdict.violations),
            *seen.examples,
            *(
                f"undrained: lane {lane}, up to {applied[lane]} of {entry.fences[lane]}"
                for lane in behind[:EXAMPLES]
                if applied
            ),
        ],
        unproven=unproven,
    )


def _rule(rule: Any, checked: int, broken: int) -> CertificateCount:
    return CertificateCount(rule=rule, meaning=MEANINGS[rule], checked=checked, broken=broken)


def _lane(lane: int, entry: Entry, span: tuple[int, int], seen: _SeenRecords) -> CertificateLane:
    old, new = seen.sides.get(lane, (0, 0))
    fence = entry.fences[lane] if lane < len(entry.fences) else None
    start, (first, end) = entry.starts[lane], span
    return CertificateLane(lane=lane, fence=fence, start=start, first=first, end=end, old_records=old, new_records=new)


def _unproven(seen: _SeenRecords, applied: Sequence[int] | None, around: int | None) -> list[str]:
    """What was not checked on every record, and why."""
    found = []
    if around is not None:
        found.append("a sample was read: without --around all records are")
    if seen.unsourced:
        found.append(f"{count(seen.unsourced)} records carry no keylane.source: their order is that of their lanes")
    if seen.unmarked:
        found.append(f"{count(seen.unmarked)} records carry no keylane.epoch: their side of the fence is by offset")
    if applied is None:
        found.append("no reader group is named in the plan: whether the old lanes were drained is not known")
    return found

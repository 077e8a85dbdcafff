"""`migrate verify` of splits and merges: the certificate from the shards and their records alone.

The shards are read to their ends, parents before children, as a reader has to. Read so, the stream is one log, and in
it the rules of `keylane.history` hold: records of a writer and key in their order, and what is there again only as a
repeat that goes over the records of its key again without a gap, because the system writes at least once.

    fenced       a record lies between the number that its shard begins at and the one at which it was closed; behind
                 every record of the shard's parents; and shards were closed where the journal says that they were
    split_keys   the shards of a key are of one line: each descends from the one before, so that a reader has one to
                 read at a time
    misrouted    a record is in the shard whose range has its hash key

Epochs in tags are named and not judged: under both contracts a record has the same hash key, and the system puts it
where that belongs, whoever sends it. What a stream cannot show is in which order somebody has read it.

Carrying it out: `migrate_shards`. Topics and files: `migrate_verify`.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from keylane.documents.migrate import (
    CertificateCount,
    CertificateLane,
    CertificateShard,
    MigrateCertificateDocument,
)
from keylane.errors import TargetError, UnsupportedError
from keylane.history.check import check
from keylane.history.rows import rows
from keylane.history.verdict import Settings, outcome_of
from keylane.numbers import count, plural
from keylane.pipelines.migrate_run import writers_of
from keylane.pipelines.migrate_shards import calls_of, shard_fields, sides
from keylane.systems.endpoint import open_endpoint
from keylane.systems.migrations import LateWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from keylane.history.verdict import Verdict
    from keylane.migration.cutover import Entry
    from keylane.pipelines.migrate_run import SavedMigration
    from keylane.systems.shard_migrations import LineageShard, ShardLineage

#: Bits of an offset in the log that are the position within a shard.
POSITION_BITS: Final = 40
EXAMPLES: Final = 5
MEANINGS: Final = {
    "reordered": "read parents first, records of one writer and key stand in the order in which they were sent",
    "split_keys": "the shards of a key are of one line, each a descendant of the one before",
    "misrouted": "each record is in the shard whose range has its hash key",
    "duplicated": "what is there again repeats records of its key without a gap, in their order",
    "fenced": "each record is before the end of its shard, and behind all of the shard's parents",
}
#: The one stream, and the one lane, of a log.
LOG: Final = ("", 0)


def verify_shards(
    saved: SavedMigration,
    entry: Entry,
    *,
    around: int | None,
    keep: int,
    watch: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    lineage: ShardLineage | None = None,
    order: Callable[[list[LineageShard]], list[LineageShard]] = list,
) -> MigrateCertificateDocument:
    """Judge a migration that is open or over. `order` is that in which shards are read, from parents first."""
    if around is not None:
        hint = "leave --around out: all records are read"
        raise UnsupportedError.of("a stream of shards has no offsets to read a sample by", got=around, hint=hint)
    endpoint = open_endpoint(saved.address, saved.options)
    now, then = endpoint.identity(), calls_of(saved.plan).stream_id
    if then and now != then:
        raise TargetError.of("this is not the stream that was migrated, or it was deleted and created again", got=now)
    found = lineage or endpoint.lineage()
    shards = order(found.shards())
    seen = _SeenShards(saved, entry, shards)
    verdict = check(seen.judged(found, watch), Settings(mode="at-least-once", keep=keep, by_key=True))
    return _certificate(saved, entry, seen, verdict, found.retention())


@dataclass
class _ReadShard:
    """A shard, and what was read of it."""

    one: LineageShard
    side: str
    records: int = 0
    first: int | None = None
    last: int | None = None
    ended: bool = False
    #: Records whose number is not between those of the shard, or not behind its parents.
    misplaced: int = 0


@dataclass
class _SeenShards:
    """Records on their way to the rules, and what is counted of them."""

    saved: SavedMigration
    entry: Entry
    order: list[LineageShard]
    read: dict[str, _ReadShard] = field(init=False)
    #: Each key's shards, as bits in the order in which they were read.
    places: dict[bytes, int] = field(default_factory=dict)
    unsourced: int = 0
    #: Records whose header keylane.epoch is no epoch of a contract.
    foreign: int = 0
    unplaced: int = 0
    examples: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        sided = sides(calls_of(self.saved.plan), self.order)
        self.read = {one.shard.id: _ReadShard(one, side) for one, side in zip(self.order, sided, strict=True)}
        self.late = LateWriters(self.saved.plan.new.epoch)
        self._digests: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """Of all that was read, in the order in which it was."""
        return hashlib.sha256(b"".join(one.digest() for one in self._digests.values())).hexdigest()

    @property
    def records(self) -> int:
        """How many were read."""
        return sum(one.records for one in self.read.values())

    def judged(
        self, lineage: ShardLineage, watch: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a history: one lane, whose offsets are the place of a shard and the position in it."""
        for place, one in enumerate(self.order):
            read = self.read[one.shard.id]
            for batch in watch(lineage.records(one.shard)):
                self._note(batch, read, place)
                yield _rows(batch, place)
            read.ended = True

    def _note(self, batch: pa.RecordBatch, read: _ReadShard, place: int) -> None:
        read.records += len(batch)
        self.unsourced += batch.column("writer").null_count
        self.foreign += len(batch) - batch.column("foreign").null_count
        self.unplaced += batch.column("inside").null_count
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._digests.setdefault(name, hashlib.sha256()).update(repr(column.to_pylist()).encode())
        for key in pc.unique(batch.column("key")).to_pylist():
            if key is not None:
                self.places[key] = self.places.get(key, 0) | 1 << place
        self._note_numbers(batch, read)
        if read.side == "new":
            marked = batch.filter(batch.column("epoch").is_valid())
            lanes = pa.array([place] * len(marked), pa.int32())
            self.late.add(marked.append_column("lane", lanes).append_column("offset", marked.column("position")))

    def _note_numbers(self, batch: pa.RecordBatch, read: _ReadShard) -> None:
        """Each number lies within the shard's, is none before the last one's, and is behind those of the parents."""
        one, parents = read.one, [self.read[parent] for parent in read.one.shard.parents if parent in self.read]
        unread = [parent.one.shard.id for parent in parents if not parent.ended]
        if unread:
            read.misplaced += len(batch)
            if len(self.examples) < EXAMPLES:
                self.examples.append(f"fenced: {one.shard.id} was read before its parent {', '.join(unread)}")
        least = max([one.begins_at, *(parent.last + 1 for parent in parents if parent.last is not None)])
        for number, position in zip(
            batch.column("number").to_pylist(), batch.column("position").to_pylist(), strict=True
        ):
            at = int(number)
            late = bool(one.ends_at) and at > (one.ends_at or 0)
            if not unread and (at < max(least, read.last or 0) or late):
                read.misplaced += 1
                where = "behind the end of its shard" if late else "before its shard began, or a parent ended"
                if len(self.examples) < EXAMPLES:
                    self.examples.append(f"fenced: {one.shard.id}, position {position}: number {number} is {where}")
            read.first = at if read.first is None else read.first
            read.last = max(at, read.last or 0)

    def moved_fences(self) -> list[str]:
        """Shards that were not closed where the journal says, or not opened."""
        calls = calls_of(self.saved.plan)
        found = []
        for row, fence in zip(calls.before.layout, self.entry.fences, strict=True):
            read = self.read.get(row.id)
            if read is None or read.side == "kept":
                continue
            if not read.one.shard.closed:
                found.append(f"fenced: {row.id} takes records still, and was split or merged by the journal")
            elif (read.one.ends_at or 0) != fence:
                found.append(f"fenced: {row.id} ended at {read.one.ends_at}, and at {fence} by the journal")
        return found

    def torn(self) -> list[str]:
        """Keys whose shards are not of one line."""
        known: dict[int, bool] = {}
        found = []
        for key, bits in self.places.items():
            if bits not in known:
                known[bits] = self._is_line(bits)
            if not known[bits]:
                several = [one.shard.id for place, one in enumerate(self.order) if bits >> place & 1]
                found.append(f"split_keys: key {_shown(key)} is in {', '.join(several)}, which are not of one line")
        return found

    def _is_line(self, bits: int) -> bool:
        """Whether of all these shards each one that was made later descends from every earlier one."""
        ids = [one.shard.id for place, one in enumerate(self.order) if bits >> place & 1]
        above = {id_: self._above(id_) for id_ in ids}
        ids.sort(key=lambda one: len(above[one] & set(ids)))
        return all(set(ids[:number]) <= above[id_] for number, id_ in enumerate(ids))

    def _above(self, id_: str) -> set[str]:
        found, left = set[str](), [id_]
        while left:
            parents = self.read[left.pop()].one.shard.parents
            found |= set(parents)
            left += [one for one in parents if one in self.read]
        return found


def _shown(key: bytes) -> str:
    return repr(key.decode("utf-8", "replace"))


def _rows(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    offset = pc.add(batch.column("position"), pa.scalar(place << POSITION_BITS, pa.int64()))
    named = pc.and_(batch.column("writer").is_valid(), batch.column("seq").is_valid())
    return rows(
        "read",
        # A record without a source is known by its place: it is there once, and in the order of the log.
        writer=pc.if_else(named, batch.column("writer"), "//"),
        seq=pc.if_else(named, batch.column("seq"), offset),
        key=batch.column("key"),
        generation=0,
        stream=LOG[0],
        lane=pa.array([LOG[1]] * len(batch), pa.int32()),
        offset=offset,
        epoch=None,
        expected_stream=LOG[0],
        expected_lane=pc.if_else(batch.column("inside"), pa.scalar(LOG[1], pa.int32()), pa.scalar(-1, pa.int32())),
    )


def _certificate(
    saved: SavedMigration, entry: Entry, seen: _SeenShards, verdict: Verdict, retention: float
) -> MigrateCertificateDocument:
    plan, records = saved.plan, seen.records
    assert plan.observed is not None
    fences, torn = seen.moved_fences(), seen.torn()
    broken = {
        "reordered": (records - seen.unsourced, verdict.counts["reordered"]),
        "split_keys": (len(seen.places), len(torn)),
        "misrouted": (records - seen.unplaced, verdict.counts["misrouted"]),
        "duplicated": (records - seen.unsourced, verdict.counts["duplicated"]),
        "fenced": (records, sum(one.misplaced for one in seen.read.values()) + len(fences)),
    }
    violations = sum(number for _, number in broken.values())
    unproven = [*_unproven(saved, seen, retention), *inside_of_a_rewind(verdict)]
    return MigrateCertificateDocument(
        ok=not violations and not unproven,
        verdict=outcome_of(broken=bool(violations), unproven=bool(unproven)),
        plan=str(saved.path),
        journal=saved.journal_at,
        stream=saved.address,
        stream_id=plan.observed.id,
        new_stream=saved.new_address,
        fences=[],
        old=plan.old,
        new=plan.new,
        records=records,
        sample=None,
        digest=seen.digest,
        violations=violations,
        rules=[_rule(rule, *numbers) for rule, numbers in broken.items()],
        lanes=_lanes(saved, entry, seen),
        groups=[],
        late_writers=writers_of(seen.late.found),
        examples=[
            *(f"{one.rule}: {_place(seen, one.offset)}: {one.detail}" for one in verdict.violations),
            *seen.examples,
            *fences[:EXAMPLES],
            *torn[:EXAMPLES],
        ],
        unproven=unproven,
        repeats=verdict.facts.get("repeats", 0),
        shards=[_shard(one) for one in seen.read.values()],
    )


def _rule(rule: Any, checked: int, broken: int) -> CertificateCount:
    return CertificateCount(rule=rule, meaning=MEANINGS[rule], checked=checked, broken=broken)


def _place(seen: _SeenShards, offset: int) -> str:
    place, position = divmod(offset, 1 << POSITION_BITS)
    return f"{seen.order[place].shard.id}, position {position}"


def _shard(read: _ReadShard) -> CertificateShard:
    return CertificateShard.model_validate(
        {
            **shard_fields(read.one, read.side),
            "records": read.records,
            "first": None if read.first is None else str(read.first),
            "last": None if read.last is None else str(read.last),
        }
    )


def _lanes(saved: SavedMigration, entry: Entry, seen: _SeenShards) -> list[CertificateLane]:
    """The shards of the new contract, by lane."""
    found = []
    for lane, (row, begins) in enumerate(zip(calls_of(saved.plan).after.layout, entry.starts, strict=True)):
        place = int(row.start), int(row.end), begins
        reads = [
            one for one in seen.read.values() if (one.one.shard.start, one.one.shard.end, one.one.begins_at) == place
        ]
        old = sum(one.records for one in reads if one.side == "kept")
        new = sum(one.records for one in reads if one.side != "kept")
        found.append(
            CertificateLane(lane=lane, fence=None, start=0, first=0, end=old + new, old_records=old, new_records=new)
        )
    return found


def inside_of_a_rewind(verdict: Verdict) -> Iterator[str]:
    """Where writers that repeat records are still at it: whether they repeat all is seen later."""
    if awaited := verdict.facts.get("awaited", 0):
        yield f"the stream ends inside of a repeat: {plural(awaited, 'record')} of the keys are to come again"


def _unproven(saved: SavedMigration, seen: _SeenShards, retention: float) -> Iterator[str]:
    """What was not checked on every record, and why."""
    calls = calls_of(saved.plan)
    begun = saved.journal.entries()[0].at
    gone = [row.id for row in calls.before.layout if row.id not in seen.read]
    if gone:
        yield f"no longer listed, because their records have expired: {', '.join(gone[:EXAMPLES])}"
    elif time.time() - begun > retention:
        yield f"records from before the migration have expired: the stream keeps them for {count(int(retention))} s"
    closed = [one.one for one in seen.read.values() if one.one.shard.closed]
    if unknown := sum(not one.ends_at for one in closed):
        yield f"the service gives no ending sequence number of {plural(unknown, 'closed shard')}"
    if seen.unsourced:
        yield f"{count(seen.unsourced)} records carry no keylane.source: their order is that of their shards"
    if seen.foreign:
        yield f"{count(seen.foreign)} records carry a keylane.epoch that is no epoch of a contract: a foreign header"
    if seen.unplaced:
        why = "have a hash key that the service does not give back: it is not that of their key"
        yield f"{count(seen.unplaced)} records {why}"

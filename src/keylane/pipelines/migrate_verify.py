"""`migrate verify`: the certificate of a migration, from the journal and the records of the stream alone.

    rules of `keylane.history`   reordered, split keys, misrouted, duplicated, stale epochs; what lies below the start
                                 of a lane is of the old epoch, and what lies behind it of the new one, each by its own
                                 contract; records of epochs before and after these two are judged by order alone
    here                         a record whose epoch is not that of its side of the fence; what was deleted before it
                                 was read, here or by a group; numbers of a writer that are not there; open transactions
    `verify`                     by a mirror: every record of the old stream below its fence is in the new one, once,
                                 unchanged, in its lane and in its order, below where the new contract begins

By a mirror, the old epoch is that of the old stream up to its fences, and the new one that of the new stream from its
starts on.

What a stream cannot show is when records were applied. For readers that honour the gate it follows: the gate lets a
lane go on when its parents are committed up to their fences, and that is what the committed offsets of the named groups
show. The journal keeps that they did: a group that goes back later reads again what it had applied, and breaks nothing.
Carrying it out: `migrate_run`. Shards that are split and merged: `migrate_lineage`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.batch_router import decide
from keylane.documents.migrate import CertificateCount, CertificateLane, MigrateCertificateDocument
from keylane.errors import UnsupportedError, UsageError
from keylane.history.check import check
from keylane.history.rows import rows
from keylane.history.verdict import Settings, outcome_of
from keylane.keys.read import sent_keys
from keylane.migration.cutover import opened, phase_of
from keylane.numbers import count, plural
from keylane.pipelines.migrate_lineage import inside_of_a_rewind, verify_shards
from keylane.pipelines.migrate_run import SETTLE_SECONDS, begins_of, by_key_alone, entries_of, read_plan, writers_of
from keylane.pipelines.verify import verify
from keylane.systems.endpoint import open_endpoint
from keylane.systems.migrations import LateWriters, open_in_words, unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from keylane.history.verdict import Mode, Verdict
    from keylane.migration.cutover import Entry
    from keylane.pipelines.migrate_run import SavedMigration
    from keylane.pipelines.verify import Verified
    from keylane.router import Router
    from keylane.systems.endpoint import Endpoint, StreamOptions
    from keylane.systems.migrations import Migrator

#: Examples of a rule, where the checker of histories does not choose them.
EXAMPLES: Final = 5
#: Of a history's generations, which here are the epochs.
LARGEST: Final = 2**31 - 1
#: The epoch of a contract that replaces no other.
FIRST_EPOCH: Final = 1
MEANINGS: Final = {
    "reordered": "records of one writer and key stand in the order in which they were sent, across the fence too",
    "split_keys": "on each side of the fence a key is in one lane",
    "misrouted": "each record is in the lane that its side's contract gives its key",
    "duplicated": "each record of a named writer is there once",
    "stale_epochs": "along a lane epochs never decrease",
    "wrong_epoch": "records below a fence are of the old epoch, and those behind it of the new one",
    "copied": "each record of the old stream below its fence is in the new one once, unchanged, in its lane and order",
    "written_twice": "each record that a producer wrote to both streams is in the new one behind the copies",
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
    if around is not None and around < 1:
        raise UsageError.of("not a number of offsets to read around each start", got=around, allowed="1 or more")
    saved = read_plan(path, journal, options)
    entries = entries_of(saved)
    if saved.plan.shards is None:
        with saved.migrator() as migrator:
            saved.check_journal(migrator, entries)
    entry = opened(entries)
    if entry is None:
        hint = "keylane migrate run carries it out; a stream without a migration: keylane verify, keylane check"
        raise UsageError.of("the migration has no fences yet", got=phase_of(entries) or "not begun", hint=hint)
    if saved.plan.shards is not None:
        return verify_shards(saved, entry, around=around, keep=keep, watch=watch)
    if saved.is_mirror:
        return of_mirror(saved, entries, entry, around, keep, watch)
    plan = saved.plan
    assert plan.observed is not None
    with saved.migrator() as migrator:
        saved.check_stream(migrator, entries)
        now = migrator.observe()
        entry = _with_starts(entry, now.lanes)
        ranges = _ranges(entry.starts, now.starts, now.ends, around)
        added = (0,) * (now.lanes - plan.observed.lanes)
        seen = _SeenRecords(saved, entry, since=(*plan.observed.ends, *added), whole=not any(now.starts))
        looks = _looked_into(saved.address, migrator, now.ends)
        verdict = check(seen.judged(watch(migrator.records(ranges))), Settings(keep=keep))
        looks += _deleted(saved.address, seen.since, now.starts)
        looks += _drain(migrator, plan.groups, entries, (*plan.observed.starts, *added), now.starts)
    return _certificate(saved, entry, seen, verdict, ranges, looks, around)


class _Looks(NamedTuple):
    """What was found beside the records: what could not be looked at, and what is no violation."""

    unproven: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __add__(self, other: object) -> _Looks:
        assert isinstance(other, _Looks)
        return _Looks(self.unproven + other.unproven, self.remarks + other.remarks)


def _looked_into(address: str, migrator: Migrator, ends: Sequence[int]) -> _Looks:
    """What is in an open transaction, and behind one in its lane, is not read."""
    return _Looks(
        tuple(f"{address}: {open_in_words(one)}" for one in migrator.open_transactions(ends, SETTLE_SECONDS)[:EXAMPLES])
    )


def _deleted(address: str, since: Sequence[int], starts: Sequence[int]) -> _Looks:
    """Records that were written since the plan was made, and deleted before they were looked at here."""
    gone = [lane for lane, (least, first) in enumerate(zip(since, starts, strict=False)) if first > least]
    lanes = ", ".join(map(str, gone[:EXAMPLES])) + (", …" if len(gone) > EXAMPLES else "")
    what = f"{address}: records written since the plan was made were deleted before they were looked at"
    return _Looks((f"{what}: {plural(len(gone), 'lane')}: {lanes}",) if gone else ())


def _drain(
    migrator: Migrator,
    groups: Sequence[str],
    entries: Sequence[Entry],
    begins: Sequence[int],
    firsts: Sequence[int],
) -> _Looks:
    """Whether all groups have read all that is below the fences, and nothing was deleted before they had.

    `begins` is where a group stands in a lane of which it has committed nothing, `firsts` are the first offsets of the
    lanes now.
    """
    if not groups:
        return _Looks(("no reader group is named in the plan: whether the old lanes were drained is not known",))
    unproven, remarks = list[str](), list[str]()
    opening = opened(entries)
    drained = next((one for one in entries if one.phase == "drained"), None)
    assert opening is not None
    fences = opening.fences
    committed = migrator.committed(groups, len(firsts))
    if drained is None:
        applied = migrator.applied(groups, fences)
        if behind := [str(lane) for lane, fence in enumerate(fences) if applied[lane] < fence]:
            named = ", ".join(behind[:EXAMPLES]) + (", …" if len(behind) > EXAMPLES else "")
            unproven.append(
                f"{plural(len(behind), 'old lane')} not drained to the fence yet: {named}; the migration is still "
                "open, and keylane migrate run goes on once the groups have committed them"
            )
    else:
        if drained.unread:
            unproven.append(_never_read("a group", len(drained.unread)))
        # What was below the fences then is read again by a group that has gone back since.
        for group, offsets in committed.items():
            back = [lane for lane, fence in enumerate(fences) if offsets[lane] < fence and firsts[lane] < fence]
            if back:
                remarks.append(
                    f"group {group} has gone back below the fences of {plural(len(back), 'lane')} since it had drained "
                    "them, and reads them again: its offsets were reset, or have expired"
                )
        committed = {
            group: tuple(max(at, fence) for at, fence in zip_longest(offsets, fences, fillvalue=-1))
            for group, offsets in committed.items()
        }
    for group, lanes in unread(committed, firsts, begins).items():
        unproven.append(_never_read(f"group {group}", len(lanes)))
    return _Looks(tuple(unproven), tuple(remarks))


def _never_read(who: str, lanes: int) -> str:
    return f"records of {plural(lanes, 'lane')} were deleted before {who} committed them"


def of_mirror(
    saved: SavedMigration,
    entries: Sequence[Entry],
    entry: Entry,
    around: int | None,
    keep: int,
    watch: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
) -> MigrateCertificateDocument:
    """The copy by `verify`; and the old stream up to its fences with the new one from its starts on, as one history."""
    plan, unproven = saved.plan, list[str]()
    assert plan.observed is not None
    target = open_endpoint(saved.new_address, saved.options)
    if around is not None and target.splits_lanes:
        hint = "leave --around out: all records are read"
        raise UnsupportedError.of("a stream of shards has no offsets to read a sample by", got=around, hint=hint)
    ends = _ends_now(target, entry)
    entry = _with_starts(entry, len(ends))
    mode: Mode = "exactly-once" if target.writes_once else "at-least-once"
    settings = Settings(mode=mode, keep=keep, by_key=not target.writes_once)
    with saved.migrator() as old, target.migrator() as new:
        saved.check_stream(old, [entry])
        then = old.observe()
        seen = _SeenRecords(saved, entry, since=plan.observed.ends, whole=not any(then.starts))
        looks = _looked_into(saved.address, old, then.ends) + _looked_into(saved.new_address, new, ends)
        firsts = new.starts()
        below = _ranges(entry.fences, then.starts[: len(entry.fences)], entry.fences, around)
        behind = list(zip(entry.starts, ends, strict=True))
        if around is not None:
            behind = [(start, min(end, start + around)) for start, end in behind]
        parts = (_named(saved.address, old, below, unproven), _named(saved.new_address, new, behind, unproven))
        sides = (seen.of_side(side, watch(part)) for side, part in enumerate(parts))
        verdict = check(chain.from_iterable(sides), settings)
        looks += _deleted(saved.address, seen.since, then.starts) + _deleted(saved.new_address, entry.starts, firsts)
        old_fences = len(entry.fences)
        looks += _drain(old, plan.groups, entries, plan.observed.starts, then.starts[:old_fences])
        ahead = unread(new.committed(plan.groups, len(firsts)), firsts, entry.starts)
        looks += _Looks(
            tuple(f"{saved.new_address}: {_never_read(f'group {name}', len(gone))}" for name, gone in ahead.items())
        )
        missing = _not_in_both(old, new, entry, then.ends) if plan.dual else None
        if not plan.dual:
            seen.note_strays(_named(saved.address, old, list(zip_longest(entry.fences, then.ends, fillvalue=0)), []))
    copy = verify(
        saved.address,
        saved.new_address,
        saved.routers[1].contract,
        mode=mode,
        keep=keep,
        lanes=plan.new.lanes,
        topics=saved.copy_options,
        ends=(entry.fences, entry.starts),
    )
    return _certificate(saved, entry, seen, verdict, behind, looks, around, _Copy(copy, missing, tuple(unproven)))


def _ends_now(target: Endpoint, entry: Entry) -> Sequence[int]:
    """The ends of the lanes; the last of all where shards were split since, whose records are of these lanes."""
    ends = target.lane_ends()
    as_they_were = not target.splits_lanes or len(ends) == len(entry.starts)
    return ends if as_they_were else [max(ends, default=0)] * len(entry.starts)


def _named(
    address: str, migrator: Migrator, ranges: Sequence[tuple[int, int]], unproven: list[str]
) -> Iterator[pa.RecordBatch]:
    """The records of a stream, with their writers; none where its records do not name them."""
    try:
        return migrator.records(ranges)
    except UnsupportedError:
        unproven.append(
            f"records of {address} do not name their writers: their order is proven as far as it was copied"
        )
        return iter(())


def _not_in_both(old: Migrator, new: Migrator, entry: Entry, ends: Sequence[int]) -> tuple[int, list[str]]:
    """How many records producers wrote to the old stream behind the fences, and those that the new one has not.

    What is behind the fences is small: it is what was written while readers switched.
    """
    behind = list(zip_longest(entry.fences, ends, fillvalue=0))
    written = dict[tuple[str, int], str]()
    for batch in old.records(behind):
        for row in batch.select(["writer", "seq", "lane", "offset"]).to_pylist():
            place = f"lane {row['lane']}, offset {row['offset']} of the old stream"
            # What nobody wrote to both streams by name is in the old one alone.
            written[row["writer"] or place, row["seq"] if row["writer"] else -1] = place
    total = len(written)
    for batch in new.records(list(zip(entry.starts, new.ends(), strict=False))):
        for writer, seq in zip(batch.column("writer").to_pylist(), batch.column("seq").to_pylist(), strict=True):
            written.pop((writer, seq), None)
    return total, list(written.values())


class _Copy(NamedTuple):
    """What was found of a mirror beside the history: the copy, records not in both streams, what was not checked."""

    verified: Verified
    #: How many were written behind the fences, and which of them are in the old stream alone.
    doubled: tuple[int, list[str]] | None
    unproven: tuple[str, ...]

    @property
    def repeats(self) -> int:
        """Copies that are there again, in the order of their key."""
        return self.verified.verdict.facts.get("repeats", 0)

    def beside(self, seen: _SeenRecords) -> dict[str, int]:
        """Records behind the fences that are copies, by what they are of: a copy that came late has written them.

        A system that fences the writers of a copy has none.
        """
        return {one: seen.writers[one] for one in self.verified.sources if seen.writers[one]}

    @property
    def examples(self) -> Iterator[str]:
        """The first violations."""
        for one in self.verified.verdict.violations[:EXAMPLES]:
            yield f"copied: {one.rule}: lane {one.lane}, offset {one.offset}: {one.detail}"
        yield from (f"copied: {text}" for text in self.verified.miscounted)
        for text in (self.doubled[1] if self.doubled else [])[:EXAMPLES]:
            yield f"written_twice: {text} is not in the new stream"


def _ranges(
    borders: Sequence[int], starts: Sequence[int], ends: Sequence[int], around: int | None
) -> list[tuple[int, int]]:
    """The offsets of each lane that are read: all, or those next to its border."""
    if around is None:
        return list(zip(starts, ends, strict=True))
    return [
        (max(first, border - around), min(end, border + around))
        for first, end, border in zip(starts, ends, borders, strict=True)
    ]


def _with_starts(entry: Entry, lanes: int) -> Entry:
    """The same for a stream that somebody has given more lanes since: all that is in them is of the new contract."""
    return entry._replace(starts=(*entry.starts, *(0,) * (lanes - len(entry.starts))))


class WriterNumbers:
    """Which numbers of each writer are there. A writer gives them without a gap; a route's are offsets of a source.

    Where records of a lane were deleted, what is missing before the plan was made is not asked about: `whole` says that
    none were.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._numbers: dict[str, list[NDArray[np.int64]]] = {}
        self._least: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch, since: int) -> None:
        """Records of a lane, in the order of their offsets; those from `since` on were written after the plan."""
        named = pc.and_(batch.column("writer").is_valid(), batch.column("seq").is_valid())
        named = pc.and_(named, pc.invert(pc.match_substring(batch.column("writer"), "/")).fill_null(False))
        known = batch.filter(named)
        numbers, offsets = (known.column(name).to_numpy() for name in ("seq", "offset"))
        coded = known.column("writer").dictionary_encode()
        codes = coded.indices.to_numpy()
        for code, writer in enumerate(coded.dictionary.to_pylist()):
            own = codes == code
            self._numbers.setdefault(writer, []).append(numbers[own])
            recent = numbers[own & (offsets >= since)] if not self._whole else numbers[own]
            if len(recent):
                self._least[writer] = min(self._least.get(writer, int(recent.min())), int(recent.min()))

    def gaps(self) -> list[str]:
        """Of the writers with gaps the first few, and how many there are."""
        found = []
        for writer, least in sorted(self._least.items()):
            there = np.unique(np.concatenate(self._numbers[writer]))
            there = there[there >= least]
            missing = int(there[-1]) - least + 1 - len(there)
            if missing:
                first = int(there[np.flatnonzero(np.diff(there) > 1)[0]]) + 1
                found.append(
                    f"{plural(missing, 'number')} of writer {writer} between {least} and {there[-1]} are in no record, "
                    f"the first {first}: deleted, or never delivered"
                )
        more = [f"and of {plural(len(found) - EXAMPLES, 'other writer')}"] if len(found) > EXAMPLES else []
        return [*found[:EXAMPLES], *more]


class _SeenRecords:
    """Records on their way to the rules, and what is counted of them."""

    def __init__(self, saved: SavedMigration, entry: Entry, since: Sequence[int], *, whole: bool) -> None:
        self._routers, self._stream = saved.routers, saved.routers[1].stream
        self._by_key = tuple(by_key_alone(one.contract) for one in saved.routers)
        self._epochs = saved.plan.old.epoch, saved.plan.new.epoch
        self._starts = entry.starts
        #: Where the lanes of the old stream ended when the plan was made, 0 of those that it had not.
        self.since = since
        self._numbers = WriterNumbers(whole=whole)
        self.is_mirror = saved.is_mirror
        #: What a copy is called whose source is a lane of the old stream.
        name = open_endpoint(saved.address).address.name
        self._copied_from = pa.array([f"{name}/{lane}" for lane in range(len(entry.fences))], pa.string())
        #: By a mirror: copies behind where the new contract begins.
        self.late_copies = 0
        #: By column: in which batches records come is not part of what they are.
        self._digests: dict[str, Any] = {}
        self.records = self.unsourced = self.unmarked = self.wrong_epoch = self.unplaced = self.outside = 0
        #: Records whose header keylane.epoch is no epoch of a contract, and the first of them.
        self.foreign, self.first_foreign = 0, ""
        #: By a mirror with a pause: records of the old stream behind its fences.
        self.strays = 0
        #: Records below the fences without an epoch that are not in a lane of the old contract, which is not the first.
        self.strayed = 0
        self.sides: dict[int, list[int]] = {}
        #: Records of the old stream of a mirror.
        self.below = 0
        self.late = LateWriters(saved.plan.new.epoch)
        self.examples: list[str] = []
        #: How many records behind the fences name each writer.
        self.writers = Counter[str | None]()

    @property
    def digest(self) -> str:
        """Of all that was read, in the order of lanes and offsets."""
        return hashlib.sha256(b"".join(one.digest() for one in self._digests.values())).hexdigest()

    def judged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a history: each side of a lane's start by its own contract."""
        for batch in batches:
            lane = batch.column("lane")[0].as_py()
            self._note(batch, self.since[lane] if lane < len(self.since) else 0)
            old = int(np.searchsorted(batch.column("offset").to_numpy(), self._starts[lane]))
            for side, part in enumerate((batch.slice(0, old), batch.slice(old))):
                if len(part):
                    self.sides.setdefault(lane, [0, 0])[side] += len(part)
                    yield self._rows(part, side, lane)

    def of_side(self, side: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a history of records that are all on one side: of one stream of a mirror."""
        for batch in batches:
            lane = batch.column("lane")[0].as_py()
            self._note(batch, 0 if side else self.since[lane])
            if side:
                self.sides.setdefault(lane, [0, 0])[1] += len(batch)
                self._note_copies(batch)
            else:
                self.below += len(batch)
            yield self._rows(batch, side, lane)

    def _note_copies(self, batch: pa.RecordBatch) -> None:
        """A copier that was late, or somebody who copied by hand: readers apply these records again."""
        late = batch.filter(pc.is_in(batch.column("writer"), value_set=self._copied_from))
        self.late_copies += len(late)
        for row in late.select(["lane", "offset", "writer", "seq"]).slice(0, 1).to_pylist():
            if len(self.examples) < EXAMPLES:
                where = f"lane {row['lane']}, offset {row['offset']}"
                self.examples.append(
                    f"copied: {where}: a copy of {row['writer']}/{row['seq']} behind where the new contract begins"
                )

    def note_strays(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Records of the old stream of a mirror behind its fences, where nobody was to write: they are nowhere else."""
        for batch in batches:
            self.strays += len(batch)
            self.late.add(batch)
            if len(self.examples) < EXAMPLES:
                first = batch.select(["lane", "offset", "epoch"]).slice(0, 1).to_pylist()[0]
                where = f"lane {first['lane']}, offset {first['offset']} of the old stream"
                self.examples.append(f"wrong_epoch: {where}: epoch {first['epoch']} behind the fence")

    @property
    def gaps(self) -> list[str]:
        """Numbers of writers that are not in the stream."""
        return self._numbers.gaps()

    def _note(self, batch: pa.RecordBatch, since: int) -> None:
        self.records += len(batch)
        self._numbers.add(batch, since)
        if foreign := len(batch) - batch.column("foreign").null_count:
            if not self.foreign:
                (one,) = batch.filter(batch.column("foreign").is_valid()).slice(0, 1).to_pylist()
                self.first_foreign = f"{one['foreign']} at offset {one['offset']} of lane {one['lane']}"
            self.foreign += foreign
        self.unsourced += batch.column("writer").null_count
        self.unmarked += batch.column("epoch").null_count
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._digests.setdefault(name, hashlib.sha256()).update(_bytes_of(column))

    def _rows(self, part: pa.RecordBatch, side: int, lane: int) -> pa.RecordBatch:
        outside = self._of_another_migration(part.column("epoch"), side)
        self.outside += pc.sum(outside).as_py()
        other = pc.and_not(pc.not_equal(part.column("epoch"), self._epochs[side]).fill_null(False), outside)
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
            counted = part.column("writer").value_counts()
            self.writers.update({one["values"]: one["counts"] for one in counted.to_pylist()})
        if not self._by_key[side]:
            self.unplaced += len(part)
        named = pc.and_(part.column("writer").is_valid(), part.column("seq").is_valid())
        lanes = _lanes(self._routers[side], part.column("key")) if self._by_key[side] else None
        epochs = pc.if_else(outside, part.column("epoch"), self._epochs[side])
        if lanes is not None and not side and self._epochs[side] > FIRST_EPOCH:
            known = pc.or_(part.column("epoch").is_valid(), named)
            strayed = pc.and_not(pc.not_equal(lanes, part.column("lane")).fill_null(False), known)
            self.strayed += strayed.true_count
            outside = pc.or_(outside, strayed)
            # A generation for each lane: that a key is in several of them is not known to be wrong.
            epochs = pc.if_else(strayed, -1 - lane, epochs)
        return rows(
            "read",
            # A record without a source is known by its place: it is there once, and in the order of its lane.
            writer=pc.if_else(named, part.column("writer"), f"//{side}/{lane}"),
            seq=pc.if_else(named, part.column("seq"), part.column("offset")),
            key=part.column("key"),
            generation=pc.min_element_wise(epochs, LARGEST).cast(pa.int32()),
            stream=self._stream,
            lane=part.column("lane"),
            offset=part.column("offset"),
            epoch=part.column("epoch"),
            expected_stream=self._stream,
            expected_lane=None if lanes is None else pc.if_else(outside, None, lanes),
        )

    def _of_another_migration(self, epochs: pa.Array, side: int) -> pa.Array:
        """Which records an earlier or a later migration of the stream has to answer for: its contract is not here."""
        old, new = self._epochs
        return (pc.greater(epochs, new) if side else pc.less(epochs, old)).fill_null(False)


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
    looks: _Looks,
    around: int | None,
    copy: _Copy | None = None,
) -> MigrateCertificateDocument:
    plan = saved.plan
    assert plan.observed is not None
    broken: dict[str, tuple[int, int]] = {
        rule: (seen.records, verdict.counts[rule])
        for rule in ("reordered", "split_keys", "misrouted", "duplicated", "stale_epochs")
    }
    broken["wrong_epoch"] = seen.records - seen.unmarked + seen.strays, seen.wrong_epoch + seen.strays
    unproven = [*_unproven(seen, around), *looks.unproven]
    beside = dict[str, int]()
    if copy is not None:
        found = copy.verified
        beside = copy.beside(seen) if plan.copies else beside
        late = sum(beside.values()) if plan.copies else seen.late_copies
        broken["copied"] = found.verdict.records, sum(found.verdict.counts.values()) + len(found.miscounted) + late
        unproven += [] if plan.copies is None else inside_of_a_rewind(verdict)
        unproven += [*copy.unproven, *(f"copied, {one.rule}: {one.why}" for one in found.unproven)]
        if dead := found.verdict.facts.get("dead"):
            unproven.append(f"{count(dead)} records are dead letters of {saved.new_address}, and not in its lanes")
        if copy.doubled is not None:
            broken["written_twice"] = copy.doubled[0], len(copy.doubled[1])
    violations = sum(number for _, number in broken.values())
    return MigrateCertificateDocument(
        ok=not violations and not unproven,
        verdict=outcome_of(broken=bool(violations), unproven=bool(unproven)),
        plan=str(saved.path),
        journal=saved.journal_at,
        stream=saved.address,
        stream_id=plan.observed.id,
        new_stream=saved.new_address,
        fences=list(entry.fences),
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
        copies=plan.copies,
        begins=begins_of(saved, entry),
        repeats=None if copy is None or plan.copies is None else copy.repeats + verdict.facts.get("repeats", 0),
        examples=[
            *(f"{one.rule}: lane {one.lane}, offset {one.offset}: {one.detail}" for one in verdict.violations),
            *seen.examples,
            *(copy.examples if copy is not None else ()),
            *(f"copied: {plural(many, 'copy')} of {name} behind the fences" for name, many in beside.items()),
        ],
        unproven=unproven,
        remarks=list(looks.remarks),
    )


def _rule(rule: Any, checked: int, broken: int) -> CertificateCount:
    return CertificateCount(rule=rule, meaning=MEANINGS[rule], checked=checked, broken=broken)


def _lane(lane: int, entry: Entry, span: tuple[int, int], seen: _SeenRecords) -> CertificateLane:
    old, new = seen.sides.get(lane, (0, 0))
    fence = entry.fences[lane] if lane < len(entry.fences) and not seen.is_mirror else None
    start, (first, end) = entry.starts[lane], span
    return CertificateLane(lane=lane, fence=fence, start=start, first=first, end=end, old_records=old, new_records=new)


def _unproven(seen: _SeenRecords, around: int | None) -> list[str]:
    """What was not checked on every record, and why."""
    found = []
    if around is not None:
        found.append("a sample was read: without --around all records are")
    if seen.unsourced:
        found.append(f"{count(seen.unsourced)} records carry no keylane.source: their order is that of their lanes")
    if seen.foreign:
        found.append(
            f"{count(seen.foreign)} records carry a keylane.epoch that is no epoch of a contract, the first "
            f"{seen.first_foreign}: a foreign header, so their side of the fence is by offset"
        )
    if unmarked := seen.unmarked - seen.foreign:
        found.append(f"{count(unmarked)} records carry no keylane.epoch: their side of the fence is by offset")
    if seen.strayed:
        found.append(
            f"{count(seen.strayed)} records below the fences carry no epoch and are not in the lanes of the old "
            "contract: they are of a contract before it, or misplaced"
        )
    if seen.unplaced:
        found.append(
            f"the lanes of {count(seen.unplaced)} records follow from more than their key: keylane check has them"
        )
    if seen.outside:
        found.append(
            f"{count(seen.outside)} records are of the epoch of another migration: the lanes of those are in its plan"
        )
    if around is None:
        found += seen.gaps
    return found

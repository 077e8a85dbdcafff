"""The rules of a history: about single records, about order, about lanes. Pure functions of a bucket of rows.

Rules about single records, judged over all rows of some (writer, seq):

    lost         a send that is known to have succeeded, and was neither read nor set aside
    invented     a read of what was never sent, of what is known to have failed, or with another key than was sent: null
                 where it had a key, too
    changed      a read or a dead letter with another digest, or another time, than was sent; where both sides have one
    duplicated   exactly-once: any read after the first. At-least-once: a read in another lane than the first; repeats
                 within a lane are judged by `judge_lanes`, which sees whether they are rewinds

A send whose outcome is unknown may be read or not. Worked example: sends 1 ok, 2 unknown, 3 failed; reads 2, 3, 3: then
1 is lost, both reads of 3 are invented, and the second is a duplicate, too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.history.rows import (
    APPLY,
    CUTOVER,
    DEAD,
    OWN,
    READ,
    SEND,
    begins,
    codes,
    group_numbers,
    kind_of,
    lane_codes,
    numbers,
    running_max,
    violations,
)
from keylane.history.verdict import BucketResult, LaneSeen

if TYPE_CHECKING:
    from keylane.history.verdict import Settings


RECORD_COLUMNS = (
    *("what", "writer", "seq", "outcome", "key", "keyed", "generation", "stream", "lane", "offset"),
    *("digest", "letter", "stamp"),
)
OK, UNKNOWN, FAILED, UNSENT = 2, 1, 0, -1
#: The time of a record that has none.
UNSTAMPED: Final = -(2**62)


def judge_records(table: pa.Table, settings: Settings) -> BucketResult:
    """Judge the sends, reads and dead letters of some records; all rows of each record are here."""
    table, first = _grouped(table, settings)
    if not len(table):
        return BucketResult()
    what, outcome = kind_of(table), numbers(table.column("outcome"))
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    best = np.maximum.reduceat(np.where(what == SEND, outcome, UNSENT), starts)
    is_read = what != SEND
    reads = np.add.reduceat(is_read.astype(np.int64), starts)
    found: list[tuple[Any, Any, Any]] = [
        ("lost", starts[(best == OK) & (reads == 0)], "sent and acknowledged, but missing"),
        *_invented(table, is_read, best[group], group),
        *(altered := _Changed(table, is_read & (best[group] > FAILED), group)).found,
        ("duplicated", np.flatnonzero(_repeats(table, is_read, group, settings)), _twice(table, starts[group])),
    ]
    counts = Counter[str]()
    for rule, rows, _ in found:
        counts[rule] += len(rows)
    shown = tuple(v for rule, rows, why in found for v in violations(rule, table, rows, settings.keep, why))
    facts = _facts(what, outcome, best, reads)
    facts["dead_repeats"] = facts["dead"] - len(np.unique(group[what == DEAD]))
    facts["compared"], facts["uncompared"] = altered.compared, altered.uncompared
    looked_at = _records_checked(what, best, reads)
    looked_at["changed"] = altered.looked_at
    return BucketResult(counts, looked_at, facts, shown)


def _grouped(table: pa.Table, settings: Settings) -> tuple[pa.Table, Any]:
    """Rows of a record together, its send first, then its reads by position; and where each record begins."""
    writer, seq, what = codes(table.column("writer")), numbers(table.column("seq")), kind_of(table)
    lane, offset = lane_codes(table), numbers(table.column("offset"))
    generation = numbers(table.column("generation"))
    dead_last = np.where(what == DEAD, 2, np.where(what == READ, 1, 0))
    order = np.lexsort((offset, lane, generation, dead_last, seq, writer))
    columns = [column[order] for column in (writer, seq, what, generation, lane, offset)]
    if settings.rereads:
        again = ~begins(*columns) & (columns[2] == READ)
        order, columns = order[~again], [column[~again] for column in columns]
    return table.take(order), begins(*columns[:2])


def _invented(table: pa.Table, is_read: Any, best: Any, group: Any) -> list[tuple[Any, Any, Any]]:
    key, what = codes(table.column("key")), kind_of(table)
    # A key that is null and known is a key of its own, -1; one that is not known is compared with none.
    known = pc.coalesce(table.column("keyed"), table.column("key").is_valid()).to_numpy(zero_copy_only=False)
    sent, has = _of_sends(key, (what == SEND) & known, group)
    changed = is_read & (best > FAILED) & known & has & (key != sent)
    return [
        ("invented", np.flatnonzero(is_read & (best == UNSENT)), "read, and never sent"),
        ("invented", np.flatnonzero(is_read & (best == FAILED)), "read, though its send is known to have failed"),
        ("invented", np.flatnonzero(changed), "read with a different key than it was sent with"),
    ]


def _of_sends(values: Any, rows: Any, group: Any) -> tuple[Any, Any]:
    """For every row the value of its record's send, of those rows that have one; and whether there is such a send."""
    sent, has = np.zeros(int(group[-1]) + 1, values.dtype), np.zeros(int(group[-1]) + 1, bool)
    sent[group[rows]], has[group[rows]] = values[rows], True
    return sent[group], has[group]


class _Changed:
    """Reads and dead letters whose digest or time is not that of their send, and how many were compared."""

    def __init__(self, table: pa.Table, is_read: Any, group: Any) -> None:
        what = kind_of(table)
        digest, known = self._column(table, "digest")
        sent, has = _of_sends(digest, (what == SEND) & known, group)
        letter, has_letter = _of_sends(*self._sent(table, "letter", what), group)
        expected = np.where((what == DEAD) & has_letter, letter, sent)
        both = is_read & known & (has | ((what == DEAD) & has_letter))
        stamp, stamped = self._column(table, "stamp")
        at, timed = _of_sends(stamp, (what == SEND) & stamped, group)
        times = is_read & stamped & timed
        other = both & (digest != expected)
        self.found: list[tuple[Any, Any, Any]] = [
            ("changed", np.flatnonzero(other), "its content is not what was sent"),
            ("changed", np.flatnonzero(times & (stamp != at) & ~other), "its time is not what was sent"),
        ]
        self.compared, self.uncompared = int(both.sum()), int((is_read & ~both).sum())
        self.looked_at = int((both | times).sum())

    def _sent(self, table: pa.Table, name: str, what: Any) -> tuple[Any, Any]:
        values, known = self._column(table, name)
        return values, known & (what == SEND)

    @staticmethod
    def _column(table: pa.Table, name: str) -> tuple[Any, Any]:
        column = table.column(name)
        return numbers(column, 0), column.is_valid().to_numpy()


def _repeats(table: pa.Table, is_read: Any, group: Any, settings: Settings) -> Any:
    """Reads after the first of their record; at-least-once: only those at another position than the first."""
    rows = np.flatnonzero(is_read)
    out = np.zeros(len(is_read), bool)
    first = begins(group[rows])
    out[rows[~first]] = True
    if settings.mode == "at-least-once":
        place = np.where(kind_of(table) == DEAD, -2, lane_codes(table))
        generation = numbers(table.column("generation"))
        at = rows[first][np.cumsum(first) - 1]
        out[rows] &= (place[rows] != place[at]) | (generation[rows] != generation[at])
    return out


def _twice(table: pa.Table, starts: Any) -> Any:
    what, lane, offset = kind_of(table), numbers(table.column("lane")), numbers(table.column("offset"))

    def detail(row: int) -> str:
        first = starts[row] + np.argmax(what[starts[row] :] != SEND)
        there = "among the dead letters" if what[first] == DEAD else f"in lane {lane[first]} at offset {offset[first]}"
        return f"already {there}"

    return detail


def _records_checked(what: Any, best: Any, reads: Any) -> Counter[str]:
    read = int(np.count_nonzero(what != SEND))
    return Counter(lost=int((best == OK).sum()), invented=read, duplicated=int(reads.sum()))


def _facts(what: Any, outcome: Any, best: Any, reads: Any) -> Counter[str]:
    is_send = what == SEND
    facts = Counter[str](sends=int(is_send.sum()), dead=int((what == DEAD).sum()))
    for name, code in (("ok", OK), ("unknown", UNKNOWN), ("failed", FAILED)):
        facts[name] = int((is_send & (outcome == code)).sum())
    facts["unknown_read"] = int(((best == UNKNOWN) & (reads > 0)).sum())
    return facts


# Order: reordered, split key, early apply. Judged over all rows of some scopes.

ORDER_COLUMNS = (
    *("what", "writer", "seq", "scope", "generation", "stream", "lane", "offset", "who", "t0", "t1"),
    "stamp",
)


def judge_order(table: pa.Table, settings: Settings) -> BucketResult:
    """Judge the reads and applies of some scopes; all rows of each scope are here, and every cut-over."""
    at = _Columns(table)
    reads, applies = np.flatnonzero(at.what == READ), np.flatnonzero(at.what == APPLY)
    split, torn = _split(at, reads)
    late = _reordered(at, reads)
    early = _early(at, reads, applies)
    broken = [
        ("split_keys", split, lambda row: f"in lane {at.number[row]} and also in lane {at.number[torn[row]]} too"),
        ("reordered", late, "comes after a later record of its writer and key"),
        *(("early_applies", rows, why) for rows, why in _each_once(early)),
    ]
    counts = Counter[str]()
    for rule, rows, _ in broken:
        counts[rule] += len(rows)
    looked_at = Counter(reordered=len(reads), split_keys=len(reads), early_applies=len(applies))
    shown = tuple(v for rule, rows, why in broken for v in violations(rule, table, rows, settings.keep, why))  # type: ignore[arg-type]  # mypy joins the rules to str
    facts = Counter(applies=len(applies)) + _between_writers(at, reads)
    return BucketResult(counts, looked_at, facts, shown)


def _between_writers(at: _Columns, reads: Any) -> Counter[str]:
    """Scopes with records of several writers, which no rule puts in an order; their records; how many go back in time.

    One goes back where a record stands behind one with a later time in the same lane.
    """
    rows = at.sorted(reads, "scope", "writer")
    scope = group_numbers(begins(at.scope[rows]))
    if not len(rows):
        return Counter()
    writers = np.bincount(scope, weights=begins(at.scope[rows], at.writer[rows]))
    rows = rows[writers[scope] > 1]
    if not len(rows):
        return Counter()
    several = Counter(several=int(np.count_nonzero(writers > 1)), several_records=len(rows))
    rows = at.sorted(rows[at.stamp[rows] != UNSTAMPED], "scope", "generation", "lane", "offset")
    if len(rows):
        first = begins(at.scope[rows], at.generation[rows], at.lane[rows])
        late = at.stamp[rows] < running_max(at.stamp[rows], first)
        several["backward"] = len(np.unique(at.scope[rows[late]]))
    return several


class _Columns:
    """The columns of a bucket as numbers."""

    def __init__(self, table: pa.Table) -> None:
        self.what, self.scope = kind_of(table), codes(table.column("scope"))
        self.writer, self.seq = codes(table.column("writer")), numbers(table.column("seq"))
        self.generation, self.number = numbers(table.column("generation")), numbers(table.column("lane"))
        self.lane, self.offset = lane_codes(table), numbers(table.column("offset"))
        self.t0, self.t1 = numbers(table.column("t0")), numbers(table.column("t1"))
        self.stamp = numbers(table.column("stamp"), UNSTAMPED)

    def sorted(self, rows: Any, *by: str) -> Any:
        """Rows in the order of these columns, the first of them the most significant, and of seq where they tie."""
        return rows[np.lexsort([self.seq[rows], *(getattr(self, name)[rows] for name in reversed(by))])]


def _split(at: _Columns, reads: Any) -> tuple[Any, dict[int, int]]:
    """The first record in the second lane of each split scope and generation; and one in its first lane."""
    rows = at.sorted(reads, "scope", "generation", "lane", "offset")
    within = begins(at.scope[rows], at.generation[rows])
    lanes = begins(at.scope[rows], at.generation[rows], at.lane[rows])
    other = np.flatnonzero(lanes & ~within)
    group, starts = group_numbers(within), np.flatnonzero(within)
    second = other[begins(group[other])] if len(other) else other
    return rows[second], dict(zip(rows[second].tolist(), rows[starts[group[second]]].tolist(), strict=True))


def _reordered(at: _Columns, reads: Any) -> Any:
    rows = at.sorted(reads, "scope", "writer", "generation", "lane", "offset")
    first = begins(at.scope[rows], at.writer[rows])
    seq = at.seq[rows]
    falls = np.zeros(len(rows), bool)
    falls[1:] = ~first[1:] & (seq[1:] <= seq[:-1])
    if not falls.any():
        return rows[:0]
    group = group_numbers(first)
    suspect = np.zeros(int(group[-1]) + 1, bool)
    suspect[group[falls]] = True
    return _out_of_order(at, _first_appearances(at, rows[suspect[group]]))


def _first_appearances(at: _Columns, rows: Any) -> Any:
    """Rows without the repeats of a record, in the order of the log."""
    rows = at.sorted(rows, "scope", "writer", "seq", "generation", "lane", "offset")
    rows = rows[begins(at.scope[rows], at.writer[rows], at.seq[rows])]
    return at.sorted(rows, "scope", "writer", "generation", "lane", "offset")


def _out_of_order(at: _Columns, rows: Any) -> Any:
    """Records below the greatest before them in their lane, or below the greatest of all earlier generations."""
    scope, writer, generation, seq = at.scope[rows], at.writer[rows], at.generation[rows], at.seq[rows]
    in_lane = running_max(seq, begins(scope, writer, generation, at.lane[rows]))
    before = _of_older(
        running_max(seq, begins(scope, writer)), begins(scope, writer), begins(scope, writer, generation)
    )
    return rows[(seq < in_lane) | (before.known & (seq < before.values))]


class _Older:
    """For each row the value that its group had before the row's generation began, if it had one."""

    def __init__(self, values: Any, known: Any) -> None:
        self.values, self.known = values, known


def _of_older(running: Any, groups: Any, generations: Any) -> _Older:
    starts = np.flatnonzero(generations)
    mine = starts[group_numbers(generations)]
    return _Older(running[np.maximum(mine - 1, 0)], ~groups[mine])


def _early(at: _Columns, reads: Any, applies: Any) -> list[tuple[Any, str]]:
    if not len(applies):
        return []
    rows = at.sorted(applies, "scope", "generation")
    scopes, generations = begins(at.scope[rows]), begins(at.scope[rows], at.generation[rows])
    ended = _of_older(running_max(at.t1[rows], scopes), scopes, generations)
    early = rows[ended.known & (at.t0[rows] < ended.values)]
    return [
        (early, "applied before the last record of an older generation was"),
        (_never_applied(at, reads, applies), "never applied, though a newer generation was"),
        *_against_cutovers(at, applies),
    ]


def _each_once(found: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """What is wrong for two reasons is wrong once, for the first of them."""
    out, seen = [], np.empty(0, np.intp)
    for rows, why in found:
        out.append((np.setdiff1d(rows, seen), why))
        seen = np.union1d(seen, rows)
    return out


def _never_applied(at: _Columns, reads: Any, applies: Any) -> Any:
    """Records of a generation older than the newest that was applied of their scope, and not applied themselves."""
    newest = np.full(int(at.scope.max()) + 1, -1)
    np.maximum.at(newest, at.scope[applies], at.generation[applies])
    old = reads[at.generation[reads] < newest[at.scope[reads]]]
    if not len(old):
        return old
    both = at.sorted(np.concatenate([old, applies]), "scope", "generation", "lane", "offset")
    place = group_numbers(begins(at.scope[both], at.generation[both], at.lane[both], at.offset[both]))
    applied = np.zeros(int(place[-1]) + 1, bool)
    applied[place[at.what[both] == APPLY]] = True
    done = np.zeros(len(at.what), bool)
    done[both] = applied[place]
    # A record that is there twice has to be applied once.
    old = at.sorted(old, "scope", "writer", "seq", "generation", "lane", "offset")
    first = begins(at.scope[old], at.writer[old], at.seq[old])
    any_done = np.logical_or.reduceat(done[old], np.flatnonzero(first))
    return old[first][~any_done]


def _against_cutovers(at: _Columns, applies: Any) -> list[tuple[Any, str]]:
    out = []
    cut = at.sorted(np.flatnonzero(at.what == CUTOVER), "scope", "generation", "t0")
    # Cut-overs are copied to every bucket, and buckets that stay small are judged as one.
    for row in cut[begins(at.scope[cut], at.generation[cut], at.t0[cut])]:
        mine = applies[(at.scope[row] < 0) | (at.scope[applies] == at.scope[row])]
        new = at.generation[mine] >= at.generation[row]
        out.append((mine[new & (at.t0[mine] < at.t0[row])], "applied before its generation was cut over to"))
        out.append((mine[~new & (at.t1[mine] > at.t0[row])], "applied after the cut-over to a newer generation"))
    return out


# Lanes: inconsistent, missing and unsorted offsets, stale epochs, misrouted, two owners, repeats that are no rewind.

LANE_COLUMNS = (
    *("what", "writer", "seq", "key", "generation", "stream", "lane", "offset", "place", "epoch", "replay"),
    *("expected_stream", "expected_lane", "who", "t0", "t1"),
)
#: The end of what still goes on.
FOREVER: Final = 2**62
#: Instead of an expected lane where none was requested.
UNASKED: Final = -2


def judge_lanes(table: pa.Table, settings: Settings) -> BucketResult:
    """Judge the reads and ownerships of some lanes, and dead letters, which have none; all rows of each are here."""
    table = _by_log(table)
    what = kind_of(table)
    reads, owns = table.filter(pa.array(what == READ)), table.filter(pa.array(what == OWN))
    dead = table.filter(pa.array(what == DEAD))
    facts = _asked(reads, dead)
    undeserved = np.flatnonzero(numbers(dead.column("expected_lane")) >= 0)
    broken: list[tuple[Any, pa.Table, Any, Any]] = [*_of_reads(reads), *_of_owners(owns)]
    broken.append(("misrouted", dead, undeserved, "a dead letter, and the contract has a lane for it"))
    for of in (reads, dead):
        broken += _of_numbers(of, dense=settings.dense)
    if settings.mode == "at-least-once" and len(reads):
        strays, unmarked, repeats, awaited = _strays(reads, rereads=settings.rereads, by_key=settings.by_key)
        facts["repeats"], facts["awaited"] = repeats, awaited
        broken.append(("duplicated", reads, strays, "repeated, and not by a rewind without a gap"))
        broken.append(("duplicated", reads, unmarked, "repeated, and not marked as a replay"))
    counts = Counter[str]()
    for rule, _, rows, _ in broken:
        counts[rule] += len(rows)
    shown = tuple(v for rule, of, rows, why in broken for v in violations(rule, of, rows, settings.keep, why))
    looked_at = _lanes_checked(reads, owns, dead)
    looked_at["offset_gaps"] = len(reads) + len(dead) if settings.dense else 0
    return BucketResult(counts, looked_at, facts, shown, _seen(reads))


def _asked(reads: pa.Table, dead: pa.Table) -> Counter[str]:
    """How many reads there are; how many have no expected lane, how many not even in a stream; no epoch, no key.

    Of reads, `who` is an epoch that is not that of the contract which the record names.
    And how many dead letters were not asked whether they have a lane.
    """
    nowhere = reads.column("expected_lane").is_null()
    unplaced = pc.sum(pc.and_(nowhere, reads.column("expected_stream").is_null())).as_py() or 0
    facts = Counter(reads=len(reads), unasked=pc.sum(nowhere).as_py() or 0, unplaced=unplaced)
    facts["no_epoch"], facts["no_key"] = reads.column("epoch").null_count, reads.column("key").null_count
    facts["foreign_epochs"] = len(reads) - reads.column("who").null_count
    facts["unasked_dead"] = dead.column("expected_lane").null_count
    return facts


def _of_numbers(rows: pa.Table, *, dense: bool) -> list[tuple[Any, pa.Table, Any, Any]]:
    """Offsets that leave some out, and records that stand behind one of a higher offset. Rows come by their offsets."""
    if not len(rows):
        return []
    first, offset, place = _lane_begins(rows), numbers(rows.column("offset")), numbers(rows.column("place"))
    before = np.where(first, -1, np.concatenate([[-1], offset[:-1]]))
    gaps = np.flatnonzero((offset > before + 1) | (first & (offset != 0))) if dense else np.empty(0, np.intp)
    behind = np.flatnonzero((place >= 0) & (place < running_max(place, first)))

    def detail(row: int) -> str:
        return "the first offset of its lane is not 0" if first[row] else f"the offset before it is {before[row]}"

    return [
        ("offset_gaps", rows, gaps, detail),
        ("unsorted", rows, behind, "a reader of the lane meets a higher offset before it"),
    ]


def _by_log(table: pa.Table) -> pa.Table:
    by = (numbers(table.column("seq")), numbers(table.column("offset")), lane_codes(table))
    order = np.lexsort((*by, numbers(table.column("generation"))))
    return table if (np.diff(order) == 1).all() else table.take(order)


def _lane_begins(table: pa.Table) -> Any:
    return begins(numbers(table.column("generation")), lane_codes(table))


def _of_reads(reads: pa.Table) -> list[tuple[Any, pa.Table, Any, Any]]:
    if not len(reads):
        return []
    first = _lane_begins(reads)
    return [
        ("inconsistent_offsets", reads, _inconsistent(reads, first), "this offset also shows a different record"),
        ("stale_epochs", reads, _falling(numbers(reads.column("epoch")), first), "an epoch lower than one before it"),
        ("misrouted", reads, _misrouted(reads), _promised(reads)),
    ]


def _inconsistent(reads: pa.Table, first: Any) -> Any:
    """One row for each offset that shows more than one record; compared with the row before it in the log."""
    offset = numbers(reads.column("offset"))
    new = first | begins(offset)
    if new.all():
        return np.flatnonzero(~new)
    at = np.flatnonzero(new)[group_numbers(new)]
    writer, seq = codes(reads.column("writer")), numbers(reads.column("seq"))
    rows = np.flatnonzero((writer != writer[at]) | (seq != seq[at]))
    return rows[begins(at[rows])] if len(rows) else rows


def _falling(epochs: Any, first: Any) -> Any:
    """Rows whose epoch is below the greatest so far; those that have none are passed over."""
    return np.flatnonzero((epochs >= 0) & (epochs < running_max(epochs, first)))


def _misrouted(reads: pa.Table) -> Any:
    expected, lane = reads.column("expected_lane"), numbers(reads.column("lane"))
    if expected.null_count == len(reads):
        return np.empty(0, np.intp)
    wanted = numbers(expected, UNASKED)
    elsewhere = pc.not_equal(reads.column("expected_stream"), reads.column("stream").fill_null("")).fill_null(False)
    return np.flatnonzero((wanted != UNASKED) & ((wanted != lane) | elsewhere.to_numpy()))


def _promised(reads: pa.Table) -> Any:
    stream, lane = reads.column("expected_stream"), reads.column("expected_lane")

    def detail(row: int) -> str:
        name, number = stream[row].as_py(), lane[row].as_py()
        return (
            f"the contract gives {f'stream {name}, ' if name else ''}{f'lane {number}' if number >= 0 else 'no lane'}"
        )

    return detail


def _strays(reads: pa.Table, *, rereads: bool, by_key: bool) -> tuple[Any, Any, int, int]:
    """Repeats that are no rewind, repeats without a mark where there are marks, and how many repeats there are.

    The last number is of records that are still to be repeated: a rewind at the end of the log has not come to them.
    """
    columns = [numbers(reads.column("generation")), lane_codes(reads), codes(reads.column("writer"))]
    columns += [codes(reads.column("key"))] if by_key else []
    offset, seq = numbers(reads.column("offset")), numbers(reads.column("seq"))
    rows = np.lexsort((seq, offset, *reversed(columns)))
    if rereads:
        rows = rows[begins(*(column[rows] for column in (*columns, offset, seq)))]
    keys = [column[rows] for column in columns]
    by_seq = np.lexsort((np.arange(len(rows)), seq[rows], *reversed(keys)))
    new = begins(*(key[by_seq] for key in keys), seq[rows][by_seq])
    nth, repeat = np.empty(len(rows), np.int64), np.empty(len(rows), bool)
    nth[by_seq], repeat[by_seq] = group_numbers(new), ~new
    same = ~begins(*keys)
    step = np.diff(nth, prepend=0)
    around = repeat | np.concatenate([[False], repeat[:-1]])
    marked = reads.column("replay").fill_null(True).to_numpy()[rows]
    ends = np.flatnonzero(np.append(~same[1:], True)) if len(rows) else np.empty(0, np.intp)
    awaited = int((np.maximum.reduceat(nth, np.flatnonzero(~same)) - nth[ends]).sum()) if len(rows) else 0
    return rows[same & around & (step > 1)], rows[repeat & ~marked], int(repeat.sum()), awaited


def _of_owners(owns: pa.Table) -> list[tuple[Any, pa.Table, Any, Any]]:
    if not len(owns):
        return []
    order = np.lexsort(
        (
            numbers(owns.column("t1"), FOREVER),
            numbers(owns.column("t0")),
            lane_codes(owns),
            numbers(owns.column("generation")),
        )
    )
    owns = owns.take(order)
    first = _lane_begins(owns)
    until, who = numbers(owns.column("t1"), FOREVER), codes(owns.column("who"))
    longest = running_max(until, first)
    holder = _holder(until, longest, first)
    before = np.maximum(np.arange(len(owns)) - 1, 0)
    overlaps = ~first & (who[holder[before]] != who) & (longest[before] > numbers(owns.column("t0")))
    names, t0 = owns.column("who"), numbers(owns.column("t0"))

    def detail(row: int) -> str:
        return f"{names[row].as_py()} owned it from {t0[row]}, while {names[int(holder[row - 1])].as_py()} still did"

    return [
        ("two_owners", owns, np.flatnonzero(overlaps), detail),
        ("stale_epochs", owns, _falling(numbers(owns.column("epoch")), first), "an ownership of an earlier epoch"),
    ]


def _holder(until: Any, longest: Any, first: Any) -> Any:
    """The row whose end is the latest so far: an interval that overlaps any other overlaps this one."""
    rises = first.copy()
    rises[1:] |= until[1:] > longest[:-1]
    return np.maximum.accumulate(np.where(rises, np.arange(len(until)), 0))


def _lanes_checked(reads: pa.Table, owns: pa.Table, dead: pa.Table) -> Counter[str]:
    epochs = sum(len(table) - table.column("epoch").null_count for table in (reads, owns))
    expected = sum(len(table) - table.column("expected_lane").null_count for table in (reads, dead))
    places = sum(len(table) - table.column("place").null_count for table in (reads, dead))
    return Counter(
        inconsistent_offsets=len(reads), stale_epochs=epochs, misrouted=expected, two_owners=len(owns), unsorted=places
    )


def _seen(reads: pa.Table) -> tuple[LaneSeen, ...]:
    if not len(reads):
        return ()
    starts = np.flatnonzero(_lane_begins(reads))
    ends = np.append(starts[1:], len(reads))
    offset = numbers(reads.column("offset"))
    at = reads.select(["generation", "stream", "lane"]).take(pa.array(starts)).to_pylist()
    return tuple(
        LaneSeen(
            row["generation"],
            row["stream"] or "",
            row["lane"],
            int(end - start),
            int(offset[start]),
            int(offset[end - 1]),
        )
        for row, start, end in zip(at, starts, ends, strict=True)
    )

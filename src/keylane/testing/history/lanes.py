"""Rules about lanes: inconsistent offsets, stale epochs, misrouted, two owners, and repeats that are no rewind.

    inconsistent offsets   one offset of a lane shows two records
    stale epochs           along a lane's log, and along its ownerships, epochs never go down: a lower one is a zombie's
    misrouted              a record is where the contract puts it; a dead letter is one that it has no lane for
    two owners             ownerships of one lane by two owners do not overlap; to touch is no overlap
    duplicated             at-least-once only: repeats are a rewind, which goes over the same records of the writer
                           again without a gap; and, where repeats are marked, they are marked

Worked example of rewinds, of one writer in one lane: 1 4 7 4 7 9 is one. 1 4 7 9 4 11 is none: after the repeated 4
comes 11, and not 7.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.testing.history.columns import (
    begins,
    codes,
    group_numbers,
    kind_of,
    lane_codes,
    numbers,
    running_max,
    violations,
)
from keylane.testing.history.found import Found, LaneSeen
from keylane.testing.history.rows import DEAD, OWN, READ

if TYPE_CHECKING:
    from keylane.testing.history.found import Settings

__all__ = ["COLUMNS", "judge_lanes"]

COLUMNS = (
    *("what", "writer", "seq", "key", "generation", "stream", "lane", "offset", "epoch", "replay"),
    *("expected_stream", "expected_lane", "who", "t0", "t1"),
)
#: The end of what still goes on.
FOREVER: Final = 2**62
#: In place of an expected lane where nobody asked for one.
UNASKED: Final = -2


def judge_lanes(table: pa.Table, settings: Settings) -> Found:
    """Judge the reads and ownerships of some lanes, and dead letters, which have none; all rows of each are here."""
    table = _by_log(table)
    what = kind_of(table)
    reads, owns = table.filter(pa.array(what == READ)), table.filter(pa.array(what == OWN))
    facts = _asked(reads)
    dead = table.filter(pa.array(what == DEAD))
    undeserved = np.flatnonzero(numbers(dead.column("expected_lane")) >= 0)
    told: list[tuple[Any, pa.Table, Any, Any]] = [*_of_reads(reads), *_of_owners(owns)]
    told.append(("misrouted", dead, undeserved, "a dead letter, and the contract has a lane for it"))
    if settings.mode == "at-least-once" and len(reads):
        strays, unmarked, repeats = _strays(reads, rereads=settings.rereads)
        facts["repeats"] = repeats
        told.append(("duplicated", reads, strays, "repeated, and not by a rewind without a gap"))
        told.append(("duplicated", reads, unmarked, "repeated, and not marked as a replay"))
    counts = Counter[str]()
    for rule, _, rows, _ in told:
        counts[rule] += len(rows)
    shown = tuple(v for rule, of, rows, why in told for v in violations(rule, of, rows, settings.keep, why))
    return Found(counts, _looked_at(reads, owns, dead), facts, shown, _seen(reads))


def _asked(reads: pa.Table) -> Counter[str]:
    """How many reads there are, how many of them nobody expects in a lane, and how many not even in a stream."""
    nowhere = reads.column("expected_lane").is_null()
    unplaced = pc.sum(pc.and_(nowhere, reads.column("expected_stream").is_null())).as_py() or 0
    return Counter(reads=len(reads), unasked=pc.sum(nowhere).as_py() or 0, unplaced=unplaced)


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
        ("inconsistent_offsets", reads, _inconsistent(reads, first), "this offset shows another record too"),
        ("stale_epochs", reads, _falling(numbers(reads.column("epoch")), first), "an epoch below one before it"),
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
        return f"the contract says {f'stream {name}, ' if name else ''}{f'lane {number}' if number >= 0 else 'no lane'}"

    return detail


def _strays(reads: pa.Table, *, rereads: bool) -> tuple[Any, Any, int]:
    """Repeats that are no rewind, repeats without a mark where there are marks, and how many repeats there are."""
    columns = [numbers(reads.column("generation")), lane_codes(reads), codes(reads.column("writer"))]
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
    return rows[same & around & (step > 1)], rows[repeat & ~marked], int(repeat.sum())


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
        ("stale_epochs", owns, _falling(numbers(owns.column("epoch")), first), "an ownership of an epoch gone by"),
    ]


def _holder(until: Any, longest: Any, first: Any) -> Any:
    """The row whose end is the latest so far: whoever overlaps any other overlaps this one, or they two do."""
    rises = first.copy()
    rises[1:] |= until[1:] > longest[:-1]
    return np.maximum.accumulate(np.where(rises, np.arange(len(until)), 0))


def _looked_at(reads: pa.Table, owns: pa.Table, dead: pa.Table) -> Counter[str]:
    epochs = sum(len(table) - table.column("epoch").null_count for table in (reads, owns))
    expected = sum(len(table) - table.column("expected_lane").null_count for table in (reads, dead))
    return Counter(inconsistent_offsets=len(reads), stale_epochs=epochs, misrouted=expected, two_owners=len(owns))


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

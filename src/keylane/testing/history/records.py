"""Rules about single records: lost, invented, duplicated. Judged over all rows of some (writer, seq).

    lost         a send that is known to have succeeded, and was neither read nor set aside
    invented     a read of what was never sent, of what is known to have failed, or with another key than was sent
    duplicated   exactly-once: any read after the first. At-least-once: a read in another lane than the first; repeats
                 within a lane are judged by `lanes`, which sees whether they are rewinds

A send whose outcome is unknown may be read or not. Worked example: sends 1 ok, 2 unknown, 3 failed; reads 2, 3, 3: then
1 is lost, both reads of 3 are invented, and the second is a duplicate, too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from keylane.testing.history.columns import begins, codes, kind_of, lane_codes, numbers, violations
from keylane.testing.history.found import Found
from keylane.testing.history.rows import DEAD, READ, SEND

if TYPE_CHECKING:
    import pyarrow as pa

    from keylane.testing.history.found import Settings

__all__ = ["COLUMNS", "judge_records"]

COLUMNS = ("what", "writer", "seq", "outcome", "key", "generation", "stream", "lane", "offset")
OK, UNKNOWN, FAILED, UNSENT = 2, 1, 0, -1


def judge_records(table: pa.Table, settings: Settings) -> Found:
    """Judge the sends, reads and dead letters of some records; all rows of each record are here."""
    table, first = _grouped(table, settings)
    if not len(table):
        return Found()
    what, outcome = kind_of(table), numbers(table.column("outcome"))
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    best = np.maximum.reduceat(np.where(what == SEND, outcome, UNSENT), starts)
    is_read = what != SEND
    reads = np.add.reduceat(is_read.astype(np.int64), starts)
    found: list[tuple[Any, Any, Any]] = [
        ("lost", starts[(best == OK) & (reads == 0)], "sent, acknowledged, and not there"),
        *_invented(table, is_read, best[group], group),
        ("duplicated", np.flatnonzero(_repeats(table, is_read, group, settings)), _twice(table, starts[group])),
    ]
    counts = Counter[str]()
    for rule, rows, _ in found:
        counts[rule] += len(rows)
    told = tuple(v for rule, rows, why in found for v in violations(rule, table, rows, settings.keep, why))
    facts = _facts(what, outcome, best, reads)
    facts["dead_repeats"] = facts["dead"] - len(np.unique(group[what == DEAD]))
    return Found(counts, _looked_at(what, best, reads), facts, told)


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
    sent = np.full(int(group[-1]) + 1, -1)
    keyed = (what == SEND) & (key >= 0)
    sent[group[keyed]] = key[keyed]
    # A key is compared only where both sides know it.
    changed = is_read & (best > FAILED) & (key >= 0) & (sent[group] >= 0) & (key != sent[group])
    return [
        ("invented", np.flatnonzero(is_read & (best == UNSENT)), "read, and never sent"),
        ("invented", np.flatnonzero(is_read & (best == FAILED)), "read, though its send is known to have failed"),
        ("invented", np.flatnonzero(changed), "read with another key than it was sent with"),
    ]


def _repeats(table: pa.Table, is_read: Any, group: Any, settings: Settings) -> Any:
    """Reads after the first of their record; at-least-once: only those in another place than the first."""
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
        return f"there already {there}"

    return detail


def _looked_at(what: Any, best: Any, reads: Any) -> Counter[str]:
    read = int(np.count_nonzero(what != SEND))
    return Counter(lost=int((best == OK).sum()), invented=read, duplicated=int(reads.sum()))


def _facts(what: Any, outcome: Any, best: Any, reads: Any) -> Counter[str]:
    is_send = what == SEND
    facts = Counter[str](sends=int(is_send.sum()), dead=int((what == DEAD).sum()))
    for name, code in (("ok", OK), ("unknown", UNKNOWN), ("failed", FAILED)):
        facts[name] = int((is_send & (outcome == code)).sum())
    facts["unknown_read"] = int(((best == UNKNOWN) & (reads > 0)).sum())
    return facts

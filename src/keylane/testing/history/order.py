"""Rules about what is kept in order: reordered, split key, early apply. Judged over all rows of some scopes.

    reordered      the first appearances of a writer's records of one scope go up along the generations, and along the
                   lane within a generation; a record that comes after a later one is reordered
    split key      within one generation a scope is in one lane
    early apply    the last apply of an older generation ends before the first of a newer one begins; no record of the
                   older generation is left that was never applied; and cut-overs are kept

Only first appearances count for order, so that a rewind (1, 2, 3, 2, 3, 4) is no disorder: whether it is allowed is
judged by `records` and `lanes`. Offsets may have gaps. Lanes of one generation have no order between them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

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
from keylane.testing.history.found import Found
from keylane.testing.history.rows import APPLY, CUTOVER, READ

if TYPE_CHECKING:
    import pyarrow as pa

    from keylane.testing.history.found import Settings

__all__ = ["COLUMNS", "judge_order"]

COLUMNS = ("what", "writer", "seq", "scope", "generation", "stream", "lane", "offset", "who", "t0", "t1")


def judge_order(table: pa.Table, settings: Settings) -> Found:
    """Judge the reads and applies of some scopes; all rows of each scope are here, and every cut-over."""
    at = _Columns(table)
    reads, applies = np.flatnonzero(at.what == READ), np.flatnonzero(at.what == APPLY)
    split, torn = _split(at, reads)
    late = _reordered(at, reads)
    early = _early(at, reads, applies)
    told = [
        ("split_keys", split, lambda row: f"in lane {at.number[row]}, and in lane {at.number[torn[row]]} too"),
        ("reordered", late, "comes after a later record of its writer and key"),
        *(("early_applies", rows, why) for rows, why in _each_once(early)),
    ]
    counts = Counter[str]()
    for rule, rows, _ in told:
        counts[rule] += len(rows)
    looked_at = Counter(reordered=len(reads), split_keys=len(reads), early_applies=len(applies))
    shown = tuple(v for rule, rows, why in told for v in violations(rule, table, rows, settings.keep, why))  # type: ignore[arg-type]  # mypy joins the rules to str
    return Found(counts, looked_at, Counter(applies=len(applies)), shown)


class _Columns:
    """The columns of a bucket as numbers."""

    def __init__(self, table: pa.Table) -> None:
        self.what, self.scope = kind_of(table), codes(table.column("scope"))
        self.writer, self.seq = codes(table.column("writer")), numbers(table.column("seq"))
        self.generation, self.number = numbers(table.column("generation")), numbers(table.column("lane"))
        self.lane, self.offset = lane_codes(table), numbers(table.column("offset"))
        self.t0, self.t1 = numbers(table.column("t0")), numbers(table.column("t1"))

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

"""Find which client's partitioner wrote this data, and whether a second writer disagrees.

How: a sample of distinct keys from the first rows chooses the rules that fit far beyond chance (and, where the lane
count is not given, proves it: only the right count fits). Then every row is held against the chosen rules, in one pass.
Rows that none explains are sampled over the whole data and tried again, so a writer that came late or wrote one
record in a thousand is found too. Shares come from `mixture`.

A wrong rule survives k distinct keys with a chance of n**-k: on 12 lanes ten keys leave 1.6e-11. When fewer keys than
needed were seen, the answer is `unknown`, with the number that would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.names import MAX_LANES
from keylane.contract.partitioners import FACTS
from keylane.errors import DataError, LaneCountError
from keylane.keys.binary import plain
from keylane.measure.candidates import Candidate, candidates_for, family_of, narrowed
from keylane.measure.mixture import first_fits, log_chance, shares
from keylane.placement.count import lane_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["Identification", "Writer", "identify"]

#: Rows that choose the rules; and at most this many distinct (key, lane) pairs of them.
HEAD: Final = 100_000
PAIRS: Final = 5_000
#: Unexplained rows that are kept for a second look.
KEPT: Final = 20_000
#: A rule is believed when chance alone would make it fit as well less often than this.
BELIEF: Final = 1e-6
MOST_WRITERS: Final = 4
#: Unexplained rows below this share are strays, not a writer.
STRAY: Final = 1e-3

Verdict = Literal["one-writer", "mixed", "unknown"]


@dataclass(frozen=True, slots=True)
class Writer:
    """One writer found. `partitioner` is None for records that no known rule explains."""

    partitioner: str | None
    share: float
    encoding: str | None = None
    also: tuple[str, ...] = ()
    fitting_keys: int = 0
    chance: float | None = None
    setting: str | None = None


@dataclass(frozen=True, slots=True)
class Identification:
    """The answer, with its evidence."""

    verdict: Verdict
    writers: tuple[Writer, ...]
    lanes: int
    lanes_from: Literal["given", "proven", "seen"]
    rows: int
    keyed_rows: int
    null_rows: int
    empty_rows: int
    distinct_keys: int
    unexplained_rows: int
    notes: tuple[str, ...] = ()


def identify(batches: Iterable[pa.RecordBatch], lanes: int | None = None) -> Identification:
    """Identify the writers of batches whose first column is the key and whose second is the lane.

    `distinct_keys` in the answer is that of the sample, not of all rows.
    """
    tally = _Tally(None if lanes is None else lane_count(lanes))
    rows = map(tally.keyed, batches)
    head = _take(rows, HEAD)
    keys, at = _joined(head)
    if not len(at):
        return _nothing(tally, ["no row has a key and a lane"])
    pairs = _distinct(keys, at)
    tally.choose(pairs, int(at.max()) + 1)
    thin = _thinned(keys, at)
    for some_keys, some_lanes in _then(head, rows):
        tally.count(some_keys, some_lanes)
    return _answer(tally, pairs, thin)


Rows = tuple[pa.Array, "NDArray[np.int32]"]


def _take(rows: Iterator[Rows], most: int) -> list[Rows]:
    taken, total = [], 0
    for one in rows:
        taken.append(one)
        total += len(one[1])
        if total >= most:
            break
    return taken


def _then(head: list[Rows], rest: Iterator[Rows]) -> Iterator[Rows]:
    yield from head
    yield from rest


def _joined(rows: list[Rows]) -> Rows:
    keys = [plain(keys) for keys, _ in rows]
    return (pa.concat_arrays(keys) if keys else pa.array([])), np.concatenate(
        [np.empty(0, np.int32), *(a for _, a in rows)]
    )


def _thinned(keys: pa.Array, at: NDArray[np.int32]) -> Rows:
    """Rows evenly over those given, hot keys as often as they come."""
    some = slice(None, None, max(1, len(at) // (4 * PAIRS)))
    return keys[some], at[some]


def _distinct(keys: pa.Array, at: NDArray[np.int32]) -> Rows:
    """Distinct (key, lane) pairs, evenly over the rows: a hot key counts once in each lane it was seen in."""
    keys, at = _thinned(keys, at)
    code = pc.dictionary_encode(keys).indices.to_numpy().astype(np.int64)
    _, first = np.unique(code * MAX_LANES + at, return_index=True)
    first = np.sort(first)[:PAIRS]
    return keys.take(pa.array(first)), at[first]


@dataclass(slots=True)
class _Tally:
    """What one pass over the data adds up to."""

    given: int | None
    lanes: int = 0
    lanes_from: Literal["given", "proven", "seen"] = "seen"
    rows: int = 0
    nulls: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    empties: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rules: list[Candidate] = field(default_factory=list)
    first: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    left: list[Rows] = field(default_factory=list)

    def keyed(self, batch: pa.RecordBatch) -> Rows:
        """Count a batch, set null and empty keys aside, and return the rest as (keys, lanes)."""
        keys, at = batch.column(0), _lane_numbers(batch.column(1), batch.schema.names[1], self.given)
        self.rows += len(keys)
        if keys.null_count:
            missing = keys.is_null().to_numpy(zero_copy_only=False)
            self.nulls = _added(self.nulls, at[missing])
            keys, at = keys.drop_null(), at[~missing]
        empty = _empty(keys)
        if empty is not None and empty.any():
            self.empties = _added(self.empties, at[empty])
            keys, at = keys.filter(pa.array(~empty)), at[~empty]
        return keys, at

    def choose(self, pairs: Rows, seen: int) -> None:
        """Settle the lane count and the rules to hold every row against."""
        candidates = candidates_for(pairs[0])
        if self.given is not None:
            self.lanes, self.lanes_from = self.given, "given"
        else:
            self.lanes, proven = _proven_count(candidates, pairs, seen)
            self.lanes_from = "proven" if proven else "seen"
        self.rules = _believed(candidates, pairs, self.lanes)
        self.first = np.zeros(len(self.rules) + 1, np.int64)

    def count(self, keys: pa.Array, at: NDArray[np.int32]) -> None:
        """Hold rows against the rules in turn, each rule only against what none before it explains."""
        for i, rule in enumerate(self.rules):
            fits = _predicted(rule, keys, self.lanes) == at
            hits = int(np.count_nonzero(fits))
            self.first[i] += hits
            if hits == len(at):
                return
            rest = np.flatnonzero(~fits)
            keys, at = keys.take(pa.array(rest)), at[rest]
        self.first[-1] += len(at)
        if self.rules:
            some = slice(None, None, max(1, len(at) * 8 // KEPT))
            self.left.append((plain(keys)[some], at[some]))


def _lane_numbers(column: pa.Array, name: str, lanes: int | None) -> NDArray[np.int32]:
    if not pa.types.is_integer(column.type):
        raise DataError.of(f"column {name!r} holds no lanes", got=str(column.type), allowed="whole numbers")
    if column.null_count:
        raise DataError.of(f"column {name!r} has rows without a lane", got=f"{column.null_count} nulls")
    at = column.to_numpy(zero_copy_only=False)
    if len(at) and (at.min() < 0 or at.max() >= MAX_LANES):
        raise DataError.of(f"column {name!r} holds no lanes", got=int(at.min()), allowed=f"0 to {MAX_LANES - 1}")
    if lanes is not None and len(at) and at.max() >= lanes:
        raise LaneCountError.of("a lane beyond the count was seen", got=int(at.max()), allowed=f"0 to {lanes - 1}")
    return at.astype(np.int32, copy=False)


def _added(counts: NDArray[np.int64], at: NDArray[np.int32]) -> NDArray[np.int64]:
    more = np.bincount(at, minlength=len(counts))
    more[: len(counts)] += counts
    return more


def _empty(keys: pa.Array) -> NDArray[np.bool_] | None:
    """Which keys are empty; None for numbers, which cannot be."""
    values = keys.dictionary if pa.types.is_dictionary(keys.type) else keys
    if pa.types.is_integer(values.type):
        return None
    empty = np.asarray(pc.equal(pc.binary_length(values), 0).to_numpy(zero_copy_only=False), bool)
    return empty[keys.indices.to_numpy()] if pa.types.is_dictionary(keys.type) else empty


def _predicted(rule: Candidate, keys: pa.Array, lanes: int) -> NDArray[np.int32]:
    """Lanes under a rule; a dictionary's values are hashed once."""
    if not pa.types.is_dictionary(keys.type):
        return rule.lanes(keys, lanes)
    if len(keys.dictionary) > len(keys):
        return rule.lanes(keys.dictionary_decode(), lanes)
    return rule.lanes(keys.dictionary, lanes)[keys.indices.to_numpy()]


def _proven_count(candidates: list[Candidate], pairs: Rows, seen: int) -> tuple[int, bool]:
    """The lane count under which some rule fits best, if beyond chance; else the highest lane seen, plus one."""
    keys, at = pairs[0].slice(0, 400), pairs[1][:400]
    best = (0.0, seen)
    for candidate in candidates:
        hashed, fits = candidate.hashed(keys)
        for count in range(seen, min(2 * seen, seen + 192) + 64):
            hits = int((fits & (candidate.fold(hashed, count) == at)).sum())
            best = min(best, (log_chance(hits, len(at), count), count))
    return best[1], best[0] < log(BELIEF)


def _believed(candidates: list[Candidate], pairs: Rows, lanes: int) -> list[Candidate]:
    """Take the rule that explains most, drop what it explains, and go on while chance is no explanation."""
    keys, at = pairs
    fits = [candidate.lanes(keys, lanes) == at for candidate in candidates]
    left = np.ones(len(at), bool)
    chosen: list[Candidate] = []
    while lanes > 1 and left.any() and len(chosen) < MOST_WRITERS:
        hits = [int((fit & left).sum()) for fit in fits]
        best = int(np.argmax(hits))
        if log_chance(hits[best], int(left.sum()), lanes) + log(len(candidates)) > log(BELIEF):
            break
        chosen.append(candidates[best])
        left &= ~fits[best]
    return chosen


def _answer(tally: _Tally, pairs: Rows, thin: Rows) -> Identification:
    keyed = int(tally.first.sum())
    distinct = len(pc.unique(pairs[0]))
    if not tally.rules:
        return _nothing(tally, _why_not(tally, pairs, distinct), distinct)
    estimate = shares(tally.first, _matrix(tally.rules, thin[0], tally.lanes))
    found = [_writer(rule, float(share), tally, pairs) for rule, share in zip(tally.rules, estimate, strict=False)]
    late, unexplained = _second_look(tally, float(estimate[-1]))
    writers = sorted([*found, *late], key=lambda writer: -writer.share)
    mixed = len(writers) > 1 or unexplained >= STRAY
    if unexplained >= STRAY:
        writers.append(Writer(None, unexplained))
    return Identification(
        "mixed" if mixed else "one-writer",
        tuple(writers),
        **_counts(tally, distinct),
        notes=tuple(_notes(tally, round(unexplained * keyed))),
    )


def _writer(rule: Candidate, share: float, tally: _Tally, pairs: Rows) -> Writer:
    keys, at = pairs
    predicted = rule.lanes(keys, tally.lanes)
    hits = int((predicted == at).sum())
    names = narrowed(family_of(rule.partitioner.facts.family), tally.nulls, tally.empties)
    alike = [
        other.name
        for other in candidates_for(keys)
        if other != rule and other.encoding == rule.encoding and (other.lanes(keys, tally.lanes) == predicted).all()
    ]
    return Writer(
        names[0],
        share,
        rule.encoding + (" behind a registry header" if rule.strip_header else ""),
        (*names[1:], *alike),
        hits,
        exp(max(-700.0, log_chance(hits, len(at), tally.lanes))),
        FACTS[names[0]].setting,
    )


def _second_look(tally: _Tally, unexplained: float) -> tuple[list[Writer], float]:
    """Try to explain what the rules did not, from the rows kept over the whole data."""
    if not tally.left:
        return [], unexplained
    keys, at = _joined(tally.left)
    pairs = _distinct(keys, at)
    rules = _believed(candidates_for(pairs[0]), pairs, tally.lanes)
    if not rules:
        return [], unexplained
    again = _Tally(tally.given, tally.lanes, rules=rules, first=np.zeros(len(rules) + 1, np.int64))
    again.count(keys, at)
    parts = shares(again.first, _matrix(rules, keys, tally.lanes)) * unexplained
    return [_writer(r, float(p), tally, pairs) for r, p in zip(rules, parts, strict=False)], float(parts[-1])


def _matrix(rules: list[Candidate], keys: pa.Array, lanes: int) -> NDArray[np.float64]:
    return first_fits([rule.lanes(keys, lanes) for rule in rules], lanes)


def _counts(tally: _Tally, distinct: int) -> dict[str, Any]:
    return {
        "lanes": tally.lanes,
        "lanes_from": tally.lanes_from,
        "rows": tally.rows,
        "keyed_rows": int(tally.first.sum()),
        "null_rows": int(tally.nulls.sum()),
        "empty_rows": int(tally.empties.sum()),
        "distinct_keys": distinct,
        "unexplained_rows": int(tally.first[-1]),
    }


def _nothing(tally: _Tally, notes: list[str], distinct: int = 0) -> Identification:
    return Identification("unknown", (), **_counts(tally, distinct), notes=tuple(notes))


def _why_not(tally: _Tally, pairs: Rows, distinct: int) -> list[str]:
    if tally.lanes == 1:
        return ["one lane: every partitioner puts every key there"]
    needed = keys_needed(tally.lanes)
    if distinct < needed:
        return [f"too few keys to tell: {distinct} distinct in the sample; {needed} would do on {tally.lanes} lanes"]
    wandering = 1 - distinct / len(pairs[1])
    if wandering > 0.05:
        text = "keys stand in several lanes: round robin, random or a spread, and no rule of the key explains them"
        return [f"{text} ({len(pairs[1])} (key, lane) pairs for {distinct} keys)"]
    count = (
        f" on {tally.lanes} lanes (the highest seen, plus one); hint: --lanes N" if tally.lanes_from == "seen" else ""
    )
    return [f"no known partitioner explains the lanes{count}; each key keeps one lane, so some rule of the key does"]


def keys_needed(lanes: int) -> int:
    """Distinct keys after which a wrong rule is not believed: the k of n**-k below the belief, over all rules."""
    return int(np.ceil((log(16) - log(BELIEF)) / log(lanes)))


def _notes(tally: _Tally, strays: int) -> Iterator[str]:
    if 0 < strays < STRAY * tally.first.sum():
        yield f"about {strays} stray row(s) fit no rule found"
    if tally.lanes_from == "proven":
        yield f"lane count {tally.lanes} proven: no other count makes a partitioner fit"

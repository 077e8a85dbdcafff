"""Find which client's partitioner wrote this data, and whether a second writer disagrees.

How: a sample of distinct keys from the first rows chooses the rules that fit far beyond chance (and, where the lane
count is not given, proves it: only the right count fits). Then every row is compared with these rules, in one pass.
Rows that none explains are sampled over the whole data and tried again, so a writer that came late or wrote one
record in a thousand is found too. Shares, and what each rule explains: `evidence`.

A wrong rule survives k distinct keys with a chance of n**-k: on 12 lanes ten keys leave 1.6e-11. When fewer keys than
needed were seen, the answer is `unknown`, with the number that would do.

The count that a writer placed by is one thing, the stream's lane count another: a record in lane 63 is proof of 64
lanes, whatever all the others fit. So the answer's count is never below the highest lane seen, plus one, and writers
that placed by fewer (before the stream grew) carry their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from math import exp, log
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from keylane import numbers
from keylane.contract.partitioners import FACTS
from keylane.measure.evidence import (
    BELIEF,
    EVEN,
    LONGEST,
    STRIPPED,
    Hypothesis,
    Rows,
    Tally,
    by_chance,
    candidates_for,
    distinct_pairs,
    family_of,
    first_fits,
    joined,
    log_chance,
    narrowed,
    shares,
    thinned,
)
from keylane.placement.fold import lane_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from keylane.placement.ranges import KeySpace

#: Rows that choose the rules.
HEAD: Final = 100_000
#: Unexplained rows below this share are strays, not a writer.
STRAY: Final = 1e-3
#: So few rows are no writer's either, up to a larger share: a file of 200 rows with two odd keys has 1 % of them, and
#: it takes thirty to see a rule. A twentieth of the data is no detail, however few the rows.
FEW_ROWS: Final = 30
STRAY_OF_FEW: Final = 0.05
#: A share below this is rounding, not a writer.
TRACE: Final = 1e-9
#: Unexplained rows of fewer keys than this are hot keys of a contract, not a writer's.
FEW_KEYS: Final = 30

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
    #: The lane count this writer placed by, where it is not the one of the answer: written before the stream grew.
    lanes: int | None = None


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
    #: Rows whose key is too long to be compared.
    long_rows: int = 0

    @property
    def leading(self) -> int:
        """The writer that the others should agree with: the largest of those that place by today's lane count."""
        today = [n for n, writer in enumerate(self.writers) if writer.partitioner and writer.lanes is None]
        return today[0] if today else 0


def identify(
    batches: Iterable[pa.RecordBatch], lanes: int | None = None, space: KeySpace | None = None
) -> Identification:
    """Identify the writers of batches whose first column is the key and whose second is the lane.

    `space` are the lanes as ranges, where a stream has such and they may be unequal.

    `distinct_keys` in the answer is that of the sample, not of all rows.
    """
    tally = Tally(
        None if lanes is None else lane_count(lanes),
        lanes=lanes or 0,
        lanes_from="given" if lanes else "seen",
        space=space,
    )
    rows = map(tally.keyed, batches)
    head = _take(rows, HEAD)
    keys, at = joined(head)
    if not len(at):
        return _nothing(tally, ["no row has a key and a lane", *_set_aside(tally)])
    pairs = distinct_pairs(keys, at)
    tally.choose(pairs, int(at.max()) + 1)
    thin = thinned(keys, at)
    for some_keys, some_lanes in _then(head, rows):
        tally.count(some_keys, some_lanes)
    return _answer(tally, pairs, thin)


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


def _answer(tally: Tally, pairs: Rows, thin: Rows) -> Identification:
    distinct = len(pc.unique(pairs[0]))
    found, unexplained = _first_look(tally, pairs)
    late, unexplained = _second_look(tally, unexplained, thin)
    known = max(0.0, 1 - unexplained - sum(writer.share for writer in late))
    total = sum(writer.share for writer in found)
    found = [replace(writer, share=writer.share * known / total) for writer in found]
    writers = sorted((w for w in [*found, *late] if w.share > TRACE), key=lambda writer: -writer.share)
    if not writers:
        return _nothing(tally, _why_not(tally, pairs, thin, distinct), distinct)
    strays = _are_strays(unexplained, tally)
    mixed = len(writers) > 1 or not strays
    writers = _settled(tally, writers)
    if not strays:
        writers.append(Writer(None, unexplained))
    return Identification(
        "mixed" if mixed else "one-writer",
        tuple(writers),
        **_counts(tally, distinct),
        notes=tuple(_notes(tally, round(unexplained * tally.first.sum()), writers)),
    )


def _are_strays(unexplained: float, tally: Tally) -> bool:
    """Whether what no rule explains is too little to be a writer's."""
    few = unexplained * tally.first.sum() < FEW_ROWS
    return unexplained < (STRAY_OF_FEW if few else STRAY)


def _settled(tally: Tally, writers: list[Writer]) -> list[Writer]:
    """Settle the stream's lane count, now that all rows were read; writers keep theirs where it is another.

    Lanes only ever grow, so of the counts that rules were proven with the largest is the stream's. A lane beyond even
    that is one that no rule explains: it makes the stream as large as that lane, and no count of it proven.
    """
    if tally.given is not None:
        return writers
    counts = [writer.lanes or tally.lanes for writer in writers]
    if max(counts) > tally.lanes:
        tally.lanes, tally.lanes_from = max(counts), "proven"
    _reach(tally)
    return [
        replace(writer, lanes=None if count == tally.lanes else count)
        for writer, count in zip(writers, counts, strict=True)
    ]


def _reach(tally: Tally) -> None:
    """Raise a lane count that the highest lane contradicts; then it is merely seen."""
    if tally.given is None and tally.rows and tally.lanes <= tally.highest:
        tally.lanes, tally.lanes_from = tally.highest + 1, "seen"


def _first_look(tally: Tally, pairs: Rows) -> tuple[list[Writer], float]:
    """The writers that the first rows showed, with their shares of all rows; and the share that none explains."""
    if not tally.rules:
        return [], 1.0
    parts = shares(tally.first, _matrix(tally))
    return [_writer(r, float(p), tally, pairs) for r, p in zip(tally.rules, parts, strict=False)], float(parts[-1])


def _writer(rule: Hypothesis, share: float, tally: Tally, pairs: Rows, grown: int | None = None) -> Writer:
    keys, at = pairs
    predicted = rule.lanes(keys, tally.lanes)
    hits = int((predicted == at).sum())
    names = narrowed(family_of(rule.partitioner.facts.family), tally.nulls, tally.empties, tally.lanes)
    some, expected = keys.slice(0, 1000), predicted[:1000]
    alike = [
        other.name
        for other in candidates_for(keys, tally.space)
        if other != rule and other.encoding == rule.encoding and (other.lanes(some, tally.lanes) == expected).all()
    ]
    return Writer(
        names[0],
        share,
        rule.encoding + (STRIPPED if rule.strip_header else ""),
        (*names[1:], *alike),
        hits,
        exp(max(-700.0, log_chance(hits, len(at), by_chance(predicted, at, tally.lanes)))),
        FACTS[names[0]].setting,
        grown,
    )


def _second_look(tally: Tally, unexplained: float, thin: Rows) -> tuple[list[Writer], float]:
    """Try to explain what the rules did not, from the rows kept over the whole data."""
    if not tally.left:
        return [], unexplained
    keys, at = joined(tally.left)
    pairs = distinct_pairs(keys, at)
    again = _chosen_again(tally, pairs)
    if not again.rules:
        return [], unexplained
    if not tally.rules:
        tally.lanes, tally.lanes_from = again.lanes, again.lanes_from
    again.count(keys, at)
    parts = shares(again.first, _matrix(again)) * unexplained
    grown = again.lanes if again.lanes != tally.lanes else None
    if grown and tally.rules:
        parts *= min(_hidden(tally, again, thin[0]), 1 / parts.sum())
    again.nulls, again.empties = tally.nulls, tally.empties
    found = [_writer(r, float(p), again, pairs, grown) for r, p in zip(again.rules, parts, strict=False)]
    return found, float(parts[-1])


def _hidden(tally: Tally, again: Tally, keys: pa.Array) -> float:
    """How many times more records a writer on another lane count has than the first rule leaves over.

    From 12 lanes to 24 half of the keys stay, so half of that writer's records fit the first rule as well.
    """
    alike = tally.rules[0].lanes(keys, tally.lanes) == again.rules[0].lanes(keys, again.lanes)
    return float((1 - 1 / tally.lanes) / max(1e-9, 1 - alike.mean()))


def _chosen_again(tally: Tally, pairs: Rows) -> Tally:
    """Rules for the rows left over: on the same lane count, or otherwise on one of their own (a stream that grew)."""
    again = Tally(tally.given or (tally.lanes if tally.rules else None), space=tally.space)
    again.choose(pairs, tally.highest + 1)
    if again.rules or again.given is None:
        return again
    free = Tally(None)
    free.choose(pairs, int(pairs[1].max()) + 1)
    return free if free.lanes_from == "proven" else again


def _matrix(tally: Tally) -> NDArray[np.float64]:
    few = 0 < sum(len(pc.unique(keys)) for keys, _ in tally.left) < FEW_KEYS
    return first_fits(tally.agreed, int(tally.first.sum()), tally.lanes, few=few)


def _counts(tally: Tally, distinct: int) -> dict[str, Any]:
    return {
        "lanes": tally.lanes,
        "lanes_from": tally.lanes_from,
        "rows": tally.rows,
        "keyed_rows": int(tally.first.sum()),
        "null_rows": int(tally.nulls.sum()),
        "empty_rows": int(tally.empties.sum()),
        "distinct_keys": distinct,
        "unexplained_rows": int(tally.first[-1]),
        "long_rows": tally.long,
    }


def _nothing(tally: Tally, notes: list[str], distinct: int = 0) -> Identification:
    _reach(tally)
    return Identification("unknown", (), **_counts(tally, distinct), notes=tuple(notes))


def _why_not(tally: Tally, pairs: Rows, thin: Rows, distinct: int) -> list[str]:
    if tally.lanes == 1:
        return ["one lane: every partitioner puts every key there"]
    needed = keys_needed(tally.lanes)
    if distinct < needed:
        return [f"too few keys: {distinct} distinct in the sample; {needed} are enough on {tally.lanes} lanes"]
    seen = f" on {tally.lanes} lanes (the highest seen, plus one); hint: --lanes N"
    text = f"no known partitioner explains the lanes{seen if tally.lanes_from == 'seen' else ''}"
    return [_steadiness(pairs, thin, distinct), text]


def _steadiness(pairs: Rows, thin: Rows, distinct: int) -> str:
    """Whether keys come back to their lane: what distinguishes an unknown rule from no rule."""
    if len(thin[1]) < 1.05 * distinct:
        return "each key was seen once, so the sample does not show whether the key decides"
    if len(pairs[1]) > 1.05 * distinct:
        pairs_seen = f"{len(pairs[1])} pairs for {distinct} keys"
        return f"keys are in several lanes: round robin, random or a spread ({pairs_seen})"
    return "each key keeps one lane, so some rule of the key decides it"


def keys_needed(lanes: int) -> int:
    """Distinct keys after which a rule that fits them all is believed, with a margin for lanes that share unevenly."""
    enough = log(16) - log(BELIEF)
    return next(k for k in count(1) if -k * log((k / (0.6 * min(k, lanes)) + EVEN / lanes) / (k + EVEN)) >= enough)


def _notes(tally: Tally, strays: int, writers: Sequence[Writer]) -> Iterator[str]:
    for writer in writers:
        if writer.lanes is not None:
            text = f"{writer.partitioner}: about {numbers.share(writer.share)} was placed on {writer.lanes} lanes"
            yield f"{text}: {_when(tally, writer.lanes)}"
    keys = sum(len(pc.unique(keys)) for keys, _ in tally.left)
    if strays and all(writer.partitioner for writer in writers):
        match = numbers.agree(strays, "matches", "match")
        yield f"about {numbers.plural(strays, 'stray row')} {match} no known rule: too few to be a second writer"
    elif strays and keys < FEW_KEYS:
        few = numbers.plural(keys, "key")
        yield f"the unexplained rows are of {few}: a pin, a spread or another rule for hot keys?"
    yield from _set_aside(tally)
    if tally.lanes_from == "proven":
        yield f"lane count {tally.lanes} proven: no other count makes a partitioner fit as well"
    if tally.lanes_from == "seen" and all(writer.lanes for writer in writers if writer.partitioner):
        yield f"a record is in lane {tally.highest}, so there are {tally.lanes} lanes or more; hint: --lanes N"
    elif tally.lanes_from == "seen":
        yield f"lane count {tally.lanes} fits, but the sample does not prove it; hint: --lanes N"


def _set_aside(tally: Tally) -> Iterator[str]:
    """Rows that say nothing of who wrote them."""
    if tally.unplaced:
        yield f"{numbers.plural(tally.unplaced, 'row')} without a lane left out"
    if tally.long:
        most = numbers.size(LONGEST)
        yield f"{numbers.plural(tally.long, 'row')} left out: a key above {most} is not compared with every rule"


def _when(tally: Tally, lanes: int) -> str:
    if lanes > tally.lanes:
        return f"more than the {tally.lanes} of the stream; hint: look at --lanes"
    now = f"{tally.lanes}{' or more' if tally.lanes_from == 'seen' else ''}"
    return f"written before the stream grew to {now}, or by a producer that still has the old lane count"

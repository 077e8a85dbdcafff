"""When each writer of a mixture wrote, and examples of what it placed elsewhere: a second pass over the data.

Only rows that one writer's rule alone explains count for that writer. A row that no rule explains fits one by chance
once in n, so as many of a writer's first and last rows as chance may have put there are ignored.

Also the setting of each client that may be such a writer, which makes it agree with the leading one.

Who the writers are: `identify`. Settings of clients: `contract.partitioners`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.contract.names import ENCODINGS
from keylane.contract.partitioners import FACTS, setting_for
from keylane.keys.arrow_bytes import nulls_of, plain
from keylane.keys.times import checked_times, micros_of, no_unit, sizes_of, unit_of
from keylane.measure.evidence import (
    STRIPPED,
    Hypothesis,
    empty_keys,
    lane_numbers,
    long_keys,
    predicted_lanes,
    readable_keys,
)
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from keylane.contract.names import Encoding
    from keylane.measure.identify import Identification, Writer

#: Rows of a batch that are looked at for examples: all of them may be of one key.
LOOKED_AT: Final = 1_000
#: Examples of each writer.
EXAMPLES: Final = 3
#: Ends of a writer's rows that are kept: more than this many doubtful ones leave its beginning unknown.
KEPT: Final = 1_000
#: Fewer rows than this expected by chance are none.
NONE_BY_CHANCE: Final = 0.05
#: A writer whose last row is this near to the end of the data, as a share of all of it, was still writing.
NEAR: Final = 0.01


@dataclass(frozen=True, slots=True)
class ExampleKey:
    """A row that only its writer explains: where it is, and where the leading writer would have put it."""

    key: Any
    lane: int
    expected: int
    row: int
    offset: int | None = None
    #: Microseconds since 1970; None where the row has no time.
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """What the rows of one writer show: how many only it explains, from where to where, and three of them.

    `first` and `last` are microseconds since 1970 where rows have times, otherwise rows counted from 1; None where
    too few rows are beyond doubt.
    """

    records: int
    first: int | None
    last: int | None
    to_the_end: bool
    examples: tuple[ExampleKey, ...]


def encoding_of(writer: Writer) -> tuple[Encoding, bool]:
    """The encoding of a writer's keys, and whether the header of a schema registry stands before them.

    >>> from keylane.measure.identify import Writer
    >>> encoding_of(Writer("kafka-java", 1.0, "raw behind a registry header"))
    ('raw', True)
    """
    text = writer.encoding or "utf8"
    name = text.removesuffix(STRIPPED)
    (known,) = (one for one in ENCODINGS if one == name)
    return known, name != text


@dataclass(slots=True)
class _WriterRows:
    """Of one writer, while rows pass."""

    records: int = 0
    low: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    high: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    examples: list[ExampleKey] = field(default_factory=list)

    def add(self, moments: NDArray[np.int64]) -> None:
        low, high = np.concatenate([self.low, moments]), np.concatenate([self.high, moments])
        self.low = np.partition(low, KEPT)[:KEPT] if len(low) > KEPT else low
        self.high = np.partition(high, len(high) - KEPT)[-KEPT:] if len(high) > KEPT else high

    def show(self, rows: _KeyedRows, alone: NDArray[np.int64], expected: NDArray[np.int32]) -> None:
        """Take examples of these rows, each of another key: a heavy one would be all of them."""
        for at in alone[:LOOKED_AT] if len(self.examples) < EXAMPLES else ():
            one = rows.example(int(at), int(expected[at]))
            if all(one.key != other.key for other in self.examples):
                self.examples.append(one)
            if len(self.examples) == EXAMPLES:
                return

    def trace(self, doubtful: int, ends: tuple[int, int]) -> Trace:
        first = last = None
        if doubtful < min(KEPT, len(self.low), max(1, self.records // 2)):
            first, last = int(np.sort(self.low)[doubtful]), int(np.sort(self.high)[-1 - doubtful])
        near = last is not None and ends[1] - last <= NEAR * (ends[1] - ends[0])
        return Trace(self.records, first, last, near, tuple(self.examples))


def trace(
    batches: Iterable[pa.RecordBatch],
    found: Identification,
    *,
    time: str | None = None,
    unit: str | None = None,
    offset: str | None = None,
) -> tuple[Trace, ...]:
    """One trace for each writer of a mixture, in their order; of a single writer or none there is nothing to trace.

    The first column is the key and the second the lane, as for `identify`; `time` and `offset` name columns beside
    them. `unit` is that of integers; None: inferred from their size.
    """
    rules = [_rule(writer) for writer in found.writers]
    if len(rules) < 2 or rules[found.leading] is None:
        return ()
    seen = [_WriterRows() for _ in rules]
    row, unexplained, ends = 0, 0, (1 << 62, -(1 << 62))
    lanes = [found.lanes if writer.lanes is None else writer.lanes for writer in found.writers]
    for batch in batches:
        rows = _KeyedRows.of(batch, row, time, unit, offset)
        unit, row = rows.unit, row + len(batch)
        if not len(rows.at):
            continue
        predicted = [
            np.full(len(rows.at), -1, np.int32) if rule is None else predicted_lanes(rule, rows.keys, count)
            for rule, count in zip(rules, lanes, strict=True)
        ]
        fits = np.array(predicted) == rows.at
        many = fits.sum(axis=0)
        unexplained += int((many == 0).sum())
        for number, one in enumerate(seen):
            alone = np.flatnonzero(fits[number] & (many == 1) if rules[number] is not None else many == 0)
            one.records += len(alone)
            timed = alone[rows.timed[alone]]
            one.add(rows.moments[timed])
            if number != found.leading:
                one.show(rows, alone, predicted[found.leading])
        there = rows.moments[rows.timed]
        if len(there):
            ends = min(ends[0], int(there.min())), max(ends[1], int(there.max()))
    doubtful = _by_chance(unexplained, found.lanes)
    return tuple(one.trace(doubtful if rule is not None else 0, ends) for one, rule in zip(seen, rules, strict=True))


def _rule(writer: Writer) -> Hypothesis | None:
    if writer.partitioner is None:
        return None
    encoding, stripped = encoding_of(writer)
    return Hypothesis(partitioner(writer.partitioner, encoding), encoding, stripped)


def _by_chance(unexplained: int, lanes: int) -> int:
    """How many rows that no writer here wrote may look like one writer's: their mean, and three deviations.

    >>> _by_chance(0, 12), _by_chance(1_100, 12)
    (0, 130)
    """
    mean = unexplained / max(1, lanes - 1)
    return 0 if mean < NONE_BY_CHANCE else ceil(mean + 3 * sqrt(mean))


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """The rows of a batch that have a key and a lane."""

    keys: pa.Array
    at: NDArray[np.int32]
    rows: NDArray[np.int64]
    moments: NDArray[np.int64]
    timed: NDArray[np.bool_]
    offsets: NDArray[np.int64] | None
    by_time: bool
    unit: str | None

    @classmethod
    def of(
        cls, batch: pa.RecordBatch, before: int, time: str | None, unit: str | None, offset: str | None
    ) -> _KeyedRows:
        keys, lanes = readable_keys(batch.column(0)), batch.column(1)
        kept = ~(nulls_of(keys) | nulls_of(lanes))
        for judge in (empty_keys, long_keys):
            aside = judge(keys.filter(pa.array(kept)))
            if aside is not None:
                kept[np.flatnonzero(kept)[aside]] = False
        where, mask = np.flatnonzero(kept), pa.array(kept)
        at = lane_numbers(lanes.filter(mask), batch.schema.names[1])
        rows = where.astype(np.int64) + before + 1
        offsets = None if offset is None else plain(batch.column(offset)).to_numpy(zero_copy_only=False)[where]
        if time is None:
            return cls(keys.filter(mask), at, rows, rows, np.ones(len(rows), bool), offsets, False, unit)
        column = plain(batch.column(time)).filter(mask)
        checked_times(time, column.type)
        unit = unit or unit_of(sizes_of(column).tolist())
        if unit is None and _is_whole(column):
            raise no_unit(time)
        moments, missing = micros_of(column, unit)
        # A broker gives a record without a time one less than zero.
        return cls(keys.filter(mask), at, rows, moments, ~missing & (moments >= 0), offsets, True, unit)

    def example(self, at: int, expected: int) -> ExampleKey:
        time = int(self.moments[at]) if self.by_time and self.timed[at] else None
        offset = None if self.offsets is None else int(self.offsets[at])
        return ExampleKey(self.keys[at].as_py(), int(self.at[at]), expected, int(self.rows[at]), offset, time)


def _is_whole(column: pa.Array) -> bool:
    """Whether a column holds whole numbers, at least one of them."""
    return bool(pa.types.is_integer(column.type)) and column.null_count < len(column)


# Fixes: what makes a second writer agree with the leading one, client by client.

#: Where a client has no setting for it.
BY_HAND: Final = "no setting does it: pass the partition with each record, as keylane's producers do"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do in one client that may be the writer; `setting` is None where none of its settings does it."""

    client: str
    setting: str | None
    action: str


def fixes(writer: Writer, wanted: Writer, lanes: int) -> tuple[Fix, ...]:
    """For each client that places as `writer` did: what makes it place as `wanted`. Nothing where no rule is known."""
    if writer.partitioner is None or wanted.partitioner is None:
        return ()
    names = (writer.partitioner, *writer.also)
    if FACTS[writer.partitioner].family == FACTS[wanted.partitioner].family:
        return (Fix("; ".join(_clients(names)), None, _same_rule(writer, wanted, lanes)),)
    found = {FACTS[name].client: setting_for(FACTS[name], FACTS[wanted.partitioner]) for name in reversed(names)}
    return tuple(
        Fix(client, found[client], f"set {found[client]}" if found[client] else BY_HAND) for client in _clients(names)
    )


def _clients(names: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(FACTS[name].client for name in names))


def _same_rule(writer: Writer, wanted: Writer, lanes: int) -> str:
    """The rule is the same: what differs is the lane count it placed by, or the bytes of its keys."""
    if writer.encoding != wanted.encoding:
        return f"write the key as {wanted.encoding}, not as {writer.encoding}"
    old, now = writer.lanes or lanes, wanted.lanes or lanes
    return f"if it still writes, restart it: it knows {old} lanes, not {now}; older records stay where they are"


def ways_to_agree(found: Identification) -> tuple[tuple[Fix, ...], ...]:
    """The fixes of each writer, in their order; the leading one is what the others agree with."""
    if not found.writers:
        return ()
    wanted = found.writers[found.leading]
    return tuple(() if writer is wanted else fixes(writer, wanted, found.lanes) for writer in found.writers)

"""When each writer of a mixture wrote, and examples of what it placed elsewhere: a second pass over the data.

Only rows that one writer's rule alone explains count for that writer. A row that no rule explains fits one by chance
once in n, so as many of a writer's first and last rows as a few strays may have put there are ignored; where there is a
rest, no writer is dated.

Also the setting of each client that may be such a writer, which makes it agree with the leading one.

Who the writers are: `identify`. Settings of clients: `contract.partitioners`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.contract.partitioners import FACTS, setting_for
from keylane.keys.arrow_bytes import nulls_of, plain
from keylane.keys.times import WRITTEN, checked_times, micros_of, sizes_of, unit_of
from keylane.measure.placed import empty_keys, lane_numbers, long_keys, readable_keys
from keylane.measure.rules import client_rules, family_of, hash_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from keylane.keys.times import TimeField
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

    def show(self, rows: _KeyedRows, alone: NDArray[np.int64], expected: NDArray[np.int64]) -> None:
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
    time: TimeField | None = None,
    offset: str | None = None,
) -> tuple[Trace, ...]:
    """One trace for each writer of a mixture, in their order; of a single writer or none there is nothing to trace.

    The first column is the key and the second the lane, as for `identify`; `time` and `offset` name columns beside
    them. Numbers whose unit is not given are of one, by their size.
    """
    rules = [writer.rule for writer in found.writers]
    if len(rules) < 2 or rules[found.leading] is None:
        return ()
    seen = [_WriterRows() for _ in rules]
    row, unexplained, ends = 0, 0, (1 << 62, -(1 << 62))
    sizes = _no_sizes()
    lanes = [found.lanes if writer.lanes is None else writer.lanes for writer in found.writers]
    for batch in batches:
        rows = _KeyedRows.of(batch, row, time, offset)
        sizes, row = sizes + rows.sizes, row + len(batch)
        if not len(rows.at):
            continue
        predicted = [
            np.full(len(rows.at), -1, np.int64) if rule is None else rule.lanes(rows.keys, count)
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
    if time is not None:
        unit_of(time.name, sizes.tolist(), text=bool(sizes[WRITTEN]))
    # Records of a rest fit a rule by luck, at any time: only the rest itself is then dated.
    with_rest = any(rule is None for rule in rules)
    return tuple(
        one.trace(0 if rule is None else KEPT if with_rest else _by_chance(unexplained, count), ends)
        for one, rule, count in zip(seen, rules, lanes, strict=True)
    )


def _by_chance(unexplained: int, lanes: int) -> int:
    """How many rows that no writer here wrote may look like one writer's: their mean, and five deviations.

    >>> _by_chance(0, 12), _by_chance(1_100, 12)
    (0, 150)
    """
    mean = unexplained / max(1, lanes - 1)
    return 0 if mean < NONE_BY_CHANCE else ceil(mean + 5 * sqrt(mean))


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
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, batch: pa.RecordBatch, before: int, time: TimeField | None, offset: str | None) -> _KeyedRows:
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
            return cls(keys.filter(mask), at, rows, rows, np.ones(len(rows), bool), offsets, False, _no_sizes())
        column = plain(batch.column(time.name)).filter(mask)
        checked_times(time.name, column.type)
        moments, missing = micros_of(column, time.form)
        sizes = sizes_of(column) if time.form is None else _no_sizes()
        # A broker gives a record without a time one less than zero.
        return cls(keys.filter(mask), at, rows, moments, ~missing & (moments >= 0), offsets, True, sizes)

    def example(self, at: int, expected: int) -> ExampleKey:
        time = int(self.moments[at]) if self.by_time and self.timed[at] else None
        offset = None if self.offsets is None else int(self.offsets[at])
        return ExampleKey(self.keys[at].as_py(), int(self.at[at]), expected, int(self.rows[at]), offset, time)


def _no_sizes() -> NDArray[np.int64]:
    return np.zeros(WRITTEN + 1, np.int64)


# Fixes: what makes a second writer agree with the leading one, client by client.

#: Where a client has no setting for it.
BY_HAND: Final = "no setting does it: pass the partition with each record, as keylane's producers do"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do in one client that may be the writer; `setting` is None where none of its settings does it."""

    client: str
    setting: str | None
    action: str


def fixes(writer: Writer, wanted: Writer, lanes: int, traces: tuple[Trace, Trace] | None = None) -> tuple[Fix, ...]:
    """For each client that places as `writer` did: what makes it place as `wanted`. Nothing where no rule is known.

    `traces` are those of the two: a writer that ended before the other began has nothing to change.
    """
    if writer.rule is None or wanted.rule is None or wanted.partitioner is None:
        return ()
    clients = _clients(writer)
    if writer.rule.family == wanted.rule.family:
        if writer.encoding != wanted.encoding:
            return (Fix("; ".join(clients), None, f"write the key as {wanted.encoding}, not as {writer.encoding}"),)
        if traces is not None and (ended_before(*traces) or ended_before(*reversed(traces))):
            return ()
        return (Fix("; ".join(clients), None, _other_count(writer, wanted, lanes)),)
    if writer.partitioner is None:
        family = wanted.rule.family
        agrees = {one.client: dict(one.agrees).get(family) for one in client_rules(writer.rule)}
        return tuple(_fix(client, agrees.get(client)) for client in clients)
    names = (writer.partitioner, *writer.also)
    found = {FACTS[name].client: setting_for(FACTS[name], FACTS[wanted.partitioner]) for name in reversed(names)}
    return tuple(_fix(client, found[client]) for client in clients)


def _fix(client: str, setting: str | None) -> Fix:
    return Fix(client, setting, f"set {setting}" if setting else BY_HAND)


def _clients(writer: Writer) -> list[str]:
    """The clients that may be a writer: those of its partitioners, or those known to place by its rule."""
    if writer.partitioner is not None:
        return list(dict.fromkeys(FACTS[name].client for name in (writer.partitioner, *writer.also)))
    assert writer.rule is not None
    return [one.client for one in client_rules(writer.rule)] or [f"the producer that places by {writer.name}"]


def ended_before(one: Trace, other: Trace) -> bool:
    """Whether a writer's last record is before the other's first: what a stream that grew shows."""
    return one.last is not None and other.first is not None and one.last < other.first


def _other_count(writer: Writer, wanted: Writer, lanes: int) -> str:
    """The rule is the same: what differs is the lane count it placed by."""
    old, now = writer.lanes or lanes, wanted.lanes or lanes
    return f"if it still writes, restart it: it has {old} lanes, not {now}; older records stay where they are"


def ways_to_agree(found: Identification, traces: tuple[Trace, ...] = ()) -> tuple[tuple[Fix, ...], ...]:
    """The fixes of each writer, in their order; the leading one is what the others agree with."""
    if not found.writers:
        return ()
    wanted = found.writers[found.leading]
    return tuple(
        tuple(_to_a_name(writer))
        if writer is wanted
        else fixes(writer, wanted, found.lanes, (traces[number], traces[found.leading]) if traces else None)
        for number, writer in enumerate(found.writers)
    )


def _to_a_name(writer: Writer) -> Iterator[Fix]:
    """What makes the clients of a rule without a name place as a partitioner, of the same hash if there is one."""
    rule = None if writer.partitioner else writer.rule
    for one in client_rules(rule) if rule else ():
        agrees = dict(one.agrees)
        same = [family for family in agrees if rule and family.startswith(f"{hash_name(rule)}/")]
        family = next(iter([*same, *agrees]), None)
        if family is not None:
            name = family_of(family)[0]
            yield Fix(one.client, agrees[family], f"{agrees[family]}; it then places as {name}")


def growth(found: Identification, traces: tuple[Trace, ...]) -> tuple[Writer, Writer, int] | None:
    """A writer that ended, the same rule on more lanes that went on, and when that began; None where there is none."""
    for number, writer in enumerate(found.writers if traces else ()):
        for after, later in enumerate(found.writers):
            same = writer.rule is not None and writer.rule == later.rule
            if same and (writer.lanes or found.lanes) < (later.lanes or found.lanes):
                first = traces[after].first
                if first is not None and ended_before(traces[number], traces[after]):
                    return writer, later, first
    return None

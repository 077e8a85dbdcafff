"""Conformance of data to its contract: lanes as promised, expectations met; and the order scope of each record.

One pass: every row is routed and its lane compared with the promised one; the expectations are read off the counts,
by `expectations`. Memory grows with the number of distinct keys, never with the number of rows. Several data sets:
`copartition`. Without data: `self_test`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane import numbers
from keylane.batch_router import REASONS, Decided, decide
from keylane.keys.arrow_bytes import as_binary, nulls_of
from keylane.keys.columns import encode_column
from keylane.measure.expectations import KeySample, judged
from keylane.measure.placed import lane_numbers
from keylane.measure.self_test import collapse
from keylane.records import Finding, Reason, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.batch_router import Decided
    from keylane.measure.expectations import Expectation
    from keylane.placement.overrides import HotRule
    from keylane.router import Router

    Show: TypeAlias = Callable[[bytes], str]

#: As many misplaced rows are shown, each of another key, and of other lanes where there are some.
EXAMPLES = 3
#: Key counts are merged when this many have piled up.
MERGE = 1_000_000
_NO_KEYS = pa.schema([("key", pa.large_binary()), ("lane", pa.int32()), ("n", pa.int64())])


def as_text(key: bytes) -> str:
    """A key as the text that it spells, otherwise in hex."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A row that is not in the lane that the contract gives its key; rows are counted from 1."""

    key: bytes | None
    lane: int
    expected: int
    row: int
    offset: int | None = None


@dataclass(slots=True)
class Conformance:
    """What was counted."""

    router: Router
    rows: int = 0
    #: Rows whose lane was held against the promised one.
    compared: int = 0
    misplaced: int = 0
    #: Rows whose cell in the column of lanes is empty: nobody knows where they are.
    laneless: int = 0
    without_key: int = 0
    _first: list[Misplaced] = field(default_factory=list)
    _by_lane: dict[int, Misplaced] = field(default_factory=dict)
    unplaced: dict[Reason, int] = field(default_factory=dict)
    per_lane: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Rows of each key in each lane that the contract gives it; -1: by position, another stream's, or in no lane.
    keys: pa.Table | None = None
    pending: list[Any] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    #: The lanes that the data is of; none: all of them.
    read: tuple[int, ...] = ()
    #: Whether the data has a column of lanes.
    by_lane: bool = False

    def add(self, batch: pa.RecordBatch, lane_column: str | None, offset_column: str | None = None) -> None:
        """Count one batch; its rows stand after those already counted."""
        positions = np.arange(self.rows, self.rows + len(batch))
        decided = decide(self.router, batch, positions)
        lanes = decided.lane
        if lane_column is not None:
            lanes = _lanes_in(batch.column(lane_column), lane_column)
            self._compare(decided, lanes, None if offset_column is None else batch.column(offset_column))
        self.rows += len(batch)
        self.without_key += _without_key(decided)
        home = (decided.reason < 0) & (decided.stream == 0) & (lanes >= 0) & (lanes < self.router.lane_count)
        self.per_lane = self.per_lane + np.bincount(lanes[home], minlength=self.router.lane_count)
        for code, count in zip(*np.unique(decided.reason, return_counts=True), strict=True):
            if code >= 0:
                self.unplaced[REASONS[code]] = self.unplaced.get(REASONS[code], 0) + int(count)
        self._count_keys(decided, lanes >= 0)

    def _compare(self, decided: Decided, at: NDArray[np.int32], offsets: pa.Array | None) -> None:
        """Compare the lanes in the data with the promised ones; tiers are other streams and have other lanes."""
        bound = (decided.reason < 0) & (decided.stream == 0) & ~decided.by_position
        self.laneless += int(np.count_nonzero(at < 0))
        judged = bound & (at >= 0)
        self.compared += int(np.count_nonzero(judged))
        wrong = np.flatnonzero(judged & (at != decided.lane))
        self.misplaced += len(wrong)
        if len(self._by_lane) < EXAMPLES:
            # A topic is read lane by lane: its first misplaced rows are all in one.
            for lane, first in zip(*np.unique(at[wrong], return_index=True), strict=True):
                self._by_lane.setdefault(int(lane), self._example(decided, at, int(wrong[first]), offsets))
        for row in wrong if len(self._first) < EXAMPLES else ():
            one = self._example(decided, at, int(row), offsets)
            if one.key not in [known.key for known in self._first]:
                self._first.append(one)
            if len(self._first) == EXAMPLES:
                break

    def _example(self, decided: Decided, at: NDArray[np.int32], row: int, offsets: pa.Array | None) -> Misplaced:
        key, offset = decided.keys.base[row].as_py(), None if offsets is None else offsets[row].as_py()
        return Misplaced(key, int(at[row]), int(decided.lane[row]), self.rows + row + 1, offset)

    @property
    def places_by_key(self) -> bool:
        """Whether the contract promises a lane to a key at all."""
        return self.router.partitioner.hash is not None

    @property
    def shown(self) -> bool:
        """Whether the data shows that the contract is kept, where nothing in it breaks it.

        Something was compared, lanes where there are some, and no expectation is left open.
        """
        kept = [one.judgement == "kept" for one in self.expectations]
        lanes = self.compared > 0 or not self.places_by_key or not self.by_lane
        return self.rows > 0 and lanes and all(kept) and (self.compared > 0 or bool(kept))

    @property
    def examples(self) -> list[Misplaced]:
        """Some misplaced rows in the order of reading: each of another key, and of as many lanes as there are."""
        taken: list[Misplaced] = []
        for one in (*sorted(self._by_lane.values(), key=lambda one: one.row), *self._first):
            if len(taken) < EXAMPLES and one.key not in [known.key for known in taken]:
                taken.append(one)
        return sorted(taken, key=lambda one: one.row)

    def _count_keys(self, decided: Decided, known: NDArray[np.bool_]) -> None:
        bound = (decided.reason < 0) & (decided.stream == 0) & ~decided.by_position & known
        rows = pa.table({"key": decided.keys.base, "lane": np.where(bound, decided.lane, -1).astype(np.int32)})
        rows = rows.filter(rows["key"].is_valid()).set_column(0, "key", rows["key"].drop_null().cast(pa.large_binary()))
        counted = rows.group_by(["key", "lane"]).aggregate([([], "count_all")])
        self.pending.append(counted.rename_columns(["key", "lane", "n"]))
        if sum(len(table) for table in self.pending) > MERGE:
            self.merge()

    def merge(self) -> pa.Table:
        """Add up the piled key counts."""
        known = [_NO_KEYS.empty_table()] if self.keys is None else [self.keys]
        table = pa.concat_tables([*known, *self.pending]).group_by(["key", "lane"]).aggregate([("n", "sum")])
        self.keys, self.pending = table.rename_columns(["key", "lane", "n"]), []
        return self.keys

    def heaviest(self) -> tuple[bytes, int] | None:
        """The key with most rows, and how many; of several the first by its bytes."""
        keys = self.merge().group_by("key").aggregate([("n", "sum")])
        if not len(keys):
            return None
        most = pc.max(keys["n_sum"])
        return pc.min(keys.filter(pc.equal(keys["n_sum"], most))["key"]).as_py(), most.as_py()

    @property
    def keys_in_lanes(self) -> int:
        """Different keys of rows that are in a lane which their key decides."""
        keys = self.merge()
        return len(keys.filter(pc.greater_equal(keys["lane"], 0)).group_by("key").aggregate([]))

    def sample(self) -> KeySample:
        """What the expectations are compared with."""
        pairs = self.merge()
        keys = pairs.group_by("key").aggregate([("n", "sum")])["n_sum"]
        bound = pairs.filter(pc.greater_equal(pairs["lane"], 0))
        return KeySample(
            self.rows,
            len(keys),
            pc.max(keys).as_py() or 0,
            self.without_key,
            self.per_lane,
            bound["n"].to_numpy(),
            bound["lane"].to_numpy().astype(np.int64),
            int(pc.sum(pc.equal(keys, 1)).as_py() or 0),
        )


def _lanes_in(column: pa.Array, name: str) -> NDArray[np.int32]:
    """The lanes rows are in; -1 for a row without one."""
    missing = nulls_of(column)
    lanes = lane_numbers(column.filter(pa.array(~missing)), name)
    out = np.full(len(missing), -1, np.int32)
    out[~missing] = lanes
    return out


def keeps(
    router: Router,
    batches: Iterable[pa.RecordBatch],
    lane_column: str | None = None,
    show: Show = as_text,
    read: Sequence[int] = (),
    offset_column: str | None = None,
) -> tuple[Conformance, list[Finding]]:
    """Check data against a contract; findings of severity error break it. `show` names a key in them.

    `read` are the lanes that the data is of, where these are not all: expectations, which are of the stream, are then
    neither kept nor broken.
    """
    found = Conformance(router, per_lane=np.zeros(router.lane_count, np.int64), read=tuple(read))
    found.by_lane = lane_column is not None
    for batch in batches:
        found.add(batch, lane_column, offset_column)
    return found, list(_findings(found, show))


def _findings(found: Conformance, show: Show) -> Iterator[Finding]:
    if found.rows == 0:
        yield Finding("warning", "data", "no rows: nothing was compared")
        return
    if found.by_lane and not found.compared and found.places_by_key:
        rows = numbers.plural(found.rows, "row")
        yield Finding("warning", "data", f"none of {rows} has both a key that decides its lane and a lane to compare")
    if found.by_lane and not found.places_by_key:
        name = found.router.partitioner.name
        yield Finding("info", "data", f"lanes were not compared: under {name} keys do not decide them")
    if found.misplaced:
        wrong = f"{numbers.count(found.misplaced)} of {numbers.count(found.rows)} rows"
        text = f"{wrong} ({numbers.share(found.misplaced / found.rows)}) are not in the lane the contract promises"
        one = found.examples[0]
        where = f"row {numbers.count(one.row)}" if one.offset is None else f"offset {one.offset}"
        example = f"{where}: lane {one.lane}, promised {one.expected}"
        yield Finding("error", "data", f"{text} ({example}); hint: keylane identify says who wrote them")
    if found.laneless:
        rows = f"{numbers.count(found.laneless)} of {numbers.plural(found.rows, 'row')}"
        yield Finding("warning", "data", f"{rows} cannot be compared: their lane is null")
    for reason, count in sorted(found.unplaced.items()):
        severity: Severity = "warning" if reason in (Reason.NULL_KEY, Reason.EMPTY_KEY, Reason.NO_POSITION) else "error"
        yield Finding(
            severity, "data", f"{numbers.count(count)} of {numbers.count(found.rows)} rows have no lane: {reason}"
        )
    yield from _expectations(found, show)


def _expectations(found: Conformance, show: Show) -> Iterator[Finding]:
    sample, heaviest = found.sample(), found.heaviest()
    named = show(heaviest[0]) if heaviest else ""
    found.expectations = list(judged(found.router.contract.spec.expect, sample, named))
    if found.read:
        found.expectations = [_of_part(one, found.read) for one in found.expectations]
    for one in found.expectations:
        if one.judgement != "kept":
            severity: Severity = "error" if one.judgement == "broken" else "warning"
            yield Finding(severity, f"spec.expect.{one.name}", one.says)
    if not found.read and found.per_lane.any() and found.router.partitioner.hash is not None:
        used = int((found.per_lane > 0).sum())
        yield from collapse("data", used, found.keys_in_lanes, found.router.lane_count)


def _of_part(one: Expectation, read: Sequence[int]) -> Expectation:
    """The same where some lanes were read: neither the mean nor the keys of the others are known."""
    says = f"it is of all lanes, and only {numbers.lanes(list(read))} were read; cannot tell: leave --partitions out"
    return replace(one, judgement="cannot-tell", chance=1.0, says=says)


def _without_key(decided: Decided) -> int:
    """Rows whose key is null or empty."""
    nulls = nulls_of(decided.keys.routing) & ~decided.keys.malformed
    empty = pc.binary_length(decided.keys.base).fill_null(1).to_numpy(zero_copy_only=False) == 0
    return int((nulls | empty).sum())


# Order scopes: the bytes that name what a contract keeps in order, for each record.


def order_scopes(router: Router, decided: Decided) -> pa.Array:
    """The scope of every row that was decided, as binary; null where no order is kept.

    A window is part of the scope only where it is part of what decides the lane: a pinned key has one lane in all of
    its windows, and so has a key in a table.
    """
    base, routing = as_binary(decided.keys.base).cast(pa.binary()), as_binary(decided.keys.routing).cast(pa.binary())
    # The lanes of one ancestor's cells may differ, and the key is the cell.
    scope = routing if router.cells is None else base
    for rule, rows in _by_rule(router, base):
        scope = _ruled(scope, rule, rows, base, routing, decided)
    if router.overrides.table is not None:
        scope = _tabled(router, scope, base, decided)
    without = (decided.reason >= 0) | decided.by_position | nulls_of(decided.keys.routing)
    return pc.if_else(pa.array(~without), scope, pa.scalar(None, pa.binary()))


def _by_rule(router: Router, base: pa.Array) -> list[tuple[HotRule, NDArray[np.bool_]]]:
    """The hot rules that change what is kept in order, with their rows."""
    hot: dict[Any, tuple[HotRule, list[bytes]]] = {}
    for key, rule in router.overrides.hot.items():
        if rule.pin is not None or rule.spread is not None:
            hot.setdefault((rule.where, rule.pin is None), (rule, []))[1].append(key)
    return [(rule, _is_in(base, keys)) for rule, keys in hot.values()]


def _is_in(base: pa.Array, keys: list[bytes]) -> NDArray[np.bool_]:
    return np.asarray(pc.is_in(base, value_set=pa.array(keys, pa.binary())).to_numpy(zero_copy_only=False), bool)


def _ruled(scope: pa.Array, rule: HotRule, rows: Any, base: pa.Array, routing: pa.Array, decided: Decided) -> pa.Array:
    if not rows.any():
        return scope
    # A set counted from the key's own lane begins elsewhere in every window; one that is listed does not.
    fixed = rule.pin is not None or (rule.spread is not None and rule.spread.lanes is not None)
    own = base if fixed else routing
    if rule.spread is not None and rule.spread.by is not None:
        own = _with_sub_key(own, decided, rule.spread.by)
    return pc.if_else(pa.array(rows), own, scope)


def _tabled(router: Router, scope: pa.Array, base: pa.Array, decided: Decided) -> pa.Array:
    """Keys of the table: one lane in all windows, or several by sub-key. Hot keys come before the table."""
    table, by = router.overrides.table, router.overrides.table_by
    assert table is not None
    coded = base.dictionary_encode()
    lanes = [table.lanes_of(key.as_py()) for key in coded.dictionary]
    width = np.array([len(entry) if entry else 0 for entry in lanes] or [0], np.int64)[coded.indices.to_numpy()]
    width[_is_in(base, list(router.overrides.hot))] = 0
    scope = pc.if_else(pa.array(width == 1), base, scope)
    return (
        pc.if_else(pa.array(width > 1), _with_sub_key(base, decided, by or ""), scope) if (width > 1).any() else scope
    )


def _with_sub_key(key: pa.Array, decided: Decided, field: str) -> pa.Array:
    """Key and sub-key with the key's length at the end, so that no two pairs look alike: `m-2/order-7#3`."""
    if field not in decided.batch.schema.names:
        return key
    sub = as_binary(encode_column(decided.batch.column(field), "utf8", field)[0]).cast(pa.binary())
    length = pc.binary_length(key).cast(pa.string()).cast(pa.binary())
    joined = pc.binary_join_element_wise(key, sub, b"/")
    return pc.binary_join_element_wise(joined, length, b"#")

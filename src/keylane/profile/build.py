"""Counted rows -> a profile: every key once, heaviest first, with what has no key set apart.

The rows are those of `spark.count_keys`: the fields of the key, packed counts by window, and what else was measured,
one row for each key (and lane). On the disk: `systems.profiles`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.batch_router import decide
from keylane.contract.fields import fields_of
from keylane.errors import CountError
from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.keys.arrow_bytes import as_binary, lengths_and_data, nulls_of, plain
from keylane.keys.read import read_batch
from keylane.profile.model import Approximation, ObservedLanes, Profile, WithoutKey
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from keylane.contract.model import Contract, Key
    from keylane.placement.ranges import KeySpace
    from keylane.profile.model import Windows

#: Columns that are no part of the key.
WINDOW: Final = "keylane_w"
SIZE: Final = "keylane_bytes"
LANE: Final = "keylane_lane"
MALFORMED: Final = "keylane_malformed"
UNTIMED: Final = "keylane_untimed"


@dataclass(frozen=True, slots=True)
class ProfileMetadata:
    """What is known of a profile beside its rows. `packing` is how many windows share a sum."""

    source: str
    key: Key
    windows: Windows
    packing: int = 2
    bytes_total: int | None = None
    lanes: ObservedLanes | None = None
    approximate: Approximation | None = None
    facts: tuple[tuple[str, Any], ...] = ()


def profile_of(rows: pa.Table, head: ProfileMetadata) -> Profile:
    """The profile that counted rows are, each key in one row."""
    fields = rows.select(list(head.key.fields))
    keys = read_batch(fields, head.key)
    counts = unpacked(rows, len(head.windows), head.packing)
    records = counts.sum(axis=1, dtype=np.int64)
    empty = _empty(keys.base)
    kept = np.flatnonzero(~(nulls_of(keys.base) | empty))
    base = keys.base if len(kept) == len(records) else keys.base.take(pa.array(kept))
    order = kept[heaviest_first(records[kept], base)]
    untimed = _numbers(rows, UNTIMED)
    by_window = counts[order] if untimed is None else spread(counts[order], untimed[order])
    size = _numbers(rows, SIZE)
    total = head.bytes_total if size is None else int(size.sum())
    made = Profile(
        source=head.source,
        key=head.key,
        windows=head.windows,
        keys=_taken(fields, order),
        by_window=by_window,
        size=None if size is None else size[order],
        without_key=_without(rows, records, keys.malformed, empty, nulls_of(keys.base)),
        bytes_total=total,
        approximate=head.approximate,
        lanes=head.lanes,
        facts=head.facts,
    )
    return replace(made, fingerprint=fingerprint_of(made))


def unpacked(rows: pa.Table, windows: int, packing: int) -> NDArray[np.int32]:
    """Records of each row in each window, out of their sums.

    >>> table = pa.table({"keylane_w0": pa.array([3 + (5 << 32)])})
    >>> unpacked(table, 2, packing=2).tolist()
    [[3, 5]]
    """
    out = np.empty((rows.num_rows, windows), np.int32)
    for first in range(0, windows, packing):
        sums = np.ascontiguousarray(_numbers(rows, f"{WINDOW}{first // packing}"))
        if packing == 1:
            if len(sums) and sums.max() >= 2**31:
                hint = "more windows: --windows 48"
                raise CountError.of(
                    "a key has more records in a window than can be counted", got=int(sums.max()), hint=hint
                )
            out[:, first] = sums
            continue
        halves = sums.astype("<i8", copy=False).view("<i4").reshape(-1, 2)
        out[:, first : first + 2] = halves[:, : windows - first]
    return out


def spread(by_window: NDArray[Any], untimed: NDArray[np.int64]) -> NDArray[Any]:
    """Counts of which so many in each row have no time, and are in the first window: spread evenly over all of them.

    A window that had them all would be the peak that lanes are sized for.

    >>> spread(np.array([[5, 0, 0], [2, 1, 1]]), np.array([4, 1])).tolist()
    [[3, 1, 1], [1, 2, 1]]
    """
    many, until = by_window.shape[1], np.cumsum(untimed)
    if not untimed.any():
        return by_window
    ends = np.stack([(until + many - 1 - at) // many for at in range(many)], axis=1)
    shares = np.diff(ends, axis=0, prepend=0).astype(by_window.dtype)
    out = by_window + shares
    out[:, 0] -= untimed.astype(by_window.dtype)
    return out


def heaviest_first(records: NDArray[np.int64], base: pa.Array) -> NDArray[np.intp]:
    """The order of keys by records; of equal ones by murmur2 of their bytes, then by the bytes.

    Any order that follows from the keys alone would do, and millions of keys have one record each: numbers are sorted
    ten times as quickly as bytes.
    """
    hashes = hash_batch(HASHES["murmur2"], base).astype(np.uint32).astype(np.uint64)
    if len(records) and records.max() >= 2**32:
        order = np.lexsort((hashes, -records))
    else:
        ranks = ((np.uint64(2**32 - 1) - records.astype(np.uint64)) << np.uint64(32)) | hashes
        order = np.argsort(ranks)
    return _by_bytes_where_equal(order, records[order], hashes[order], base)


def _by_bytes_where_equal(
    order: NDArray[np.intp], records: NDArray[np.int64], hashes: NDArray[np.uint64], base: pa.Array
) -> NDArray[np.intp]:
    same = np.flatnonzero((records[1:] == records[:-1]) & (hashes[1:] == hashes[:-1]))
    if not len(same):
        return order
    for run in np.split(same, np.flatnonzero(np.diff(same) > 1) + 1):
        rows = order[run[0] : run[-1] + 2]
        values = base.take(pa.array(rows)).to_pylist()
        order[run[0] : run[-1] + 2] = rows[sorted(range(len(rows)), key=values.__getitem__)]
    return order


def _numbers(rows: pa.Table, name: str) -> Any:
    """A column of whole numbers; None where it is missing."""
    if name not in rows.column_names:
        return None
    return plain(rows.column(name)).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _empty(base: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.equal(pc.binary_length(base), 0).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _taken(fields: pa.Table, order: NDArray[np.intp]) -> pa.Table:
    rows = pa.array(order)
    return pa.table({name: plain(fields.column(name)).take(rows) for name in fields.column_names})


def _without(
    rows: pa.Table,
    records: NDArray[np.int64],
    misfit: NDArray[np.bool_],
    empty: NDArray[np.bool_],
    null: NDArray[np.bool_],
) -> WithoutKey:
    """Unreadable records are in the row of the null key: the ones that were counted as such are malformed, not null."""
    marked = _numbers(rows, MALFORMED)
    unread = 0 if marked is None else int(marked.sum())
    nulls = int(records[null & ~misfit].sum()) - unread
    return WithoutKey(nulls, int(records[empty].sum()), int(records[misfit].sum()) + unread)


def observed_lanes(
    rows: pa.Table, head: ProfileMetadata, lanes: int, contract: Contract | None, space: KeySpace | None = None
) -> tuple[pa.Table, ObservedLanes]:
    """The rows with each key once, and the records of each lane in each window.

    A key that was seen in several lanes is several rows: the contract gives it one of them, and what lies in the
    others is misplaced. Lines that cannot be read are in no lane (-1): counted in one, they would make it hot.
    """
    at = plain(rows.column(LANE)).to_numpy(zero_copy_only=False)
    counts = unpacked(rows, len(head.windows), head.packing)
    by_window = np.zeros((max(lanes, int(at.max(initial=-1)) + 1), len(head.windows)), np.int64)
    np.add.at(by_window, at[at >= 0], counts[at >= 0])
    untimed = _numbers(rows, UNTIMED)
    if untimed is not None:
        by_window = spread(by_window, np.bincount(at[at >= 0], untimed[at >= 0], len(by_window)).astype(np.int64))
    misplaced = None if contract is None else _misplaced(rows, at, counts, by_window.shape[0], contract, space)
    sums = [(name, "sum") for name in rows.column_names if name not in head.key.fields and name != LANE]
    merged = rows.drop_columns([LANE]).group_by(list(head.key.fields)).aggregate(sums)
    named = merged.rename_columns(
        [name.removesuffix("_sum") if name.startswith("keylane_") else name for name in merged.column_names]
    )
    return named, ObservedLanes(by_window, misplaced)


def _misplaced(
    rows: pa.Table,
    at: NDArray[Any],
    counts: NDArray[np.int32],
    lanes: int,
    contract: Contract,
    space: KeySpace | None,
) -> int | None:
    """Records in another lane than the contract's; None where their lane depends on more than the key."""
    if set(fields_of(contract)) - set(contract.spec.key.fields):
        return None
    live = contract.spec.lanes == "live"
    router = Router(contract, lanes=lanes if live else None, key_space=space if live else None)
    decided = decide(router, rows)
    bound = (at >= 0) & (decided.reason < 0) & (decided.stream == 0) & ~decided.by_position
    return int(counts[bound & (decided.lane != at)].sum(dtype=np.int64))


def fingerprint_of(profile: Profile) -> str:
    """One number for what was observed: the same records of a source under the same windows have the same."""
    base = as_binary(read_batch(profile.keys, profile.key).base)
    lengths, data = lengths_and_data(base)
    digest = hashlib.sha256(json.dumps(_known(profile), sort_keys=True, separators=(",", ":")).encode())
    for part in (lengths.astype("<i8"), data, profile.by_window.astype("<i4", copy=False)):
        digest.update(np.ascontiguousarray(part).data)
    if profile.size is not None:
        digest.update(np.ascontiguousarray(profile.size.astype("<i8", copy=False)).data)
    return digest.hexdigest()


def _known(profile: Profile) -> dict[str, Any]:
    without, lanes, approximate = profile.without_key, profile.lanes, profile.approximate
    return {
        "source": profile.source,
        "key": profile.key.model_dump(mode="json", by_alias=True),
        "windows": [profile.windows.kind, *profile.windows.edges],
        "without_key": [without.null, without.empty, without.malformed],
        "bytes": profile.bytes_total,
        "lanes": None if lanes is None else [lanes.by_window.tolist(), lanes.misplaced],
        "approximate": None if approximate is None else asdict(approximate),
        "facts": dict(profile.facts),
    }


# Approximate profiles: sketches of windows -> the heavy keys, with error bounds.


#: Keys that the sketch of a window keeps, and the precision of distinct counts.
TRACKED: Final = 100_000
PRECISION: Final = 14
_FACTOR: Final = 3.5
_LOAD: Final = 0.75


def counters_for(tracked: int) -> int:
    """How many counters a sketch has that keeps this many keys: the power of two that is never more than 3/4 full.

    >>> counters_for(10_000), counters_for(100_000)
    (16384, 262144)
    """
    return 1 << max(3, ceil(tracked / _LOAD) - 1).bit_length()


def most_over(records: int, tracked: int) -> int:
    """How many records too many a sketch may give a key.

    >>> most_over(1_000_000, 10_000), most_over(1_000, 10_000)
    (214, 0)
    """
    counters = counters_for(tracked)
    return 0 if records < _LOAD * counters else ceil(_FACTOR * records / counters)


def sketched_profile(
    rows: Sequence[dict[str, Any]],
    head: ProfileMetadata,
    types: pa.Schema,
    distinct: tuple[list[int], list[int]],
    tracked: int,
) -> Profile:
    """The profile of what sketches kept; `types` are those of the key's fields, `distinct` by window and in all."""
    counts = _counts(rows, head, types)
    bounds = [most_over(row["keyed"], tracked) for row in rows]
    own, until = distinct
    keyed = sum(row["keyed"] for row in rows)
    by_window = {row["keylane_w"]: row["records"] for row in rows}
    facts = {
        **dict(head.facts),
        "tracked": tracked,
        "window_records": [by_window.get(n, 0) for n in range(len(head.windows))],
        "window_keys": own,
        "window_new_keys": np.diff(until, prepend=0).tolist(),
    }
    made = profile_of(counts, replace(head, packing=1, facts=tuple(facts.items())))
    untracked = max(0, keyed - int(made.by_window.sum(dtype=np.int64)))
    error = 3 * 1.04 / sqrt(1 << PRECISION)
    left = Approximation(sum(bounds), until[-1] if until else 0, round(error, 6), untracked, 2 * sum(bounds))
    none = WithoutKey(*(sum(row[name] for row in rows) for name in ("null", "empty", "malformed")))
    size = sum(row["bytes"] or 0 for row in rows) if rows and "bytes" in rows[0] else head.bytes_total
    made = replace(made, approximate=left, without_key=none, bytes_total=size)
    return replace(made, fingerprint=fingerprint_of(made))


def _counts(rows: Sequence[dict[str, Any]], head: ProfileMetadata, types: pa.Schema) -> pa.Table:
    """The pairs of all windows as counted rows: a key, and a sum for each window."""
    tokens: dict[Any, int] = {}
    for row in rows:
        for one in row["heavy"] or ():
            tokens.setdefault(one["item"], len(tokens))
    counts = np.zeros((len(tokens), len(head.windows)), np.int64)
    for row in rows:
        for one in row["heavy"] or ():
            counts[tokens[one["item"]], row["keylane_w"]] += one["count"]
    columns = _fields(list(tokens), types)
    return pa.table({**columns, **{f"keylane_w{n}": counts[:, n] for n in range(len(head.windows))}})


def _fields(tokens: list[Any], types: pa.Schema) -> dict[str, pa.Array]:
    """The fields of keys, out of what stood for them in the sketch."""
    if len(types) == 1 and not pa.types.is_binary(types.field(0).type):
        return {types.names[0]: pa.array(tokens, types.field(0).type)}
    records = [json.loads(token) for token in tokens]
    return {field.name: pa.array([_value(r[field.name], field) for r in records], field.type) for field in types}


def _value(value: Any, field: pa.Field) -> Any:
    return bytes.fromhex(value) if value is not None and pa.types.is_binary(field.type) else value

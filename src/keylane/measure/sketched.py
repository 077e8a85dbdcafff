"""Sketches of windows -> a profile of the heavy keys, with what it leaves open.

The rule: a sketch of frequent items has room for M counters (a power of two). Of N records it gives a key at most
3.5 N / M too many, and none too few; while N is below 0.75 M it is exact. It lists the keys of which it is sure, so
that one with fewer than twice that bound may be missing. This is what the library promises whose sketches Spark uses
(Apache DataSketches, Frequent Items). Here each window has a sketch of its own, so a key's records are over by at most
the sum of the bounds, and, where a window has not listed it, under by at most twice that.

Distinct keys are HyperLogLog's with 2**precision counters: a standard error of 1.04 / sqrt(2**precision), of which
three are stated.

Worked example: 16,384 counters and 1 M records in each of 24 windows: bounds of 214 a window, 5,127 in all, or 0.02 %
of the records. More windows change nothing in that; more counters do. When not to use it: where the keys fit into
memory, counting them is exact and about as quick.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.measure.counted import fingerprint_of, profile_of
from keylane.measure.profile import Approximation, Profile, WithoutKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.measure.counted import Head

__all__ = ["PRECISION", "TRACKED", "counters_for", "most_over", "sketched_profile"]

#: Keys that the sketch of a window keeps, and the precision of distinct counts.
TRACKED: Final = 100_000
PRECISION: Final = 14
_FACTOR: Final = 3.5
_LOAD: Final = 0.75


def counters_for(tracked: int) -> int:
    """How many counters a sketch has that keeps so many keys: the power of two that is never more than 3/4 full.

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
    rows: Sequence[dict[str, Any]], head: Head, types: pa.Schema, distinct: tuple[list[int], list[int]], tracked: int
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
    untold = max(0, keyed - int(made.by_window.sum(dtype=np.int64)))
    error = 3 * 1.04 / sqrt(1 << PRECISION)
    left = Approximation(sum(bounds), until[-1] if until else 0, round(error, 6), untold, 2 * sum(bounds))
    none = WithoutKey(*(sum(row[name] for row in rows) for name in ("null", "empty", "malformed")))
    size = sum(row["bytes"] or 0 for row in rows) if rows and "bytes" in rows[0] else head.bytes_total
    made = replace(made, approximate=left, without_key=none, bytes_total=size)
    return replace(made, fingerprint=fingerprint_of(made))


def _counts(rows: Sequence[dict[str, Any]], head: Head, types: pa.Schema) -> pa.Table:
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

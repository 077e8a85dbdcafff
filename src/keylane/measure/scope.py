"""What a contract keeps in order of each record: the bytes that name its order scope.

Two records have the same scope when the contract promises that they stay in order and in one lane: those of one key; of
one key and window; of one key and sub-key where a key is spread; of one cell where lanes are by place. None where it
promises nothing: keyless rules, spreads by position, records without a lane. The same promises in words, before there
is data: `contract.answers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.keys.binary import as_binary, nulls_of
from keylane.keys.columns import encode_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.batches import Decided
    from keylane.placement.overrides import HotRule
    from keylane.router import Router

__all__ = ["order_scopes"]


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

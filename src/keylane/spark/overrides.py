"""Hot keys and tables of a contract as look-ups by base key: literals while they are few, broadcast joins when many.

A join here adds columns and nothing else: its keys are unique and every row of the frame stays, in order. A column
alone (`lane`) cannot join; `few_enough` tells whether it needs to. What a rule then does: `decide`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from keylane.spark.hashes import bisected, constant_texts
from keylane.spark.keys import PREFIX

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from pyspark.sql import Column, DataFrame

    from keylane.placement.overrides import HotRule, Overrides
    from keylane.placement.table import LaneTable
    from keylane.spark.keys import Bytes

#: Keys up to which a look-up is written into the expression.
FEW: Final = 64
#: Different behaviours of hot keys up to which each gets a branch of the expression.
FEW_BEHAVIOURS: Final = 32


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What the overrides know of each row's base key, null where nothing; None where no row can have it."""

    pin: Column | None = None
    behaviour: Column | None = None
    table_lane: Column | None = None
    table_lanes: Column | None = None
    table_range: Column | None = None


@dataclass(frozen=True, slots=True)
class _LookUp:
    """One column to find by base key: what it is in `LookedUp`, its Arrow type, and its values."""

    name: str
    kind: pa.DataType
    values: Mapping[bytes, Any]


def without(overrides: Overrides, keys: Mapping[bytes, object]) -> Overrides:
    """The overrides but for those of some keys, which are looked up otherwise."""
    return replace(overrides, hot={key: rule for key, rule in overrides.hot.items() if key not in keys})


def behaviours(overrides: Overrides) -> list[HotRule]:
    """Spreads and tiers, each once, in the order of the contract. Pins are not among them: a pin is a lane."""
    return list({rule.where: rule for rule in overrides.hot.values() if rule.pin is None}.values())


def few_enough(overrides: Overrides, *, joins: bool) -> bool:
    """Whether the overrides fit into expressions, with or without joins."""
    if len(behaviours(overrides)) > FEW_BEHAVIOURS:
        return False
    return joins or all(len(look_up.values) <= FEW for look_up in _look_ups(overrides))


def _look_ups(overrides: Overrides) -> list[_LookUp]:
    order = {rule.where: i for i, rule in enumerate(behaviours(overrides))}
    listed = overrides.table.values if overrides.table else {}
    look_ups = [
        _LookUp("pin", pa.int32(), {key: rule.pin for key, rule in overrides.hot.items() if rule.pin is not None}),
        _LookUp("behaviour", pa.int32(), {k: order[r.where] for k, r in overrides.hot.items() if r.pin is None}),
        _LookUp("table_lane", pa.int32(), {key: lanes[0] for key, lanes in listed.items() if len(lanes) == 1}),
        _LookUp("table_lanes", pa.list_(pa.int32()), {key: lanes for key, lanes in listed.items() if len(lanes) > 1}),
    ]
    return [look_up for look_up in look_ups if look_up.values]


def by_literals(overrides: Overrides, base: Bytes) -> LookedUp:
    """Every look-up inside the expression."""
    listed = {look_up.name: _literal(look_up, base.binary) for look_up in _look_ups(overrides)}
    return LookedUp(**listed, table_range=_range_of(overrides.table, base))


def by_joins(frame: DataFrame, overrides: Overrides, base: Bytes) -> tuple[DataFrame, LookedUp]:
    """Few keys inside the expression, many by a join of the frame with a small table that every worker holds.

    Each is a column of its own either way: every branch reads it, and Spark shares nothing between branches.
    """
    look_ups = _look_ups(overrides)
    made = {look_up.name: _literal(look_up, base.binary) for look_up in look_ups if len(look_up.values) <= FEW}
    in_range = _range_of(overrides.table, base)
    if in_range is not None:
        made["table_range"] = in_range
    frame = frame.select("*", *(column.alias(f"{PREFIX}{name}") for name, column in made.items()))
    for look_up in look_ups:
        if look_up.name not in made:
            frame = _joined(frame, look_up, base.binary)
    names = {*made, *(look_up.name for look_up in look_ups)}
    return frame, LookedUp(**{name: F.col(f"{PREFIX}{name}") for name in names})


def _literal(look_up: _LookUp, base: Column) -> Column:
    """One branch for each different value, with all keys that have it."""
    groups: dict[Hashable, list[bytes]] = {}
    for key, value in look_up.values.items():
        groups.setdefault(value, []).append(key)
    out = F.lit(None)
    for value, keys in groups.items():
        literal = F.array(*map(F.lit, value)) if isinstance(value, tuple) else F.lit(value)
        out = F.when(base.isin(keys), literal).otherwise(out)
    return out


def _joined(frame: DataFrame, look_up: _LookUp, base: Column) -> DataFrame:
    key, name = f"{PREFIX}{look_up.name}_key", f"{PREFIX}{look_up.name}"
    values = pa.array(look_up.values.values(), look_up.kind)
    table = pa.table({key: pa.array(look_up.values.keys(), pa.binary()), name: values})
    small = F.broadcast(frame.sparkSession.createDataFrame(table))
    return frame.join(small, base == F.col(key), "left").drop(key)


def _range_of(table: LaneTable | None, base: Bytes) -> Column | None:
    """The lane of the range that a key lies in: bisection over constant arrays, so that 10,000 ranges are 14 steps.

    Keys and bounds are compared as hex text, which has the order of the bytes; numbers are shifted to be above zero.
    """
    if table is None or not table.range_lanes:
        return None
    key = _comparable(table, base)
    starts = constant_texts("" if start is None else _as_text(start) for start in table.starts)
    ends = constant_texts("g" if end is None else _as_text(end) for end in table.ends)
    at = bisected(key, starts, len(table.starts)) - 1
    return F.when(key < F.get(ends, at), F.get(constant_texts(map(str, table.range_lanes)), at).cast("int"))


def _comparable(table: LaneTable, base: Bytes) -> Column:
    if not table.by_number:
        return F.hex(base.binary)
    assert base.number is not None
    return F.lpad(F.hex(base.number.bitwiseXOR(F.lit(-(2**63)))), 16, "0")


def _as_text(bound: bytes | int) -> str:
    return bound.hex().upper() if isinstance(bound, bytes) else f"{bound + 2**63:016X}"

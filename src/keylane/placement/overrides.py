"""Hot keys and tables of a contract, encoded once and ready for look-up by base key.

Precedence: a hot key's own rule, then the table, then the hash. Every key that neither names stays where it was.
What a rule does to a lane is `spread` and `table`; when it is asked is `keylane.router`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keylane.keys.read import encode_key_value
from keylane.placement.table import LaneTable, compile_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from keylane.contract.model import Contract, Spread


@dataclass(frozen=True, slots=True)
class HotRule:
    """What one hot key does: a lane of its own, several lanes, or another stream (then maybe several lanes there)."""

    where: str
    pin: int | None = None
    spread: Spread | None = None
    stream: str | None = None
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """Everything that can overrule the hash."""

    hot: Mapping[bytes, HotRule]
    table: LaneTable | None
    table_by: str | None
    table_rejects: bool

    @property
    def any(self) -> bool:
        """Whether there is anything to look up at all."""
        return bool(self.hot) or self.table is not None


def compile_overrides(contract: Contract) -> Overrides:
    """Encode a contract's hot keys and table in the bytes that records will be looked up by."""
    spec = contract.spec
    table = compile_table(spec.table, spec.key) if spec.table else None
    rejects = spec.table is not None and spec.table.otherwise == "reject"
    return Overrides(_hot(contract), table, spec.table.by if spec.table else None, rejects)


def named_lanes(contract: Contract) -> Iterator[int]:
    """Every lane of the stream that hot keys, the table and leaves name; `over: n` names the n-th."""
    for rule in contract.spec.hot_keys:
        yield from rule.pinned or ()
        if rule.spread:
            yield from rule.spread.lanes or ((rule.spread.over or 1) - 1,)
    table = contract.spec.table
    for lanes in table.values.values() if table else ():
        yield from lanes if isinstance(lanes, tuple) else (lanes,)
    yield from (one.lane for one in table.ranges) if table else ()
    leaves = contract.spec.geo.leaves if contract.spec.geo else ()
    yield from (lane for lane, cells in enumerate(leaves) if cells.strip())


def _hot(contract: Contract) -> dict[bytes, HotRule]:
    out = {}
    for i, rule in enumerate(contract.spec.hot_keys):
        where = f"hot_keys[{i}]"
        for j, key in enumerate(rule.named):
            base = encode_key_value(key, contract.spec.key)
            if rule.tier:
                out[base] = HotRule(where, spread=rule.tier.spread, stream=rule.tier.stream, lanes=rule.tier.lanes)
            else:
                out[base] = HotRule(where, pin=rule.pinned[j] if rule.pinned else None, spread=rule.spread)
    return out

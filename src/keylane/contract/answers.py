"""Answers of a contract before it runs: order scope, lanes a key uses, merging readers.

`check`, `plan`, `evolve` and the documentation all read this.

For each rule of a contract (every other key, each group of hot keys, a table, leaves) it gives: what is kept in order,
how many lanes one key can use, and whether readers must merge. What share of keys a change moves: `contract.moved`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from keylane.contract.partitioners import FACTS
from keylane.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.contract.model import Contract, Spread

#: What is kept in order, strongest first.
OrderScope: TypeAlias = Literal["per-key", "per-key-and-window", "per-sub-key", "none"]
_STRENGTH: dict[OrderScope, int] = {"per-key": 0, "per-key-and-window": 1, "per-sub-key": 2, "none": 3}


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one rule. `lanes_per_key` is None where it depends on the live lane count."""

    rule: str
    order_scope: OrderScope
    lanes_per_key: int | None
    readers_merge: bool


def answers(contract: Contract) -> tuple[Answers, ...]:
    """Ask every rule of the contract; the first answer is that of all keys no other rule speaks of."""
    check_contract(contract)
    return (_tail(contract), *_hot(contract), *_table(contract), *_leaves(contract))


def check_contract(given: object) -> None:
    """Refuse what is not a `Contract`: the text or the path of one is read by `load_contract` and `parse_contract`."""
    from keylane.contract.model import Contract

    if not isinstance(given, Contract):
        hint = "load_contract(path), or parse_contract(text)"
        raise ArgumentError.of("not a contract", got=given, allowed="a Contract", hint=hint)


def weakest(given: Sequence[Answers]) -> OrderScope:
    """The order scope a reader may rely on for every key."""
    return max((one.order_scope for one in given), key=_STRENGTH.__getitem__)


def keeps_order(scope: OrderScope, wanted: OrderScope) -> bool:
    """Whether one order scope is at least as strong as another.

    >>> keeps_order("per-key", "per-sub-key"), keeps_order("none", "per-key")
    (True, False)
    """
    return _STRENGTH[scope] <= _STRENGTH[wanted]


def _tail(contract: Contract) -> Answers:
    facts = FACTS[contract.spec.partitioner]
    lanes = None if contract.spec.lanes == "live" else contract.spec.lanes
    if facts.fold == "keyless":
        return Answers("every other key", "none", lanes, readers_merge=True)
    if contract.spec.key.window is not None:
        return Answers("every other key", "per-key-and-window", lanes, readers_merge=True)
    return Answers("every other key", "per-key", 1, readers_merge=False)


def _hot(contract: Contract) -> list[Answers]:
    tail = _tail(contract)
    out = []
    for i, rule in enumerate(contract.spec.hot_keys):
        name = f"hot_keys[{i}]"
        spread = rule.spread or (rule.tier.spread if rule.tier else None)
        lanes = rule.tier.lanes if rule.tier else None if contract.spec.lanes == "live" else contract.spec.lanes
        if spread:
            out.append(_spread(name, spread, lanes if contract.spec.key.window else spread.over))
        elif rule.pinned:
            out.append(Answers(name, "per-key", 1, readers_merge=False))
        else:
            out.append(Answers(name, tail.order_scope, 1 if tail.lanes_per_key == 1 else lanes, tail.readers_merge))
    return out


def _spread(name: str, spread: Spread, over: int | None) -> Answers:
    """A spread counted from the key's own lane begins elsewhere in every window, so it can use all lanes there."""
    width = len(spread.lanes) if spread.lanes else over
    return Answers(name, "none" if spread.by_position else "per-sub-key", width, readers_merge=True)


def _table(contract: Contract) -> list[Answers]:
    table = contract.spec.table
    if table is None:
        return []
    widest = max((len(v) if isinstance(v, tuple) else 1 for v in table.values.values()), default=1)
    return [Answers("table", "per-key" if widest == 1 else "per-sub-key", widest, readers_merge=widest > 1)]


def _leaves(contract: Contract) -> list[Answers]:
    """A leaf's cells are on its one lane, so all records of a cell are; those of one that moves about are not."""
    geo = contract.spec.geo
    there = geo is not None and any(cells.strip() for cells in geo.leaves)
    return [Answers("geo.leaves", "per-key", 1, readers_merge=False)] if there else []

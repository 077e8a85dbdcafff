"""What a contract keeps in order, and for how much of the day. Pure.

The order scopes are the contract's own answers (`contract.answers`); here they only get the keys and records they are
about. Whether the data agrees is counted apart, by `counts.parted`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keylane.contract.answers import Answers, OrderScope, answers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from keylane.contract.model import Contract

__all__ = ["Scope", "order_kept", "sub_key_of"]


@dataclass(frozen=True, slots=True)
class Scope:
    """One order scope of a contract: `unit` is in order, for that many keys with that share of the records."""

    order_scope: OrderScope
    unit: str
    keys: int
    share: float
    lanes_per_key: int | None
    readers_merge: bool


def order_kept(contract: Contract, records: Mapping[str, int]) -> list[Scope]:
    """The contract's answers, those of one order scope together, the weakest last; `records` are those of each key."""
    tail, *rules = answers(contract)
    named = [[key for key in keys if key in records] for keys in _named(contract)]
    listed = {key for keys in named for key in keys}
    asked = [(tail, [key for key in records if key not in listed]), *zip(rules, named, strict=True)]
    scopes = dict.fromkeys(answer.order_scope for answer, _ in asked)
    grouped = [[one for one in asked if one[0].order_scope == scope] for scope in scopes]
    return [scope for group in grouped if (scope := _scope(contract, group, records)).keys]


def _scope(contract: Contract, group: list[tuple[Answers, list[str]]], records: Mapping[str, int]) -> Scope:
    told = [answer for answer, keys in group if keys] or [group[0][0]]
    widths = [answer.lanes_per_key for answer in told]
    return Scope(
        told[0].order_scope,
        _unit(contract, told[0].order_scope),
        sum(len(keys) for _, keys in group),
        sum(records[key] for _, keys in group for key in keys) / max(1, sum(records.values())),
        None if None in widths else max(width or 0 for width in widths),
        any(answer.readers_merge for answer in told),
    )


def _unit(contract: Contract, scope: OrderScope) -> str:
    """What is in order, in the contract's own names."""
    key = ", ".join(contract.spec.key.fields)
    window = contract.spec.key.window
    units: dict[OrderScope, str] = {
        "per-key": key,
        "per-key-and-window": f"{key} and {window.size}" if window else key,
        "per-sub-key": sub_key_of(contract) or key,
        "none": "nothing",
    }
    return units[scope]


def sub_key_of(contract: Contract) -> str | None:
    """The first sub-key that a contract divides keys by."""
    return next(iter(_sub_keys(contract)), None)


def _sub_keys(contract: Contract) -> Iterable[str]:
    table = contract.spec.table
    spreads = [rule.spread for rule in contract.spec.hot_keys if rule.spread]
    return [by for by in (*(spread.by for spread in spreads), table.by if table else None) if by]


def _named(contract: Contract) -> list[list[str]]:
    """The keys that each answer after the first is about."""
    table = contract.spec.table
    return [
        *([str(key) for key in rule.keys] for rule in contract.spec.hot_keys),
        *([[str(key) for key in table.values]] if table else []),
    ]

"""Counts -> figures: how full the fullest lane is, which keys are hot, what another lane count would move. Pure.

The shapes of what is printed, and of `figures.json`: `documents.demo`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from keylane.contract.answers import Answers, OrderScope, answers
from keylane.contract.moved import moved_share
from keylane.documents.demo import DemoHotKey, DemoTrial, LaneDrift, OrderKept, Parted
from keylane.measure.balance import max_over_mean
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from keylane.contract.model import Contract
    from keylane.pipelines.demo.contracts import DemoContract

# What is counted of a day: the values between `counts` (Spark) and `figures` (pure).

#: Half hours of the day, and the first of those that a contract made from the morning has not seen.
BUCKETS: Final = 48
NOON: Final = 24


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Every key, its records in the day, and those of them before noon."""

    keys: list[str]
    day: NDArray[np.int64]
    morning: NDArray[np.int64]

    @property
    def of_day(self) -> dict[str, int]:
        """The records of each key."""
        return dict(zip(self.keys, self.day.tolist(), strict=True))

    @property
    def of_morning(self) -> dict[str, int]:
        """The records before noon of each key that had any."""
        pairs = zip(self.keys, self.morning.tolist(), strict=True)
        return {key: records for key, records in pairs if records}

    def heaviest(self, most: int) -> list[str]:
        """The keys with the most records, first the heaviest; ties by name, so that a day has one answer."""
        of_day = self.of_day
        return sorted(self.keys, key=lambda key: (-of_day[key], key))[:most]


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """Records of each lane (rows) in each half hour (columns); those without a lane; those whose lane is a new one."""

    cells: NDArray[np.int64]
    unplaced: int
    moved: int


#: Changes of lane count that people make.
CHANGES: Final = ((6, 8), (10, 11), (12, 18), (12, 24), (50, 60), (64, 65), (64, 96), (64, 128))


def trial(
    choice: DemoContract, counts: LaneCounts, scopes: list[OrderKept], keys: Parted, sub_keys: Parted | None
) -> DemoTrial:
    """All figures of one contract."""
    cells = counts.cells
    lanes = cells.sum(axis=1)
    records = int(lanes.sum()) + counts.unplaced
    return DemoTrial(
        name=choice.name,
        title=choice.title,
        source=choice.source,
        fingerprint=choice.contract.fingerprint,
        lanes=len(cells),
        records=records,
        unplaced=counts.unplaced,
        max_over_mean=max_over_mean(lanes),
        before_noon=max_over_mean(cells[:, :NOON].sum(axis=1)),
        after_noon=max_over_mean(cells[:, NOON:].sum(axis=1)),
        fullest_half_hour=float(cells.max() / cells.mean()),
        fullest_lane=int(lanes.argmax()),
        fullest_share=float(lanes.max() / records),
        idle_lanes=int((lanes == 0).sum()),
        moved=counts.moved / records,
        keys=keys,
        sub_keys=sub_keys,
        order=scopes,
        cells=cells.tolist(),
    )


def hot_keys(
    counts: KeyCounts, lanes: int, before: Mapping[str, list[int]], after: Mapping[str, list[int]]
) -> list[DemoHotKey]:
    """The requested keys with their shares, heaviest first."""
    of_day, total = counts.of_day, int(counts.day.sum())
    return [
        DemoHotKey(
            key=key,
            share=of_day[key] / total,
            mean_lanes=of_day[key] / total * lanes,
            before=before[key],
            after=after[key],
        )
        for key in sorted(before, key=lambda key: (-of_day[key], key))
    ]


def drift(keys: Sequence[str], records: NDArray[np.int64]) -> list[LaneDrift]:
    """Which share of keys, and of the records they have, changes lane under Kafka's murmur2.

    No contract is involved: it is what `hash mod n` does to everyone, whichever keys are hot.
    """
    rule, routing_keys, total = partitioner("kafka-java"), pa.array(keys), records.sum()
    out = []
    for old, new in CHANGES:
        moves = rule.hashed_lanes(routing_keys, old) != rule.hashed_lanes(routing_keys, new)
        made = LaneDrift(
            old=old,
            new=new,
            expected=1 - old / new,
            formula=float(moved_share("kafka-java", old, new) or 0),
            moved=int(moves.sum()),
            keys=float(moves.mean()),
            records=float(records[moves].sum() / total),
        )
        out.append(made)
    return out


# What a contract keeps in order, and for how much of the day. Pure.


def order_kept(contract: Contract, records: Mapping[str, int]) -> list[OrderKept]:
    """The contract's answers, those of one order scope together, the weakest last; `records` are those of each key."""
    tail, *rules = answers(contract)
    named = [[key for key in keys if key in records] for keys in _named(contract)]
    listed = {key for keys in named for key in keys}
    asked = [(tail, [key for key in records if key not in listed]), *zip(rules, named, strict=True)]
    scopes = dict.fromkeys(answer.order_scope for answer, _ in asked)
    grouped = [[one for one in asked if one[0].order_scope == scope] for scope in scopes]
    return [scope for group in grouped if (scope := _scope(contract, group, records)).keys]


def _scope(contract: Contract, group: list[tuple[Answers, list[str]]], records: Mapping[str, int]) -> OrderKept:
    answered = [answer for answer, keys in group if keys] or [group[0][0]]
    widths = [answer.lanes_per_key for answer in answered]
    return OrderKept(
        order_scope=answered[0].order_scope,
        unit=_unit(contract, answered[0].order_scope),
        keys=sum(len(keys) for _, keys in group),
        share=sum(records[key] for _, keys in group for key in keys) / max(1, sum(records.values())),
        lanes_per_key=None if None in widths else max(width or 0 for width in widths),
        readers_merge=any(answer.readers_merge for answer in answered),
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
        *([str(key) for key in rule.named] for rule in contract.spec.hot_keys),
        *([[str(key) for key in table.values]] if table else []),
    ]

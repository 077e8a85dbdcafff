"""Counts -> figures: how full the fullest lane is, who is hot, what another lane count would move. Pure.

Plain data for `-o json`, `figures.json` and the page: `as_document`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keylane.contract.answers import Answers, OrderScope, answers, moved_share
from keylane.measure.balance import max_over_mean
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from keylane.contract.model import Contract
    from keylane.pipelines.demo.contracts import Choice

__all__ = [
    "BUCKETS",
    "CHANGES",
    "NOON",
    "SCHEMA",
    "Case",
    "Demo",
    "Drift",
    "HotKey",
    "KeyCounts",
    "LaneCounts",
    "Parted",
    "Scope",
    "Trial",
    "as_document",
    "drift",
    "hot_keys",
    "order_kept",
    "sub_key_of",
    "trial",
]


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


@dataclass(frozen=True, slots=True)
class Parted:
    """How many groups there are, and how many of them have records on more than one lane."""

    groups: int
    parted: int


SCHEMA: Final = "keylane.demo/1"
#: Changes of lane count that people make.
CHANGES: Final = ((6, 8), (10, 11), (12, 18), (12, 24), (50, 60), (64, 65), (64, 96), (64, 128))


@dataclass(frozen=True, slots=True)
class Trial:
    """One contract on one day. Figures of fullness are in mean lanes: 1 is perfect."""

    name: str
    title: str
    source: str
    fingerprint: str
    lanes: int
    records: int
    unplaced: int
    max_over_mean: float
    before_noon: float
    after_noon: float
    fullest_half_hour: float
    fullest_lane: int
    fullest_share: float
    idle_lanes: int
    moved: float
    keys: Parted
    sub_keys: Parted | None
    order: list[Scope]
    cells: list[list[int]]


@dataclass(frozen=True, slots=True)
class HotKey:
    """A heavy key: its share of the day, how many mean lanes that is, and the lanes it was seen on before and after."""

    key: str
    share: float
    mean_lanes: float
    before: list[int]
    after: list[int]


@dataclass(frozen=True, slots=True)
class Drift:
    """What really moves when a lane count changes: how many keys, and the shares of keys and records.

    `expected` is the share that the new lanes take, which is what many expect to move and the least that must;
    `formula` is what `hash mod n` moves.
    """

    old: int
    new: int
    expected: float
    formula: float
    moved: int
    keys: float
    records: float


@dataclass(frozen=True, slots=True)
class Case:
    """One stream, the contracts it was tried under, and which of them is compared with the first.

    `private` says that its keys name somebody: a page cuts and hashes them.
    """

    name: str
    key: str
    sub_key: str | None
    private: bool
    records: int
    distinct_keys: int
    chosen: int
    trials: list[Trial]
    hot_keys: list[HotKey]


@dataclass(frozen=True, slots=True)
class Demo:
    """All that the demo found."""

    schema: str
    version: str
    spark: str
    seed: int
    scale: float
    day: str
    cases: list[Case]
    merchants: int
    drift: list[Drift]


def trial(choice: Choice, counts: LaneCounts, scopes: list[Scope], keys: Parted, sub_keys: Parted | None) -> Trial:
    """Everything that is said of one contract."""
    cells = counts.cells
    lanes = cells.sum(axis=1)
    records = int(lanes.sum()) + counts.unplaced
    return Trial(
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
) -> list[HotKey]:
    """The keys that were looked for, with their shares, heaviest first."""
    of_day, total = counts.of_day, int(counts.day.sum())
    return [
        HotKey(key, of_day[key] / total, of_day[key] / total * lanes, before[key], after[key])
        for key in sorted(before, key=lambda key: (-of_day[key], key))
    ]


def drift(keys: Sequence[str], records: NDArray[np.int64]) -> list[Drift]:
    """Which share of keys, and of the records they have, changes lane under Kafka's murmur2.

    No contract is involved: it is what `hash mod n` does to everyone, whichever keys are hot.
    """
    rule, routing_keys, total = partitioner("kafka-java"), pa.array(keys), records.sum()
    out = []
    for old, new in CHANGES:
        moves = rule.hashed_lanes(routing_keys, old) != rule.hashed_lanes(routing_keys, new)
        formula = float(moved_share("kafka-java", old, new) or 0)
        share = float(records[moves].sum() / total)
        out.append(Drift(old, new, 1 - old / new, formula, int(moves.sum()), float(moves.mean()), share))
    return out


def as_document(value: Any) -> Any:
    """A dataclass as plain data, with floats short enough to read."""
    return _rounded(asdict(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 5) if isinstance(value, float) else value


# What a contract keeps in order, and for how much of the day. Pure.


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

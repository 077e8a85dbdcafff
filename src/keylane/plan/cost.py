"""What a change of contract costs on real traffic: keys and records moved, what waits, what breaks, what is frozen.

The kind of change comes from `contract.evolve`, here as there. Counted here is what needs the keys: how many really
change lane, with how many records, and which old lanes each new lane must wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from keylane.contract.evolve import Change, evolve_on
from keylane.contract.fingerprint import key_bytes_form, placement_form
from keylane.contract.partitioners import FACTS
from keylane.errors import UsageError
from keylane.placement.fold import lane_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from keylane.contract.model import Contract

#: More waits than this are reported as numbers, not one by one.
SHOWN: Final = 10_000
Rule: TypeAlias = Literal["gcd", "keys"]


@dataclass(frozen=True, slots=True)
class MovedShares:
    """Shares of the keys, and of their records, whose lane becomes another."""

    keys: float
    traffic: float


@dataclass(frozen=True, slots=True)
class Drain:
    """Which old lanes each new lane waits for: its parents, its own number among them where keys stay.

    `from_several`: new lanes with keys that had several lanes, or none, before; they wait for every old lane.
    """

    rule: Rule
    old_lanes: int
    new_lanes: int
    parents: tuple[tuple[int, ...], ...]
    from_several: tuple[int, ...] = ()

    @property
    def fan_in(self) -> int:
        """The most parents of a lane."""
        return max((len(parents) for parents in self.parents), default=0)

    @property
    def readable_parents(self) -> tuple[tuple[int, ...], ...] | None:
        """The parents; None where they are too many to read."""
        return self.parents if sum(map(len, self.parents)) <= SHOWN else None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a change. Nothing of it is known, and all is None or empty, where there is no contract today."""

    moved: MovedShares | None
    #: What is expected of keys that no rule names, next to what was counted; None where nothing can be.
    expected_keys: float | None
    drain: Drain | None
    changes: tuple[Change, ...]
    breaks: tuple[str, ...]
    epoch_to_raise: int | None
    #: What Spark's checkpoints hold on to; None while the lane count stays.
    state: str | None

    @property
    def possible(self) -> bool:
        """Whether the change can be made in place."""
        return all(change.kind != "impossible" for change in self.changes)


def cost(
    old: Contract | None,
    new: Contract,
    old_lanes: ArrayLike,
    new_lanes: ArrayLike,
    key_records: ArrayLike,
    *,
    counts: tuple[int, int],
    others: Sequence[Contract] = (),
) -> Cost:
    """Count what going from `old` to `new` does to these keys.

    `old_lanes` and `new_lanes` hold each key's lane, -1 for a key with several lanes or none. `counts` are the two lane
    counts, which a contract with live lanes does not contain. `others` are contracts of streams joined with these.
    """
    if old is None:
        return Cost(None, None, None, (), (), None, None)
    was, now = np.asarray(old_lanes), np.asarray(new_lanes)
    before, after = lane_count(counts[0]), lane_count(counts[1])
    evolution = evolve_on(
        _on_lanes(old, before),
        _on_lanes(new, after),
        (_lanes(old, before), _lanes(new, after)),
        [_on_lanes(other, before) for other in others],
    )
    plain = _by_modulo(old) and _by_modulo(new) and _hashes_alike(old, new)
    return Cost(
        moved(was, now, np.asarray(key_records)),
        evolution.moved.share,
        drain_by_gcd(before, after) if plain else drain_by_keys(was, now, before, after),
        evolution.changes,
        tuple(change.message for change in evolution.of("breaks-co-partitioning")),
        evolution.epoch_to_raise,
        _state(before, after),
    )


def _on_lanes(contract: Contract, lanes: int) -> Contract:
    """The contract with the live lane count as a number, which `evolve` needs to count moved keys."""
    if contract.spec.lanes != "live":
        return contract
    return contract.model_copy(update={"spec": contract.spec.model_copy(update={"lanes": lanes})})


def _lanes(contract: Contract, lanes: int) -> int | None:
    """The live lane count, which says nothing of how wide shards are."""
    spec = contract.spec
    return lanes if spec.lanes == "live" and FACTS[spec.partitioner].fold != "ranges" else None


def _by_modulo(contract: Contract) -> bool:
    """Whether every key goes to its hash modulo the lanes, and no key elsewhere."""
    spec, fold = contract.spec, FACTS[contract.spec.partitioner].fold
    return fold not in ("ranges", "keyless") and not spec.hot_keys and spec.table is None and spec.geo is None


def _hashes_alike(old: Contract, new: Contract) -> bool:
    return (placement_form(old)["family"], key_bytes_form(old)) == (placement_form(new)["family"], key_bytes_form(new))


def moved(old_lanes: ArrayLike, new_lanes: ArrayLike, key_records: ArrayLike) -> MovedShares:
    """The shares of keys and of records that change lane, counted.

    A key with several lanes before and after counts as one that stays.

    >>> moved([0, 1, 2, -1], [0, 2, 2, 1], [50, 30, 10, 10])
    MovedShares(keys=0.5, traffic=0.4)
    """
    was, now, records = np.asarray(old_lanes), np.asarray(new_lanes), np.asarray(key_records)
    if not was.shape == now.shape == records.shape:
        raise UsageError.of("a lane before, a lane after and records for each key", got=(was.shape, now.shape))
    if not records.sum():
        return MovedShares(0.0, 0.0)
    other = was != now
    return MovedShares(float(other.mean()), float(records[other].sum() / records.sum()))


def drain_by_gcd(old: int, new: int) -> Drain:
    """For hash modulo n -> hash modulo m: new lane j waits for the old lanes i = j mod gcd(n, m), n / gcd of them.

    Whatever is congruent to i modulo n and to j modulo m is congruent to both modulo their gcd. So 12 -> 24 waits for
    one lane each, 12 -> 18 for two, 10 -> 11 for all ten; shrinking, 24 -> 12, for two. It does not hold for ranges,
    tables or pinned keys: `drain_by_keys`.

    >>> drain_by_gcd(4, 6).parents
    ((0, 2), (1, 3), (0, 2), (1, 3), (0, 2), (1, 3))
    """
    step = gcd(lane_count(old), lane_count(new))
    return Drain("gcd", old, new, tuple(tuple(range(lane % step, old, step)) for lane in range(new)))


def drain_by_keys(old_lanes: ArrayLike, new_lanes: ArrayLike, old: int, new: int) -> Drain:
    """Whatever the rule: new lane j waits for the old lanes that its keys were on. Keys not seen are not counted.

    >>> drain_by_keys([0, 1, 1], [2, 2, 0], 2, 3).parents
    ((1,), (), (0, 1))
    """
    was, now = np.asarray(old_lanes), np.asarray(new_lanes)
    if was.shape != now.shape or was.max(initial=0) >= old or now.max(initial=0) >= new:
        raise UsageError.of("lanes before and after for each key", got=(was.shape, now.shape), allowed=f"{old}, {new}")
    pairs = _distinct(now[(was >= 0) & (now >= 0)].astype(np.int64) * old + was[(was >= 0) & (now >= 0)], old * new)
    parents = np.split(pairs % old, np.searchsorted(pairs // old, np.arange(1, new)))
    several = np.unique(now[(was < 0) & (now >= 0)])
    return Drain("keys", old, new, tuple(tuple(one.tolist()) for one in parents), tuple(several.tolist()))


def _distinct(pairs: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The different pairs, in order; by counting while every pair fits in memory, for sorting millions is slow."""
    return np.flatnonzero(np.bincount(pairs, minlength=most)) if most <= 10**7 else np.unique(pairs)


def _state(old: int, new: int) -> str | None:
    if old == new:
        return None
    return (
        f"Spark keeps the number of shuffle partitions in the checkpoint of a stateful query: one that was started "
        f"with spark.sql.shuffle.partitions = {old} to match the lanes, or that is keyed by lane, goes on with {old} "
        f"while the stream has {new}. Start it from a new checkpoint after the drain, or leave it at {old}."
    )

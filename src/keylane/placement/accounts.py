"""Concentrated accounts: a small account whole on one lane, a large one on as few lanes as its volume needs.

The result is the `values` of a contract's table. Building it again from new volumes keeps what it can: an account
gains a lane only when its volume passes what its lanes may carry, loses one only when it would fit well below that
(hysteresis), and otherwise stays where it is.

Worked example, capacity 100: volumes {a: 250, b: 40, c: 30} on 4 lanes -> a on three lanes (84 each), b and c on
the fourth. When a falls to 190 it keeps its three lanes, because two would be 95 % full; at 120 it gives one up.

A new lane count gives new accounts more capacity and moves no account. When not to use it: when one account exceeds all
lanes together; `concentrate` then refuses it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from keylane.errors import UsageError
from keylane.placement.fold import lane_count

if TYPE_CHECKING:
    from collections.abc import Mapping

Accounts = dict[str, tuple[int, ...]]


def lanes_needed(volume: float, capacity: float, had: int = 0, shrink_at: float = 0.8) -> int:
    """How many lanes an account needs, given how many it has.

    Grows as soon as its lanes are too few. Shrinks only when the fewer lanes would be at most `shrink_at` full.
    """
    fewest = max(1, ceil(volume / capacity))
    return fewest if fewest >= had else max(fewest, min(had, ceil(volume / (capacity * shrink_at))))


def concentrate(
    volumes: Mapping[str, float],
    lanes: int,
    capacity: float,
    previous: Mapping[str, tuple[int, ...]] | None = None,
    shrink_at: float = 0.8,
) -> Accounts:
    """Build the table of accounts, moving as little as possible from `previous`.

    Largest accounts choose first, each the emptiest lanes; ties go to the lower lane, so the same input gives the
    same table. Accounts that are no longer in `volumes` leave the table.
    """
    _sane(volumes, lane_count(lanes), capacity)
    held = {account: lanes_ for account, lanes_ in (previous or {}).items() if account in volumes}
    load = [0.0] * lanes
    table = {account: _kept(account, held, volumes, load, capacity, shrink_at) for account in _largest(volumes, held)}
    for account in _largest(volumes, volumes):
        need = lanes_needed(volumes[account], capacity, len(held.get(account, ())), shrink_at)
        table[account] = _grown(table.get(account, ()), need, volumes[account], load)
        table[account] = _settled(table[account], held.get(account, ()), volumes[account], load, capacity)
    return {account: tuple(sorted(table[account])) for account in sorted(table)}


def _sane(volumes: Mapping[str, float], lanes: int, capacity: float) -> None:
    if capacity <= 0:
        raise UsageError.of("the capacity of a lane is out of range", got=capacity, allowed="greater than 0")
    for account, volume in volumes.items():
        if not 0 <= volume <= lanes * capacity:
            raise UsageError.of(
                f"account {account!r} does not fit the lanes",
                got=volume,
                allowed=f"0 to {lanes * capacity} ({lanes} lanes of {capacity})",
                hint="more lanes, or a separate tier",
            )


def _largest(volumes: Mapping[str, float], among: Mapping[str, object]) -> list[str]:
    return sorted(among, key=lambda account: (-volumes[account], account))


def _kept(
    account: str,
    held: Mapping[str, tuple[int, ...]],
    volumes: Mapping[str, float],
    load: list[float],
    capacity: float,
    shrink_at: float,
) -> tuple[int, ...]:
    """What an account keeps of its lanes: as many as it needs, the ones that still exist, first come first.

    A whole account whose lane has no capacity left for it keeps nothing, and chooses again.
    """
    need = lanes_needed(volumes[account], capacity, len(held[account]), shrink_at)
    kept = tuple(lane for lane in held[account] if lane < len(load))[:need]
    share = volumes[account] / need
    if need == 1 and kept and load[kept[0]] > 0 and load[kept[0]] + share > capacity:
        return ()
    for lane in kept:
        load[lane] += share
    return kept


def _settled(
    chosen: tuple[int, ...], had: tuple[int, ...], volume: float, load: list[float], capacity: float
) -> tuple[int, ...]:
    """A whole account that moved for lack of capacity goes back when no other lane has any."""
    if len(chosen) != 1 or len(had) != 1 or had[0] >= len(load) or load[chosen[0]] <= capacity:
        return chosen
    load[chosen[0]] -= volume
    load[had[0]] += volume
    return had


def _grown(kept: tuple[int, ...], need: int, volume: float, load: list[float]) -> tuple[int, ...]:
    """Add the emptiest lanes until there are enough."""
    free = sorted((lane for lane in range(len(load)) if lane not in kept), key=lambda lane: (load[lane], lane))
    added = tuple(free[: need - len(kept)])
    for lane in added:
        load[lane] += volume / need
    return kept + added

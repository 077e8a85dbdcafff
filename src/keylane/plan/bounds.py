"""Bounds that no lane count and no placement can beat: of the hottest key, and of few cells on many lanes.

A key on one lane makes that lane at least as full as the key is heavy, however many lanes there are: with a share p,
more than about 1/p lanes gain nothing. How full lanes really become under a strategy is counted, not bounded; how even
they are, is `measure.balance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from keylane import numbers
from keylane.errors import UsageError
from keylane.geo.lane_tables import COARSEST
from keylane.measure.balance import least_cv, noise_floor, useful_lanes
from keylane.placement.fold import lane_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from keylane.plan.hashed_keys import Places

#: What holds the floor up: nothing but the mean, the heaviest key, or keys that must share a lane.
Held: TypeAlias = Literal["mean", "heaviest-key", "shared-lane"]


@dataclass(frozen=True, slots=True)
class Floor:
    """The evenest that any placement with each key on one lane could be; `noise_cv` is what chance gives the sample."""

    lanes: int
    max_over_mean: float
    cv: float
    noise_cv: float
    held_by: Held


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How many lanes are of use. `helps`: whether more than were asked about can make the fullest one smaller."""

    hottest_key_share: float
    useful_lanes: int
    helps: bool
    says: str


def floor(key_records: ArrayLike, lanes: int) -> Floor:
    """The least max/mean and CV that a placement with each key on one lane can have, given each key's records.

    Three bounds, the highest counts. Some lane has the mean. Some lane has the heaviest key. And of any j * n + 1 keys
    some lane has j + 1: no less than the j + 1 lightest of the j * n + 1 heaviest. They are bounds: reaching them may
    be impossible, going below them is.

    Worked example, two lanes, keys of 4, 3 and 3: the mean is 5, but two of the three keys share a lane: 6 / 5.

    >>> floor([4, 3, 3], 2).max_over_mean, floor([9, 1, 1, 1], 3).max_over_mean
    (1.2, 2.25)
    """
    weights, count = _heaviest_first(key_records), lane_count(lanes)
    total = float(weights.sum())
    if not total:
        return Floor(count, 0.0, 0.0, 0.0, "mean")
    bounds: dict[Held, float] = {
        "mean": total / count,
        "heaviest-key": float(weights[0]),
        "shared-lane": _must_share(weights, count),
    }
    held = max(bounds, key=bounds.__getitem__)
    # `least_cv` knows no keys that must share; one lane as full as the floor, and the others even, is a bound too.
    over = bounds[held] * count / total
    alone = (over - 1) / np.sqrt(count - 1) if count > 1 else 0.0
    return Floor(count, over, max(least_cv(weights, count), float(alone)), noise_floor(count, int(total)), held)


def _heaviest_first(key_records: ArrayLike) -> NDArray[Any]:
    weights = np.asarray(key_records)
    if weights.ndim != 1 or weights.min(initial=0) < 0:
        raise UsageError.of("record counts must not be negative", got=weights[:5].tolist())
    return np.sort(weights)[::-1] if (weights[1:] > weights[:-1]).any() else weights


def _must_share(weights: NDArray[Any], lanes: int) -> float:
    """The heaviest load that keys must put together: over all j, the j + 1 lightest of the j * n + 1 heaviest."""
    together = np.arange(1, (len(weights) - 1) // lanes + 1)
    if not len(together):
        return 0.0
    upto = np.concatenate([np.zeros(1), np.cumsum(weights[: together[-1] * lanes + 1], dtype=float)])
    last = together * lanes + 1
    return float((upto[last] - upto[last - together - 1]).max())


def ceiling(hottest_share: float, lanes: int, allowed: float = 1.3, of: str = "all records") -> Ceiling:
    """Whether another lane count can help, and what would otherwise.

    `allowed` is the max/mean the user can live with, `of` the records that the share is counted on. Spreading the key,
    or moving it to a tier, changes the ceiling; a new lane count never does.
    """
    useful, alone = useful_lanes(hottest_share), hottest_share * lane_count(lanes)
    helps = lanes < useful
    if alone <= allowed:
        has = f"the hottest key has {numbers.share(hottest_share)} of {of}"
        says = f"{has}: up to {numbers.plural(useful, 'lane')} can be filled evenly"
    else:
        width = numbers.count(ceil(round(alone / allowed, 9)))
        says = (
            f"the hottest key has {numbers.share(hottest_share)} of {of} and alone makes its lane {alone:.2f} times "
            f"the mean of {numbers.count(lanes)} lanes; with more than {numbers.plural(useful, 'lane')} the fullest "
            f"one gets no smaller. What would help: spread this key over {width} lanes or more by a sub-key (order is "
            f"then kept per sub-key), move it to a tier of its own, or choose a finer key"
        )
    return Ceiling(hottest_share, useful, helps, says)


# Cells on lanes: how many lanes they can fill, how even that can be, and what would help.

#: The fullest lane over the mean that is even enough, by default.
ENOUGH: Final = 1.3


@dataclass(frozen=True, slots=True)
class ResolutionBound:
    """The cells of one resolution on the lanes: how many lanes they can fill, and what no placement goes below."""

    resolution: int
    cells: int
    lanes_filled: int
    cv: float
    max_over_mean: float


@dataclass(frozen=True, slots=True)
class Possible:
    """Every resolution from the routing one down to the home cells; `even_lanes` is what those at the first can fill.

    `even_lanes` and `even_lanes_home` are the most lanes, up to those asked about, whose floor is `allowed` or less.
    """

    lanes: int
    allowed: float
    steps: tuple[ResolutionBound, ...]
    even_lanes: int
    even_lanes_home: int

    @property
    def enough(self) -> ResolutionBound | None:
        """The coarsest resolution whose cells could be even enough."""
        return next((one for one in self.steps if one.max_over_mean <= self.allowed), None)


def possible(places: Places, lanes: int, routing: int = COARSEST, allowed: float | None = None) -> Possible:
    """What the cells of a profile can do on these lanes; `routing` is the resolution that lanes are made from."""
    limit = allowed or ENOUGH
    first = min(routing, places.resolution)
    records = {at: places.at(at)[1].sum(axis=0) for at in range(first, places.resolution + 1)}
    steps = tuple(_step(at, found, lanes) for at, found in records.items())
    even = [_even_lanes(records[at], lanes, limit) for at in (first, places.resolution)]
    return Possible(lanes, limit, steps, *even)


def _step(at: int, records: NDArray[np.int64], lanes: int) -> ResolutionBound:
    least, cells = floor(records, lanes), int((records > 0).sum())
    return ResolutionBound(at, cells, min(cells, lanes), least.cv, least.max_over_mean)


def _even_lanes(records: NDArray[np.int64], lanes: int, allowed: float) -> int:
    heaviest = np.sort(records[records > 0])[::-1]
    return next(n for n in range(min(lanes, len(heaviest)), 0, -1) if floor(heaviest, n).max_over_mean <= allowed)


def says(found: Possible) -> list[str]:
    """Sentences; none where the cells at the routing resolution are enough."""
    first, enough = found.steps[0], found.enough
    if first is enough:
        return []
    return [_limit(first, found.lanes), *_helps(found, first, enough)]


def _limit(first: ResolutionBound, lanes: int) -> str:
    cells = f"{numbers.count(first.cells)} cell{'s' * (first.cells != 1)} of resolution {first.resolution}"
    least = f"CV at least {numbers.spread(first.cv)}, max/mean at least {first.max_over_mean:.3g}"
    if first.cells >= lanes:
        return f"{cells} on {lanes} lanes: {least}, because some hold more than a lane's fair share"
    share, even = lanes / first.cells, ""
    if first.cv > sqrt(share - 1) * 1.005:
        even = f" ({numbers.spread(sqrt(share - 1))} and {share:.3g} if all of them had equally many records)"
    return f"{cells} can fill at most {first.cells} of {lanes} lanes: {least}{even}"


def _helps(found: Possible, first: ResolutionBound, enough: ResolutionBound | None) -> Iterator[str]:
    """What is possible instead, and what is not."""
    yield f"possible with these cells: up to {found.even_lanes} lane{'s' * (found.even_lanes != 1)}, {_within(found)}"
    last = found.steps[-1]
    if enough is not None:
        yield (
            f"possible on {found.lanes} lanes: finer cells; at resolution {enough.resolution} there are "
            f"{numbers.count(enough.cells)}, "
            f"CV at least {numbers.spread(enough.cv)}, max/mean at least {enough.max_over_mean:.3g}"
        )
        return
    finest = (
        f"all records are in {numbers.count(last.cells)} cell{'s' * (last.cells != 1)} of resolution {last.resolution}"
    )
    if last.cells == first.cells:
        yield f"not possible on {found.lanes} lanes: finer cells do not help, {finest}, and a cell has one lane"
        return
    floor_ = f"CV at least {numbers.spread(last.cv)}, max/mean at least {last.max_over_mean:.3g}"
    home = found.even_lanes_home
    yield f"not possible on {found.lanes} lanes {_within(found)}: {finest}: {floor_}; up to {home} lanes"


def _within(found: Possible) -> str:
    return f"within {found.allowed:g} times the mean"

"""What cells can do on lanes: how many they can fill, how even that can be, and what would help where it is not enough.

A cell has one lane. So c cells fill at most c of n lanes, and with n above c the CV is at least sqrt(n / c - 1) and the
fullest lane at least n / c times the mean, whoever deals them out. What helps is finer cells, down to the home cells
that hold all records, or fewer lanes. Every figure is a bound from the records of the cells (`ceiling.floor`).

Worked example: six cells, equally heavy, on sixty lanes: 6 lanes are used, CV 300 %, the fullest 10 times the mean.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.geo.split import COARSEST
from keylane.plan.ceiling import floor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from keylane.plan.places import Places

__all__ = ["Possible", "Step", "possible", "says"]

#: The fullest lane over the mean that is even enough, where nothing is said.
ENOUGH: Final = 1.3


@dataclass(frozen=True, slots=True)
class Step:
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
    steps: tuple[Step, ...]
    even_lanes: int
    even_lanes_home: int

    @property
    def enough(self) -> Step | None:
        """The coarsest resolution whose cells could be even enough."""
        return next((one for one in self.steps if one.max_over_mean <= self.allowed), None)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        steps = [
            {**asdict(one), "cv": round(one.cv, 6), "max_over_mean": round(one.max_over_mean, 6)} for one in self.steps
        ]
        return {
            "lanes": self.lanes,
            "allowed": self.allowed,
            "steps": steps,
            "enough_at": self.enough.resolution if self.enough else None,
            "even_lanes": self.even_lanes,
            "even_lanes_home": self.even_lanes_home,
            "says": says(self),
        }


def possible(places: Places, lanes: int, routing: int = COARSEST, allowed: float | None = None) -> Possible:
    """What the cells of a profile can do on these lanes; `routing` is the resolution that lanes are made from."""
    limit = allowed or ENOUGH
    first = min(routing, places.resolution)
    records = {at: places.at(at)[1].sum(axis=0) for at in range(first, places.resolution + 1)}
    steps = tuple(_step(at, found, lanes) for at, found in records.items())
    even = [_even_lanes(records[at], lanes, limit) for at in (first, places.resolution)]
    return Possible(lanes, limit, steps, *even)


def _step(at: int, records: NDArray[np.int64], lanes: int) -> Step:
    least, cells = floor(records, lanes), int((records > 0).sum())
    return Step(at, cells, min(cells, lanes), least.cv, least.max_over_mean)


def _even_lanes(records: NDArray[np.int64], lanes: int, allowed: float) -> int:
    heaviest = np.sort(records[records > 0])[::-1]
    return next(n for n in range(min(lanes, len(heaviest)), 0, -1) if floor(heaviest, n).max_over_mean <= allowed)


def says(found: Possible) -> list[str]:
    """Sentences; none where the cells at the routing resolution are enough."""
    first, enough = found.steps[0], found.enough
    if first is enough:
        return []
    return [_limit(first, found.lanes), *_helps(found, first, enough)]


def _limit(first: Step, lanes: int) -> str:
    cells = f"{first.cells:,} cell{'s' * (first.cells != 1)} of resolution {first.resolution}"
    least = f"CV at least {_percent(first.cv)}, max/mean at least {first.max_over_mean:.3g}"
    if first.cells >= lanes:
        return f"{cells} on {lanes} lanes: {least}, because some hold more than a lane's fair share"
    share, even = lanes / first.cells, ""
    if first.cv > sqrt(share - 1) * 1.005:
        even = f" ({_percent(sqrt(share - 1))} and {share:.3g} if all of them had as many records)"
    return f"{cells} can fill at most {first.cells} of {lanes} lanes: {least}{even}"


def _helps(found: Possible, first: Step, enough: Step | None) -> Iterator[str]:
    """What is possible instead, and what is not."""
    yield f"possible with these cells: up to {found.even_lanes} lane{'s' * (found.even_lanes != 1)}, {_within(found)}"
    last = found.steps[-1]
    if enough is not None:
        yield (
            f"possible on {found.lanes} lanes: finer cells; at resolution {enough.resolution} there are "
            f"{enough.cells:,}, CV at least {_percent(enough.cv)}, max/mean at least {enough.max_over_mean:.3g}"
        )
        return
    finest = f"all records are in {last.cells:,} cell{'s' * (last.cells != 1)} of resolution {last.resolution}"
    if last.cells == first.cells:
        yield f"not possible on {found.lanes} lanes: finer cells do not help, {finest}, and a cell has one lane"
        return
    floor_ = f"CV at least {_percent(last.cv)}, max/mean at least {last.max_over_mean:.3g}"
    home = found.even_lanes_home
    yield f"not possible on {found.lanes} lanes {_within(found)}: {finest}: {floor_}; up to {home} lanes"


def _within(found: Possible) -> str:
    return f"within {found.allowed:g} times the mean"


def _percent(value: float) -> str:
    return f"{100 * round(value, 4):.3g} %" if value < 10 else f"{100 * value:,.0f} %"

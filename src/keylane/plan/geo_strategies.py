"""Strategies for keys that are locations: which lane every cell has. Each is fitted on a range of windows.

    geo-hash     the ancestor at one resolution, hashed: nothing to keep up, and at the mercy of where people live
    geo-table    cells split where load is heavy, packed so that lanes are even in every hour (`geo.lane_tables`)
    geo-curve    the same leaves in ranges of the curve: fewer borders between lanes, and lanes that sleep as one
    geo-regions  compact regions of equal load, for a radius that records are matched within (`geo.regions`)

With a radius every one of them is scored by the work of its fullest lane, copies included (`geo_work`).

Worked example: a city with a tenth of all records on 60 lanes. Its cell of resolution 3, hashed, fills a lane six times
over; the table splits it until no leaf is above 0.3 of a lane's fair share, and deals the leaves out.

What changes do: another lane count is another placement of nearly all cells, by hash or by table. When not to use them:
for keys that are not locations. What no strategy can do is in `bounds`; other keys: `strategies`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from keylane.geo.bits import HOME_RESOLUTION, middle
from keylane.geo.lane_tables import COARSEST
from keylane.plan.candidates import Candidate, fold_score, score
from keylane.plan.geo_work import direct_work, points
from keylane.plan.hashed_keys import lane_loads
from keylane.plan.lane_tables import Wish, fitted, hash_lanes, lane_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from keylane.placement.cell_lanes import CellLanes
    from keylane.plan.geo_work import LaneWork
    from keylane.plan.hashed_keys import Places, ProfiledStream, Seen
    from keylane.plan.lane_tables import Strategy

    Fit = Callable[[Seen], CellLanes]

#: A cell is split above this part of a lane's fair share; `geo table` tries others too.
TAU: Final = 0.3
#: Resolutions that are hashed: from cells of 12,000 km2 to cells of 5 km2. Finer ones put neighbours apart.
HASHED: Final = range(3, 8)
TABLES: Final[dict[str, Strategy]] = {"geo-table": "hours", "geo-curve": "curve"}
#: The same of regions, which need leaves small enough to exchange along their borders.
REGION_TAU: Final = 0.1
#: Home cells that copies are counted at.
_SAMPLED: Final = 2_000
#: Strategies for other keys that are not compared for locations, and why.
LEFT_OUT: Final = {
    "the lanes of a location follow from its cells alone, and a heavy cell is split": (
        *("pin", "table", "tier", "tier-spread", "spread", "spread-by-position", "concentrate"),
    ),
    "a search for neighbours could not know their lanes": ("hash", "window", "keyless"),
}
#: The same where no radius is given.
WITHOUT_RADIUS: Final = {"compact regions are made for a radius; hint: --radius M": ("geo-regions",)}


def geo_candidates(
    stream: ProfiledStream, places: Places, base: str, counts: Sequence[int], radius: float | None = None
) -> Iterator[Candidate]:
    """All of them; `base` is the partitioner that hashes cells, `radius` the metres that records are matched within."""
    for lanes in counts:
        for at in hash_resolutions(places):
            yield _unlearned("geo-hash", stream, places, hash_lanes(base, at, lanes), radius)
        for name in TABLES:
            wish = Wish(lanes, TABLES[name], TAU, min(COARSEST, places.resolution), base)
            yield _learned(name, stream, places, partial(_table, places, wish), radius)
        if radius is not None:
            wish = Wish(lanes, "regions", REGION_TAU, min(COARSEST, places.resolution), base, radius=radius)
            yield _learned("geo-regions", stream, places, partial(_table, places, wish), radius)


def geo_standing(stream: ProfiledStream, places: Places, rule: CellLanes, radius: float | None = None) -> Candidate:
    """Today's lanes by location, which have learned nothing from this profile."""
    return _unlearned("today", stream, places, rule, radius)


def hash_resolutions(places: Places) -> list[int]:
    """Those that differ: one with no more cells than the coarser one before it has more borders and no other gain."""
    out: list[int] = []
    most = 0
    for at in [one for one in HASHED if one <= places.resolution] or [places.resolution]:
        cells = len(places.at(at)[0])
        if cells > most:
            most = cells
            out.append(at)
    return out


def _learned(strategy: str, stream: ProfiledStream, places: Places, fit: Fit, radius: float | None) -> Candidate:
    rules = [fit(fold.fit) for fold in stream.folds]
    return _candidate(strategy, stream, places, fit(stream.whole), rules, radius)


def _unlearned(
    strategy: str, stream: ProfiledStream, places: Places, rule: CellLanes, radius: float | None
) -> Candidate:
    """One rule for all folds."""
    return _candidate(strategy, stream, places, rule, [rule] * len(stream.folds), radius)


def _candidate(
    strategy: str,
    stream: ProfiledStream,
    places: Places,
    rule: CellLanes,
    rules: Sequence[CellLanes],
    radius: float | None,
) -> Candidate:
    """`rule` is of all records, `rules` are those that each fold is scored by."""
    loads = _loads(places, rule)
    folds = tuple(
        fold_score(fold, loads if one is rule else _loads(places, one))
        for fold, one in zip(stream.folds, rules, strict=True)
    )
    hottest = float(places.records.max() / max(1, stream.total))
    made = Candidate(strategy, rule.hashed_by.name, rule.count, folds, score(loads), hottest, loads, by_place=rule)
    if radius is None:
        return made
    later = [(fold.cut, fold.end) for fold in folds] or [(stream.whole.first, stream.whole.last)]
    works = (_work(places, one, part, radius) for one, part in zip(rules or [rule], later, strict=True))
    return replace(made, works=tuple(works))


def _work(places: Places, rule: CellLanes, part: tuple[int, int], radius: float) -> LaneWork:
    """What lanes have to do with the records of some windows, copies included."""
    loads = places.by_hour(*part)
    some = points(places.cells, loads, _SAMPLED)
    at_home = replace(some, cells=middle(some.cells, HOME_RESOLUTION))
    return direct_work(rule, at_home, lane_sums(rule, places.cells, loads), radius)


def _table(places: Places, wish: Wish, seen: Seen) -> CellLanes:
    """A table of the cells that have records in the time range."""
    loads = places.by_hour(seen.first, seen.last)
    known = loads.any(axis=1)
    cells, tau = places.cells[known], wish.tau or TAU
    some = points(cells, loads[known], _SAMPLED) if wish.radius is not None else None
    if some is not None:
        some = replace(some, cells=middle(some.cells, HOME_RESOLUTION))
    return fitted(cells, loads[known], wish, tau, places.resolution, some=some).lanes


def _loads(places: Places, rule: CellLanes) -> NDArray[np.float64]:
    """(lanes, windows): counted at the resolution that is hashed, where only the hash decides."""
    cells, loads = (places.cells, places.loads) if len(rule.starts) else places.at(rule.resolution)
    return lane_loads(rule.of(cells), loads, rule.count)

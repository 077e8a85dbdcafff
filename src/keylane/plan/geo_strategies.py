"""Strategies for keys that are locations: which lane every cell has. Each is fitted on a range of windows.

    geo-hash     the ancestor at one resolution, hashed: nothing to keep up, and at the mercy of where people live
    geo-table    cells split where load is heavy, packed so that lanes are even in every hour (`geo.lane_tables`)
    geo-curve    the same leaves in ranges of the curve: fewer borders between lanes, and lanes that sleep as one

Worked example: a city with a tenth of all records on 60 lanes. Its cell of resolution 3, hashed, fills a lane six times
over; the table splits it until no leaf is above 0.3 of a lane's fair share, and deals the leaves out.

What changes do: another lane count is another placement of nearly all cells, by hash or by table. When not to use them:
for keys that are not locations. What no strategy can do is in `bounds`; other keys: `strategies`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from keylane.geo.lane_tables import COARSEST
from keylane.plan.candidates import Candidate, fold_score, score
from keylane.plan.hashed_keys import lane_loads
from keylane.plan.lane_tables import Wish, fitted, hash_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from keylane.placement.cell_lanes import CellLanes
    from keylane.plan.candidates import FoldScore
    from keylane.plan.hashed_keys import Places, ProfiledStream, Seen
    from keylane.plan.lane_tables import Strategy

    Fit = Callable[[Seen], CellLanes]

#: A cell is split above this part of a lane's fair share; `geo table` tries others too.
TAU: Final = 0.3
#: Resolutions that are hashed: from cells of 12,000 km2 to cells of 5 km2. Finer ones put neighbours apart.
HASHED: Final = range(3, 8)
TABLES: Final[dict[str, Strategy]] = {"geo-table": "hours", "geo-curve": "curve"}
#: Strategies for other keys that are not compared for locations, and why.
LEFT_OUT: Final = {
    "the lanes of a location follow from its cells alone, and a heavy cell is split": (
        *("pin", "table", "tier", "tier-spread", "spread", "spread-by-position", "concentrate"),
    ),
    "a search for neighbours could not know their lanes": ("hash", "window", "keyless"),
}


def geo_candidates(stream: ProfiledStream, places: Places, base: str, counts: Sequence[int]) -> Iterator[Candidate]:
    """All of them; `base` is the partitioner that hashes cells."""
    for lanes in counts:
        for at in hash_resolutions(places):
            yield _unlearned("geo-hash", stream, places, hash_lanes(base, at, lanes))
        for name in TABLES:
            yield _learned(name, stream, places, partial(_table, places, base, lanes, TABLES[name]))


def geo_standing(stream: ProfiledStream, places: Places, rule: CellLanes) -> Candidate:
    """Today's lanes by location, which have learned nothing from this profile."""
    return _unlearned("today", stream, places, rule)


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


def _learned(strategy: str, stream: ProfiledStream, places: Places, fit: Fit) -> Candidate:
    rule = fit(stream.whole)
    folds = tuple(fold_score(fold, _loads(places, fit(fold.fit))) for fold in stream.folds)
    return _candidate(strategy, stream, places, rule, folds, _loads(places, rule))


def _unlearned(strategy: str, stream: ProfiledStream, places: Places, rule: CellLanes) -> Candidate:
    """One rule for all folds."""
    loads = _loads(places, rule)
    return _candidate(strategy, stream, places, rule, tuple(fold_score(fold, loads) for fold in stream.folds), loads)


def _candidate(
    strategy: str,
    stream: ProfiledStream,
    places: Places,
    rule: CellLanes,
    folds: tuple[FoldScore, ...],
    loads: NDArray[np.float64],
) -> Candidate:
    hottest = float(places.records.max() / max(1, stream.total))
    name = rule.hashed_by.name
    return Candidate(strategy, name, rule.count, folds, score(loads), hottest, loads, by_place=rule)


def _table(places: Places, base: str, lanes: int, strategy: Strategy, seen: Seen) -> CellLanes:
    """A table of the cells that have records in the time range."""
    loads = places.by_hour(seen.first, seen.last)
    known = loads.any(axis=1)
    wish = Wish(lanes, strategy, TAU, min(COARSEST, places.resolution), base)
    return fitted(places.cells[known], loads[known], wish, TAU, places.resolution).lanes


def _loads(places: Places, rule: CellLanes) -> NDArray[np.float64]:
    """(lanes, windows): counted at the resolution that is hashed, where only the hash decides."""
    cells, loads = (places.cells, places.loads) if len(rule.starts) else places.at(rule.resolution)
    return lane_loads(rule.of(cells), loads, rule.count)

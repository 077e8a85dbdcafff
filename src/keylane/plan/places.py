"""The keys of a profile as places: home cells along the curve, with what each has of every window.

Only where the key is a cell or a place. Lanes for them: `geo_strategies`. What is possible with so few or many of them:
`possible`. Lane tables from traffic, without a profile: `lane_tables`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.geo.bits import HOME_RESOLUTION, ancestor, curve_end, resolution
from keylane.keys.places import NO_CELL, cells_in

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.measure.profile import Profile, Windows
    from keylane.placement.cell_lanes import CellLanes

__all__ = ["Places", "fields_of_place", "hours_of", "may_be_places", "places_of"]

_HOUR: Final = 3_600_000_000
#: A longer window is of no hour.
_LONGEST: Final = 3 * _HOUR


@dataclass(frozen=True, slots=True)
class Places:
    """Home cells along the curve, each once, and their records by window.

    `loads` has a row for each window. `row` has for each key of the profile the number of its cell, -1 where the key is
    none; `resolution` is that of all the cells: the home resolution, or that of the coarsest key. `hours` has for each
    window the column it is packed in.
    """

    cells: NDArray[np.int64]
    loads: NDArray[np.int64]
    row: NDArray[np.int64]
    resolution: int
    hours: NDArray[np.int64]
    _at: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict, repr=False)

    @property
    def records(self) -> NDArray[np.int64]:
        """Records of each home cell."""
        total: NDArray[np.int64] = self.loads.sum(axis=0)
        return total

    def at(self, resolution: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The ancestors at a resolution, along the curve, and the loads of each; counted once."""
        if resolution not in self._at:
            parents = ancestor(self.cells, resolution)
            first = np.flatnonzero(np.diff(parents, prepend=-1))
            self._at[resolution] = parents[first], np.add.reduceat(self.loads, first, axis=1)
        return self._at[resolution]

    def lanes_of_keys(self, rule: CellLanes) -> NDArray[np.int32]:
        """The lane of each key of the profile; -1 where the key is no cell."""
        lanes = np.append(rule.of(self.cells), np.int32(-1))
        return lanes[self.row].astype(np.int32)

    def units(self, rule: CellLanes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """What a rule gives a lane to: the lane and the records of each leaf or hashed cell, the heaviest first."""
        hashed = rule.from_leaves(self.cells) < 0
        leaf = np.searchsorted(rule.starts, curve_end(self.cells), "right")
        number = np.where(hashed, ancestor(self.cells, rule.resolution), leaf)
        _, first, unit = np.unique(number, return_index=True, return_inverse=True)
        records = np.bincount(unit, self.records).astype(np.int64)
        order = np.argsort(-records, kind="stable")
        return rule.of(self.cells[first])[order], records[order]

    def by_hour(self, first: int, last: int) -> NDArray[np.float64]:
        """(cells, columns): the windows from `first` up to `last` in the columns that lanes are packed by."""
        columns, at = np.unique(self.hours[first:last], return_inverse=True)
        out = np.zeros((len(columns), len(self.cells)))
        for window, column in enumerate(at.tolist(), first):
            out[column] += self.loads[window]
        return np.ascontiguousarray(out.T)


def may_be_places(profile: Profile) -> bool:
    """Whether the keys of a profile are places or cells, or bytes that may be cells."""
    return profile.key.is_place or profile.key.encodings in (("h3",), ("raw",))


def fields_of_place(profile: Profile) -> tuple[str, ...] | None:
    """The latitude and longitude that the cells were made from, where they were."""
    told = dict(profile.facts).get("place")
    return tuple(told) if told else profile.key.fields if profile.key.is_place else None


def places_of(profile: Profile, keys: pa.Array) -> Places | None:
    """The places of a profile, whose keys come as bytes; None where no key is a cell, or not all bytes are."""
    found = cells_in(keys)
    good = np.flatnonzero(found != NO_CELL)
    if not len(good) or (len(good) < len(found) and profile.key.encodings == ("raw",)):
        return None
    at = min(HOME_RESOLUTION, int(resolution(found[good]).min()))
    homes = ancestor(found[good], at)
    # One number for each cell, in the order of the curve.
    _, first, place = np.unique(curve_end(homes), return_index=True, return_inverse=True)
    # Records are whole numbers far below 2**53: as floats they are exact.
    sums = [np.bincount(place, counts, minlength=len(first)) for counts in profile.by_window[good].T]
    loads = np.stack(sums).astype(np.int64)
    row = np.full(len(found), -1, np.int64)
    row[good] = place
    return Places(homes[first], loads, row, at, hours_of(profile.windows))


def hours_of(windows: Windows) -> NDArray[np.int64]:
    """The hour of the day that each window lies in, by its middle; else a number for each window.

    Windows by position, and those longer than three hours, have no hour: lanes are then even in every window.

    >>> from keylane.measure.profile import Windows
    >>> day = 86_400_000_000
    >>> hours_of(Windows("time", tuple(range(0, 2 * day + 1, day // 8)))).tolist()[6:10]
    [19, 22, 1, 4]
    """
    edges: Any = np.asarray(windows.edges, np.int64)
    if windows.kind != "time" or (np.diff(edges) > _LONGEST).any():
        return np.arange(len(windows))
    middles = edges[:-1] + np.diff(edges) // 2
    return np.asarray(middles // _HOUR % 24)

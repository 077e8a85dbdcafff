"""Latitude and longitude -> the home cell that is the key; a cell -> the routing key. For one record and for columns.

Rule: numbers are divided by the contract's scale, where it has one. A location is checked then (`geo.coordinates`); an
invalid one has its own reason. A location gives the eight big-endian bytes of its home cell: the base key. The routing
key is that cell's ancestor at the contract's resolution, never the cell H3 would give at that resolution; see
`geo.bits`. Only finding the home cell needs H3.

Worked example: (33.4484, -112.0740) -> 8929b6d357bffff -> at resolution 3, 8329b6fffffffff. What a change of the
resolution does: it gives every cell another routing key. When not to use it: for keys that are cells already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from keylane.contract.lane_table import finest_leaf
from keylane.errors import DataError
from keylane.geo.bits import ancestor, are_cells, cell_name, is_cell, resolution
from keylane.keys.encode import malformed
from keylane.records import REASON_CODES

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.model import Geo
    from keylane.geo.coordinates import Region

#: Stands where a key is no cell.
NO_CELL: Final = -1


# One record


def cell_in(key: bytes) -> int | None:
    """The cell that a key of eight bytes is; None for every other key."""
    number = int.from_bytes(key, "big") if len(key) == 8 else 0
    return number if is_cell(number) else None


def region_of(geo: Geo | None) -> Region:
    """Where locations may be, and how many of the records' numbers make a degree."""
    from keylane.geo.coordinates import EARTH, Region

    if geo is None or (geo.region is None and geo.scale is None):
        return EARTH
    scale = 1.0 if geo.scale is None else geo.scale
    return Region(scale=scale) if geo.region is None else Region(*geo.region, scale=scale)


def routing_key_of(geo: Geo, *, others: bool) -> Callable[[bytes], bytes]:
    """Base key -> routing key; `others`: keys that are no cell stand for themselves."""
    at, least = geo.resolution, least_resolution(geo)

    def routing(base: bytes) -> bytes:
        cell = cell_in(base)
        if cell is None and others:
            return base
        if cell is None:
            raise malformed("cell", base, "eight bytes that are an H3 cell")
        if resolution(cell) < least:
            raise malformed("cell", cell_name(cell), f"cells of resolution {least} or finer, to know their lane")
        return ancestor(cell, at).to_bytes(8, "big")

    return routing


def least_resolution(geo: Geo) -> int:
    """The coarsest cell whose lane is known everywhere: that of the finest leaf."""
    return max(geo.resolution, finest_leaf(geo.leaves))


# Columns


def place_columns(
    latitudes: pa.Array, longitudes: pa.Array, names: tuple[str, str], region: Region
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """The home cell of each row, and the code of its reason (`records.REASON_CODES`), -1 where there is a cell."""
    import numpy as np

    from keylane.geo.coordinates import PLACE_REASONS, place_problems

    pairs = zip((latitudes, longitudes), names, strict=True)
    lat, lng = (region.degrees(_floats(column, name)) for column, name in pairs)
    codes = np.array([*(REASON_CODES[reason] for reason in PLACE_REASONS), -1], np.int8)
    reason = codes[place_problems(lat, lng, region)]
    cells = np.full(len(lat), NO_CELL, np.int64)
    good = np.flatnonzero(reason < 0)
    if len(good):
        from keylane.geo.cells import cells_of

        cells[good] = cells_of(lat.data[good], lng.data[good])
    return cells, reason


def _floats(column: Any, name: str) -> Any:
    """A column of numbers as masked floats. Decimals go by their digits, which round as Python rounds."""
    import numpy as np
    import pyarrow as pa

    from keylane.keys.arrow_bytes import nulls_of, plain

    array = plain(column)
    kind = array.type
    if pa.types.is_null(kind):
        return np.ma.array(np.zeros(len(array)), mask=True)
    if pa.types.is_decimal(kind):
        array = array.cast(pa.string())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError.of(f"column {name!r} holds no coordinates", got=str(kind), allowed="integer, floating, decimal")
    numbers = array.cast(pa.float64(), safe=False)
    return np.ma.array(numbers.fill_null(0.0).to_numpy(zero_copy_only=False), mask=nulls_of(array))


def cells_in(keys: pa.Array) -> NDArray[np.int64]:
    """The cell of each key that is one, `NO_CELL` for every other key and for null."""
    import numpy as np

    from keylane.keys.arrow_bytes import as_binary, fixed_rows, lengths_and_data

    binary = as_binary(keys)
    cells = np.full(len(binary), NO_CELL, np.int64)
    eight = np.flatnonzero(lengths_and_data(binary)[0] == 8)
    if len(eight):
        rows = fixed_rows(binary if len(eight) == len(binary) else binary.take(eight))
        assert rows is not None
        numbers = np.ascontiguousarray(rows).view(">i8")[:, 0].astype(np.int64)
        cells[eight] = np.where(are_cells(numbers), numbers, NO_CELL)
    return cells


def routing_column(base: pa.Array, cells: NDArray[np.int64], geo: Geo) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The routing key of each row, keys that are no cell as they are; and which cells are too coarse to know a lane."""
    import pyarrow as pa
    import pyarrow.compute as pc

    there = cells >= 0
    coarse = there & (resolution(cells) < least_resolution(geo))
    ancestors = cell_column(ancestor(cells, geo.resolution), ~there | coarse)
    return (ancestors if there.all() else pc.if_else(pa.array(there), ancestors.cast(base.type), base)), coarse


def cell_column(cells: NDArray[np.int64], missing: NDArray[np.bool_]) -> pa.Array:
    """Cells as keys of eight bytes, null where missing."""
    import numpy as np

    from keylane.keys.arrow_bytes import binary_of_rows

    return binary_of_rows(cells.astype(">i8").view(np.uint8).reshape(-1, 8), missing)

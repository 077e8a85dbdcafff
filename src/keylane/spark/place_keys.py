"""Latitude and longitude -> the home cell as the key of a profile, with the reasons of what is no place.

A place that is none has the number of its reason where others have their cell: no cell is that small, so it is counted
as a malformed key, and can still be told from the others. By hour, for a lane table: `geo_counts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from pyspark.sql import functions as F

from keylane.geo.places import EARTH
from keylane.measure.counted import unpacked
from keylane.spark.geo_counts import REASONS, coded_cells
from keylane.spark.kinds import column_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from keylane.geo.places import Region

__all__ = ["CELL", "home_cell_keys", "reasons_of"]

#: The column of the home cells.
CELL: Final = "cell"


def home_cell_keys(frame: DataFrame, place: Sequence[str], *, text: bool, region: Region = EARTH) -> DataFrame:
    """The frame with the home cell, or the number of a reason, in the place of latitude and longitude."""
    lat, lng = place
    code, cell = coded_cells(frame, lat, lng, text=text, region=region)
    key = F.when(code < 0, cell).otherwise(code.cast("bigint"))
    others = [column_named(name) for name in frame.columns if name not in place]
    return frame.select(key.alias(CELL), *others)


def reasons_of(rows: pa.Table, windows: int, packing: int) -> dict[str, int]:
    """Records that are no place, by reason, from the counted rows of such a frame."""
    few = rows.filter(pc.less(rows.column(CELL), len(REASONS)))
    records = unpacked(few, windows, packing).sum(axis=1, dtype="int64").tolist()
    found: dict[str, int] = {}
    for code, count in zip(few.column(CELL).to_pylist(), records, strict=True):
        found[REASONS[code].value] = found.get(REASONS[code].value, 0) + count
    return dict(sorted(found.items()))

"""Locations of a frame -> records of each home cell by hour, in two halves, and reasons for those without a cell.

One aggregation: a row for each cell, and one for each reason. An hour's sum holds both halves, the second in its upper
32 bits. The half of a record is a hash of its location and its time (or position): the same source, the same halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import functions as F

from keylane.errors import DataError
from keylane.geo.coordinates import EARTH
from keylane.profile.cells import CELL, HOUR, HOURS, REASONS, place_counts
from keylane.records import Reason
from keylane.spark.cells import place_columns
from keylane.spark.count_keys import AT
from keylane.spark.keys import column_named, field_of
from keylane.spark.read_parquet import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from keylane.geo.coordinates import Region
    from keylane.profile.cells import Numbers, PlaceCounts

_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "void")


def count_places(
    frame: DataFrame, lat: str, lng: str, *, timed: bool, text: bool = False, region: Region = EARTH
) -> PlaceCounts:
    """Count locations, with their time or position in `keylane_at`; `text` where numbers may come as text."""
    code, cell = coded_cells(frame, lat, lng, text=text, region=region)
    place = [region.degrees(_number(frame, name, text=text)[0]) for name in (lat, lng)]
    hour = F.pmod(F.call_function("div", F.col(AT) - F.pmod(F.col(AT), F.lit(HOUR)), F.lit(HOUR)), F.lit(HOURS))
    rows = frame.select(
        code.cast("int").alias("code"),
        F.when(code < 0, cell).alias("cell"),
        (hour if timed else F.lit(None)).cast("int").alias("hour"),
        F.xxhash64(*place, F.col(AT)).bitwiseAND(F.lit(1)).alias("half"),
    )
    return _counts(rows.groupBy("cell", "code").agg(*_sums(timed=timed)).toArrow(), timed=timed)


def coded_cells(frame: DataFrame, lat: str, lng: str, *, text: bool, region: Region = EARTH) -> tuple[Column, Column]:
    """The index of the reason in `REASONS`, -1 for a valid location; and its home cell."""
    places = [_number(frame, name, text=text) for name in (lat, lng)]
    located = place_columns(places[0][0], places[1][0], region)
    misfit = places[0][1] | places[1][1]
    code = F.when(misfit, F.lit(REASONS.index(Reason.MALFORMED_KEY))).otherwise(located.problem)
    if MALFORMED in frame.columns:
        code = F.when(F.col(MALFORMED), F.lit(REASONS.index(Reason.MALFORMED_RECORD))).otherwise(code)
    return code, located.cell


def outlying(frame: DataFrame, place: Sequence[str], region: Region, *, text: bool) -> Numbers | None:
    """A location that is out of range, as the source writes it."""
    lat, lng = place
    code, _ = coded_cells(frame, lat, lng, text=text, region=region)
    numbers = [_number(frame, name, text=text)[0].alias(name) for name in place]
    found = frame.where(code == REASONS.index(Reason.PLACE_OUT_OF_RANGE)).select(*numbers).first()
    return None if found is None else (float(found[0]), float(found[1]))


def _number(frame: DataFrame, name: str, *, text: bool) -> tuple[Column, Column]:
    """A column as numbers, and which rows hold something else."""
    field = field_of(name, frame.schema)
    if field.kind == "string" and text:
        number = F.trim(field.column).try_cast("double")
        empty = F.length(F.trim(field.column)) == 0
        return number, field.column.isNotNull() & number.isNull() & ~empty
    if not field.written.startswith(_NUMBERS):
        raise DataError.of(f"column {name!r} holds no degrees", got=field.written, allowed="numbers")
    return field.column.cast("double"), F.lit(False)


def _sums(*, timed: bool) -> list[Column]:
    one, none = F.expr("shiftleft(1L, cast(32 * half as int))"), F.lit(0).cast("bigint")
    hours = range(HOURS) if timed else ()
    return [
        *(F.sum(F.when(F.col("hour") == hour, one).otherwise(none)).alias(f"h{hour}") for hour in hours),
        F.sum(F.when(F.col("hour").isNull(), one).otherwise(none)).alias("untimed"),
    ]


def _counts(table: pa.Table, *, timed: bool) -> PlaceCounts:
    codes = table.column("code").to_numpy()
    good = codes < 0
    names = [*(f"h{hour}" for hour in range(HOURS if timed else 0)), "untimed"]
    sums = np.stack([table.column(name).to_numpy() for name in names], axis=1).reshape(-1, len(names))
    cells = np.where(good, np.asarray(table.column("cell").fill_null(0).to_numpy(), np.int64), codes)
    return place_counts(cells, good, sums & 0xFFFFFFFF, sums >> 32)


# Latitude and longitude -> the home cell as the key of a profile, with the reasons of invalid locations.


def home_cell_keys(frame: DataFrame, place: Sequence[str], *, text: bool, region: Region = EARTH) -> DataFrame:
    """The frame with the home cell, or the index of a reason, instead of latitude and longitude."""
    lat, lng = place
    code, cell = coded_cells(frame, lat, lng, text=text, region=region)
    key = F.when(code < 0, cell).otherwise(code.cast("bigint"))
    others = [column_named(name) for name in frame.columns if name not in place]
    return frame.select(key.alias(CELL), *others)

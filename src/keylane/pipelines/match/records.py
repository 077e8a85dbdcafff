"""Raw records -> pings and requests, each with its home cell; and the rest as dead letters with their reason.

Frame to frame, with nothing but columns: the same step serves a batch and a stream. A raw frame has the source's own
columns, and beside them

    keylane_place       the order of two records of one time: the later one counts
    keylane_source      where the record was, for people
    keylane_original    the record as it was, for a dead letter
    keylane_malformed   whether it could not be read at all; only where that can be
    keylane_lane, keylane_lane_key    where the source lies in lanes already

Who makes such frames: `sources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DecimalType, DoubleType, FloatType, NullType

from keylane.contract.fields import paths_in
from keylane.errors import DataError, UnknownNameError, did_you_mean
from keylane.geo.coordinates import EARTH, PLACE_REASONS
from keylane.keys.times import UNIT_NAMES, WRITTEN
from keylane.records import Reason
from keylane.spark.cells import place_columns
from keylane.spark.keys import field_of, has_field, schema_tree
from keylane.spark.read_parquet import LANE, MALFORMED, PLACE, picked
from keylane.spark.times import micros_of, unit_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from keylane.geo.coordinates import Region
    from keylane.pipelines.match.options import Columns

    #: Good records, and dead letters.
    Read = tuple[DataFrame, DataFrame]

SOURCE: Final = "keylane_source"
ORIGINAL: Final = "keylane_original"
LANE_KEY: Final = "keylane_lane_key"
DEAD_COLUMNS: Final = ("side", "source", "reason", "original")
_AVAILABLE: Final = "available"
_REASON: Final = "keylane_reason"
#: What a topic's own source adds to a raw frame: partition, clock, and blocks that it has packed itself.
_OF_TOPICS: Final = ("keylane_part", "keylane_clock", "keylane_slot", "keylane_block")


def noted_unit(frame: DataFrame, columns: Columns, side: str) -> str:
    """The unit of a time's numbers, where none is given; refused where they are of several or of none."""
    if columns.moment.form is not None:
        return ""
    unread = F.col(MALFORMED) if MALFORMED in frame.columns else None
    unit, sizes = unit_in(frame, field_of(columns.moment.name, frame.schema), unread)
    if unit is not None:
        return f"by their size, the times of the {side} are {UNIT_NAMES[unit]}"
    return f"times of the {side} are text; without an offset they are UTC" if sizes and sizes[WRITTEN] else ""


def as_pings(frame: DataFrame, columns: Columns, region: Region = EARTH) -> Read:
    """Drivers: `driver, ts, offset, lat, lng, available, cell`, and `lane`, `lane_key` where they are known."""
    return _read(frame, columns, region, "driver", {_AVAILABLE: _available(frame, columns)})


def as_requests(frame: DataFrame, columns: Columns, region: Region = EARTH) -> Read:
    """Riders: `rider, ts, offset, lat, lng, cell`."""
    return _read(frame, columns, region, "rider", {})


def as_rows(frame: DataFrame, columns: Columns, region: Region, *, drivers: bool) -> DataFrame:
    """All records, good and bad: `id, ts, offset, lat, lng, available, reason, source, original`, in this order."""
    extra = {_AVAILABLE: _available(frame, columns)} if drivers else {}
    judged, made = _judged(frame, columns, region, "id", extra)
    available = made.pop(_AVAILABLE, F.lit(None).cast("boolean"))
    named = {
        **made,
        _AVAILABLE: available,
        "reason": F.col(_REASON),
        "source": F.col(SOURCE),
        "original": F.col(ORIGINAL),
    }
    more = [name for name in (*_OF_TOPICS,) if name in frame.columns]
    return judged.select(*(column.alias(name) for name, column in named.items()), *more)


def check_columns(found: DataFrame, columns: Columns, side: str, where: str) -> None:
    """Refuse a source that lacks a column, with the option that names another."""
    named = {role: getattr(columns, role) for role in ("id", "time", "lat", "lng", "available")}
    named["time"] = columns.moment.name
    for role, name in named.items():
        if name is not None and not has_field(name, found.schema):
            there = paths_in(schema_tree(found.schema))
            option = "--available" if role == "available" else f"--{side.removesuffix('s')}-{role}"
            hint = " ".join(filter(None, (did_you_mean(name, there), f"{option} COLUMN names another")))
            what = f"the {side} have no such column: {where}"
            raise UnknownNameError.of(what, got=name, allowed=", ".join(there), hint=hint)


def _read(frame: DataFrame, columns: Columns, region: Region, who: str, extra: dict[str, Column | None]) -> Read:
    judged, made = _judged(frame, columns, region, who, extra)
    return _good(judged, made), _dead(judged, who)


def _judged(
    frame: DataFrame, columns: Columns, region: Region, who: str, extra: dict[str, Column | None]
) -> tuple[DataFrame, dict[str, Column]]:
    """The frame with the reason of every bad record, and the columns that good ones are made of."""
    time = field_of(columns.moment.name, frame.schema)
    ident, moment = _ident(frame, columns.id), micros_of(time, columns.moment.form)
    written = _number(frame, columns.lat), _number(frame, columns.lng)
    lat, lng = map(region.degrees, written)
    made = {who: ident, "ts": moment, "offset": F.col(PLACE), "lat": lat, "lng": lng, **_given(extra)}
    unread = [F.col(MALFORMED)] if MALFORMED in frame.columns else []
    raw_time = time.column
    rules = [
        *((one, Reason.MALFORMED_RECORD) for one in unread),
        (ident.isNull(), Reason.NULL_KEY),
        (ident == "", Reason.EMPTY_KEY),
        (raw_time.isNull() | (raw_time.cast("string") == ""), Reason.MISSING_FIELD),
        (moment.isNull(), Reason.MALFORMED_RECORD),
        *((misfit, Reason.MALFORMED_RECORD) for misfit in (_misfits(frame, columns) if extra else [])),
    ]
    reason = picked([str(one) for one in PLACE_REASONS], "string", place_columns(*written, region).problem)
    for condition, word in reversed(rules):
        reason = F.when(condition, F.lit(str(word))).otherwise(reason)
    return frame.select("*", reason.alias(_REASON)), made


def _given(extra: dict[str, Column | None]) -> dict[str, Column]:
    return {name: F.lit(True) if column is None else column for name, column in extra.items()}


def _good(judged: DataFrame, made: dict[str, Column]) -> DataFrame:
    lanes = {"lane": LANE, "lane_key": LANE_KEY}
    known = [F.col(column).alias(name) for name, column in lanes.items() if column in judged.columns]
    kept = judged.where(F.col(_REASON).isNull())
    good = kept.select(*(column.alias(name) for name, column in made.items()), *known)
    return good.select("*", place_columns(F.col("lat"), F.col("lng")).cell.alias("cell"))


def _dead(judged: DataFrame, who: str) -> DataFrame:
    return judged.where(F.col(_REASON).isNotNull()).select(
        F.lit(f"{who}s").alias("side"),
        F.col(SOURCE).alias("source"),
        F.col(_REASON).alias("reason"),
        F.col(ORIGINAL).alias("original"),
    )


def _ident(frame: DataFrame, name: str) -> Column:
    field = field_of(name, frame.schema)
    if field.kind not in {"string", "integer", "void"}:
        raise DataError.of(f"column {name!r} does not hold ids", got=field.written, allowed="text, whole numbers")
    return field.column.cast("string")


def _number(frame: DataFrame, name: str) -> Column:
    field = field_of(name, frame.schema)
    numbers = (DoubleType, FloatType, DecimalType, NullType)
    if field.kind != "integer" and not isinstance(field.held, numbers):
        raise DataError.of(f"column {name!r} does not hold degrees", got=field.written, allowed="numbers")
    return field.column.cast("double")


def _available_name(frame: DataFrame, columns: Columns) -> str | None:
    if columns.available is not None:
        return columns.available
    return _AVAILABLE if _AVAILABLE in frame.columns else None


def _available(frame: DataFrame, columns: Columns) -> Column | None:
    """Whether a driver may be matched. A record without a value is available."""
    name = _available_name(frame, columns)
    if name is None:
        return None
    field = field_of(name, frame.schema)
    if not (isinstance(field.held, BooleanType) or field.kind in {"string", "void"}):
        raise DataError.of(f"column {name!r} does not hold availability", got=field.written, allowed="true and false")
    known = field.column.try_cast("boolean") if field.kind == "string" else field.column.cast("boolean")
    return F.coalesce(known, F.lit(True))


def _misfits(frame: DataFrame, columns: Columns) -> list[Column]:
    """Text that is neither true nor false, where availability is text."""
    name = _available_name(frame, columns)
    field = None if name is None else field_of(name, frame.schema)
    if field is None or field.kind != "string":
        return []
    text = field.column
    return [(text != "") & text.try_cast("boolean").isNull()]

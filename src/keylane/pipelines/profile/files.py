"""What there is to count in files, before it is counted: the frame, its windows, and what is known without reading.

Topics as the same: `kafka.profile`. The pass itself: `profile`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from keylane.errors import DataError
from keylane.keys.window import TICKS
from keylane.profile.model import position_windows, time_windows, windows_for
from keylane.spark.count_keys import AT, SIZE, micros_of, tick_of
from keylane.spark.keys import column_named, field_of, type_of
from keylane.spark.read_parquet import MALFORMED, POSITION, SourceFile
from keylane.spark.scan import LANE, Scan, scan_lines, scan_parquet, url_of
from keylane.systems.files.data import Ends, ends_of, read_footers
from keylane.systems.files.listing import kind_of, name_in, path_values, source_files
from keylane.systems.folders.folder import read_head

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from keylane.contract.model import Key
    from keylane.pipelines.profile.run import Options
    from keylane.profile.model import Windows
    from keylane.spark.keys import Field
    from keylane.systems.files.data import Footer

__all__ = ["Looked", "look_at_files", "timed"]

_LANE: Final = re.compile(r"lane=(\d{1,9})")
_STREAM: Final = re.compile(r"stream=(.*)")


@dataclass(frozen=True, slots=True)
class Looked:
    """A source that is ready to be counted.

    `frame` is as `spark.count_keys.counted` wants it. `records` is how many there are, or at most, where that is known;
    `exact` says that it is no bound. `size` is the bytes of the whole source, where records do not tell theirs.
    """

    frame: DataFrame
    windows: Windows
    records: int | None
    exact: bool
    lanes: int | None = None
    size: int | None = None
    untimed: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def look_at_files(spark: SparkSession, path: Path, key: Key, given: Options) -> Looked:
    """A file or folder of Parquet, JSON lines or CSV."""
    kind = kind_of(path, given.kind)
    files = _files(spark, path, kind, given)
    if not files:
        raise DataError.of("the source has no files", got=str(path))
    lanes = _lanes(files)
    names = list(dict.fromkeys([*key.fields, *filter(None, (given.time, given.size))]))
    footers = read_footers([file.path for file in files]) if kind == "parquet" else []
    scan = _scanned(spark, kind, files, footers, names, key, lanes, given)
    if scan.records == 0:
        raise DataError.of("no records", got=str(path), hint="nothing can be said of an empty source")
    count = windows_for(given.windows, scan.records)
    facts: dict[str, Any] = {"files": len(files), "kind": kind, "time": given.time, "bytes": given.size}
    facts |= {"unit": given.unit} if given.unit else {}
    if given.time is None:
        windows, at, untimed = position_windows(scan.positions, count), F.col(POSITION), False
    else:
        time = field_of(given.time, scan.frame.schema)
        at = micros_of(time, given.unit)
        windows, untimed = timed(scan.frame, at, time, given.unit, ends_of(footers, given.time), count)
    frame = scan.frame.select(*_columns(scan, key, given, at))
    known = None if lanes is None else _lane_count(path, files, lanes)
    weight = None if given.size else sum(file.size for file in files)
    return Looked(frame, windows, scan.records, scan.records is not None, known, weight, untimed, facts)


def _files(spark: SparkSession, path: Path, kind: str, given: Options) -> list[SourceFile]:
    """In the order of their names, which is the order of positions. Files without a byte hold no record of any kind."""
    found = []
    for file in source_files(path, None if given.kind else kind):
        name, weight = name_in(path, str(file)), file.stat().st_size
        if weight:
            found.append(SourceFile(str(file), url_of(spark, str(file)), name, weight, 0, path_values(name)))
    return sorted(found, key=lambda file: file.name)


def _lanes(files: Sequence[SourceFile]) -> list[int] | None:
    """The lane that each file lies in, where all lie in lanes of one stream."""
    parts = [file.path.split("/")[:-1] for file in files]
    lanes = [[found[1] for part in one if (found := _LANE.fullmatch(part))] for one in parts]
    streams = {tuple(part for part in one if _STREAM.fullmatch(part)) for one in parts}
    return [int(one[-1]) for one in lanes] if all(lanes) and len(streams) == 1 else None


def _lane_count(path: Path, files: Sequence[SourceFile], lanes: Sequence[int]) -> int:
    """As the head of the target says it, where the source is one or a stream of one; at least as far as was seen."""
    head = read_head(path) or read_head(path.parent)
    streams = [found[1] for part in files[0].path.split("/") if (found := _STREAM.fullmatch(part))]
    told = head.streams.get(streams[-1], 0) if head is not None and streams else 0
    return max(told, 1 + max(lanes))


def _scanned(
    spark: SparkSession,
    kind: str,
    files: Sequence[SourceFile],
    footers: Sequence[Footer],
    names: Sequence[str],
    key: Key,
    lanes: Sequence[int] | None,
    given: Options,
) -> Scan:
    if kind != "parquet":
        return scan_lines(spark, kind, files, _line_types(key, names), lanes)
    rows, shapes = [footer.rows for footer in footers], [footer.shape for footer in footers]
    return scan_parquet(spark, files, rows, shapes, names, lanes, positions=given.time is None)


def _line_types(key: Key, names: Sequence[str]) -> dict[str, DataType]:
    """Lines have no types of their own: all is text, but for numbers that a key is made of."""
    kinds = {name: type_of(how) for name, how in zip(key.fields, key.encodings, strict=True)}
    return {name: kinds.get(name, StringType()) for name in names}


def _columns(scan: Scan, key: Key, given: Options, at: Column) -> list[Column]:
    columns = [*map(column_named, key.fields), at.alias(AT)]
    if given.size is not None:
        columns.append(_size(field_of(given.size, scan.frame.schema)).alias(SIZE))
    return [*columns, *(F.col(name) for name in (LANE, MALFORMED) if name in scan.frame.columns)]


def _size(size: Field) -> Column:
    """A column of whole numbers says how long a record is; one of bytes is as long as it is; text may be a number."""
    if size.kind == "integer":
        return F.coalesce(size.column.cast("bigint"), F.lit(0))
    if size.kind == "binary":
        return F.coalesce(F.octet_length(size.column).cast("bigint"), F.lit(0))
    if size.kind == "string":
        return F.coalesce(size.column.try_cast("bigint"), F.octet_length(size.column).cast("bigint"), F.lit(0))
    raise DataError.of(f"column {size.name!r} tells no lengths", got=size.written, allowed="whole numbers, bytes, text")


def timed(
    frame: DataFrame, at: Column, time: Field, unit: str | None, ends: Ends | None, count: int
) -> tuple[Windows, bool]:
    """Windows between the first and the last time, and whether some record may have none.

    Footers tell the ends of a column for nothing. Where they do not (text, lines, old files), a job looks for them: it
    reads that one column, and without the ends no record could be given its window in the pass.
    """
    first, last, nulls = _ends(frame, at, time, unit, ends)
    if last is None:
        hint = "--time-unit, where they are whole numbers; 2026-11-15T08:30:00Z is how text has to be"
        raise DataError.of(f"no record has a time in {time.name!r}", got=time.written, hint=hint)
    return time_windows(first, last, count, tick_of(time)), nulls > 0


def _ends(frame: DataFrame, at: Column, time: Field, unit: str | None, ends: Ends | None) -> tuple[Any, Any, Any]:
    if ends is not None and ends.timed == (time.kind != "integer"):
        ticks = 1 if ends.timed else TICKS[str(unit)]
        return ends.first * ticks, ends.last * ticks, ends.nulls
    (found,) = frame.agg(F.min(at), F.max(at), F.count_if(at.isNull())).collect()
    return tuple(found)

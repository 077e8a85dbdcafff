"""Records of a batch -> one staged Parquet file for each lane, sorted by source and numbered; and the dead letters.

Lanes of many records: one task writes one lane. The rows are shuffled by lane, sorted by their position in the source,
and numbered on the way, all in Spark's own code. Many lanes of few records: one task writes many lanes, one after the
other, in Python (`small_lanes`). Either way a lane gets one file, with the same columns, order and offsets. What
the files hold is then read from their footers, not from what the tasks report. Committing a staged batch is in
`systems.folders.folder`.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from math import ceil
from operator import or_
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from keylane.errors import CountError
from keylane.records import Reason
from keylane.spark.frames import with_placements
from keylane.spark.json_fields import json_of
from keylane.spark.keys import ADDED, column_named, field_of
from keylane.spark.read_parquet import (
    EXACT,
    INEXACT,
    LINE,
    MALFORMED,
    PLACE,
    POSITION,
    ROW_BITS,
    file_of,
    picked,
    row_of,
)
from keylane.spark.small_lanes import GROWING, OFFSET, SLOT, WRITTEN, has_known_types, lane_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame

    from keylane.contract.model import Contract
    from keylane.router import Router
    from keylane.spark.read_parquet import Batch

#: The last 33 bits of Spark's increasing id count the rows of a task.
_ROW_IN_TASK: Final = (1 << 33) - 1
_PART = re.compile(r"part-(\d+)-.*\.parquet")
#: Delta encodings: the numbers that keylane adds cost next to nothing. Every current reader supports them. They never
#: repeat, so a dictionary of them would be built and thrown away. Nobody would read Hadoop's files of checksums beside
#: the staged ones, and each costs a file and a process that changes its permissions; pages have their own checksums.
_PARQUET: Final = {
    "parquet.writer.version": "v2",
    "compression": "snappy",
    **{f"parquet.enable.dictionary#{name}": "false" for name in (*GROWING, "keylane_source.file")},
    # A name of a file is compared with the least and the greatest for every record, and no reader asks for that.
    "parquet.column.statistics.enabled#keylane_source.file": "false",
    "parquet.size.statistics.enabled": "false",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
#: A position of a batch with up to 8192 files takes so many bits: the lanes have the ten that are left of a number.
_PLACE_BITS: Final = 53
#: A lane that one task writes costs about as much as this many records more in Python, and starting Python as much as
#: some hundred lanes.
_FEW_RECORDS, _MANY_LANES = 10_000, 200
#: Records of one task that writes many lanes.
_RECORDS_A_TASK: Final = 250_000
MESSAGE_LENGTH: Final = 512

_MESSAGES: Final = {
    Reason.NULL_KEY: "the key is null, and the contract rejects null keys",
    Reason.EMPTY_KEY: "the key is empty, and the contract rejects empty keys",
    Reason.MALFORMED_KEY: "a field of the key does not fit its encoding",
    Reason.MISSING_FIELD: "a field that the lane depends on is missing",
    Reason.NOT_IN_TABLE: "the key is not in the contract's table",
    Reason.NO_POSITION: "the lane depends on the source position, and there is none",
    Reason.MALFORMED_RECORD: "the record cannot be read, or the value of a number not be kept",
    Reason.PARKED_KEY: "an earlier record of this key is a dead letter, and the route parks such keys",
    Reason.TOO_LARGE: "the record is larger than its topic takes",
    Reason.UNWRITABLE_TIME: "the record's time is one that its topic does not take",
    Reason.UNWRITABLE_KEY: "the record has no key, and its topic is compacted",
    Reason.MALFORMED_HEADER: "the name of a header is not text in UTF-8",
}


@dataclass(frozen=True, slots=True)
class LaneFile:
    """A staged file: its stream and lane, and how many records it has."""

    stream: str
    lane: int
    path: Path
    records: int


def decided(batch: Batch, router: Router) -> DataFrame:
    """The records with their lane, or the reason why they have none."""
    source = batch.frame.withColumnsRenamed({name: _aside(name) for name in batch.columns})
    frame = with_placements(source, router, position=POSITION)
    marks = [F.col(name) for name in (MALFORMED, INEXACT) if name in frame.columns]
    if not marks:
        return frame
    unread = F.when(reduce(or_, marks), F.lit(str(Reason.MALFORMED_RECORD)))
    return frame.withColumn("reason", F.coalesce(unread, F.col("reason")))


def _aside(name: str) -> str:
    """The temporary name of a source's column: one with a name that routing adds is renamed until it is written."""
    return f"keylane_its_{name}" if name.lower() in ADDED else name


def _own(columns: Sequence[str]) -> list[Column]:
    """The columns of the source under their own names."""
    return [column_named(_aside(name)).alias(name) for name in columns]


def write_lanes(
    frame: DataFrame, batch: Batch, names: Sequence[str], starts: Mapping[str, Sequence[int]], folder: Path
) -> list[LaneFile]:
    """Write the records that have a lane; `starts` are the next offsets, by stream and lane. One file for each lane."""
    slots = [(stream, lane) for stream, lanes in starts.items() for lane in range(len(lanes))]
    firsts = [start for lanes in starts.values() for start in lanes]
    rows = frame.where(F.col("reason").isNull()).select(*_own(batch.columns), PLACE, _slot(starts).alias(SLOT))
    few = len(slots) > _MANY_LANES and sum(batch.records) < len(slots) * _FEW_RECORDS
    write = _many_lanes_a_task if few and has_known_types(rows.schema) else _one_lane_a_task
    written = write(rows, batch, names, firsts, folder)
    with ThreadPoolExecutor(16) as pool:
        files = pool.map(lambda part: _lane_file(slots[part[0]], firsts[part[0]], part[1]), written)
        return [file for file in files if file is not None]


def _one_lane_a_task(
    rows: DataFrame, batch: Batch, names: Sequence[str], firsts: Sequence[int], folder: Path
) -> list[tuple[int, Path]]:
    in_task = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_IN_TASK))
    offset = picked(firsts, "bigint", F.spark_partition_id()) + in_task
    lanes = _shuffled(rows, len(firsts), len(names))
    records = lanes.select(
        *map(column_named, batch.columns), offset.alias(OFFSET), _source(names).alias("keylane_source")
    )
    # A dictionary of numbers that do not repeat would be built and thrown away.
    plain = {f"parquet.enable.dictionary#{name}": "false" for name in batch.varied}
    records.write.options(**_PARQUET, **plain).parquet(f"file://{folder}")
    return _parts(folder)


def _shuffled(rows: DataFrame, lanes: int, files: int) -> DataFrame:
    """One task for each lane, its rows in order. The slot goes in the free bits of the position: one column less."""
    if lanes > 1 << (63 - _PLACE_BITS) or files > 1 << (_PLACE_BITS - ROW_BITS):
        return rows.repartitionById(lanes, F.col(SLOT)).sortWithinPartitions(PLACE)
    both = F.shiftleft(F.col(SLOT).cast("bigint"), _PLACE_BITS).bitwiseOR(F.col(PLACE))
    slot = F.shiftright(PLACE, _PLACE_BITS).cast("int")
    packed = rows.withColumn(PLACE, both).drop(SLOT).repartitionById(lanes, slot).sortWithinPartitions(PLACE)
    return packed.withColumn(PLACE, F.col(PLACE).bitwiseAND(F.lit((1 << _PLACE_BITS) - 1)))


def _many_lanes_a_task(
    rows: DataFrame, batch: Batch, names: Sequence[str], firsts: Sequence[int], folder: Path
) -> list[tuple[int, Path]]:
    tasks = max(rows.sparkSession.sparkContext.defaultParallelism, ceil(sum(batch.records) / _RECORDS_A_TASK))
    columns = [*map(column_named, batch.columns), _source(names).alias("keylane_source")]
    numbered = rows.select(*columns[:-1], F.lit(None).cast("bigint").alias(OFFSET), columns[-1])
    lanes = (
        rows.repartitionById(tasks, F.pmod(SLOT, F.lit(tasks)).cast("int"))
        .sortWithinPartitions(SLOT, PLACE)
        .select(*columns, SLOT)
    )
    written = lanes.mapInArrow(lane_files(folder, firsts, numbered.schema.json()), WRITTEN).collect()
    return [(slot, folder / name) for slot, name in written]


def write_dead(
    frame: DataFrame, batch: Batch, names: Sequence[str], router: Router, start: int, folder: Path
) -> tuple[Path, int] | None:
    """Write the records that have no lane, in the order of the source; None when there are none."""
    keys = key_columns(router.contract, frame)
    has_lines = LINE in batch.frame.columns
    # The bytes of a line or of a message's value; a Parquet record has none of its own, so its columns as JSON.
    original = F.col(LINE) if has_lines else json_of(_own(batch.columns))
    if EXACT in batch.frame.columns:
        original = F.coalesce(EXACT, original)
    line = F.left(F.make_valid_utf8(original), F.lit(MESSAGE_LENGTH))
    letters = (
        frame.where(F.col("reason").isNotNull())
        .select(*map(column_named, frame.columns))
        .repartition(1)
        .sortWithinPartitions(PLACE)
        .select(
            (F.lit(start) + F.monotonically_increasing_id()).alias("keylane_offset"),
            _source(names).alias("keylane_source"),
            "reason",
            explained(keys, line).alias("message"),
            original.cast("binary").alias("original"),
            *_own(batch.beside),
            F.lit(router.contract.fingerprint).alias("fingerprint"),
        )
    )
    letters.write.options(**_PARQUET).parquet(f"file://{folder}")
    counted = [(path, pq.read_metadata(path).num_rows) for _, path in _parts(folder)]
    return next(((path, records) for path, records in counted if records), None)


def _slot(starts: Mapping[str, Sequence[int]]) -> Column:
    """The lane's number among the lanes of all streams: the task that writes it."""
    streams = list(starts)
    if len(streams) == 1:
        return F.col("lane")
    slot, before = F.col("lane"), 0
    for stream in streams:
        slot = F.when(F.col("stream") == stream, F.col("lane") + before).otherwise(slot)
        before += len(starts[stream])
    return slot


def _source(names: Sequence[str]) -> Column:
    """The source position as people read it: file and row."""
    place = F.col(PLACE)
    return F.struct(picked(names, "string", file_of(place)).alias("file"), row_of(place).alias("row"))


def key_columns(contract: Contract, frame: DataFrame) -> list[Column]:
    """The fields of the key, by their names."""
    fields = [field_of(name, frame.schema) for name in contract.spec.key.fields]
    return [field.column.alias(field.name) for field in fields]


def explained(keys: Sequence[Column], whole: Column) -> Column:
    """Why a record has no lane, with the fields of its key, or the whole of one that cannot be read; shortened."""
    text = F.col("reason")
    for reason, words in _MESSAGES.items():
        text = F.when(F.col("reason") == str(reason), F.lit(words)).otherwise(text)
    got = F.when(F.col("reason") == F.lit(str(Reason.MALFORMED_RECORD)), whole).otherwise(json_of(keys))
    plain = F.regexp_replace(F.concat(text, F.lit(": got "), got), r"[\p{Cntrl}\p{Cf}\u2028\u2029]+", " ")
    return F.left(plain, F.lit(MESSAGE_LENGTH))


def _parts(folder: Path) -> list[tuple[int, Path]]:
    matches = [(_PART.fullmatch(path.name), path) for path in sorted(folder.iterdir())]
    return [(int(name[1]), path) for name, path in matches if name]


def _lane_file(slot: tuple[str, int], first: int, path: Path) -> LaneFile | None:
    """A file with its records, if the offsets in its footer are the expected ones; None when it has none."""
    footer = pq.read_metadata(path)
    if not footer.num_rows:
        return None
    (stream, lane), (low, high), records = slot, _offsets(footer), footer.num_rows
    if (low, high) != (first, first + records - 1):
        raise CountError.of(
            f"the offsets of {stream} lane {lane} are not dense",
            got=f"{low} to {high} in {records} records",
            allowed=f"{first} to {first + records - 1}",
        )
    return LaneFile(stream, lane, path, records)


def _offsets(footer: pq.FileMetaData) -> tuple[int, int]:
    columns = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    number = columns[OFFSET]
    groups = [footer.row_group(n).column(number).statistics for n in range(footer.num_row_groups)]
    return min(group.min for group in groups), max(group.max for group in groups)

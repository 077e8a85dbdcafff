"""Rows of a task, sorted by lane -> a Parquet file for each lane; in Python workers, for many lanes of few records.

A file that Java writes costs some milliseconds, whatever is in it: a writer with its buffers, and a `chmod` process
for the file and for its folder, because Hadoop's local file system changes permissions by starting one. Arrow's writer
costs a few tenths of a millisecond. A record costs more here, because it is passed to Python first; so lanes of
many records are written by Spark (`write_lanes`, which also decides between the two). Both write the same columns of
the same types: tests/route/test_many_lanes.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

SLOT: Final = "keylane_slot"
OFFSET: Final = "keylane_offset"
#: What a task reports of each file, as a schema of Spark.
WRITTEN: Final = "slot int, name string"
_WRITTEN: Final = pa.schema([("slot", pa.int32()), ("name", pa.string())])
#: A row group is written when this many records of a lane are there.
_ROWS: Final = 65_536
#: Numbers that never repeat: deltas take next to nothing, and a dictionary of them would be as large as they are.
GROWING: Final = (OFFSET, "keylane_source.row")
_SCALARS: Final = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)
#: Under which Spark keeps a frame's own types in a Parquet file.
_ROW_METADATA: Final = "org.apache.spark.sql.parquet.row.metadata"


def has_known_types(kind: DataType) -> bool:
    """Whether Arrow writes values of this type as Spark does. Types that were not tried are left to Spark."""
    if isinstance(kind, StructType):
        return bool(kind.fields) and all(has_known_types(column.dataType) for column in kind.fields)
    if isinstance(kind, ArrayType):
        return has_known_types(kind.elementType)
    if isinstance(kind, MapType):
        return has_known_types(kind.keyType) and has_known_types(kind.valueType)
    # Exactly text: a collation or a length is a type of its own.
    return isinstance(kind, _SCALARS) or kind == StringType()


def lane_files(folder: Path, firsts: Sequence[int], schema: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What `mapInArrow` runs over rows that are sorted by slot and position. `schema` is that of the files, as JSON."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A task that is tried again, or runs twice, has names of its own: only those that are reported count.
        attempt, current, folder_made = uuid4().hex[:12], None, False
        for batch in batches:
            if not folder_made:
                folder.mkdir(exist_ok=True)
                folder_made = True
            for slot, rows in _by_slot(batch):
                if current is None or current.slot != slot:
                    if current is not None:
                        yield current.closed()
                    current = _OpenLane(slot, folder / f"{slot:08d}-{attempt}.parquet", firsts[slot], schema)
                current.add(rows)
        if current is not None:
            yield current.closed()

    return write


def _by_slot(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The runs of equal slots, in their order, without that column."""
    slots = batch.column(SLOT).to_numpy()
    rows = batch.drop_columns([SLOT])
    ends = [*(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    begin = 0
    for end in ends:
        if end > begin:
            yield int(slots[begin]), rows.slice(begin, end - begin)
        begin = end


@dataclass
class _OpenLane:
    """The file of a lane while it is written; at most `_ROWS` records and a batch of them wait in memory."""

    slot: int
    path: Path
    next: int
    schema: str
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Number the rows, and write them when there are enough."""
        offsets = pa.array(np.arange(self.next, self.next + len(rows)), pa.int64())
        self.next += len(rows)
        at = rows.schema.get_field_index("keylane_source")
        self.waiting.append(rows.add_column(at, pa.field(OFFSET, pa.int64()), offsets))
        if sum(map(len, self.waiting)) >= _ROWS:
            self._write()

    def closed(self) -> pa.RecordBatch:
        """Write what waits, and report the file."""
        self._write()
        assert self.writer is not None
        self.writer.close()
        return pa.RecordBatch.from_arrays(
            [pa.array([self.slot], pa.int32()), pa.array([self.path.name])], schema=_WRITTEN
        )

    def _write(self) -> None:
        if not self.waiting:
            return
        table = pa.Table.from_batches(self.waiting)
        if self.writer is None:
            # A lane that comes twice in a task is a frame that is not sorted.
            self.path.touch(exist_ok=False)
            self.writer = pq.ParquetWriter(self.path, table.schema, **_options(table.schema))
            self.writer.add_key_value_metadata({_ROW_METADATA: self.schema})
        self.writer.write_table(table)
        self.waiting = []


def _options(schema: pa.Schema) -> dict[str, Any]:
    """As Spark writes: pages of the second version with checksums, dictionaries except for growing numbers."""
    leaves = [leaf for column in schema for leaf in _leaves(column.name, column.type)]
    return {
        "compression": "snappy",
        "data_page_version": "2.0",
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_page_checksum": True,
        "use_dictionary": [leaf for leaf in leaves if leaf not in GROWING],
        "column_encoding": {leaf: "DELTA_BINARY_PACKED" for leaf in leaves if leaf in GROWING},
    }


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of the columns that a type has in Parquet."""
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves(f"{path}.{child.name}", child.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path

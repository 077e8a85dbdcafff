"""Messages as columns for `identify` and `check`: those of the record, and fields of its value.

A record whose value cannot be read is left out and counted. As `verify` reads them: `stream`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.messages.values import fields_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.fields import FieldSpec
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.messages.chunks import ChunkReader, RecordChunk
    from keylane.systems.messages.values import TopicFields
    from keylane.systems.streams import Part, Skipped

POSITION: Final = ("lane", "partition", "offset")


@dataclass(slots=True)
class ReadColumns:
    """Reads columns of a lane's range of offsets. `make` makes a reader; one connection serves all lanes."""

    make: Callable[[WantedColumns], ChunkReader]
    spec: FieldSpec
    options: StreamOptions
    skipped: Skipped
    readers: dict[tuple[str, ...], tuple[ChunkReader, TopicFields]] = field(default_factory=dict)

    def __call__(self, part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        own = tuple(name for name in columns if name not in POSITION or name == self.spec.key)
        if own not in self.readers:
            fields = fields_for(replace(self.spec, names=own), self.options)
            reader = self.make(WantedColumns(values=bool(fields.spec.of_value), times=fields.spec.of_time))
            self.readers[own] = reader, fields
        reader, fields = self.readers[own]
        assert part.lane is not None
        for chunk in reader.chunks(part.name, part.lane, part.start, part.end):
            read, unread = _read(fields, chunk)
            known = {**_placed(chunk, part.lane), **read}
            names = [*columns, *(name for name in read if name not in own)]
            batch = pa.RecordBatch.from_arrays([known[name] for name in names], names=names)
            if unread.any():
                first = chunk.offsets[int(unread.argmax())]
                self.skipped.add_values(int(unread.sum()), f"{part.name}/{part.lane}/{first}")
                batch = batch.filter(pa.array(~unread))
            yield batch


def _placed(chunk: RecordChunk, lane: int) -> dict[str, pa.Array]:
    lanes = pa.array(np.array(chunk.lanes, np.int32) if chunk.lanes else np.full(len(chunk), lane, np.int32))
    return {"lane": lanes, "partition": lanes, "offset": pa.array(chunk.offsets, pa.int64())}


def _read(fields: TopicFields, chunk: RecordChunk) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
    values = pa.array(chunk.values, pa.binary()) if fields.spec.of_value else None
    times = pa.array(chunk.times, pa.timestamp("ms", "UTC")) if fields.spec.of_time else None
    return fields.read(pa.array(chunk.keys, pa.binary()), values, times)

"""A topic as columns for `identify` and `check`: a batch at a time, up to its present end.

`key`, `timestamp`, `lane` (or `partition`) and `offset` are of the record; every other column is a field of its value,
whose format is an option. A record whose value cannot be read is left out and counted. Files as the same: `files.data`.
A topic as `verify` reads it: `stream`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.errors import DataError
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.reader import TopicReader, level_of
from keylane.systems.kafka.values import fields_for
from keylane.systems.read_range import ReadRange, stated, stretches
from keylane.systems.streams import Description, Part, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.fields import FieldSpec
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.kafka.reader import RecordChunk
    from keylane.systems.kafka.values import TopicFields

_POSITION: Final = ("lane", "partition", "offset")


@dataclass(slots=True)
class ReadColumns:
    """Reads columns of a lane's range of offsets. `make` makes a reader; one connection serves all lanes."""

    make: Callable[..., TopicReader]
    spec: FieldSpec
    options: StreamOptions
    skipped: Skipped
    readers: dict[tuple[str, ...], tuple[TopicReader, TopicFields]] = field(default_factory=dict)

    def __call__(self, part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        own = tuple(name for name in columns if name not in _POSITION or name == self.spec.key)
        if own not in self.readers:
            fields = fields_for(replace(self.spec, names=own), self.options)
            reader = self.make(values=bool(fields.spec.of_value), times=fields.spec.of_time)
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


def describe_topic(address: Address, spec: FieldSpec, options: StreamOptions) -> Description:
    """Ask the cluster what there is of a topic, and how far its lanes go now."""
    access = kafka_access(address.authority, options.properties)
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([address.name])[address.name]
        if not lanes:
            raise DataError.of(f"no such topic at {access.brokers}", got=address.name)
        ranges = cluster.offset_ranges(address.name, lanes, committed=level_of(access) == "read_committed")
        wanted = options.read_range or ReadRange()
        there = [(one.start, one.end) for one in ranges]
        inside = cluster.within(address.name, there, wanted)
    taken = stretches(inside, wanted.most)
    parts = tuple(Part(address.name, lane=one.lane, start=one.start, end=one.end) for one in taken)
    columns = (spec.key, *_POSITION, "timestamp")
    skipped = Skipped(what="record", fault="with a value that cannot be read")
    read = ReadColumns(partial(TopicReader, access), spec, options, skipped)
    many = sum(one.end - one.start for one in taken)
    sampled = stated(there, inside, many, wanted, spread=True)
    return Description(str(address), columns, parts, read, lanes, spec.key, "lane", skipped=skipped, sampled=sampled)

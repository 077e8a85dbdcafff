"""Messages counted in this process, without Spark: what `profile`, `plan` and `geo table` read of small streams.

The offsets and the fields are those that Spark is given, windows are cut by the same records at both ends of
each lane, and a value that cannot be read here cannot be read there (`values`): the answer is the same, to the last
count. Files as the same: `files.local_scan`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from keylane.contract.fields import TIME, FieldSpec
from keylane.keys.arrow_bytes import nulls_of
from keylane.keys.json_columns import ARROW
from keylane.keys.read import names_in_json
from keylane.keys.times import TimeEnds
from keylane.profile.count import refuse_misfits
from keylane.profile.model import time_windows, windows_for
from keylane.profile.read_rows import BEFORE_ALL, ReadRows, RowSource, Times, times_read
from keylane.profile.scan import LocalScan, ScannedBatch, time_facts
from keylane.systems.messages.values import text_of
from keylane.systems.streams import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.keys.times import TimeRange
    from keylane.profile.scan import ScanRequest
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.messages.chunks import RecordChunk
    from keylane.systems.messages.values import TopicFields

    #: From one offset up to another, for each lane.
    Ranges = Sequence[tuple[int, int]]

#: The record's own time, in microseconds, and its size: columns beside its fields.
_STAMP: Final = "keylane_stamp"
_SIZE: Final = "keylane_bytes"
#: The time of a record is in milliseconds.
_MILLISECOND: Final = 1000
#: Values whose fields an error names.
_SAMPLE: Final = 100
#: Offsets at each end of a lane that are read for its first and last time; some of them are marks, not records.
_LOOK: Final = 100


@dataclass(frozen=True, slots=True)
class ScannedRanges:
    """The offsets of each lane that are read, what they are of all there are in words, and the topic's id."""

    ranges: Ranges
    sampled: str
    id: str

    @property
    def heads(self) -> Ranges:
        """The first offsets of each lane."""
        return [(start, min(end, start + _LOOK)) for start, end in self.ranges]

    @property
    def tails(self) -> Ranges:
        """The last offsets of each lane."""
        return [(max(start, end - _LOOK), end) for start, end in self.ranges]

    @property
    def facts(self) -> dict[str, str]:
        """What a profile keeps of them."""
        return {name: text for name, text in {"sampled": self.sampled, "id": self.id}.items() if text}


def scanned_spec(wanted: ScanRequest, options: StreamOptions) -> FieldSpec:
    """The fields of the key and the time; without a form of values, a contract's one key field is the record's key."""
    names = [*wanted.key.fields, *([wanted.time] if wanted.time not in {None, TIME} else [])]
    spec = FieldSpec.of_scan(wanted.key, [str(name) for name in names], wanted.written)
    return spec.keyed_by(wanted.key) if wanted.of_contract and options.value is None else spec


class LaneReader(Protocol):
    """What reads offsets of a lane: a reader of chunks, or one that has kept what it read."""

    def chunks(self, topic: str, lane: int, start: int, end: int | None, /) -> Iterator[RecordChunk]:
        """The records from one offset up to another."""

    def with_values(self) -> LaneReader:
        """The same, and values too."""


@dataclass(slots=True)
class ScannedMessages:
    """Reads offsets of each lane as rows: the fields, the record's own time and its size."""

    topic: str
    reader: LaneReader
    fields: TopicFields

    def rows(self, ranges: Ranges) -> Iterator[ReadRows]:
        """All rows of these offsets."""
        for lane, (start, end) in enumerate(ranges):
            for chunk in self.reader.chunks(self.topic, lane, start, end):
                yield self._rows(chunk, lane)

    def _rows(self, chunk: RecordChunk, lane: int) -> ReadRows:
        spec, keys = self.fields.spec, pa.array(chunk.keys, pa.binary())
        values = pa.array(chunk.values, pa.binary()) if spec.of_value else None
        columns, unread = self.fields.read(keys, values, None)
        if spec.key in spec.names:
            if spec.key_encoding == "utf8":
                columns[spec.key] = text_of(keys)
            unread = unread | (nulls_of(columns[spec.key]) & ~nulls_of(keys))
        lengths = np.array(chunk.lengths, np.int64) + np.array([len(key or b"") for key in chunk.keys], np.int64)
        own = {_STAMP: pa.array(np.array(chunk.times, np.int64) * _MILLISECOND), _SIZE: pa.array(lengths)}
        kept = {name: columns[name] for name in spec.names}
        return ReadRows({**kept, **own}, np.array(chunk.offsets, np.int64), lane, unread)

    def own_ends(self, found: ScannedRanges) -> TimeRange | None:
        """The first and last of the records' own times at both ends of each lane; None where no record is there.

        A record without a time of its own has one less than zero.
        """
        looked = replace(self, fields=replace(self.fields, spec=replace(self.fields.spec, names=())))
        stamps = [rows.columns[_STAMP] for ranges in (found.heads, found.tails) for rows in looked.rows(ranges)]
        ends = TimeEnds()
        for times in map(np.asarray, stamps):
            ends.add(times[times >= 0])
        return ends.range()

    def names(self, ranges: Ranges) -> list[str]:
        """The fields of the first values that are JSON objects."""
        with_values = self.reader.with_values()
        chunks = (
            chunk
            for lane, (start, end) in enumerate(ranges)
            for chunk in with_values.chunks(self.topic, lane, start, min(end, start + _SAMPLE))
        )
        found = [value for chunk in chunks for value in chunk.values if value is not None]
        return names_in_json(found[:_SAMPLE])


def counted_scan(read: ScannedMessages, found: ScannedRanges, wanted: ScanRequest) -> LocalScan:
    """Offsets of each lane as batches of keys."""
    topic, fields = read.topic, read.fields
    types = {name: ARROW[fields.spec.kind(name)] for name in fields.spec.names}
    if fields.spec.key in types and fields.spec.key_encoding != "utf8":
        types[fields.spec.key] = pa.int64() if fields.spec.key_width else pa.binary()
    if not wanted.written:
        refuse_misfits({name: types[name] for name in wanted.key.fields}, wanted.key)
    source = RowSource(partial(read.rows, found.ranges), types)
    bound = sum(end - start for start, end in found.ranges)
    times = _times(read, source, found, wanted, bound)
    facts: dict[str, Any] = {"time": wanted.time or TIME, "bytes": "key and value", "seconds": wanted.seconds}
    facts |= times.facts
    facts["offsets"] = [list(one) for one in found.ranges]
    skipped = Skipped(what="record", fault="that cannot be read")
    return LocalScan(
        partial(_batches, source, topic, wanted, times, skipped),
        times.windows,
        bound,
        exact=False,
        lanes=len(found.ranges),
        untimed=times.untimed,
        typed=False,
        malformed=bool(fields.spec.of_value) or fields.spec.key in fields.spec.names,
        sized=True,
        unread=lambda: skipped.counted,
        facts={**facts, **found.facts},
        names=partial(read.names, found.ranges),
    )


def _times(read: ScannedMessages, source: RowSource, found: ScannedRanges, wanted: ScanRequest, bound: int) -> Times:
    """Windows by a field of the value, or by the records' own times.

    By their own, a look at both ends of each lane is enough: times need not rise along a lane, so some may lie outside,
    and those are counted in the first or last window.
    """
    if wanted.time not in {None, TIME}:
        return times_read(source, wanted, source.types[str(wanted.time)], bound)[0]
    ends = read.own_ends(found)
    if ends is None:
        by_stamp = replace(wanted, time=_STAMP, form="us")
        # A record has its own time whether its value can be read or not.
        stamped = RowSource(lambda: (_unstamped(rows) for rows in source.rows()), source.types)
        times, _ = times_read(stamped, by_stamp, pa.int64(), bound)
        assert times.ends is not None
        ends = times.ends
    windows = time_windows(ends.first, ends.last, windows_for(wanted.windows, bound), _MILLISECOND)
    return Times(windows, facts=time_facts(None, None, [], ends))


def _unstamped(rows: ReadRows) -> ReadRows:
    """Rows of which those without a time of their own cannot be read."""
    return replace(rows, malformed=np.asarray(rows.columns[_STAMP]) < 0)


def _batches(
    source: RowSource, topic: str, wanted: ScanRequest, times: Times, skipped: Skipped
) -> Iterator[ScannedBatch]:
    for rows in source.rows():
        assert rows.malformed is not None
        if rows.malformed.any():
            skipped.add_values(int(rows.malformed.sum()), f"{topic}/{rows.part}/{rows.row[rows.malformed][0]}")
        at, missing = np.asarray(rows.columns[_STAMP]), None
        if wanted.time not in {None, TIME}:
            at, missing = times.of(rows, str(wanted.time))
        yield ScannedBatch(
            {name: rows.columns[name] for name in wanted.key.fields},
            at if missing is None else np.where(missing, BEFORE_ALL, at),
            missing if times.untimed else None,
            np.asarray(rows.columns[_SIZE]),
            np.full(len(rows), rows.part, np.int64),
            rows.malformed,
        )

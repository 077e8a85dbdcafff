"""Messages as `verify` compares them: their fields, positions and digests, a part at a time, as source and as target.

A source's records are known by stream, lane and offset; those of a target by the header `keylane.source`, which `route`
gives them. Which parts there are: the systems. How one is read: `chunks`. Rows of files: `files.stream`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.fields import FieldSpec
from keylane.errors import TargetError, UsageError
from keylane.history.digests import joined, of_bytes
from keylane.keys.arrow_bytes import nulls_of
from keylane.records import NOT_OF_CONTRACT, Reason
from keylane.systems.messages.chunks import of_letter
from keylane.systems.messages.headers import origin, texts_of, written_by
from keylane.systems.messages.state import last_planned, read_head, read_last, taken_files
from keylane.systems.messages.values import fields_for
from keylane.systems.streams import POSITIONS, Part, Stream, begins_of, position_columns
from keylane.systems.texts import (
    SPENT,
    masked,
    message_digest,
    of_headers,
    rendered_digest,
    row_message_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.contract.model import Contract
    from keylane.systems.endpoint import Address, StreamOptions
    from keylane.systems.messages.chunks import ChunkReader, RecordChunk
    from keylane.systems.messages.state import BatchDone, RouteHead
    from keylane.systems.messages.values import TopicFields


def streams_of(topic: str, contract: Contract | None) -> dict[str, str]:
    """Topics, and what the contract calls them: a tier is called as its topic, the stream may be called otherwise."""
    if contract is None:
        return {topic: topic}
    tiers = {tier: tier for tier in contract.tiers}
    return {topic: topic if topic in contract.spec.streams else contract.spec.streams[0], **tiers}


def fields_in_target(contract: Contract | None, options: StreamOptions, *, from_messages: bool) -> TopicFields:
    """What is read of a target's records. Those that were not messages have the routing key, unless --value is given.

    An ancestor does not determine the lane of a cell, so lanes by location are always read from the value.
    """
    spec = FieldSpec.sent(contract, keys_sent=options.keys_sent)
    only_key = contract is not None and contract.spec.geo is None and set(spec.names) == set(contract.spec.key.fields)
    if not from_messages and only_key and options.value is None:
        spec = FieldSpec()
    return fields_for(spec, options)


def excused_in(fields: TopicFields, *, from_messages: bool) -> frozenset[str]:
    """Whether a line or a value was readable cannot be decided here as the route did; a key always is."""
    whole = not from_messages or fields.spec.of_value
    return NOT_OF_CONTRACT | {Reason.MALFORMED_RECORD} if whole else NOT_OF_CONTRACT


def begun_in(address: Address, options: StreamOptions) -> tuple[RouteHead, BatchDone] | None:
    """The metadata of the route in the state folder, and its last committed batch."""
    if options.state is None:
        return None
    head = read_head(Path(options.state))
    if head is None or head.target != str(address):
        got = head.target if head else f"no state of a route in {options.state}"
        raise UsageError.of("the state is not of a route into this target", got=got, allowed=str(address))
    return head, read_last(Path(options.state), head)


def refuse_unfinished(state: Path, last: BatchDone) -> None:
    """A batch with a plan may be in the topic, whole or in part, and is not in the counts yet."""
    if (planned := last_planned(state)) > last.batch:
        raise TargetError.of(
            f"batch {planned} of the route was started but not committed: it is still running, or was killed",
            got=str(state),
            hint="run the same `keylane route` again, which finishes it, then verify; or verify without --state",
        )


def as_begun(stream: Stream, state: Path, head: RouteHead, last: BatchDone, streams: Mapping[str, str]) -> Stream:
    """The stream with the state of its route: lane counts when it started, contract, its counts, the files it took."""
    taken = tuple(taken_files(state))
    whole = bool(taken) and len(taken) == last.taken_files
    begun = {streams[topic]: lanes for topic, lanes in head.topics.items() if topic in streams}
    return replace(
        stream,
        contract=head.contract,
        fingerprint=head.fingerprint,
        epoch=head.epoch,
        lanes={**stream.lanes, **begun},
        kind=head.kind or None,
        every_name=head.pattern == "*",
        claimed=last.total,
        source_id=head.source_id,
        csv_null=tuple(head.csv_null),
        delimiter=head.delimiter,
        order=tuple(one.name for one in taken) if whole else None,
        taken=frozenset(one.name for one in taken) if whole else None,
        bases=begins_of(taken, head.kind) if whole else stream.bases,
    )


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Reads a part of a source."""

    reader: ChunkReader
    fields: TopicFields

    def __call__(self, part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        for chunk in _chunks(self.reader, part):
            given = {"source": pa.repeat(part.stream, len(chunk)), "position": pa.array(chunk.offsets, pa.int64())}
            columns = _ChunkColumns(chunk, self.reader)
            if self.reader.wanted.contents:
                with SPENT.measured():
                    given |= {"digest": columns.digest(chunk.own), "stamp": pa.array(chunk.stamps, pa.int64())}
            yield columns.batch(given, self.fields)


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """Reads a part of a target, or of its dead letters. `columns` are those of a source of rows."""

    reader: ChunkReader
    fields: TopicFields
    columns: pa.Schema | None = None
    from_messages: bool = True

    def __call__(self, part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        for chunk in _chunks(self.reader, part):
            source, position = origin(chunk.sources)
            given = {"source": source, "position": position, "offset": pa.array(chunk.offsets, pa.int64())}
            given |= written_by(chunk.writers, self.reader.writers)
            given["dead"] = pa.repeat(part.dead, len(chunk))
            if part.dead:
                given |= {"reason": texts_of(chunk.reasons)}
                given |= {"confirmed": self.fields.unreadable(chunk.values)} if self.reader.wanted.values else {}
            else:
                lanes = pa.array(chunk.lanes, pa.int32()) if chunk.lanes else pa.repeat(part.lane, len(chunk))
                given |= {"stream": pa.repeat(part.stream, len(chunk)), "lane": lanes}
            columns = _ChunkColumns(chunk, self.reader)
            if self.reader.wanted.contents:
                with SPENT.measured():
                    given |= self._contents(chunk, columns, dead=part.dead)
            yield columns.batch(given, self.fields, in_lanes=self.from_messages and not part.dead)

    def _contents(self, chunk: RecordChunk, columns: _ChunkColumns, *, dead: bool) -> dict[str, pa.Array]:
        headers = list(map(of_letter, chunk.own)) if dead else chunk.own
        digest = columns.digest(headers) if self.from_messages else self._of_rows(columns)
        if dead:
            digest = masked(digest, np.array(chunk.cut, bool))
        if self.from_messages:
            return {"digest": digest, "stamp": pa.array(chunk.stamps, pa.int64())}
        # A row has no headers: a record that has some is not what the route made of it.
        strange = pa.array([bool(one) for one in headers], pa.bool_())
        return {"digest": pc.if_else(strange, joined(digest, of_headers(headers)), digest)}

    def _of_rows(self, columns: _ChunkColumns) -> pa.Array:
        if self.columns is None:
            # The line itself. Only a field `value` can be null, and which lines have one is not known here.
            return masked(joined(of_bytes(columns.values)), nulls_of(columns.values))
        own = {
            name: one for name, one in (("key", columns.keys), ("value", columns.values)) if name in self.columns.names
        }
        if "value" in own:
            return row_message_digest(own)
        made = rendered_digest(columns.values, self.columns)
        return masked(joined(*([of_bytes(own["key"])] if own else []), made), nulls_of(made))


class _ChunkColumns:
    """The columns of a chunk that several look at."""

    def __init__(self, chunk: RecordChunk, reader: ChunkReader) -> None:
        self.chunk = chunk
        self.keys = pa.array(chunk.keys, pa.binary())
        self.values: Any = pa.array(chunk.values, pa.binary()) if reader.wanted.values else None

    def digest(self, headers: Sequence[list[tuple[str, bytes]] | None]) -> pa.Array:
        """Of messages as they are."""
        return message_digest(self.keys, self.values, headers)

    def batch(self, given: dict[str, pa.Array], fields: TopicFields, *, in_lanes: bool = False) -> pa.RecordBatch:
        """Positions, the key's bytes among them, and the fields behind them; in lanes, which are unreadable."""
        times = pa.array(self.chunk.times, pa.timestamp("ms", "UTC")) if fields.spec.of_time else None
        columns, unread = fields.read(self.keys, self.values, times)
        if in_lanes and unread.any():
            # It should be a dead letter: it has no fields, which is not the same as fields that are null.
            given["confirmed"] = pa.array(unread)
        known = position_columns(len(self.chunk), key=self.keys, **given)
        return pa.RecordBatch.from_arrays([*known, *columns.values()], names=[*POSITIONS.names, *columns])


def _chunks(reader: ChunkReader, part: Part) -> Iterator[RecordChunk]:
    assert part.lane is not None
    return reader.chunks(part.name, part.lane, part.start, part.end, dead=part.dead)

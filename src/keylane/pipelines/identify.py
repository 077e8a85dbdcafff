"""`identify`: who wrote a stream, since when, and what makes a second writer agree. How: `measure.identify`, `.trace`.

identify      a file, a folder or a topic -> the writers, their traces and fixes, the contract that the data keeps
document_of   the same as it is printed
remarks       the same as comments of the contract
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from keylane import numbers
from keylane.contract.fields import FieldSpec
from keylane.contract.first import FirstContract, stream_name
from keylane.documents.identify import (
    ClientChange,
    IdentifiedExample,
    IdentifiedWriter,
    IdentifyDocument,
    RuleParts,
    SameSoFar,
)
from keylane.errors import DataError, UnknownNameError
from keylane.keys.times import TimeField
from keylane.measure import identify as evidence
from keylane.measure.rules import contract_encoding, hash_name, spelled
from keylane.measure.trace import growth, trace, ways_to_agree
from keylane.pipelines.check import columns_of
from keylane.profile.document import masked, shown
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.read_range import ReadRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from keylane.measure.identify import Identification, Writer
    from keylane.measure.rules import Rule
    from keylane.measure.trace import ExampleKey, Fix, Trace
    from keylane.pipelines.engine import Watch
    from keylane.systems.streams import Description

#: Records of a topic that are read where their number is not given: some seconds, and more than any answer needs.
ENOUGH: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class IdentifiedData:
    """What was found: the writers, their traces, what makes them agree, and the contract that the data keeps."""

    found: Identification
    traces: tuple[Trace, ...]
    fixes: tuple[tuple[Fix, ...], ...]
    contract: FirstContract | None
    key: str
    has_times: bool
    has_offsets: bool


def identify(
    source: str,
    *,
    key: str | None = None,
    lane: str | None = None,
    lanes: int | None = None,
    time: str | None = None,
    options: StreamOptions | None = None,
    watch: Watch = iter,
) -> IdentifiedData:
    """The writers of a file, a folder or a topic, which is read a second time where there are several.

    `time` is the column of times, `watch` sees batches go by.
    """
    options = options or StreamOptions()
    endpoint = open_endpoint(source, options)
    if endpoint.messages:
        wanted = options.read_range or ReadRange()
        endpoint = open_endpoint(source, replace(options, read_range=replace(wanted, most=wanted.most or ENOUGH)))
    stream = endpoint.describe(FieldSpec((key,) if key else ()))
    timed = None if time is None else TimeField.of(time).name
    if timed is not None and not endpoint.messages and timed not in stream.columns:
        raise UnknownNameError.among(f"column of {stream.address}", timed, stream.columns)
    lane = lane or endpoint.lane_column([name for name in (key, timed) if name])
    columns = columns_of(stream, key=key, lane=lane)
    looked = KeysAsText()
    batches = looked.passed(watch(stream.batches(columns)))
    found = evidence.identify(batches, stream.lanes if lanes is None else lanes, stream.key_space)
    skipped = (stream.skipped.text,) if stream.skipped.lines else ()
    sampled = (f"read {stream.sampled}",) if stream.sampled else ()
    elsewhere = (text,) if not found.rows and (text := stream.unjudged()) else ()
    found = replace(found, notes=(*sampled, *elsewhere, *skipped, *stream.noticed(), *found.notes))
    time = time or ("timestamp" if endpoint.messages else None)
    traces: tuple[Trace, ...] = ()
    if len(found.writers) > 1:
        found, traces = _traced(stream, columns, found, time, watch)
        found = replace(found, leading_ended=_has_ended(found, traces))
        if (grown := growth(found, traces)) is not None:
            found = replace(found, notes=(_grew(found, *grown, timed=time is not None), *found.notes))
    contract = _contract(endpoint.address.name, columns[0], found)
    if contract is not None and contract.encoding == "raw" and not contract.registry_header:
        if endpoint.messages and not looked.odd:
            contract = replace(contract, encoding="utf8")
        found = replace(found, notes=(*found.notes, *looked.why_raw()))
    fixes = ways_to_agree(found, traces)
    return IdentifiedData(found, traces, fixes, contract, columns[0], time is not None, endpoint.messages)


def _has_ended(found: Identification, traces: Sequence[Trace]) -> bool:
    """Whether what only the leading writer explains ends before what only another one explains."""
    if not traces or traces[found.leading].last is None:
        return False
    return not traces[found.leading].to_the_end and any(one.to_the_end and one.last is not None for one in traces)


@dataclass(slots=True)
class KeysAsText:
    """How many of the keys that go by are text: a contract can name such, and their bytes are the same.

    Numbers of eight bytes may pass for UTF-8, which a control character gives away.
    """

    keys: int = 0
    #: Those that are no text.
    odd: int = 0

    def passed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches as they are; the key is their first column."""
        for batch in batches:
            keys, odd = _no_text(batch.column(0))
            self.keys, self.odd = self.keys + keys, self.odd + odd
            yield batch

    def why_raw(self) -> Iterator[str]:
        """Why a contract has raw keys where some are text: what that costs, and what to do; nothing otherwise."""
        if not 0 < self.odd < self.keys:
            return
        some = f"{numbers.count(self.odd)} of {numbers.plural(self.keys, 'key')}"
        are = numbers.agree(self.odd, "is no UTF-8 text, or has", "are no UTF-8 text, or have")
        yield f"encoding: raw, because {some} {are} control characters: lanes are exact, but plan can name no raw key"
        yield (
            "where these are faults, write encoding: utf8 into the contract: such keys then become dead letters, and "
            "plan can name the others"
        )


_CONTROL: Final = r"[\x00-\x1f\x7f]"


def _no_text(column: pa.Array) -> tuple[int, int]:
    """How many keys a column of bytes has, and how many of them are no text; of any other column nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        return 0, 0
    there = column.drop_null()
    try:
        text = there.cast(pa.large_string())
    except pa.ArrowInvalid:
        return len(there), sum(not _reads_as_text(key) for key in there.to_pylist())
    return len(there), pc.sum(pc.match_substring_regex(text, _CONTROL), min_count=0).as_py()


def _reads_as_text(key: bytes) -> bool:
    try:
        return re.search(_CONTROL, key.decode()) is None
    except UnicodeDecodeError:
        return False


def of_batches(batches: Iterable[pa.RecordBatch], lanes: int | None) -> IdentifiedData:
    """The writers of batches that can be read once: key and lane; since when and which keys is not known."""
    found = evidence.identify(batches, lanes)
    return IdentifiedData(found, (), ways_to_agree(found), None, "key", has_times=False, has_offsets=False)


def _traced(
    stream: Description, columns: list[str], found: Identification, time: str | None, watch: Watch
) -> tuple[Identification, tuple[Trace, ...]]:
    offset = "offset" if stream.lane is not None else None
    given = None if time is None else TimeField.of(time)
    name = None if given is None else given.name
    wanted = [*columns, *(one for one in (name, offset) if one and one not in columns)]
    try:
        return found, trace(watch(stream.batches(wanted)), found, time=given, offset=offset)
    except DataError as error:
        # A topic forgets its oldest records while it is read; who wrote is known by then.
        if not stream.lane:
            raise
        return replace(found, notes=(*found.notes, f"since when is not known: {error}")), ()


def _grew(found: Identification, before: Writer, after: Writer, first: int, *, timed: bool) -> str:
    """That a stream grew, and when: the last record by the old count is before the first by the new one."""
    when = f"by {moment(first)}" if timed else f"by row {numbers.count(first)}"
    return f"the stream grew from {before.lanes or found.lanes} to {after.lanes or found.lanes} lanes {when}"


def _contract(stream: str, key: str, found: Identification) -> FirstContract | None:
    if found.no_contract is not None:
        return None
    first = found.writers[found.leading]
    assert first.partitioner is not None
    assert first.rule is not None
    encoding, stripped = contract_encoding(first.rule)
    return FirstContract(stream_name(stream), found.lanes, key, encoding, first.partitioner, stripped)


def remarks(seen: IdentifiedData) -> Iterator[str]:
    """What a person who reviews the contract has to know, for its comments."""
    found = seen.found
    yield from (note for note in found.notes if note.startswith("encoding: raw"))
    yield f"Found by keylane identify in {numbers.plural(found.keyed_rows, 'record')} with a key."
    if found.lanes_from == "seen":
        yield f"The lane count is the least that fits; {found.lanes} is not proven. Look it up."
    first = found.writers[found.leading]
    if first.also:
        yield f"These place keys alike, and differ at most in null and empty ones: {', '.join(first.also)}."
    for writer in found.writers:
        if writer is not first:
            yield f"{numbers.share(writer.share)} of the records were placed by another rule: {named(writer)}."


def document_of(seen: IdentifiedData, salt: bytes | None = None, written: str | None = None) -> IdentifyDocument:
    """The answer as it is printed with `-o json`; of batches that were read once there are no traces."""
    found = seen.found
    traces: Sequence[Trace | None] = seen.traces or [None] * len(found.writers)
    return IdentifyDocument(
        verdict=found.verdict,
        writers=[
            _writer(seen, writer, trace, fixes, salt)
            for writer, trace, fixes in zip(found.writers, traces, seen.fixes, strict=True)
        ],
        lanes=found.lanes,
        lanes_from=found.lanes_from,
        rows=found.rows,
        keyed_rows=found.keyed_rows,
        null_rows=found.null_rows,
        empty_rows=found.empty_rows,
        long_rows=found.long_rows,
        distinct_keys=found.distinct_keys,
        unexplained_rows=found.unexplained_rows,
        notes=list(found.notes),
        written=written,
    )


def _writer(
    seen: IdentifiedData, writer: Writer, trace: Trace | None, fixes: Sequence[Fix], salt: bytes | None
) -> IdentifiedWriter:
    first, last = (trace.first, trace.last) if trace else (None, None)
    times = seen.has_times
    return IdentifiedWriter(
        partitioner=writer.partitioner,
        share=round(writer.share, 6),
        encoding=writer.encoding,
        also=list(writer.also),
        fitting_keys=writer.fitting_keys,
        chance=writer.chance,
        setting=writer.setting,
        lanes=writer.lanes,
        rule=None if writer.rule is None else _rule(writer.rule),
        clients=list(writer.clients),
        not_told_from=[
            SameSoFar(name=one.name, parts_at=one.parts_at, parts_now=one.parts_now) for one in writer.not_told_from
        ],
        only=trace.records if trace else None,
        since=moment(first) if times else None,
        until=moment(last) if times else None,
        since_row=None if times else first,
        until_row=None if times else last,
        to_the_end=trace.to_the_end if trace and last is not None else None,
        examples=[_example(seen, one, salt) for one in (trace.examples if trace else ())],
        fixes=[ClientChange(client=one.client, setting=one.setting, action=one.action) for one in fixes],
    )


def _rule(rule: Rule) -> RuleParts:
    return RuleParts(hash=hash_name(rule), seed=rule.seed, fold=rule.fold, text=spelled(rule))


def _example(seen: IdentifiedData, one: ExampleKey, salt: bytes | None) -> IdentifiedExample:
    text = shown((one.key,))
    return IdentifiedExample(
        key=text if salt is None else masked(text, salt),
        lane=one.lane,
        expected=one.expected,
        row=None if seen.has_offsets else one.row,
        offset=one.offset,
        time=moment(one.time),
    )


def moment(micros: int | None) -> str | None:
    """A time in UTC, to the second; None where there is none.

    >>> moment(1_763_185_276_123_456)
    '2025-11-15T05:41:16Z'
    """
    if micros is None:
        return None
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=micros // 1_000_000)
    except OverflowError:
        return None
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


def named(writer: Writer | IdentifiedWriter) -> str:
    """A writer by its partitioner or its rule, with the lane count it placed by where that is not today's."""
    return writer.name + (f" on {writer.lanes} lanes" if writer.lanes else "")

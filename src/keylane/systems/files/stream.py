"""Folders as streams to verify: source files of Parquet, JSON lines or CSV; targets of `route`, dead letters included.

Rows are numbered as `route` numbers them: rows of a Parquet file, lines of the others, blank ones counted as filtered.
Where contents are compared, a record has the digest of all its columns, and a dead letter that of its original: lines
are parsed here, by the types of the lanes. The layout of a target is in `folders`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keylane.contract.fields import absent_name
from keylane.errors import DataError, TargetError, UnplacedError
from keylane.history.digests import joined, of_bytes, of_columns
from keylane.history.verdict import Unproven
from keylane.keys.read import columns_for, fields_in, value_at
from keylane.records import NOT_OF_CONTRACT, Reason
from keylane.systems.files.lines import BOM, is_blank, line_blocks
from keylane.systems.files.listing import data_files, kind_of, kinds_in, name_in, path_values
from keylane.systems.folders.folder import read_head, read_manifests
from keylane.systems.folders.layout import FolderFiles
from keylane.systems.journal import OWN
from keylane.systems.streams import LEFT_OUT, POSITIONS, Part, Stream, begins_of, position_columns
from keylane.systems.texts import (
    SPENT,
    cells_of,
    is_finer,
    is_no_record,
    masked,
    message_digest,
    object_of,
    rendered_digest,
    row_message_digest,
    typed,
    typed_cells,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from keylane.contract.model import Contract
    from keylane.systems.folders.folder import Manifest
    from keylane.systems.folders.layout import PlacedFile
    from keylane.systems.streams import MessageFields

ROWS: Final = 65_536
LONGS: Final = range(-(2**63), 2**63)
#: Columns of a dead letter beside its position, and those that one of a message has too: the original is its value.
ORIGINAL: Final = "original"
LETTER: Final = ("reason", "fingerprint", ORIGINAL)
OF_MESSAGE: Final = ("key", "timestamp", "headers")
#: Columns that keylane adds to a record; and those of a record that came as a message.
OWN_COLUMNS: Final = ("keylane_offset", "keylane_source")
MESSAGE: Final = ("key", "value", "timestamp", "headers")
_ROW_BITS: Final = 40
_ROUTED: Final = "verify the folder as `keylane route` made it, with _keylane/ in it"
#: What was malformed in its file is not in the JSON of a dead letter as it was there.
EXCUSED: Final = NOT_OF_CONTRACT | {Reason.MALFORMED_RECORD, Reason.MALFORMED_KEY}


def target_stream(path: Path, how: ReadLanes | None = None) -> Stream:
    """A folder with `stream=S/lane=N/` in it; where they exist, its metadata, manifests and dead letters."""
    how = how or ReadLanes()
    head = read_head(path) if path.is_dir() else None
    layout = FolderFiles.of(path, routed=head is not None)
    if head is None and not layout.lanes:
        allowed = "a folder that `keylane route` made, with stream=…/lane=…/ in it"
        raise TargetError.of("not a target that can be verified", got=str(path), allowed=allowed)
    footers = {file.path: _footer(file.path) for file in layout.lanes}
    parts = (
        *(_lane_part(file, footers[file.path].num_rows) for file in layout.lanes),
        *(Part(str(file), end=_footer(file).num_rows, dead=True, rank=rank) for rank, file in enumerate(layout.dead)),
    )
    schema = _schema([footer.schema.to_arrow_schema() for footer in footers.values()]) if how.values else None
    stream = Stream(
        str(path),
        parts,
        replace(how, lanes=schema),
        excused=EXCUSED if how.columns is None else NOT_OF_CONTRACT,
        dense=True,
        schema=schema,
        values="" if how.values else LEFT_OUT,
        strays=tuple(layout.strays),
    )
    if head is None:
        why = "the target has no metadata and no manifests, so that its own counts and the order of files are not known"
        missing = tuple(Unproven(rule, None, why, _ROUTED) for rule in ("lost", "reordered"))
        return replace(stream, unproven=missing)
    manifests = read_manifests(path)
    _refuse_unmoved(path, manifests)
    last = manifests[-1] if manifests else None
    order = _order(manifests)
    late = "only the last manifests are kept: the order between source files was not checked, only within each"
    return replace(
        stream,
        lanes=head.streams,
        contract=head.contract,
        fingerprint=head.fingerprint,
        epoch=head.epoch,
        kind=head.kind,
        order=order,
        taken=frozenset(order) if order is not None else None,
        claimed=last.total if last else None,
        every_name=head.pattern == "*",
        ends=last.next if last else {name: [0] * lanes for name, lanes in head.streams.items()},
        bases=None if order is None else begins_of([f for one in manifests for f in one.taken], head.kind),
        source_id=head.source_id,
        csv_null=tuple(head.csv_null),
        delimiter=head.delimiter,
        unproven=() if order is not None else (Unproven("reordered", None, late),),
    )


def kind_in(path: Path) -> str | None:
    """The kind of the source that a target remembers."""
    head = read_head(path) if path.is_dir() else None
    return None if head is None else head.kind


def source_stream(path: Path, target: Stream, contract: Contract | None = None, *, values: bool = True) -> Stream:
    """The files of a folder, or one file, of the kind that the target remembers, or by their endings."""
    kind = kind_of(path, target.kind)
    files = data_files(path, None if target.every_name else kind)
    why = "" if values else LEFT_OUT
    if kind == "parquet":
        parts = tuple(Part(str(file), name_in(path, str(file)), end=_footer(file).num_rows) for file in files)
        read = ReadParquet(values=values, as_messages=target.as_messages)
        return Stream(str(path), parts, read, kind=kind, values=why)
    keyed = contract is not None and contract.spec.key.fields == ("key",)
    schema, cells = target.schema or pa.schema([]), (target.csv_null, target.delimiter)
    lines = ReadLines(kind, schema, values, target.as_messages, keyed, *cells)
    parts = tuple(Part(str(file), name_in(path, str(file))) for file in files)
    return Stream(str(path), parts, lines, kind=kind, values=why)


def source_columns(path: Path, kind: str | None) -> pa.Schema | None:
    """The columns of all files of a source, where its files have types; those of their paths are text."""
    if not path.exists() or (kind or "".join(kinds_in(path))) != "parquet":
        return None
    files = data_files(path, "parquet")
    inside = _schema([_footer(file).schema.to_arrow_schema() for file in files])
    in_paths = dict.fromkeys(name for file in files for name in path_values(name_in(path, str(file))))
    return pa.schema([*inside, *(pa.field(name, pa.string()) for name in in_paths if name not in inside.names)])


def _schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all, keylane's own left out; of several types the widest, or else the first."""
    fields: dict[str, pa.Field] = {}
    for schema in {str(one): one for one in schemas}.values():
        for field in schema:
            known = fields.setdefault(field.name, field)
            if known.type != field.type:
                fields[field.name] = _wider(known, field)
    return pa.schema([field for name, field in fields.items() if name.lower() not in OWN_COLUMNS])


def _wider(known: pa.Field, field: pa.Field) -> pa.Field:
    try:
        return pa.unify_schemas([pa.schema([known]), pa.schema([field])], promote_options="permissive").field(0)
    except pa.ArrowException:
        return known


def _lane_part(file: PlacedFile, rows: int) -> Part:
    return Part(str(file.path), file.stream, file.lane, end=rows, rank=file.rank)


def _footer(file: Path) -> Any:
    try:
        return pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{file} cannot be read as Parquet", got=str(error).splitlines()[0]) from error


def _order(manifests: Sequence[Manifest]) -> tuple[str, ...] | None:
    """Source files in the order in which they were taken, when every manifest is still there.

    Those without a byte are none: what is written into one later is lost, and one that is gone has lost nothing.
    """
    if not manifests:
        return ()
    taken = [one for manifest in manifests for one in manifest.taken]
    return tuple(one.name for one in taken if one.size) if len(taken) == manifests[-1].taken_files else None


def _refuse_unmoved(path: Path, manifests: Sequence[Manifest]) -> None:
    """Files of a committed batch may not be moved yet, when a process was killed: no reader can see them."""
    last = manifests[-1] if manifests else None
    if last is not None and last.staging and (path / OWN / "staging" / last.staging).exists():
        raise TargetError.of(
            f"batch {last.batch} of the target was committed, but its files have not been moved to their lanes yet",
            got=str(path),
            hint="run the same `keylane route` again, which moves them first",
        )


@dataclass(frozen=True, slots=True)
class ReadLanes:
    """Reads a file of a lane, or of dead letters, with the fields that it has.

    `columns` are those of the source, where its records have types; `cells`: its records are lines of CSV;
    `messages`: they came as messages. `lanes` are the columns of the lanes.
    """

    columns: pa.Schema | None = None
    cells: bool = False
    values: bool = True
    messages: bool = False
    lanes: pa.Schema | None = None

    def __call__(self, part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        with _opened(part) as file:
            there = file.schema_arrow.names
            if missing := [name for name in OWN_COLUMNS if name not in there]:
                raise DataError.of(f"{part.name} is not a file of a lane", got=f"no column {', '.join(missing)}")
            if part.dead:
                asked = (*LETTER, *OF_MESSAGE) if self.messages else LETTER
                wanted = [*OWN_COLUMNS, *(name for name in asked if name in there)]
            else:
                wanted = there if self.values else [*OWN_COLUMNS, *columns_for(file.schema_arrow, fields)]
            at = 0
            for batch in _batches(file, part, wanted):
                known, columns = self._letters(batch, fields) if part.dead else self._records(batch, fields)
                source, places = batch.column("keylane_source"), np.arange(at, at + len(batch))
                known |= {
                    "offset": batch.column("keylane_offset"),
                    "source": pc.struct_field(source, "file"),
                    "position": pc.struct_field(source, "row"),
                    "dead": pa.repeat(pa.scalar(part.dead), len(batch)),
                    "place": pa.array(places + (part.rank << _ROW_BITS)),
                }
                if not part.dead:
                    known["stream"] = pa.repeat(part.stream, len(batch))
                    known["lane"] = pa.repeat(pa.scalar(part.lane, pa.int32()), len(batch))
                at += len(batch)
                yield _batch_of(len(batch), known, columns)

    def _records(self, batch: pa.RecordBatch, fields: Sequence[str]) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        content = {name: batch.column(name) for name in batch.schema.names if name not in OWN_COLUMNS}
        given = _given(content, fields)
        with SPENT.measured():
            return {"digest": of_columns(content)} if self.values and content and not self.messages else {}, given

    def _letters(self, batch: pa.RecordBatch, fields: Sequence[str]) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        known = {name: batch.column(name) for name in LETTER if name != ORIGINAL and name in batch.schema.names}
        if ORIGINAL not in batch.schema.names:
            return known, {}
        originals = batch.column(ORIGINAL)
        if self.messages:
            beside = {name: batch.column(name) for name in OF_MESSAGE if name in batch.schema.names}
            return known, {**beside, "value": originals}
        if self.columns is None:
            known["confirmed"] = self._confirmed(originals)
            known |= {"digest": joined(of_bytes(originals))} if self.values else {}
            return known, _fields_of(originals, fields)
        known |= {"digest": rendered_digest(originals, self.columns)} if self.values else {}
        objects = [object_of(one) for one in originals.to_pylist()]
        finer = [any(is_finer((one or {}).get(field.name), field.type) for field in self.columns) for one in objects]
        known["confirmed"] = pa.array([one or None for one in finer], pa.bool_())
        columns, unsure = typed(objects, self.columns)
        return known, _given(columns, fields) if not unsure.any() else {}

    def _confirmed(self, originals: pa.Array) -> pa.Array:
        """Whether a line is surely no record: true, or null."""
        lines = originals.to_pylist()
        if self.cells:
            return pa.array([True if _is_no_line(line or b"") else None for line in lines], pa.bool_())
        schema = self.lanes or pa.schema([])
        return pa.array([True if is_no_record(line, schema) else None for line in lines], pa.bool_())


def _is_no_line(line: bytes) -> bool:
    return line.count(b'"') % 2 > 0 or not _is_text(line)


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _batch_of(rows: int, known: dict[str, pa.Array], columns: dict[str, pa.Array]) -> pa.RecordBatch:
    positions = position_columns(rows, **known)
    return pa.RecordBatch.from_arrays([*positions, *columns.values()], names=[*POSITIONS.names, *columns])


def routed_messages(stream: Stream, fields: MessageFields) -> Stream:
    """The target of a route from messages: its columns are `key`, `value` and `timestamp`, and the fields in them.

    Lanes of the source have each an order of their own, and were taken in offset ranges instead of files.
    """
    values, malformed = not stream.values, {Reason.MALFORMED_RECORD} if fields.spec.of_value else set()
    # The position of a message is its offset, so that every source begins at 0.
    return replace(
        stream,
        order=None,
        taken=None,
        bases={},
        as_messages=True,
        excused=NOT_OF_CONTRACT | malformed,
        read=ReadMessages(fields, values=values),
    )


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """Reads a file of a lane whose records came as messages."""

    fields: MessageFields
    values: bool = True

    def __call__(self, part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        spec = self.fields.spec
        needs = [*(["key", "value"] if spec.names else []), *(["timestamp"] if spec.of_time else [])]
        for batch in ReadLanes(values=self.values, messages=True)(part, MESSAGE if self.values else needs):
            known = dict(zip(POSITIONS.names, batch.columns[: len(POSITIONS)], strict=True))
            own: dict[str, Any] = dict(
                zip(batch.schema.names[len(POSITIONS) :], batch.columns[len(POSITIONS) :], strict=True)
            )
            if missing := [name for name in (MESSAGE if self.values else needs) if name not in own]:
                raise DataError.of(f"{part.name} is no file of messages", got=f"no column {', '.join(missing)}")
            if self.values:
                with SPENT.measured():
                    known |= _of_message(own)
            if part.dead and spec.names:
                known |= {"confirmed": self.fields.unreadable(own["value"].to_pylist())}
            given = self.fields.marked(own["key"], own["value"], own.get("timestamp")) if spec.names else {}
            yield _batch_of(len(batch), known, given)


def _of_message(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Digest and time of messages that are rows: with no headers, their list is null or empty."""
    headers = columns["headers"]
    listed = [None if not one else [(pair["key"], pair["value"]) for pair in one] for one in headers.to_pylist()]
    stamp = columns["timestamp"].cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    return {"digest": message_digest(columns["key"], columns["value"], listed), "stamp": stamp}


def _fields_of(originals: pa.Array, fields: Sequence[str]) -> dict[str, pa.Array]:
    """The fields of dead letters that are JSON, and which lack one; none where no letter is JSON, as with CSV."""
    objects = [object_of(one) for one in originals.to_pylist()]
    columns: dict[str, pa.Array] = {}
    for name in fields if any(one is not None for one in objects) else ():
        found = [(None, True) if one is None else _at(one, name) for one in objects]
        columns[name] = _column([value for value, _ in found])
        columns[absent_name(name)] = pa.array([not there for _, there in found])
    return columns


def _at(record: dict[str, Any], name: str) -> tuple[Any, bool]:
    """The value of a field, and whether the record has it; what its path cannot lead through is not known here."""
    try:
        return value_at(record, name), True
    except UnplacedError as error:
        return None, error.reason is not Reason.MISSING_FIELD


def _given(content: dict[str, pa.Array], fields: Sequence[str]) -> dict[str, pa.Array]:
    """The fields that there are, by name or path."""
    return fields_in(pa.RecordBatch.from_arrays(list(content.values()), names=list(content)), fields)


def _column(values: list[Any]) -> pa.Array:
    """Integers where all values are integers, otherwise text."""
    if all(value is None or (type(value) is int and value in LONGS) for value in values):
        return pa.array(values, pa.int64())
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array([text and text.encode("utf-8", "replace").decode() for text in texts], pa.string())


@dataclass(frozen=True, slots=True)
class ReadParquet:
    """Reads a source file. Fields that it has not come from its path, as in `day=2026-11-15/`, or are null."""

    values: bool = True
    as_messages: bool = False

    def __call__(self, part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        paths = path_values(part.stream or "")
        with _opened(part) as file:
            names = [name for name in file.schema_arrow.names if name.lower() not in OWN_COLUMNS]
            there = names if self.values else [n for n in columns_for(file.schema_arrow, fields) if n in names]
            at = 0
            for batch in _batches(file, part, there) if there else _counted(part):
                rows = batch.num_rows
                content = {name: batch.column(name) for name in there}
                for name, value in paths.items():
                    content.setdefault(name, pa.repeat(pa.scalar(value, pa.string()), rows))
                nothing = pa.nulls(rows, pa.string())
                known = {"source": pa.repeat(part.stream, rows), "position": pa.array(np.arange(at, at + rows))}
                known |= self._digests(content) if self.values and content else {}
                given = _given(content, fields)
                yield _batch_of(rows, known, {name: given.get(name, nothing) for name in fields})
                at += rows

    def _digests(self, content: dict[str, pa.Array]) -> dict[str, pa.Array]:
        with SPENT.measured():
            if self.as_messages:
                return {"digest": row_message_digest(content)}
            return {"digest": of_columns(content)}


def _counted(part: Part) -> Iterator[pa.RecordBatch]:
    """Batches of nothing, as many rows as the file has: enough to number them."""
    for at in range(0, part.end or 0, ROWS):
        rows = min(ROWS, (part.end or 0) - at)
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["nothing"])


def _opened(part: Part) -> Any:
    try:
        # Pages carry a checksum: a bit that has changed is not taken for a value.
        return pq.ParquetFile(part.name, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{part.name} cannot be read as Parquet", got=str(error).splitlines()[0]) from error


def _batches(file: Any, part: Part, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(batch_size=ROWS, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{part.name} cannot be read", got=str(error).splitlines()[0]) from error


@dataclass(frozen=True, slots=True)
class ReadLines:
    """Reads the lines of a source file: their numbers, and, where contents are compared, what is in them.

    `schema` are the columns of the lanes, by whose types lines are read; `keyed`: the contract's key is a field `key`;
    `nulls` are the texts of a cell that stand for null, `delimiter` is between cells.
    """

    kind: str
    schema: pa.Schema
    values: bool = True
    as_messages: bool = False
    keyed: bool = False
    nulls: tuple[str, ...] = ()
    delimiter: str = ","

    def __call__(self, part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The lines of a part, without a line of names, a batch at a time; blank ones are filtered."""
        first, header, at = int(self.kind == "csv"), [], 0
        for lines in line_blocks(part.name):
            if not at and lines:
                lines[0] = lines[0].removeprefix(BOM)
                header = cells_of(lines[0], self.delimiter) or [] if first else []
            numbered = [(n, line) for n, line in enumerate(lines, at) if n >= first]
            at += len(lines)
            blank = [is_blank(line) for _, line in numbered]
            known = {
                "source": pa.repeat(part.stream, len(numbered)),
                "position": pa.array([n for n, _ in numbered], pa.int64()),
                "filtered": pa.array(blank, pa.bool_()),
            }
            columns: dict[str, pa.Array] = {}
            if self.values:
                records = [None if skip else line for (_, line), skip in zip(numbered, blank, strict=True)]
                with SPENT.measured():
                    columns = self._add(known, records, header, path_values(part.stream or ""), fields)
            yield _batch_of(len(numbered), known, columns)

    def _add(
        self,
        known: dict[str, pa.Array],
        lines: list[bytes | None],
        header: list[str],
        paths: dict[str, str | None],
        fields: Sequence[str],
    ) -> dict[str, pa.Array]:
        """Digests to what is known of lines; and the fields that are asked for."""
        objects: list[Any] = []
        if self.kind == "csv":
            columns, unsure = typed_cells(lines, header, self.schema, self.nulls, self.delimiter)
            named: list[dict[str, Any] | None] = [dict.fromkeys(header)] * len(lines)
        else:
            named = objects = [None if line is None else object_of(line) for line in lines]
            columns, unsure = typed([_with_paths(one, paths) for one in objects], self.schema)
        columns = {name: column for name, column in columns.items() if name.lower() not in OWN_COLUMNS}
        for name, value in paths.items():
            columns.setdefault(name, pa.repeat(pa.scalar(value, pa.string()), len(lines)))
        whole = joined(of_bytes(pa.array(lines, pa.binary())))
        if self.as_messages:
            taken = {"value"} if self.keyed else {"key", "value"}
            own = np.array([bool(one and not taken.isdisjoint(one)) for one in named], bool)
            known["digest"] = masked(whole, own)
        else:
            known["letter"] = whole
            known["digest"] = masked(of_columns(columns), unsure) if columns else pa.nulls(len(lines), pa.int64())
        if self.as_messages and self.kind != "csv":
            columns = {name: _column([_at(one or {}, name)[0] for one in objects]) for name in fields}
        given = _given(columns, fields)
        return {name: given.get(name, pa.nulls(len(lines), pa.string())) for name in fields}


def _with_paths(record: dict[str, Any] | None, paths: dict[str, str | None]) -> dict[str, Any] | None:
    """A record with what is written in its path, where it has no such field of its own; keylane's columns left out."""
    if record is None:
        return None
    return paths | {name: value for name, value in record.items() if name.lower() not in OWN_COLUMNS}

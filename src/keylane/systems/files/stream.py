"""Folders as streams to verify: source files of Parquet, JSON lines or CSV; targets of `route`, dead letters included.

Rows are numbered as `route` numbers them: rows of a Parquet file, lines of the others, blank ones counted and left
out. Of lines only their numbers are read here, not what is in them. The layout of a target is in `folders`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from keylane.errors import DataError, TargetError
from keylane.keys.json_object import read_object
from keylane.records import NOT_OF_CONTRACT, Reason
from keylane.systems.files.listing import kind_of, name_in, path_values, source_files
from keylane.systems.folders.folder import DEAD, read_head, read_manifests
from keylane.systems.journal import OWN
from keylane.systems.streams import POSITIONS, Part, Stream, position_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from keylane.systems.folders.folder import Manifest
    from keylane.systems.streams import MessageFields

ROWS: Final = 65_536
BLOCK: Final = 1 << 22
LONGS: Final = range(-(2**63), 2**63)
#: Columns of a dead letter beside its position.
ORIGINAL: Final = "original"
LETTER: Final = ("reason", "fingerprint", ORIGINAL)
#: What was malformed in its file is not in the JSON of a dead letter as it was there.
EXCUSED: Final = NOT_OF_CONTRACT | {Reason.MALFORMED_RECORD, Reason.MALFORMED_KEY}


def target_stream(path: Path) -> Stream:
    """A folder with `stream=S/lane=N/` in it; where they exist, its metadata, manifests and dead letters."""
    files = sorted(path.glob("stream=*/lane=*/*.parquet"))
    head = read_head(path) if path.is_dir() else None
    if head is None and not files:
        allowed = "a folder that `keylane route` made, with stream=…/lane=…/ in it"
        raise TargetError.of("not a target that can be verified", got=str(path), allowed=allowed)
    letters = sorted((path / DEAD).glob("*")) if (path / DEAD).is_dir() else []
    parts = (*map(_lane_part, files), *(Part(str(file), end=_rows(file), dead=True) for file in letters))
    if head is None:
        remark = "the target has no metadata and no manifests: its own counts were not checked"
        return Stream(str(path), parts, read_target, excused=EXCUSED, remarks=(remark,))
    manifests = read_manifests(path)
    _refuse_unmoved(path, manifests)
    last = manifests[-1] if manifests else None
    order = _order(manifests)
    late = "only the last manifests are kept: the order between source files was not checked, only within each"
    return Stream(
        str(path),
        parts,
        read_target,
        lanes=head.streams,
        contract=head.contract,
        fingerprint=head.fingerprint,
        epoch=head.epoch,
        kind=head.kind,
        order=order,
        taken=frozenset(order) if order is not None else None,
        claimed=last.total if last else None,
        every_name=head.pattern == "*",
        excused=EXCUSED,
        remarks=() if order is not None else (late,),
    )


def source_stream(path: Path, target: Stream) -> Stream:
    """The files of a folder, or one file, of the kind that the target remembers, or by their endings."""
    kind = kind_of(path, target.kind)
    files = source_files(path, None if target.every_name else kind)
    parts = tuple(
        Part(str(file), name_in(path, str(file)), end=_rows(file) if kind == "parquet" else None) for file in files
    )
    if kind == "parquet":
        return Stream(str(path), parts, read_parquet, kind=kind)
    remark = f"the source is {kind}: its lines were counted and not parsed, so keys were not compared"
    return Stream(str(path), parts, read_csv if kind == "csv" else read_json, kind=kind, remarks=(remark,))


def _lane_part(file: Path) -> Part:
    stream, lane = (folder.name.partition("=")[2] for folder in (file.parents[1], file.parent))
    if not lane.isdigit():
        raise TargetError.of("a folder of the target is not a lane", got=str(file.parent), allowed="lane=NUMBER")
    return Part(str(file), stream, int(lane), end=_rows(file))


def _rows(file: Path) -> int:
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{file} cannot be read as Parquet", got=str(error).splitlines()[0]) from error


def _order(manifests: Sequence[Manifest]) -> tuple[str, ...] | None:
    """Source files in the order in which they were taken, when every manifest is still there."""
    if not manifests:
        return ()
    names = tuple(one.name for manifest in manifests for one in manifest.taken)
    return names if len(names) == manifests[-1].taken_files else None


def _refuse_unmoved(path: Path, manifests: Sequence[Manifest]) -> None:
    """Files of a committed batch may not be moved yet, when a process was killed: no reader can see them."""
    last = manifests[-1] if manifests else None
    if last is not None and last.staging and (path / OWN / "staging" / last.staging).exists():
        raise TargetError.of(
            f"batch {last.batch} of the target was committed, but its files have not been moved to their lanes yet",
            got=str(path),
            hint="run the same `keylane route` again, which moves them first",
        )


def read_target(part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A file of a lane, or of dead letters, with the fields that it has."""
    with _opened(part) as file:
        own = ["keylane_offset", "keylane_source"]
        there = file.schema_arrow.names
        if missing := [name for name in own if name not in there]:
            raise DataError.of(f"{part.name} is not a file of a lane", got=f"no column {', '.join(missing)}")
        about = [name for name in LETTER if part.dead and name in there]
        wanted = [] if part.dead else [name for name in fields if name in there]
        for batch in _batches(file, part, [*own, *about, *wanted]):
            source = batch.column("keylane_source")
            known = position_columns(
                len(batch),
                stream=None if part.dead else pa.repeat(part.stream, len(batch)),
                lane=None if part.dead else pa.repeat(pa.scalar(part.lane, pa.int32()), len(batch)),
                offset=batch.column("keylane_offset"),
                source=pc.struct_field(source, "file"),
                position=pc.struct_field(source, "row"),
                dead=pa.repeat(pa.scalar(part.dead), len(batch)),
                **{name: batch.column(name) for name in about if name != ORIGINAL},
            )
            columns = {name: batch.column(name) for name in wanted}
            if ORIGINAL in about:
                columns = _fields_of(batch.column(ORIGINAL), fields)
            yield pa.RecordBatch.from_arrays([*known, *columns.values()], names=[*POSITIONS.names, *columns])


def routed_messages(stream: Stream, fields: MessageFields) -> Stream:
    """The target of a route from messages: its columns are `key`, `value` and `timestamp`, and the fields in them.

    Lanes of the source have each an order of their own, and were taken in offset ranges instead of files.
    """
    return replace(stream, order=None, taken=None, read=ReadMessages(fields))


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """Reads a file of a lane whose records came as messages."""

    fields: MessageFields

    def __call__(self, part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The records of a part, a batch at a time."""
        spec = self.fields.spec
        wanted = [*(["key", "value"] if spec.names else []), *(["timestamp"] if spec.of_time else [])]
        for batch in read_target(part, [] if part.dead else wanted):
            known = list(batch.columns[: len(POSITIONS)])
            own: dict[str, Any] = dict(
                zip(batch.schema.names[len(POSITIONS) :], batch.columns[len(POSITIONS) :], strict=True)
            )
            if part.dead or not spec.names:
                yield pa.RecordBatch.from_arrays(known, schema=POSITIONS)
                continue
            columns = self.fields.marked(own["key"], own["value"], own.get("timestamp"))
            yield pa.RecordBatch.from_arrays([*known, *columns.values()], names=[*POSITIONS.names, *columns])


def _fields_of(originals: pa.Array, fields: Sequence[str]) -> dict[str, pa.Array]:
    """The fields of dead letters that are JSON; a field that none of them has is left out, and so are those of CSV."""
    objects = [_object(one) for one in originals.to_pylist()]
    return {name: _column([one.get(name) for one in objects]) for name in fields if any(name in one for one in objects)}


def _object(text: bytes | None) -> dict[str, Any]:
    try:
        return read_object(text or b"")
    except ValueError:
        return {}


def _column(values: list[Any]) -> pa.Array:
    """Integers where all values are integers, otherwise text."""
    if all(value is None or (type(value) is int and value in LONGS) for value in values):
        return pa.array(values, pa.int64())
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array([text and text.encode("utf-8", "replace").decode() for text in texts], pa.string())


def read_parquet(part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A source file. Fields that it has not come from its path, as in `day=2026-11-15/`, or are null."""
    values = path_values(part.stream or "")
    with _opened(part) as file:
        there = [name for name in fields if name in file.schema_arrow.names]
        at = 0
        for batch in _batches(file, part, there) if there else _counted(part):
            rows = batch.num_rows
            columns = [
                batch.column(name) if name in there else pa.repeat(pa.scalar(values.get(name), pa.string()), rows)
                for name in fields
            ]
            known = position_columns(
                rows, source=pa.repeat(part.stream, rows), position=pa.array(np.arange(at, at + rows))
            )
            yield pa.RecordBatch.from_arrays([*known, *columns], names=[*POSITIONS.names, *fields])
            at += rows


def _counted(part: Part) -> Iterator[pa.RecordBatch]:
    """Batches of nothing, as many rows as the file has: enough to number them."""
    for at in range(0, part.end or 0, ROWS):
        rows = min(ROWS, (part.end or 0) - at)
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["nothing"])


def _opened(part: Part) -> Any:
    try:
        # Pages carry a checksum: a bit that has changed is not taken for a value.
        return pq.ParquetFile(part.name, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{part.name} cannot be read as Parquet", got=str(error).splitlines()[0]) from error


def _batches(file: Any, part: Part, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(batch_size=ROWS, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{part.name} cannot be read", got=str(error).splitlines()[0]) from error


def read_json(part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The numbers of the lines that are not blank."""
    return _numbered(part, first=0)


def read_csv(part: Part, _fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same, without the line of names."""
    return _numbered(part, first=1)


def _numbered(part: Part, first: int) -> Iterator[pa.RecordBatch]:
    at = 0
    for lines in _lines(part.name):
        kept = [n for n, line in enumerate(lines, at) if n >= first and line.strip(b" ")]
        at += len(lines)
        known = position_columns(
            len(kept), source=pa.repeat(part.stream, len(kept)), position=pa.array(kept, pa.int64())
        )
        yield pa.RecordBatch.from_arrays(known, schema=POSITIONS)


def _lines(path: str) -> Iterator[list[bytes]]:
    """The lines of a file, packed or not, some at a time; ended as Spark ends them: by LF, CR LF, or CR alone."""
    rest = b""
    try:
        with pa.input_stream(path, compression="detect") as stream:
            while block := stream.read(BLOCK):
                text = rest + block
                # A CR at the end may belong to an LF that is not read yet.
                held = b"\r" if text.endswith(b"\r") else b""
                whole = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                *lines, rest = whole.split(b"\n")
                rest += held
                yield lines
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{path} cannot be read", got=str(error).splitlines()[0]) from error
    if rest:
        yield [rest.removesuffix(b"\r")]

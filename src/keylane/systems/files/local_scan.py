"""Files that are counted in this process, without Spark: what `profile` and `geo table` read of small sources.

    scan_local         files -> batches of keys with their times or positions
    check_scan         errors of a request before anything is read, for any engine: no such source, no such column
    estimated_records  how many records there are, from footers or from the size of the first lines

Positions run over the files in the order of their names, and over their lines or rows, as on Spark (`frames`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.batch_router import plainly_laid
from keylane.contract.fields import FieldSpec, in_tree, paths_in, steps_of
from keylane.errors import DataError, NoRecordsError, UnknownNameError
from keylane.keys.arrow_bytes import plain
from keylane.keys.json_columns import ARROW
from keylane.keys.read import column_at, schema_tree
from keylane.keys.times import (
    checked_times,
    is_text,
)
from keylane.profile.count import refuse_misfits
from keylane.profile.model import position_windows, windows_for
from keylane.profile.read_rows import BEFORE_ALL, ReadRows, RowSource, Times, times_read
from keylane.profile.scan import MOST_LANES, NO_LANE, LocalScan, ScannedBatch, no_lane
from keylane.systems.files.footers import read_footers
from keylane.systems.files.lines import (
    LineReader,
    csv_names,
    is_blank,
    json_names,
    line_blocks,
    nothing_read,
    unknown_column,
    unlike_lines,
)
from keylane.systems.files.listing import compression_of, kind_of, lanes_in, sized_files, stream_in
from keylane.systems.folders.folder import read_head
from keylane.systems.streams import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from keylane.profile.scan import ScanRequest
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.files.footers import Footer
    from keylane.systems.files.listing import DataFile

#: Rows of one batch of Parquet.
_ROWS: Final = 1 << 18
#: Lines by whose length all are estimated.
_LINES: Final = 10_000
#: How much larger a compressed file is when decompressed, for an estimate.
_UNPACKED: Final = 6
_NUMBER: Final = r"^\s*[+-]?[0-9]{1,18}\s*$"


def estimated_records(path: Path, options: StreamOptions) -> int:
    """About how many records there are: of Parquet exactly, of lines by the length of the first of them."""
    kind, files = _listed(path, options)
    if kind == "parquet":
        return sum(footer.rows for footer in read_footers([file.path for file in files]))
    lines = next((next(line_blocks(file.path), []) for file in files), [])[:_LINES]
    size = sum(file.size * (_UNPACKED if compression_of(file.name) else 1) for file in files)
    return round(size * len(lines) / (sum(map(len, lines)) + len(lines))) if lines else 0


def names_of(path: Path, options: StreamOptions) -> list[str]:
    """The fields that the records of a source have, those in paths too; of JSON those of its first lines."""
    kind, files = _listed(path, options)
    in_paths = dict.fromkeys(name for file in files for name in file.values)
    if kind == "parquet":
        tree: dict[str, Any] = {}
        for footer in read_footers([file.path for file in files]):
            tree |= schema_tree(footer.schema)
        inside = paths_in(tree)
    elif kind == "csv":
        inside = csv_names([file.path for file in files], options.delimiter)
    else:
        inside = json_names([file.path for file in files])
    return list(dict.fromkeys([*inside, *in_paths]))


def check_scan(path: Path, options: StreamOptions, columns: Sequence[str]) -> None:
    """Refuse a source that does not exist, is empty, or has no such column, before anything is started.

    Records of JSON lines may differ in their fields, so there it is known only when all have been read.
    """
    kind, files = _listed(path, options)
    if not files:
        raise NoRecordsError.of(f"{path} has no records", got="files without a byte")
    if kind == "json":
        # Without one object among the first lines of all: with one, a line that is none is counted, and no more.
        if not json_names([file.path for file in files]) and (misread := unlike_lines(files[0].path, kind)):
            raise misread
        return
    known = names_of(path, options)
    for name in columns:
        if name not in known and not any(one.startswith(f"{name}.") for one in known):
            if kind == "csv":
                inside = csv_names([file.path for file in files], options.delimiter)
                raise unknown_column(str(path), name, inside, known, options.delimiter, files[0].path)
            raise UnknownNameError.among("column of the source", name, known)


def lane_count(path: Path, file: str, lanes: Sequence[int]) -> int:
    """The lanes of a stream: as a target's metadata has it, where the source is one; at least as far as was seen."""
    head, stream = read_head(path) or read_head(path.parent), stream_in(file)
    known = head.streams.get(stream, 0) if head is not None and stream is not None else 0
    return max(known, 1 + max(lanes))


def _listed(path: Path, options: StreamOptions) -> tuple[str, list[DataFile]]:
    kind = kind_of(path, options.kind)
    return kind, sized_files(path, None if options.kind else kind)


def scan_local(path: Path, options: StreamOptions, wanted: ScanRequest) -> LocalScan:
    """A file or folder of Parquet, JSON lines or CSV; of the given kind, or by the files' endings."""
    check_scan(path, options, wanted.columns)
    kind, files = _listed(path, options)
    footers = read_footers([file.path for file in files]) if kind == "parquet" else []
    source = _parquet(files, footers, wanted.columns) if footers else _of_lines(kind, files, wanted, options)
    if not wanted.written:
        refuse_misfits({name: source.types[name] for name in wanted.key.fields}, wanted.key)
    facts: dict[str, Any] = {"files": len(files), "kind": kind, "time": wanted.time, "bytes": wanted.size}
    starts = np.zeros(len(files) + 1, np.int64)
    if wanted.time is None:
        lines = [(footer.rows, footer.rows) for footer in footers] or [_line_count(file.path, kind) for file in files]
        starts = np.cumsum([0, *(rows for rows, _ in lines)])
        records = sum(records for _, records in lines)
        times = Times(position_windows(int(starts[-1]), windows_for(wanted.windows, records)))
    else:
        checked_times(wanted.time, source.types[wanted.time])
        # Of columns that are stored apart the times are read alone.
        alone = _parquet(files, footers, [wanted.time]) if footers else source
        times, records = times_read(alone, wanted, source.types[wanted.time])
        facts |= times.facts
    if records == 0:
        raise NoRecordsError.of(f"{path} has no records", got="no rows")
    lanes = None if wanted.lane else lanes_in([file.path for file in files])
    skipped = Skipped()
    return LocalScan(
        partial(_batches, source, wanted, times, starts, lanes, files, skipped),
        times.windows,
        records,
        exact=True,
        lanes=1 if wanted.lane else None if lanes is None else lane_count(path, files[0].path, lanes),
        size=None if wanted.size else sum(file.size for file in files),
        untimed=times.untimed,
        typed=kind == "parquet",
        malformed=kind != "parquet" or wanted.lane is not None,
        sized=wanted.size is not None,
        unread=lambda: skipped.counted,
        facts=facts,
        names=partial(json_names, [file.path for file in files]) if kind == "json" else list,
    )


def _batches(
    source: RowSource,
    wanted: ScanRequest,
    times: Times,
    starts: NDArray[np.int64],
    lanes: Sequence[int] | None,
    files: Sequence[DataFile],
    skipped: Skipped,
) -> Iterator[ScannedBatch]:
    for rows in source.rows():
        if rows.malformed is not None and rows.malformed.any():
            skipped.add(int(rows.malformed.sum()), files[rows.part].path, int(rows.row[rows.malformed][0]) + 1)
        at, missing = rows.row + starts[rows.part], None
        if wanted.time is not None:
            at, missing = times.of(rows, wanted.time)
        lane = None if lanes is None else np.full(len(rows), lanes[rows.part], np.int64)
        malformed = rows.malformed
        if wanted.lane:
            lane, lost = lane_numbers(rows, wanted.lane, everywhere=wanted.all_laned)
            malformed = lost if malformed is None else malformed | lost
        yield ScannedBatch(
            {name: rows.columns[name] for name in wanted.key.fields},
            at if missing is None else np.where(missing, BEFORE_ALL, at),
            missing if times.untimed else None,
            None if wanted.size is None else sizes_in(rows.columns[wanted.size], wanted.size),
            lane,
            malformed,
        )


def sizes_in(column: Any, name: str) -> NDArray[np.int64]:
    """The size of each record: an integer or text that is one is the size itself; other text and bytes have theirs."""
    array = plain(column)
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pa.types.is_integer(kind):
        return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    text = is_text(kind)
    if not text and not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise DataError.of(f"column {name!r} holds no lengths", got=str(kind), allowed="whole numbers, bytes, text")
    length = pc.binary_length(array).cast(pa.int64())
    if text:
        whole = pc.if_else(pc.match_substring_regex(array, _NUMBER), array, pa.scalar(None, array.type))
        bare = pc.utf8_ltrim(pc.utf8_trim_whitespace(whole), "+").cast(pa.int64())
        length = pc.coalesce(bare, length)
    return length.fill_null(0).to_numpy(zero_copy_only=False)


def lane_numbers(rows: ReadRows, name: str, *, everywhere: bool = False) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The lanes of a column, and which records have none though the rest of them can be read: they count as unread."""
    array = given = plain(rows.columns[name])
    if is_text(array.type):
        fits = pc.match_substring_regex(array, _NUMBER)
        bare = pc.utf8_ltrim(pc.utf8_trim_whitespace(array), "+")
        array = pc.if_else(fits, bare, pa.scalar(None, bare.type)).cast(pa.int64())
    if not (pa.types.is_integer(array.type) or pa.types.is_null(array.type)):
        raise DataError.of(f"column {name!r} holds no lanes", got=str(array.type), allowed="integers from 0")
    if pa.types.is_uint64(array.type):  # Arrow compares no number beyond 2**63 with one that has a sign
        array = pc.min_element_wise(array, pa.scalar(MOST_LANES, array.type), skip_nulls=False).cast(pa.int64())
    read = np.ones(len(rows), bool) if rows.malformed is None else ~rows.malformed
    sound = pc.and_(pc.greater_equal(array, 0), pc.less(array, MOST_LANES)).fill_null(False)
    lost = np.zeros(len(rows), bool)
    if not everywhere:
        none = pc.equal(given, "").fill_null(True) if is_text(given.type) else given.is_null()
        lost = read & none.to_numpy(zero_copy_only=False)
    wrong = read & ~lost & ~sound.to_numpy(zero_copy_only=False)
    if wrong.any():
        raise no_lane(name, given[int(wrong.argmax())].as_py())
    numbers = pc.if_else(sound, array, pa.scalar(0, array.type)).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(read & ~lost, numbers, NO_LANE), lost


# Parquet: rows of a few columns.


def _parquet(files: Sequence[DataFile], footers: Sequence[Footer], names: Sequence[str]) -> RowSource:
    types = _common_types(files, footers, names)
    return RowSource(partial(_parquet_rows, files, footers, types), types)


def _common_types(
    files: Sequence[DataFile], footers: Sequence[Footer], wanted: Sequence[str]
) -> dict[str, pa.DataType]:
    """The wanted columns as all files have them: of one type, or of the widest integer type among them."""
    found: dict[str, pa.DataType] = {}
    for footer, file in zip(footers, files, strict=True):
        empty = footer.schema.empty_table()
        for name in wanted:
            if in_tree(schema_tree(footer.schema), name):
                kind = plain(column_at(empty, name)).type
                found[name] = _wider(found.get(name, kind), kind, name, file.name)
    return {name: found.get(name, pa.string()) for name in wanted}


def _wider(known: pa.DataType, kind: pa.DataType, name: str, where: str) -> pa.DataType:
    if known == kind:
        return known
    if pa.types.is_integer(known) and pa.types.is_integer(kind):
        return pa.int64()
    if (is_text(known) and is_text(kind)) or (pa.types.is_timestamp(known) and pa.types.is_timestamp(kind)):
        return known
    raise DataError.of(f"{where}: column {name!r} is of another type", got=str(kind), allowed=str(known))


def _parquet_rows(
    files: Sequence[DataFile], footers: Sequence[Footer], types: dict[str, pa.DataType]
) -> Iterator[ReadRows]:
    import pyarrow.parquet as pq

    for n, (file, footer) in enumerate(zip(files, footers, strict=True)):
        tree, at = schema_tree(footer.schema), 0
        inside = [name for name in types if in_tree(tree, name)]
        tops = list(dict.fromkeys(name if name in tree else steps_of(name)[0] for name in inside))
        try:
            opened = pq.ParquetFile(file.path, metadata=footer.metadata, coerce_int96_timestamp_unit="us")
            for batch in opened.iter_batches(batch_size=_ROWS, columns=tops) if tops else _of_nothing(footer.rows):
                laid = plainly_laid(batch)
                columns = {name: column_at(laid, name) for name in inside}
                columns |= {
                    name: pa.repeat(pa.scalar(file.values.get(name), kind), len(batch))
                    for name, kind in types.items()
                    if name not in columns
                }
                yield ReadRows({name: columns[name] for name in types}, np.arange(at, at + len(batch)), n)
                at += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise DataError.of(f"{file.path} cannot be read", got=str(error).splitlines()[0]) from error


def _of_nothing(rows: int) -> Iterator[pa.RecordBatch]:
    """As many rows as a file has, none of whose columns is asked for."""
    for at in range(0, rows, _ROWS):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(_ROWS, rows - at))], names=["nothing"])


# Lines: JSON and CSV.


def _of_lines(kind: str, files: Sequence[DataFile], wanted: ScanRequest, options: StreamOptions) -> RowSource:
    spec = FieldSpec.of_scan(wanted.key, wanted.columns, wanted.written, [wanted.lane] if wanted.lane else ())
    reader = LineReader(kind, spec.kind, options.delimiter, options.csv_null)
    types = {name: ARROW[spec.kind(name)] for name in wanted.columns}
    return RowSource(partial(_line_rows, files, reader, types), types)


def _line_rows(files: Sequence[DataFile], reader: LineReader, types: dict[str, pa.DataType]) -> Iterator[ReadRows]:
    in_paths = {name for file in files for name in file.values if name in types}
    inside = [name for name in types if name not in in_paths]
    misread, read = Skipped(), 0
    for n, file in enumerate(files):
        for some in reader.read(file.path, inside):
            columns = dict(some.columns)
            columns |= {name: pa.repeat(pa.scalar(file.values.get(name), pa.string()), len(some)) for name in in_paths}
            if some.malformed.any():
                misread.add(int(some.malformed.sum()), file.path, int(some.row[some.malformed][0]) + 1)
            read += int((~some.malformed).sum())
            yield ReadRows({name: columns[name] for name in types}, some.row, n, some.malformed)
    if not read and misread.lines:
        raise nothing_read(files[0].path, reader, inside, misread.text)


def _line_count(path: str, kind: str) -> tuple[int, int]:
    """The lines of a file, and how many of them are records: neither blank nor a line of names."""
    rows = blank = 0
    for lines in line_blocks(path):
        skipped = int(kind == "csv" and not rows)
        blank += sum(map(is_blank, lines[skipped:]))
        rows += len(lines)
    return rows, rows - blank - int(kind == "csv" and rows > 0)

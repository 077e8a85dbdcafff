"""Folders and files of Parquet, CSV and JSON lines as Arrow batches, a few columns at a time.

A CSV key is read as text, whatever it looks like: `00042` must not become 42, because its bytes decide its lane.
A folder of `lane=7/` sub-folders gives the column `lane`, as Spark, DuckDB and pandas read it too.
Which files of a folder count: `listing`. Topics as the same: `kafka.data`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from keylane.contract.fields import FieldSpec, absent_name, in_tree, no_such_field, paths_in, steps_of
from keylane.errors import DataError, KeylaneError, NoRecordsError, UnknownNameError
from keylane.keys.arrow_bytes import plain
from keylane.keys.json_columns import json_columns
from keylane.keys.read import schema_tree
from keylane.numbers import count, plural
from keylane.systems.files.lines import (
    LineReader,
    csv_names,
    json_names,
    line_blocks,
    misread_columns,
    nothing_read,
    unknown_column,
    unlike_lines,
)
from keylane.systems.files.listing import ENDINGS, compression_of, data_files, kinds_in
from keylane.systems.streams import Description, Part, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.contract.fields import FieldKind
    from keylane.systems.files.lines import LineRecords

#: Columns that hold the lane, where none is named.
LANE_COLUMNS: Final = ("lane", "partition")
#: Lines that are looked at for what a field holds.
_SAMPLE: Final = 100
#: Rows that are looked at for empty cells.
_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ReadLineFiles:
    """Reads fields of the lines of files. A line that is no record is skipped, and counted in `skipped`.

    `files` have the columns of their folders, `known` are all columns of CSV. Of JSON, records that lack a field are
    marked where a contract asks; a field that no record has is an error, and so are files that have no line to read.
    """

    path: str
    files: tuple[tuple[str, dict[str, Any]], ...]
    reader: LineReader
    skipped: Skipped
    known: tuple[str, ...] | None = None
    marks: bool = False

    def __call__(self, _part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, in this order, and the marks behind them."""
        for name in columns:
            if self.known is not None and name not in self.known:
                in_paths = list(self.files[0][1])
                inside = [one for one in self.known if one not in in_paths]
                raise unknown_column(self.path, name, inside, in_paths, self.reader.delimiter, self.files[0][0])
        json, read = self.reader.format == "json", 0
        lacking = {name for name in columns if not any(name in folders for _, folders in self.files)} if json else set()
        for file, folders in self.files:
            for some in self.reader.read(file, [name for name in columns if name not in folders]):
                good = ~some.malformed
                self._skip(file, some)
                batch = _batch(columns, some, folders, marks=json and self.marks)
                batch = batch if good.all() else batch.filter(pa.array(good))
                lacking = {name for name in lacking if name in some.absent and some.absent[name][good].all()}
                read += len(batch)
                yield batch
        if not read and self.skipped.lines:
            file, folders = self.files[0]
            inside = [name for name in columns if name not in folders]
            raise nothing_read(file, self.reader, inside, self.skipped.text)
        for name in sorted(lacking) if read else ():
            raise no_such_field(f"no record of {self.path} has a field {name!r}", name, self._names())

    def _skip(self, file: str, some: LineRecords) -> None:
        if some.malformed.any():
            self.skipped.add(int(some.malformed.sum()), file, int(some.row[some.malformed][0]) + 1)

    def _names(self) -> list[str]:
        return json_names([file for file, _ in self.files])


def _batch(columns: Sequence[str], some: LineRecords, folders: Mapping[str, Any], *, marks: bool) -> pa.RecordBatch:
    found = {**some.columns, **{name: pa.repeat(pa.scalar(value), len(some)) for name, value in folders.items()}}
    named = {name: found[name] for name in columns}
    if marks:
        named |= {absent_name(name): pa.array(mark) for name, mark in some.absent.items()}
    return pa.RecordBatch.from_arrays(list(named.values()), names=list(named))


@dataclass(frozen=True, slots=True)
class ReadDataset:
    """Reads columns of the files of a data set."""

    path: str
    dataset: Any

    def __call__(self, _part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, in this order."""
        tree = schema_tree(self.dataset.schema)
        for name in columns:
            if not in_tree(tree, name):
                raise UnknownNameError.among(f"column of {self.path}", name, paths_in(tree))
        wanted = {name: ds.field(name) if name in tree else pc.field(*steps_of(name)) for name in columns}
        try:
            # Arrow reads far ahead by default; a little is as quick, and memory stays flat however many rows there are.
            for batch in self.dataset.to_batches(columns=wanted, batch_readahead=2, fragment_readahead=1):
                yield pa.RecordBatch.from_arrays([batch.column(name) for name in columns], names=list(columns))
        except (pa.ArrowException, OSError) as error:
            raise DataError.of(f"{self.path} cannot be read", got=str(error).splitlines()[0]) from error


def open_data(
    path: str,
    fields: FieldSpec | None = None,
    csv_null: Sequence[str] = (),
    delimiter: str = ",",
    given: str | None = None,
) -> Description:
    """Describe a file or folder; text of the `fields` stays text, in CSV cells and in folder names.

    `csv_null` are the texts of a CSV cell without quotes that stand for null, `delimiter` is between cells. `given` is
    the kind of all files, whatever their names; otherwise their endings say it.

    Its files are one part, because the types of columns are those of all of them.
    """
    root, fields = Path(path), fields or FieldSpec()
    if not root.exists():
        raise DataError.of("no such data", got=path, hint="a file or folder of Parquet, CSV or JSON lines")
    kinds = kinds_in(root) if given is None else {given}
    if len(kinds) != 1:
        got = ", ".join(sorted(kinds)) or "no file of a known kind"
        raise DataError.of(
            f"{path} is not data of one kind", got=got, allowed=f"{ENDINGS}, also packed: .gz, .bz2, .zst"
        )
    kind = kinds.pop()
    files = data_files(root, None if given else kind)
    if not files:
        raise NoRecordsError.of(f"{path} has no records", got="files without a byte")
    if kind != "parquet":
        return _of_lines(path, kind, files, fields, LineReader(kind, fields.kind, delimiter, tuple(csv_null)))
    packed = [file.name for file in files if compression_of(file.name)]
    if packed:
        raise DataError.of(f"{path} has Parquet that is packed once more", got=packed[0], hint="decompress it first")
    base = path if root.is_dir() else None
    try:
        parts, named = _partitioning(root, files, fields.text), [str(file) for file in files]
        how = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False))
        dataset = ds.dataset(named, format=how, partitioning=parts, partition_base_dir=base)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{path} cannot be read as {kind}", got=str(error).splitlines()[0]) from error
    return Description(path, tuple(dataset.schema.names), (Part(path),), ReadDataset(path, dataset))


def empty_cells(data: Description, names: Sequence[str], most: int = _ROWS) -> str:
    """In words, in how many of the first rows one of these columns is empty; nothing where none is.

    CSV has no null: an export writes one as an empty cell, which is a key of no bytes for whoever reads it as it is.
    """
    read = empty = 0
    if not set(names) <= set(data.columns):
        return ""
    for batch in data.batches(names):
        some = batch.slice(0, most - read)
        cells = [pc.equal(pc.cast(some.column(name), pa.string()), "") for name in names]
        empty += int(np.any([np.asarray(cell.fill_null(fill_value=False)) for cell in cells], axis=0).sum())
        read += len(some)
        if read >= most:
            break
    if not empty:
        return ""
    rows = f"{count(empty)} of {'the first ' if read >= most else ''}{plural(read, 'row')}"
    named = ", ".join(names)
    return f"{rows} have an empty cell in {named}: an empty key, not a null one; hint: if it means null, --csv-null ''"


def holds_lanes(data: Description, name: str) -> bool:
    """Whether the first rows of a column hold whole numbers from 0, as lanes are."""
    try:
        batch = next((batch for batch in data.batches([name]) if len(batch)), None)
    except KeylaneError:
        return False
    if batch is None:
        return False
    column = plain(batch.column(0).slice(0, _ROWS))
    return pa.types.is_integer(column.type) and column.null_count < len(column) and pc.min(column).as_py() >= 0


def _of_lines(path: str, kind: str, files: Sequence[Path], fields: FieldSpec, reader: LineReader) -> Description:
    root, named = Path(path), [str(file) for file in files]
    parts = _partitioning(root, files, fields.text)
    folders = () if parts is None else parts.schema
    inside = json_names(named) if kind == "json" else csv_names(named, reader.delimiter)
    tops = dict.fromkeys(name if kind == "csv" else steps_of(name)[0] for name in inside)
    names = tuple(dict.fromkeys([*tops, *(one.name for one in folders)]))
    reader = replace(reader, kind=partial(_kind_of, fields, _whole_in(named, fields) if kind == "json" else ()))
    values = tuple((str(file), _folder_values(file, root, folders)) for file in files)
    skipped = Skipped()
    read = ReadLineFiles(path, values, reader, skipped, names if kind == "csv" else None, marks=bool(fields.kinds))
    misread = unlike_lines(named[0], kind) if named else None
    if misread is None and kind == "csv":
        misread = misread_columns(path, inside, reader.delimiter)
    return Description(path, names, (Part(path),), read, skipped=skipped, misread=misread)


def _kind_of(fields: FieldSpec, whole: Sequence[str], name: str) -> FieldKind:
    """What a field holds: as the contract has it; a key is text or a whole number, any other column the latter."""
    if name in fields.kinds or (name in fields.names and name not in whole):
        return fields.kind(name)
    return "integer"


def _whole_in(files: Sequence[str], fields: FieldSpec) -> list[str]:
    """The fields that nobody says the kind of, and that hold whole numbers in the first lines."""
    lines = [line for line in next(line_blocks(files[0]), [])[:_SAMPLE] if line.strip()]
    found = []
    for name in (name for name in fields.names if name not in fields.kinds):
        columns, _, unread = json_columns(pa.array(lines, pa.binary()), [name], lambda _: "integer")
        if lines and not unread.any() and columns[0].null_count < len(lines):
            found.append(name)
    return found


def _folder_values(file: Path, root: Path, columns: Any) -> dict[str, Any]:
    """The columns in the path of a file, as numbers where they are."""
    found = dict(part.split("=", 1) for part in file.relative_to(root).parts[:-1] if "=" in part) if columns else {}
    return {
        one.name: int(found[one.name]) if one.type == pa.int64() else found[one.name]
        for one in columns
        if one.name in found
    }


def _partitioning(root: Path, files: Sequence[Path], text: Sequence[str]) -> Any:
    """Columns from folder names: whole numbers where all values are, unless the column must stay text."""
    values: dict[str, set[str]] = {}
    for file in files if root.is_dir() else ():
        for part in file.relative_to(root).parts[:-1]:
            name, equals, value = part.partition("=")
            if equals:
                values.setdefault(name, set()).add(value)
    if not values:
        return None
    kinds = {n: pa.string() if n in text or not all(map(str.isdigit, v)) else pa.int64() for n, v in values.items()}
    return ds.partitioning(pa.schema(list(kinds.items())), flavor="hive")

"""Folders and files of Parquet, CSV and JSON lines as Arrow batches, a few columns at a time.

A CSV key is read as text, whatever it looks like: `00042` must not become 42, because its bytes decide its lane.
A folder of `lane=7/` sub-folders gives the column `lane`, as Spark, DuckDB and pandas read it too.
Which files of a folder count: `listing`. Topics as the same: `kafka.data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import csv

from keylane.contract.fields import FieldSpec, absent_name, in_tree, no_such_field, paths_in, steps_of
from keylane.errors import DataError, UnknownNameError
from keylane.keys.json_columns import json_columns
from keylane.keys.read import absent_rows, names_in_json, schema_tree
from keylane.systems.files.listing import ENDINGS, compression_of, data_files, kinds_in
from keylane.systems.streams import Description, Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.contract.fields import FieldKind
    from keylane.systems.streams import Read

_BLOCK: Final = 1 << 22
#: Lines whose names an error lists.
_SAMPLE: Final = 100


@dataclass(frozen=True, slots=True)
class ReadJson:
    """Reads fields of JSON lines, of which a contract says what they hold; records that lack one are marked.

    `files` have the columns of their folders. Another column, as that of the lane, is a whole number.
    """

    path: str
    files: tuple[tuple[str, dict[str, Any]], ...]
    fields: FieldSpec

    def __call__(self, _part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, in this order, and the marks behind them."""
        lacking, sample = set(columns), list[bytes]()
        for file, folders in self.files:
            for first, lines in _numbered_lines(file):
                batch = self._batch(columns, folders, [line for line in lines if line.strip()], (file, first))
                marks = {name: absent_rows(batch, name) for name in lacking}
                lacking = {name for name, mark in marks.items() if mark is not None and mark.all()}
                sample += lines[:_SAMPLE] if lacking and len(sample) < _SAMPLE else []
                yield batch
        for name in sorted(lacking) if sample else ():
            raise no_such_field(f"no record of {self.path} has a field {name!r}", name, names_in_json(sample))

    def _batch(
        self, columns: Sequence[str], folders: Mapping[str, Any], lines: Sequence[bytes], where: tuple[str, int]
    ) -> pa.RecordBatch:
        texts, found = pa.array(lines, pa.binary()), dict[str, pa.Array]()
        for of_contract in (True, False):
            names = [n for n in columns if n not in folders and (n in self.fields.names) == of_contract]
            arrays, marks, unread = json_columns(texts, names, self._kind) if names else ([], [], np.zeros(1, bool))
            if unread.any():
                what = f"{where[0]} cannot be read: a line from {where[1]} on is no JSON object that holds such fields"
                raise DataError.of(what, got=lines[int(unread.argmax())], allowed=", ".join(names))
            found |= dict(zip(names, arrays, strict=True))
            found |= {absent_name(name): mark for name, mark in zip(names, marks, strict=True)}
        found |= {name: pa.repeat(pa.scalar(folders[name]), len(lines)) for name in columns if name in folders}
        names = [*columns, *(name for name in found if name not in columns)]
        return pa.RecordBatch.from_arrays([found[name] for name in names], names=names)

    def _kind(self, name: str) -> FieldKind:
        return self.fields.kind(name) if name in self.fields.names else "integer"


def _numbered_lines(path: str) -> Iterator[tuple[int, list[bytes]]]:
    """Some lines at a time, with the number of the first."""
    rest, at = b"", 1
    try:
        with pa.input_stream(path, compression=compression_of(str(path))) as stream:
            while block := stream.read(_BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                yield at, lines
                at += len(lines)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{path} cannot be read", got=str(error).splitlines()[0]) from error
    yield at, [rest] if rest else []


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


def open_data(path: str, fields: FieldSpec | None = None, csv_null: Sequence[str] = ()) -> Description:
    """Describe a file or folder; text of the `fields` stays text, in CSV cells and in folder names.

    `csv_null` are the texts of a CSV cell without quotes that stand for null.

    Its files are one part, because the types of columns are those of all of them.
    """
    root, fields = Path(path), fields or FieldSpec()
    text = fields.text
    if not root.exists():
        raise DataError.of("no such data", got=path, hint="a file or folder of Parquet, CSV or JSON lines")
    kinds = kinds_in(root)
    if len(kinds) != 1:
        got = ", ".join(sorted(kinds)) or "no file of a known kind"
        raise DataError.of(f"{path} is not data of one kind", got=got, allowed=ENDINGS)
    kind = kinds.pop()
    files = data_files(root, kind)
    if not files:
        raise DataError.of(f"{path} cannot be read", got="no records: every file is empty")
    packed = [file.name for file in files if compression_of(file.name) and file.suffix not in {".gz", ".bz2"}]
    if packed:
        allowed, hint = ".gz, .bz2", "decompress them (zstd -d); rename those with endings in capitals"
        raise DataError.of(
            f"{path} has files that only Spark can decompress", got=packed[0], allowed=allowed, hint=hint
        )
    base = path if root.is_dir() else None
    try:
        parts, named = _partitioning(root, files, text), [str(file) for file in files]
        dataset = ds.dataset(named, format=_format(kind, text, csv_null), partitioning=parts, partition_base_dir=base)
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{path} cannot be read as {kind}", got=str(error).splitlines()[0]) from error
    read: Read = ReadDataset(path, dataset)
    if kind == "json" and fields.kinds:
        folders = () if parts is None else parts.schema
        read = ReadJson(path, tuple((str(file), _folder_values(file, root, folders)) for file in files), fields)
    return Description(path, tuple(dataset.schema.names), (Part(path),), read)


def _folder_values(file: Path, root: Path, columns: Any) -> dict[str, Any]:
    """The columns in the path of a file, as numbers where they are."""
    found = dict(part.split("=", 1) for part in file.relative_to(root).parts[:-1] if "=" in part) if columns else {}
    return {
        one.name: int(found[one.name]) if one.type == pa.int64() else found[one.name]
        for one in columns
        if one.name in found
    }


def _format(kind: str, text: Sequence[str], csv_null: Sequence[str]) -> Any:
    if kind == "csv":
        types: dict[str, Any] = {"column_types": dict.fromkeys(text, pa.string())}
        if csv_null:
            types |= {"null_values": list(csv_null), "strings_can_be_null": True, "quoted_strings_can_be_null": False}
        return ds.CsvFileFormat(convert_options=csv.ConvertOptions(**types))
    if kind == "json":
        return ds.JsonFileFormat()
    return ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False))


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

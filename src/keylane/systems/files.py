"""Folders and files of Parquet, CSV and JSON lines as Arrow batches, a few columns at a time.

A CSV key is read as text, whatever it looks like: `00042` must not become 42, because its bytes decide its lane.
A folder of `lane=7/` sub-folders gives the column `lane`, as Spark, DuckDB and pandas read it too.
Topics as the same: `topic_data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import csv

from keylane.errors import DataError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Data", "open_data"]

FORMATS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}


@dataclass(frozen=True, slots=True)
class Data:
    """A data set that has been found and whose columns are known; nothing of it is in memory."""

    path: str
    dataset: Any

    @property
    def lanes(self) -> int | None:
        """The lane count, which no file says."""
        return None

    @property
    def columns(self) -> list[str]:
        """Column names."""
        return list(self.dataset.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read these columns, in this order, a batch at a time."""
        for name in columns:
            if name not in self.columns:
                raise UnknownNameError.among(f"column of {self.path}", name, self.columns)
        try:
            # Arrow reads far ahead by default; a little is as quick, and memory stays flat however many rows there are.
            yield from self.dataset.to_batches(columns=list(columns), batch_readahead=2, fragment_readahead=1)
        except (pa.ArrowException, OSError) as error:
            raise DataError.of(f"{self.path} cannot be read", got=str(error).splitlines()[0]) from error


def open_data(path: str, text: Sequence[str] = ()) -> Data:
    """Find a file or folder; `text` names the columns that must stay text, in CSV cells and in folder names."""
    files = _files(Path(path))
    kind = _kind(path, files)
    named = [str(file) for file in files if file.suffix in FORMATS]
    base = path if Path(path).is_dir() else None
    try:
        parts = _partitioning(Path(path), files, text)
        return Data(path, ds.dataset(named, format=_format(kind, text), partitioning=parts, partition_base_dir=base))
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{path} cannot be read as {kind}", got=str(error).splitlines()[0]) from error


def _files(given: Path) -> list[Path]:
    if not given.exists():
        raise DataError.of("no such data", got=str(given), hint="a file or folder of Parquet, CSV or JSON lines")
    return [given] if given.is_file() else sorted(p for p in given.rglob("*") if _is_data(p, given))


def _kind(path: str, files: Sequence[Path]) -> str:
    kinds = {FORMATS[file.suffix] for file in files if file.suffix in FORMATS}
    if len(kinds) != 1:
        found = ", ".join(sorted(kinds)) or "nothing of the kind"
        raise DataError.of(f"{path} is not data of one kind", got=found, allowed=", ".join(FORMATS))
    return kinds.pop()


def _is_data(path: Path, root: Path) -> bool:
    """A file that no part of whose path is hidden or a marker, as Spark and Arrow see it."""
    return path.is_file() and not any(part[0] in "._" for part in path.relative_to(root).parts)


def _format(kind: str, text: Sequence[str]) -> Any:
    if kind == "csv":
        return ds.CsvFileFormat(convert_options=csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string())))
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

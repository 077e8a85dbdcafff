"""Lines of JSON and CSV files as Arrow columns of a few fields, a block at a time: what is read without Spark.

    line_blocks   the lines of a file, compressed or not, ended as Spark ends them
    LineReader    lines -> columns, and which lines are no record
    header_of     the names in the first line of a CSV file

A line is a record or it is malformed; a malformed line is marked, never raised, and the caller decides. Records do not
span lines. The same on Spark: `spark.read_lines`; tests compare the two, line by line.
"""

from __future__ import annotations

import codecs
import csv
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.errors import DataError, UnknownNameError
from keylane.keys.csv_line import odd_cells
from keylane.keys.json_columns import ARROW, json_columns
from keylane.keys.read import names_in_json
from keylane.systems.files.listing import compression_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.fields import FieldKind

#: Bytes that are read at once.
BLOCK: Final = 1 << 22
BOM: Final = b"\xef\xbb\xbf"
#: Delimiters that a header line is looked at for.
USUAL: Final = (",", ";", "\t", "|")
_HEADER_BYTES: Final = 1 << 20
#: Files, and lines of each, whose names an error lists.
_FILES, _SAMPLE = 5, 100
_WHOLE: Final = "^[+-]?[0-9]+$"
_LONGS: Final = range(-(2**63), 2**63)


def line_blocks(path: str) -> Iterator[list[bytes]]:
    """The lines of a file, compressed or not, some at a time; ended as Spark ends them: by LF, CR LF, or CR alone."""
    rest = b""
    try:
        with pa.input_stream(path, compression=compression_of(path)) as stream:
            while block := stream.read(BLOCK):
                text = rest + block
                # A CR at the end may belong to an LF that is not read yet.
                held = b"\r" if text.endswith(b"\r") else b""
                whole = text[: len(text) - len(held)]
                if b"\r" in whole:
                    whole = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                *lines, rest = whole.split(b"\n")
                rest += held
                yield lines
    except (pa.ArrowException, OSError) as error:
        raise DataError.of(f"{path} cannot be read", got=str(error).splitlines()[0]) from error
    if rest:
        yield [rest.removesuffix(b"\r")]


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing, or nothing but spaces: no record, as Spark has it; a tab makes it one."""
    return not line.strip(b" ")


def head_of(path: str) -> str:
    """The beginning of a text file; its compression is given, because Arrow knows endings in small letters only."""
    try:
        with pa.input_stream(path, compression=compression_of(path)) as stream:
            found: str = stream.read(_HEADER_BYTES).decode("utf-8-sig", "replace")
            return found
    except (OSError, pa.ArrowException) as error:
        raise DataError.of(f"{path} cannot be read as CSV", got=str(error).splitlines()[0]) from error


def header_of(path: str, delimiter: str = ",") -> tuple[str, ...]:
    """The names in a CSV file's first line; none when the file is empty or blank."""
    head = head_of(path)
    # The line ends that Spark knows: `splitlines` would cut a name at other characters.
    line = re.split(r"\r\n|\r|\n", head, maxsplit=1)[0]
    names = tuple(next(csv.reader([line], delimiter=delimiter), []))
    if head.strip() and (not names or len(set(names)) < len(names) or not all(names) or line.count('"') % 2):
        hint = delimiter_hint(line, delimiter)
        what = f"{path} has no usable header line"
        unlike = unlike_lines(path, "csv")
        raise unlike or DataError.of(what, got=names, allowed="one name for each column", hint=hint)
    return names


def delimiter_hint(header: str, delimiter: str) -> str:
    """The hint for a header line that has one column under this delimiter and more under another.

    >>> delimiter_hint("merchant;amount", ","), delimiter_hint("merchant,amount", ",")
    ("--delimiter ';'", '')
    """
    cells = {one: header.count(one) for one in USUAL}
    most = max(USUAL, key=lambda one: cells[one])
    if cells.get(delimiter, header.count(delimiter)) or not cells[most]:
        return ""
    return f"--delimiter {'tab' if most == chr(9) else repr(most)}"


def csv_names(files: Sequence[str], delimiter: str) -> list[str]:
    """The columns of CSV files, by their header lines."""
    return list(dict.fromkeys(name for file in files for name in header_of(file, delimiter)))


def json_names(files: Sequence[str]) -> list[str]:
    """The fields of JSON lines, by the first lines of the first files; those within others by their paths."""
    return names_in_json([line for file in files[:_FILES] for line in next(line_blocks(file), [])[:_SAMPLE]])


def other_delimiter(inside: Sequence[str], delimiter: str) -> str:
    """The option for CSV whose one column looks like several that are separated by something else; otherwise empty.

    >>> other_delimiter(["merchant;amount"], ","), other_delimiter(["merchant;amount", "day"], ",")
    ("--delimiter ';'", '')
    """
    return delimiter_hint(inside[0], delimiter) if len(inside) == 1 else ""


def misread_columns(path: str, inside: Sequence[str], delimiter: str) -> DataError | None:
    """The error for CSV that was read with the wrong delimiter; None where it looks right."""
    hint = other_delimiter(inside, delimiter)
    if not hint:
        return None
    sign = hint.removeprefix("--delimiter ")
    what = f"{path} has one column: it looks separated by {sign}, and was read with {delimiter!r}"
    return DataError.of(what, got=inside[0], hint=hint)


def unknown_column(
    path: str, name: str, inside: Sequence[str], folders: Sequence[str], delimiter: str, file: str
) -> DataError | UnknownNameError:
    """The error for a column that neither CSV files, of which `file` is the first, nor their folders have.

    They may have been read wrongly.
    """
    known = list(dict.fromkeys([*inside, *folders]))
    misread = unlike_lines(file, "csv") or misread_columns(path, inside, delimiter)
    return misread or UnknownNameError.among("column of the source", name, known)


#: Bytes of a file by which it is known.
_BEGINNING: Final = 1 << 16
#: How files begin that are no lines of text, and what to do with them.
_BEGINNINGS: Final = {
    b"\x1f\x8b": ("packed by gzip", "name it so that it ends in .gz"),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", "name it so that it ends in .zst"),
    b"BZh": ("packed by bzip2", "name it so that it ends in .bz2"),
    b"\xff\xfe": ("in UTF-16", "iconv -f UTF-16 -t UTF-8 writes it as UTF-8"),
    b"\xfe\xff": ("in UTF-16", "iconv -f UTF-16 -t UTF-8 writes it as UTF-8"),
}


def unlike_lines(file: str, kind: str) -> DataError | None:
    """The error for a file that does not begin with lines of text; None where it looks right.

    A line that begins as an array does is no array of records where an object is on a line beside it.
    """
    if compression_of(file) is not None:
        return None
    with Path(file).open("rb") as stream:
        first = stream.read(_BEGINNING)
    for begins, (what, hint) in _BEGINNINGS.items():
        if first.startswith(begins):
            return DataError.of(f"{file} is {what}", allowed="lines of text in UTF-8", hint=hint)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(first)
    except UnicodeDecodeError as error:
        got = first[error.start : error.start + 1]
        hint = "iconv -f ISO-8859-1 -t UTF-8 writes it as UTF-8, if that is what it is in"
        return DataError.of(f"{file} is not in UTF-8", got=got, allowed="lines of text in UTF-8", hint=hint)
    if kind == "json" and first.removeprefix(BOM).lstrip().startswith(b"[") and not json_names([file]):
        hint = "jq -c '.[]' writes an array as lines"
        return DataError.of(f"{file} is one JSON array", allowed="JSON lines: an object on each line", hint=hint)
    return None


@dataclass(frozen=True, slots=True)
class LineRecords:
    """Some lines of a file: their fields, which of them lack one, which are malformed, and their row numbers.

    Rows are numbered from 0 over all lines of the file; blank lines are left out, and so is the line of names.
    """

    columns: dict[str, pa.Array]
    absent: dict[str, NDArray[np.bool_]]
    malformed: NDArray[np.bool_]
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class LineReader:
    """Reads fields of the lines of files. `kind` says what a field holds, `nulls` which cells of CSV stand for null."""

    format: str
    kind: Callable[[str], FieldKind]
    delimiter: str = ","
    nulls: tuple[str, ...] = ()

    def read(self, path: str, names: Sequence[str]) -> Iterator[LineRecords]:
        """These fields of a file, a block of lines at a time."""
        at, header = 0, tuple[str, ...]()
        for lines in line_blocks(path):
            if not at and lines:
                lines[0] = lines[0].removeprefix(BOM)
                header = header_of(path, self.delimiter) if self.format == "csv" else ()
            first = int(self.format == "csv" and not at)
            rows = np.arange(at + first, at + len(lines), dtype=np.int64)
            at += len(lines)
            kept = lines[first:] if first else lines
            blank = [n for n, line in enumerate(kept) if is_blank(line)]
            if blank:
                rows, kept = np.delete(rows, blank), [line for line in kept if not is_blank(line)]
            if not kept:
                continue
            yield self._csv(kept, rows, header, names) if self.format == "csv" else self._json(kept, rows, names)

    def _json(self, lines: list[bytes], rows: NDArray[np.int64], names: Sequence[str]) -> LineRecords:
        columns, absent, unread = json_columns(pa.array(lines, pa.binary()), names, self.kind)
        marks = {name: mark.to_numpy(zero_copy_only=False) for name, mark in zip(names, absent, strict=True)}
        return LineRecords(dict(zip(names, columns, strict=True)), marks, unread, rows)

    def _csv(
        self, lines: list[bytes], rows: NDArray[np.int64], header: Sequence[str], names: Sequence[str]
    ) -> LineRecords:
        there = [name for name in names if name in header]
        cells = CsvCells(tuple(header), self.delimiter, self.nulls)
        found, malformed = cells.read(lines, there)
        columns: dict[str, pa.Array] = {}
        for name in names:
            if name in found:
                columns[name], misfit = _typed(found[name], self.kind(name))
                malformed = malformed | misfit
            else:
                columns[name] = pa.nulls(len(lines), ARROW[self.kind(name)])
        absent = {name: np.full(len(lines), name not in found) for name in names}
        return LineRecords(columns, absent, malformed, rows)


def nothing_read(file: str, reader: LineReader, columns: Sequence[str], skipped: str) -> DataError:
    """The error for files none of whose lines is a record: why the first one of `file` is none, where that is known."""
    unlike = unlike_lines(file, reader.format)
    if unlike is not None:
        return unlike
    numbers = [name for name in columns if reader.kind(name) == "integer"]
    for some in replace(reader, kind=lambda _: "written").read(file, numbers):
        for name in numbers if len(some) and not some.malformed[0] else ():
            value = some.columns[name][0].as_py()
            if value is None or not re.fullmatch(_WHOLE, str(value)):
                hint = f"a column of whole numbers instead of {name}"
                return DataError.of(f"column {name!r} of {file} holds no whole numbers", got=value, hint=hint)
        break
    return DataError.of(f"{file} cannot be read", got=skipped, allowed=f"lines with {', '.join(columns)}")


def _typed(column: pa.Array, kind: FieldKind) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Cells as values of their column's kind, and which do not fit; an empty cell is not a number."""
    if kind in ("text", "written"):
        return column, np.zeros(len(column), bool)
    known = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if kind == "integer":
        fits = pc.match_substring_regex(known, _WHOLE).fill_null(True)
        bare = pc.if_else(fits, pc.utf8_ltrim(known, "+"), pa.scalar(None, pa.string()))
        try:
            numbers = bare.cast(pa.int64())
        except pa.ArrowInvalid:
            found = [None if one is None else int(one) for one in bare.to_pylist()]
            numbers = pa.array([one if one is None or one in _LONGS else None for one in found], pa.int64())
    else:
        numbers = _parsed(known, kind)
    misfit = pc.and_(known.is_valid(), numbers.is_null())
    return numbers, misfit.to_numpy(zero_copy_only=False)


def _parsed(column: pa.Array, kind: FieldKind) -> pa.Array:
    """Degrees and flags, one by one: few files have any."""
    out: list[Any] = []
    for text in column.to_pylist():
        try:
            out.append(None if text is None else float(text) if kind == "degrees" else _FLAGS[text.lower()])
        except (ValueError, KeyError):
            out.append(None)
    return pa.array(out, ARROW[kind])


_FLAGS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class CsvCells:
    """Lines of CSV -> cells of some columns as text, and which lines do not fit the header."""

    header: tuple[str, ...]
    delimiter: str
    nulls: tuple[str, ...]

    def read(self, lines: list[bytes], names: Sequence[str]) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
        """Arrow parses the lines with regular quotes; the others are parsed one by one."""
        text = b"\n".join(lines)
        if (b'"' in text or not _is_utf8(text)) and not all(map(self._is_regular, lines)):
            return self._mixed(lines, names)
        return self._at_once(text, len(lines), names)

    def _is_regular(self, line: bytes) -> bool:
        return _is_utf8(line) and (b'"' not in line or _regular(self.delimiter).fullmatch(line) is not None)

    def _mixed(self, lines: list[bytes], names: Sequence[str]) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
        regular = np.fromiter(map(self._is_regular, lines), bool, len(lines))
        malformed = np.zeros(len(lines), bool)
        most = [line for line, fits in zip(lines, regular, strict=True) if fits]
        found, bad = self._at_once(b"\n".join(most), len(most), names)
        malformed[regular] = bad
        others = [self._one(line) for line, fits in zip(lines, regular, strict=True) if not fits]
        malformed[~regular] = [one is None for one in others]
        columns = {}
        at = np.argsort(np.concatenate([np.flatnonzero(regular), np.flatnonzero(~regular)]), kind="stable")
        for name in names:
            place = self.header.index(name)
            odd = pa.array([None if one is None else one[place] for one in others], pa.string())
            columns[name] = pa.concat_arrays([found[name], odd]).take(pa.array(at))
        return columns, malformed

    def _one(self, line: bytes) -> list[str | None] | None:
        """The cells of a line with quotes in odd places, as Spark's parser has them; None where it is not a record."""
        if line.count(b'"') % 2 or not _is_utf8(line):
            return None
        cells = odd_cells(line.decode(), self.delimiter)
        if len(cells) != len(self.header):
            return None
        return [None if not quoted and cell in self.nulls else cell for cell, quoted in cells]

    def _at_once(self, text: bytes, lines: int, names: Sequence[str]) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
        from pyarrow import csv as arrow_csv

        wrong: list[int] = []

        def skip(row: Any) -> str:
            wrong.append(row.number)
            return "skip"

        malformed = np.zeros(lines, bool)
        if not lines:
            return {name: pa.array([], pa.string()) for name in names}, malformed
        convert: dict[str, Any] = {"column_types": dict.fromkeys(self.header, pa.string())}
        # With no column to convert Arrow reads none, and counts no lines.
        convert |= {"include_columns": list(names) or [self.header[0]], "check_utf8": False}
        if self.nulls:
            convert |= {
                "null_values": list(self.nulls),
                "strings_can_be_null": True,
                "quoted_strings_can_be_null": False,
            }
        table = arrow_csv.read_csv(
            pa.BufferReader(text),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=list(self.header)),
            arrow_csv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=skip),
            arrow_csv.ConvertOptions(**convert),
        )
        columns = {name: table.column(name).combine_chunks() for name in names}
        if wrong:
            malformed[np.array(wrong) - 1] = True
            at = pa.array(np.where(malformed, -1, np.cumsum(~malformed) - 1), mask=malformed)
            columns = {name: column.take(at) for name, column in columns.items()}
        return columns, malformed


@cache
def _regular(delimiter: str) -> re.Pattern[bytes]:
    sign = re.escape(delimiter).encode()
    cell = rb'(?:"(?:[^"]|"")*+"|[^"' + sign + rb"]*+)"
    return re.compile(cell + rb"(?:" + sign + cell + rb")*+")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True

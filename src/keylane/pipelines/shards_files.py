"""The files that `keylane shards` reads: text and CSV, and every way in which they cannot be read.

What is read from them: `pipelines.shards` and `cli.shards_keys`. What a layout is: `keyspace.layout`.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from keylane.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def text_in(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError.of("the file is not UTF-8", got=str(path)) from None
    except OSError as error:
        raise UnreadableError.of(f"the file cannot be read: {error.strerror}", got=str(path)) from error


def csv_rows(path: Path, needed: Sequence[str], allowed: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file by the names in its first line, each with its line; a cell that is missing is empty."""
    reader = csv.reader(io.StringIO(text_in(path), newline=""), strict=True)
    try:
        names = next(reader, [])
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise UsageError.of("a column is there twice", got=", ".join(twice), allowed=allowed)
        missing = [name for name in needed if name not in names]
        if missing:
            columns = f"no column{'s' if missing[1:] else ''} {' and '.join(missing)}"
            other = next((sign for sign in (";", "\t", "|") if len(names) == 1 and sign in names[0]), None)
            hint = f"columns are divided by commas, not by {other!r}" if other else ""
            raise UsageError.of(columns, got=", ".join(names) or "no line", allowed=allowed, hint=hint)
        for row in reader:
            if len(row) == len(names):
                yield reader.line_num, dict(zip(names, row, strict=True))
            elif row:
                yield reader.line_num, _row(names, row, reader.line_num)
    except csv.Error as error:
        raise UsageError.of(f"line {reader.line_num} is not CSV: {error}", got=str(path)) from None


def _row(names: Sequence[str], row: Sequence[str], line: int) -> dict[str, str]:
    if len(row) > len(names):
        raise UsageError.of(f"line {line} has more cells than the first line has names", got=", ".join(row[:20]))
    return dict.fromkeys(names, "") | dict(zip(names, row, strict=False))

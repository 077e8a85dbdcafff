"""The files that `keylane shards` reads: text and CSV, and every way in which they cannot be read.

What is read from them: `pipelines.shards` and `cli.shards_keys`. What a layout is: `keyspace.layout`.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from keylane.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def text_in(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError.of("the file is not UTF-8", got=str(path)) from None
    except OSError as error:
        raise UnreadableError.of(f"the file cannot be read: {error.strerror}", got=str(path)) from error


def csv_rows(path: Path, needed: Sequence[str], allowed: str) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file by the names in its first line, each with its line; a cell that is missing is empty."""
    reader = csv.reader(io.StringIO(text_in(path), newline=""))
    try:
        names = next(reader, [])
        missing = [name for name in needed if name not in names]
        if missing:
            columns = f"no column{'s' if missing[1:] else ''} {' and '.join(missing)}"
            raise UsageError.of(columns, got=", ".join(names) or "no line", allowed=allowed)
        return [
            (reader.line_num, dict.fromkeys(names, "") | dict(zip(names, row, strict=False))) for row in reader if row
        ]
    except csv.Error as error:
        raise UsageError.of(f"line {reader.line_num} is not CSV: {error}", got=str(path)) from None

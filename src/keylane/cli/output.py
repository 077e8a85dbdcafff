"""What a command returns, and the one printer that shows it as a table, JSON, JSON lines or CSV.

Results go to stdout and nothing else does. Colour only on a terminal. No text of a key or a file takes effect there
(`terminal`), nor in a spreadsheet that opens the CSV.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from keylane.cli.terminal import safe_json
from keylane.errors import visible

if TYPE_CHECKING:
    from keylane.documents.explain import ClientPlacement, Explained
    from keylane.documents.model import Document

FORMATS: Final = ("table", "json", "jsonl", "csv")


#: A part of a document, or what only a table shows.
Row: TypeAlias = "Mapping[str, Any] | Document | ClientPlacement"


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under one heading. The first section of a result is what `-o jsonl` and `-o csv` print."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found: the JSON document, the same as sections and lines, and how the process ends."""

    document: Document | Explained
    sections: list[Section] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exit_code: int = 0


def output_option(command: Any) -> Any:
    """Give a command its `-o`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print the result.",
    )(command)


def render(result: Result, output: str, *, terminal: bool = False) -> str:
    """The text of a result in one of the formats."""
    if output == "json":
        return safe_json(json.dumps(as_json(result.document), indent=2, ensure_ascii=False))
    if output == "jsonl":
        return "\n".join(safe_json(json.dumps(as_json(row), ensure_ascii=False)) for row in _first(result).rows)
    if output == "csv":
        text = _csv(_first(result))
        return visible(text, keep="\n") if terminal else text
    blocks = [_table(section, colour=terminal) for section in result.sections if section.rows]
    return "\n\n".join([*blocks, *(["\n".join(map(visible, result.lines))] if result.lines else [])])


def as_json(part: Row | Explained | Mapping[str, Any]) -> Mapping[str, Any]:
    """A document or a part of one as `json.dumps` takes it."""
    if isinstance(part, Mapping):
        return part
    # Not `isinstance`: `explain` has dataclasses, and prints without pydantic.
    return asdict(part) if is_dataclass(part) else part.as_json()


def _first(result: Result) -> Section:
    return result.sections[0] if result.sections else Section((), [])


def _csv(section: Section) -> str:
    rows = [{name: _neutral(_plain(value)) for name, value in as_json(row).items()} for row in section.rows]
    return "\n".join(_csv_line([row.get(name) for name in section.columns]) for row in [_heads(section), *rows])


def _heads(section: Section) -> dict[str, str]:
    return {name: name for name in section.columns}


def _csv_line(cells: Sequence[Any]) -> str:
    """Each line for itself: the writer quotes what its own end of line has in it, and a bare \\r ends a row as well."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue().removesuffix("\r\n")


def _table(section: Section, *, colour: bool) -> str:
    cells = [[_cell(row.get(name)) for name in section.columns] for row in map(as_json, section.rows)]
    heads = [visible(name.upper().replace("_", " ")) for name in section.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    head = "  ".join(text.ljust(width) for text, width in zip(heads, widths, strict=True)).rstrip()
    shown = click.style(head, bold=True) if colour else head
    return "\n".join([*([visible(section.title, keep="\n")] if section.title else []), shown, *lines])


def _plain(value: Any) -> Any:
    """A list as text; every other value as it is."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


#: What a spreadsheet takes for the start of a formula, also in its full width; and what it looks behind.
_FORMULA: Final = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _neutral(value: Any) -> Any:
    """A cell that no spreadsheet runs: text that would be a formula gets an apostrophe, which makes it text there.

    >>> [_neutral(value) for value in ("=1+1", "-5", -5, "-5+cmd|x")]
    ["'=1+1", '-5', -5, "'-5+cmd|x"]
    """
    if not isinstance(value, str) or _FORMULA.match(value) is None or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return visible(f"{value:.4g}" if isinstance(value, float) else str(_plain(value)))


# Files that a command writes beside its result: never over another unasked, which is said before the work.


def check_apart(*paths: str | None) -> None:
    """Refuse one file for two things."""
    given = [Path(path).absolute() for path in paths if path is not None]
    twice = next((path for path in given if given.count(path) > 1), None)
    if twice is not None:
        raise click.UsageError(f"{twice} cannot be two files; hint: another name for one of them")


def check_free(path: str | None, *, force: bool) -> None:
    """Refuse a file that is there, or that has no folder, before anything is read."""
    if path is None:
        return
    if Path(path).exists() and not force:
        raise click.UsageError(f"{path} is there already; hint: --force replaces it")
    if not Path(path).absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder for {path}")


def write(path: str | None, text: str) -> None:
    """Write a file, where one was asked for."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")

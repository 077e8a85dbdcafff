"""What a command returns, and the one printer that shows it as a table, JSON, JSON lines or CSV.

Results go to stdout and nothing else does. Colour only on a terminal.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

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


def render(result: Result, output: str, *, colour: bool = False) -> str:
    """The text of a result in one of the formats."""
    if output == "json":
        return json.dumps(as_json(result.document), indent=2, ensure_ascii=False)
    if output == "jsonl":
        return "\n".join(json.dumps(as_json(row), ensure_ascii=False) for row in _first(result).rows)
    if output == "csv":
        return _csv(_first(result))
    blocks = [_table(section, colour=colour) for section in result.sections if section.rows]
    return "\n\n".join([*blocks, *(["\n".join(map(_shown, result.lines))] if result.lines else [])])


def as_json(part: Row | Explained | Mapping[str, Any]) -> Mapping[str, Any]:
    """A document or a part of one as `json.dumps` takes it."""
    if isinstance(part, Mapping):
        return part
    # Not `isinstance`: `explain` has dataclasses, and prints without pydantic.
    return asdict(part) if is_dataclass(part) else part.as_json()


def _first(result: Result) -> Section:
    return result.sections[0] if result.sections else Section((), [])


def _csv(section: Section) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, section.columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in as_json(row).items()} for row in section.rows)
    return out.getvalue().rstrip("\n")


def _table(section: Section, *, colour: bool) -> str:
    cells = [[_cell(row.get(name)) for name in section.columns] for row in map(as_json, section.rows)]
    heads = [name.upper().replace("_", " ") for name in section.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    head = "  ".join(text.ljust(width) for text, width in zip(heads, widths, strict=True)).rstrip()
    shown = click.style(head, bold=True) if colour else head
    return "\n".join([*([section.title] if section.title else []), shown, *lines])


def _plain(value: Any) -> Any:
    """A list as text; every other value as it is."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return _shown(f"{value:.4g}" if isinstance(value, float) else str(_plain(value)))


def _shown(text: str) -> str:
    """Text from a file as a terminal may have it: control characters written out, so that none takes effect."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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

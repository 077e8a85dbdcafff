"""What a command returns, and the one printer that shows it: for people as tables, for programs as JSON and CSV.

    table   fits the terminal: long cells are wrapped, columns that have no room are named below; whole in a pipe
    wide    the same, never fitted
    md      Markdown, for a ticket
    json    the document; jsonl and csv: the rows of its first table

The answer first, then the evidence, then what to do next. Results go to stdout and nothing else does. Colour only on a
terminal. No text of a key or a file takes effect there (`terminal`), nor in a spreadsheet that opens the CSV. How
tables are laid out: `tables`; how numbers are written: `keylane.numbers`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from keylane.cli.options import checked
from keylane.cli.tables import Tone, fits, laid_out, markdown, styled, toned, wrapped
from keylane.cli.terminal import color_option, quiet_option, safe_json
from keylane.errors import visible
from keylane.formulas import guarded
from keylane.numbers import count
from keylane.systems.config import OUTPUTS

if TYPE_CHECKING:
    from keylane.documents.explain import ClientPlacement, Explained, ExplainedKeys
    from keylane.documents.model import Document
    from keylane.history.verdict import Outcome

#: Columns of numbers that name something: nobody reads lane 1023 as 1,023.
NAMES: Final = frozenset(
    {"lane", "partition", "port", "pid", "node", "broker", "line", "rank", "window", "offset", "position", "epoch"}
)

#: How a command ends that makes a certificate: anything less than certified is a proof that is missing.
CERTIFICATE_CODES: Final[dict[Outcome, int]] = {"certified": 0, "not proven": 4, "broken": 4}

#: A part of a document, or what only a table shows.
Row: TypeAlias = "Mapping[str, Any] | Document | ClientPlacement"
#: How a value is written.
Form: TypeAlias = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under one heading. The first section of a result is what `-o jsonl` and `-o csv` print.

    `forms` says how the values of a column are written in a table, as `{"share": numbers.share}`; without one, whole
    numbers have their thousands apart. `tones` says of a column which of its values are good news, and `heads` what a
    table calls it, where that is not its name.
    """

    columns: tuple[str, ...]
    rows: Sequence[Row]
    title: str = ""
    forms: Mapping[str, Form] = field(default_factory=dict)
    tones: Mapping[str, Callable[[Any], Tone | None]] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    #: Columns of names that are copied from a terminal: their words are never broken over lines.
    unbroken: tuple[str, ...] = ()
    #: Only for `-o jsonl` and `-o csv`.
    for_programs: bool = False
    #: How long names of a column are written on a terminal that is too narrow for them; `-o wide` has them whole.
    short: Mapping[str, Form] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found: the JSON document, the same for people, and how the process ends.

    `answer` stands before the tables and `lines` behind them; between the two a change of a file, as a unified `diff`.
    """

    document: Document | Explained | ExplainedKeys
    sections: list[Section] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exit_code: int = 0
    answer: list[str] = field(default_factory=list)
    diff: str = ""


_format_option: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUTS),
    default="table",
    show_default=True,
    help="How to print the result; wide: tables wider than the terminal, md: Markdown.",
)


def output_option(command: Any) -> Any:
    """Give a command `-o`, and the other options of what is shown; and have its values checked before it runs."""
    return _format_option(quiet_option(color_option(checked(command))))


def render(
    result: Result,
    output: str,
    *,
    terminal: bool = False,
    colour: bool | None = None,
    width: int | None = None,
    height: int | None = None,
) -> str:
    """The text of a result in one of the formats; for a terminal of `width` columns and `height` lines, or for a pipe.

    Where the answer would have scrolled off the screen, it is at the end once more.
    """
    if output == "json":
        return safe_json(json.dumps(as_json(result.document), indent=2, ensure_ascii=False))
    if output == "jsonl":
        return "\n".join(safe_json(json.dumps(as_json(row), ensure_ascii=False)) for row in _first(result).rows)
    if output == "csv":
        text = _csv(_first(result))
        return visible(text, keep="\n") if terminal else text
    colour = terminal if colour is None else colour
    width = width if terminal and output == "table" else None
    text = _blocks(result, output, colour=colour, width=width)
    # A line is left for the next prompt.
    if height is not None and terminal and output != "md" and text.count("\n") + 2 > height:
        text += f"\n\n{_text(result.answer, colour=colour, width=width)}" if result.answer else ""
    return text


def _blocks(result: Result, output: str, *, colour: bool, width: int | None) -> str:
    """Answer, tables and lines, with an empty line between them."""
    blocks = [_text(result.answer, colour=colour, width=width)]
    blocks += [
        _table(one, output, colour=colour, width=width) for one in result.sections if one.rows and not one.for_programs
    ]
    blocks.append(_changes(result.diff, output, colour=colour))
    blocks.append(_text(result.lines, colour=colour, width=width))
    return "\n\n".join(block for block in blocks if block)


def _text(lines: Sequence[str], *, colour: bool, width: int | None) -> str:
    folded = [part for line in lines for part in wrapped(visible(line), width)]
    return "\n".join(map(toned, folded) if colour else folded)


def _changes(diff: str, output: str, *, colour: bool) -> str:
    """A diff, line by line as it is: what goes in red, what comes in green."""
    lines = [visible(line.removesuffix("\r")) for line in diff.split("\n")[:-1]]
    if output == "md" and lines:
        return "\n".join(["```diff", *lines, "```"])
    return "\n".join(map(_changed, lines) if colour else lines)


def _changed(line: str) -> str:
    if line.startswith(("+++", "---")):
        return click.style(line, bold=True)
    if line.startswith("@@"):
        return click.style(line, fg="cyan")
    return styled(line, "good") if line.startswith("+") else styled(line, "bad") if line.startswith("-") else line


def as_json(part: Row | Explained | ExplainedKeys | Mapping[str, Any]) -> Mapping[str, Any]:
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


def _table(section: Section, output: str, *, colour: bool, width: int | None) -> str:
    values = [[row.get(name) for name in section.columns] for row in map(as_json, section.rows)]
    forms: list[Form] = [section.forms.get(name, str if name in NAMES else _cell) for name in section.columns]
    cells = [
        ["-" if value is None else visible(form(value)) for value, form in zip(row, forms, strict=True)]
        for row in values
    ]
    heads = [visible(section.heads.get(name, name).upper().replace("_", " ")) for name in section.columns]
    title = visible(section.title, keep="\n")
    if output == "md":
        return "\n".join([*([f"**{title}**", ""] if title else []), *markdown(heads, cells)])
    tones = None
    if colour:
        judges = [section.tones.get(name) for name in section.columns]
        tones = [[judge(value) if judge else None for value, judge in zip(row, judges, strict=True)] for row in values]
    numeric = [_is_numeric([row[i] for row in values]) for i in range(len(heads))]
    unbroken = [name in section.unbroken for name in section.columns]
    if width is not None and section.short and not fits(heads, cells, width):
        for n, name in enumerate(section.columns):
            if name in section.short:
                written = ["-" if row[n] is None else visible(section.short[name](row[n])) for row in values]
                cells = [[*row[:n], text, *row[n + 1 :]] for row, text in zip(cells, written, strict=True)]
        title = f"{title.removesuffix(':')} (-o wide shows ids and hash keys in full):" if title else title
    lines = laid_out(heads, cells, numeric=numeric, unbroken=unbroken, width=width, colour=colour, tones=tones)
    titles = [part for line in title.split("\n") for part in wrapped(line, width)] if title else []
    return "\n".join([*titles, *lines])


def _is_numeric(values: Sequence[Any]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, int | float) for value in there)


def _neutral(value: Any) -> Any:
    return guarded(value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """A list as text; every other value as it is."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{count(value)}"
    return f"{value:.4g}" if isinstance(value, float) else str(_plain(value))


# Files that a command writes beside its result: never over another unasked, which is refused before the work.


def check_apart(*paths: str | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse one file for two things; `inputs` may be the same among themselves, and a folder has its files too."""
    given = [Path(path).resolve() for path in paths if path is not None]
    read = {Path(path).resolve() for path in inputs if path is not None}
    twice = next((path for path in given if given.count(path) > 1 or not read.isdisjoint((path, *path.parents))), None)
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


def write(path: str | None, text: str, *, private: bool = False) -> None:
    """Write a file, where one was asked for: whole, or not at all; a private one for its owner alone."""
    if path is not None:
        from keylane.systems.atomic import write_text

        write_text(Path(path), text, private=private)

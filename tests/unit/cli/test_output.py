from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from keylane.cli import output
from keylane.cli.output import Result, Section, render
from keylane.documents.model import Document
from keylane.systems.config import OUTPUTS

ROWS: list[dict[str, Any]] = [
    {"name": "a", "n": 1, "list": ["x", "y"], "more": 0},
    {"name": None, "n": 0.123456, "list": [], "more": 1},
]


class Found(Document):
    """A small document."""

    key: str = "Zoë"
    n: int | None = None


RESULT = Result(Found(), [Section(("name", "n", "list"), ROWS), Section(("x",), [{"x": 1}], "Then:")], ["end"])


def test_a_table_shows_sections_and_lines() -> None:
    assert render(RESULT, "table").splitlines() == [
        "NAME       N  LIST",
        "a          1  x, y",
        "-     0.1235",
        "",
        "Then:",
        "X",
        "1",
        "",
        "end",
    ]


def test_only_the_head_is_bold_and_only_on_a_terminal() -> None:
    plain, bold = render(RESULT, "table"), render(RESULT, "table", terminal=True)
    assert "\x1b" not in plain
    assert bold.replace("\x1b[1m", "").replace("\x1b[0m", "") == plain
    assert bold.count("\x1b[1m") == 2


def test_json_is_the_document() -> None:
    assert json.loads(render(Result(Found()), "json")) == {"key": "Zoë", "n": None}
    assert "Zoë" in render(Result(Found()), "json")


def test_json_lines_are_the_rows_of_the_first_section() -> None:
    assert [json.loads(line) for line in render(RESULT, "jsonl").splitlines()] == ROWS


def test_csv_is_the_columns_of_the_first_section() -> None:
    assert render(RESULT, "csv").splitlines()[0] == "name,n,list"
    assert render(RESULT, "csv").splitlines()[1] in ('a,1,"x, y"', "a,1,x y", "a,1,x;y", "a,1,x|y")


def test_csv_quotes_what_needs_it() -> None:
    odd = Result(Found(), [Section(("k",), [{"k": 'say "hi", \nthere'}])])
    assert render(odd, "csv") == 'k\n"say ""hi"", \nthere"'


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_result_without_sections_is_printed(output: str) -> None:
    assert isinstance(render(Result(Found()), output), str)


def test_an_empty_section_is_no_table() -> None:
    assert render(Result(Found(), [Section(("a",), [])], ["ok"]), "table") == "ok"


HALF = re.compile(r"\.write_(?:text|bytes)\(|\bopen\([^)]*[\"'][wax]")


def test_every_file_of_a_command_is_written_whole_or_not_at_all() -> None:
    """By `output.write` or `systems.atomic`: an interrupt in the middle leaves no half file."""
    modules = sorted(Path(output.__file__).parent.glob("*.py"))
    assert [path.name for path in modules if HALF.search(path.read_text(encoding="utf-8"))] == []
    assert all(HALF.search(twin) for twin in ('(to / PAGE).write_text("x")', 'open(path, "w")'))


DIFF = "--- a/c.yaml\n+++ b/c.yaml\n@@ -1,2 +1,2 @@\n same\n-old\x1b[31m\n+new\n"


def test_a_diff_is_shown_line_by_line_in_the_colours_of_a_diff() -> None:
    result = Result(Found(), lines=["after it"], diff=DIFF)
    plain = render(result, "table")
    assert plain.splitlines() == [*DIFF.replace("\x1b", "\\x1b").splitlines(), "", "after it"]
    coloured = render(result, "table", terminal=True, width=20)
    assert "\x1b[31m-old\\x1b[31m\x1b[0m" in coloured, "what goes is red, and no text takes effect"
    assert "\x1b[32m+new\x1b[0m" in coloured
    assert render(result, "md").splitlines()[0] == "```diff"

"""The help of every command fits a terminal, and its examples are what they were when a shell has read them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
import pytest
from tests.worlds.face import declaration

from keylane.cli.help_text import HelpText, folded

if TYPE_CHECKING:
    from collections.abc import Iterator


def commands(found: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield names, found
    if isinstance(found, click.Group):
        context = click.Context(found)
        for name in found.list_commands(context):
            inner = found.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*names, name))


ALL = list(commands(declaration()))


def examples(text: str) -> list[list[str]]:
    """The commands that stand alone in their lines, as a shell reads them."""
    joined = text.replace(" \\\n", " ")
    return [line.split() for line in joined.split("\n") if line.startswith("  keylane ")]


def helped(names: tuple[str, ...], found: click.Command, width: int) -> str:
    context = click.Context(found, info_name=" ".join(("keylane", *names)), terminal_width=width, max_content_width=110)
    return found.get_help(context)


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(("names", "found"), ALL, ids=[" ".join(names) or "keylane" for names, _ in ALL])
def test_no_example_is_longer_than_the_terminal(names: tuple[str, ...], found: click.Command, width: int) -> None:
    text = helped(names, found, width)
    for line in text.split("\n"):
        if len(line) > width and line.startswith("  keylane "):
            raise AssertionError(line)
    if "  keylane " in text:
        for line in text.split("\n"):
            quotes = line.count("'") if line.startswith("  keylane ") else 0
            assert quotes % 2 == 0, f"broken within a word: {line}"


@pytest.mark.parametrize(("names", "found"), ALL, ids=[" ".join(names) or "keylane" for names, _ in ALL])
def test_a_shell_reads_the_same_commands(names: tuple[str, ...], found: click.Command) -> None:
    def read(width: int) -> list[list[str]]:
        # What is said of a command comes after it, or in the next line.
        return [words for words in examples(helped(names, found, width)) if not any("(" in word for word in words)]

    for narrow, wide in zip(read(60), read(5_000), strict=True):
        assert wide[: len(narrow)] == narrow


def test_an_option_stays_with_its_value_and_a_quoted_word_is_one() -> None:
    line = "  keylane profile trips.csv --time 'at:%d/%m/%Y %H:%M:%S' --key \"my key\" --windows 12"
    for width in range(40, 90):
        rows = folded(line, width)
        assert shlex.split(" ".join(row.removesuffix("\\") for row in rows)) == shlex.split(line)
        assert not any(row.rstrip(" \\").endswith(("--time", "--key", "--windows")) for row in rows)


def test_other_lines_are_left_to_click() -> None:
    form = HelpText(width=60)
    form.write_text("keylane " + "word " * 40)
    assert max(map(len, form.getvalue().split("\n"))) <= 60
    assert folded("  no command at all, and far too long for so few columns", 20) == [
        "  no command at all, and far too long for so few columns"
    ]

"""How `--help` is laid out: an example that is longer than the terminal goes on in the next line, as a shell reads it.

What the text is: the docstring of each command. Tables and sentences of an answer: `tables`.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

import click

#: A word of a command: what is in quotes is one.
_WORDS: Final = re.compile(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+")
#: A command that stands alone in its line, and what it does, after two spaces or more.
_EXAMPLE: Final = re.compile(
    r"(?P<indent> +)(?P<command>(?:keylane|eval|export|kafka-[a-z-]+\.sh) \S.*?)(?P<about>  +\S.*)?"
)
_SET_IN: Final = "    "


class HelpText(click.HelpFormatter):
    """As click's own, but for long examples: those it leaves as they are, and the terminal breaks them anywhere."""

    def write(self, string: str) -> None:
        """Some lines."""
        parts = [part for line in string.split("\n") for part in folded(line, self.width)]
        super().write("\n".join(parts))


def folded(line: str, width: int) -> list[str]:
    """An example over as many lines as it needs, none of which breaks a word, or parts an option from its value.

    >>> folded("  keylane check a.yaml --data payments.csv --key 'my key'", 42)
    ['  keylane check a.yaml \\\\', "      --data payments.csv --key 'my key'"]
    """
    example = _EXAMPLE.fullmatch(line) if len(line) > width else None
    if example is None:
        return [line]
    indent = example["indent"]
    rows, more = [f"{indent}"], ""
    for part in _parts(example["command"]):
        row = f"{rows[-1]}{more}{part}"
        if more and len(row) > width - len(" \\"):
            rows[-1] += " \\"
            row = f"{indent}{_SET_IN}{part}"
            rows.append("")
        rows[-1], more = row, " "
    about = (example["about"] or "").strip()
    return [*rows, *textwrap.wrap(about, width, initial_indent=indent + _SET_IN, subsequent_indent=indent + _SET_IN)]


def _parts(command: str) -> list[str]:
    """Words that stay together: an option with its value."""
    parts: list[str] = []
    for word in _WORDS.findall(command):
        last = parts[-1] if parts else ""
        if last.startswith("-") and " " not in last and "=" not in last and not word.startswith("-"):
            parts[-1] = f"{last} {word}"
        else:
            parts.append(word)
    return parts

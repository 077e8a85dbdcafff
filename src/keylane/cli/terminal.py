"""The one way to a terminal: text of files, keys, topics and other programs takes no effect there.

A terminal obeys what it is sent: a file name may hold a sequence that renames the window, hides a line or writes
another over it, and a character that turns the direction of text makes one name look like another. So
everything that is printed passes `visible`, which writes such characters out. Results on stdout: `output`; the
line of a running command: `progress`.
"""

from __future__ import annotations

import io
import re
import sys
from typing import Final, TextIO

import click

from keylane.errors import visible

#: Over the line that is there.
_AGAIN: Final = "\r\x1b[K"
_LAYOUT: Final = "\n\t"


def say(text: str, *, nl: bool = True) -> None:
    """Print to stderr."""
    click.echo(visible(text, keep=_LAYOUT), nl=nl, err=True)


def overwrite(text: str = "") -> None:
    """Put a text in place of the last line of stderr, a terminal."""
    click.echo(f"{_AGAIN}{visible(text)}", nl=False, file=_unguarded(sys.stderr))


def safe_json(text: str) -> str:
    r"""A JSON text with every character that a terminal could obey written as an escape: the same document.

    >>> safe_json('["\x9b1m"]')
    '["\\u009b1m"]'
    """
    return re.sub(r"[^\x20-\x7e\n]", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


class GuardedStream(io.TextIOBase):
    """A stream for what others print: warnings of Python, Java's output, a traceback."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # noqa: D102  the stream's own
        return self.unguarded.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]  # noqa: D102
        return self.unguarded.errors

    def write(self, text: str) -> int:  # noqa: D102
        self.unguarded.write(visible(text, keep=_LAYOUT))
        return len(text)

    def flush(self) -> None:  # noqa: D102
        self.unguarded.flush()

    def isatty(self) -> bool:  # noqa: D102
        return self.unguarded.isatty()

    def fileno(self) -> int:  # noqa: D102
        return self.unguarded.fileno()

    def writable(self) -> bool:  # noqa: D102
        return True


def _unguarded(stream: TextIO) -> TextIO:
    return getattr(stream, "unguarded", stream)

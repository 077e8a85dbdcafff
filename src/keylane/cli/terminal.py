"""The one way to a terminal: colour and quiet, the line of a running command, and text that takes no effect there.

A terminal obeys what it is sent: a file name may hold a sequence that renames the window, hides a line or writes
another over it, and a character that turns the direction of text makes one name look like another. So
everything that is printed passes `visible`, which writes such characters out. Results on stdout: `output`; what the
line of a running command says: `progress`; Ctrl-C: `interrupts`.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from keylane.errors import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Over the line that is there.
_AGAIN: Final = "\r\x1b[K"
_LAYOUT: Final = "\n\t"


# What was asked for on the command line: of the process, because a library's warning and a thread's line follow it too.


@dataclass(slots=True)
class Shown:
    """Whether anything but results and errors is shown, whether in colour, and whether errors say where they arose.

    `output` is the configured form of results, which errors follow where a command line names none.
    """

    quiet: bool = False
    color: str = "auto"
    verbose: bool = False
    output: str | None = None


shown: Final = Shown()


def _ask(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def asked(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        # Not the default: `keylane --quiet route` sets it before the options of `route` are read.
        if context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.DEFAULT:
            setattr(shown, name, value)

    return asked


quiet_option: Final = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_ask("quiet"),
    help="No progress and no notes: results and errors only.",
)
color_option: Final = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    expose_value=False,
    callback=_ask("color"),
    help="Colour; default: on a terminal, unless NO_COLOR is set.",
)
verbose_option: Final = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    expose_value=False,
    callback=_ask("verbose"),
    help="With an error that is a bug, show where in the code it arose.",
)


def colours(stream: TextIO) -> bool:
    """Whether a stream gets colours: as asked for, otherwise where it is a terminal that has them and wants them."""
    if shown.color != "auto":
        return shown.color == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int | None:
    """How many columns a terminal has; None for a pipe."""
    return shutil.get_terminal_size((80, 24)).columns if stream.isatty() else None


def height_of(stream: TextIO) -> int | None:
    """How many lines a terminal has; None for a pipe, and for a terminal that does not say."""
    return (shutil.get_terminal_size((80, 0)).lines or None) if stream.isatty() else None


def say(text: str, *, nl: bool = True) -> None:
    """Print to stderr, whether or not anybody asked for quiet: errors, and what must not be missed."""
    from keylane.cli.tables import wrapped

    width = width_of(sys.stderr)
    safe = "\n".join(part for one in visible(text, keep=_LAYOUT).split("\n") for part in wrapped(one, width))
    with line.aside():
        click.echo(safe, nl=nl, file=_unguarded(sys.stderr))


def note(text: str) -> None:
    """Print to stderr, unless quiet was asked for."""
    if not shown.quiet:
        say(text)


def fail(text: str) -> None:
    """Print an error to stderr; its first word is red on a terminal."""
    line.end()
    safe = visible(f"error: {text}", keep=_LAYOUT)
    if colours(sys.stderr):
        head, mark, rest = safe.partition(":")
        click.echo(click.style(head, fg="red", bold=True) + mark + rest, file=_unguarded(sys.stderr), color=True)
    else:
        click.echo(safe, file=_unguarded(sys.stderr))


# The line of a running command: one for the process, drawn over and over at the bottom of stderr.

#: A command that is done sooner shows none.
PATIENCE: Final = 0.4
_BEAT: Final = 0.25


class LiveLine:
    """One line on a terminal's stderr that says what is going on and for how long; nothing elsewhere.

    It is drawn by a thread of its own, so it moves while Java starts or a broker does not answer. Whoever else prints
    takes it away first.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._text: Callable[[float], str] | None = None
        self._since = 0.0
        self._drawn = self._stopped = False
        self._thread: threading.Thread | None = None

    @property
    def watched(self) -> bool:
        """Whether there is a terminal to draw it on, and nobody asked for quiet."""
        return not shown.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def begin(self, text: Callable[[float], str]) -> None:
        """Show what this gives, from now on; it gets the seconds since now."""
        with self._lock:
            self._text, self._since = text, time.monotonic()
            if self._thread is None and self.watched:
                self._thread = threading.Thread(target=self._draw_on, name="keylane-line", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Show nothing any more."""
        with self._lock:
            self._text = None
            self.step_aside()

    def stop(self) -> None:
        """Draw nothing any more, whatever is reported; takes no lock, because it is called from a signal handler."""
        self._stopped = True

    def step_aside(self) -> None:
        """Leave the terminal's line to somebody else, for now."""
        with self._lock:
            if self._drawn:
                overwrite()
                self._drawn = False

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the terminal's line to somebody else for as long as this is open: nothing is drawn meanwhile."""
        with self._lock:
            self.step_aside()
            yield

    def draw(self) -> None:
        """Draw it now."""
        with self._lock:
            text, since = self._text, self._since
        if text is None or not self.watched:
            return
        # Not under the lock: it may ask Java, which may not answer, and whoever prints waits for the lock.
        shown_text = visible(text(time.monotonic() - since))
        with self._lock:
            if shown_text and self._text is text and not self._stopped:
                overwrite(shown_text[: (width_of(sys.stderr) or 80) - 1])
                self._drawn = True

    def _draw_on(self) -> None:
        time.sleep(PATIENCE)
        while True:
            # A line that cannot be made or drawn is left out: it must not end the command, nor print over it.
            with suppress(Exception):
                self.draw()
            time.sleep(_BEAT)


line: Final = LiveLine()


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
        #: After Ctrl-C what others still have to say is of no use to anybody.
        self.muted = False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        """The stream's own."""
        return self.unguarded.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]  # typeshed has an attribute
        """The stream's own."""
        return self.unguarded.errors

    def write(self, text: str) -> int:
        """Print without control characters; nothing once the stream is muted."""
        if not self.muted:
            with line.aside():
                self.unguarded.write(visible(text, keep=_LAYOUT))
        return len(text)

    def flush(self) -> None:
        """The stream's own."""
        self.unguarded.flush()

    def isatty(self) -> bool:
        """The stream's own."""
        return self.unguarded.isatty()

    def fileno(self) -> int:
        """The stream's own."""
        return self.unguarded.fileno()

    def writable(self) -> bool:
        """Always."""
        return True


def _unguarded(stream: TextIO) -> TextIO:
    return getattr(stream, "unguarded", stream)

"""The public face of keylane as the oracles touch it: a command line in this process, and a public function by name.

The one module of `tests/worlds` that imports keylane: where a name or a keyword changes, the change is here. What is
made up to be run: the other modules of this folder, which know nothing of keylane.
"""

from __future__ import annotations

import io
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import keylane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command line did: how it ended, and what it wrote."""

    code: int
    out: str
    err: str


def run(words: Sequence[str], *, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Ran:
    """Run `keylane WORDS` in this process, in a folder; exits and errors end as they do for a user."""
    from keylane.cli.failures import fail
    from keylane.cli.main import _run

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["keylane", *words]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        mock.patch.dict("os.environ", environ or {}),
        chdir(folder or Path.cwd()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            code = _run()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except Exception as error:  # noqa: BLE001  as the entry point does
            code = fail(error)
    return Ran(code, *(one.buffer.getvalue().decode("utf-8", "surrogateescape") for one in (out, err)))


def call(name: str, *given: Any, **named: Any) -> Any:
    """A public function of the package, by its name."""
    return getattr(keylane, name)(*given, **named)


def declaration() -> Any:
    """The root of the command line, as click has it."""
    from keylane.cli.main import cli

    return cli

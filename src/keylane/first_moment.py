"""Ctrl-C from the first moment of the `keylane` command: one line, exit code 130, no traceback of Python's imports.

`keylane/__init__` imports this before everything else; `cli.interrupts` takes the signal over when it is loaded. Until
then there is nothing to undo. What comes before, the start of Python itself, is not ours.
"""

from __future__ import annotations

# Part of the interpreter, so there at once: what `signal` imports takes longer than all that is here.
import _signal  # type: ignore[import-not-found]  # typeshed has `signal` only
import sys

__all__ = ["end_on_ctrl_c"]


def end_on_ctrl_c() -> None:
    """Take the signal, unless somebody else has it or the command was started in the background."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _leave)


def _leave(*_: object) -> None:
    import os

    os.write(2, b"interrupted\n")
    os._exit(130)


def _is_command(started: str, given: list[str]) -> bool:
    """Whether this process is the `keylane` command: a program that imports the library has signals of its own.

    While Python looks for the module of `-m`, the first argument is `-m` itself.

    >>> _is_command("-m", ["python", "-m", "keylane", "plan"]), _is_command("/usr/bin/keylane", [])
    (True, True)
    >>> _is_command("-m", ["python", "-m", "pytest", "keylane"]), _is_command("/srv/job.py", ["python", "job.py"])
    (False, False)
    """
    if started == "-m":
        return "-m" in given and given[given.index("-m") + 1 :][:1] == ["keylane"]
    return started.replace("\\", "/").rpartition("/")[2] in {"keylane", "keylane.exe"}


# A Python that is embedded in another program may have no arguments.
if _is_command((getattr(sys, "argv", None) or [""])[0], sys.orig_argv):
    end_on_ctrl_c()

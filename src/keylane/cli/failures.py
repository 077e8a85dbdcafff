"""Errors in one voice: click's, keylane's and the system's, as a line for people or as JSON for programs.

`error: what is wrong: got …; allowed: …; hint: …` on stderr; with `-o json` or `-o jsonl` one line of JSON instead,
`{"schema": "keylane.error/1", …}`. No traceback reaches a terminal: a bug is one line too, and `-v` shows where it is.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

import click
from click.exceptions import NoArgsIsHelpError

from keylane.cli import terminal
from keylane.cli.tables import wrapped
from keylane.errors import KeylaneError, did_you_mean
from keylane.numbers import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA: Final = "keylane.error/1"
#: Names of options for one thing. The first that a command has is what is meant by any other of its group.
SAME: Final = (
    ("--write", "--out", "--contract-out", "--save"),
    ("--report", "--html", "--page"),
    ("--lanes", "--partitions", "--shards"),
    ("--key", "--column", "--field", "--keys"),
    ("--from", "--source", "--input", "--in"),
    ("--to", "--target", "--out", "--dest"),
    ("--broker", "--brokers", "--bootstrap", "--bootstrap-server"),
    ("--kafka-file", "--config", "--properties"),
    ("--show-keys", "--unmask", "--no-mask"),
    ("--force", "--overwrite", "--replace"),
    ("--delimiter", "--sep", "--separator"),
    ("--output", "--format", "--json"),
    ("--format", "--kind", "--type"),
    ("--follow", "--watch", "--stream"),
    ("--max-records", "--limit", "--head", "--sample"),
    ("--dir", "--folder", "--to"),
    ("--topic", "--name", "--stream"),
)
#: How alike two names are of which one is a slip of the other: `--html` is no slip of `--time`.
NEAR: Final = 0.75


def fail(error: Exception, arguments: list[str] | None = None) -> int:
    """Print an error in the form that was asked for; the exit code."""
    if isinstance(error, BrokenPipeError):
        # The reader left, as `| head` does: not our failure, and stdout must not be flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, NoArgsIsHelpError):
        terminal.say(error.ctx.get_help() if error.ctx else str(error))
        return 2
    document = as_document(error)
    if is_for_programs(sys.argv[1:] if arguments is None else arguments):
        terminal.say(terminal.safe_json(json.dumps(document, ensure_ascii=False)))
    else:
        terminal.fail(for_people(document["message"], terminal.width_of(sys.stderr)))
    if terminal.shown.verbose and not isinstance(error, KeylaneError | click.ClickException):
        terminal.say("".join(traceback.format_exception(error)), nl=False)
    return int(document["exit_code"])


def for_people(message: str, width: int | None) -> str:
    """A message that is wider than the terminal: what is allowed and the hint on lines of their own.

    >>> print(for_people("no such file: got 'a.yaml'; allowed: a file; hint: did you mean 'b.yaml'?", 40))
    no such file: got 'a.yaml'
      allowed: a file
      hint: did you mean 'b.yaml'?
    """
    if width is None or len(f"error: {message}") <= width:
        return message
    first, *more = re.split(r"; (?=(?:allowed|hint): )", message)
    # The first line begins with a word that is not in the message.
    lines = [part.removeprefix("error: ") for part in wrapped(f"error: {first}", width)]
    return "\n".join([*lines, *(part for one in more for part in wrapped(f"  {one}", width))])


def is_for_programs(arguments: list[str]) -> bool:
    """Whether results are asked for as JSON; read here, because a wrong command line may be the error.

    >>> [is_for_programs(line.split()) for line in ("check c -o json", "check -ojsonl c", "check c --output=json", "c")]
    [True, True, True, False]
    """
    given = re.search(r"(?:^| )(?:-o|--output)[ =]?([a-z]+)(?: |$)", " ".join(arguments))
    return (given[1] if given else terminal.shown.output) in {"json", "jsonl"}


def as_document(error: Exception) -> dict[str, Any]:
    """An error as programs read it."""
    if isinstance(error, click.ClickException):
        return _document("UsageError", usage(error), error.exit_code)
    if isinstance(error, KeylaneError):
        return _document(type(error).__name__, str(error), error.exit_code)
    if isinstance(error, OSError) and error.strerror:
        named = f": {error.filename}" if error.filename is not None else ""
        return _document("OSError", f"{error.strerror[0].lower()}{error.strerror[1:]}{named}", 1)
    hint = "this is a bug of keylane: please report it, with what `keylane -v` adds"
    return _document("Bug", f"{type(error).__name__}: {error}; hint: {hint}", 1)


def _document(kind: str, message: str, code: int) -> dict[str, Any]:
    hint = message.rpartition("hint: ")[2] if "hint: " in message else None
    return {"schema": SCHEMA, "error": kind, "message": message, "hint": hint, "exit_code": code}


def usage(error: click.ClickException) -> str:
    """What click found wrong with a command line, as keylane would say it."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "keylane"
    help_ = f"{command} --help"
    if isinstance(error, click.NoSuchOption):
        params = context.command.params if context else []
        known = [name for one in params if isinstance(one, click.Option) for name in one.opts]
        near = meant(error.option_name, known)
        if error.option_name == "--lanes" and "--max-records" in known and "--lanes" not in known:
            near = "keys are counted for any number of lanes: --contract FILE has it, and plan takes --lanes."
        is_argument = any(isinstance(one, click.Argument) and f"--{one.name}" == error.option_name for one in params)
        if is_argument and not longer_than(error.option_name, known):
            near = f"it is an argument here: leave out {error.option_name}."
        return f"no such option: got {error.option_name!r}; hint: {f'{near} ' if near else ''}{help_} lists them"
    if isinstance(error, click.MissingParameter):
        return _missing(error, help_)
    if isinstance(error, click.BadParameter):
        return _bad(error)
    message = _lowered(error.format_message()).removesuffix(".")
    return message if "hint: " in message else f"{message}; hint: {help_}"


def meant(given: str, known: Sequence[str]) -> str:
    """The option that was meant: one that other commands, or other tools, call by this name, or one spelled alike.

    >>> meant("--out", ["--output", "--write"]), meant("--html", ["--time", "--report"])
    ("did you mean '--write'?", "did you mean '--report'?")
    >>> meant("--laness", ["--lanes"]), meant("--html", ["--time"])
    ("did you mean '--lanes'?", '')
    """
    same = [name for group in SAME if given in group for name in group if name in known]
    same = [*longer_than(given, known), *same]
    near = [name for name in known if SequenceMatcher(None, given, name).ratio() >= NEAR]
    return f"did you mean {same[0]!r}?" if same else did_you_mean(given, near)


def longer_than(given: str, known: Sequence[str]) -> list[str]:
    """The options that a given one is the first words of.

    >>> longer_than("--keys", ["--keys-from", "--keyspace"])
    ['--keys-from']
    """
    return [name for name in known if name.startswith(f"{given}-")]


def _bad(error: click.BadParameter) -> str:
    wanted = error.param.type if error.param else None
    found = re.fullmatch(r"'(.*)' is not one of '.*", error.message, re.DOTALL)
    if found and isinstance(wanted, click.Choice):
        known = [str(one) for one in wanted.choices]
        near = did_you_mean(found[1], known)
        return f"{_name(error)}: got {found[1]!r}; allowed: {', '.join(known)}" + (f"; hint: {near}" if near else "")
    number = re.fullmatch(r"'(.*)' is not a valid (integer|float)( range)?\.", error.message, re.DOTALL)
    if number:
        whole = "a whole number" if number[2] == "integer" else "a number"
        return f"{_name(error)}: got {number[1]!r}; allowed: {whole}{_bounds(wanted)}"
    return f"{_name(error)}: {_lowered(error.message).removesuffix('.')}"


def _bounds(wanted: object) -> str:
    """The bounds of an option that takes a number, where it has any."""
    low, high = getattr(wanted, "min", None), getattr(wanted, "max", None)
    if low is not None and high is not None:
        return f" from {amount(low)} to {amount(high)}"
    return f" of at least {amount(low)}" if low is not None else ""


def _missing(error: click.MissingParameter, help_: str) -> str:
    kind = "argument" if isinstance(error.param, click.Argument) else "option"
    wanted = error.param.type if error.param else None
    allowed = f"; allowed: {', '.join(map(str, wanted.choices))}" if isinstance(wanted, click.Choice) else ""
    return f"missing {kind} {_name(error)}{allowed}; hint: {help_}"


def _name(error: click.BadParameter) -> str:
    hint = error.param_hint
    if hint:
        return hint if isinstance(hint, str) else " / ".join(hint)
    if isinstance(error.param, click.Option):
        return max(error.param.opts, key=len)
    return (error.param.make_metavar(error.ctx) if error.param and error.ctx else "") or "argument"


def _lowered(message: str) -> str:
    """A sentence of click's as the beginning of one of ours: `KEY is needed` stays."""
    return message[0].lower() + message[1:] if message[1:2].islower() and not message[0].isdigit() else message

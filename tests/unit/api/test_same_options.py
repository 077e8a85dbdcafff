"""A verb takes what its command takes: every option of the command line is an argument of the function, and back."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import click
import pytest

import keylane
from keylane import ReadRange, StreamOptions
from keylane.api import verbs
from keylane.cli.main import cli
from keylane.errors import ArgumentError
from keylane.pipelines.match.options import Columns

if TYPE_CHECKING:
    from collections.abc import Callable

#: Options that say how a stream is read, by the field of `StreamOptions` or `ReadRange` that they set.
OF_STREAMS: Final = {
    "--kafka": "properties",
    "--kafka-file": "properties",
    "--spark-jars": "jars",
    "--spark-packages": "packages",
    "--retry-for": "try_seconds",
    "--last": "since",
}
#: Names that Python has for itself, and names that are clearer where there is no dash in front.
NAMED: Final = {"--format": "kind", "--bytes": "size", "--for": "seconds", "--with": "joined_with", "--to": "target"}
#: What only a terminal needs: the form of what is printed, pages, and files that a document replaces.
TERMINAL: Final = {"--output", "--report", "--quiet", "--color"}
#: For each verb, options that are something else in Python, with what.
ELSEWHERE: Final[dict[str, dict[str, str]]] = {
    "check": {},
    "dry_run": {"--from": "source"},
    "explain": {
        "--field": "key: a record",
        "--null": "key: None",
        "--keys-from": "one call for each key",
        "--all": "the document has every partitioner",
    },
    "find": {"--from": "source", "--field": "key: a record"},
    "identify": {"--write": "init", "--force": "init"},
    "init": {"--write": "out, by its other name"},
    "match": {
        "--from": "co_partitioned",
        "--scale": "scale of Columns",
        "--available": "available of Columns",
        **{f"--{name}": f"{name} of Columns" for name in ("id", "time-column", "lat", "lng")},
        **{
            f"--{side}-{name}": f"{name} of Columns"
            for side in ("driver", "rider")
            for name in ("id", "time", "lat", "lng", "scale")
        },
        "--force": "of --report",
    },
    "plan": {
        "--write": "contract of the document",
        "--out": "the command's own file, for keylane apply",
        "--explain": "the document has the reasons",
        "--force": "of files",
    },
    "profile": {},
    "route": {"--from": "source", "--dry-run": "dry_run"},
    "verify": {},
}
#: Arguments that a command line has no use for, or has as an argument of its own.
PYTHON_ONLY: Final = {"options", "spark", "progress", "stop", "key", "keys", "source", "target", "drivers", "riders"}
PYTHON_ONLY_OF: Final[dict[str, set[str]]] = {
    "check": {"given"},
    "dry_run": {"contract"},
    "init": {"data", "out"},
    "match": {"driver_columns", "rider_columns", "co_partitioned"},
    "route": {"contract"},
}
COMMAND: Final = {"dry_run": "route"}
STREAM_FIELDS: Final = {one.name for kind in (StreamOptions, ReadRange) for one in fields(kind)}


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by their first long name."""
    found = [one for one in command.params if isinstance(one, click.Option)]
    return {next(name for name in one.opts if name.startswith("--")): one for one in found}


def command_of(verb: str) -> click.Command:
    found = cli.get_command(click.Context(cli), COMMAND.get(verb, verb))
    assert found is not None
    return found


def argument_for(option: str, verb: str, parameters: set[str]) -> str | None:
    """The argument that an option is; "" where it is something else on purpose, None where nothing is."""
    name = NAMED.get(option, option.removeprefix("--").replace("-", "_"))
    if name in parameters:
        return name
    field = OF_STREAMS.get(option, name)
    on_purpose = option in TERMINAL or option in ELSEWHERE[verb] or ("options" in parameters and field in STREAM_FIELDS)
    return "" if on_purpose else None


def drifted(function: Callable[..., Any], command: click.Command, verb: str) -> tuple[list[str], list[str]]:
    """Options that the function does not take, and arguments that the command does not take."""
    parameters = set(inspect.signature(function).parameters)
    given = {option: argument_for(option, verb, parameters) for option in options_of(command)}
    missing = [option for option, argument in given.items() if argument is None]
    python_only = PYTHON_ONLY | PYTHON_ONLY_OF.get(verb, set())
    return missing, sorted(parameters - set(filter(None, given.values())) - python_only)


@pytest.mark.parametrize("verb", [name for name in verbs.__all__ if name != "dry_run"])
def test_a_verb_takes_what_its_command_takes(verb: str) -> None:
    assert drifted(getattr(verbs, verb), command_of(verb), verb) == ([], [])


def test_a_dry_run_takes_no_argument_that_route_does_not_take() -> None:
    taken = set(inspect.signature(verbs.route).parameters)
    assert set(inspect.signature(verbs.dry_run).parameters) <= taken


def test_an_option_or_an_argument_that_only_one_of_them_has_is_noticed() -> None:
    @click.command()
    @click.option("--lanes")
    @click.option("--colour")
    def planted(**_: Any) -> None: ...

    def function(lanes: int, shade: str) -> None: ...

    assert drifted(function, planted, "verify") == (["--colour"], ["shade"])


@pytest.mark.parametrize("verb", ELSEWHERE)
def test_what_is_said_to_be_elsewhere_is_an_option_of_the_command_and_not_an_argument(verb: str) -> None:
    parameters = inspect.signature(getattr(verbs, verb)).parameters
    there = options_of(command_of(verb))
    assert [option for option in ELSEWHERE[verb] if option not in there] == []
    assert [one for one in ELSEWHERE[verb] if one.removeprefix("--").replace("-", "_") in parameters] == []
    of_columns = [text.removesuffix(" of Columns") for text in ELSEWHERE[verb].values() if text.endswith(" of Columns")]
    columns = {one.name for one in fields(Columns)} | {"time-column"}
    assert set(of_columns) <= columns


@pytest.mark.parametrize("verb", [name for name in verbs.__all__ if name != "dry_run"])
def test_defaults_are_those_of_the_command(verb: str) -> None:
    parameters = inspect.signature(getattr(verbs, verb)).parameters
    for name, option in options_of(command_of(verb)).items():
        argument = argument_for(name, verb, set(parameters))
        # A flag that is off is False; what the command line leaves open is None, or nothing of several.
        if argument and isinstance(option.default, str | int | float) and not option.required:
            assert (name, parameters[argument].default) == (name, option.default)


CALLS: Final[dict[str, Callable[..., object]]] = {
    "check": lambda **more: keylane.check("a.yaml", **more),
    "explain": lambda **more: keylane.explain("k", lanes=3, **more),
    "find": lambda **more: keylane.find("k", "kafka://127.0.0.1:1/t", **more),
    "identify": lambda **more: keylane.identify("a", **more),
    "init": lambda **more: keylane.init("a", **more),
    "match": lambda **more: keylane.match("a", "b", "c", 1.0, **more),
    "plan": lambda **more: keylane.plan("a", **more),
    "profile": lambda **more: keylane.profile("a", **more),
    "route": lambda **more: keylane.route("a.yaml", "b", "c", **more),
    "verify": lambda **more: keylane.verify("a", "b", **more),
    "dry_run": lambda **more: keylane.dry_run("a.yaml", "b", "c", **more),
}


def test_every_verb_is_called_here() -> None:
    assert sorted(CALLS) == sorted(verbs.__all__)


@pytest.mark.parametrize("verb", CALLS)
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(verb: str) -> None:
    parameters = set(inspect.signature(getattr(verbs, verb)).parameters)
    for name, option in options_of(command_of(verb)).items():
        argument = argument_for(name, verb, parameters)
        if argument and isinstance(option.type, click.Choice):
            with pytest.raises((ArgumentError, LookupError), match="none-of-them") as caught:
                CALLS[verb](**{argument: "none-of-them"})
            assert all(choice in str(caught.value) for choice in option.type.choices)


@pytest.mark.parametrize("verb", CALLS)
def test_an_argument_that_does_not_exist_is_refused_with_those_that_do(verb: str) -> None:
    with pytest.raises(ArgumentError, match="got 'shade'; allowed: ") as caught:
        CALLS[verb](shade=3)
    named = [
        one.name
        for one in inspect.signature(getattr(verbs, verb)).parameters.values()
        if one.kind != one.VAR_POSITIONAL
    ]
    assert all(name in str(caught.value) for name in named)

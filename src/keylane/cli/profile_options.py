"""The options of `profile`, which `plan` has too: how a source is read and counted. And the profile that they give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.kafka_options import profiling_from, profiling_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.measure.profile import Profile

__all__ = ["SEED", "kept_in", "profile_options", "profiled"]

#: Fair hashes are drawn from it, to say what chance gives: the same profile has the same answer.
SEED: Final = 2026
_FOR: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--key", "-k", "keys", multiple=True, metavar="COLUMN", help="A field of the key; repeatable, in order."
    ),
    click.option("--encoding", "-e", "encodings", multiple=True, help="How the key becomes bytes; default: utf8."),
    click.option(
        "--place",
        metavar="LAT,LNG",
        callback=lambda *a: _place(a[2]),
        help="The key is the home cell of these two columns, in degrees.",
    ),
    click.option("--contract", "-c", type=click.Path(), help="Take the key from this contract; of plan: today's."),
    click.option("--time", "-t", metavar="COLUMN", help="Cut windows by this column; default: by position."),
    click.option("--time-unit", "unit", type=click.Choice(["s", "ms", "us"]), help="What whole numbers in it count."),
    click.option("--bytes", "size", metavar="COLUMN", help="The length of a record, or a column to take it of."),
    click.option("--windows", "-w", type=int, help="How many, 1 to 48; default: 24, or 8 over 20 M records."),
    click.option(
        "--for", "seconds", metavar="TIME", callback=lambda *a: _duration(a[2]), help="Listen to a topic: 10m."
    ),
    click.option("--approximate", is_flag=True, help="By sketches: for more keys than memory holds."),
    click.option(
        "--format", "kind", type=click.Choice(["parquet", "json", "csv"]), help="Default: by the files' endings."
    ),
    click.option("--master", help="A Spark master; default: this machine's cores."),
    click.option("--conf", "settings", multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable."),
    profiling_options,
)
_PASSED_ON: Final = ("time", "unit", "size", "windows", "seconds", "approximate", "kind", "master")


def profile_options(command: Any) -> Any:
    """Give a command all of them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def profiled(source: str, options: dict[str, Any], *, out: str | None = None, force: bool = False) -> Profile:
    """The profile of a source: read, where it is one already, or made."""
    from pathlib import Path

    from keylane.systems.profiles import read_profile

    if kept_in(source):
        _refuse_reading(options)
        if out is not None:
            raise click.UsageError(f"SRC is a profile that is kept already; hint: leave out --out {out}")
        return read_profile(Path(source))
    return _made(source, options, out=out, force=force)


def kept_in(source: str) -> str | None:
    """The folder, where a source is a profile that was kept."""
    from pathlib import Path

    from keylane.systems.profiles import is_profile

    return source if "://" not in source and is_profile(Path(source)) else None


def _made(source: str, options: dict[str, Any], *, out: str | None, force: bool) -> Profile:
    from keylane.cli.progress import spark_progress
    from keylane.cli.route import settings_from
    from keylane.contract.parse import load_contract

    contract = load_contract(options["contract"]) if options["contract"] else None
    if contract is not None and options["encodings"]:
        raise click.UsageError(
            "--encoding beside --contract: the contract says how its key becomes bytes; leave it out"
        )
    if options["place"] and options["encodings"]:
        raise click.UsageError("--encoding beside --place: the key is a cell of eight bytes; leave it out")
    kafka = profiling_from(dict(options))
    from keylane.pipelines.profile import Options
    from keylane.pipelines.profile import profile as run

    given = Options(
        kafka=kafka, conf=settings_from(options["settings"]), **{name: options[name] for name in _PASSED_ON}
    )
    with spark_progress("profile"):
        return run(
            source,
            options["keys"],
            place=options["place"],
            encoding=_encoding(options["encodings"]),
            contract=contract,
            options=given,
            out=out,
            replace_profile=force,
            say=lambda text: click.echo(f"profile: {text}", err=True),
        )


def _refuse_reading(options: dict[str, Any]) -> None:
    """A profile is counted already: what says how to count would be of no effect."""
    said = [
        name
        for name in ("keys", "encodings", "place", "time", "unit", "windows", "size", "seconds", "kind", "settings")
        if options[name]
    ]
    if said or options["approximate"]:
        raise click.UsageError("SRC is a profile, and counted already: leave out what says how to read a source")


def _place(text: str | None) -> tuple[str, ...]:
    """Two columns; a name with a comma in it cannot be said."""
    if text is None:
        return ()
    fields = tuple(text.split(","))
    if len(fields) != 2 or not all(fields) or fields[0] == fields[1]:
        raise click.UsageError(f"--place takes two columns, as lat,lng, got {text!r}")
    return fields


def _duration(text: str | None) -> float | None:
    if text is None:
        return None
    found = _FOR.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise click.UsageError(f"--for takes a length of time as 500ms, 30s, 10m, 1h, 1d, got {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def _encoding(given: tuple[str, ...]) -> Any:
    """One for all fields, or one for each."""
    from keylane.contract.names import ENCODINGS
    from keylane.errors import UnknownNameError

    for name in given:
        if name not in ENCODINGS:
            raise UnknownNameError.among("encoding", name, list(ENCODINGS))
    return given if len(given) > 1 else given[0] if given else "utf8"

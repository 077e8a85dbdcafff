"""Entry point: dispatches commands, prints results, maps errors to messages and exit codes.

0 fine; 1 failure; 2 usage or invalid contract; 3 the plan has changes; 4 a threshold of the contract is broken;
130 interrupted. What an error looks like: `failures`; what Ctrl-C does: `interrupts`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane import __version__
from keylane.cli import terminal
from keylane.cli.failures import fail
from keylane.cli.help_text import HelpText
from keylane.cli.interrupts import INTERRUPTED, LINE, interrupts
from keylane.cli.terminal import GuardedStream, color_option, quiet_option, verbose_option
from keylane.errors import KeylaneError

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: Final = (
    *("explain", "find", "identify", "init", "check", "profile", "plan", "apply", "brokers", "geo", "shards", "assign"),
    *("migrate", "route", "compact", "verify", "match", "aggregate", "demo", "doctor", "dev", "completion", "help"),
)
#: The commands within commands that take what is configured; a shell reads what `dev kafka env` prints, as it is.
INNER: Final[dict[str, dict[str, Any]]] = {
    "geo": {"table": {}},
    "shards": {
        "keys": {"add": {}, "list": {}, "remove": {}, "import": {}, "redistribute": {}},
        "plan": {},
        "apply": {},
    },
    "migrate": {"plan": {}, "rollback": {}, "run": {}, "status": {}, "verify": {}},
    "aggregate": {
        "queries": {"add": {}, "list": {}, "pause": {}, "resume": {}, "remove": {}},
        "verify": {},
        "explain": {},
    },
    "demo": {"fence": {}, "lesson": {}, "migrate": {}, "shards": {}},
    "dev": {"jars": {}, "kafka": {"up": {}, "down": {}, "status": {}, "load": {}}},
}
#: Names of before, which still work and are not listed.
FORMER: Final = {"budget": "brokers"}


class _LazyGroup(click.Group):
    """Imports a command's file when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        name = FORMER.get(cmd_name, cmd_name)
        if name == "help":
            return help_
        if name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"keylane.cli.{name}"), name)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from keylane.errors import did_you_mean

            near = did_you_mean(args[0], COMMANDS) or "keylane help lists them"
            raise click.UsageError(f"no such command: got {args[0]!r}; hint: {near}", ctx) from None


# All commands, and those within them.
click.Context.formatter_class = HelpText


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="keylane")
@click.option("--env", "environment", metavar="NAME", help="The environment of keylane.toml; default: KEYLANE_ENV.")
@quiet_option
@color_option
@verbose_option
@click.pass_context
def cli(context: click.Context, environment: str | None) -> None:
    """Every key in its lane.

    Decides which lane of a stream each record belongs in, proves it, and changes it safely later. A lane is a Kafka
    partition, a Kinesis shard or a folder of files.

    \b
    Exit codes: 0 fine, 1 failure, 2 usage or invalid contract,
    3 the plan has changes, 4 a threshold of the contract is broken,
    130 interrupted.
    """
    configured(context, environment)


def configured(context: click.Context, environment: str | None) -> None:
    """Take what is configured: the brokers of short addresses, and defaults of options."""
    from keylane.systems.config import configuration, properties_of

    context.obj = found = configuration(os.environ, Path.cwd(), environment)
    brokers = found.get("kafka.brokers")
    if brokers is None and "keylane.systems.endpoint" in sys.modules:
        sys.modules["keylane.systems.endpoint"].unconfigure()
    terminal.shown.output = found.get("output")
    if not found.values:
        return
    if brokers is not None:
        from keylane.systems.endpoint import configure

        configure("kafka", brokers, lambda: properties_of(found))
    known = {"output": found.get("output"), "master": found.get("spark.master")}
    defaults: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    if conf := found.table("spark.conf"):
        defaults["settings"] = [f"{name}={value}" for name, value in conf]
    context.default_map = {name: {**defaults, **_inner(INNER.get(name, {}), defaults)} for name in COMMANDS}


def _inner(commands: Mapping[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults of the commands of a group, by their names, which options of other commands may have."""
    return {name: {**defaults, **_inner(more, defaults)} for name, more in commands.items()}


@click.command("help", short_help="Help on a command: keylane help explain.")
@click.argument("words", nargs=-1, metavar="[COMMAND]")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of a command, or of keylane."""
    found: click.Command = cli
    context = ctx.parent or ctx
    for word in words:
        _, inner, _ = found.resolve_command(context, [word]) if isinstance(found, click.Group) else (None, None, None)
        if inner is None:
            raise click.UsageError(f"no such command: got {' '.join(words)!r}; hint: keylane help lists them", ctx)
        found, context = inner, click.Context(inner, context, word, **cli.context_settings)
    click.echo(found.get_help(context))


def main() -> None:
    """Run, and leave with the right code."""
    sys.stderr = GuardedStream(sys.stderr)
    code = INTERRUPTED
    try:
        interrupts.listen()
        code = _run()
        interrupts.end()
    except KeyboardInterrupt:
        pass
    except Exception as error:  # noqa: BLE001  the last one before a traceback
        code = 1 if interrupts.came else fail(error)
    # What else goes wrong on the way out of an interrupt is none of the user's concern.
    if interrupts.came:
        interrupts.leave()
    sys.exit(code)


def works(arguments: list[str], command: str) -> bool:
    """Whether there is work to show progress of; help is printed at once.

    >>> [works(line.split(), line.split()[0]) for line in ("plan a.parquet", "plan --help", "plan -h", "help plan")]
    [True, False, False, False]
    """
    return command not in {"", "help", "completion"} and not {"-h", "--help", "--version"} & set(arguments)


def _run() -> int:
    interrupts.line = LINE
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if works(sys.argv[1:], command):
        terminal.line.begin(lambda seconds: f"{command}: working, {seconds:.0f} s")
    try:
        result = cli.main(prog_name="keylane", standalone_mode=False)
        if interrupts.came:
            return INTERRUPTED
        return _show(result) if isinstance(result, tuple) else int(result or 0)
    except (KeyboardInterrupt, click.Abort):
        if not interrupts.came:
            terminal.say(interrupts.line)
        return INTERRUPTED
    except (KeylaneError, click.ClickException, OSError) as error:
        return INTERRUPTED if interrupts.came else fail(error)
    finally:
        terminal.line.end()


def _show(shown: Any) -> int:
    from keylane.cli.output import render

    result, output = shown
    terminal.line.end()
    watched = sys.stdout.isatty()
    colour = terminal.colours(sys.stdout)
    size = {"width": terminal.width_of(sys.stdout), "height": terminal.height_of(sys.stdout)}
    text = render(result, output, terminal=watched, colour=colour, **size)
    if text:
        click.echo(text, color=colour)
    sys.stdout.flush()
    return int(result.exit_code)

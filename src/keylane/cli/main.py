"""Entry point: dispatches commands, prints results, maps errors to messages and exit codes.

0 fine; 1 failure; 2 usage or invalid contract; 3 the plan has changes; 4 a threshold of the contract is broken;
130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Any, Final

import click

from keylane import __version__
from keylane.cli.terminal import GuardedStream, say
from keylane.errors import KeylaneError

COMMANDS: Final = (
    *("explain", "identify", "check", "profile", "plan", "budget", "geo", "route", "compact", "verify", "match"),
    *("demo", "doctor", "dev", "completion"),
)


class _LazyGroup(click.Group):
    """Imports a command's file when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"keylane.cli.{cmd_name}"), cmd_name)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from keylane.errors import did_you_mean

            near = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"{error.message} {near}".strip(), ctx) from None


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="keylane")
def cli() -> None:
    """Every key in its lane.

    Decides which lane of a stream each record belongs in, proves it, and changes it safely later. A lane is a Kafka
    partition, a Kinesis shard or a folder of files.

    \b
    Exit codes: 0 fine, 1 failure, 2 usage or invalid contract, 3 the plan has changes,
    4 a threshold of the contract is broken.
    """


def main() -> None:
    """Run, and leave with the right code."""
    sys.stderr = GuardedStream(sys.stderr)
    sys.exit(_run())


def _run() -> int:
    try:
        result = cli.main(prog_name="keylane", standalone_mode=False)
        return _show(result) if isinstance(result, tuple) else int(result or 0)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        say(shown.getvalue(), nl=False)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except (KeylaneError, OSError) as error:
        return _failed(error)


def _failed(error: KeylaneError | OSError) -> int:
    if isinstance(error, BrokenPipeError):
        # The reader left, as `| head` does: not our failure, and stdout must not be flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, KeylaneError):
        say(f"error: {error}")
        return error.exit_code
    say(f"error: {error.strerror or error}: got {error.filename!r}")
    return 1


def _show(shown: Any) -> int:
    from keylane.cli.output import render

    result, output = shown
    if text := render(result, output, terminal=sys.stdout.isatty()):
        click.echo(text)
    sys.stdout.flush()
    return int(result.exit_code)

"""`keylane completion SHELL`: the script that completes commands, options and partitioner names."""

from __future__ import annotations

import click


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(keylane completion bash)"      in ~/.bashrc
    zsh:   eval "$(keylane completion zsh)"       in ~/.zshrc
    fish:  keylane completion fish | source       in config.fish
    """
    from click.shell_completion import get_completion_class

    from keylane.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "keylane", "_KEYLANE_COMPLETE").source())

"""`keylane shards`: the key space of shards. `shards keys` hands out hash keys to accounts (`shards_keys`)."""

from __future__ import annotations

import click

from keylane.cli.shards_keys import keys


@click.group(short_help="Shards of a 128-bit key space: hash keys for accounts.")
def shards() -> None:
    """Shards: lanes (partitions) that are ranges of a 128-bit key space.

    \b
    keylane shards keys add ACCOUNT --registry keys.sqlite     a hash key for an account
    """


shards.add_command(keys)

"""`keylane shards`: the key space of shards.

`shards keys` hands out hash keys to accounts (`shards_keys`), `shards plan` plans splits and merges (`shards_plan`),
and `shards apply` carries them out (`shards_apply`).
"""

from __future__ import annotations

import click

from keylane.cli.shards_apply import apply
from keylane.cli.shards_keys import keys
from keylane.cli.shards_plan import plan


@click.group(short_help="Shards of a 128-bit key space: hash keys for accounts, and better layouts.")
def shards() -> None:
    """Shards: lanes (partitions) that are ranges of a 128-bit key space.

    \b
    keylane shards keys add ACCOUNT --registry keys.sqlite     a hash key for an account
    keylane shards plan --layout today.json --cap 800          the fewest splits and merges
    keylane shards apply plan.json                             carry them out
    """


shards.add_command(keys)
shards.add_command(plan)
shards.add_command(apply)

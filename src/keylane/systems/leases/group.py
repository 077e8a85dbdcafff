"""What a group is to every store: a name, a number of ids, and what is refused of them.

The stores: `sqlite`, `zookeeper`. How lanes follow from an id: `keylane.groups.ownership`.
"""

from __future__ import annotations

import re
from typing import Final

from keylane.errors import UsageError

MOST_INSTANCES: Final = 10_000
#: A group is part of file names, of paths in ZooKeeper and of transactional ids.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_group(group: str, instances: int) -> None:
    """Refuse what is no name of a group, and no number of ids."""
    if not _NAME.fullmatch(group):
        raise UsageError.of("not a name of a group", got=group, allowed="letters, digits, '.', '_', '-'; at most 100")
    if not 1 <= instances <= MOST_INSTANCES:
        raise UsageError.of("not a number of instances", got=instances, allowed=f"1 to {MOST_INSTANCES}")


def other_count(group: str, has: int, asked: int) -> UsageError:
    """The error for a group that has another number of ids than an instance was started with."""
    return UsageError.of(
        f"group {group!r} has {has} instance ids",
        got=asked,
        allowed=str(has),
        hint="start every instance with the same number; to change it, stop them all and call `resize`",
    )


def in_use(group: str, holders: list[str]) -> UsageError:
    """The error for a group that cannot be resized, because somebody holds an id of it."""
    return UsageError.of(
        f"group {group!r} is in use, and was not changed",
        got=", ".join(holders[:5]),
        allowed="no live lease",
        hint="stop all instances first; what a killed one held is free after its time to live",
    )

"""Where the leases of a group are kept: one SQLite file for the processes of a machine, ZooKeeper for several machines.

    sqlite     in a file, judged by the clock of the machine
    zookeeper  in an ensemble, judged by its sessions; needs the extra `zookeeper`
    group      what is a group, and what is refused: another number of ids, a change while it is in use
    keeper     the claim of an instance on an id, kept up by a thread

    with open_leases("leases.db", group="balances", instances=3) as store: ...
    with open_leases("zookeeper://10.0.0.1:2181,10.0.0.2:2181/keylane", group="balances", instances=3) as store: ...

What a lease is, and what it does not protect from: `keylane.groups.ownership`. Who works under one:
`keylane.systems.kafka.owner`.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.groups.ownership import Terms
from keylane.systems.leases.group import check_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.groups.ownership import LeaseStore

ZOOKEEPER: Final = "zookeeper://"


@contextmanager
def open_leases(address: str | Path, group: str, instances: int, ttl: float = 10.0) -> Iterator[LeaseStore]:
    """The leases of a group: a file, or `zookeeper://HOST:PORT,.../PATH`. One store serves one instance.

    A new group gets so many ids; a group that has another number of them is refused. `ttl` is that of the `Terms` that
    instances have: an ensemble is asked for sessions of that length.
    """
    check_group(group, instances)
    Terms(ttl)
    if str(address).startswith(ZOOKEEPER):
        from keylane.systems.leases.zookeeper import zookeeper_leases

        with zookeeper_leases(str(address).removeprefix(ZOOKEEPER), group, instances, ttl) as in_ensemble:
            yield in_ensemble
        return
    from keylane.systems.leases.sqlite import sqlite_leases

    with sqlite_leases(Path(address), group, instances, ttl) as in_file:
        yield in_file

"""Leases of the processes of one machine, in one SQLite file.

Every answer is one transaction that takes the write lock before it reads (`BEGIN IMMEDIATE`) and forces what it wrote
to the disk, the folder included, so that no kill and no power failure hands out a term twice. A process that is
killed inside it leaves the file as it was; one that is paused inside it holds all others up until it goes on or is
killed, since the lock is the system's. That costs time, not safety: ZooKeeper has no such moment. The file needs a
file system with locks that work: a local one.

The clock is the machine's monotonic one, which all its processes share. It begins anew with the machine, which ends
all leases (`Lease.is_live`).

    groups   name, number of ids, last term
    leases   of a group: id, term, owner, time to live, end

The rules: `keylane.groups.ownership.LeaseTable`. For several machines: `zookeeper`.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from keylane.errors import TargetError, UsageError
from keylane.groups.ownership import Lease, LeaseTable
from keylane.systems.leases.group import check_group, in_use, other_count
from keylane.systems.sqlite_transaction import force_commits, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.groups.ownership import LeaseRequest

#: "klls": what marks the file as one of leases.
APPLICATION: Final = 0x6B6C6C73
VERSION: Final = 2
#: An answer is waited for so long, in times to live: a lease that cannot be renewed in time is lost anyway.
PATIENCE: Final = 0.5

_TABLES: Final = (
    "CREATE TABLE groups (name TEXT PRIMARY KEY, instances INTEGER NOT NULL, term INTEGER NOT NULL)",
    """CREATE TABLE leases (name TEXT NOT NULL, instance INTEGER NOT NULL, term INTEGER NOT NULL, owner TEXT NOT NULL,
    ttl REAL NOT NULL, expires REAL NOT NULL, PRIMARY KEY (name, instance))""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


class SqliteLeases:
    """An open store of one group. `sqlite_leases` opens one; threads of a process may share it."""

    def __init__(
        self, path: Path, group: str, instances: int, connection: sqlite3.Connection, clock: Callable[[], float]
    ) -> None:
        self.path, self.group, self.instances = path, group, instances
        self._sql, self._clock, self._turn = connection, clock, Lock()

    def answer(self, request: LeaseRequest) -> Lease | None:
        """Carry a request out as `LeaseTable.answer` does."""
        with self._changing():
            before = self._table()
            after, answer = before.answer(request, self._clock())
            if answer is not None:
                row = (self.group, answer.instance, answer.term, answer.owner, answer.ttl, answer.expires)
                self._sql.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?)", row)
            if after.term != before.term:
                self._sql.execute("UPDATE groups SET term = ? WHERE name = ?", (after.term, self.group))
            return answer

    def read(self) -> tuple[Lease, ...]:
        """The ids and who holds them now."""
        with self._changing():
            now = self._clock()
            return tuple(one if one.is_live(now) else replace(one, owner="") for one in self._table().leases)

    def resize(self, instances: int) -> None:
        """Give the group another number of ids; refused while anybody holds one. Terms go on from where they were."""
        check_group(self.group, instances)
        with self._changing():
            now = self._clock()
            holders = [one.owner for one in self._table().leases if one.is_live(now)]
            if holders:
                raise in_use(self.group, holders)
            self._sql.execute("UPDATE groups SET instances = ? WHERE name = ?", (instances, self.group))
            self._sql.execute("DELETE FROM leases WHERE name = ?", (self.group,))
            self.instances = instances

    def register(self) -> None:
        """Enter a new group; a group that has another number of ids is refused."""
        with self._changing():
            self._sql.execute("INSERT OR IGNORE INTO groups VALUES (?, ?, 0)", (self.group, self.instances))
            self._table()

    def _table(self) -> LeaseTable:
        asked = "SELECT instances, term FROM groups WHERE name = ?"
        instances, term = self._sql.execute(asked, (self.group,)).fetchone()
        if instances != self.instances:
            raise other_count(self.group, instances, self.instances)
        rows = self._sql.execute("SELECT instance, term, owner, ttl, expires FROM leases WHERE name = ?", (self.group,))
        known = {row[0]: Lease(*row) for row in rows}
        return LeaseTable(tuple(known.get(k) or Lease(k) for k in range(instances)), term)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One transaction, with the write lock from its beginning."""
        with self._turn:
            try:
                with transaction(self._sql):
                    yield
            except sqlite3.Error as error:
                raise _unusable(self.path, error) from error


@contextmanager
def sqlite_leases(
    path: Path, group: str, instances: int, ttl: float = 10.0, clock: Callable[[], float] = time.monotonic
) -> Iterator[SqliteLeases]:
    """Open the leases of a group in a file; a new file where there is none."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError.of("not a place for leases", got=str(path), allowed="a file in a folder that is there")
    try:
        found = sqlite3.connect(path, timeout=ttl * PATIENCE, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    with closing(found) as connection:
        try:
            _prepare(path, connection)
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        store = SqliteLeases(path, group, instances, connection, clock)
        store.register()
        yield store


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Make the tables of a new file; refuse a file that is something else."""
    force_commits(connection)
    with transaction(connection):
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        _check_ours(path, owner, version, tables)
        for statement in _TABLES if owner != APPLICATION else ():
            connection.execute(statement)


def _check_ours(path: Path, owner: int, version: int, tables: int) -> None:
    if owner == APPLICATION and version != VERSION:
        raise UsageError.of("leases of another version of keylane", got=version, allowed=str(VERSION))
    if owner != APPLICATION and (owner or tables):
        raise _not_ours(path)


def _unusable(path: Path, error: sqlite3.Error) -> TargetError | UsageError:
    if "not a database" in str(error):
        return _not_ours(path)
    hint = "another process holds it: kill the one that is paused" if "locked" in str(error) else ""
    hint = "the file is damaged: restore it, or start a group of another name" if "malformed" in str(error) else hint
    return TargetError.of(f"the leases cannot be used: {error}", got=str(path), hint=hint)


def _not_ours(path: Path) -> UsageError:
    return UsageError.of("not a file of leases", got=str(path), hint="another file")

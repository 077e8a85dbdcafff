"""The registry of standing queries: which there are, and which of them run; in one SQLite file, or in a topic.

The rules of a change are those of `aggregation.registry`; a topic is opened by its endpoint (`kafka.query_topic`). The
file has two tables:

    queries    id, definition (JSON), status (active, paused, removed), version that changed it last
    registry   version
    changes    version, digest of all changes up to it

An older copy in the place of the file is found by the note beside it (`last_change`). What a query is:
`aggregation.query`.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from keylane.aggregation.query import query_of
from keylane.aggregation.registry import Registered, added, changed, next_digest, snapshot_of
from keylane.errors import TargetError, UsageError
from keylane.systems.endpoint import open_endpoint, parse_address, path_of
from keylane.systems.last_change import check_last_change, note_last_change
from keylane.systems.sqlite_transaction import force_commits, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from keylane.aggregation.query import Query
    from keylane.aggregation.registry import QueryRegistry, RegistrySnapshot, Status
    from keylane.systems.endpoint import StreamOptions

#: "klqr": how SQLite's file says whose it is.
APPLICATION: Final = 0x6B6C7172
VERSION: Final = 2
#: Seconds that a writer waits for others.
PATIENCE: Final = 60.0
_CHANGES: Final = "CREATE TABLE changes (version INTEGER PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID"
_TABLES: Final = (
    """CREATE TABLE queries (id TEXT PRIMARY KEY, definition TEXT NOT NULL, status TEXT NOT NULL,
    version INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE registry (version INTEGER NOT NULL)",
    "INSERT INTO registry VALUES (0)",
    _CHANGES,
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


class SqliteQueries:
    """A registry in a SQLite file: every change is one transaction."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._sql = path, connection

    def add(self, queries: Sequence[Query]) -> tuple[int, list[str]]:
        """All or none."""
        return self._write(lambda known, version: added(known, queries, version))

    def change(self, ids: Sequence[str], what: str) -> tuple[int, list[str]]:
        """All or none."""
        return self._write(lambda known, version: changed(known, ids, what, version))

    def _write(self, rule: Callable[[dict[str, Registered], int], list[Registered]]) -> tuple[int, list[str]]:
        with transaction(self._sql):
            version = self.version() + 1
            new = rule({one.id: one for one in self.all()}, version)
            for one in new:
                definition = json.dumps(one.definition, ensure_ascii=False)
                row = (one.id, definition, one.status, one.version)
                self._sql.execute("INSERT OR REPLACE INTO queries VALUES (?, ?, ?, ?)", row)
            if new:
                self._sql.execute("UPDATE registry SET version = ?", (version,))
                digest = next_digest(self.digest_of(version - 1), new)
                self._sql.execute("INSERT INTO changes VALUES (?, ?)", (version, digest))
        if new:
            # Behind the commit, and one writer at a time.
            with transaction(self._sql, keep=False):
                note_last_change(self._path, self.version(), self.digest_of(self.version()))
        return version if new else self.version(), [one.id for one in new]

    def all(self) -> list[Registered]:
        """By id."""
        rows = self._sql.execute("SELECT id, definition, status, version FROM queries ORDER BY id").fetchall()
        return [Registered(row[0], json.loads(row[1]), cast("Status", row[2]), row[3]) for row in rows]

    def snapshot(self) -> RegistrySnapshot:
        """In one transaction."""
        self._sql.execute("BEGIN")
        try:
            version = self.version()
            return snapshot_of({one.id: one for one in self.all()}, version, self.digest_of(version))
        finally:
            self._sql.execute("COMMIT")

    def version(self) -> int:
        """As the file has it."""
        return int(self._sql.execute("SELECT version FROM registry").fetchone()[0])

    def digest_of(self, version: int) -> str:
        """As the file has it; nothing of versions from before it kept digests."""
        found = self._sql.execute("SELECT digest FROM changes WHERE version = ?", (version,)).fetchone()
        return "" if found is None else str(found[0])


@contextmanager
def open_queries(
    address: str, options: StreamOptions | None = None, *, create: bool = False
) -> Iterator[QueryRegistry]:
    """The registry at an address: a path, or a compacted topic; `create` makes one where there is nothing."""
    found = parse_address(address)
    if found.is_path:
        with _open_file(path_of(found, "the registry of queries"), create=create) as file:
            yield file
        return
    with open_endpoint(found, options).query_registry(create=create) as stream:
        yield stream


@contextmanager
def _open_file(path: Path, *, create: bool) -> Iterator[SqliteQueries]:
    if not path.is_file() and not create:
        raise UsageError.of("there is no registry of queries", got=str(path), hint="keylane aggregate queries add")
    if path.is_dir():
        raise UsageError.of("the registry is a folder, and should be a file", got=str(path))
    is_new = not path.exists()
    if not is_new and not path.stat().st_size:
        # A file that is empty would become one by being opened.
        raise _foreign(path)
    if is_new:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Batches and their border are of two threads of one process, one at a time.
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        with closing(connection):
            _prepare(path, connection, create=create)
            found = SqliteQueries(path, connection)
            check_last_change(path, found.digest_of, found.version())
            yield found
    except sqlite3.Error as error:
        hint = "another writer holds it: try again" if "locked" in str(error) else "restore it from a copy"
        raise TargetError.of(f"the registry of queries cannot be used: {error}", got=str(path), hint=hint) from error
    finally:
        if is_new and path.exists() and not path.stat().st_size:
            with suppress(OSError):
                path.unlink()


def _foreign(path: Path) -> UsageError:
    return UsageError.of("not a registry of queries", got=str(path), hint="another --queries FILE")


def _prepare(path: Path, connection: sqlite3.Connection, *, create: bool) -> None:
    force_commits(connection)
    with transaction(connection):
        if create and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _TABLES:
                connection.execute(statement)
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    if owner == APPLICATION and connection.execute("PRAGMA user_version").fetchone()[0] == 1:
        # Made before versions had digests: those begin with the next change.
        with transaction(connection):
            connection.execute(_CHANGES.replace("TABLE", "TABLE IF NOT EXISTS", 1))
            connection.execute(f"PRAGMA user_version = {VERSION}")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if owner != APPLICATION:
        raise _foreign(path)
    if version != VERSION:
        raise UsageError.of("a registry of another version of keylane", got=version, allowed=str(VERSION))


def checked(definitions: Sequence[dict[str, Any]]) -> list[Query]:
    """Definitions of a registry or of a batch as queries; each is parsed once, not in every batch."""
    return [_checked(json.dumps(one)) for one in definitions]


@lru_cache(maxsize=100_000)
def _checked(definition: str) -> Query:
    return query_of(json.loads(definition))

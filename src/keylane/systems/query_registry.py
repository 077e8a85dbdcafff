"""The registry of standing queries: which there are, and which of them run; in one SQLite file.

Every change is one transaction, and gives the registry its next version. A running pipeline reads a snapshot at the
border of each batch and writes it down with the batch, so that a batch that is made again has the same queries
(`pipelines.aggregate.batches`). An id means one query for ever: a removed one keeps its id, so that the windows of two
queries never share a place in the results.

    queries    id, definition (JSON), status (active, paused, removed), version that changed it last
    registry   version

What a query is: `aggregation.query`.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from keylane.aggregation.query import query_of
from keylane.errors import TargetError, UnknownNameError, UsageError, did_you_mean
from keylane.systems.endpoint import parse_address, path_of
from keylane.systems.sqlite_transaction import transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from keylane.aggregation.query import Query

Status: TypeAlias = Literal["active", "paused", "removed"]
#: "klqr": how SQLite's file says whose it is.
APPLICATION: Final = 0x6B6C7172
VERSION: Final = 1
#: Seconds that a writer waits for others.
PATIENCE: Final = 60.0
_TABLES: Final = (
    """CREATE TABLE queries (id TEXT PRIMARY KEY, definition TEXT NOT NULL, status TEXT NOT NULL,
    version INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE registry (version INTEGER NOT NULL)",
    "INSERT INTO registry VALUES (0)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_WORDS: Final[dict[str, Status]] = {"pause": "paused", "resume": "active", "remove": "removed"}


@dataclass(frozen=True, slots=True)
class Registered:
    """A query of a registry, as it was given."""

    id: str
    definition: dict[str, Any]
    status: Status
    version: int


@dataclass(frozen=True, slots=True)
class RegistrySnapshot:
    """A registry at one moment: its version, and the definitions of the queries that run."""

    version: int
    active: tuple[dict[str, Any], ...]


class QueryRegistry:
    """An open registry. `open_queries` opens one."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._sql = connection

    def add(self, queries: Sequence[Query]) -> tuple[int, list[str]]:
        """Register all or none: the version, and the ids that are new. A query that is there already stays as it is.

        One that was paused or removed, and is given again as it was, runs again.
        """
        new = []
        with transaction(self._sql):
            version = self._version() + 1
            for query in queries:
                known = self._sql.execute("SELECT definition, status FROM queries WHERE id = ?", (query.id,)).fetchone()
                if known is not None and json.loads(known[0]) != query.as_json():
                    raise UsageError.of(
                        f"another query has the id {query.id}; nothing was registered",
                        got=query.definition,
                        allowed=known[0],
                        hint="choose a new id: an id means one query for ever, removed ones too",
                    )
                if known is None or known[1] != "active":
                    new.append(query.id)
                    row = (query.id, query.definition, "active", version)
                    self._sql.execute("INSERT OR REPLACE INTO queries VALUES (?, ?, ?, ?)", row)
            if new:
                self._sql.execute("UPDATE registry SET version = ?", (version,))
            return self._version(), new

    def change(self, ids: Sequence[str], what: str) -> tuple[int, list[str]]:
        """Pause, resume or remove queries, all or none: the version, and the ids that changed."""
        changed = []
        with transaction(self._sql):
            version = self._version() + 1
            for one in ids:
                known = self._sql.execute("SELECT status FROM queries WHERE id = ?", (one,)).fetchone()
                if known is None or known[0] == "removed":
                    names = [row[0] for row in self._sql.execute("SELECT id FROM queries")]
                    hint = did_you_mean(one, names) or "keylane aggregate queries list"
                    what_is = "no such query in the registry; nothing was changed"
                    raise UnknownNameError.of(what_is, got=one, hint=hint)
                if known[0] != _WORDS[what]:
                    changed.append(one)
                    row = (_WORDS[what], version, one)
                    self._sql.execute("UPDATE queries SET status = ?, version = ? WHERE id = ?", row)
            if changed:
                self._sql.execute("UPDATE registry SET version = ?", (version,))
            return self._version(), changed

    def all(self) -> list[Registered]:
        """Every query, by id; removed ones too."""
        rows = self._sql.execute("SELECT id, definition, status, version FROM queries ORDER BY id").fetchall()
        return [Registered(row[0], json.loads(row[1]), cast("Status", row[2]), row[3]) for row in rows]

    def snapshot(self) -> RegistrySnapshot:
        """The registry as it is now; its version and its queries are of one moment."""
        self._sql.execute("BEGIN")
        try:
            version = self._version()
            rows = self._sql.execute("SELECT definition FROM queries WHERE status = 'active' ORDER BY id").fetchall()
        finally:
            self._sql.execute("COMMIT")
        return RegistrySnapshot(version, tuple(json.loads(row[0]) for row in rows))

    def version(self) -> int:
        """The number of changes so far."""
        return self._version()

    def _version(self) -> int:
        return int(self._sql.execute("SELECT version FROM registry").fetchone()[0])


@contextmanager
def open_queries(address: str, *, create: bool = False) -> Iterator[QueryRegistry]:
    """The registry at a path; `create` makes one where there is nothing."""
    path = path_of(parse_address(address), "the registry of queries")
    if not path.is_file() and not create:
        raise UsageError.of("there is no registry of queries", got=str(path), hint="keylane aggregate queries add")
    if path.is_dir():
        raise UsageError.of("the registry is a folder, and should be a file", got=str(path))
    is_new = not path.exists()
    if is_new:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Batches and their border are of two threads of one process, one at a time.
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        with closing(connection):
            _prepare(path, connection, create=create)
            yield QueryRegistry(path, connection)
    except sqlite3.Error as error:
        hint = "another writer holds it: try again" if "locked" in str(error) else "restore it from a copy"
        raise TargetError.of(f"the registry of queries cannot be used: {error}", got=str(path), hint=hint) from error
    finally:
        if is_new and path.exists() and not path.stat().st_size:
            with suppress(OSError):
                path.unlink()


def _prepare(path: Path, connection: sqlite3.Connection, *, create: bool) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    with transaction(connection):
        if create and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _TABLES:
                connection.execute(statement)
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if owner != APPLICATION:
        raise UsageError.of("not a registry of queries", got=str(path), hint="another --queries FILE")
    if version != VERSION:
        raise UsageError.of("a registry of another version of keylane", got=version, allowed=str(VERSION))


def checked(definitions: Sequence[dict[str, Any]]) -> list[Query]:
    """Definitions of a registry or of a batch as queries; each is parsed once, not in every batch."""
    return [_checked(json.dumps(one)) for one in definitions]


@lru_cache(maxsize=100_000)
def _checked(definition: str) -> Query:
    return query_of(json.loads(definition))

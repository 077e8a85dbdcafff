"""Transactions of a SQLite file that several processes write: the write lock from the beginning, and durable commits.

`BEGIN IMMEDIATE` takes the lock before anything is read, so that what is read is still so when it is changed. Who is
killed inside leaves the file as it was. Who uses it: `hash_key_registry`, `query_registry`, `leases.sqlite`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator


def force_commits(connection: sqlite3.Connection) -> None:
    """Let a commit return once a power failure cannot undo it.

    A commit removes the journal. With FULL that removal is not forced to disk: a power failure may bring the journal
    back, and what was committed is rolled back, after somebody was handed a key or an epoch.
    """
    connection.execute("PRAGMA synchronous = EXTRA")


@contextmanager
def transaction(connection: sqlite3.Connection, *, keep: bool = True) -> Iterator[None]:
    """Commit what the block has changed, or, after an error and where it is not to be kept, nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT" if keep else "ROLLBACK")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

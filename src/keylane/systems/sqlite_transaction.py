"""One transaction of a SQLite file that several processes write, with the write lock from its beginning.

`BEGIN IMMEDIATE` takes the lock before anything is read, so that what is read is still so when it is changed. Who is
killed inside leaves the file as it was. Who uses it: `hash_key_registry`, `leases.sqlite`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator


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

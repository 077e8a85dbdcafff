"""Lanes on Spark: the router's decision as columns of a frame, and a local session that is right by itself.

session     a local session, and what a session of the user's own lacks; `java` and `archive` are its parts
frames      `route` and `lane`: where a frame meets a contract
keys        the key fields as columns; `kinds` and `windows` are its parts
hashes      routing key -> number; `calls` are the Java methods behind some of them
lanes       number -> lane; `ranges` for 128-bit digests
overrides   hot keys and tables as look-ups
decide      the steps in a row, as branches
arrow       what has no native form
lines, schemas, files   sources as frames with the place of each record; what they hold, and what is new
writing     one batch into the lanes of a folder
history     rows of a history, judged bucket by bucket
stopping    the end between two batches

The only room that imports pyspark. The decision itself is `keylane.router`; this room is held equal to it by tests.
"""

from __future__ import annotations

from keylane.errors import MissingExtraError

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:  # pragma: no cover - the suite has pyspark
    raise MissingExtraError.named("spark", "pyspark") from error

from keylane.spark.frames import lane, route
from keylane.spark.session import local_session

__all__ = ["lane", "local_session", "route"]

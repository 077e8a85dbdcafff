"""Lanes on Spark: the router's decision as columns of a frame, and a local session that is right by itself.

session     a local session, and what a session of the user's own lacks; `java`, `archive` and `cache` are its parts
frames      `route` and `lane`: where a frame meets a contract; `checks` says what it must be
keys        the key fields as columns; `kinds` and `windows` are its parts
hashes      routing key -> number; `calls` are the Java methods behind some of them
lanes       number -> lane; `ranges` for 128-bit digests, `spread` for one key over several lanes
cells       places, cells and their lanes; `cells_java` where the session has H3
overrides   hot keys and tables as look-ups
decide      the steps in a row, as branches
arrow       what has no native form
places      the decision for keys that are places; `cells` are its parts
geo_counts  places of a frame by home cell and hour
place_keys  home cells of places as the keys of a profile
lines, schemas, files   sources as frames with the place of each record; what they hold, and what is new
writing     one batch into the lanes of a folder
messages    Kafka records as frames; `decoding` for the fields of their values
history     rows of a history, judged bucket by bucket
stopping    the end between two batches

The only room that imports pyspark. The decision itself is `keylane.router`; this room is held equal to it by tests.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from keylane.errors import MissingExtraError

if TYPE_CHECKING:
    from keylane.spark.frames import lane, route
    from keylane.spark.session import local_session

__all__ = ["lane", "local_session", "route"]

_HOME = {"lane": "frames", "local_session": "session", "route": "frames"}


def __getattr__(name: str) -> Any:
    """Load on first use: `java` and `cache` must answer where there is no pyspark, so that `doctor` can say so."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("pyspark") is None:
        raise MissingExtraError.named("spark", "pyspark")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

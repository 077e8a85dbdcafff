"""Lanes on Spark: the router's decision as columns of a frame, and a local session with the right settings.

    session         a local session, and what a session of the user's own lacks; `jvm` finds Java and compiles sources
    context         how a pipeline is run: session, stop, progress; the one argument of every pipeline
    read_parquet    files of a batch as frames, each record with its position; read_lines: JSON lines and CSV
    nanoseconds     times of Parquet that are finer than those of Spark
    scan            some columns of many files, for `profile`
    messages        Kafka records as frames, and back
    frames          `with_placements` and `lane`: where a frame meets a contract
    sql             `register`: the lane as a function of Spark SQL
    keys            the key fields as columns; json_fields: fields of JSON records
    hashes          routing key -> number; `java_calls` are the Java methods behind some of them
    lanes           number -> lane
    shard_lanes     digest -> shard, over unequal ranges and explicit hash keys
    cells           locations, cells and their lanes
    overrides       hot keys and tables as look-ups
    decide          the steps in a row, as branches
    write_lanes     one batch into the lanes of a folder
    small_lanes     many lanes of few records, in one task
    writable        records that a topic would not take, and dead letters that it takes
    poison          records without a lane: dead letters, parked keys, or a stop
    kafka_writer    one batch into the lanes of a topic, by writers in Java
    feed_source     a stream that is read, and one batch that is written, in Python
    streaming       a streaming query that stops between two batches
    checkpoint_files  a checkpoint on another file system than this machine's
    blocks          stateful steps on packed blocks, in Java; topic_blocks: a topic as a stream of them
    count_keys      records of each key by window; count_cells: of each home cell by hour
    history         rows of a history, judged bucket by bucket
    prepartitioned  a frame declared to be in lanes already

Only here and in `pipelines` is pyspark imported. The decision itself is `keylane.router`; tests hold this package equal
to it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from keylane.errors import MissingExtraError

if TYPE_CHECKING:
    from keylane.spark.frames import lane, with_placements
    from keylane.spark.session import local_session
    from keylane.spark.sql import register

__all__ = ["lane", "local_session", "register", "with_placements"]

_HOME = {"lane": "frames", "local_session": "session", "register": "sql", "with_placements": "frames"}
#: Names of before: `route` is the job that writes, `keylane.route`.
_FORMER = {"route": "with_placements"}


def __getattr__(name: str) -> Any:
    """Load on first use: `jvm` must answer where there is no pyspark, so that `doctor` can say so."""
    if name in _FORMER:
        import warnings

        text = f"keylane.spark.{name} is called keylane.spark.{_FORMER[name]} now"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        name = _FORMER[name]
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("pyspark") is None:
        raise MissingExtraError.named("spark", "pyspark")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

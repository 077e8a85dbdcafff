"""A streaming query, run to its end or stopped between two batches, so that no batch has to be repeated.

    run_query          a stream and the body of its batches, until it ends, fails or is asked to stop
    file_names         files as they appear, as a stream of names: their contents are not read

`query.stop()` interrupts the running batch, and one that has just ended is then not committed: both are repeated at
the next start. The gate lets a running batch end and holds the next one back. Knows nothing of what a batch does.
What Spark has written into a checkpoint, and whether it belongs to a target: `systems.checkpoint`.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.spark.context import translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from keylane.spark.checkpoint_files import RemoteFolder
    from keylane.spark.context import RunContext

_POLL_SECONDS: Final = 0.1
#: So long a batch may be planned, or a source asked for its end, before a stop interrupts it.
_PLANNING_SECONDS: Final = 5.0
#: Spark ignores files older than this, relative to the newest it has seen. The longest time that it takes: one
#: file of the year 2200 would otherwise end the reading of all others.
_ANY_AGE: Final = f"{2**63 - 1}ms"
_FILE_COLUMNS: Final = "path string, modificationTime timestamp, length bigint, content binary"


class StopRequestedError(Exception):
    """Raised in a batch that begins after a stop was requested. It did nothing; the next start begins with it."""


@dataclass(slots=True)
class Gate:
    """The body of `foreachBatch`, which can be closed between two batches."""

    body: Callable[[DataFrame, int], None]
    closed: threading.Event = field(default_factory=threading.Event)
    busy: bool = False
    done: int | None = None
    error: BaseException | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the body, unless the gate is closed."""
        self.busy = True  # before the check, so that `stop` cannot miss it
        try:
            if self.closed.is_set():
                raise StopRequestedError(batch)  # noqa: TRY301  as every other end of a batch
            self.body(frame, batch)
            self.done = batch
        except BaseException as error:
            # Spark passes an exception on as text; the caller wants the exception.
            self.error = error
            raise
        finally:
            self.busy = False


def stop(query: StreamingQuery, gate: Gate) -> None:
    """End between batches: returns when the query has ended."""
    gate.closed.set()
    idle_since = time.monotonic()
    while query.isActive:
        progress: Any = query.lastProgress
        # Whether the last batch that ran is in Spark's log: progress is posted after that.
        committed = gate.done is None or (progress is not None and progress.batchId >= gate.done)
        if gate.busy or not committed:
            idle_since = time.monotonic()
        # A batch that is being planned ends at the gate by itself; interrupted, Spark would log errors of it.
        elif not query.status["isTriggerActive"] or time.monotonic() - idle_since > _PLANNING_SECONDS:
            query.stop()
        time.sleep(_POLL_SECONDS)


def finish(query: StreamingQuery, gate: Gate) -> None:
    """Raise what ended the query, if it was not a stop. A batch's own exception comes as itself."""
    if gate.error is not None and not isinstance(gate.error, StopRequestedError):
        raise gate.error
    failure = query.exception()
    if failure is not None and gate.error is None:
        raise failure


_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def interval(text: str) -> str:
    """A length of time as Spark reads it, from what options take.

    >>> interval("500ms"), interval("10 seconds")
    ('500 milliseconds', '10 seconds')
    """
    number = text.rstrip("mshd")
    unit = _UNITS.get(text.removeprefix(number))
    return f"{number} {unit}" if number.isdigit() and unit else text


def run_query(
    frame: DataFrame,
    body: Callable[[DataFrame, int], None],
    checkpoint: Path | RemoteFolder,
    run: RunContext,
    look: Callable[[Callable[[], Any]], None] | None = None,
) -> bool:
    """Run a query over a stream to its end; whether it was stopped before it.

    `look` is called again and again while the query runs until it is stopped, with a call for its progress; what it
    raises ends the query after the batch that is running.
    """
    gate = Gate(body)
    trigger: dict[str, Any] = {"processingTime": interval(run.every)} if run.follow else {"availableNow": True}
    place = f"file://{checkpoint}" if isinstance(checkpoint, Path) else str(checkpoint)
    writer = frame.writeStream.foreachBatch(gate).option("checkpointLocation", place)
    query = None
    stopped = False
    try:
        query = writer.trigger(**trigger).start()
        while query.isActive and not stopped:
            stopped = run.stopping
            if stopped:
                stop(query, gate)
                continue
            if look is not None and run.follow:
                try:
                    look(lambda: query.lastProgress)
                except Exception:
                    stop(query, gate)
                    raise
            time.sleep(_POLL_SECONDS)
        finish(query, gate)
    except Exception as error:
        raise translated(error, work=run.work) from error
    finally:
        if query is not None and query.isActive:
            query.stop()
    return stopped


def file_names(spark: SparkSession, folder: str, pattern: str, most: int) -> DataFrame:
    """Files as they appear: names, ages and sizes, at most `most` a batch. Their contents are not even asked for.

    Letters of the pattern are of either case, as for whoever lists the same files without Spark.
    """
    any_case = re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", pattern)
    return (
        spark.readStream.format("binaryFile")
        .schema(_FILE_COLUMNS)
        .option("recursiveFileLookup", value=True)
        .option("pathGlobFilter", any_case)
        .option("maxFilesPerTrigger", most)
        .option("maxFileAge", _ANY_AGE)
        .load(f"file://{folder}")
        .select("path", F.unix_millis("modificationTime"), "length", F.col("_metadata.file_path"))
    )

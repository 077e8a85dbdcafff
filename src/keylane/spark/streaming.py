"""A streaming query that can be stopped between two batches, so that nothing has to be made twice.

`query.stop()` cuts the batch that is running, and one that has just ended is then not committed: both are made again at
the next start. The gate lets a running batch end and holds the next one back.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Gate", "finish", "stop"]

_POLL_SECONDS = 0.02


class StopRequestedError(Exception):
    """Raised in a batch that came after the stop was asked for. It has done nothing; the next start begins with it."""


@dataclass(slots=True)
class Gate:
    """The body of `foreachBatch`, with a door before it."""

    body: Callable[[DataFrame, int], None]
    closed: threading.Event = field(default_factory=threading.Event)
    busy: bool = False
    done: int | None = None
    error: BaseException | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the body, unless the gate is closed."""
        self.busy = True  # before the question, so that `stop` cannot miss it
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
    while query.isActive:
        if not gate.busy and _committed(query.lastProgress, gate.done):
            query.stop()
        time.sleep(_POLL_SECONDS)


def finish(query: StreamingQuery, gate: Gate) -> None:
    """Raise what ended the query, if it was not a stop. A batch's own exception comes as itself."""
    if gate.error is not None and not isinstance(gate.error, StopRequestedError):
        raise gate.error
    failure = query.exception()
    if failure is not None and gate.error is None:
        raise failure


def _committed(progress: Any, done: int | None) -> bool:
    """Whether the last batch that ran is in Spark's log: progress is posted after that."""
    return done is None or (progress is not None and progress.batchId >= done)

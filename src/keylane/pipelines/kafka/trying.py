"""A step that is tried again while its error may pass: a broker that is away, a worker that died, a fence.

Spark tries a task again on a cluster, and never on one machine; here the whole job is tried again, everywhere. That is
right only for steps that change nothing when they are repeated, as writing a batch is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException
from pyspark.errors.exceptions.captured import CapturedException

from keylane.errors import BrokerError, KeylaneError
from keylane.pipelines.failures import translated
from keylane.pipelines.kafka.writer import PERMANENT, WRITE_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.pipelines.kafka.options import Running

__all__ = ["tried"]

T = TypeVar("T")
#: Between two tries; each pause is twice the last, up to the second number.
PAUSE_SECONDS: Final = (0.25, 8.0)


def tried(step: Callable[[], T], batch: int, seconds: float, running: Running) -> T:
    """What the step returns; its error, in keylane's words, when it would come again or time is up."""
    until, pause = time.monotonic() + seconds, PAUSE_SECONDS[0]
    while True:
        try:
            return step()
        except (KeylaneError, AnalysisException):
            raise
        except Exception as error:
            said = told_by_writer(str(error))
            told = said or translated(error, batch)
            stopping = running.stop_asked is not None and running.stop_asked.is_set()
            if not _passes(error, said) or stopping or time.monotonic() + pause > until:
                raise told from error
            running.say(f"batch {batch} is tried again: {told}")
        running.probe("again", batch)
        time.sleep(pause)
        pause = min(pause * 2, PAUSE_SECONDS[1])


def _passes(error: Exception, said: BrokerError | None) -> bool:
    """Whether another try may do better: after what a writer said of its broker, or when a job broke from outside.

    What Python raised in a worker for another reason comes again, and so does what never became a job.
    """
    if said is not None:
        return PERMANENT not in str(error)
    return isinstance(error, Py4JJavaError | CapturedException) and not isinstance(error, PythonException)


def told_by_writer(text: str) -> BrokerError | None:
    """What a writer said, out of the text that Spark makes of it."""
    for line in text.splitlines():
        _, sign, words = line.partition(WRITE_ERROR)
        if sign:
            return BrokerError(words.removeprefix(PERMANENT))
    return None

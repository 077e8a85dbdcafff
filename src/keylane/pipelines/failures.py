"""Errors of Spark, of Java and of the disk in keylane's words: what failed, at the bottom of it, and what to do.

Keylane's own errors pass as they are. Where they are raised: `batch`, `route`; what they look like: `keylane.errors`.
"""

from __future__ import annotations

import errno
import re
from typing import Final

from pyspark.errors import AnalysisException, PySparkException

from keylane.errors import DataError, KeylaneError, SparkError, TargetError, cause, first_line

__all__ = ["translated"]

#: The work whose failures are most of these.
ROUTE: Final = "the route"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_WORDS: Final = ("No space left on device", "Disk quota exceeded", "File too large")
_UNREAD: Final = re.compile(r"\[FAILED_READ_FILE\.\w+\] .*? reading file (?:file://)?(.+?)\. +SQLSTATE")
_MENDED: Final = "put a readable file in its place: the route has seen this name already, and goes on from it"


def translated(error: Exception, batch: int | None = None, work: str = ROUTE) -> Exception:
    """An error of Spark or of the disk in keylane's words; its own errors as they are. `work` is what has failed."""
    if isinstance(error, KeylaneError):
        return error
    text = str(error)
    what = work if batch is None else f"batch {batch}"
    if (isinstance(error, OSError) and error.errno in _FULL) or any(words in text for words in _FULL_WORDS):
        hint = "make room and run again" + (
            ": it goes on from the last batch that is complete" if work == ROUTE else ""
        )
        return TargetError.of(f"the disk is full; {what} has not happened, and nothing is harmed", hint=hint)
    unread = _UNREAD.search(text)
    if unread is not None:
        return DataError.of(f"{unread[1]} cannot be read", got=cause(text), hint=_MENDED if work == ROUTE else "")
    if isinstance(error, AnalysisException):
        return DataError.of(f"Spark cannot read the records of {what}", got=first_line(text))
    if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j"):
        return SparkError.of(f"Spark failed in {what}, which has not happened", got=cause(text), hint=_hint(text))
    return error


def _hint(text: str) -> str:
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)'", text)
    return (
        f"install {missing[1]} where the Python workers run, or ship it there: docs/how-to/clusters.md"
        if missing
        else ""
    )

"""How a pipeline runs: its Spark session, when it stops, where it reports, and how failures are worded.

    RunContext       the one argument of every pipeline's steps; made once by the command or the caller
    session_beside   a session with what the records need, beside the caller's or on a new one
    translated       an error of Spark, Java or the disk as one of keylane's

A session that the caller made keeps its settings. The pipeline works in a session beside it, on the same cluster, so
that what the records need is set for them alone; what cannot be set there is reported (`say`), and so is every option
that comes too late. How a new session is made, and what is checked in others: `spark.session`.
"""

from __future__ import annotations

import errno
import inspect
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, PySparkException

from keylane.errors import DataError, KeylaneError, SparkError, TargetError, cause, first_line
from keylane.spark.session import existing_session, is_submitted, local_session, missing_in, require_classic

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    #: Reports something that is not an error but should be known.
    Say = Callable[[str], None]
    #: Called at the named steps of a batch. Tests use it to stop a process, or to look, at an exact step.
    Probe = Callable[[str, int], None]

ZONE: Final = "spark.sql.session.timeZone"
#: Settings that routing depends on: any other value would change records, lose them, or split a lane's file.
NEEDED: Final = {
    "spark.sql.adaptive.enabled": "false",  # one task for each lane, whatever their sizes
    "spark.sql.ansi.enabled": "true",  # as the columns were tried
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",  # half a file is not a file
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.maxRecordsPerFile": "0",  # one file for each lane
    "spark.sql.json.enablePartialResults": "false",  # a record that does not fit is dead, not half
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the type that every reader knows
    ZONE: "UTC",
}


#: The default for `work`.
ROUTE: Final = "the route"


def warn(text: str) -> None:
    """Report as a Python warning of the code that called the pipeline."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in {"keylane", "contextlib"}:
        frame, level = frame.f_back, level + 1
    warnings.warn(f"keylane: {text}", stacklevel=level)


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run of a pipeline.

    `spark` is a session of the caller's, used as it is; without one, the existing session is used, or one is made with
    `master` and `conf`. With `follow` the run continues until `stop_asked` is set; otherwise it ends with the
    records there are. `ready` is called once Spark is up, `progress` after each batch, `say` with warnings. `work`
    is what errors say has failed.
    """

    spark: SparkSession | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    follow: bool = False
    every: str = "1 second"
    stop_asked: threading.Event | None = None
    ready: Callable[[], None] = lambda: None
    progress: Callable[[Any], None] = lambda _: None
    say: Say = warn
    probe: Probe = lambda _step, _batch: None
    work: str = ROUTE

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to stop."""
        return self.stop_asked is not None and self.stop_asked.is_set()


def session_beside(
    spark: SparkSession | None, master: str | None, conf: Mapping[str, str], say: Say = warn
) -> SparkSession:
    """A session with what the records need, beside the given one, the existing one, or a new one."""
    require_classic(spark)
    theirs = spark or existing_session()
    base = theirs or local_session(master, conf)
    own = base.newSession()
    _set(own, conf)
    for name, value in conf.items():
        if NEEDED.get(name, value).lower() != value.lower():
            say(f"{name}={value} is ignored: keylane needs {NEEDED[name]}")
    if theirs or is_submitted():
        for text in (*_too_late(base, master, conf if theirs else {}), *_missing(base, own)):
            say(text)
    return own


def java_process(spark: SparkSession) -> int:
    """The process id of Spark's JVM."""
    java: Any = spark.sparkContext._jvm
    return int(java.java.lang.ProcessHandle.current().pid())


def _set(own: SparkSession, conf: Mapping[str, str]) -> None:
    """Apply `conf` and then what routing needs, as far as a session can be changed."""
    cores = str(own.sparkContext.defaultParallelism)
    # Lines are counted and numbered in the same splits, whatever becomes of the cluster meanwhile.
    sizes = {"spark.sql.files.minPartitionNum": cores, "spark.sql.shuffle.partitions": cores}
    for name, value in {**sizes, **conf, **NEEDED}.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)


def _too_late(spark: SparkSession, master: str | None, conf: Mapping[str, str]) -> Iterator[str]:
    """Options that only a new session could apply."""
    context = spark.sparkContext
    if master not in {None, context.master}:
        yield f"master {master} is ignored: the session already runs on {context.master}"
    for name, value in conf.items():
        if not spark.conf.isModifiable(name) and context.getConf().get(name) != value:
            yield f"{name}={value} is ignored: only a new session can apply it, and this one already exists"


def _missing(theirs: SparkSession, own: SparkSession) -> Iterator[str]:
    """What the caller's session lacks that this one does not fix."""
    zone = theirs.conf.get(ZONE)
    if zone != own.conf.get(ZONE):
        yield f"time zone is {zone}; keylane reads and writes times in UTC anyway"
    yield from missing_in(own)


# Errors of Spark, Java and the disk, translated: what failed, the root cause, and what to do.

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CHECKPOINT: Final = re.compile(r"file:/*(/\S+/(?:checkpoint|files)/(?:metadata|offsets|commits|sources|state)\S*)")
_BROKEN: Final = (errno.EIO, errno.EROFS)
_FULL_WORDS: Final = ("No space left on device", "Disk quota exceeded", "File too large")
_UNREAD: Final = re.compile(r"\[FAILED_READ_FILE\.\w+\] .*? reading file (?:file://)?(.+?)\. +SQLSTATE")
#: What keylane's own columns raise; the text is the same as without Spark.
_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (column .+?) SQLSTATE")
_FIX: Final = "replace it with a readable file of the same name: the route continues from there"


#: What the connector makes of a time that does not fit into microseconds of 64 bits.
_TIMED: Final = re.compile(r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value (-?\d+)")
_BEHIND: Final = (
    "a producer that gives micro- or nanoseconds? A new route begins behind the record: --start, with another --state "
    "and --second-route; what is left before it needs one more, with a --max-records that ends there"
)


def translated(error: Exception, batch: int | None = None, work: str = ROUTE) -> Exception:
    """An error of Spark or of the disk as one of keylane's; its own errors as they are. `work` is what failed."""
    if isinstance(error, KeylaneError):
        return error
    text = str(error)
    what = work if batch is None else f"batch {batch}"
    disk = _disk_error(error, text, what, work)
    if disk is not None:
        return disk
    unread = _unreadable(text, work)
    if unread is not None:
        return unread
    if isinstance(error, AnalysisException):
        return DataError.of(f"Spark cannot read the records of {what}", got=first_line(text))
    if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j"):
        return SparkError.of(f"Spark failed in {what}, which was not committed", got=cause(text), hint=_hint(text))
    return error


def _unreadable(text: str, work: str) -> DataError | None:
    """A record or a file that Spark names as what it cannot read, or a column that keylane cannot."""
    raised = _RAISED.search(text)
    if raised is not None:
        return DataError(raised[1])
    timed = _TIMED.search(text)
    if timed is not None:
        return DataError.of(
            f"the time of record {timed[1]}/{timed[2]}/{timed[3]} is none that Spark can read",
            got=f"{timed[4]} milliseconds",
            allowed="up to 9223372036854775 before and after 1970",
            hint=_BEHIND,
        )
    unread = _UNREAD.search(text)
    if unread is not None:
        return DataError.of(f"{unread[1]} cannot be read", got=cause(text), hint=_FIX if work == ROUTE else "")
    return None


def _disk_error(error: Exception, text: str, what: str, work: str) -> TargetError | None:
    code = error.errno if isinstance(error, OSError) else None
    if code in _FULL or any(words in text for words in _FULL_WORDS):
        more = ": it continues after the last committed batch" if work == ROUTE else ""
        hint = f"free some space and run again{more}"
        return TargetError.of(f"disk full: {what} was not committed; the target is unchanged", hint=hint)
    if code in _BROKEN:
        return TargetError.of(f"the disk failed: {what} was not committed", got=text, hint="look at it, and run again")
    damaged = _CHECKPOINT.search(cause(text))
    if damaged is not None:
        hint = "restore the newest checkpoint; or start anew, with another target and state"
        return TargetError.of(f"the Spark checkpoint is damaged: {damaged[1]}", got=cause(text), hint=hint)
    return None


def _hint(text: str) -> str:
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)'", text)
    return (
        f"install {missing[1]} where the Python workers run, or ship it there: docs/how-to/clusters.md"
        if missing
        else ""
    )

"""A local session that is right by itself, and what a session of the user's own lacks.

`local_session()` is what every command uses when it is given no session. One that a user brings is used as it is:
`missing_in` reports what it lacks, and nothing is changed. Which Java, and why the second start is quick: `jvm`.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from keylane.errors import SparkError, cause
from keylane.spark.java_calls import TRIED
from keylane.spark.jvm import archive_options, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GIB: Final = 2**30
QUIET_LOG: Final = Path(__file__).with_name("log4j2.properties")
CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
OPTIONS: Final = "spark.driver.extraJavaOptions"
#: Warnings of Java about a module that Spark loads, at every start; and of Spark's sketches about Java.
NOISE: Final = (b"WARNING: Using incubator modules", b"Warning: Java versions > Java 11 can only operate")
#: These print the Java stack trace of every error, even of one that is caught.
CHATTY: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_ON_EVERY_MACHINE: Final = "to a Python that has keylane on every machine"


def local_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, app: str = "keylane"
) -> SparkSession:
    """The session of this process: the one it has, or a new one on this machine (or on `master`).

    Under `spark-submit` the new one has the settings of that. Otherwise `conf` overrides everything that is set here,
    except Java options, which are appended.
    """
    existing = existing_session()
    if existing is not None:
        return existing
    try:
        if is_submitted():
            builder = SparkSession.builder.config(map=dict(conf or {}))
            return (builder.master(master) if master else builder).getOrCreate()
        return _new_session(master, conf or {}, app)
    except (PySparkException, Py4JError) as error:
        hint = "check the master and the settings; the messages of Java are above"
        raise SparkError.of("Spark did not start", got=cause(str(error)), hint=hint) from error


def is_submitted() -> bool:
    """Whether `spark-submit` runs this process, and has set Spark up."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _new_session(master: str | None, conf: Mapping[str, str], app: str) -> SparkSession:
    target = master or f"local[{_cores()}]"
    _environment(on_this_machine=_is_near(target))
    for name in CHATTY:
        PySparkLogger.getLogger(name).disabled = True
    settings = _settings(target, dict(conf))
    builder = SparkSession.builder.appName(app)
    if SparkContext._gateway is None:  # noqa: SLF001  no Java of an earlier session of this process
        _launch(SparkConf().setAppName(app).setAll(list(settings.items())))
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def existing_session() -> SparkSession | None:
    """The session that this process has, also when another thread made it; its settings stay as they are."""
    active = SparkSession.getActiveSession()
    if active is not None or SparkContext._active_spark_context is None:  # noqa: SLF001
        return active
    return SparkSession.builder.getOrCreate()


def tasks_running() -> tuple[int, int]:
    """Tasks done and tasks in all of the active stages; zero without a Spark context."""
    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is None:
        return 0, 0
    tracker = context.statusTracker()
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)


@contextmanager
def active_session_kept() -> Iterator[None]:
    """Leave the session that is active in Python as it was: PySpark activates each one that makes a frame."""
    before = SparkSession._activeSession  # noqa: SLF001
    try:
        yield
    finally:
        SparkSession._activeSession = before  # noqa: SLF001


def missing_in(spark: SparkSession) -> list[str]:
    """What a session lacks that keylane's own would have, each with a fix. Nothing is changed."""
    out = []
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone not in {"UTC", "Etc/UTC", "Z", "GMT"}:
        out.append(f"time zone is {zone}: times in files are read in it; set spark.sql.session.timeZone=UTC")
    if not spark.version.startswith(TRIED):
        out.append(f"Spark is {spark.version}: keylane was tried on {TRIED[0]}x, and is slower elsewhere")
    if is_remote():
        return out
    context = spark.sparkContext
    local = str(context.master).startswith("local")
    out += _other_python(str(context.pythonExec), on_this_machine=local)
    if local and spark.conf.get("spark.sql.shuffle.partitions") == "200":
        out.append("200 shuffle partitions on one machine make every small step slow; set spark.sql.shuffle.partitions")
    return out


def _other_python(workers: str, *, on_this_machine: bool) -> list[str]:
    """Python workers that are not this Python. On a cluster a path that was set explicitly is trusted."""
    python = Path(shutil.which(workers) or workers)
    # `python` and `python3` of one environment are one Python; of two they may be links to one, and yet differ.
    is_this = (python.parent, python.resolve()) == (Path(sys.executable).parent, Path(sys.executable).resolve())
    if is_this or (not on_this_machine and os.environ.get("PYSPARK_PYTHON")):
        return []
    which = f"={sys.executable}" if on_this_machine else f" {_ON_EVERY_MACHINE}"
    return [f"Python workers run {workers!r}, not this Python; set PYSPARK_PYTHON{which} before the session is created"]


def _settings(target: str, given: dict[str, str]) -> dict[str, str]:
    settings = {"spark.master": target, "spark.sql.session.timeZone": "UTC"}
    settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.execution.arrow.pyspark.enabled": "true"}
    if target.startswith("local"):
        settings |= {
            "spark.driver.memory": f"{_memory() // 2**20}m",
            "spark.sql.shuffle.partitions": str(_cores()),
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
            "spark.ui.enabled": "false",
        }
    options = [*_java_options(given), given.pop(OPTIONS, "")]
    return {**settings, **given, OPTIONS: " ".join(option for option in options if option)}


def _java_options(given: Mapping[str, str]) -> list[str]:
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    extra = given.get("spark.driver.extraClassPath", "")
    options = [f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}", *archive_options(java, extra)]
    return [f'"{option}"' if " " in option else option for option in options]


def _environment(*, on_this_machine: bool) -> None:
    """Spark reads these when its Java starts. What the user has set stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # The Java that only puts the command together: it lives for a moment, and need not be compiled well.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")
    if on_this_machine:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _is_near(target: str) -> bool:
    return target.startswith("local") or "//127.0.0.1" in target or "//localhost" in target


def _launch(conf: SparkConf) -> None:
    """Start Java as PySpark does, and filter known noise from its output.

    Pipes of our own also keep Java from holding the caller's open while it writes its archive: a reader of our
    output sees its end when we exit.
    """
    launch: Any = java_gateway.launch_gateway
    pipes = {name: _passed_on_to(name) for name in ("stdout", "stderr")}
    try:
        gateway = launch(conf, dict(pipes))
    finally:
        for pipe in pipes.values():
            os.close(pipe)
    SparkContext(conf=conf, gateway=gateway)


def _passed_on_to(name: str) -> int:
    reader, writer = os.pipe()
    threading.Thread(target=_pass_on, args=(reader, name), name=f"keylane-java-{name}", daemon=True).start()
    return writer


def _pass_on(reader: int, name: str) -> None:
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if not line.startswith(NOISE):
                # Looked up for each line: a program may have replaced the stream.
                getattr(sys, name).write(line.decode(errors="replace"))
                getattr(sys, name).flush()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    """Half of the memory, from 1 to 8 GiB."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 * GIB
    return max(GIB, min(8 * GIB, min(physical, _container_limit()) // 2))


def _container_limit() -> int:
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 2**63

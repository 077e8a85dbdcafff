"""A local session that is right by itself, and what a session of the user's own lacks.

`local_session()` is what every command uses when it is given no session. One that a user brings is used as it is:
`missing_in` reports what it lacks, and nothing is changed. Which Java, and why the second start is quick: `jvm`.

On a machine with other users its records are out of their reach: what Spark and its Python workers keep on the disk is
in a folder that only this user can enter (`private`), and its ports listen on loopback and ask for a secret.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.core import context as core_context
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from keylane.errors import SparkError, UsageError, cause, visible
from keylane.private import new_folder
from keylane.spark.java_calls import TRIED
from keylane.spark.jvm import archive_options, find_java, utf8_file_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.private import OwnFolder

GIB: Final = 2**30
QUIET_LOG: Final = Path(__file__).with_name("log4j2.properties")
CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
OPTIONS: Final = "spark.driver.extraJavaOptions"
#: Options of a Java that makes small batches for long: its first compiler only, which takes half of the time of the
#: first minutes and makes code that is hardly slower here; with it Java reserves too little room for code by itself.
SMALL_BATCHES: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
#: A collector without threads of its own beside the work, and a heap that need not grow to the size of a batch first.
PLAIN_COLLECTOR: Final = "-XX:+UseParallelGC -XX:InitialRAMPercentage=8"
#: Where all of Spark is one process. What a task gives back at once: more goes over the network, to the same process.
#: And no file of checksums beside each file of an exchange: blocks are read once, where they were written.
FEW_FILES: Final = {"spark.task.maxDirectResultSize": "64m", "spark.shuffle.checksum.enabled": "false"}
LOCAL_DIR: Final = "spark.local.dir"
#: Spark reads it before `spark.local.dir`.
LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
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
    require_classic()
    try:
        if is_submitted():
            builder = SparkSession.builder.config(map=dict(conf or {}))
            return (builder.master(master) if master else builder).getOrCreate()
        with _being_started():
            return _new_session(master, conf or {}, app)
    except (PySparkException, Py4JError) as error:
        raise SparkError.of("Spark did not start", got=cause(str(error)), hint=_CHECK) from error


def require_classic(spark: SparkSession | None = None) -> None:
    """Refuse Spark Connect, whether it is in use or is what a new session would be: keylane calls Java itself."""
    if is_remote():
        raise UsageError.of("keylane needs a classic Spark session", got="Spark Connect", hint="spark.api.mode=classic")
    if os.environ.get("SPARK_REMOTE") and (spark or existing_session()) is None:
        # Its value may hold a token.
        got = "SPARK_REMOTE, which asks for Spark Connect"
        raise UsageError.of("keylane needs a classic Spark session", got=got, hint="unset SPARK_REMOTE")


@contextmanager
def _being_started() -> Iterator[None]:
    """Let others know; and leave a program its own handler of Ctrl-C, in place of which PySpark would put its own.

    That one asks Java to end all jobs, by the connection on which the interrupted call still waits for its answer. It
    is never set, rather than replaced afterwards: a start goes on for seconds behind the line that sets it.
    """
    before = signal.getsignal(signal.SIGINT)
    own = before not in (signal.default_int_handler, None)
    _starting.set()
    try:
        if own:
            vars(core_context)["signal"] = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: before)
        yield
    finally:
        vars(core_context)["signal"] = signal
        _starting.clear()


def for_small_batches(conf: Mapping[str, str], *, one_machine: bool = True) -> dict[str, str]:
    """Settings with which a new session makes small batches cheaper; what the options of Java say already stays."""
    given = conf.get(OPTIONS, "")
    collector = "" if re.search(r"-XX:\+Use\w+GC", given) else PLAIN_COLLECTOR
    return {
        **(FEW_FILES if one_machine else {}),
        **conf,
        OPTIONS: " ".join(filter(None, (SMALL_BATCHES, collector, given))),
    }


def is_submitted() -> bool:
    """Whether `spark-submit` runs this process, and has set Spark up."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _new_session(master: str | None, conf: Mapping[str, str], app: str) -> SparkSession:
    target = master or f"local[{_cores()}]"
    _environment(on_this_machine=_is_near(target))
    for name in CHATTY:
        PySparkLogger.getLogger(name).disabled = True
    _check_user_name()
    folders = _folders(target, conf)
    settings = _settings(target, dict(conf), [folder.path for folder in folders])
    builder = SparkSession.builder.appName(app)
    if SparkContext._gateway is None:  # no Java of an earlier session of this process
        _launch(SparkConf().setAppName(app).setAll(list(settings.items())), folders)
    else:
        _removed_by_java(SparkContext._gateway, folders)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def existing_session() -> SparkSession | None:
    """The session that this process has, also when another thread made it; its settings stay as they are."""
    active = SparkSession.getActiveSession()
    if active is not None or SparkContext._active_spark_context is None:
        return active
    return SparkSession.builder.getOrCreate()


def file_name_encoding(spark: SparkSession) -> str:
    """How Spark's Java reads file names, by the locale that it was started under: other names it does not even see."""
    java: Any = spark.sparkContext._jvm
    return str(java.java.lang.System.getProperty("sun.jnu.encoding"))


@dataclass(frozen=True, slots=True)
class SparkWork:
    """What Spark is at: whether it still starts, and the tasks and records of the stages that run."""

    starting: bool = False
    stages: tuple[int, ...] = ()
    done: int = 0
    tasks: int = 0
    records: int = 0


_starting = threading.Event()


def work_now() -> SparkWork | None:
    """What Spark is at, for whoever watches from another thread; None where that cannot be known now.

    Asked at any moment: PySpark sets the context before it has the Java side of it, and takes that away first.
    """
    context = SparkContext._active_spark_context
    if _starting.is_set():
        return SparkWork(starting=True)
    if context is None or getattr(context, "_jsc", None) is None:
        return None
    try:
        stages = context._jsc.sc().statusStore().activeStages()
        found = [stages.apply(i) for i in range(stages.size())]
        return SparkWork(
            stages=tuple(one.stageId() for one in found),
            done=sum(one.numCompleteTasks() for one in found),
            tasks=sum(one.numTasks() for one in found),
            records=sum(one.inputRecords() for one in found),
        )
    except Exception:  # noqa: BLE001  Java that ends meanwhile has many ways to say so, and none concerns the work
        return None


@contextmanager
def active_session_kept() -> Iterator[None]:
    """Leave the session that is active in Python as it was: PySpark activates each one that makes a frame."""
    before = SparkSession._activeSession
    try:
        yield
    finally:
        SparkSession._activeSession = before


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


def _settings(target: str, given: dict[str, str], folders: Sequence[Path] = ()) -> dict[str, str]:
    settings = {"spark.master": target, "spark.sql.session.timeZone": "UTC"}
    settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.execution.arrow.pyspark.enabled": "true"}
    # Python's call site of every column, for Spark's errors: half of the calls to Java, and no error shows it.
    settings |= {"spark.python.sql.dataFrameDebugging.enabled": "false"}
    if target.startswith("local"):
        settings |= {
            "spark.driver.memory": f"{_memory() // 2**20}m",
            "spark.sql.shuffle.partitions": str(_cores()),
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
            "spark.ui.enabled": "false",
        }
    if _is_one_process(target):
        # Spark makes the secret itself, for each session, where all of it is one process: it is in no argument.
        settings |= {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    if _is_one_process(target) and folders:
        own = str(folders[0])
        settings |= {"spark.sql.warehouse.dir": f"{own}/warehouse", "spark.executorEnv.TMPDIR": own}
        given[LOCAL_DIR] = ",".join(map(str, folders))
    options = [*_java_options(given, folders), given.pop(OPTIONS, "")]
    return {**settings, **given, OPTIONS: " ".join(option for option in options if option)}


def _is_one_process(target: str) -> bool:
    """Whether driver and executor are one process on this machine."""
    return re.fullmatch(r"local(\[([0-9]+|\*)(\s*,\s*[0-9]+)?\])?", target) is not None


def _java_options(given: Mapping[str, str], folders: Sequence[Path]) -> list[str]:
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    extra = given.get("spark.driver.extraClassPath", "")
    options = [f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}", *archive_options(java, extra)]
    # Counters that every user could read, in a file under the system's temporary folder.
    options += ["-XX:-UsePerfData", *(f"-Djava.io.tmpdir={folder}" for folder in folders[:1])]
    return [f'"{option}"' if " " in option else option for option in options]


# The folders of a session: where Spark keeps shuffled and spilled records, and Java its temporary files. Spark makes
# its own below the system's temporary folder, where every user can read them, and a kill leaves them there.

_kept: Final[list[OwnFolder]] = []


def _folders(target: str, conf: Mapping[str, str]) -> list[OwnFolder]:
    """One in each folder that the user chose for local data, or in the temporary one; those of this Java if it runs.

    Only a driver of this process gets them on a cluster: what executors have is up to the cluster.
    """
    if _kept and SparkContext._gateway is not None:
        return _kept
    chosen = os.environ.get(LOCAL_DIRS) or conf.get(LOCAL_DIR) if _is_one_process(target) else None
    parents = [Path(name.strip()) for name in chosen.split(",") if name.strip()] if chosen else []
    for parent in parents:
        parent.mkdir(parents=True, exist_ok=True)
    _kept[:] = [new_folder(parent) for parent in parents] or [new_folder()]
    return _kept


def _removed_by_java(gateway: Any, folders: Sequence[OwnFolder]) -> None:
    """Have Java remove the folders when it ends: it outlives this process for a moment, and writes until then."""
    java = gateway.jvm
    for folder in folders:
        java.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(java.java.io.File(str(folder.path)))


def _remove_if_java_is_gone(process: int) -> None:
    # A child that was forked has this handler too, and neither Java nor the folders are its own.
    java = getattr(SparkContext._gateway, "proc", None)
    if os.getpid() == process and java is not None and java.poll() is not None:
        for folder in _kept:
            folder.remove()


def _environment(*, on_this_machine: bool) -> None:
    """Spark reads these when its Java starts. What the user has set stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # The Java that only puts the command together: it lives for a moment, and need not be compiled well.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")
    if on_this_machine:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _check_user_name() -> None:
    """Hadoop, under Spark, refuses to start for a user id without a name, and says so on a page of Java."""
    with suppress(ImportError):
        import pwd

        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            raise SparkError.of(
                "Spark needs a user with a name, and this user id has none",
                got=os.geteuid(),
                hint="add it to /etc/passwd of the container, or run as a user that is in it; only commands without "
                "Spark run as any user",
            ) from None


def _is_near(target: str) -> bool:
    return target.startswith("local") or "//127.0.0.1" in target or "//localhost" in target


def _launch(conf: SparkConf, folders: Sequence[OwnFolder]) -> None:
    """Start Java as PySpark does, and filter known noise from its output.

    Java reads file names as UTF-8, whatever the locale, and shares the locks of the folders: nobody removes them while
    it runs. Pipes of our own also keep it from holding the caller's open while it writes its archive: a reader of our
    output sees its end when we exit.
    """
    launch: Any = java_gateway.launch_gateway
    output = _JavaOutput()
    pipes = {name: output.pipe(name) for name in ("stdout", "stderr")}
    try:
        alone = _is_one_process(str(conf.get("spark.master")))
        with utf8_file_names(), _chosen_folders_hidden(folders, is_one_process=alone):
            gateway = launch(conf, {**pipes, "pass_fds": [folder.handle for folder in folders]})
    except BaseException as error:
        for folder in folders:
            folder.remove()
        _kept.clear()
        for name in list(pipes):
            os.close(pipes.pop(name))
        if isinstance(error, PySparkException) and (words := output.last_words()):
            raise SparkError.of("Spark did not start", got=words, hint=_CHECK) from error
        raise
    finally:
        for pipe in pipes.values():
            os.close(pipe)
    _removed_by_java(gateway, folders)
    atexit.register(_remove_if_java_is_gone, os.getpid())
    SparkContext(conf=conf, gateway=gateway)
    output.release()


@contextmanager
def _chosen_folders_hidden(folders: Sequence[OwnFolder], *, is_one_process: bool) -> Iterator[None]:
    """PySpark hands this process's environment on to Java, which would take the user's folders instead of ours."""
    before = os.environ.get(LOCAL_DIRS)
    if before is None or not is_one_process:
        yield
        return
    os.environ[LOCAL_DIRS] = ",".join(str(folder.path) for folder in folders)
    try:
        yield
    finally:
        os.environ[LOCAL_DIRS] = before


class _JavaOutput:
    """What Java prints: passed on from when it has started. One that does not start is one error, not a stack."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[tuple[str, str]] | None = []
        self._threads: list[threading.Thread] = []

    def pipe(self, name: str) -> int:
        """What Java is given for a stream of this process."""
        reader, writer = os.pipe()
        thread = threading.Thread(target=self._read, args=(reader, name), name=f"keylane-java-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)
        return writer

    def release(self) -> None:
        """Java has started: what it has printed, and whatever it prints from now on."""
        with self._lock:
            held, self._held = self._held or [], None
            for name, text in held:
                _print(name, text)

    def last_words(self) -> str:
        """Why a Java that has ended did not start, as far as it said so."""
        for thread in self._threads:
            thread.join(timeout=2)
        with self._lock:
            lines = [text.strip() for _, text in self._held or []]
        return next((line for line in lines if line.startswith(_SAID)), lines[0] if lines else "")

    def _read(self, reader: int, name: str) -> None:
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                if line.startswith(NOISE):
                    continue
                text = visible(line.decode(errors="replace"), keep="\n\t")
                with self._lock:
                    if self._held is None:
                        _print(name, text)
                    else:
                        self._held.append((name, text))


#: How Java begins the line that says why it does not start.
_SAID: Final = ("Invalid ", "Error occurred", "Unrecognized ", "Error: ", "Exception in ")
_CHECK: Final = "check --master and --conf, and spark in keylane.toml"


def _print(name: str, text: str) -> None:
    # Looked up for each line: a program may have replaced the stream.
    getattr(sys, name).write(text)
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

"""The same matching in Kafka Streams, on the same broker: how long it takes, and how much of the processor.

    found = peer(bootstrap, "driver-locations", "rider-requests", 60, 1000.0, 1_000_000, 20_000)

`peer` starts a JVM of its own and lets the topology read both topics from their beginning: once to warm up, with an
application id of its own, and once for the figures. First the guest copies of requests are made, then the lanes are
run, because Kafka Streams takes records in the order of their times only where they are there to be taken. What counts
of each part is from the first record that is processed to the last; starting, joining the group and making the tables
of RocksDB do not. The processor's seconds are the whole JVM's from the first record of a part until its state is
flushed and its offsets are committed. The broker's are nobody's.

What it does as `keylane match --follow` does: the same lanes, riders asked in the lanes of the trimmed disk, each
driver's newest ping by event time, ghosts ended by tombstones, haversine, state that survives.

What it does not, and so has less work: a request is answered when it is its turn, so one that comes late sees positions
after its time; a ghost is seen, and a pair may come twice, until a tombstone has gone through two topics; nothing
merges what the lanes found for a request; a request that comes twice is answered twice; delivery is at least once.
What keylane does not, and so has less work: the peer's state has a changelog topic, its guests and tombstones go
through topics, and its answers go to one.

It is compiled by Janino, which comes with Spark and has a command line like javac's: a machine that runs keylane has a
Java runtime, but maybe no JDK. That is why the sources have neither lambdas nor type parameters; the machine code that
comes of them is the same. `check` holds it against brute force at a small size.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

from benchmarks.match_traffic import make_topics
from keylane.spark.jvm import find_java
from keylane.systems.jars import Jar, check, jar_folder, lacking, retrieve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Part = Literal["fan", "lanes"]

__all__ = ["BROKER", "Peer", "Progress", "fan", "match", "new_name", "peer", "running_jvm"]

HERE: Final = Path(__file__).parent
COMPILER: Final = "org.codehaus.commons.compiler.samples.CompilerDemo"
HEAP: Final = "1g"
#: What the broker needs, `running(extra=BROKER)`: with keylane's own 0 the second thread joins after the first has
#: begun, tasks move between them, and a run that ends meanwhile spins for half a minute of the processor's time.
BROKER: Final = {"group.initial.rebalance.delay.ms": "3000"}
WAIT_SECONDS: Final = 900.0
#: Which lane a driver is in is asked once for each that comes to a lane: a few partitions will do.
HOMES: Final = 12


@dataclass(frozen=True, slots=True)
class Peer:
    """What a run took: first record to last, pairs it found, and records for each second of one core."""

    seconds: float
    pairs: int
    records_per_second_per_core: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: records in and out of each part of the topology, as the JVM prints them."""

    pings: int
    requests: int
    guests: int
    answered: int
    pairs: int
    arrived_out: int
    arrived_in: int
    left_out: int
    left_in: int
    nanoseconds: int
    cpu_nanoseconds: int

    @property
    def settled(self) -> bool:
        """Whether neither news of a driver nor a tombstone is under way."""
        return (self.arrived_out, self.left_out) == (self.arrived_in, self.left_in)


class Run:
    """One part of the topology, running in a JVM that is there."""

    def __init__(self, jvm: subprocess.Popen[str], part: Part, name: str) -> None:
        self._in, self._out = _pipes(jvm)
        self._tell(f"{part} {name}")

    def until(self, is_done: Callable[[Progress], bool]) -> Progress:
        """Wait, then flush, commit and close: the last counts."""
        end = time.monotonic() + WAIT_SECONDS
        while not is_done(found := self._heard()):
            if time.monotonic() > end:
                raise TimeoutError(f"Kafka Streams had no end: {found}")
        self._tell("stop")
        while not (line := self._line()).startswith("closed "):
            pass
        return _progress(line.removeprefix("closed "))

    def _tell(self, line: str) -> None:
        self._in.write(f"{line}\n")
        self._in.flush()

    def _heard(self) -> Progress:
        return _progress(self._line())

    def _line(self) -> str:
        line = self._out.readline()
        if not line:
            raise EOFError("Kafka Streams has died; what it said is above")
        return line


def peer(bootstrap: str, drivers: str, riders: str, lanes: int, radius_m: float, pings: int, requests: int) -> Peer:
    """Match what both topics hold, twice, and say what the second time took."""
    with running_jvm(bootstrap, drivers, riders, lanes, radius_m) as jvm:
        for _ in range(2):
            name = new_name(bootstrap, lanes)
            fanned = fan(jvm, name, requests)
            matched = match(jvm, name, pings, requests + fanned.guests)
    cpu = (fanned.cpu_nanoseconds + matched.cpu_nanoseconds) / 1e9
    seconds = (fanned.nanoseconds + matched.nanoseconds) / 1e9
    return Peer(seconds, matched.pairs, (pings + requests) / cpu, cpu)


def fan(jvm: subprocess.Popen[str], name: str, requests: int) -> Progress:
    """Copy so many requests to the other lanes that may hold an answer."""
    return Run(jvm, "fan", name).until(lambda found: found.requests == requests)


def match(jvm: subprocess.Popen[str], name: str, pings: int, answers: int) -> Progress:
    """Read so many pings, give so many answers, and let no tombstone be under way."""
    return Run(jvm, "lanes", name).until(
        lambda found: found.settled and (found.pings, found.answered) == (pings, answers)
    )


def new_name(bootstrap: str, lanes: int) -> str:
    """A name for a run, with topics of its own; it writes NAME-matches."""
    name = f"peer-{time.time_ns()}"
    many = {"guests": lanes, "left": lanes, "matches": lanes, "arrivals": min(HOMES, lanes)}
    make_topics(bootstrap, {f"{name}-{what}": count for what, count in many.items()})
    return name


@contextmanager
def running_jvm(
    bootstrap: str, drivers: str, riders: str, lanes: int, radius_m: float
) -> Iterator[subprocess.Popen[str]]:
    """The JVM, which ends with the block, or with this process: it sees its standard input close."""
    jars = ":".join(str(path) for path in _jars())
    with tempfile.TemporaryDirectory(prefix="keylane-peer-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _compile(jars, folder / "classes")
        command = [str(_java()), f"-Xmx{HEAP}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command += ["-cp", f"{folder / 'classes'}:{jars}", "peer.Peer", bootstrap, drivers, riders]
        command += [str(lanes), repr(radius_m), str(folder / "state")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as jvm:
            try:
                yield jvm
            finally:
                _pipes(jvm)[0].close()
                jvm.kill()


def _pipes(jvm: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert jvm.stdin is not None
    assert jvm.stdout is not None
    return jvm.stdin, jvm.stdout


def _progress(line: str) -> Progress:
    return Progress(*(int(number) for number in line.split()[: len(fields(Progress))]))


def _jars() -> list[Path]:
    """The pinned jars, fetched into the cache where they are not there."""
    lines = (HERE / "jars.lock").read_text("utf-8").splitlines()
    pinned = [_jar(*line.split()) for line in lines if line and not line.startswith("#")]
    folder = jar_folder()
    if away := lacking(pinned, folder):
        folder.mkdir(parents=True, exist_ok=True)
        print(f"fetching {len(away)} jars of Kafka Streams, once, into {folder}", file=sys.stderr)
        retrieve(away, folder, check)
    for jar in pinned:
        check(jar, folder / jar.file)
    return [folder / jar.file for jar in pinned]


def _jar(coordinate: str, sha256: str, kit: str) -> Jar:
    group, artifact, number = coordinate.split(":")
    return Jar(group, artifact, number, sha256, (kit,))


def _compile(jars: str, into: Path) -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    spark = Path(spec.origin).parent / "jars"
    compiler = ":".join(str(next(spark.glob(f"{name}-*.jar"))) for name in ("janino", "commons-compiler"))
    into.mkdir()
    sources = [str(path) for path in sorted((HERE / "java").rglob("*.java"))]
    subprocess.run([str(_java()), "-cp", compiler, COMPILER, "-d", str(into), "-classpath", jars, *sources], check=True)
    assert (into / "peer" / "Peer.class").exists()


def _java() -> Path:
    return find_java().home / "bin" / "java"

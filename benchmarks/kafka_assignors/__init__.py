"""Kafka's own assignors in a JVM of their own: what keylane's are compared with, in tests and in figures.

    with running() as kafka:
        kafka.assign("sticky", members, lanes, previous, generation=1)
        kafka.timed("sticky", 500, 2_000, 2_000)

The classic ones are those of kafka-clients, the uniform one is the broker's. The Java sources are compiled by Janino,
which comes with Spark: a machine that runs keylane has a Java runtime, but maybe no JDK.
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from keylane.groups.model import Assignment, Lanes, Member
from keylane.spark.jvm import find_java
from keylane.systems.jars import fetched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.groups.model import Lane

__all__ = ["Kafka", "Timed", "running"]

COMPILER: Final = "org.codehaus.commons.compiler.samples.CompilerDemo"
HEAP: Final = "2g"


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of the processor for a first assignment, and for one after a member has left; lanes that were kept."""

    first: float
    second: float
    kept: int


class Kafka:
    """A JVM that answers one group after the other."""

    def __init__(self, into: IO[str], out: IO[str]) -> None:
        self._into, self._out = into, out

    def assign(
        self,
        name: str,
        members: Sequence[Member],
        lanes: Lanes,
        previous: Assignment | None = None,
        generations: Mapping[str, int] | None = None,
    ) -> Assignment:
        """What Kafka's assignor of a name makes of a group; `generations` of the members that own, otherwise 1."""
        owned = previous.as_lists() if previous else {}
        return self.claimed(name, members, lanes, owned, generations or {})

    def claimed(
        self,
        name: str,
        members: Sequence[Member],
        lanes: Lanes,
        owned: Mapping[str, Sequence[Lane]],
        generations: Mapping[str, int],
    ) -> Assignment:
        """The same, where several members may say that they own a lane."""
        lines = [f"topic\t{topic}\t{count}" for topic, count in zip(lanes.topics, lanes.counts, strict=True)]
        lines += [
            f"racks\t{topic}\t{index}\t{','.join(sorted(there))}" for (topic, index), there in lanes.racks.items()
        ]
        for member in members:
            generation = generations.get(member.id, 1) if member.id in owned else -1
            lines.append(f"member\t{member.id}\t{member.instance or '-'}\t{member.rack or '-'}\t{generation}")
            lines.append("\t".join(["reads", *(topic for topic in lanes.topics if member.takes(topic))]))
            for topic in lanes.topics:
                indexes = [str(index) for name_, index in owned.get(member.id, ()) if name_ == topic]
                lines += ["\t".join(["owns", topic, *indexes])] if indexes else []
        self._say("\n".join([*lines, f"assign\t{name}"]))
        found: dict[str, list[Lane]] = {}
        while (words := self._line())[0] != "end":
            found[words[1]] = [(words[n], int(words[n + 1])) for n in range(2, len(words), 2)]
        return Assignment.of_lists(lanes, found)

    def timed(self, name: str, topics: int, lanes: int, members: int) -> Timed:
        """Both assignments of a group in which all read all, and their processor time, collector included."""
        self._say(f"timed\t{name}\t{topics}\t{lanes}\t{members}")
        _, first, second, kept = self._line()
        return Timed(int(first) / 1e9, int(second) / 1e9, int(kept))

    def _say(self, text: str) -> None:
        self._into.write(text + "\n")
        self._into.flush()

    def _line(self) -> list[str]:
        line = self._out.readline()
        if not line:
            raise EOFError("the JVM has died; what it printed is above")
        return line.rstrip("\n").split("\t")


@contextmanager
def running() -> Iterator[Kafka]:
    """The JVM, which ends with the block."""
    jars = ":".join(str(path) for path in fetched("broker"))
    with tempfile.TemporaryDirectory(prefix="keylane-assignors-", ignore_cleanup_errors=True) as folder:
        _compile(jars, Path(folder))
        command = [str(_java()), f"-Xmx{HEAP}", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{folder}:{jars}", "Oracle"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", errors="surrogatepass"
        ) as jvm:
            assert jvm.stdin is not None
            assert jvm.stdout is not None
            try:
                yield Kafka(jvm.stdin, jvm.stdout)
            finally:
                jvm.stdin.close()
                jvm.kill()


def _compile(jars: str, into: Path) -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    spark = Path(spec.origin).parent / "jars"
    compiler = ":".join(str(next(spark.glob(f"{name}-*.jar"))) for name in ("janino", "commons-compiler"))
    sources = [str(path) for path in sorted((Path(__file__).parent / "java").glob("*.java"))]
    subprocess.run([str(_java()), "-cp", compiler, COMPILER, "-d", str(into), "-classpath", jars, *sources], check=True)
    assert (into / "Oracle.class").exists()


def _java() -> Path:
    return find_java().home / "bin" / "java"

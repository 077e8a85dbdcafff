"""What keylane can use on this machine, what is missing, and the one line that fixes it. Changes nothing.

Each part is checked by using it: a library is imported, Java is run, a jar is hashed, a broker is contacted. What Spark
needs is needed where PySpark is installed, and what Kafka needs where a broker is named.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pwd import getpwuid
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from keylane import __version__
from keylane.errors import KeylaneError, MissingExtraError
from keylane.extras import install_command
from keylane.numbers import agree, plural, size
from keylane.spark.jvm import OLDEST, cache_folder, find_java
from keylane.systems import jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

State: TypeAlias = Literal["ok", "missing", "wrong"]

SPARK: Final = "Spark"
KAFKA: Final = "Kafka"
BROKERS: Final = "brokers"
KINESIS: Final = "Kinesis"
DEV_KAFKA: Final = "dev kafka"
BROKER: Final = "broker"
GEO: Final = "locations"
CELLS: Final = "faster cells"
#: Read twice, this far apart, a wall clock that is being set differs from the monotonic clock.
CLOCK_SECONDS: Final = 0.2
CLOCK_SLACK: Final = 0.05
DAY: Final = 86_400
#: Spark does not start in less memory, nor sort anything in less room.
LEAST_BYTES: Final = 512 * 2**20
CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
BROKER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Inspection:
    """One part that was checked: its state, what was found, what it is used for, and the fix."""

    part: str
    state: State
    needed: bool
    used_for: str
    found: str
    fix: str | None = None


class Library(NamedTuple):
    """A library as pyproject.toml requires it; one without an extra is installed with keylane itself."""

    name: str
    module: str
    least: str
    below: str | None
    used_for: str
    extra: str


LIBRARIES: Final = (
    Library("pyarrow", "pyarrow", "18", None, "all", ""),
    Library("pyspark", "pyspark", "4.2", "4.3", SPARK, "spark"),
    Library("pandas", "pandas", "2.2", "3", SPARK, "spark"),
    Library("confluent-kafka", "confluent_kafka", "2.6", None, KAFKA, "kafka"),
    Library("kafka-python", "kafka", "3.0", None, BROKERS, "kafka"),
    Library("boto3", "boto3", "1.35", None, KINESIS, "kinesis"),
    Library("protobuf", "google.protobuf", "5", None, KINESIS, "kinesis"),
    Library("h3", "h3", "4.1", None, GEO, "geo"),
    Library("scipy", "scipy", "1.14", None, GEO, "geo"),
)


class Problem(Exception):  # noqa: N818 - a finding of this module's own; it never leaves it
    """A part that is missing or wrong, and the fix."""

    def __init__(self, state: State, found: str, fix: str) -> None:
        super().__init__(found)
        self.state, self.found, self.fix = state, found, fix


def is_well(parts: list[Inspection]) -> bool:
    """Whether everything that is needed is there."""
    return all(part.state == "ok" for part in parts if part.needed)


def lacking_for_kafka(parts: list[Inspection]) -> list[str]:
    """Parts that Kafka needs and that are not there, where Kafka is not what was asked about; without the broker."""
    return _lacking([part for part in parts if part.used_for in (KAFKA, BROKERS, DEV_KAFKA) and part.part != BROKER])


def lacking_for_spark(parts: list[Inspection]) -> list[str]:
    """Parts that Spark needs and that are not there, where PySpark is not installed."""
    return _lacking([part for part in parts if part.used_for == SPARK])


def _lacking(parts: list[Inspection]) -> list[str]:
    return [part.part for part in parts if part.state != "ok" and not part.needed]


def examined(broker: str | None = None, spark_jars: str | None = None) -> Iterator[Inspection]:
    """Every part in turn. What Spark needs is needed where it is installed, what Kafka needs with a broker named."""
    kafka, spark = broker is not None, spark_jars is not None or _is_installed("pyspark")
    yield Inspection(
        "keylane", "ok", needed=True, used_for="all", found=f"{__version__} in {Path(__file__).parents[1]}"
    )
    python = f"{'.'.join(map(str, sys.version_info[:3]))} in {sys.prefix}"
    yield Inspection("Python", "ok", needed=True, used_for="all", found=python)
    yield _part("user", SPARK, _user, needed=spark)
    yield _part("Java", SPARK, _java, needed=spark)
    needs = {"all": True, SPARK: spark, KAFKA: kafka}
    for library in LIBRARIES:
        needed = needs.get(library.used_for, False)
        yield _part(library.name, library.used_for, partial(_library, library), needed=needed)
    connector = spark and (kafka or spark_jars is not None)
    yield _part("Spark's Kafka connector", KAFKA, partial(_connector, spark_jars), needed=connector)
    yield _part("Kafka's own jars", DEV_KAFKA, partial(_kit, "broker", "keylane dev jars broker"), needed=False)
    yield _part("H3 for Java", CELLS, partial(_kit, "geo", "keylane dev jars geo"), needed=False)
    yield _part("AWS region", KINESIS, _region, needed=False)
    yield _part(BROKER, KAFKA, partial(_broker, broker), needed=kafka)
    yield _part("disk", SPARK, _disk, needed=spark)
    yield _part("memory", SPARK, _memory, needed=spark)
    yield _part("clock", "time windows", _clock)


def _part(name: str, used_for: str, look: Callable[[], str], *, needed: bool = True) -> Inspection:
    try:
        return Inspection(name, "ok", needed, used_for, look())
    except Problem as problem:
        return Inspection(name, problem.state, needed, used_for, problem.found, problem.fix)
    except KeylaneError as error:
        found, _, hint = str(error).rpartition(" hint: ")
        state: State = "missing" if isinstance(error, MissingExtraError) else "wrong"
        return Inspection(
            name, state, needed, used_for, found.rstrip(":;") or hint, hint if found else "see the message"
        )


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _user() -> str:
    """Spark starts for no user id without a name; a cache that others can write to is used by nothing."""
    try:
        name = getpwuid(os.geteuid()).pw_name
    except KeyError:
        fix = "add it to /etc/passwd of the container, or run as a user that is in it"
        raise Problem("wrong", f"user id {os.geteuid()} has no name", fix) from None
    return f"{name}, cache in {cache_folder() or 'no folder: KEYLANE_CACHE is empty'}"


def _java() -> str:
    java = find_java()
    try:
        command = [str(java.home / "bin" / "java"), "-version"]
        subprocess.run(command, capture_output=True, check=True, timeout=60)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.SubprocessError) as error:
        raise Problem("wrong", f"{java.home} does not run: {error}", "set JAVA_HOME to one that does") from None
    return f"{java.version} in {java.home} (requires {OLDEST} or later)"


def _library(library: Library) -> str:
    fix = install_command(library.extra or "")
    wants = f"requires {library.least} or later" + (f", below {library.below}" if library.below else "")
    try:
        found = version(library.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module(library.module)
    except PackageNotFoundError:
        raise Problem("missing", f"not installed ({wants})", fix) from None
    except Exception as error:  # noqa: BLE001 - any error on import is the finding
        raise Problem("wrong", f"{found} does not load: {error!r:.120}", fix) from None
    is_old = _numbers(found) < _numbers(library.least)
    if is_old or (library.below and _numbers(found) >= _numbers(library.below)):
        raise Problem("wrong", f"{found} ({wants})", fix)
    return f"{found} ({wants})"


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def _connector(given: str | None) -> str:
    if given is None:
        return _kit("connector", "keylane dev jars")
    return f"{plural(len(jars.connector_in(Path(given))), 'jar')} in {given}"


def _kit(name: jars.Kit, fix: str) -> str:
    """Whether a kit is present with the pinned checksums; nothing is fetched."""
    wanted, folder = jars.kit(name), jars.jar_folder()
    away = jars.lacking(wanted, folder)
    if away:
        raise Problem(
            "missing",
            f"{len(away)} of {plural(len(wanted), 'jar')} {agree(len(away), 'is', 'are')} not in {folder}",
            fix,
        )
    for jar in wanted:
        jars.check(jar, folder / jar.file)
    return f"{plural(len(wanted), 'jar')} in {folder}, checksums as pinned"


def _region() -> str:
    """The region that is configured for AWS; an address names its own, so none is needed."""
    from keylane.systems.kinesis.access import configured_region

    found = configured_region()
    return (
        f"{found}; an address names its own (kinesis://REGION/STREAM)" if found else "named by kinesis://REGION/STREAM"
    )


def _broker(address: str | None) -> str:
    """The broker that was named, with the properties that are configured for it, or the one of `keylane dev kafka`."""
    from keylane.systems.broker import default_folder, find, librdkafka_settings
    from keylane.systems.broker.cluster import brokers_at
    from keylane.systems.endpoint import configured_properties
    from keylane.systems.kafka.access import kafka_access

    own = None if address else find(default_folder())
    if address:
        settings = kafka_access(address, configured_properties("kafka", address)).librdkafka()
    elif own:
        settings = librdkafka_settings(own)
    else:
        raise Problem("missing", "no address given, and no `dev kafka` broker is running", "keylane dev kafka up")
    there = settings["bootstrap.servers"]
    count = brokers_at(settings, BROKER_SECONDS)
    if count is None:
        fix = "check the address; properties for TLS or a password are taken from keylane.toml or KEYLANE_KAFKA_FILE"
        raise Problem("missing", f"{there} did not answer within {BROKER_SECONDS:.0f} s", fix)
    return f"{there} answers and lists {plural(count, 'broker')}"


def _disk() -> str:
    """Room where Spark sorts and where temporary files are."""
    folder = tempfile.gettempdir()
    return enough(shutil.disk_usage(folder).free, f"free in {folder}", "free some, or set TMPDIR to a folder with room")


def _memory() -> str:
    """What this machine has, or what a container may use of it."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        there = min(there, int(CONTAINER_LIMIT.read_text(encoding="ascii")))
    return enough(there, f"for {os.cpu_count() or 1} cores", "a larger machine, or a higher limit of the container")


def enough(there: int, what: str, fix: str) -> str:
    """So many bytes, or the problem that they are too few for Spark."""
    found = f"{size(there)} {what}"
    if there < LEAST_BYTES:
        raise Problem("wrong", f"{found} (requires {size(LEAST_BYTES)})", fix)
    return found


def _clock() -> str:
    """Checked against the monotonic clock, and the date of keylane's own files."""
    first = _both_clocks()
    time.sleep(CLOCK_SECONDS)
    return clock_finding(first, _both_clocks(), Path(__file__).stat().st_mtime)


def _both_clocks() -> tuple[float, float]:
    """Wall and monotonic clock, the closest pair of several readings: a busy machine may pause in between."""
    tries = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(20)]
    before, wall, after = min(tries, key=lambda reading: reading[2] - reading[0])
    return wall, (before + after) / 2


def clock_finding(first: tuple[float, float], second: tuple[float, float], installed: float) -> str:
    """A clock that jumps while it is watched, or that is behind the day keylane was installed, is wrong."""
    now, counted = second[0], second[1] - first[1]
    shown, jump = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC", now - first[0] - counted
    if abs(jump) > CLOCK_SLACK:
        raise Problem("wrong", f"{shown}, jumped by {jump:+.3f} s while it was observed", "timedatectl set-ntp true")
    if now < installed - DAY:
        raise Problem("wrong", f"{shown}, earlier than keylane's own files", "timedatectl set-ntp true")
    return f"{shown}, steady over {counted:.1f} s, later than keylane's own files"

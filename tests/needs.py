"""What a test needs that takes long, and in which part of `make test` it is.

Long are Java, a broker, a Kinesis server, a browser, and many cases.

`pytest --fast` does without what takes long. The parts are run side by side, each with a session of its own at most:

    routes  tests with Spark of what is carried over: tests/route, tests/aggregate, tests/integration, tests/kinesis
    spark   the other tests with Java
    servers the other tests with a broker or a Kinesis server
    plain   the other tests
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Marker -> the fixtures behind which it is started.
NEEDS: dict[str, set[str]] = {
    "jvm": {"spark", "on_connect", "way_over_connect", "kafka_jvm"},
    "broker": set(),
    "browser": {"browser"},
    "node": {"kinesalite", "kinesis_local"},
    "slow": set(),
}
#: Folder -> what its tests need: Java in processes of their own or by documented commands, or many cases.
FOLDERS = {
    "integration": {"broker"},
    "cluster": {"jvm"},
    "terminal": {"jvm"},
    "route": {"jvm"},
    "match": {"jvm"},
    "readme": {"jvm"},
    "known_truth": {"slow"},
    "parity": {"slow"},
    "properties": {"slow"},
}
#: Folders whose tests with Java are in a part of their own: what Java loads and compiles for the first batch of a
#: command costs as much as the tests that follow, so that a command is in one part. And folders that are in `plain`
#: whatever their tests need. A part does not even import what is not its own.
ROUTES = {"aggregate", "integration", "kinesis", "route"}
PLAIN = {"architecture", "crosscheck", "history", "known_truth", "properties", "security", "unit", "vectors", "worlds"}
#: What is started for tests that wait for its answers more than they compute.
SERVERS = {"broker", "node"}
PARTS = ("routes", "spark", "servers", "plain")
PROGRAMS = {"java", "spark-submit", "chromium", "chromedriver", "node", "npm"}
STARTING = {"subprocess.Popen", "os.posix_spawn", "os.exec"}


def needs(fixtures: Iterable[str], folder: str) -> set[str]:
    """The markers of a test that asks for these fixtures, in a folder of `tests`."""
    return {marker for marker, behind in NEEDS.items() if behind & set(fixtures)} | FOLDERS.get(folder, set())


def part_of(folder: str, markers: Iterable[str]) -> str:
    """The part of `make test` that runs a test of a folder: exactly one, so that a new folder is in the right part."""
    if folder in PLAIN:
        return "plain"
    if "jvm" in markers:
        return "routes" if folder in ROUTES else "spark"
    return "servers" if SERVERS & set(markers) else "plain"


def may_have(part: str, folder: str) -> bool:
    """Whether a folder can have tests of a part."""
    always = FOLDERS.get(folder, set())
    return part in {part_of(folder, always | more) for more in (set(), {"jvm"}, {"node"})}


def refuse_to_start(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook of Python: to start what `--fast` does without is an error of the test.

    A program that a test has made itself is no Java, and to ask a Java for its version takes a moment.
    """
    if event in STARTING and arguments[0] is not None:
        path = Path(os.fsdecode(arguments[0]))
        program, is_fake = path.name, path.is_relative_to(gettempdir())
        if program in PROGRAMS and not is_fake and "-version" not in map(str, arguments[1] or ()):
            raise RuntimeError(f"--fast starts no {program}: ask for the fixture that does, or mark the test")

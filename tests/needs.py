"""What a test needs that takes long: Java, a broker, a browser, or many cases. `pytest --fast` does without."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Marker -> the fixtures behind which it is started.
NEEDS: dict[str, set[str]] = {
    "jvm": {"spark", "on_connect", "way_over_connect"},
    "broker": set(),
    "browser": {"browser"},
    "slow": set(),
}
#: Folder -> what its tests need: Java in processes of their own or by documented commands, or many cases.
FOLDERS = {
    "integration": {"jvm", "broker"},
    "cluster": {"jvm"},
    "route": {"jvm"},
    "match": {"jvm"},
    "readme": {"jvm"},
    "parity": {"slow"},
    "properties": {"slow"},
}
PROGRAMS = {"java", "spark-submit", "chromium", "chromedriver"}
STARTING = {"subprocess.Popen", "os.posix_spawn", "os.exec"}


def needs(fixtures: Iterable[str], folder: str) -> set[str]:
    """The markers of a test that asks for these fixtures, in a folder of `tests`."""
    return {marker for marker, behind in NEEDS.items() if behind & set(fixtures)} | FOLDERS.get(folder, set())


def refuse_to_start(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook of Python: to start what `--fast` does without is an error of the test.

    A program that a test has made itself is no Java, and to ask a Java for its version takes a moment.
    """
    if event in STARTING and arguments[0] is not None:
        path = Path(os.fsdecode(arguments[0]))
        program, is_fake = path.name, path.is_relative_to(gettempdir())
        if program in PROGRAMS and not is_fake and "-version" not in map(str, arguments[1] or ()):
            raise RuntimeError(f"--fast starts no {program}: ask for the fixture that does, or mark the test")

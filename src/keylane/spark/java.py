"""Which Java runs Spark: the first of the usual places that is new enough, or an error that says what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["OLDEST", "Java", "find_java"]

OLDEST: Final = 17
USUAL: Final = (
    ("/usr/lib/jvm", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("/opt", "*j[dr][ke]*"),
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java on this machine: its folder, and its version as it calls itself."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """17 of `17.0.15`; 8 of `1.8.0_412`; 0 when nobody can tell."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)[:2]]
        return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """JAVA_HOME if it will do, then the `java` of the path, then the newest in the system's folders."""
    found = []
    for home in _homes(environ):
        java = Java(home, _version(home))
        if java.major >= OLDEST:
            return java
        found.append(f"{java.version or 'unknown'} in {home}")
    raise MissingExtraError.of(
        f"Spark needs Java {OLDEST} or later",
        got=", ".join(found) or "none",
        hint="apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
    )


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Path(on_path).resolve().parent.parent
    usual = (home for folder, pattern in USUAL for home in Path(folder).glob(pattern))
    yield from sorted((home for home in usual if (home / "bin" / "java").exists()), key=_by_version)


def _by_version(home: Path) -> tuple[bool, int, str]:
    """What Spark was tried on before what is newer."""
    major = Java(home, _version(home)).major
    return major < OLDEST, major, str(home)


def _version(home: Path) -> str:
    """From the file beside the binary, because asking the binary takes as long as starting it."""
    try:
        told = re.search(r'JAVA_VERSION="([^"]+)"', (home / "release").read_text(encoding="utf-8"))
    except OSError:
        told = None
    return told[1] if told else _asked(home)


def _asked(home: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    told = re.search(r'version "([^"]+)"', done.stderr)
    return told[1] if told else ""

"""Fetch the Java archives that tests and the Kafka pipelines want, by the Ivy that PySpark ships. No Maven needed.

    python scripts/fetch_jars.py FOLDER [NAME ...]

Each is pinned by version and SHA-256, and one that is there and whole is not fetched again. Where they come from is
Ivy's business: no address stands here, so that the reader's own mirror settings hold.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from keylane.spark.java import find_java

FETCH_SECONDS = 300


@dataclass(frozen=True)
class Jar:
    """One jar as the world names it, and what it must be."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its name on disk."""
        return f"{self.artifact}-{self.version}.jar"


JARS = {
    jar.artifact: jar
    for jar in (
        Jar(
            "org.apache.kafka",
            "kafka-clients",
            "3.9.2",
            "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
        ),
    )
}


class FetchError(Exception):
    """A jar that cannot be had, or is not the one that was pinned."""


def fetch(name: str, folder: Path) -> Path:
    """The path of a jar in this folder; fetched if it is not there, refused if it is another."""
    if name not in JARS:
        raise FetchError(f"no such jar: got {name!r}; allowed: {', '.join(JARS)}")
    jar, path = JARS[name], folder / JARS[name].file
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _retrieve(jar, Path(scratch))
            _check(jar, Path(scratch) / jar.file)
            Path(scratch, jar.file).replace(path)
    _check(jar, path)
    return path


def _check(jar: Jar, path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise FetchError(f"{path.name} is not the pinned one: got SHA-256 {found}; allowed: {jar.sha256}")


def _retrieve(jar: Jar, folder: Path) -> None:
    """One jar without what it depends on, by Ivy, with a cache of its own: a half-filled one elsewhere misleads it."""
    command = _command(jar, folder)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{jar.file} could not be fetched: {error}") from error
    if done.returncode or not (folder / jar.file).exists():
        told = (done.stdout + done.stderr).strip()[-500:]
        raise FetchError(f"{jar.file} could not be fetched; hint: is there a network? Ivy says: {told}")


def _command(jar: Jar, folder: Path) -> list[str]:
    java = str(find_java().home / "bin" / "java")
    wanted = ["-dependency", jar.group, jar.artifact, jar.version, "-notransitive", "-confs", "default"]
    into = ["-retrieve", str(folder / "[artifact]-[revision].[ext]")]
    # Some archives call themselves bundles, and would be left out.
    kinds = ["-types", "jar", "bundle", "-warn"]
    return [java, "-jar", str(_ivy()), "-cache", str(folder / "ivy"), *wanted, *kinds, *into]


def _ivy() -> Path:
    import pyspark

    return next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))


def main() -> int:
    """Fetch what is named, or all, and say where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(JARS)}")
    given = parser.parse_args()
    try:
        for name in given.names or JARS:
            sys.stdout.write(f"{fetch(name, given.folder)}\n")
    except FetchError as error:
        sys.stderr.write(f"fetch_jars: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

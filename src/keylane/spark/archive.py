"""The start-up archive: Java's own class-data sharing, which lets the second session start in about half the time.

The first session writes the classes it used into a file in the user's cache folder (some 100 MB), after Python has
ended; every later one maps that file instead of reading, checking and linking thousands of classes. It changes
nothing but time: a Java that does not like the file ignores it.

Which folder: `cache`.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from keylane.spark.cache import cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.spark.java import Java

__all__ = ["archive_options"]

#: Java warns of every class it leaves out; nobody can act on that. Errors are still said.
QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
#: A part that is this old was left by a Java that died while writing it.
STALE: Final = 3600.0


def archive_options(java: Java, class_path: str = "", environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The Java options that use the archive, or make it when there is none yet; none where it cannot be."""
    folder = cache_folder(environ)
    if folder is None or _has_conf_folder(environ):
        return ()
    path = folder / f"spark-{pyspark.__version__}-java-{java.version}-{_digest(java, class_path)}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _adopt(path)
    except OSError:
        return ()
    if path.exists():
        return (f"-XX:SharedArchiveFile={path}", *QUIET)
    return (f"-XX:ArchiveClassesAtExit={path}.{os.getpid()}.part", *QUIET)


def _has_conf_folder(environ: Mapping[str, str]) -> bool:
    """Java archives no class path with a folder of files on it, and complains at length."""
    home = environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    folder = Path(environ.get("SPARK_CONF_DIR") or Path(home) / "conf")
    return folder.is_dir() and any(folder.iterdir())


def _digest(java: Java, class_path: str) -> str:
    """An archive fits one Java and one class path."""
    told = "\n".join((str(java.home), str(Path(pyspark.__file__).parent), class_path))
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _adopt(path: Path) -> None:
    """Give a finished part its name; remove what is left of others."""
    for part in path.parent.glob(f"{path.name}.*.part"):
        if _finished(part) and not path.exists():
            part.replace(path)
        elif _finished(part) or time.time() - part.stat().st_mtime > STALE:
            part.unlink(missing_ok=True)


def _finished(part: Path) -> bool:
    """Java writes the header last, over zeros."""
    with part.open("rb") as file:
        return any(file.read(4))

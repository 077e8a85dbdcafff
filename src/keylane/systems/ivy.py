"""Jars from wherever Java programs get them, by the Ivy that PySpark ships: no Maven, and no address stands here.

Which jars, and what they must be: `jars`. A file named by KEYLANE_IVY_SETTINGS is Ivy's own settings file, for sites
with a mirror; without it Ivy asks where it always asks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import quoteattr

from keylane.errors import JarError, MissingExtraError
from keylane.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.systems.jars import Jar

__all__ = ["retrieve"]

FETCH_SECONDS: Final = 900
#: A scratch folder that is this old was left by a process that was killed.
STALE_SECONDS: Final = 3600
SCRATCH: Final = ".fetch-"


def retrieve(
    jars: Sequence[Jar], folder: Path, check: Callable[[Jar, Path], None], seconds: float | None = None
) -> None:
    """Fetch these jars, and nothing they lean on, into a folder: every one checked before the first is put there.

    `seconds` is how long they are waited for; default: FETCH_SECONDS.
    """
    _sweep(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=SCRATCH) as name:
        scratch = Path(name)
        _ask(jars, scratch, seconds or FETCH_SECONDS)
        for jar in jars:
            check(jar, scratch / jar.file)
        for jar in jars:
            (scratch / jar.file).replace(folder / jar.file)


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{SCRATCH}*"):
        if time.time() - left.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _ask(jars: Sequence[Jar], scratch: Path, seconds: float) -> None:
    (scratch / "ivy.xml").write_text(_wanted(jars), encoding="utf-8")
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java, and arguments of our own
            _command(scratch), capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise _failed(jars, f"no end after {seconds:g} s") from None
    away = [jar for jar in jars if not (scratch / jar.file).exists()]
    if done.returncode or away:
        raise _failed(away or jars, _complaint(done.stdout + done.stderr))


def _failed(jars: Sequence[Jar], told: str) -> JarError:
    names = ", ".join(jar.file for jar in jars[:3]) + (f" and {len(jars) - 3} more" if len(jars) > 3 else "")
    return JarError.of(
        f"{names} could not be fetched; nothing was changed",
        got=told,
        hint="is there a network? KEYLANE_IVY_SETTINGS names a mirror; --spark-jars DIR needs neither",
    )


def _complaint(told: str) -> str:
    """Why, in Ivy's words: what it could not reach, then what it did not find; it says a great deal else."""
    reached = re.findall(r"[\w.]+(?:Exception|Error): [^)\n]+", told)
    found = re.findall(r"(?:module not found|not found|download failed): *(\S+)", told)
    why = [*dict.fromkeys(reached)][:1] + [f"not found: {name}" for name in [*dict.fromkeys(found)][:1]]
    return "; ".join(why) or told.strip()[-200:]


def _wanted(jars: Sequence[Jar]) -> str:
    """A module that leans on each jar by its exact version, and on nothing through them."""
    lines = [
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' conf="default" transitive="false"/>'
        for jar in jars
    ]
    about = '<info organisation="keylane" module="jars"/><configurations><conf name="default"/></configurations>'
    return f'<ivy-module version="2.0">{about}<dependencies>{"".join(lines)}</dependencies></ivy-module>'


def _command(scratch: Path) -> list[str]:
    settings = os.environ.get("KEYLANE_IVY_SETTINGS")
    # A cache of its own: a half-filled one elsewhere misleads Ivy. Some archives call themselves bundles.
    ours = ["-cache", str(scratch / "ivy"), "-ivy", str(scratch / "ivy.xml"), "-types", "jar", "bundle", "-warn"]
    ours += ["-settings", settings] if settings else []
    into = ["-retrieve", str(scratch / "[artifact]-[revision].[ext]")]
    return [str(find_java().home / "bin" / "java"), "-jar", str(_ivy()), *ours, *into]


def _ivy() -> Path:
    """Found without importing pyspark, which takes its time."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtraError.named("spark", "pyspark")
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))

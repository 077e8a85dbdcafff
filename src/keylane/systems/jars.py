"""Pinned Java archives: which ones, where they are, and whether their checksums match.

`jars.lock` names every one with its SHA-256. They are found in the cache folder, or fetched into it once by Ivy, or
taken from a folder that the user names (`--spark-jars`). They come in kits:

    connector   Spark's Kafka connector, four jars, for the pyspark that is installed
    broker      Kafka as a server, for `keylane dev kafka` and the tests
    tools       the broker's jars and Kafka's own command-line tools, for the benchmarks
    geo         H3 for Java, one jar: with it cells are computed inside Spark's own tasks
    zookeeper   ZooKeeper as a server, for the tests of leases

Who uses them: `connector_settings` gives a Spark session the connector; `broker` starts Kafka; `has_geo` is called
before cells are computed on Spark.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args
from xml.sax.saxutils import quoteattr

from keylane.errors import JarError, MissingExtraError, UsageError
from keylane.numbers import plural
from keylane.private import check_file, make_folder
from keylane.spark.jvm import cache_folder, find_java
from keylane.systems.atomic import force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    Tell = Callable[[str], None]


# Jars from the usual repositories, by the Ivy that PySpark ships: no Maven, and no address is hard-coded here.


FETCH_SECONDS: Final = 900
#: A scratch folder that is this old was left by a process that was killed.
STALE_SECONDS: Final = 3600
SCRATCH: Final = ".fetch-"


def retrieve(
    jars: Sequence[Jar], folder: Path, check: Callable[[Jar, Path], None], seconds: float | None = None
) -> None:
    """Fetch these jars, without their dependencies, into a folder: all are checked before the first is put there.

    `seconds` is the time limit; default: FETCH_SECONDS.
    """
    for left in folder.glob(f"{SCRATCH}*"):
        if time.time() - left.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=SCRATCH) as name:
        scratch = Path(name)
        _ask(jars, scratch, seconds or FETCH_SECONDS)
        for jar in jars:
            check(jar, scratch / jar.file)
            force(scratch / jar.file)
        for jar in jars:
            (scratch / jar.file).replace(folder / jar.file)
        force(folder)


def _ask(jars: Sequence[Jar], scratch: Path, seconds: float) -> None:
    (scratch / "ivy.xml").write_text(_wanted(jars), encoding="utf-8")
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java, and arguments of our own
            _command(scratch), capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise _failed(jars, f"timed out after {seconds:g} s") from None
    away = [jar for jar in jars if not (scratch / jar.file).exists()]
    if done.returncode or away:
        raise _failed(away or jars, _complaint(done.stdout + done.stderr))


def _failed(jars: Sequence[Jar], cause: str) -> JarError:
    names = ", ".join(jar.file for jar in jars[:3]) + (f" and {len(jars) - 3} more" if len(jars) > 3 else "")
    return JarError.of(
        f"{names} could not be fetched; nothing was changed",
        got=cause,
        hint="is there a network? KEYLANE_IVY_SETTINGS names a mirror; --spark-jars DIR needs neither",
    )


def _complaint(output: str) -> str:
    """The cause in the output of Ivy: what it could not reach, then what it did not find."""
    reached = re.findall(r"[\w.]+(?:Exception|Error): [^)\n]+", output)
    absent = re.findall(r"(?:module not found|not found|download failed): *(\S+)", output)
    why = [*dict.fromkeys(reached)][:1] + [f"not found: {name}" for name in [*dict.fromkeys(absent)][:1]]
    return "; ".join(why) or output.strip()[-200:]


def _wanted(jars: Sequence[Jar]) -> str:
    """A module that depends on each jar by its exact version, without transitive dependencies."""
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
    """Located without importing pyspark, which is slow."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtraError.named("spark", "pyspark")
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))


Kit: TypeAlias = Literal["connector", "broker", "tools", "geo", "zookeeper"]

KITS: Final[tuple[Kit, ...]] = get_args(Kit)
CONNECTOR: Final = "spark-sql-kafka-0-10_2.13"
#: Time limit for an optional jar.
PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Jar:
    """One archive: its coordinates, its checksum, and the kits it is part of."""

    group: str
    artifact: str
    version: str
    sha256: str
    kits: tuple[str, ...]

    @property
    def file(self) -> str:
        """Its name on disk."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinate(self) -> str:
        """Its name as build tools write it."""
        return f"{self.group}:{self.artifact}:{self.version}"


def silent(_text: str) -> None:
    """Report nothing."""


def kit(name: Kit) -> tuple[Jar, ...]:
    """The jars of a kit. The connector's are those for the pyspark that is installed, or an error."""
    if name == "connector":
        _check_pyspark()
    return tuple(jar for jar in _pinned() if name in jar.kits)


@cache
def _pinned() -> tuple[Jar, ...]:
    lines = files("keylane.systems").joinpath("jars.lock").read_text(encoding="utf-8").splitlines()
    entries = (line.replace(":", " ").split() for line in lines if line and not line.startswith("#"))
    return tuple(
        Jar(group, artifact, number, sha, tuple(kits.split(","))) for group, artifact, number, sha, kits in entries
    )


def fetched(name: Kit, folder: Path | None = None, tell: Tell = silent, seconds: float | None = None) -> list[Path]:
    """The paths of a kit's jars in `folder` (default: the cache); missing ones are fetched first.

    One of the cache that is not the pinned archive is fetched again: a power cut may have left it empty. In a folder
    of the user's own it is refused.
    """
    wanted, cached = kit(name), jar_folder() if folder is None else None
    folder = cached or folder or jar_folder()
    away = _lacking_or_damaged(wanted, folder, tell) if cached else lacking(wanted, folder)
    if not cached:
        _copy_from_cache(away, folder)
        away = lacking(wanted, folder)
    if away:
        tell(f"fetching {plural(len(away), 'jar')} of the kit {name}, once, into {folder}")
        make_folder(folder) if cached else folder.mkdir(parents=True, exist_ok=True)
        retrieve(away, folder, check, seconds)
    for jar in wanted:
        check(jar, folder / jar.file)
    return [folder / jar.file for jar in wanted]


def _lacking_or_damaged(jars: Iterable[Jar], folder: Path, tell: Tell) -> list[Jar]:
    out = lacking(jars, folder)
    for jar in (jar for jar in jars if jar not in out):
        check_file(folder / jar.file)
        if _digest(folder / jar.file) != jar.sha256:
            tell(f"{folder / jar.file} is not the pinned archive, and is replaced")
            out.append(jar)
    return out


def has_geo(tell: Tell = silent) -> bool:
    """Whether H3 for Java is in the cache now; fetched if possible. Without it cells are computed more slowly."""
    try:
        fetched("geo", tell=tell, seconds=PATIENCE_SECONDS)
    except (JarError, MissingExtraError, OSError) as error:
        tell(f"cells are computed in Python workers, at half the speed: {error}")
        return False
    return True


def _copy_from_cache(jars: Sequence[Jar], folder: Path) -> None:
    """Jars in the cache need not be fetched again for another folder; damaged ones are."""
    cached = cache_folder()
    kept = cached / "jars" if cached else folder
    for jar in jars:
        if kept != folder and (kept / jar.file).exists() and _digest(kept / jar.file) == jar.sha256:
            folder.mkdir(parents=True, exist_ok=True)
            waiting = folder / f".{jar.file}.new"
            shutil.copyfile(kept / jar.file, waiting)
            check(jar, waiting)
            force(waiting)
            waiting.replace(folder / jar.file)


def lacking(jars: Iterable[Jar], folder: Path) -> list[Jar]:
    """Those that are not in a folder."""
    return [jar for jar in jars if not (folder / jar.file).exists()]


def check(jar: Jar, path: Path) -> None:
    """Refuse a file that is not the pinned archive."""
    digest = _digest(path)
    if digest != jar.sha256:
        raise JarError.of(
            f"{path.name} does not match its pinned checksum",
            got=f"SHA-256 {digest}",
            allowed=jar.sha256,
            hint=f"remove {path}",
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def jar_folder() -> Path:
    """Where fetched jars are kept."""
    folder = cache_folder()
    if folder is None:
        hint = "unset KEYLANE_CACHE, or give a folder of jars: --spark-jars DIR"
        raise JarError.of("fetched jars need a cache folder, and caching is off", got="KEYLANE_CACHE=''", hint=hint)
    return folder / "jars"


def connector_settings(jars: str | None = None, packages: str | None = None, tell: Tell = silent) -> dict[str, str]:
    """Settings that give a Spark session the Kafka connector: from a folder, by coordinates, or the pinned jars."""
    if jars and packages:
        raise UsageError.of("--spark-jars and --spark-packages exclude each other", allowed="one of them")
    if packages:
        return {"spark.jars.packages": packages}
    paths = connector_in(Path(jars), tell) if jars else fetched("connector", tell=tell)
    return {"spark.jars": ",".join(str(path.absolute()) for path in paths)}


def connector_in(folder: Path, tell: Tell = silent) -> list[Path]:
    """The connector's four jars in a folder of the user's own; nothing is fetched.

    A file that has a pinned name must be the pinned archive. Of its three dependencies another version
    is accepted, because a site may have later ones; the connector itself must be that of the installed pyspark.
    """
    if not folder.is_dir():
        raise JarError.of("--spark-jars is not a folder", got=str(folder))
    wanted = {jar.artifact: jar for jar in _pinned() if "connector" in jar.kits}
    present = {name: _versions(folder, name) for name in wanted}
    missing = [f"{name}-{_wanted_version(jar)}.jar" for name, jar in wanted.items() if not present[name]]
    if missing:
        hint = "keylane dev jars --to DIR, on a machine with a network"
        raise JarError.of(f"{folder} lacks {', '.join(missing)}", hint=hint)
    return [_chosen(jar, present[name], tell) for name, jar in wanted.items()]


def _wanted_version(jar: Jar) -> str:
    return pyspark_version() if jar.artifact == CONNECTOR else jar.version


def _versions(folder: Path, artifact: str) -> dict[str, Path]:
    """Every version of an archive that a folder has."""
    named = ((path, path.name.removeprefix(f"{artifact}-").removesuffix(".jar")) for path in folder.glob("*.jar"))
    return {number: path for path, number in named if path.name == f"{artifact}-{number}.jar" and number[:1].isdigit()}


def _chosen(jar: Jar, versions: dict[str, Path], tell: Tell) -> Path:
    wanted = _wanted_version(jar)
    if len(versions) > 1 and wanted not in versions:
        raise JarError.of(f"several versions of {jar.artifact}", got=", ".join(sorted(versions)), allowed=wanted)
    number = wanted if wanted in versions else next(iter(versions))
    if jar.artifact == CONNECTOR and number != wanted:
        raise JarError.of("the connector is not that of the installed pyspark", got=number, allowed=wanted)
    if number == jar.version:
        check(jar, versions[number])
    else:
        tell(f"{versions[number].name} is used unchecked: keylane pins {jar.version}")
    return versions[number]


def pyspark_version() -> str:
    """The installed pyspark's, without importing it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        raise MissingExtraError.named("spark", "pyspark") from None


def _check_pyspark() -> None:
    installed, pinned = pyspark_version(), next(jar.version for jar in _pinned() if jar.artifact == CONNECTOR)
    if installed != pinned:
        raise JarError.of(
            "no connector is pinned for the installed pyspark",
            got=installed,
            allowed=pinned,
            hint=f"--spark-packages org.apache.spark:{CONNECTOR}:{installed}, or --spark-jars DIR",
        )


def fetch_cells(spark: SparkSession, say: Callable[[str], None]) -> None:
    """Fetch H3 for Java, once, if this session would otherwise compute cells in Python workers."""
    from keylane.spark.cells import cell_backend

    if cell_backend(spark) == "arrow":
        has_geo(say)

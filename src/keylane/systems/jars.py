"""Java archives that are pinned: which ones, where they are, and whether they are what they should be.

`jars.lock` names every one with its SHA-256. They are found in the cache folder, or fetched into it once (`ivy`), or
taken from a folder that the user names (`--spark-jars`). They come in kits:

    connector   Spark's Kafka connector, four jars, for the pyspark that is installed
    broker      Kafka as a server, for `keylane dev kafka` and the tests
    tools       the broker's jars and Kafka's own command-line tools, for the benchmarks
    geo         H3 for Java, one jar: with it cells are found inside Spark's own tasks

Who uses them: `connector_settings` gives a Spark session the connector; `broker` starts Kafka; `has_geo` is asked
before cells are found on Spark.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from keylane.errors import JarError, MissingExtraError, UsageError
from keylane.spark.cache import cache_folder
from keylane.systems.ivy import retrieve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Tell = Callable[[str], None]

__all__ = [
    "KITS",
    "Jar",
    "Kit",
    "check",
    "connector_in",
    "connector_settings",
    "fetched",
    "has_geo",
    "jar_folder",
    "kit",
    "lacking",
    "untold",
]

Kit: TypeAlias = Literal["connector", "broker", "tools", "geo"]

KITS: Final[tuple[Kit, ...]] = get_args(Kit)
CONNECTOR: Final = "spark-sql-kafka-0-10_2.13"
#: How long a jar is waited for that nothing fails without.
PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Jar:
    """One archive as the world names it, what it must be, and the kits it is part of."""

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


def untold(_text: str) -> None:
    """Tell nobody."""


def kit(name: Kit) -> tuple[Jar, ...]:
    """The jars of a kit. The connector's are those for the pyspark that is installed, or there are none."""
    if name == "connector":
        _check_pyspark()
    return tuple(jar for jar in _pinned() if name in jar.kits)


@cache
def _pinned() -> tuple[Jar, ...]:
    lines = files("keylane.systems").joinpath("jars.lock").read_text(encoding="utf-8").splitlines()
    return tuple(_jar(*line.split()) for line in lines if line and not line.startswith("#"))


def _jar(coordinate: str, sha256: str, kits: str) -> Jar:
    group, artifact, number = coordinate.split(":")
    return Jar(group, artifact, number, sha256, tuple(kits.split(",")))


def fetched(name: Kit, folder: Path | None = None, tell: Tell = untold, seconds: float | None = None) -> list[Path]:
    """The paths of a kit's jars in `folder` (default: the cache); those that are not there are fetched first."""
    wanted, folder = kit(name), folder or jar_folder()
    _copy_from_cache(lacking(wanted, folder), folder)
    if away := lacking(wanted, folder):
        tell(f"fetching {len(away)} jar(s) of the kit {name}, once, into {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        retrieve(away, folder, check, seconds)
    for jar in wanted:
        check(jar, folder / jar.file)
    return [folder / jar.file for jar in wanted]


def has_geo(tell: Tell = untold) -> bool:
    """Whether H3 for Java is in the cache now; fetched if it can be. Without it cells are found too, more slowly."""
    try:
        fetched("geo", tell=tell, seconds=PATIENCE_SECONDS)
    except (JarError, MissingExtraError, OSError) as error:
        tell(f"cells are found in Python workers, at half the speed: {error}")
        return False
    return True


def _copy_from_cache(jars: Sequence[Jar], folder: Path) -> None:
    """What was fetched before need not be fetched for another folder."""
    kept = (cache_folder() or folder.parent) / "jars"
    for jar in jars:
        if kept != folder and (kept / jar.file).exists():
            check(jar, kept / jar.file)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(kept / jar.file, folder / f".{jar.file}.new")
            (folder / f".{jar.file}.new").replace(folder / jar.file)


def lacking(jars: Iterable[Jar], folder: Path) -> list[Jar]:
    """Those that are not in a folder."""
    return [jar for jar in jars if not (folder / jar.file).exists()]


def check(jar: Jar, path: Path) -> None:
    """Refuse a file that is not the pinned archive."""
    found = _digest(path)
    if found != jar.sha256:
        raise JarError.of(
            f"{path.name} is not the pinned one",
            got=f"SHA-256 {found}",
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
        raise JarError.of(
            "fetched jars are kept in the cache folder, and there is none", got="KEYLANE_CACHE=''", hint=hint
        )
    return folder / "jars"


def connector_settings(jars: str | None = None, packages: str | None = None, tell: Tell = untold) -> dict[str, str]:
    """Settings that give a Spark session the Kafka connector: from a folder, by coordinates, or the pinned jars."""
    if jars and packages:
        raise UsageError.of("two ways to the same jars", got="--spark-jars and --spark-packages", allowed="one of them")
    if packages:
        return {"spark.jars.packages": packages}
    paths = connector_in(Path(jars), tell) if jars else fetched("connector", tell=tell)
    return {"spark.jars": ",".join(str(path.absolute()) for path in paths)}


def connector_in(folder: Path, tell: Tell = untold) -> list[Path]:
    """The connector's four jars in a folder of the user's own; nothing is fetched.

    A file that has a pinned name must be the pinned archive. Of the three that the connector leans on another version
    will do, because a site may have later ones; the connector itself must be that of the installed pyspark.
    """
    if not folder.is_dir():
        raise JarError.of("--spark-jars is not a folder", got=str(folder))
    wanted = {jar.artifact: jar for jar in _pinned() if "connector" in jar.kits}
    found = {name: _versions(folder, name) for name in wanted}
    missing = [f"{name}-{_wanted_version(jar)}.jar" for name, jar in wanted.items() if not found[name]]
    if missing:
        hint = "keylane dev jars --to DIR, on a machine with a network"
        raise JarError.of(f"{folder} lacks {', '.join(missing)}", hint=hint)
    return [_chosen(jar, found[name], tell) for name, jar in wanted.items()]


def _wanted_version(jar: Jar) -> str:
    return pyspark_version() if jar.artifact == CONNECTOR else jar.version


def _versions(folder: Path, artifact: str) -> dict[str, Path]:
    """Every version of an archive that a folder has."""
    named = ((path, path.name.removeprefix(f"{artifact}-").removesuffix(".jar")) for path in folder.glob("*.jar"))
    return {number: path for path, number in named if path.name == f"{artifact}-{number}.jar" and number[:1].isdigit()}


def _chosen(jar: Jar, found: dict[str, Path], tell: Tell) -> Path:
    wanted = _wanted_version(jar)
    if len(found) > 1 and wanted not in found:
        raise JarError.of(f"several versions of {jar.artifact}", got=", ".join(sorted(found)), allowed=wanted)
    number = wanted if wanted in found else next(iter(found))
    if jar.artifact == CONNECTOR and number != wanted:
        raise JarError.of("the connector is not that of the installed pyspark", got=number, allowed=wanted)
    if number == jar.version:
        check(jar, found[number])
    else:
        tell(f"{found[number].name} is used as it is: keylane has pinned {jar.version}")
    return found[number]


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

"""The JVM under Spark: which Java, its class archive, keylane's cache folder; Java sources compiled at first use.

Code is loaded from the cache, so nobody else may be able to write there: `private` looks at folders and files. pyspark
is imported where it is used: `doctor` must find a Java without it.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import io
import locale
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import CacheError, MissingExtraError
from keylane.private import can_use, check_file, check_folder, make_folder, new_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from keylane.private import OwnFolder

OLDEST: Final = 17
USUAL: Final = (
    ("/usr/lib/jvm", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("/opt", "*j[dr][ke]*"),
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java on this machine: its folder, and its version as it reports it."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """17 of `17.0.15`; 8 of `1.8.0_412`; 0 when it is unknown."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)[:2]]
        return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """JAVA_HOME if it is new enough, then the `java` of the path, then the newest in the system's folders."""
    rejected = []
    for home in _homes(environ):
        java = Java(home, _version(home))
        if java.major >= OLDEST:
            return java
        rejected.append(f"{java.version or 'unknown'} in {home}")
    raise MissingExtraError.of(
        f"Spark needs Java {OLDEST} or later",
        got=", ".join(rejected) or None,
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
    """Versions that Spark was tried on before newer ones."""
    major = Java(home, _version(home)).major
    return major < OLDEST, major, str(home)


def _version(home: Path) -> str:
    """From the file beside the binary where there is one, because running the binary takes a JVM start."""
    try:
        version = re.search(r'JAVA_VERSION="([^"]+)"', (home / "release").read_text(encoding="utf-8"))
    except OSError:
        version = None
    return version[1] if version else _reported_version(home)


def _reported_version(home: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    version = re.search(r'version "([^"]+)"', done.stderr)
    return version[1] if version else ""


# The locale that Java is started under: one with UTF-8, whatever the caller's is. Java takes the encoding of file names
# from it, once. Under `LC_ALL=C`, or a locale that is not installed, which is the same to Java, that is ASCII: files
# with other names are then not even listed, and nothing says so.


#: All categories of a locale, as the C libraries number them: Java asks for all, and has none where one is missing.
_ALL: Final = 0x3F if sys.platform == "darwin" else 0x1FBF
#: In the order of preference. The first is in every glibc since 2.35, in Debian long before, and in musl.
_UTF8: Final = ("C.UTF-8", "C.utf8", "en_US.UTF-8", "POSIX.UTF-8")


def charset_of(name: str) -> str:
    """The character set of an installed locale, by the environment for an empty name; nothing where it is missing."""
    try:
        libc: Any = ctypes.CDLL(None)
        libc.newlocale.restype = ctypes.c_void_p
        libc.nl_langinfo_l.restype = ctypes.c_char_p
        made = libc.newlocale(_ALL, name.encode(), None)
        if not made:
            return ""
        found: bytes = libc.nl_langinfo_l(locale.CODESET, ctypes.c_void_p(made)) or b""
        libc.freelocale(ctypes.c_void_p(made))
        return found.decode("ascii", "replace")
    except (AttributeError, OSError):
        return ""


@contextmanager
def utf8_file_names() -> Iterator[None]:
    """Let a process that is started meanwhile have UTF-8 file names; one that would have them anyway is left alone."""
    better = "" if charset_of("") == "UTF-8" else next((name for name in _UTF8 if charset_of(name) == "UTF-8"), "")
    if not better:
        yield
        return
    before = os.environ.get("LC_ALL")
    os.environ["LC_ALL"] = better
    try:
        yield
    finally:
        del os.environ["LC_ALL"]
        if before is not None:
            os.environ["LC_ALL"] = before


# The cache folder: the start-up archive, and the jars that were fetched.


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The user's cache folder for keylane, which nobody else can write to; None when caching is off.

    `KEYLANE_CACHE` is refused when others can write there. Otherwise the first that can be used: in XDG_CACHE_HOME, in
    the home folder, and for a user without one, in the temporary folder under the number of the user.
    """
    own = environ.get("KEYLANE_CACHE")
    if own is not None:
        if own:
            check_folder(Path(own))
        return Path(own) if own else None
    usual = [*_usual_caches(environ), Path(tempfile.gettempdir()) / f"keylane-cache-{os.geteuid()}"]
    found = next((folder for folder in usual if can_use(folder)), usual[-1])
    check_folder(found)
    return found


def _usual_caches(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("XDG_CACHE_HOME"):
        yield Path(environ["XDG_CACHE_HOME"]) / "keylane"
    # Neither HOME nor an entry of this user in the system's list: a container that runs under any number.
    with suppress(RuntimeError):
        yield Path.home() / ".cache" / "keylane"


# The start-up archive: Java's own class-data sharing, which lets the second session start in about half the time.


#: Java warns about every class it leaves out, which a user cannot fix. Errors are still printed.
QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
#: A partial archive this old was left by a Java that died while writing it.
STALE: Final = 3600.0
#: Each set of jars has an archive of some 180 MB. So many are kept, the last used: jars for topics, places, both, none.
MOST_ARCHIVES: Final = 4
#: One that was not used for so long, in seconds, is of a Java, a Spark or jars that are gone.
UNUSED: Final = 30 * 86_400.0
#: A partial archive of other jars is left alone for so long: who made it may still be asked for them.
LEFT: Final = 86_400.0


def archive_options(java: Java, class_path: str = "", environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The Java options that use the archive, or create it when it is missing; empty where neither is possible."""
    import pyspark

    folder = cache_folder(environ)
    if folder is None or _has_conf_folder(environ):
        return ()
    path = folder / f"spark-{pyspark.__version__}-java-{java.version}-{_digest(java, class_path)}.jsa"
    try:
        make_folder(folder)
        _adopt(path)
        remove_unused(path, time.time())
    except CacheError:
        raise
    except OSError:
        return ()
    if path.exists():
        check_file(path)
        return (f"-XX:SharedArchiveFile={path}", *QUIET)
    return (f"-XX:ArchiveClassesAtExit={path}.{os.getpid()}.part", *QUIET)


def _has_conf_folder(environ: Mapping[str, str]) -> bool:
    """Java cannot archive a class path that has a folder of files on it, and warns at length."""
    import pyspark

    home = environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    folder = Path(environ.get("SPARK_CONF_DIR") or Path(home) / "conf")
    return folder.is_dir() and any(folder.iterdir())


def _digest(java: Java, class_path: str) -> str:
    """An archive fits one Java and one class path."""
    import pyspark

    content = "\n".join((str(java.home), str(Path(pyspark.__file__).parent), class_path))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _adopt(path: Path) -> None:
    """Rename a finished archive to its final name; remove stale partial ones."""
    for part in path.parent.glob(f"{path.name}.*.part"):
        check_file(part)
        if _finished(part) and not path.exists():
            # Java does not force what it writes: after a power cut a finished archive could be full of zeros.
            _force(part)
            part.replace(path)
            _force(path.parent)
        elif _finished(part) or time.time() - part.stat().st_mtime > STALE:
            part.unlink(missing_ok=True)


def remove_unused(path: Path, now: float) -> None:
    """Remove the archives that nobody has used for long, and those beyond the few used last; `path` is used now.

    Several processes may do this at once. A Java that runs keeps the archive that it has open, and one that finds none
    starts without.
    """
    with suppress(FileNotFoundError):
        os.utime(path, (now, now))
    used = sorted(_times(path.parent.glob("spark-*.jsa")), key=lambda one: (one[0] != path, -one[1]))
    for number, (archive, at) in enumerate(used):
        if number >= MOST_ARCHIVES or (archive != path and now - at > UNUSED):
            archive.unlink(missing_ok=True)
    for part, at in _times(path.parent.glob("spark-*.jsa.*.part")):
        if now - at > LEFT and not _is_alive(part.name.split(".")[-2]):
            part.unlink(missing_ok=True)


def _times(paths: Iterable[Path]) -> Iterator[tuple[Path, float]]:
    for path in paths:
        with suppress(FileNotFoundError):
            yield path, path.lstat().st_mtime


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:  # another user's, and there
        pass
    return True


def _finished(part: Path) -> bool:
    """Java writes the header last, over zeros."""
    with part.open("rb") as file:
        return any(file.read(4))


def _force(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Java sources of keylane -> a jar, made once by the compiler that Spark brings along, and given to a session.


def java_class(
    spark: SparkSession, folder: Path | tuple[Path, ...], name: str, dependencies: Sequence[Path] = ()
) -> Any:
    """The Java class of that name, out of the sources in a folder, or several; the session's executors know it too.

    `dependencies` are archives that the sources need and Spark does not have: the executors get them as well.
    """
    folders = folder if isinstance(folder, tuple) else (folder,)
    loader, jar = _loaded(spark.sparkContext._gateway, folders, tuple(dependencies))
    context: Any = spark.sparkContext._jsc.sc()
    known = context.listJars().mkString(" ")
    for archive in (*dependencies, jar):
        if archive.name not in known:
            context.addJar(str(archive))
    return loader.loadClass(name)


@lru_cache(maxsize=16)
def _loaded(gateway: Any, folders: tuple[Path, ...], dependencies: tuple[Path, ...]) -> tuple[Any, Path]:
    """Loader and jar, one for each JVM: Py4J looks methods up by class name, and confuses two classes of one name."""
    own = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    others = _loader_of(gateway, dependencies, own) if dependencies else own
    jar = _jar(gateway, folders, others)
    return _loader_of(gateway, [jar], others), jar


def _loader_of(gateway: Any, jars: Sequence[Path], parent: Any) -> Any:
    net, addresses = gateway.jvm.java.net, [jar.absolute().as_uri() for jar in jars]
    return net.URLClassLoader(_array(gateway, net.URL, addresses), parent)


def _jar(gateway: Any, folders: Sequence[Path], others: Any) -> Path:
    import pyspark

    sources = {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for folder in folders
        for path in sorted(folder.rglob("*.java"))
    }
    content = "\0".join((pyspark.__version__, *sources, *sources.values()))
    name = f"keylane-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    return compiled(_folder(), name, lambda: _classes(gateway, sources, others))


def compiled(folder: Path, name: str, compile_: Callable[[], dict[str, bytes]]) -> Path:
    """The jar of these classes, out of the folder or compiled into it.

    Its name ends with the digest of what is in it: one that was cut short or changed is not that one, and is compiled
    again.
    """
    make_folder(folder)
    for jar in folder.glob(f"{name}-*.jar"):
        check_file(jar)
        if jar.name == _jar_name(name, jar.read_bytes()):
            return jar
        jar.unlink()
    packed = _packed(compile_())
    jar = folder / _jar_name(name, packed)
    # Renamed to its final name when complete: another process may look for it at the same time.
    part = jar.with_name(f"{jar.name}.{os.getpid()}.part")
    part.write_bytes(packed)
    _force(part)
    part.replace(jar)
    _force(folder)
    return jar


def _jar_name(name: str, packed: bytes) -> str:
    return f"{name}-{hashlib.sha256(packed).hexdigest()}.jar"


@cache
def _folder() -> Path:
    """The cache folder; without one that can be written, a folder of this process."""
    folder = cache_folder()
    if folder is not None and (not folder.exists() or os.access(folder, os.W_OK)):
        return folder / "java"
    own = new_folder()
    atexit.register(_remove_at_exit, own, os.getpid())
    return own.path / "java"


def _remove_at_exit(folder: OwnFolder, process: int) -> None:
    # A child that was forked has this handler too, and the folder is not its own.
    if os.getpid() == process:
        folder.remove()


def _packed(classes: dict[str, bytes]) -> bytes:
    """The same classes are the same bytes: no times are in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, code in sorted(classes.items()):
            file.writestr(zipfile.ZipInfo(name), code, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _classes(gateway: Any, sources: dict[str, str], others: Any) -> dict[str, bytes]:
    """File name and code of each class."""
    java = gateway.jvm
    tools = java.org.codehaus.commons.compiler.util.resource
    out = java.java.util.HashMap()
    compiler = java.org.codehaus.janino.CompilerFactory().newCompiler()
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.setClassFileCreator(tools.MapResourceCreator(out))
    resources = [tools.StringResource(name, text) for name, text in sources.items()]
    compiler.setIClassLoader(java.org.codehaus.janino.ClassLoaderIClassLoader(others))
    compiler.compile(_array(gateway, tools.Resource, resources))
    return {str(name): bytes(code) for name, code in out.items()}


def _array(gateway: Any, kind: Any, values: list[Any]) -> Any:
    out = gateway.new_array(kind, len(values))
    for at, value in enumerate(values):
        out[at] = kind(value) if isinstance(value, str) else value
    return out

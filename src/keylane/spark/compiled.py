"""Java sources of keylane -> a jar, made once by the compiler that Spark brings along, and given to a session.

Some work of a task is only quick where Kafka's and Spark's own classes are: in Java. What is shipped is source to read;
Janino, with which Spark compiles its own plans, turns it into classes, so neither a JDK nor a build is needed. The jar
lies in the cache folder under the digest of its sources; executors get it from the driver. What such a class does with
rows: `keylane.pipelines.kafka.writer`; as a column: `cells_java`.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import zipfile
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from keylane.spark.cache import cache_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

__all__ = ["java_class"]


def java_class(spark: SparkSession, folder: Path, name: str, leans_on: Sequence[Path] = ()) -> Any:
    """The Java class of that name, out of the sources in a folder; the session's executors know it too.

    `leans_on` are archives that the sources need and Spark does not bring along: the executors get them as well.
    """
    loader, jar = _loaded(spark.sparkContext._gateway, folder, tuple(leans_on))  # noqa: SLF001
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
    known = context.listJars().mkString(" ")
    for one in (*leans_on, jar):
        if one.name not in known:
            context.addJar(str(one))
    return loader.loadClass(name)


@lru_cache(maxsize=16)
def _loaded(gateway: Any, folder: Path, leans_on: tuple[Path, ...]) -> tuple[Any, Path]:
    """Loader and jar, one for each Java: Py4J finds methods by the name of a class, and takes two for the same."""
    own = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    others = _loader_of(gateway, leans_on, own) if leans_on else own
    jar = _jar(gateway, folder, others)
    return _loader_of(gateway, [jar], others), jar


def _loader_of(gateway: Any, jars: Sequence[Path], parent: Any) -> Any:
    net, addresses = gateway.jvm.java.net, [jar.absolute().as_uri() for jar in jars]
    return net.URLClassLoader(_array(gateway, net.URL, addresses), parent)


def _jar(gateway: Any, folder: Path, others: Any) -> Path:
    sources = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.java"))}
    told = "\0".join((pyspark.__version__, *sources, *sources.values()))
    name = f"keylane-{hashlib.sha256(told.encode()).hexdigest()[:16]}.jar"
    jar = _folder() / name
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        _write(jar, _classes(gateway, sources, others))
    return jar


@cache
def _folder() -> Path:
    """The cache folder; without one a folder of this process: in one that others can write, code could be planted."""
    place = cache_folder()
    if place is not None:
        return place / "java"
    own = tempfile.mkdtemp(prefix="keylane-java-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _write(jar: Path, classes: dict[str, bytes]) -> None:
    """Under its name only when it is whole: another process may look for it at the same time."""
    part = jar.with_name(f"{jar.name}.{os.getpid()}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
        for name, code in classes.items():
            file.writestr(name, code)
    part.replace(jar)


def _classes(gateway: Any, sources: dict[str, str], others: Any) -> dict[str, bytes]:
    """File name and code of each class."""
    java = gateway.jvm
    tools = java.org.codehaus.commons.compiler.util.resource
    out = java.java.util.HashMap()
    compiler = java.org.codehaus.janino.CompilerFactory().newCompiler()
    compiler.setSourceVersion(8)
    compiler.setTargetVersion(8)
    compiler.setClassFileCreator(tools.MapResourceCreator(out))
    given = [tools.StringResource(name, text) for name, text in sources.items()]
    compiler.setIClassLoader(java.org.codehaus.janino.ClassLoaderIClassLoader(others))
    compiler.compile(_array(gateway, tools.Resource, given))
    return {str(name): bytes(code) for name, code in out.items()}


def _array(gateway: Any, kind: Any, values: list[Any]) -> Any:
    out = gateway.new_array(kind, len(values))
    for at, value in enumerate(values):
        out[at] = kind(value) if isinstance(value, str) else value
    return out

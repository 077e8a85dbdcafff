"""Spark's checkpoint on a file system that is not this machine's: read through Hadoop, as Spark itself does.

`RemoteFolder` has what `systems.checkpoint` asks of a `pathlib.Path`, and no more. Where the checkpoint is a path, that
is a Path. How Spark writes its files: `jvm/blocks/keylane/blocks/CheckpointFiles.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from keylane.errors import TargetError, cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A file or folder by its address, as `hdfs://host/match/offsets/7`."""

    address: str
    java: Any
    files: Any

    @staticmethod
    def of(spark: SparkSession, address: str) -> RemoteFolder:
        """The checkpoint at an address, or an error that says why Spark cannot reach it."""
        java: Any = spark.sparkContext._jvm
        settings: Any = spark.sparkContext._jsc
        try:
            path = java.org.apache.hadoop.fs.Path(address)
            folder = RemoteFolder(address.rstrip("/"), java, path.getFileSystem(settings.hadoopConfiguration()))
        except Py4JError as error:
            raise TargetError.of(
                "Spark cannot write a checkpoint there",
                got=f"{address}: {cause(str(error))}",
                hint="its jars and settings are Spark's: --conf spark.jars=..., --conf spark.hadoop....=...",
            ) from error
        folder.exists()
        return folder

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> RemoteFolder:
        return RemoteFolder(f"{self.address}/{name}", self.java, self.files)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    @property
    def parent(self) -> RemoteFolder:
        """The folder that it is in."""
        return RemoteFolder(self.address.rpartition("/")[0], self.java, self.files)

    def with_name(self, name: str) -> RemoteFolder:
        """Another file of the same folder."""
        return self.parent / name

    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self._called(self.files.exists))

    def is_file(self) -> bool:
        """Whether it is there, and no folder."""
        return self.exists() and not self._called(self.files.getFileStatus).isDirectory()

    def glob(self, pattern: str) -> Iterator[RemoteFolder]:
        """What is in this folder under names of a pattern."""
        found = [one.getPath().getName() for one in self._called(self.files.listStatus)] if self.exists() else []
        return (self / name for name in found if fnmatchcase(name, pattern))

    def read_text(self, encoding: str) -> str:
        """Its contents."""
        stream = self._called(self.files.open)
        try:
            return bytes(self.java.org.apache.commons.io.IOUtils.toByteArray(stream)).decode(encoding)
        except Py4JError as error:
            raise self._unreachable(error) from error
        finally:
            stream.close()

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove a file."""
        if not self._called(lambda path: self.files.delete(path, False)) and not missing_ok:
            raise FileNotFoundError(self.address)

    def _called(self, call: Callable[[Any], Any]) -> Any:
        try:
            return call(self.java.org.apache.hadoop.fs.Path(self.address))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.io.FileNotFoundException":
                raise FileNotFoundError(self.address) from None
            raise self._unreachable(error) from error

    def _unreachable(self, error: Py4JError) -> TargetError:
        return TargetError.of(
            "the checkpoint cannot be reached",
            got=f"{self.address}: {cause(str(error))}",
            hint="is its file system up, and may this user write there? Then run again: nothing is lost",
        )

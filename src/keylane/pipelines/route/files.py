"""One batch of `route`: the files that Spark's source names -> staged files -> a committed batch.

Called by `route` through `spark.streaming.Gate`, once for each batch and again for a batch that was cut short. A batch
that has happened is known by its manifest, and is not made again.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from keylane.errors import DataError, TargetError, did_you_mean
from keylane.pipelines.context import translated
from keylane.spark.read_lines import read_csv, read_json
from keylane.spark.read_parquet import SourceFile, read_parquet
from keylane.spark.session import active_session_kept
from keylane.spark.write_lanes import decided, write_dead, write_lanes
from keylane.systems.files.listing import name_in, path_values
from keylane.systems.folders.folder import Counts, Manifest, Placed, Taken, dead_file, lane_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.router import Router
    from keylane.spark.read_parquet import Batch
    from keylane.spark.write_lanes import LaneFile
    from keylane.systems.folders.folder import Probe, Target

__all__ = [
    "Batches",
    "Done",
    "Reading",
    "changed_since",
    "check_unchanged",
    "files_of",
    "needed_types",
    "query_id",
    "read_files",
    "type_of",
]


# Source files that change under a route. A file is read once, so whatever is put into it afterwards would be lost.

_WHOLE: Final = "write a file elsewhere on the same disk, and rename it into the source when it is whole"
#: More than these would bury what else is said.
_SHOWN: Final = 3


def check_unchanged(files: Sequence[SourceFile]) -> None:
    """Refuse a batch one of whose files is not what it was when the batch began."""
    for file in files:
        now = _state(Path(file.path))
        if now != (file.size, file.modified):
            raise DataError.of(
                f"{file.path} has changed while it was read",
                got=_shown(now),
                allowed=_shown((file.size, file.modified)),
                hint=_WHOLE,
            )


def changed_since(target: Target, source: Path) -> Iterator[str]:
    """What to say of files that were taken and have changed since. One that is gone has done its work."""
    changed = []
    for manifest in target.manifests():
        for taken in manifest.taken:
            now = _state(source if source.is_file() else source / taken.name)
            if now is not None and now != (taken.size, taken.modified):
                changed.append(f"{taken.name} ({_shown((taken.size, taken.modified))} then, {_shown(now)} now)")
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        yield f"changed since they were routed, and not read again: {', '.join(changed[:_SHOWN])}{more}; {_WHOLE}"


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of change in milliseconds, which is as fine as Java tells it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns // 1_000_000


def _shown(state: tuple[int, int] | None) -> str:
    return "gone" if state is None else f"{state[0]} bytes of {state[1] / 1000:.3f}"


_SHARED: Final = "on a cluster, source and target have to be on a file system that all machines share"


@dataclass(frozen=True, slots=True)
class Done:
    """What a batch came to, for whoever shows progress. `kind` is of the files that count; None: all of them do."""

    batch: int
    counts: Counts
    seconds: float
    batch_bytes: int
    taken_files: int
    taken_bytes: int
    kind: str | None


@dataclass(slots=True)
class Batches:
    """The body of the query: what it works with, and where it stands."""

    spark: SparkSession
    router: Router
    source: Path
    kind: str
    target: Target
    state: Manifest
    given: StructType | None
    probe: Probe
    tell: Callable[[Done], None]
    say: Callable[[str], None]
    counted: str | None = None
    unordered: bool = False
    shapes: dict[str, StructType] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make one batch happen, unless it has."""
        with active_session_kept():
            self._make(frame, batch)

    def _make(self, frame: DataFrame, batch: int) -> None:
        began = time.monotonic()
        files = self._taken(frame)
        if self._has_happened(batch, files):
            return
        self._say_if_unordered(files)
        self.probe("begun", batch)
        staging = self.target.staging(batch)
        try:
            manifest = self._staged(batch, files, staging)
            self._check_unchanged(files)
            self.probe("staged", batch)
            self.target.commit(manifest, self.probe)
        except Exception as error:
            if self.target.manifest(batch) is None:
                shutil.rmtree(staging, ignore_errors=True)
            raise translated(error, batch) from error
        weight = manifest.taken_bytes - self.state.taken_bytes
        self.state = manifest
        seconds = time.monotonic() - began
        self.tell(
            Done(batch, manifest.counts, seconds, weight, manifest.taken_files, manifest.taken_bytes, self.counted)
        )

    def _taken(self, frame: DataFrame) -> list[SourceFile]:
        return files_of(frame, self.source)

    def _names(self, files: Sequence[SourceFile]) -> list[str]:
        """What the positions of records call them."""
        return [file.name for file in files]

    def _check_unchanged(self, files: Sequence[SourceFile]) -> None:
        check_unchanged(files)

    def _has_happened(self, batch: int, files: Sequence[SourceFile]) -> bool:
        """Whether a batch is in the target already. If so it has to be the same, or the checkpoint is another's."""
        if batch > self.state.batch:
            return False
        before = self.target.manifest(batch)
        if before is None or sorted(one.name for one in before.taken) != sorted(file.name for file in files):
            raise TargetError.of(
                "Spark's checkpoint does not belong to this target: it would repeat or leave out records",
                got=f"batch {batch} with {len(files)} files, after batch {self.state.batch}",
                hint="restore the checkpoint folder, or route into a new target",
            )
        return True

    def _staged(self, batch: int, files: Sequence[SourceFile], staging: Path) -> Manifest:
        if not files:
            return self._nothing(batch, staging)
        read = self._read(files)
        frame = decided(read, self.router)
        names = self._names(files)
        lanes = write_lanes(frame, read, names, self.state.next, staging / "lanes")
        out = sum(file.records for file in lanes)
        dead = None
        if out + read.filtered < sum(read.records):
            self.probe("half staged", batch)
            dead = write_dead(frame, read, names, self.router, self.state.next_dead, staging / "dead")
        placed = [_placed(file, batch, staging) for file in lanes]
        if dead is not None:
            placed.append(Placed(dead[0].relative_to(staging).as_posix(), dead_file(batch), dead[1]))
        counts = Counts(sum(read.records), out, dead[1] if dead else 0, read.filtered)
        return self._manifest(batch, files, read, placed, counts.checked(f"batch {batch}", _SHARED), lanes, staging)

    def _say_if_unordered(self, files: Sequence[SourceFile]) -> None:
        """Spark takes files by age. Those of one age that it has cut into two batches may not be in order by name."""
        before = {one.name for one in self.state.taken if files and one.modified == files[0].modified}
        if before and files[0].name < max(before) and not self.unordered:
            self.unordered = True
            self.say(f"{files[0].name} and {max(before)} are of one age, and were not taken in order of their names")

    def _nothing(self, batch: int, staging: Path) -> Manifest:
        """A batch of files without a byte: Spark counts them, and passes them over."""
        query = query_id(self.target.checkpoint)
        return replace(self.state, batch=batch, query=query, staging=staging.name, counts=Counts(), placed=(), taken=())

    def _read(self, files: Sequence[SourceFile]) -> Batch:
        known = StructType.fromJson(json.loads(self.state.schema)) if self.state.schema else self.given
        read = Reading(self.spark, self.kind, self.router.contract, known, self.shapes)
        return read_files(read, files, self.state.next_position)

    def _manifest(
        self,
        batch: int,
        files: Sequence[SourceFile],
        read: Batch,
        placed: Sequence[Placed],
        counts: Counts,
        lanes: Sequence[LaneFile],
        staging: Path,
    ) -> Manifest:
        offsets = {stream: list(starts) for stream, starts in self.state.next.items()}
        for file in lanes:
            offsets[file.stream][file.lane] += file.records
        return Manifest(
            batch=batch,
            query=query_id(self.target.checkpoint),
            fingerprint=self.state.fingerprint,
            staging=staging.name,
            counts=counts,
            total=self.state.total + counts,
            next=offsets,
            next_dead=self.state.next_dead + counts.dead,
            placed=tuple(placed),
            taken=tuple(Taken(f.name, f.size, f.modified, n) for f, n in zip(files, read.records, strict=True)),
            next_position=self.state.next_position + sum(read.rows),
            taken_files=self.state.taken_files + len(files),
            taken_bytes=self.state.taken_bytes + sum(file.size for file in files),
            schema=read.schema.json(),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read: their kind, what is known of their columns, and what the contract needs of them."""

    spark: SparkSession
    kind: str
    contract: Contract
    known: StructType | None
    shapes: dict[str, StructType]


def files_of(frame: DataFrame, source: Path) -> list[SourceFile]:
    """The files of a batch, oldest first, as Spark's source takes them; by name where they are of one age."""
    found = sorted({tuple(row) for row in frame.collect()}, key=lambda row: (row[1], row[0]))
    return [_file(source, *row) for row in found]


def _file(source: Path, path: str, modified: int, size: int, url: str) -> SourceFile:
    local = "/" + path.removeprefix("file:").lstrip("/")
    name = name_in(source, local)
    return SourceFile(local, url, name, size, modified, path_values(name))


def read_files(how: Reading, files: Sequence[SourceFile], before: int) -> Batch:
    """The records of files; `before` is the position of the first."""
    if how.kind == "parquet":
        read = read_parquet(how.spark, files, how.known, before, how.shapes)
    else:
        lines = read_json if how.kind == "json" else read_csv
        read = lines(how.spark, files, how.known, before, needed_types(how.contract))
    for name in needed_types(how.contract):
        if name not in read.columns:
            words = "the source lacks a column that the key is made of"
            raise DataError.of(words, got=name, allowed=", ".join(read.columns), hint=did_you_mean(name, read.columns))
    return read


def _placed(file: LaneFile, batch: int, staging: Path) -> Placed:
    staged = file.path.relative_to(staging).as_posix()
    return Placed(staged, lane_file(file.stream, file.lane, batch), file.records)


def needed_types(contract: Contract) -> dict[str, DataType]:
    """The types of the fields that a key is made of, for sources that have none of their own."""
    key = contract.spec.key
    times = {key.window.field: LongType()} if key.window else {}
    return {**{name: type_of(how) for name, how in zip(key.fields, key.encodings, strict=True)}, **times}


def type_of(encoding: Encoding) -> DataType:
    """The type of a field of the key, where all else would be text."""
    return DoubleType() if encoding == "place" else LongType() if encoding.startswith("int") else StringType()


def query_id(checkpoint: Path) -> str:
    """The identity that Spark gave the query when its checkpoint was made; nothing when there is none."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError):
        return ""

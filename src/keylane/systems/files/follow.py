"""Files as the source of a route: Spark's source names them as they appear, and each batch reads those it names.

A file is read once, so whatever is written into it afterwards would be lost: a batch whose files change while it runs
is refused, and files that have changed since they were routed are reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import in_tree, no_such_field, paths_in
from keylane.errors import DataError
from keylane.systems.files.listing import kind_of, name_in, path_values, pattern_of
from keylane.systems.flow import Origin, RowsFollowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from keylane.contract.model import Contract
    from keylane.spark.read_parquet import Batch, SourceFile
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.flow import Standing
    from keylane.systems.folders.folder import TakenFile

_WHOLE: Final = "write a file elsewhere on the same disk, and rename it into the source when it is complete"
#: More than these would bury the rest of the message.
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


def changed_since(taken: Iterable[TakenFile], source: Path) -> Iterator[str]:
    """Reports files that were taken and have changed since. One that is gone has done its work."""
    changed = []
    for one in taken:
        now = _state(source if source.is_file() else source / one.name)
        if now is not None and now != (one.size, one.modified):
            changed.append(f"{one.name} ({_shown((one.size, one.modified))} then, {_shown(now)} now)")
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        yield f"changed since they were routed, and not read again: {', '.join(changed[:_SHOWN])}{more}; {_WHOLE}"


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of change in milliseconds, which is as fine as Java reports it."""
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_size, now.st_mtime_ns // 1_000_000


def _shown(state: tuple[int, int] | None) -> str:
    return "gone" if state is None else f"{state[0]} bytes of {state[1] / 1000:.3f}"


def origin_of(path: Path, kind: str | None, known: Origin | None) -> Origin:
    """The kind and which names count: as the target remembers, as given, or by the files' endings."""
    if known is not None and kind in {None, known.kind}:
        return Origin(str(path), kind_of(path, known.kind), known.pattern)
    of = kind_of(path, kind)
    return Origin(str(path), of, pattern_of(of, kind))


def follow_files(spark: SparkSession, contract: Contract, origin: Origin, options: StreamOptions) -> FilesFollowed:
    """Follow the files of a folder, or one file."""
    from keylane.spark.read_parquet import schema_of

    counted = None if origin.pattern == pattern_of(origin.kind, origin.kind) else origin.kind
    return FilesFollowed(spark, origin, contract, schema_of(options.schema), options.max_files, counted)


@dataclass(frozen=True, slots=True)
class FilesFollowed(RowsFollowed):
    """Files as they appear. `given` are columns and types that the user has named, for kinds that have none."""

    spark: SparkSession
    origin: Origin
    contract: Contract
    given: StructType | None
    max_files: int
    counted: str | None = None
    shapes: dict[str, StructType] = field(default_factory=dict)

    def stream(self) -> DataFrame:
        """Names of files as they appear."""
        from keylane.spark.streaming import file_names

        return file_names(self.spark, self.origin.address, self.origin.pattern, self.max_files)

    def taken(self, frame: DataFrame) -> list[SourceFile]:
        """The files of a batch."""
        return files_of(frame, Path(self.origin.address))

    def check_unchanged(self, taken: Sequence[SourceFile]) -> None:
        """Refuse a batch one of whose files is not what it was when the batch began."""
        check_unchanged(taken)

    def rows(self, frame: DataFrame, taken: Sequence[SourceFile], last: Standing) -> Batch:  # noqa: ARG002  by name
        """The records of the files, in the order of the files and of their rows."""
        from keylane.spark.keys import has_field, needed_types
        from keylane.spark.read_lines import read_csv, read_json
        from keylane.spark.read_parquet import read_parquet, schema_from_json

        known = schema_from_json(last.schema) or self.given
        needed = needed_types(self.contract)
        if self.origin.kind == "parquet":
            batch = read_parquet(self.spark, taken, known, last.next_position, self.shapes, list(needed))
        else:
            batch = (
                read_json(self.spark, taken, known, last.next_position, needed)
                if self.origin.kind == "json"
                else read_csv(self.spark, taken, known, last.next_position, needed, nulls=self.origin.csv_null)
            )
        before = schema_from_json(last.schema)
        lacking = [name for name in needed if not _has(batch, taken, name)]
        for name in lacking:
            if before is None or not has_field(name, before) or not has_field(name, batch.schema):
                tree = {**(batch.found or {}), **{column: {} for file in taken for column in file.values}}
                what = "the source lacks a field that the lane depends on: no record has it"
                raise no_such_field(what, name, paths_in(tree))
        return replace(batch, lacking=tuple(lacking))


def _has(batch: Batch, taken: Sequence[SourceFile], name: str) -> bool:
    """Whether a field is in some record, or in a path; or nothing is known of any record."""
    return batch.found is None or in_tree(batch.found, name) or any(name in file.values for file in taken)


def files_of(frame: DataFrame, source: Path) -> list[SourceFile]:
    """The files of a batch, oldest first, as Spark's source takes them; by name where they are of one age."""
    from keylane.spark.read_parquet import SourceFile

    files = []
    for path, modified, size, url in sorted({tuple(row) for row in frame.collect()}, key=lambda row: (row[1], row[0])):
        local = "/" + path.removeprefix("file:").lstrip("/")
        name = name_in(source, local)
        files.append(SourceFile(local, url, name, size, modified, path_values(name)))
    return files

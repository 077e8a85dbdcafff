"""Files as the source of a route: Spark's source names them as they appear, and each batch reads those it names.

A file is read once, so whatever is written into it afterwards would be lost: a batch whose files change while it runs
is refused, and so is a source whose files have changed since. What Spark names is compared with its log, and its log
with the source: `handover`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keylane.contract.fields import in_tree, no_such_field, paths_in
from keylane.systems.files.handover import Handover, check_unchanged
from keylane.systems.files.lines import misread_columns
from keylane.systems.files.listing import kind_of, path_values, pattern_of
from keylane.systems.files.spark_log import SparkLog
from keylane.systems.flow import Origin, RowsFollowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from keylane.contract.model import Contract
    from keylane.spark.read_parquet import Batch, SourceFile
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.flow import Standing
    from keylane.systems.folders.folder import TakenFile


def origin_of(path: Path, kind: str | None, known: Origin | None) -> Origin:
    """The kind and which names count: as the target remembers, as given, or by the files' endings."""
    if known is not None and kind in {None, known.kind}:
        return Origin(str(path), kind_of(path, known.kind), known.pattern)
    of = kind_of(path, kind)
    return Origin(str(path), of, pattern_of(of, kind))


def follow_files(spark: SparkSession, contract: Contract, origin: Origin, options: StreamOptions) -> FilesFollowed:
    """Follow the files of a folder, or one file."""
    from keylane.spark.read_parquet import schema_of
    from keylane.spark.session import file_name_encoding

    counted = None if origin.pattern == pattern_of(origin.kind, origin.kind) else origin.kind
    handover = Handover.of(Path(origin.address), counted, file_name_encoding(spark))
    return FilesFollowed(spark, origin, contract, schema_of(options.schema), options.max_files, handover, counted)


def handed_over(spark: SparkSession, handover: Handover) -> list[SourceFile]:
    """The files of a batch, by Spark's log; those without a byte come last."""
    from keylane.spark.read_parquet import SourceFile
    from keylane.spark.scan import url_of

    files = handover.of_batch(handover.batch)
    handover.read(files)
    return [SourceFile(f.path, url_of(spark, f.path), f.name, f.size, f.modified, path_values(f.name)) for f in files]


@dataclass(frozen=True, slots=True)
class FilesFollowed(RowsFollowed):
    """Files as they appear. `given` are columns and types that the user has named, for kinds that have none."""

    spark: SparkSession
    origin: Origin
    contract: Contract
    given: StructType | None
    max_files: int
    handover: Handover
    counted: str | None = None
    shapes: dict[str, StructType] = field(default_factory=dict)

    def stream(self) -> DataFrame:
        """Names of files as they appear."""
        from keylane.spark.streaming import file_names

        return file_names(self.spark, self.origin.address, self.origin.pattern, self.max_files)

    def begin(self, checkpoint: Path, taken: Iterable[TakenFile]) -> None:
        """Refuse a source whose files have changed since they were taken."""
        self.handover.begin(SparkLog(checkpoint), taken)

    def at(self, batch: int) -> None:
        """The batch that is handed over next."""
        self.handover.batch = batch

    def look(self, progress: Callable[[], Any]) -> None:
        """Compare the source with what was handed over, from time to time."""
        self.handover.look(progress)

    def check_complete(self) -> None:
        """Refuse to end while a file was not handed over."""
        self.handover.check_complete()

    def taken(self, frame: DataFrame) -> list[SourceFile]:  # noqa: ARG002  Spark leaves out what is away
        """The files of the batch, by Spark's log; those without a byte come last."""
        return handed_over(self.spark, self.handover)

    def may_have_records(self, taken: Sequence[SourceFile]) -> bool:
        """Files without a byte have none."""
        return any(file.size for file in taken)

    def check_unchanged(self, taken: Sequence[SourceFile]) -> None:
        """Refuse a batch one of whose files is not what it was when the batch began."""
        check_unchanged(taken)

    def rows(self, frame: DataFrame, taken: Sequence[SourceFile], last: Standing) -> Batch:  # noqa: ARG002  by name
        """The records of the files, in the order of the files and of their rows."""
        from keylane.spark.keys import has_field, needed_types
        from keylane.spark.read_lines import no_records, read_csv, read_json
        from keylane.spark.read_parquet import read_parquet, schema_from_json

        known = schema_from_json(last.schema) or self.given
        needed = needed_types(self.contract)
        # Files without a byte hold no record of any kind, and no reader could say of which they are.
        full = [file for file in taken if file.size]
        nothing = (0,) * (len(taken) - len(full))
        if not full:
            return no_records(self.spark, known, needed, len(taken))
        if self.origin.kind == "parquet":
            batch = read_parquet(self.spark, full, known, last.next_position, self.shapes, list(needed))
        else:
            batch = (
                read_json(self.spark, full, known, last.next_position, needed)
                if self.origin.kind == "json"
                else read_csv(
                    self.spark,
                    full,
                    known,
                    last.next_position,
                    needed,
                    nulls=self.origin.csv_null,
                    delimiter=self.origin.delimiter,
                )
            )
        before = schema_from_json(last.schema)
        lacking = [name for name in needed if not _has(batch, full, name)]
        for name in lacking:
            if before is None or not has_field(name, before) or not has_field(name, batch.schema):
                tree = {**(batch.found or {}), **{column: {} for file in full for column in file.values}}
                misread = misread_columns(self.origin.address, list(batch.found or ()), self.origin.delimiter)
                if self.origin.kind == "csv" and misread is not None:
                    raise misread
                what = "the source lacks a field that the lane depends on: no record has it"
                raise no_such_field(what, name, paths_in(tree))
        rows, records = (*batch.rows, *nothing), (*batch.records, *nothing)
        return replace(batch, lacking=tuple(lacking), rows=rows, records=records)


def _has(batch: Batch, taken: Sequence[SourceFile], name: str) -> bool:
    """Whether a field is in some record, or in a path; or nothing is known of any record."""
    return batch.found is None or in_tree(batch.found, name) or any(name in file.values for file in taken)

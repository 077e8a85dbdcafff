"""Files on Spark, in a batch: what `profile` and `geo table` count of them. As a stream: `follow`.

Records are known by their position over the files in the order of their names; where all files lie in lanes of one
stream, as those of `route` do, each record has its lane too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.contract.fields import FieldSpec
from keylane.errors import NoRecordsError
from keylane.spark.read_parquet import SourceFile
from keylane.spark.scan import read_columns, read_line_columns, scan_rows, url_of
from keylane.spark.session import file_name_encoding
from keylane.systems.files.footers import read_footers
from keylane.systems.files.handover import check_names
from keylane.systems.files.listing import kind_of, lanes_in, sized_files
from keylane.systems.files.local_scan import lane_count

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.profile.scan import ScanRequest
    from keylane.spark.scan import Scan
    from keylane.systems.endpoint import StreamOptions


def scan_files(spark: SparkSession, path: Path, options: StreamOptions, wanted: ScanRequest) -> Scan:
    """A file or folder of Parquet, JSON lines or CSV; of the given kind, or by the files' endings."""
    given, cells = options.kind, (options.csv_null, options.delimiter)
    kind = kind_of(path, given)
    files = spark_files(spark, path, None if given else kind)
    if not files:
        raise NoRecordsError.of(f"{path} has no records", got="files without a byte")
    lanes, names = None if wanted.lane else lanes_in([file.path for file in files]), wanted.columns
    whole = [wanted.lane] if wanted.lane else []
    footers = read_footers([file.path for file in files]) if kind == "parquet" else []
    if kind == "parquet":
        counts, shapes = [footer.rows for footer in footers], [footer.shape for footer in footers]
        rows = read_columns(spark, files, counts, shapes, names, lanes, positions=wanted.time is None)
    else:
        rows = read_line_columns(
            spark, kind, files, FieldSpec.of_scan(wanted.key, names, wanted.written, whole), lanes, *cells
        )
    if rows.records == 0:
        raise NoRecordsError.of(f"{path} has no records", got="no rows")
    return scan_rows(
        rows,
        wanted,
        lanes=1 if wanted.lane else None if lanes is None else lane_count(path, files[0].path, lanes),
        size=None if wanted.size else sum(file.size for file in files),
        typed=kind == "parquet",
        facts={"files": len(files), "kind": kind},
    )


def spark_files(spark: SparkSession, path: Path, kind: str | None) -> list[SourceFile]:
    """The files that hold records, in the order of their names, as Spark has to know them."""
    files = sized_files(path, kind)
    check_names((file.name for file in files), file_name_encoding(spark))
    return [SourceFile(file.path, url_of(spark, file.path), file.name, file.size, 0, file.values) for file in files]

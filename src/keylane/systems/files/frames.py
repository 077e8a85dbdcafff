"""Files on Spark, in a batch: what `profile` and `geo table` count of them. As a stream: `follow`.

Records are known by their position over the files in the order of their names; where all files lie in lanes of one
stream, as those of `route` do, each record has its lane too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import FieldSpec
from keylane.errors import DataError
from keylane.spark.read_parquet import SourceFile
from keylane.spark.scan import read_columns, read_line_columns, scan_rows, url_of
from keylane.spark.session import file_name_encoding
from keylane.systems.files.data import ends_of, read_footers
from keylane.systems.files.handover import check_names
from keylane.systems.files.listing import data_files, kind_of, name_in, path_values
from keylane.systems.folders.folder import read_head

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.spark.scan import Scan, ScanRequest

_LANE: Final = re.compile(r"lane=(\d{1,9})")
_STREAM: Final = re.compile(r"stream=(.*)")


def scan_files(
    spark: SparkSession, path: Path, given: str | None, wanted: ScanRequest, csv_null: Sequence[str] = ()
) -> Scan:
    """A file or folder of Parquet, JSON lines or CSV; of the given kind, or by the files' endings."""
    kind = kind_of(path, given)
    files = sized_files(spark, path, None if given else kind)
    if not files:
        raise DataError.of("the source has no files", got=str(path))
    lanes, names = _lanes(files), wanted.columns
    footers = read_footers([file.path for file in files]) if kind == "parquet" else []
    if kind == "parquet":
        counts, shapes = [footer.rows for footer in footers], [footer.shape for footer in footers]
        rows = read_columns(spark, files, counts, shapes, names, lanes, positions=wanted.time is None)
    else:
        rows = read_line_columns(
            spark, kind, files, FieldSpec.of_scan(wanted.key, names, wanted.written), lanes, csv_null
        )
    if rows.records == 0:
        raise DataError.of("no records", got=str(path), hint="the source is empty")
    return scan_rows(
        rows,
        wanted,
        ends=ends_of(footers, wanted.time) if wanted.time is not None else None,
        lanes=None if lanes is None else _lane_count(path, files, lanes),
        size=None if wanted.size else sum(file.size for file in files),
        typed=kind == "parquet",
        facts={"files": len(files), "kind": kind},
    )


def sized_files(spark: SparkSession, path: Path, kind: str | None) -> list[SourceFile]:
    """In the order of their names, which is the order of positions. Files without a byte hold no record of any kind."""
    sized = [(file, file.stat().st_size) for file in data_files(path, kind)]
    named = [(name_in(path, str(file)), str(file), size) for file, size in sized]
    check_names((name for name, _, _ in named), file_name_encoding(spark))
    return [
        SourceFile(file, url_of(spark, file), name, size, 0, path_values(name)) for name, file, size in sorted(named)
    ]


def _lanes(files: Sequence[SourceFile]) -> list[int] | None:
    """The lane that each file lies in, where all lie in lanes of one stream."""
    parts = [file.path.split("/")[:-1] for file in files]
    lanes = [[match[1] for part in one if (match := _LANE.fullmatch(part))] for one in parts]
    streams = {tuple(part for part in one if _STREAM.fullmatch(part)) for one in parts}
    return [int(one[-1]) for one in lanes] if all(lanes) and len(streams) == 1 else None


def _lane_count(path: Path, files: Sequence[SourceFile], lanes: Sequence[int]) -> int:
    """As the target's metadata has it, where the source is one or a stream of one; at least as far as was seen."""
    head = read_head(path) or read_head(path.parent)
    streams = [match[1] for part in files[0].path.split("/") if (match := _STREAM.fullmatch(part))]
    known = head.streams.get(streams[-1], 0) if head is not None and streams else 0
    return max(known, 1 + max(lanes))

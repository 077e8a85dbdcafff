"""What the footers of Parquet files hold, without reading a record: rows and columns.

Their records: `data`, `local_scan` and `stream`, as Arrow batches; `spark.read_parquet`, as frames.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from keylane.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Footer:
    """Of one file: its rows, and its schema as one text, the same for files of one schema."""

    rows: int
    shape: str
    metadata: Any
    schema: Any = None


def read_footers(paths: Sequence[str]) -> list[Footer]:
    """The footer of each file, several at a time."""
    if len(paths) == 1:
        return [_footer(paths[0])]
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(_footer, paths))


def _footer(path: str) -> Footer:
    try:
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema().remove_metadata()
        return Footer(metadata.num_rows, str(schema), metadata, schema)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError.of(f"{path} cannot be read as Parquet", got=str(error).splitlines()[0]) from error

"""Files of records to profile, in every format."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


DAY = datetime(2026, 3, 1, tzinfo=UTC)
Row = dict[str, Any]


def records(count: int = 300) -> list[Row]:
    """Keys of unlike weights, times that run over ten days, lengths."""
    return [
        {"k": f"key-{n * n % 17}", "n": n % 5, "at": DAY + timedelta(minutes=48 * n), "size": n % 7, "other": "x" * 20}
        for n in range(count)
    ]


def write(path: Path, rows: Sequence[Row]) -> None:
    """A file of the kind that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return
    texts = [{name: _text(value) for name, value in row.items()} for row in rows]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in texts))
    else:
        lines = [",".join("" if v is None else str(v) for v in row.values()) for row in texts]
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value

"""Dead letters of a folder as `verify` reads them: no bytes in them stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from tests.hostile_values import JSON_VALUES

from keylane.systems.files.stream import ReadLanes
from keylane.systems.streams import Part

if TYPE_CHECKING:
    from pathlib import Path


def test_no_letter_stops_the_reading_of_the_others(tmp_path: Path) -> None:
    originals = [*JSON_VALUES, b'{"k": "good"}', None]
    rows = len(originals)
    table = pa.table(
        {
            "keylane_offset": pa.array(range(rows), pa.int64()),
            "keylane_source": pa.array([{"file": "a.jsonl", "row": n} for n in range(rows)]),
            "reason": pa.repeat("malformed-record", rows),
            "original": pa.array(originals, pa.binary()),
            "fingerprint": pa.repeat("f", rows),
        }
    )
    pq.write_table(table, tmp_path / "part.dead")
    (batch,) = ReadLanes()(Part(str(tmp_path / "part.dead"), end=rows, dead=True), ["k"])
    assert batch.num_rows == rows
    assert batch.column("k").to_pylist()[-2:] == ["good", None]

"""Lines and rows of a source as `verify` reads them: with the same contents as `route` gives their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from keylane.history.digests import of_columns
from keylane.systems.files.stream import ReadLines, ReadParquet
from keylane.systems.streams import Part

if TYPE_CHECKING:
    from pathlib import Path


def digests(folder: Path, text: bytes, schema: pa.Schema, name: str = "a.jsonl") -> list[int | None]:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
    (batch,) = ReadLines("json", schema)(Part(str(file), name), [])
    return list(batch.column("digest").to_pylist())


def test_a_line_has_what_is_written_in_its_path_unless_it_has_its_own(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("day", pa.string())])
    found = digests(tmp_path, b'{"k": "a"}\n{"k": "b", "day": "2"}\n{"k": "c", "day": null}\n', schema, "day=1/a.jsonl")
    expected = {"k": pa.array(["a", "b", "c"]), "day": pa.array(["1", "2", None])}
    assert found == of_columns(expected).to_pylist()


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    text, schema = b'{"k": "a"}\n{"k": "b"}\n', pa.schema([("k", pa.string())])
    assert digests(tmp_path, b"\xef\xbb\xbf" + text, schema) == digests(tmp_path, text, schema)
    assert None not in digests(tmp_path, text, schema)


def test_columns_that_keylane_adds_are_not_compared(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string())])
    found = digests(tmp_path, b'{"k": "a", "keylane_offset": 7, "keylane_source": {"file": "x", "row": 1}}\n', schema)
    assert found == digests(tmp_path, b'{"k": "a"}\n', schema)


def test_a_time_too_far_for_python_has_a_digest_of_its_own(tmp_path: Path) -> None:
    times = pa.array([[0], [2**62], None], pa.list_(pa.timestamp("us", "UTC")))
    pq.write_table(pa.table({"t": times}), tmp_path / "a.parquet")
    for as_messages in (False, True):
        (batch,) = ReadParquet(as_messages=as_messages)(Part(str(tmp_path / "a.parquet"), "a.parquet", end=3), [])
        assert len(set(batch.column("digest").to_pylist()) - {None}) == 3
        assert batch.column("letter").null_count == 3, "its dead letter has the same digest"

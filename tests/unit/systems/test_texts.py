"""Text as verify reads it: the cells of a line of CSV as Spark's parser made them, and times to their last digit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keylane.history.digests import of_columns
from keylane.systems.texts import cells_of, is_finer, rendered_digest


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b"a,b", ["a", "b"]),
        (b'"a,b",c', ["a,b", "c"]),
        (b'"key-6"5,163[', ['"key-6"5', "163["]),
        (b'"e"y-52\\ud800,52', ['"e"y-52\\ud800', "52"]),
        (b'"open,b', None),
        (b"\xff,b", None),
    ],
)
def test_cells_of_a_line(line: bytes, cells: list[str] | None) -> None:
    assert cells_of(line) == cells


#: 2026-11-16T09:30:00.123456Z in nanoseconds.
AT = 1_794_821_400_123_456_000
NANOS = pa.timestamp("ns", "UTC")
NESTED = pa.struct([("at", pa.list_(NANOS))])


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("2026-11-16T09:30:00.123456Z", AT),
        ("2026-11-16T09:30:00.123456001Z", AT + 1),
        ("2026-11-16T10:30:00.123456+01:00", AT),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_of_json_has_the_digest_of_the_column_that_it_was(text: str, nanos: int) -> None:
    schema = pa.schema([("at", NANOS), ("inside", NESTED)])
    written = pa.array([f'{{"at":"{text}","inside":{{"at":["{text}"]}}}}'.encode()])
    columns = {"at": pa.array([nanos], NANOS), "inside": pa.array([{"at": [nanos]}], NESTED)}
    assert rendered_digest(written, schema) == of_columns(columns)
    other = columns | {"at": pa.array([nanos + 1], NANOS)}
    assert rendered_digest(written, schema) != of_columns(other), "one nanosecond is another content"


def test_a_time_that_microseconds_cannot_hold_is_known_by_its_digits() -> None:
    assert is_finer("2026-11-16T09:30:00.123456001Z", NANOS)
    assert is_finer({"at": [None, "2026-11-16T09:30:00.1234560010Z"]}, NESTED)
    assert not is_finer({"at": ["2026-11-16T09:30:00.123456000Z"]}, NESTED)
    assert not is_finer("2026-11-16T09:30:00.123456001Z", pa.string())
    assert not is_finer(None, NANOS)

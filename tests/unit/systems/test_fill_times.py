"""Records that are loaded with times of their own: each row's, in whatever form, or the load is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.errors import KeylaneError
from keylane.keys.times import TimeField
from keylane.systems.broker.fill import rows_of
from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_763_000_000_123


def times(path: Path, given: str) -> list[int | None]:
    return [row[2] for row in rows_of(str(path), "k", StreamOptions(), TimeField.of(given))]


def test_each_row_brings_its_own_time(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,at\na,13/11/2025 02:13\nb,14/11/2025 02:13\n")
    assert times(tmp_path / "a.csv", "at:%d/%m/%Y %H:%M") == [1_762_999_980_000, 1_763_086_380_000]
    (tmp_path / "a.jsonl").write_text(f'{{"k": "a", "at": {AT}}}\n\n{{"k": null, "at": {AT // 1000}.5}}\n')
    (tmp_path / "b.jsonl").write_text('{"k": "a", "at": "2025-11-13T02:13:20Z"}\n')
    assert times(tmp_path / "b.jsonl", "at") == [1_763_000_000_000]
    pq.write_table(pa.table({"k": ["a"], "at": pa.array([AT * 1000], pa.timestamp("us"))}), tmp_path / "a.parquet")
    assert times(tmp_path / "a.parquet", "at") == [AT]
    assert [row[2] for row in rows_of(str(tmp_path / "a.csv"), "k", StreamOptions())] == [None, None]


@pytest.mark.parametrize(
    "cells", ["02:30", "", "5/1/2014 0:02:00", "1969-12-31", "x"], ids=["clock", "none", "two readings", "1969", "text"]
)
def test_a_row_without_a_time_is_named(cells: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"k,at\na,2025-11-13\nb,{cells}\n")
    with pytest.raises(KeylaneError, match="row 2"):
        times(tmp_path / "a.csv", "at")


def test_numbers_of_two_units_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"k": "a", "at": {AT // 1000 ** (n % 2)}}}\n' for n in range(20)))
    with pytest.raises(KeylaneError, match="several units"):
        times(tmp_path / "a.jsonl", "at")
    assert len(times(tmp_path / "a.jsonl", "at:ms")) == 20

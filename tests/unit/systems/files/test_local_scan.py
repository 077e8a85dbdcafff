"""What a count in this process makes of odd files: lanes that are none, far times.

That Spark makes the same of them: `tests/spark/test_engines.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane import profile
from keylane.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.documents.profile import ProfileDocument


def counted(path: Path, **options: Any) -> ProfileDocument:
    return profile(str(path), "k", engine="local", **options)


@pytest.mark.parametrize(
    ("lanes", "got"),
    [
        (pa.array([1, 2**63], pa.uint64()), str(2**63)),
        (pa.array(["1", "a"]), "'a'"),
        (pa.array(["1", "1.0"]), "'1.0'"),
        (pa.array([1, None]), "'null'"),
        (pa.array([1, -1]), "-1"),
    ],
    ids=["beyond 64 bits with a sign", "text", "decimals", "null", "negative"],
)
def test_what_is_no_lane_is_named(lanes: pa.Array, got: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a", "b"], "lane": lanes}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=f"^column 'lane' holds no lane: got {got}; allowed: 0 to 999999$"):
        counted(tmp_path / "a.parquet", lane="lane")


def test_a_column_of_lanes_with_decimals_is_named_and_not_the_key_or_the_time(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,p,at\n" + "".join(f"key-{n},{n % 3}.0,{1_794_821_400 + n}\n" for n in range(9)))
    for more in ({}, {"time": "at"}):
        with pytest.raises(DataError, match=r"column 'p' of .*a\.csv holds no whole numbers: got '0\.0'"):
            counted(tmp_path / "a.csv", lane="p", **more)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_times_beyond_all_years_are_no_times(unit: str, tmp_path: Path) -> None:
    """Footers with years that Python has no date for, and times that would not fit into microseconds."""
    today = 1_794_821_400_000 * (1000 if unit == "us" else 1)
    stamps = pa.array([today, today + 1, 2**63 - 1, -(2**63) + 1]).cast(pa.timestamp(unit))
    pq.write_table(pa.table({"k": ["a", "b", "c", "d"], "at": stamps}), tmp_path / "a.parquet")
    found = counted(tmp_path / "a.parquet", time="at", windows=2)
    assert str(found.windows.edges[0]).startswith("2026-11-16T09:30:00")
    assert "2 records have no readable time" in found.how["windows"]

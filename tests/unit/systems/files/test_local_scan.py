"""What a count in this process makes of odd files: lines that cannot be read, lanes that are none, far times.

That Spark makes the same of them: `tests/spark/test_engines.py`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane import partitioner, profile
from keylane.errors import DataError
from keylane.systems.files import local_scan

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.documents.profile import ProfileDocument

LANES = 6


def half_read(path: Path) -> None:
    """One writer, every key in its lane, and as many lines whose key is a number with decimals."""
    place = partitioner("kafka-java").lane
    good = [{"k": f"key-{n}", "lane": place(b"key-%d" % n, LANES), "at": 1_794_821_400 + n} for n in range(300)]
    odd = [{**line, "k": n + 0.5} for n, line in enumerate(good)]
    path.write_text("\n".join(json.dumps(line) for both in zip(good, odd, strict=True) for line in both))


def counted(path: Path, **options: Any) -> ProfileDocument:
    return profile(str(path), "k", engine="local", **options)


def fullest(found: ProfileDocument) -> float:
    assert found.lanes is not None
    lanes = [sum(lane) for lane in found.lanes.by_window]
    return max(lanes) * len(lanes) / sum(lanes)


def test_a_line_that_cannot_be_read_is_in_no_lane_and_fills_none(tmp_path: Path) -> None:
    half_read(tmp_path / "a.jsonl")
    found = counted(tmp_path / "a.jsonl", lane="lane", time="at", windows=3)
    assert found.lanes is not None
    assert (found.records, found.without_key.malformed, sum(map(sum, found.lanes.by_window))) == (600, 300, 300)
    assert "300 lines that cannot be read are in none" in found.how["lanes"]
    assert fullest(found) < 1.3


def test_counted_in_lane_0_they_would_fill_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: as it was."""
    half_read(tmp_path / "a.jsonl")
    monkeypatch.setattr(local_scan, "NO_LANE", 0)
    assert fullest(counted(tmp_path / "a.jsonl", lane="lane")) > 3


@pytest.mark.parametrize(
    ("lanes", "got"),
    [
        (pa.array([1, 2**63], pa.uint64()), str(2**63)),
        (pa.array(["1", "a"]), "'a'"),
        (pa.array(["1", "1.0"]), "'1.0'"),
        (pa.array([1, -1]), "-1"),
    ],
    ids=["beyond 64 bits with a sign", "text", "decimals", "negative"],
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

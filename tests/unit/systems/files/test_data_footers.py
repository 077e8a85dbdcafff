"""What footers tell, and what they do not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.errors import DataError
from keylane.systems.files.footers import Ends, ends_of, read_footers

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400_000_000


def ends(tmp_path: Path, *files: list[Any], kind: pa.DataType | None = None, **how: Any) -> Ends | None:
    paths = []
    for number, values in enumerate(files):
        paths.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(pa.table({"at": pa.array(values, kind)}), paths[-1], row_group_size=2, **how)
    return ends_of(read_footers(paths), "at")


@pytest.mark.parametrize(
    ("values", "kind", "told"),
    [
        ([date(1970, 1, 2), date(1970, 1, 4), None], pa.date32(), Ends(DAY, 3 * DAY, 1, timed=True)),
        ([datetime(1970, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC"), Ends(DAY, DAY, 0, timed=True)),
        ([datetime(1970, 1, 2)], pa.timestamp("ms"), Ends(DAY, DAY, 0, timed=True)),  # noqa: DTZ001  as files have it
        ([5, -7, 9], pa.int64(), Ends(-7, 9, 0, timed=False)),
        (["1970-01-02"], pa.string(), None),
        ([1.5], pa.float64(), None),
        ([None], pa.int64(), None),
    ],
    ids=["days", "times", "times without a zone", "numbers", "text", "fractions", "nothing but nulls"],
)
def test_the_ends_of_a_column(values: list[Any], kind: pa.DataType, told: Ends | None, tmp_path: Path) -> None:
    assert ends(tmp_path, values, kind=kind) == told


def test_ends_go_over_all_files_and_row_groups(tmp_path: Path) -> None:
    assert ends(tmp_path, [5, 6, 1, None], [9], [2, 3], kind=pa.int64()) == Ends(1, 9, 1, timed=False)
    assert ends(tmp_path, [], [9], kind=pa.int64()) == Ends(9, 9, 0, timed=False)


def test_footers_without_statistics_tell_nothing(tmp_path: Path) -> None:
    assert ends(tmp_path, [5, 6], kind=pa.int64(), write_statistics=False) is None
    pq.write_table(pa.table({"other": [1]}), tmp_path / "x.parquet")
    assert ends_of(read_footers([str(tmp_path / "x.parquet")]), "at") is None


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(DataError, match=r"x\.parquet .*Parquet"):
        read_footers([str(tmp_path / "x.parquet")])

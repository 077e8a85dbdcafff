"""What footers tell, and what they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.errors import DataError
from keylane.systems.files.footers import read_footers

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400_000_000


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no")
    with pytest.raises(DataError, match=r"x\.parquet .*Parquet"):
        read_footers([str(tmp_path / "x.parquet")])

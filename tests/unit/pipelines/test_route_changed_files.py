"""Source files that change under a route, without Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from keylane.errors import DataError
from keylane.spark.read_parquet import SourceFile
from keylane.systems.files.follow import changed_since, check_unchanged
from keylane.systems.folders.folder import TakenFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> SourceFile:
    path = tmp_path / "a.csv"
    path.write_text("k\n")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    return SourceFile(str(path), path.as_uri(), "a.csv", 2, 1_700_000_000_123)


def test_a_file_that_is_as_it_was(file: SourceFile) -> None:
    check_unchanged([file, file])


@pytest.mark.parametrize("change", ["grown", "touched", "gone"])
def test_one_that_is_not(file: SourceFile, tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.csv"
    if change == "gone":
        path.unlink()
    else:
        path.write_text("k\n" if change == "touched" else "k\na\n")
    with pytest.raises(DataError, match=r"allowed: 2 bytes of 1700000000.123"):
        check_unchanged([file])


def test_what_was_taken_and_has_changed_is_told(file: SourceFile, tmp_path: Path) -> None:
    same, gone = TakenFile("a.csv", file.size, file.modified, 1), TakenFile("gone.csv", 5, 5, 1)
    assert list(changed_since([same, gone], tmp_path)) == []
    other = TakenFile("a.csv", 1, file.modified, 1)
    (told,) = changed_since([same, other, other, other, other], tmp_path)
    assert "a.csv (1 bytes of 1700000000.123 then, 2" in told
    assert "1 more" in told
    assert list(changed_since([same], tmp_path / "a.csv")) == [], "a source that is one file"

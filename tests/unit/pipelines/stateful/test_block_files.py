"""Which files of blocks go: those that were taken, of a kill at any file none is left behind, and never one to come."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.pipelines.stateful.test_state_folder import HEAD

from keylane.pipelines.stateful.block_files import BlockFiles
from keylane.pipelines.stateful.state_folder import open_state
from keylane.systems.files.spark_log import LoggedFile, SparkLog

#: Batches of the steps take the blocks of one batch of the source each.
MADE = 9


def left(files: BlockFiles) -> list[int]:
    """The numbers of all that is there, of which each has all of its files or none."""
    names = {path.name.lstrip(".").partition(".")[0] for path in files.state.blocks.iterdir()}
    found = sorted(int(name.partition("-")[0]) for name in names)
    assert all(files.path(one).exists() and files.facts_path(one).exists() for one in found)
    return found


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlockFiles:
    with open_state(tmp_path / "state", HEAD) as state:
        files = BlockFiles(state)
    for number in range(MADE):
        files.note(number, "offsets", "digest", {})
        path = files.path(number)
        path.touch()
        path.with_name(f".{path.name}.crc").touch()
    monkeypatch.setattr(SparkLog, "of_batch", lambda _, batch: [LoggedFile(str(files.path(batch)), 0)])
    return files


def test_blocks_that_were_taken_go_and_no_others(files: BlockFiles) -> None:
    files.forget(0)
    assert left(files) == list(range(MADE))
    files.forget(5)
    assert left(files) == list(range(4, MADE))
    # Of the two newest the next batch of the source is made.
    files.forget(MADE)
    assert left(files) == [MADE - 2, MADE - 1]


@pytest.mark.parametrize("removed", range(6))
def test_a_kill_between_two_files_leaves_none_behind(
    files: BlockFiles, removed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = Path.unlink, iter(range(100))

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        if next(calls) == removed:
            raise KeyboardInterrupt
        plain(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            files.forget(5)
    files.forget(5)
    assert left(files) == list(range(4, MADE))


def test_a_source_without_a_block_leaves_two_notes(files: BlockFiles) -> None:
    for number in range(MADE, MADE + 5):
        files.note(number, "offsets", "", {})
    assert files.numbers() == [*range(MADE), MADE + 3, MADE + 4]

"""Merging small files: the same records, in one step for whoever lists a lane, and safe to kill."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from keylane.cli.compact import compact as command
from keylane.cli.output import render
from keylane.errors import TargetError
from keylane.systems.folders import compaction
from keylane.systems.folders.compaction import compact, grouped
from keylane.systems.folders.folder import Counts, Head, Manifest, Placed, dead_file, lane_file, open_target
from keylane.testing.folders import Seen, files_of, lanes_of, seen

HEAD = Head("orders", 1, "f" * 64, {"orders": 2}, "/in", "parquet", "*")
BATCHES, ROWS = 7, 30


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Two lanes of seven files, the last three with a column more; and dead letters."""
    path = tmp_path / "out"
    with open_target(path, HEAD) as held:
        for batch in range(BATCHES):
            staging = held.staging(batch)
            finals = [lane_file("orders", 0, batch), lane_file("orders", 1, batch), dead_file(batch)]
            for n in range(3):
                pq.write_table(_table(batch), staging / str(n))
            placed = tuple(Placed(str(n), final, ROWS) for n, final in enumerate(finals))
            done = {"orders": [(batch + 1) * ROWS] * 2}
            counts = Counts(3 * ROWS, 2 * ROWS, ROWS)
            held.commit(Manifest(batch, "q", "f" * 64, staging.name, counts, counts, done, 0, placed, (), 0, 0, 0, ""))
    return path


def _table(batch: int) -> pa.Table:
    numbers = range(batch * ROWS, (batch + 1) * ROWS)
    columns = {
        "k": [f"key-{n}" for n in numbers],
        "keylane_offset": list(numbers),
        "keylane_source": [{"file": f"f{batch}", "row": n % ROWS} for n in numbers],
        **({"later": [n / 2 for n in numbers]} if batch >= 4 else {}),
    }
    return pa.table(columns)


def rows(path: Path) -> list[tuple[int, list[dict[str, object]]]]:
    return [(lane, table.to_pylist()) for _, lane, table in lanes_of(path)]


def test_the_records_stay_and_the_files_become_few(target: Path) -> None:
    before = rows(target)
    done = compact(target)
    assert [(one.folder, one.files_before, one.files_after, one.records) for one in done] == [
        ("stream=orders/lane=0", 7, 1, 210),
        ("stream=orders/lane=1", 7, 1, 210),
        ("_dead", 7, 1, 210),
    ]
    assert [file.name for file in files_of(target)] == ["part-0000000000-0000000006.parquet"] * 2
    assert rows(target) == before
    assert pq.ParquetFile(files_of(target)[0]).metadata.num_row_groups == 1
    assert compact(target) == []
    assert not any((target / "_keylane" / "staging").iterdir())


def test_files_that_are_large_enough_stay_as_they_are(target: Path) -> None:
    files = files_of(target)[:BATCHES]
    before, last = rows(target), files[-1].stat().st_ino
    compact(target, size=sum(file.stat().st_size for file in files[:6]))
    after = [file for file in files_of(target) if file.parent.name == "lane=0"]
    assert [file.name for file in after] == ["part-0000000000-0000000005.parquet", "part-0000000006.parquet"]
    assert after[-1].stat().st_ino == last
    assert rows(target) == before
    assert compact(target, size=1) == []


def test_grouping() -> None:
    files = [(Path(name), size) for name, size in (("a", 5), ("b", 5), ("c", 20), ("d", 1), ("e", 2))]
    assert [[file.name for file in group] for group in grouped(files, 10)] == [["a", "b"], ["c"], ["d", "e"]]
    assert grouped([], 10) == []


@pytest.mark.parametrize("point", ["merged", "exchanged"])
def test_a_kill_leaves_the_old_files_or_the_new_ones(target: Path, point: str) -> None:
    before = seen(target)
    child = os.fork()
    if child == 0:  # pragma: no cover - the child leaves without telling anybody
        compact(target, probe=lambda at, _: os._exit(9) if at == point else None)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert seen(target) == before
    assert len(files_of(target)) == {"merged": 14, "exchanged": 8}[point]
    compact(target)
    assert seen(target) == before
    assert len(files_of(target)) == 2
    assert not any((target / "_keylane" / "staging").iterdir())


def test_a_reader_that_lists_meanwhile_sees_every_record_once(target: Path) -> None:
    before = seen(target)
    looks: list[set[Seen]] = []
    compact(target, probe=lambda _point, _batch: looks.append(seen(target)))
    assert len(looks) == 6
    assert all(look == before for look in looks)


def test_a_file_system_that_cannot_exchange(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, files = seen(target), files_of(target)

    class Library:
        def __init__(self, *_: object, **__: object) -> None: ...

    monkeypatch.setattr(ctypes, "CDLL", Library)
    with pytest.raises(TargetError, match="exchange two"):
        compact(target)
    assert (seen(target), files_of(target)) == (before, files)


def test_a_file_of_somebody_elses(target: Path) -> None:
    (files_of(target)[0].parent / "mine.parquet").write_bytes(b"?")
    with pytest.raises(TargetError, match=r"got 'mine\.parquet'"):
        compact(target)


def test_records_that_do_not_add_up(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compaction._merge
    monkeypatch.setattr(compaction, "_merge", lambda files, folder: whole(files[1:], folder))
    before = seen(target)
    with pytest.raises(ArithmeticError, match="got 180; allowed: 210"):
        compact(target)
    assert seen(target) == before


def test_the_command(target: Path) -> None:
    done = CliRunner().invoke(command, [str(target), "--size", "1g"], standalone_mode=False)
    result, output = done.return_value
    assert output == "table"
    assert (result.document.files_before, result.document.files_after) == (21, 3)
    assert json.loads(render(result, "json"))["schema"] == "keylane.compact/1"
    again = CliRunner().invoke(command, [str(target)], standalone_mode=False).return_value[0]
    assert "nothing to merge" in render(again, "table")
    wrong = CliRunner().invoke(command, [str(target), "--size", "much"])
    assert wrong.exit_code == 2

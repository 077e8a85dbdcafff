"""The auditor finds every fault that is planted, and none where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import LANES, contract

from keylane import Router
from keylane.testing.folders import problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 200
Rows = list[dict[str, Any]]


def lanes() -> dict[int, Rows]:
    """A right target, as rows by lane."""
    router = Router(contract())
    found: dict[int, Rows] = {lane: [] for lane in range(LANES)}
    for row in range(ROWS):
        record: dict[str, Any] = {"k": f"key-{row % 13}", "n": row}
        lane = router.lane(record)
        assert lane is not None
        at = {"file": "a", "row": row}
        found[lane].append({**record, "keylane_offset": len(found[lane]), "keylane_source": at})
    return found


def audited(folder: Path, written: dict[int, Rows]) -> list[str]:
    for lane, rows in written.items():
        path = folder / f"stream=orders/lane={lane}"
        path.mkdir(parents=True)
        for n in range(0, len(rows), 40):
            pq.write_table(pa.Table.from_pylist(rows[n : n + 40]), path / f"part-{n:04d}.parquet")
    return problems(folder, ["a"], {"a": range(ROWS)}, Router(contract()))


def test_nothing_is_wrong_with_a_right_target(tmp_path: Path) -> None:
    assert audited(tmp_path, lanes()) == []


def duplicated(found: dict[int, Rows]) -> None:
    found[1].append({**found[1][-1], "keylane_offset": len(found[1])})


def lost(found: dict[int, Rows]) -> None:
    found[2].pop()


def invented(found: dict[int, Rows]) -> None:
    last = found[1][-1]
    found[1].append({**last, "keylane_offset": len(found[1]), "keylane_source": {"file": "a", "row": 9999}})


def reordered(found: dict[int, Rows]) -> None:
    one, other = found[1][10], found[1][11]
    one["keylane_source"], other["keylane_source"] = other["keylane_source"], one["keylane_source"]


def gapped(found: dict[int, Rows]) -> None:
    found[3][-1]["keylane_offset"] += 1


def misplaced(found: dict[int, Rows]) -> None:
    found[1][5]["k"] = found[2][0]["k"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (duplicated, "there twice"),
        (lost, "are lost"),
        (invented, "from nowhere"),
        (reordered, "goes back"),
        (gapped, "should be"),
        (misplaced, "belong elsewhere"),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, fault: Callable[[dict[int, Rows]], None], words: str) -> None:
    found = lanes()
    fault(found)
    told = audited(tmp_path, found)
    assert any(words in problem for problem in told), told

"""`keylane plan` of an aggregation: one choice with `aggregate explain`, and exit code 3 for what should change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from keylane.aggregation.choose import Running, best_lanes, divided
from keylane.aggregation.lanes import WindowLoad
from keylane.documents.model import json_schema
from keylane.documents.schemas import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

HOT_MIX = [
    WindowLoad(f"q{query}", minute, 6_000 if query < 15 else 10, 4) for query in range(1_000) for minute in range(60)
]
EVEN_MIX = [WindowLoad(f"q{query}", minute, 100, 4) for query in range(1_000) for minute in range(60)]
ONE_WINDOW = [WindowLoad(f"q{query}", 7, 6_000 if query < 2 else 1, 4) for query in range(50)]


def delivered(folder: Path, windows: list[WindowLoad], running: Running | None) -> Path:
    (folder / "_load" / "batch=0").mkdir(parents=True)
    (folder / "_metrics").mkdir()
    rows = {
        "query_id": [one.query for one in windows],
        "window": [one.number for one in windows],
        "events": [one.events for one in windows],
        "partials": [one.partials for one in windows],
    }
    pq.write_table(pa.table(rows), folder / "_load" / "batch=0" / "part-00000.parquet")
    known = {"by": running.by, "partial": running.partial, "lanes": running.lanes} if running else None
    metrics = {"open_windows": 0, "state_bytes": 0, "lag_s": {}, "running": known}
    (folder / "_metrics" / "0000000000.json").write_text(json.dumps(metrics))
    return folder


def asked(run: Run, *words: str) -> tuple[int, dict[str, Any]]:
    ended, out, err = run(*words, "-o", "json")
    assert out, err
    document: dict[str, Any] = json.loads(out)
    name = document["schema"].removeprefix("keylane.").removesuffix("/1")
    Draft202012Validator(json_schema(DOCUMENTS[name])).validate(document)
    return ended, document


@pytest.mark.parametrize(
    ("windows", "running", "words", "code", "chosen"),
    [
        pytest.param(HOT_MIX, Running("query", True, 64), [], 3, ("query-window", True, 64), id="hot by query"),
        pytest.param(
            HOT_MIX, Running("query-window", True, 64), [], 0, ("query-window", True, 64), id="hot by query and window"
        ),
        pytest.param(
            HOT_MIX, Running("query-window", False, 64), [], 3, ("query-window", True, 64), id="hot without partial"
        ),
        pytest.param(EVEN_MIX, Running("query", True, 8), [], 0, ("query", True, 8), id="even by query"),
        pytest.param(EVEN_MIX, Running("query-window", True, 8), [], 0, ("query-window", True, 8), id="even anyway"),
        pytest.param(
            HOT_MIX, Running("query-window", True, 8), ["-n", "64"], 3, ("query-window", True, 64), id="other lanes"
        ),
        pytest.param(
            HOT_MIX, Running("query-window", True, 8), ["-n", "8..64"], 0, ("query-window", True, 8), id="among lanes"
        ),
        pytest.param(HOT_MIX, None, ["-n", "16..64"], 0, ("query-window", True, 64), id="nothing known to run"),
        pytest.param(EVEN_MIX, None, ["-n", "8"], 0, ("query", True, 8), id="even, nothing known to run"),
        pytest.param(ONE_WINDOW, Running("query", True, 8), [], 0, ("query", True, 8), id="nothing helps"),
        pytest.param(
            ONE_WINDOW, Running("query", True, 8), ["--max-over-mean", "2"], 4, ("query", True, 8), id="not possible"
        ),
    ],
)
def test_the_plan_says_whether_what_runs_should_change(
    run: Run,
    tmp_path: Path,
    windows: list[WindowLoad],
    running: Running | None,
    words: list[str],
    code: int,
    chosen: tuple[str, bool, int],
) -> None:
    folder = delivered(tmp_path / "results", windows, running)
    ended, found = asked(run, "plan", str(folder), *words)
    assert (ended, tuple(found["chosen"].values())) == (code, chosen)
    assert found["changes"] == (code == 3)
    # `explain` of as many lanes has the same choice, reason and figures.
    _, explained = asked(run, "aggregate", "explain", str(folder), "-n", str(chosen[2]))
    assert (explained["chosen"], explained["advice"]) == (found["chosen"], found["advice"])
    loads = {one["division"]: one["max_over_mean"] for one in explained["divisions"]}
    planned = {one["division"]: one["max_over_mean"] for one in found["candidates"] if one["lanes"] == chosen[2]}
    assert loads == planned


def test_a_count_that_runs_and_is_not_even_is_left_for_an_even_one() -> None:
    """With 50 windows of one query more than a few lanes cannot be even."""
    windows = [WindowLoad("q", number, 10, 1) for number in range(50)]
    assert divided(windows, 64, None).even
    few = [WindowLoad("q", number, 10, 1) for number in range(20)]
    chosen, each = best_lanes(few, [10, 64], Running("query-window", True, 64))
    assert (chosen.lanes, chosen.even, chosen.takes_anew(Running("query-window", True, 64))) == (10, True, True)
    assert [one.even for one in each] == [True, False]


def test_what_says_nothing_about_an_aggregation_is_refused(run: Run, tmp_path: Path) -> None:
    folder = str(delivered(tmp_path / "results", EVEN_MIX[:100], None))
    ended, _, err = run("plan", folder)
    assert (ended, "--lanes N or LOW..HIGH" in err) == (2, True)
    ended, _, err = run("plan", folder, "--lanes", "4", "--growth", "2", "--out", str(tmp_path / "p.json"))
    assert ended == 2
    assert "leave out --growth, --out" in err
    assert not (tmp_path / "p.json").exists()
    ended, out, _ = run("plan", folder, "--lanes", "4")
    assert (ended, "how the aggregation runs is not known" in out) == (0, True)

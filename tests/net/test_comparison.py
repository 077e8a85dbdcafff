"""The planted twin of the net: what a mistake of a refactoring would change is told, and nothing else is."""

from __future__ import annotations

import json
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.net import snapshots
from tests.net.pages import page_held
from tests.net.running import keylane
from tests.net.snapshots import differences, held, held_text, normalised, normalised_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Rewriting = Callable[[], AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def rewriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rewriting:
    """Snapshots in a folder of the test: rewritten inside of this, and held outside, whatever the run is for."""
    monkeypatch.setattr(snapshots, "FOLDER", tmp_path)
    monkeypatch.setattr(snapshots, "UPDATE", "")

    @contextmanager
    def rewriting() -> Iterator[None]:
        with monkeypatch.context() as now:
            now.setattr(snapshots, "UPDATE", "1")
            yield

    return rewriting


@pytest.fixture
def printed() -> dict[str, Any]:
    """What `explain` says, as it is held."""
    ended = keylane("explain", "TT0124", "-n", 15, "-o", "json")
    return {"exit_code": ended.code, "document": normalised(json.loads(ended.out))}


def _renamed(document: dict[str, Any]) -> None:
    document["document"]["lane_count"] = document["document"].pop("lanes")


def _nested(document: dict[str, Any]) -> None:
    document["document"]["placements"][0]["lane"] += 1


def _typed(document: dict[str, Any]) -> None:
    document["document"]["lanes"] = float(document["document"]["lanes"])


def _reordered(document: dict[str, Any]) -> None:
    document["document"]["key"] = document["document"].pop("key")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_renamed, id="a field renamed"),
        pytest.param(_nested, id="a value"),
        pytest.param(_typed, id="a type"),
        pytest.param(_reordered, id="the order of fields"),
        pytest.param(lambda document: document.update(exit_code=1), id="the exit code"),
        pytest.param(lambda document: document["document"]["groups"].pop(), id="an item less"),
        pytest.param(lambda document: document["document"].update(new=None), id="a field more"),
    ],
)
def test_a_change_is_reported(
    change: Callable[[dict[str, Any]], None], printed: dict[str, Any], rewriting: Rewriting
) -> None:
    with rewriting():
        held("explain", printed)
    held("explain", printed)
    changed = deepcopy(printed)
    change(changed)
    assert differences(printed, changed)
    with pytest.raises(AssertionError, match=r"explain\.json"):
        held("explain", changed)


def test_words_are_held_apart(rewriting: Rewriting) -> None:
    text = normalised_text(keylane("explain", "TT0124", "-n", 15).out)
    with rewriting():
        held_text("explain", text)
    held_text("explain", text)
    with pytest.raises(AssertionError, match=r"explain\.text\.txt"):
        held_text("explain", text.replace("disagree", "differ"))


def test_what_differs_from_run_to_run_is_not_held_and_all_else_is() -> None:
    one = {"at": "/a/b/x.parquet", "seconds": 1.5, "note": "Some words.", "key": "merc…1a2b3c", "n": 0.1 + 0.2}
    other = {"at": "/c/x.parquet", "seconds": 2.5, "note": "Other words.", "key": "merc…ffffff", "n": 0.3}
    assert normalised(one, Path("/a/b")) == normalised(other, Path("/c"))
    assert normalised(one, Path("/a/b")) == {
        "at": "<0>/x.parquet",
        "seconds": "<float>",
        "note": "<text>",
        "key": "merc…<random>",
        "n": 0.3,
    }
    assert differences(normalised(one), normalised({**one, "seconds": "1.5"}))
    assert differences(normalised(one), normalised({**one, "note": "word"}))
    assert differences(normalised(one), normalised({**one, "n": 0.31}))


def test_what_has_no_snapshot_is_not_passed_over() -> None:
    with pytest.raises(AssertionError, match="no snapshot"):
        held("new", {})
    with pytest.raises(AssertionError, match="no snapshot"):
        held_text("new", "")


def test_a_page_is_held_by_its_elements_and_its_data(tmp_path: Path, rewriting: Rewriting) -> None:
    page = tmp_path / "page.html"
    data = '<script type="application/json">{"a": [{"b": 1}]}</script>'
    right = f'<main id="m"><p class="x" data-n="1">Words</p>{data}</main>'
    page.write_text(right)
    with rewriting():
        page_held("page", page)
    page_held("page", page)
    changes = {"<p ": "<b ", '"m"': '"n"', '"x"': '"y"', "data-n": "data-o", '"b"': '"c"', ": 1": ': ""'}
    for old, new in changes.items():
        page.write_text(right.replace(old, new))
        with pytest.raises(AssertionError, match=r"page\.json"):
            page_held("page", page)
    page.write_text(right.replace("Words", "Others"))
    with pytest.raises(AssertionError, match=r"page\.text\.txt"):
        page_held("page", page)

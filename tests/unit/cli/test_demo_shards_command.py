"""`keylane demo shards`: MD5 against handed-out keys, hot shards split, and a hot key that no split helps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from keylane.documents.model import json_schema
from keylane.documents.schemas import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


def shown(run: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = run("demo", "shards", *arguments, "-o", "json")
    assert (code, err) == (0, "")
    document: dict[str, Any] = json.loads(out)
    Draft202012Validator(json_schema(DOCUMENTS["demo-shards"])).validate(document)
    return document


def test_handed_out_keys_and_splits_are_more_even_than_md5(run: Run) -> None:
    document = shown(run)
    by = {one["name"]: one for one in document["trials"]}
    assert by["md5"]["max_over_mean"] > 1.8
    assert by["heaviest-first"]["max_over_mean"] == pytest.approx(document["least"])
    assert max(by[name]["max_over_mean"] for name in ("heaviest-first", "split", "moved-boundaries")) <= 1.2
    assert (by["split"]["shards"] - 32, by["split"]["keyed_accounts"]) == (by["split"]["calls"], 0)
    assert (by["moved-boundaries"]["shards"], by["heaviest-first"]["keyed_accounts"]) == (32, 10_000)
    assert {one["kind"] for one in document["plan"]["hot"]} == {"hot-shard"}


def test_a_hot_key_is_said_to_be_one(run: Run) -> None:
    document = shown(run, "--skew", "1.3", "--accounts", "2000")
    assert (document["plan"]["within_cap"], document["plan"]["hot_keys"] > 0) == (False, True)
    assert "hot key, which no split helps" in run("demo", "shards", "--skew", "1.3", "--accounts", "2000")[1]


@pytest.mark.parametrize("arguments", [("--accounts", 1), ("--shards", 1), ("--skew", 0, "--accounts", 40)])
def test_the_smallest_cases_are_shown_too(run: Run, arguments: tuple[object, ...]) -> None:
    assert len(shown(run, *arguments)["trials"]) >= 4


def test_the_same_seed_gives_the_same_and_a_page_is_kept(run: Run, tmp_path: Path) -> None:
    first, again, other = (shown(run, "--seed", seed) for seed in (7, 7, 8))
    assert first == again != other
    page = tmp_path / "page.html"
    assert run("demo", "shards", "--report", page)[0] == 0
    assert "key space" in page.read_text()
    assert run("demo", "shards", "--report", page)[0] == 2
    assert run("demo", "shards", "--report", page, "--force")[0] == 0

"""`keylane aggregate queries`, and what is refused before Spark starts: the forms that other tools lean on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from keylane import add_queries
from keylane.documents.model import json_schema
from keylane.documents.schemas import DOCUMENTS
from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

QUERY = {"id": "q1", "filter": "type = 'click'", "aggregates": {"n": "count(*)"}, "window": "1 minute", "time": "ts"}


def changed(run: Run, *words: str) -> dict[str, Any]:
    ended, out, err = run("aggregate", "queries", *words, "-o", "json")
    assert ended == 0, err
    document: dict[str, Any] = json.loads(out)
    Draft202012Validator(json_schema(DOCUMENTS["aggregate-queries"])).validate(document)
    return document


def test_queries_are_added_listed_paused_resumed_and_removed(run: Run, tmp_path: Path) -> None:
    registry = str(tmp_path / "q.sqlite")
    one, several = tmp_path / "one.json", tmp_path / "several.yaml"
    one.write_text(json.dumps(QUERY))
    several.write_text(
        "- {id: q2, filter: amount > 10, aggregates: {total: sum(amount)}, window: 5 minutes, slide: 1 minute}\n"
        "- {id: q3, filter: a is null, group_by: [country], aggregates: {n: count(*)}, window: 1 hour, late: correct}\n"
    )
    assert changed(run, "add", str(one), "--queries", registry)["changed"] == ["q1"]
    assert changed(run, "add", str(several), "--queries", registry)["changed"] == ["q2", "q3"]
    assert changed(run, "pause", "q1", "q2", "--queries", registry)["changed"] == ["q1", "q2"]
    assert changed(run, "resume", "q2", "--queries", registry)["version"] == 4
    found = changed(run, "remove", "q3", "--queries", registry)
    assert {query["query_id"]: query["status"] for query in found["queries"]} == {"q1": "paused", "q2": "active"}
    listed = changed(run, "list", "--all", "--queries", registry)
    assert [query["status"] for query in listed["queries"]] == ["paused", "active", "removed"]


def test_a_bad_query_is_refused_with_its_place_and_changes_nothing(run: Run, tmp_path: Path) -> None:
    registry, file = tmp_path / "q.sqlite", tmp_path / "bad.json"
    file.write_text(json.dumps([QUERY, {**QUERY, "id": "q2", "filter": "type = 'click' and and amount > 1"}]))
    ended, _, err = run("aggregate", "queries", "add", str(file), "--queries", str(registry))
    assert ended == 2
    assert "query q2" in err
    assert "at character 20" in err
    assert not registry.exists()


def test_an_aggregation_names_what_is_missing(run: Run, tmp_path: Path) -> None:
    ended, _, err = run("aggregate", "--from", str(tmp_path))
    assert ended == 2
    assert "--to, --queries" in err
    ended, _, err = run("aggregate", "verify", str(tmp_path))
    assert ended == 1
    assert "not a target" in err
    ended, _, err = run("aggregate", "explain", str(tmp_path))
    assert ended == 1
    assert "no delivered windows" in err


def test_queries_from_python(tmp_path: Path) -> None:
    assert add_queries(tmp_path / "q.sqlite", QUERY) == ["q1"]
    assert add_queries(tmp_path / "q.sqlite", [QUERY, {**QUERY, "id": "q2"}]) == ["q2"]
    with pytest.raises(UsageError, match="query q3"):
        add_queries(tmp_path / "q.sqlite", {**QUERY, "id": "q3", "window": "never"})

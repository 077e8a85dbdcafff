"""The published JSON Schemas: current, valid, and of one mind with the models."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic import ValidationError

from keylane.contract import schema
from keylane.contract.model import Contract
from keylane.contract.names import PARTITIONERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VALIDATORS = {"2020-12": Draft202012Validator, "draft-07": Draft7Validator}
MAKERS = {"2020-12": schema.schema_2020_12, "draft-07": schema.schema_draft_07}

SMALL: dict[str, Any] = {
    "apiVersion": "keylane/v1",
    "kind": "RoutingContract",
    "metadata": {"name": "payments"},
    "spec": {"streams": ["payments"], "lanes": 12, "key": {"fields": ["merchant"]}, "partitioner": "kafka-java"},
}
SPREAD = {"keys": ["a"], "spread": {"over": 2, "by": "o"}}

#: what: (path to change, its new value); every one of these is a contract.
GOOD: dict[str, tuple[str, Any]] = {
    "small": ("kind", "RoutingContract"),
    "live lanes": ("spec.lanes", "live"),
    "most lanes": ("spec.lanes", 100_000),
    "labels": ("metadata.labels", {"a": "b"}),
    "owner null": ("metadata.owner", None),
    "encodings in a list": ("spec.key.encoding", ["uuid"]),
    "window": ("spec.key.window", {"field": "at", "size": "1h", "as": "index", "unit": "s"}),
    "hot key of several fields": ("spec.hot_keys", [{"keys": [["a", 1]], "pin": {"lanes": [0]}}]),
    "hot key of the least number": ("spec.hot_keys", [{"keys": [-(2**63)], "pin": {"lanes": [0]}}]),
    "tier with a spread": (
        "spec.hot_keys",
        [{"keys": ["a"], "tier": {"stream": "vip", "lanes": 4, "spread": {"over": 2, "by_position": True}}}],
    ),
    "table": ("spec.table", {"values": {"a": 1, "b": [2, 3]}, "ranges": [{"from": "m", "below": "n", "lane": 1}]}),
    "expect": ("spec.expect", {"max_over_mean": 1, "max_key_share": 0.5, "min_distinct_keys": 10**12}),
    "shards in files": ("spec.shards", {"layout": "today.json", "hash_keys": "accounts.csv"}),
    "shards": (
        "spec.shards",
        {"layout": [{"id": "a", "start": "0", "end": str(2**128 - 1)}], "hash_keys": {"acme": str(2**127)}},
    ),
    "golden": ("spec.golden", [{"key": "a", "lane": 1}, {"record": {"a": 1}, "lane": 0, "lanes": 1, "stream": "x"}]),
}

#: what: (path to change, its new value); none of these is a contract.
BAD: dict[str, tuple[str, Any]] = {
    "another version": ("apiVersion", "keylane/v2"),
    "another kind": ("kind", "Contract"),
    "an unknown field": ("spec.lane", 12),
    "an unknown field at the top": ("status", {}),
    "an unknown field of the key": ("spec.key.endcoding", "utf8"),
    "a bad name": ("metadata.name", "pay ments"),
    "epoch zero": ("metadata.epoch", 0),
    "label a number": ("metadata.labels", {"a": 1}),
    "too many labels": ("metadata.labels", {f"l{i}": "" for i in range(65)}),
    "no lanes": ("spec.lanes", 0),
    "absurd lanes": ("spec.lanes", 10**9),
    "half a lane": ("spec.lanes", 1.5),
    "lanes true": ("spec.lanes", True),
    "lanes text": ("spec.lanes", "12"),
    "no streams": ("spec.streams", []),
    "too many streams": ("spec.streams", [f"s{i}" for i in range(1001)]),
    "no fields": ("spec.key.fields", []),
    "seventeen fields": ("spec.key.fields", [f"f{i}" for i in range(17)]),
    "an empty field name": ("spec.key.fields", [""]),
    "an unknown encoding": ("spec.key.encoding", "utf16"),
    "a long joiner": ("spec.key.join", "|" * 17),
    "an unknown rule": ("spec.key.on_null", "drop"),
    "an unknown partitioner": ("spec.partitioner", "kafka"),
    "a window of nothing": ("spec.key.window", {"field": "at", "size": "0s"}),
    "a window without size": ("spec.key.window", {"field": "at"}),
    "a hot key that is true": ("spec.hot_keys", [{**SPREAD, "keys": [True]}]),
    "a hot key that is a float": ("spec.hot_keys", [{**SPREAD, "keys": [1.5]}]),
    "a hot key above 64 bits": ("spec.hot_keys", [{**SPREAD, "keys": [2**63]}]),
    "a hot key that is null": ("spec.hot_keys", [{**SPREAD, "keys": [None]}]),
    "a hot key of no values": ("spec.hot_keys", [{**SPREAD, "keys": [[]]}]),
    "a spread over one": ("spec.hot_keys", [{"keys": ["a"], "spread": {"over": 1}}]),
    "a spread by 1": ("spec.hot_keys", [{"keys": ["a"], "spread": {"over": 2, "by_position": 1}}]),
    "a spread by no": ("spec.hot_keys", [{"keys": ["a"], "spread": {"over": 2, "by_position": "no"}}]),
    "a pin below zero": ("spec.hot_keys", [{"keys": ["a"], "pin": {"lanes": [-1]}}]),
    "a tier without lanes": ("spec.hot_keys", [{"keys": ["a"], "tier": {"stream": "vip"}}]),
    "a table lane that is text": ("spec.table", {"values": {"a": "1"}}),
    "a table value on no lanes": ("spec.table", {"values": {"a": []}}),
    "a table otherwise": ("spec.table", {"values": {"a": 1}, "otherwise": "drop"}),
    "a range with Python's name": ("spec.table", {"ranges": [{"from_": "a", "lane": 1}]}),
    "a range without a lane": ("spec.table", {"ranges": [{"from": "a"}]}),
    "a shard that starts at a number": ("spec.shards", {"layout": [{"id": "a", "start": 0, "end": "9"}]}),
    "a shard without an end": ("spec.shards", {"layout": [{"id": "a", "start": "0"}]}),
    "no shard": ("spec.shards", {"layout": []}),
    "a hash key that is a number": ("spec.shards", {"hash_keys": {"acme": 7}}),
    "a hash key with a leading zero": ("spec.shards", {"hash_keys": {"acme": "007"}}),
    "a hash key of 40 digits": ("spec.shards", {"hash_keys": {"acme": "1" * 40}}),
    "a share above one": ("spec.expect", {"max_key_share": 1.1}),
    "a share of nothing": ("spec.expect", {"max_key_share": 0}),
    "a mean as text": ("spec.expect", {"max_over_mean": "1.3"}),
    "a mean that is true": ("spec.expect", {"max_over_mean": True}),
    "a golden without a lane": ("spec.golden", [{"key": "a"}]),
    "a golden record of lists": ("spec.golden", [{"record": {"a": []}, "lane": 1}]),
    "a spec that is a list": ("spec", []),
    "a spec that is null": ("spec", None),
}
EVERY = {**GOOD, **BAD}


def changed(path: str, value: Any) -> Any:
    document = copy.deepcopy(SMALL)
    owner = document
    *way, last = path.split(".")
    for part in way:
        owner = owner[part]
    owner[last] = value
    return document


def model_accepts(document: Any) -> bool:
    try:
        Contract.model_validate(document)
    except ValidationError:
        return False
    return True


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping inside a schema."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(child)


@pytest.mark.parametrize("draft", VALIDATORS)
def test_the_published_file_is_current(draft: str) -> None:
    """If this fails: `python -m keylane.contract.schema`."""
    published = schema.FILES[draft].read_text(encoding="utf-8")
    assert published == json.dumps(MAKERS[draft](), indent=2, ensure_ascii=False) + "\n"


def test_writing_makes_just_the_published_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {draft: tmp_path / "schemas" / file.name for draft, file in schema.FILES.items()}
    published = {draft: file.read_bytes() for draft, file in schema.FILES.items()}
    monkeypatch.setattr(schema, "FILES", files)
    schema.write()
    assert {draft: file.read_bytes() for draft, file in files.items()} == published


@pytest.mark.parametrize("draft", VALIDATORS)
def test_a_changed_model_would_be_noticed(draft: str) -> None:
    """The twin of `current`: the file holds what the models hold, so a field more would be a difference."""

    class Grown(Contract):
        another: int = 0

    published = json.loads(schema.FILES[draft].read_text(encoding="utf-8"))
    assert "another" not in published["properties"]
    assert set(Grown.model_json_schema(by_alias=True)["properties"]) - set(published["properties"]) == {"another"}


def test_there_is_one_file_for_each_draft() -> None:
    here = schema.FILES["2020-12"].parent
    assert {file.name for file in here.glob("contract-*.json")} == {file.name for file in schema.FILES.values()}


@pytest.mark.parametrize("draft", VALIDATORS)
def test_the_schema_is_a_valid_schema_of_its_draft(draft: str) -> None:
    made = MAKERS[draft]()
    VALIDATORS[draft].check_schema(made)
    assert made["$schema"] == VALIDATORS[draft].META_SCHEMA["$schema"]
    assert made["title"] == "keylane routing contract, version 1"


def test_the_older_draft_has_nothing_that_it_does_not_know() -> None:
    made = MAKERS["draft-07"]()
    later = {"$defs", "prefixItems", "unevaluatedProperties", "unevaluatedItems", "dependentRequired", "$dynamicRef"}
    assert {name for node in nodes(made) for name in node} & later == set()
    assert all(node["$ref"].startswith("#/definitions/") for node in nodes(made) if "$ref" in node)


def test_the_older_draft_puts_no_rule_beside_a_reference() -> None:
    """Draft-07 ignores everything beside a `$ref`."""
    harmless = {"$ref", "description", "default", "title"}
    assert [node for node in nodes(MAKERS["draft-07"]()) if "$ref" in node and set(node) - harmless] == []


@pytest.mark.parametrize("draft", VALIDATORS)
def test_every_object_of_the_schema_refuses_unknown_fields(draft: str) -> None:
    fixed = [node for node in nodes(MAKERS[draft]()) if node.get("type") == "object" and "properties" in node]
    assert len(fixed) == 17
    assert all(node["additionalProperties"] is False for node in fixed)


@pytest.mark.parametrize("draft", VALIDATORS)
def test_the_schema_lists_every_partitioner(draft: str) -> None:
    definitions = MAKERS[draft]()["$defs" if draft == "2020-12" else "definitions"]
    assert definitions["Spec"]["properties"]["partitioner"]["enum"] == list(PARTITIONERS)


@pytest.mark.parametrize("draft", VALIDATORS)
def test_the_example_of_the_design_is_valid(draft: str, design_example: str) -> None:
    assert list(VALIDATORS[draft](MAKERS[draft]()).iter_errors(yaml.safe_load(design_example))) == []


@pytest.mark.parametrize("draft", VALIDATORS)
def test_a_broken_example_of_the_design_is_refused_where_it_broke(draft: str, design_example: str) -> None:
    broken = yaml.safe_load(design_example.replace("lanes: 64", "lanes: 0").replace("kafka-java", "kafka-jva"))
    errors = VALIDATORS[draft](MAKERS[draft]()).iter_errors(broken)
    assert {tuple(error.absolute_path) for error in errors} == {("spec", "lanes"), ("spec", "partitioner")}


@pytest.mark.parametrize("draft", VALIDATORS)
@pytest.mark.parametrize(("path", "value"), EVERY.values(), ids=EVERY.keys())
def test_the_schema_tells_contracts_from_others(
    path: str, value: Any, draft: str, request: pytest.FixtureRequest
) -> None:
    good = (path, value) in GOOD.values()
    assert VALIDATORS[draft](MAKERS[draft]()).is_valid(changed(path, value)) is good


@pytest.mark.parametrize(("path", "value"), EVERY.values(), ids=EVERY.keys())
def test_the_models_are_of_one_mind_with_the_schema(path: str, value: Any) -> None:
    by_schema = VALIDATORS["2020-12"](MAKERS["2020-12"]()).is_valid(changed(path, value))
    assert model_accepts(changed(path, value)) is by_schema


def test_what_only_code_can_check_is_left_to_it(contract: Callable[..., Contract]) -> None:
    """A JSON Schema cannot count one field against another: such a file is the parser's to refuse."""
    twice = changed("spec.streams", ["a", "a"])
    assert all(VALIDATORS[draft](MAKERS[draft]()).is_valid(twice) for draft in VALIDATORS)

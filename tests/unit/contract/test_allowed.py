"""Every wrong value of every field is refused in the words of the file, not in those of the parser."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pydantic import ValidationError

from keylane.contract import parse
from keylane.contract.allowed import allowed_at, near_in
from keylane.contract.model import Contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.records import Finding

#: Every field of a contract once, in two contracts, because some exclude each other.
WHOLE: dict[str, Any] = {
    "apiVersion": "keylane/v1",
    "kind": "RoutingContract",
    "metadata": {"name": "payments", "epoch": 2, "owner": "us", "labels": {"a": "b"}},
    "spec": {
        "streams": ["payments"],
        "lanes": 12,
        "key": {
            "fields": ["merchant", "shop"],
            "encoding": ["utf8", "utf8"],
            "join": "|",
            "window": {"field": "ts", "size": "5m", "unit": "ms", "as": "index"},
            "on_null": "reject",
            "on_empty": "hash",
            "registry_header": "keep",
        },
        "partitioner": "kafka-java",
        "hot_keys": [
            {"keys": [["a", "b"]], "pin": {"lanes": [1]}},
            {"pins": [{"key": ["c", "d"], "lane": 2}]},
            {"keys": [["e", "f"]], "spread": {"over": 3, "by": "id", "by_position": False}},
            {"keys": [["g", "h"]], "tier": {"stream": "hot", "lanes": 4, "spread": {"lanes": [1, 2], "by": "id"}}},
        ],
        "table": {"values": {"x": 1, "y": [1, 2]}, "ranges": [{"from": "a", "below": "b", "lane": 3}], "by": "id"},
        "geo": {"resolution": 3, "leaves": [""], "checksum": "0" * 64, "region": [0.0, 0.0, 1.0, 1.0], "scale": 1e7},
        "expect": {"max_over_mean": 1.5, "max_key_share": 0.1, "min_distinct_keys": 5, "max_null_share": 0.5},
        "golden": [{"key": ["a", "b"], "lane": 1, "lanes": 12, "stream": "payments"}, {"record": {"a": 1}, "lane": 1}],
    },
}
WRONG: list[Any] = [
    *(None, True, -1, 0, 10**13, 1.5, -0.5, "", "a b", "twelve", "12", "2%", "x" * 300),
    *([], [None], ["a b", 3, None, {}, []], {}, {"a": None}, {"a b": {"c": 1}}, ["a"] * 300),
]
PARSER = re.compile(
    r"\b(valid|tuple|dict|dictionary|instance|NoneType|Input|String|should|pattern|validation|None|True|False)\b|\(s\)"
)


def paths(part: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every value of a tree, by the steps to it."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for step, value in inner:
        yield (*before, step)
        yield from paths(value, (*before, step))


def with_value(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    tree = copy.deepcopy(WHOLE)
    inside: Any = tree
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return tree


def refusals(path: tuple[Any, ...]) -> list[Finding]:
    found = []
    for value in WRONG:
        found += parse.examine(yaml.safe_dump(with_value(path, value), allow_unicode=True))[1]
    return found


def spoken_by_the_parser(findings: list[Finding]) -> list[str]:
    """Messages that are a parser's, or that do not say what is allowed; quoted input is the user's own."""
    plain = [(one.message, re.sub(r"'[^']*'…?|\"[^\"]*\"", "", one.message)) for one in findings]
    bare = re.compile(r"^got .*; allowed: *(;|$)")
    return [message for message, words in plain if PARSER.search(words) or bare.match(message)]


@pytest.mark.parametrize("path", list(paths(WHOLE)), ids=lambda path: ".".join(map(str, path)))
def test_no_wrong_value_is_refused_in_the_words_of_the_parser(path: tuple[Any, ...]) -> None:
    found = refusals(path)
    assert found
    assert spoken_by_the_parser(found) == []


def test_a_parser_that_speaks_for_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "allowed_at", lambda *_: "a valid tuple")
    assert spoken_by_the_parser(refusals(("spec", "streams")))


def test_a_field_without_words_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "allowed_at", lambda *_: "")
    assert spoken_by_the_parser(refusals(("spec", "streams")))


def test_the_sweep_meets_every_kind_of_error_that_the_fields_can_raise() -> None:
    """What the rules of the fields can refuse, by the kinds of values in the schema."""
    met = set()
    for path in paths(WHOLE):
        for value in WRONG:
            try:
                Contract.model_validate(with_value(path, value))
            except ValidationError as error:
                met |= {one["type"] for one in error.errors(include_url=False)}
    schema = repr(Contract.__pydantic_core_schema__)
    raised = {
        "'int'": {"int_type", "greater_than_equal", "less_than_equal", "less_than"},
        "'float'": {"float_type", "greater_than"},
        "'str'": {"string_type", "string_too_long", "string_too_short", "string_pattern_mismatch"},
        "'bool'": {"bool_type"},
        "'tuple'": {"tuple_type", "too_short", "too_long"},
        "'dict'": {"dict_type"},
        "'literal'": {"literal_error"},
        "'model'": {"model_type", "missing", "extra_forbidden"},
    }
    wanted = {kind for name, kinds in raised.items() if name in schema for kind in kinds}
    assert wanted <= met


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        (("spec", "lanes"), "twelve", ""),
        (("spec", "lanes"), "Live", "did you mean 'live'?"),
        (("spec", "lanes"), "12", "leave out the quotes"),
        (("spec", "streams"), "payments", "[payments]"),
        (("metadata", "name"), 3, "put it in quotes"),
        (("spec", "key", "encoding"), "utf-8", "did you mean 'utf8'?"),
        (("spec", "partitioner"), 3, ""),
    ],
)
def test_the_hint_is_what_was_probably_meant(path: tuple[str, ...], value: Any, hint: str) -> None:
    assert near_in(Contract.model_json_schema(by_alias=True), path, value) == hint


def test_a_path_that_leads_out_of_the_schema_allows_nothing() -> None:
    assert allowed_at(Contract.model_json_schema(by_alias=True), ["spec", "lane"]) == ""

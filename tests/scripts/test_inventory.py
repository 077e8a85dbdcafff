"""The bill of materials and the list of licences: complete against the locks, and the pages are those of today."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scripts import inventory

ROOT = Path(__file__).parents[2]
#: The parts of CycloneDX 1.6 that are used, with every field that it demands and no field that it does not know.
COMPONENT: dict[str, Any] = {
    "type": "object",
    "required": ["type", "name"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["application", "library", "data"]},
        "bom-ref": {"type": "string", "minLength": 1},
        "group": {"type": "string"},
        "name": {"type": "string"},
        "version": {"type": "string"},
        "purl": {"type": "string", "pattern": r"^pkg:(pypi|maven|generic)/[^ @]+@[^ @?]+(\?type=jar)?$"},
        "licenses": {
            "type": "array",
            "maxItems": 1,
            "items": {"type": "object", "required": ["expression"], "additionalProperties": False, "properties": {
                "expression": {"type": "string"}}},
        },
        "hashes": {
            "type": "array",
            "items": {"type": "object", "required": ["alg", "content"], "additionalProperties": False, "properties": {
                "alg": {"const": "SHA-256"}, "content": {"type": "string", "pattern": "^[a-f0-9]{64}$"}}},
        },
        "properties": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": False, "properties": {
                "name": {"type": "string"}, "value": {"type": "string"}}},
        },
        "components": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/component"}},
    },
}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "$defs": {"component": COMPONENT},
    "type": "object",
    "required": ["bomFormat", "specVersion"],
    "additionalProperties": False,
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "serialNumber": {"pattern": "^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        "version": {"type": "integer", "minimum": 1},
        "metadata": {"type": "object", "properties": {"component": {"$ref": "#/$defs/component"}}},
        "components": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/component"}},
        "dependencies": {"type": "array"},
    },
}


@pytest.fixture(scope="module")
def found() -> list[inventory.Part]:
    return inventory.parts()


@pytest.fixture(scope="module")
def document(found: list[inventory.Part]) -> dict[str, Any]:
    carried = [inventory.Part("jar", "spark-core_2.13", "4.2.0", "", "carried by pyspark", hashes=("0" * 64,))]
    return inventory.sbom(found, carried, "0.0.1")


def locked() -> set[tuple[str, str]]:
    """Every pin of both locks, read in another way than the script does."""
    python = re.findall(r"^([\w.-]+)==([^\s;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    jars = re.findall(
        r"^[\w.-]+:([\w.-]+):([\w.-]+) ", (ROOT / "src/keylane/systems/jars.lock").read_text(), re.MULTILINE
    )
    return {(inventory.canonical(name), version) for name, version in python} | set(jars)


def unlisted(listed: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return locked() - listed


def test_every_pin_of_both_locks_is_in_the_bill_with_checksum_and_licence(document: dict[str, Any]) -> None:
    assert len(locked()) > 140
    assert unlisted({(one["name"], one["version"]) for one in document["components"]}) == set()
    for one in document["components"]:
        sums = [*one.get("hashes", []), *(p for p in one["properties"] if p["name"].startswith("keylane:sha256"))]
        assert sums, one["name"]
        assert inventory.is_expression(one["licenses"][0]["expression"]), one["name"]


def of_others() -> dict[str, str]:
    """Files of the package that name a source of their own, with their checksums."""
    files = [path for path in (ROOT / "src/keylane").rglob("*") if path.suffix in {".txt", ".json", ".csv"}]
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in files if b"\n# Source: " in path.read_bytes()}


def without_bill(document: dict[str, Any]) -> set[str]:
    """Those that the bill does not have, or that the notice does not name."""
    listed = {one["content"] for part in document["components"] for one in part.get("hashes", [])}
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    return {name for name, digest in of_others().items() if digest not in listed or f"/{name})" not in notice}


def test_data_of_others_is_in_the_bill_and_in_the_notice(document: dict[str, Any]) -> None:
    assert set(of_others()) >= {"land.txt", "towns.txt"}
    assert without_bill(document) == set()


def test_twin_data_that_is_left_out_is_named(document: dict[str, Any]) -> None:
    some = [one for one in document["components"] if one["name"] != "natural-earth-populated-places"]
    assert without_bill({**document, "components": some}) == {"towns.txt"}


def test_it_is_cyclonedx(document: dict[str, Any]) -> None:
    jsonschema.validate(document, SCHEMA)
    references = [one["bom-ref"] for one in document["components"]]
    assert len(set(references)) == len(references)
    assert set(document["dependencies"][0]["dependsOn"]) == set(references)


def test_twin_a_document_that_is_not_is_refused(document: dict[str, Any]) -> None:
    for damage in ({"specVersion": "0"}, {"serialNumber": "1"}, {"more": 1}, {"components": [{"name": "x"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **damage}, SCHEMA)


def test_the_same_content_is_the_same_document(document: dict[str, Any], found: list[inventory.Part]) -> None:
    again = inventory.sbom(inventory.parts(), [], "0.0.1")
    assert inventory.sbom(found, [], "0.0.1") == again
    assert again["serialNumber"] != document["serialNumber"]
    assert "://" not in json.dumps(document), "no address"


def test_pyspark_holds_the_jars_that_it_carries(document: dict[str, Any]) -> None:
    (spark,) = (one for one in document["components"] if one["name"] == "pyspark")
    assert [one["name"] for one in spark["components"]] == ["spark-core_2.13"]


def test_the_jars_that_pyspark_carries_are_found() -> None:
    carried = inventory.carried()
    assert len(carried) > 200
    named = {part.name: part for part in carried}
    assert named["spark-core_2.13"].version == "4.2.0"
    assert sum(bool(part.group) for part in carried) > 150


def test_the_page_of_licences_is_that_of_today(found: list[inventory.Part]) -> None:
    assert inventory.LICENCES.read_text(encoding="utf-8") == inventory.licences(found), "run `make licences`"


def test_the_page_of_licences_is_complete() -> None:
    rows = re.findall(
        r"^\| (?:[\w.-]+:)?([\w.-]+) \| ([^ |]+) \| ([^|]+) \|", inventory.LICENCES.read_text(), re.MULTILINE
    )
    listed = {(name, version) for name, version, _ in rows}
    assert unlisted(listed) == set()
    assert unlisted(listed - {("numpy", "2.5.4")}) <= {("numpy", "2.5.4")}
    assert all(inventory.is_expression(licence.strip()) for _, version, licence in rows if version[0].isdigit())


def test_twin_a_pin_that_is_not_listed_is_named() -> None:
    every = locked()
    some = next(iter(every))
    assert unlisted(every - {some}) == {some}


@pytest.mark.parametrize("name", ["no-such-package-at-all", "pytest-of-nobody"])
def test_a_part_without_a_licence_stops_the_list(name: str) -> None:
    with pytest.raises(SystemExit, match=name):
        inventory.python_licence(name)
    with pytest.raises(SystemExit, match=name):
        inventory.jar_licence("org.example", name)


@pytest.mark.parametrize(("text", "known"), [("MIT", True), ("MIT OR Apache-2.0", True), ("BSD", False), ("", False)])
def test_what_an_expression_is(text: str, known: bool) -> None:
    assert inventory.is_expression(text) == known


def wrong_sizes(page: str) -> list[str]:
    """The sizes in a table of extras that are not those of the installed packages: off by more than a quarter."""
    stated = {extra: int(size) for extra, size in re.findall(r"'\.\[(\w+)\]'.*?\| (\d+) MB more", page)}
    alone, arrow = re.findall(r"about (\d+) MB, of which Arrow is (\d+)", page)[0]
    stated |= {"": int(alone), "pyarrow": int(arrow)}
    real = {**inventory.sizes(), "pyarrow": inventory._bytes_of("pyarrow")}
    assert len(stated) == 6
    return [extra for extra, size in stated.items() if abs(size * 1e6 / real[extra] - 1) > 0.25]


def test_the_readme_states_the_sizes_of_what_is_installed() -> None:
    assert wrong_sizes((ROOT / "README.md").read_text(encoding="utf-8")) == []


def test_twin_a_size_that_is_wrong_is_named() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert wrong_sizes(page.replace("580 MB more", "300 MB more")) == ["spark"]

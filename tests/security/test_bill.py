"""The bill of materials and the page of licences name every part of both locks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scripts import inventory

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return inventory.sbom(inventory.parts(), [], "0.0.1")


def locked() -> set[tuple[str, str]]:
    """Every pin of both locks, read in another way than the script does."""
    python = re.findall(r"^([\w.-]+)==([^\s;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    jars = re.findall(
        r"^[\w.-]+:([\w.-]+):([\w.-]+) ", (ROOT / "src/keylane/systems/jars.lock").read_text(), re.MULTILINE
    )
    return {(inventory.canonical(name), version) for name, version in python} | set(jars)


def test_every_pin_of_both_locks_is_in_the_bill_with_checksum_and_licence(document: dict[str, Any]) -> None:
    listed = {(one["name"], one["version"]) for one in document["components"]}
    assert len(locked()) > 140
    assert locked() <= listed
    assert not locked() <= listed - {next(iter(locked()))}, "twin: a pin that is not listed"
    for one in document["components"]:
        sums = [*one.get("hashes", []), *(p for p in one["properties"] if p["name"].startswith("keylane:sha256"))]
        assert sums, one["name"]
        assert inventory.is_expression(one["licenses"][0]["expression"]), one["name"]


def test_data_of_others_is_in_the_bill_and_in_the_notice(document: dict[str, Any]) -> None:
    files = [path for path in (ROOT / "src/keylane").rglob("*") if path.suffix in {".txt", ".json", ".csv"}]
    of_others = {path.name: inventory.digest_of(path) for path in files if b"\n# Source: " in path.read_bytes()}
    listed = {one["content"] for part in document["components"] for one in part.get("hashes", [])}
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert set(of_others) >= {"land.txt", "towns.txt"}
    assert [name for name, digest in of_others.items() if digest not in listed or f"/{name})" not in notice] == []


def test_the_page_of_licences_is_that_of_today() -> None:
    assert inventory.LICENCES.read_text(encoding="utf-8") == inventory.licences(inventory.parts()), (
        "run `make licences`"
    )


@pytest.mark.parametrize("name", ["no-such-package-at-all", "pytest-of-nobody"])
def test_a_part_without_a_licence_stops_the_list(name: str) -> None:
    with pytest.raises(SystemExit, match=name):
        inventory.python_licence(name)
    with pytest.raises(SystemExit, match=name):
        inventory.jar_licence("org.example", name)

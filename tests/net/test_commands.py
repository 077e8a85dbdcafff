"""The net over commands on Spark, in the session of the whole run: what they print, the contracts and pages they write.

How snapshots are rewritten: `tests.net.snapshots`. Commands without Spark: `test_plain`; folders: `test_formats`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.net.fixed_inputs import contract_file, pings, riders
from tests.net.pages import page_held
from tests.net.running import document_held, keylane, refusals_held
from tests.net.snapshots import held, normalised
from tests.net.trees import tree_held

from keylane import load_contract

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.net.conftest import Routed
    from tests.net.running import DemoRun


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """An empty folder to be in, and the session that commands find."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_route(routed: Routed) -> None:
    for name, ended in (("route", routed.first), ("route-again", routed.second)):
        held(name, {"exit_code": ended.code, "document": normalised(json.loads(ended.out), routed.base)})
    base = routed.base
    other = contract_file(base, "hash")
    asked = [
        ["route", other, "--from", base / "in", "--to", base / "out"],
        ["route", routed.contract, "--from", base / "none", "--to", base / "new"],
        ["route", routed.contract, "--from", base / "in", "--to", base / "in"],
    ]
    refusals_held("route-refused-on-spark", asked, base)


def test_verify_of_what_was_routed(routed: Routed) -> None:
    base = routed.base
    sides = ["--source", base / "in", "--target", base / "out", "-c", routed.contract]
    document_held("verify-routed", "verify", *sides, places=[base])


@pytest.mark.faults
def test_verify_of_what_was_routed_on_spark(routed: Routed) -> None:
    base = routed.base
    sides = ["--source", base / "in", "--target", base / "out", "-c", routed.contract]
    document_held("verify-routed-on-spark", "verify", *sides, "--engine", "spark", places=[base])


def test_profile(routed: Routed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # From there, because the name of a source goes into the fingerprint of its profile.
    monkeypatch.chdir(routed.base)
    made, page, places = tmp_path / "day.profile", tmp_path / "page.html", [tmp_path, routed.base]
    asked = ["profile", "in", "-k", "k", "-t", "at", "--bytes", "size", "-w", 6, "--show-keys"]
    document_held("profile", *asked, "--out", made, "--report", page, places=places)
    page_held("profile-page", page, *places)
    tree_held("profile-folder", made, *places)
    assert keylane("profile", made, "-o", "json").code == 0
    of_lanes = ["profile", "out", "-c", routed.contract, "-t", "at", "-w", 3, "--show-keys"]
    document_held("profile-lanes", *of_lanes, "--report", tmp_path / "lanes.html", places=places)
    page_held("profile-lanes-page", tmp_path / "lanes.html", *places)
    document_held("profile-approximate", *asked, "--approximate", places=places)
    wrong = [["profile", "in", "-k", "kk"], ["profile", "none", "-k", "k"], ["profile", "in"]]
    refusals_held("profile-refused-on-spark", [*wrong, [*asked, "--out", made]], *places)


def test_plan_of_a_source(routed: Routed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(routed.base)
    asked = ["plan", "in", "-k", "k", "-t", "at", "-w", 4, "--lanes", 4, "-c", routed.contract, "--show-keys"]
    document_held("plan-source", *asked, "--write", tmp_path / "new.yaml", places=[routed.base])
    held("plan-source-contract", load_contract(tmp_path / "new.yaml").fingerprint)


def test_geo_table(here: Path) -> None:
    pings(here / "pings.jsonl")
    asked = ["geo", "table", "pings.jsonl", "-t", "ts", "--time-unit", "ms", "--radius", 500]
    document_held("geo-table", *asked, "-n", 4, "--write", "a.yaml", "--report", "page.html", places=[here])
    page_held("geo-table-page", here / "page.html", here)
    pings(here / "pings.jsonl", seed=5)
    document_held("geo-table-sticky", *asked, "--sticky", "a.yaml", "--write", "b.yaml", places=[here])
    for name in ("a", "b"):
        text = (here / f"{name}.yaml").read_text(encoding="utf-8")
        fingerprint = load_contract(here / f"{name}.yaml").fingerprint
        held(f"geo-table-contract-{name}", {"fingerprint": fingerprint, "contract": normalised(yaml.safe_load(text))})
    wrong = [["geo", "table", "none.jsonl", "-n", "4"], ["geo", "table", "pings.jsonl", "--lat", "l", "-n", "4"]]
    refusals_held("geo-table-refused-on-spark", [*wrong, ["geo", "table", "pings.jsonl"]], here)


def test_match(here: Path) -> None:
    sides = ["match", "--drivers", pings(here / "pings.jsonl"), "--riders", riders(here / "riders.jsonl")]
    asked = [*sides, "--radius", 4000, "--expire", 20_000, "--verify", "--assign", "greedy"]
    contract_file(here, "geo")
    document_held("match", *asked, "-c", "geo.yaml", "--to", "out", "--report", "page.html", places=[here])
    page_held("match-page", here / "page.html", here)
    tree_held("match-folder", here / "out", here)
    refusals_held("match-refused-on-spark", [[*sides, "--radius", 1, "--to", "out"]], here)


def test_demo(demo_run: DemoRun) -> None:
    here = demo_run.folder.parent
    held("demo", {"exit_code": 0, "document": normalised(json.loads(demo_run.out), here)})
    page_held("demo-page", demo_run.page, here)
    files = (path.relative_to(here) for path in (here / "demo").rglob("*") if path.is_file())
    # The state of an aggregation is Spark's and its own: what is promised of a folder is the rest.
    held("demo-files", sorted(str(path) for path in files if "_state" not in path.parts))
    contracts = sorted((here / "demo" / "contracts").glob("*.yaml"))
    held("demo-contracts", {path.name: load_contract(path).fingerprint for path in contracts})

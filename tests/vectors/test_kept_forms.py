"""What earlier versions left behind means the same today: fingerprints of contracts, and profiles in folders.

A fingerprint that changes strands every route, plan and certificate that names it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from keylane.contract.parse import parse_contract
from keylane.errors import KeylaneError
from keylane.systems.profiles import read_profile

HERE = Path(__file__).parent
#: Of each kind of contract one: what it has beyond one text key `k` over 15 lanes, as Java places it.
FINGERPRINTS = json.loads((HERE / "fingerprints.json").read_text(encoding="utf-8"))


def fingerprint(name: str, **spec: Any) -> str:
    usual = {"streams": ["t"], "lanes": 15, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
    document = {
        "apiVersion": "keylane/v1",
        "kind": "RoutingContract",
        "metadata": {"name": name},
        "spec": {**usual, **spec},
    }
    return parse_contract(yaml.safe_dump(document)).fingerprint


@pytest.mark.parametrize("case", FINGERPRINTS, ids=lambda case: case["name"])
def test_a_contract_keeps_its_fingerprint(case: dict[str, Any]) -> None:
    assert fingerprint(case["name"], **case["spec"]) == case["fingerprint"]
    other = fingerprint(case["name"], **{**case["spec"], "lanes": 60})
    assert other != case["fingerprint"], "twin: more lanes"


@pytest.mark.parametrize(("name", "records", "distinct"), [("day", 300, 10), ("pings", 400, 392)])
def test_a_profile_that_an_earlier_version_kept_is_read(name: str, records: int, distinct: int, tmp_path: Path) -> None:
    folder = shutil.copytree(HERE / "profiles" / f"{name}.profile", tmp_path / "p")
    found = read_profile(folder)
    assert (int(found.by_window.sum()), len(found.keys)) == (records, distinct)
    (folder / "profile.json").write_text("{}")
    with pytest.raises(KeylaneError):
        read_profile(folder)

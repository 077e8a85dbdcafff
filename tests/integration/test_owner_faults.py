"""Owners for real: three processes and a spare, a broker, three servers of ZooKeeper, cut networks, live traffic.

The short version, on SQLite: `test_owner.py`. The run itself: `owner_fault_run`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.namespaces import namespaces
from tests.integration.owner_fault_run import NAMESPACES
from tests.route.killable_routes import ROOT

from keylane.systems.jars import fetched

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("_cache")]

SEED = 20261118


def fault_run(folder: Path, *options: str) -> dict[str, Any]:
    for kit in ("broker", "zookeeper"):
        # Before the namespaces: inside them there is no way to a repository of jars.
        fetched(kit)
    with namespaces(f"kl{os.getpid()}-", NAMESPACES) as net:
        command = [sys.executable, "-m", "tests.integration.owner_fault_run", "--prefix", net.prefix]
        done = subprocess.run(
            ["ip", "netns", "exec", net.hub, *command, "--folder", str(folder), *options],
            stdout=subprocess.PIPE,
            check=True,
            cwd=ROOT,
            timeout=3600,
        )
    shown: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(shown))
    return shown


def test_one_accepted_owner_through_forty_faults(tmp_path: Path) -> None:
    shown = fault_run(tmp_path, "--faults", "40", "--seed", str(SEED))
    assert shown["faults"] == 40
    assert min(shown["by_kind"].values()) >= 4
    assert shown["broken_rules"] == {}
    assert shown["accepted"] == shown["records"] > 10_000
    assert shown["wrong_states"] == 0
    assert shown["healthy_moved"] == []
    assert shown["failed"] == 0
    assert shown["fenced"] >= 4, "the fence was needed"
    assert shown["owned_again_seconds"]["most"] <= 2 * shown["ttl"]


def test_owners_without_a_fence_are_caught_by_the_same_faults(tmp_path: Path) -> None:
    shown = fault_run(tmp_path, "--faults", "3", "--kinds", "stop-in-batch", "--fence", "none", "--seed", str(SEED))
    assert shown["broken_rules"]["stale_epochs"] > 0
    assert shown["broken_rules"]["two_owners"] > 0

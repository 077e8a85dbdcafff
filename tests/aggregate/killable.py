"""Aggregations in processes of their own, which are killed at a step of a batch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.route.killable_routes import ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

#: An aggregation that kills its whole process group at a step of a batch: argv is a JSON object.
SCRIPT = """
import json, os, signal, sys
from tests.route.killable_routes import quick_conf
from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.run import aggregate

asked = json.loads(sys.argv[1])

def probe(point, batch):
    print(json.dumps([point, batch]), flush=True)
    if point == asked.get("point") and batch >= asked.get("batch", 0):
        os.killpg(0, signal.SIGKILL)

given = AggregateOptions(lanes=2, max_files=1, master="local[2]", conf=quick_conf(), state=asked.get("state"))
aggregate(asked["source"], asked["target"], asked["registry"], given, probe=probe)
"""
#: The steps of a batch of stage 1, then those of a batch of the other stages.
POINTS = ["bordered", "matched", "known", "put", "begun", "answered", "staged", "forced", "committed", "renamed"]


def run_and_die(
    source: Path | str, target: Path | str, registry: str, point: str, batch: int, **more: Any
) -> list[list[Any]]:
    """Run an aggregation that is to be killed at a point; the steps it took."""
    given = {"source": str(source), "target": str(target), "registry": registry, "point": point, "batch": batch, **more}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(given)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
        cwd=ROOT,
    )
    out, _ = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, f"it was not killed: {process.returncode}"
    return [json.loads(line) for line in out.splitlines()]

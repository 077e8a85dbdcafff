"""Sources to route, and routes in processes of their own that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from keylane import Router, parse_contract
from keylane.testing.folders import problems

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane import Contract

ROOT = Path(__file__).parents[2]
LANES = 4
CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: orders}
spec:
  streams: [orders]
  lanes: 4
  key: {fields: [k], on_null: reject}
  partitioner: kafka-java
"""


def contract(**changes: str) -> Contract:
    """The contract of these tests, with words of it replaced."""
    text = CONTRACT
    for old, new in changes.items():
        text = text.replace(old, new)
    return parse_contract(text)


def write_files(folder: Path, numbers: Sequence[int], rows: int = 100, *, nulls: bool = True) -> None:
    """Files f000.parquet, … each a little younger than the last; one key in 50 is null."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        keys = [None if nulls and n % 50 == 49 else f"key-{n % 13}" for n in range(rows)]
        table = pa.table({"k": keys, "n": [number * rows + n for n in range(rows)]})
        waiting = folder / f".f{number:03d}.parquet"
        pq.write_table(table, waiting)
        os.utime(waiting, (1_700_000_000 + number,) * 2)
        waiting.rename(folder / f"f{number:03d}.parquet")


def faults(target: Path, source: Path, rows: int = 100) -> list[str]:
    """What the auditor says of a target that should hold all of a source made here."""
    names = sorted(path.name for path in source.glob("f*.parquet"))
    return problems(target, names, {name: range(rows) for name in names}, Router(contract()))


def quick_conf() -> dict[str, str]:
    """Settings that let a session of a test start soon."""
    return {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1", "spark.driver.memory": "1g"}


def wait_for(what: Callable[[], bool], seconds: float = 120) -> None:
    """Until it is so, or for too long."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.2)


def environment() -> dict[str, str]:
    """For processes that import keylane and these tests."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "KEYLANE_CACHE": str(ROOT / "build" / "cache"), "PYTHONPATH": os.pathsep.join(paths)}


#: A route that kills its whole process group at a step of a batch: argv is a JSON object.
SCRIPT = """
import json, os, signal, sys
from tests.route.killable_routes import contract, quick_conf
from keylane.pipelines.route import Options, route

asked = json.loads(sys.argv[1])
left = [asked.get("times", 1)]

def probe(point, batch):
    print(json.dumps([point, batch]), flush=True)
    if point == asked.get("point") and batch >= asked.get("batch", 0):
        left[0] -= 1
        if left[0] == 0:
            os.killpg(0, signal.SIGKILL)

options = Options(max_files=asked.get("max_files", 2), master="local[2]", conf=quick_conf())
found = route(contract(), asked["source"], asked["target"], options=options, probe=probe)
print(json.dumps({"total": found.total.as_json(), "counts": found.counts.as_json()}), flush=True)
"""


def start(source: Path, target: Path, **asked: Any) -> subprocess.Popen[str]:
    """A route in a process group of its own."""
    given = json.dumps({"source": str(source), "target": str(target), **asked})
    command = [sys.executable, "-c", SCRIPT, given]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment(), cwd=ROOT
    )


def run_and_die(source: Path, target: Path, **asked: Any) -> list[list[Any]]:
    """Run a route that is to be killed at a point; the steps it took."""
    process = start(source, target, **asked)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, f"the point {asked} was not reached: {out}"
    return [json.loads(line) for line in out.splitlines()]


def run_to_the_end(source: Path, target: Path, **asked: Any) -> list[Any]:
    """Run a route that nothing disturbs; the steps it took, and what it says at the end."""
    process = start(source, target, **asked)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, out
    return [json.loads(line) for line in out.splitlines()]


def kill_after(process: subprocess.Popen[str], seconds: float, *, drain: bool = True) -> bool:
    """Kill the whole process group after a while; whether it was still there to be killed.

    `drain` reads the rest of what it printed; not where somebody else does.
    """
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    if drain:
        process.communicate()
    return alive

"""Running matches in processes of their own, which can be killed at a step of a batch, or by the clock."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from tests.route.killable_routes import ROOT, environment, kill_after

if TYPE_CHECKING:
    import random
    from pathlib import Path

#: A match that kills its whole process group at a step of a batch: argv is a JSON object.
SCRIPT = """
import json, os, signal, sys
from tests.match.batch_traffic import geo_contract
from tests.route.killable_routes import quick_conf
from keylane.pipelines.route import KafkaOptions
from keylane.pipelines.match.options import Options
from keylane.pipelines.match.follow import Following, follow

asked = json.loads(sys.argv[1])

def probe(point, batch):
    print(json.dumps([point, batch]), flush=True)
    if point == asked.get("point") and batch >= asked.get("batch", 0):
        os.killpg(0, signal.SIGKILL)

kafka = KafkaOptions(value="json", max_records=asked.get("max_records", 1_000_000))
on = asked.get("master", "local[2]")
given = Options(radius=3000.0, master=on, conf=quick_conf(), kafka=kafka, **asked.get("options", {}))
how = Following(
    max_files=1,
    available_now=True,
    tasks=asked.get("tasks", 2),
    state=asked.get("state"),
    ahead=asked.get("ahead", 86_400.0),
)
contract = geo_contract(4, asked.get("resolution", 5))
places = asked["drivers"], asked["riders"], asked["target"]
print(json.dumps(follow(*places, given, how, contract=contract, probe=probe).as_json()))
"""


def start(drivers: Path | str, riders: Path | str, target: Path | str, **asked: Any) -> subprocess.Popen[str]:
    """A match in a process group of its own."""
    given = json.dumps({"drivers": str(drivers), "riders": str(riders), "target": str(target), **asked})
    command = [sys.executable, "-c", SCRIPT, given]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment(), cwd=ROOT
    )


def run_and_die(*places: Path | str, point: str, batch: int, **asked: Any) -> list[list[Any]]:
    """Run a match that is to be killed at a point; the steps it took."""
    process = start(*places, point=point, batch=batch, **asked)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL, f"the point {point} was not reached: {out}"
    return [json.loads(line) for line in out.splitlines()]


def run_to_the_end(*places: Path | str, **asked: Any) -> tuple[list[list[Any]], dict[str, Any]]:
    """Run a match that nothing disturbs; the steps it took, and its document."""
    process = start(*places, **asked)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    *steps, document = [json.loads(line) for line in out.splitlines()]
    return steps, document


def kill_at_random(process: subprocess.Popen[str], rng: random.Random) -> bool:
    """Kill a match some steps after its start and a moment later; whether it was still there to be killed."""
    steps = rng.randrange(12)
    lines = threading.Semaphore(0)

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for _ in output:
                lines.release()
        # Nothing more will come.
        lines.release(100)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(steps):
        lines.acquire()
    # Without a step: while Spark starts, or reads its checkpoint.
    alive = kill_after(process, rng.uniform(0, 1.5) if steps else rng.uniform(2, 15), drain=False)
    reader.join()
    process.wait()
    return alive

"""Routes into Kafka in processes of their own, which can be killed: at a step of a batch, or by the clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.route.worlds import ROOT, environment

if TYPE_CHECKING:
    from keylane.systems.broker import Cluster

#: A route that kills its whole process group at a step of a batch, also at one in a worker: argv is a JSON object.
SCRIPT = """
import json, os, signal, sys, threading
from tests.integration.routed import contract
from tests.route.worlds import quick_conf
from keylane.pipelines.kafka import KafkaOptions
from keylane.pipelines.route import Options, route

asked, group = json.loads(sys.argv[1]), os.getpgid(0)
# The route's own code is by reference in a worker, this probe by value: it takes along what it needs.
point, least = asked.get("point"), asked.get("batch", 0)

def probe(at, batch, point=point, least=least, group=group):
    import json, os, signal, sys
    sys.stdout.write(json.dumps([at, batch]) + chr(10))
    sys.stdout.flush()
    if at == point and batch >= least:
        os.killpg(group, signal.SIGKILL)

probe.in_workers = probe
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
said = asked.get("kafka", {})
options = Options(
    every="200 milliseconds",
    master="local[2]",
    conf=quick_conf() | asked.get("conf", {}),
    kafka=KafkaOptions(state=asked["state"], **said),
)
given = contract(asked["stream"], asked.get("lanes", 4))
listen = lambda: signal.signal(signal.SIGTERM, lambda *_: stop.set())
found = route(
    given, asked["source"], asked["target"], options=options, probe=probe, follow=asked.get("follow", False),
    stop_asked=stop, ready=listen, say=lambda text: print(json.dumps({"said": text}), flush=True),
)
print(json.dumps({"total": found.total.as_json(), "counts": found.counts.as_json(), "repeated": found.repeated}))
"""


class Routes:
    """Routes from one topic into another, one after the other, over one state."""

    def __init__(self, broker: Cluster, source: str, target: str, state: Path, **asked: Any) -> None:
        self.broker, self.state = broker, state
        self.asked = {
            "source": f"kafka://{broker.bootstrap}/{source}",
            "target": f"kafka://{broker.bootstrap}/{target}",
            "stream": target,
            "state": str(state),
            **asked,
        }

    def start(self, **asked: Any) -> subprocess.Popen[str]:
        """A route in a process group of its own."""
        command = [sys.executable, "-c", SCRIPT, json.dumps({**self.asked, **asked})]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment(), cwd=ROOT
        )

    def die_at(self, point: str, batch: int = 0, **asked: Any) -> list[Any]:
        """Run a route that is to be killed at a point; the steps it took."""
        process = self.start(point=point, batch=batch, **asked)
        out, _ = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, f"the point {point} was not reached: {out}"
        return _lines(out)

    def to_the_end(self, **asked: Any) -> list[Any]:
        """Run a route that nothing disturbs; the steps it took, and what it says at the end."""
        process = self.start(**asked)
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0, out
        return _lines(out)

    def taken(self) -> int:
        """How many records the route has taken, by its own account."""
        found = sorted((self.state / "_keylane" / "done").glob("[0-9]*.json"))
        return int(json.loads(found[-1].read_text())["total"]["in"]) if found else 0

    def spark_logs(self) -> tuple[set[str], set[str]]:
        """The batches in Spark's log of offsets, and in its log of commits."""
        logs = [self.state / "_keylane" / "checkpoint" / name for name in ("offsets", "commits")]
        offsets, commits = ({path.name for path in log.glob("[0-9]*")} for log in logs)
        return offsets, commits


def kill_group(process: subprocess.Popen[str]) -> None:
    """End a route and its Java at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The Python workers of a route: children of the daemon that its Java has started."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    tree = {process.pid}
    while True:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        if not more:
            break
        tree |= more
    daemons = {pid for pid in tree if "pyspark.daemon" in _command(pid)}
    return [pid for pid in daemons if parents[pid] in daemons]


def _parent(path: Path) -> int:
    try:
        text = (path / "stat").read_text(encoding="ascii", errors="replace")
        return int(text[text.rindex(")") + 2 :].split()[1])
    except (OSError, ValueError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def wait_until(what: Any, seconds: float = 120.0) -> None:
    """Return when it is so; an error when it does not become so in time."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it does not become so"
        time.sleep(0.05)


def _lines(out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines() if line.startswith(("[", "{"))]

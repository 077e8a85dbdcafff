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

from tests.route.killable_routes import ROOT, environment

if TYPE_CHECKING:
    from keylane.systems.broker import Cluster

#: A route that kills its whole process group at a step of a batch, also at one of a writer: argv is a JSON object.
SCRIPT = """
import json, os, shutil, signal, sys, threading, time
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
from pathlib import Path
from tests.integration.route_records import contract
from tests.route.killable_routes import quick_conf
from keylane.pipelines.route import KafkaOptions, Options, route

asked = json.loads(sys.argv[1])
point, least, held = asked.get("point"), asked.get("batch", 0), Path(asked["held"])

def die():
    os.killpg(os.getpgid(0), signal.SIGKILL)

def probe(at, batch):
    print(json.dumps([at, batch]), flush=True)
    if at == point and batch >= least:
        die()

def watch():
    while not (held / point).exists():
        time.sleep(0.01)
    die()

if point:
    # A writer of that name stays at that step from then on, and is killed there with everybody else.
    shutil.rmtree(held, ignore_errors=True)
    held.mkdir(parents=True)
    (held / f"{point}.hold").write_text(str(least))
    probe.held = str(held)
    threading.Thread(target=watch, daemon=True).start()
options = Options(
    every="200 milliseconds",
    master="local[2]",
    conf=quick_conf(),
    kafka=KafkaOptions(state=asked["state"], **asked.get("kafka", {})),
)
given = contract(asked["stream"], asked.get("lanes", 4), **asked.get("changes", {}))
listen = lambda: signal.signal(signal.SIGTERM, lambda *_: stop.set())
found = route(
    given, asked["source"], asked["target"], options=options, probe=probe, follow=asked.get("follow", False),
    stop_asked=stop, ready=listen, say=lambda text: print(json.dumps({"said": text}), flush=True),
)
print(json.dumps({"total": found.total.as_json(), "counts": found.counts.as_json(), "repeated": found.repeated}))
"""
#: The same through Spark's own sink, as everybody writes it: the same lanes, and Spark's checkpoint.
SPARK_SCRIPT = """
import json, sys
from pyspark.sql import functions as F
from tests.integration.route_records import contract
from tests.route.killable_routes import quick_conf
from keylane.spark import lane, local_session
from keylane.systems.endpoint import parse_address
from keylane.systems.jars import connector_settings

asked = json.loads(sys.argv[1])
source, target = (parse_address(asked[name]) for name in ("source", "target"))
spark = local_session("local[2]", {**connector_settings(), **quick_conf()})
servers = {"kafka.bootstrap.servers": source.authority}
start = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "20000"}
frame = spark.readStream.format("kafka").options(**servers, **start, subscribe=source.name).load()
rows = frame.select("key", "value", lane(contract(asked["stream"], asked["lanes"])).alias("partition"))
writer = rows.writeStream.format("kafka").options(**servers, topic=target.name)
writer = writer.option("checkpointLocation", asked["state"] + "/_keylane/checkpoint")
writer = writer.trigger(**({"processingTime": "200 milliseconds"} if asked["follow"] else {"availableNow": True}))
writer.start().awaitTermination()
"""


class Routes:
    """Routes from one topic into another, one after the other, over one state."""

    script = SCRIPT

    def __init__(self, broker: Cluster, source: str, target: str, state: Path, **asked: Any) -> None:
        self.broker, self.state = broker, state
        self.asked = {
            "source": f"kafka://{broker.bootstrap}/{source}",
            "target": f"kafka://{broker.bootstrap}/{target}",
            "stream": target,
            "state": str(state),
            "held": str(state.with_name(f"{state.name}-held")),
            **asked,
        }

    def start(self, **asked: Any) -> subprocess.Popen[str]:
        """A route in a process group of its own."""
        command = [sys.executable, "-c", self.script, json.dumps({**self.asked, **asked})]
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


class SparkRoutes(Routes):
    """The same by Spark's own sink: the twin, which repeats what it has written."""

    script = SPARK_SCRIPT


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

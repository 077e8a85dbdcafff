"""`match --follow` on a real cluster, whose two executors share no memory and no folder of their own; one is killed."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.cluster.conftest import plain_environment
from tests.match.stream_traffic import matches, world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import Cluster

#: A match that kills an executor of its own after its second batch: argv is a JSON object.
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from keylane.contract.parse import parse_contract
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Options
from pyspark import SparkContext

asked = json.loads(sys.argv[1])
told, killed = [], []

def executors():
    app = SparkContext._active_spark_context.applicationId
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split(chr(0))
        except OSError:
            continue
        if app in words and "--executor-id" in words:
            yield words[words.index("--executor-id") + 1], int(path.parent.name)

def tell(figures):
    told.append(figures)
    if len(told) == 2:
        _, pid = sorted(executors())[0]
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

given = Options(radius=3000.0, master=asked["master"], conf=asked["conf"])
how = Following(max_files=1, available_now=True)
places = asked["drivers"], asked["riders"], asked["target"]
found = follow(*places, given, how, contract=parse_contract(asked["contract"]), tell=tell)
print(json.dumps({"killed": len(killed), "batches": len(told), **found.as_json()}))
"""
CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: geo}
spec:
  streams: [driver-locations, rider-requests]
  lanes: 4
  key: {fields: [lat, lng], encoding: place}
  partitioner: kafka-java
  geo: {resolution: 5}
"""


@pytest.mark.faults  # starts a master and two workers: long on two cores
def test_an_executor_that_is_killed_takes_nothing_with_it(cluster: Cluster, tmp_path: Path) -> None:
    made = world(files=5)
    drivers, riders = made.write(tmp_path / "in")
    small = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:+UseSerialGC"}
    places = {"drivers": str(drivers), "riders": str(riders), "target": str(tmp_path / "out")}
    asked = {**places, "master": cluster.master, "conf": small, "contract": CONTRACT}
    done = subprocess.run(
        [str(cluster.python), "-c", SCRIPT, json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=tmp_path,
        env=plain_environment(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    document = json.loads(done.stdout.splitlines()[-1])
    assert (document["killed"], document["batches"]) == (1, 5)
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)

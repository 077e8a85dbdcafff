"""`match --follow` on a real cluster, whose two executors share no memory and no folder of their own; one is killed.

Slots move between executors: with the one that is killed, and where Spark is made to forget which executor has which.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.conftest import plain_environment
from tests.cluster.hdfs import hdfs
from tests.integration.match_topics import produce, rows_of
from tests.integration.topics import create_topic
from tests.match.stream_traffic import matches, world

from keylane.spark.blocks import BLOCKS
from keylane.systems.broker import running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import Cluster

#: A match that kills an executor of its own after its fourth batch: argv is a JSON object.
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from keylane.contract.parse import parse_contract
from keylane.pipelines.match import follow_plan
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Columns, Options
from keylane.pipelines.route import KafkaOptions
from pyspark import SparkContext
from pyspark.sql import SparkSession

asked = json.loads(sys.argv[1])
if asked["blocks"]:
    follow_plan.BLOCKS = Path(asked["blocks"])
told, killed, stores = [], [], []

def executors():
    app = SparkContext._active_spark_context.applicationId
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split(chr(0))
        except OSError:
            continue
        if app in words and "--executor-id" in words:
            yield words[words.index("--executor-id") + 1], int(path.parent.name)

def forget_where_slots_are():
    spark = SparkSession.builder.getOrCreate()
    java = spark.sparkContext._jvm
    known = java.org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef.forDriver(
        java.org.apache.spark.SparkEnv.get(), spark._jsparkSession.sessionState().conf()
    )
    # The jobs of a query are a group with the name of its run.
    run = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    known.deactivateInstances(java.java.util.UUID.fromString(run))

def tell(figures):
    told.append(figures.metrics)
    if asked["moves"]:
        forget_where_slots_are()
    if len(told) == 4:
        stores.extend(any(Path(folder).rglob("*StateStore*")) for folder in asked["folders"])
        _, pid = sorted(executors())[0]
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

columns, kafka = Columns(time="ts:us"), KafkaOptions(value="json", max_records=asked["most"])
given = Options(
    radius=3000.0, master=asked["master"], conf=asked["conf"], drivers=columns, riders=columns, kafka=kafka
)
how = Following(max_files=1, available_now=True, checkpoint=asked["checkpoint"])
places = asked["drivers"], asked["riders"], asked["target"]
found = follow(*places, given, how, contract=parse_contract(asked["contract"]), tell=tell)
print(json.dumps({"killed": len(killed), "stores": stores, "restored": [one["restored"] for one in told]}))
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
BATCHES = 12
#: Two steps with two slots each.
STATES = 4


def found_on(
    cluster: Cluster, folder: Path, sides: tuple[Path | str, Path | str], *, moves: bool, **how: Any
) -> dict[str, Any]:
    """Run a match on the cluster; what it printed."""
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        # A slot that is where it was stays there, however busy this machine is.
        "spark.locality.wait": "60s",
        # Whoever makes Spark forget where slots are takes from it, too, what it knows of their commits.
        "spark.sql.streaming.stateStore.commitValidation.enabled": str(not moves).lower(),
    }
    places = {"drivers": str(sides[0]), "riders": str(sides[1]), "target": str(folder / "out")}
    folders = [str(one) for one in cluster.folders]
    asked = {**places, "master": cluster.master, "conf": conf, "contract": CONTRACT, "folders": folders, "moves": moves}
    asked |= {"blocks": None, "checkpoint": None, "most": 1_000_000, **how}
    done = subprocess.run(
        [str(cluster.python), "-c", SCRIPT, json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=folder,
        env=plain_environment(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.faults  # starts a master and two workers: long on two cores
@pytest.mark.parametrize("moves", [False, True], ids=["slots stay", "slots move"])
def test_an_executor_that_is_killed_takes_nothing_with_it_and_slots_may_move(
    cluster: Cluster, tmp_path: Path, moves: bool
) -> None:
    made = world(files=BATCHES)
    found = found_on(cluster, tmp_path, made.write(tmp_path / "in"), moves=moves)
    assert (found["killed"], found["stores"]) == (1, [True, True]), "each worker has states in a folder of its own"
    first, *before, last, after = found["restored"][:5]
    assert (first, len(found["restored"])) == (0, BATCHES)
    assert (sum([*before, last]) > 0) == moves
    assert 0 < after <= STATES, "what the killed executor had is read from the checkpoint"
    assert (sum(found["restored"][6:]) > 0) == moves
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)


@pytest.mark.faults
def test_executors_that_share_hdfs_and_nothing_else_find_all_pairs_and_one_that_is_killed_takes_nothing_with_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    made, sides = world(files=BATCHES), list[str]()
    for name in ("hdfs", "kafka"):
        (tmp_path / name).mkdir()
    with hdfs(tmp_path / "hdfs") as address, running(tmp_path / "kafka") as broker:
        for name, table in (("drivers", made.pings), ("riders", made.requests)):
            create_topic(broker, name, 4)
            sides.append(produce(broker, name, rows_of(table), lambda number: number % 4, plain=True))
        drivers, riders = sides
        found = found_on(
            cluster,
            tmp_path,
            (drivers, riders),
            moves=True,
            checkpoint=f"{address}/match",
            most=made.pings.num_rows // 9,
        )
    assert (found["killed"], found["stores"]) == (1, [True, True])
    assert sum(found["restored"][4:]) > 0
    assert not list((tmp_path / "out" / "_state").rglob("*/state/*")), "what is known is in HDFS alone"
    assert matches(tmp_path / "out") == made.expected(3000.0, made.watermark)


@pytest.mark.faults
def test_twin_a_slot_that_comes_back_to_what_it_left_in_memory_gives_other_pairs(
    cluster: Cluster, tmp_path: Path
) -> None:
    planted = tmp_path / "blocks"
    shutil.copytree(BLOCKS, planted)
    step = planted / "keylane" / "blocks" / "BlockStep.java"
    checks, trusts = "held != null && held.token == token", "held != null"
    text = step.read_text()
    assert text.count(checks) == 1
    step.write_text(text.replace(checks, trusts))
    made = world(files=BATCHES)
    found_on(cluster, tmp_path, made.write(tmp_path / "in"), moves=True, blocks=str(planted))
    assert matches(tmp_path / "out") != made.expected(3000.0, made.watermark)

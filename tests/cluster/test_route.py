"""`route` on a real cluster, from an installed wheel: by a master's address, and under spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from tests.cluster.conftest import plain_environment
from tests.route.killable_routes import CONTRACT, faults, write_files

from keylane import Router, parse_contract
from keylane.testing.folders import lanes_of, problems

if TYPE_CHECKING:
    from tests.cluster.conftest import Cluster

FILES, ROWS = 8, 500
SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
#: FNV-1a has no form of Spark's own: it runs over Arrow, in Python workers.
IN_PYTHON = CONTRACT.replace("kafka-java", "sarama-hash")
APP = "from keylane.cli.main import main\nmain()\n"


def tasks_by_executor(log: Path) -> Counter[str]:
    """How many tasks each executor has ended, by Spark's own log; the driver's are those of `driver`."""
    events = [json.loads(line) for path in log.iterdir() for line in path.read_text("utf-8").splitlines()]
    ended = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
    return Counter(event["Task Info"]["Executor ID"] for event in ended)


def plans(log: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in log.iterdir())


def problems_by_executor(log: Path) -> list[str]:
    """What is wrong with how the work was divided: two executors should have had some of it, and nobody else."""
    done = tasks_by_executor(log)
    return [
        f"{who} did {done[who]} tasks" for who in sorted({*done, "0", "1"}) if (who in {"0", "1"}) != (done[who] > 0)
    ]


@pytest.mark.parametrize(("who", "told"), [("01", 0), ("0", 1), ("", 2)])
def test_work_that_only_one_or_none_did_is_noticed(tmp_path: Path, who: str, told: int) -> None:
    ended = [{"Event": "SparkListenerTaskEnd", "Task Info": {"Executor ID": one}} for one in who]
    (tmp_path / "app").write_text("\n".join(map(json.dumps, ended)))
    assert len(problems_by_executor(tmp_path)) == told


def test_work_that_the_driver_did_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "app").write_text('{"Event": "SparkListenerTaskEnd", "Task Info": {"Executor ID": "driver"}}')
    assert "driver did 1 tasks" in problems_by_executor(tmp_path)


def run(command: list[str], folder: Path, **environment: str) -> tuple[dict[str, Any], str]:
    """The document that a route prints, and what it says beside it: on stderr, or before it under spark-submit."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        cwd=folder,
        env={**plain_environment(), **environment},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said, brace, document = done.stdout.partition("{")
    return json.loads(brace + document), said + done.stderr


@pytest.mark.faults  # starts a master and two workers: long on two cores
def test_by_a_masters_address(cluster: Cluster, tmp_path: Path) -> None:
    source, target, log = tmp_path / "in", tmp_path / "out", tmp_path / "log"
    write_files(source, range(FILES), rows=ROWS)
    (tmp_path / "c.yaml").write_text(CONTRACT)
    where = ["--from", str(source), "--to", str(target), "--master", cluster.master, *cluster.conf(log)]
    found, said = run([cluster.keylane, "route", "c.yaml", *where, "-o", "json"], tmp_path)
    assert (found["in"], found["dead"]) == (FILES * ROWS, FILES * ROWS // 50)
    assert said == "", "a session that keylane makes lacks nothing"
    assert faults(target, source, rows=ROWS) == []
    assert problems_by_executor(log) == []


@pytest.mark.faults  # starts a master and two workers: long on two cores
def test_under_spark_submit_with_python_workers(cluster: Cluster, tmp_path: Path) -> None:
    source, target, log = tmp_path / "in", tmp_path / "out", tmp_path / "log"
    write_files(source, range(FILES), rows=ROWS)
    (tmp_path / "c.yaml").write_text(IN_PYTHON)
    (tmp_path / "app.py").write_text(APP)
    conf = [*cluster.conf(log), "--conf", "spark.sql.session.timeZone=Asia/Kolkata"]
    command = [SUBMIT, "--master", cluster.master, *conf, "app.py", "route", "c.yaml"]
    found, said = run(
        [*command, "--from", str(source), "--to", str(target), "-o", "json"],
        tmp_path,
        PYSPARK_PYTHON=str(cluster.python),
        PATH=f"{cluster.python.parent}{os.pathsep}{os.environ['PATH']}",
    )
    assert (found["in"], found["dead"]) == (FILES * ROWS, FILES * ROWS // 50)
    router = Router(parse_contract(IN_PYTHON))
    names = sorted(path.name for path in source.iterdir())
    assert problems(target, names, {name: range(ROWS) for name in names}, router) == []
    assert sum(len(table) for _, _, table in lanes_of(target)) == found["out"]
    assert problems_by_executor(log) == []
    assert "ArrowEvalPython" in plans(log)
    assert "Asia/Kolkata" in said

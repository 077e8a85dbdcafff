"""A route that follows: what arrives is taken, and a stop ends between two batches."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.route.killable_routes import CONTRACT, contract, environment, faults, quick_conf, wait_for, write_files

from keylane.pipelines.route import Options, route
from keylane.testing.folders import seen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keylane.testing.folders import Seen


class Follower:
    """A following route in a thread."""

    def __init__(self, spark: SparkSession, source: Path, target: Path, **options: Any) -> None:
        self.asked = threading.Event()
        self.steps: list[tuple[str, int]] = []
        self.done: list[Any] = []
        self.found: Any = None
        given = Options(every="100 milliseconds", **options)

        def run() -> None:
            self.found = route(
                contract(),
                str(source),
                str(target),
                follow=True,
                options=given,
                spark=spark,
                stop_asked=self.asked,
                tell=self.done.append,
                probe=lambda point, batch: self.steps.append((point, batch)),
            )

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def taken(self) -> int:
        return sum(done.counts.in_ for done in self.done)

    def stop(self) -> Any:
        self.asked.set()
        self.thread.join(120)
        assert not self.thread.is_alive()
        return self.found


def test_what_arrives_is_taken_and_a_reader_that_lists_never_sees_it_twice(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    follower = Follower(spark, source, target, kind="parquet", max_files=3)
    looks: list[set[Seen]] = []
    for number in range(4):
        write_files(source, [number])
        time.sleep(0.2)
        looks.append(seen(target))
    while follower.taken() < 400:
        looks.append(seen(target))
        assert follower.thread.is_alive()
        time.sleep(0.05)
    found = follower.stop()
    looks.append(seen(target))
    assert found.stopped
    assert found.counts.in_ == 400
    for early, late in pairwise(looks):
        assert early <= late, "what a reader has seen never goes and never changes"
        assert len({place[3:] for place in late}) == len(late), "never a record twice"
    assert faults(target, source) == []


def test_a_stop_cuts_no_batch_and_the_next_run_repeats_none(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(5))
    begun: list[tuple[str, int]] = []
    for batches in (1, 2):
        follower = Follower(spark, source, target, max_files=1)
        wait_for(lambda one=follower, most=batches: len(one.done) >= most)  # type: ignore[misc]  # mypy infers no defaults
        follower.stop()
        begun += follower.steps
    rest = route(
        contract(),
        str(source),
        str(target),
        options=Options(max_files=1),
        spark=spark,
        probe=lambda point, batch: begun.append((point, batch)),
    )
    numbers = [batch for point, batch in begun if point == "begun"]
    assert len(numbers) == len(set(numbers)), "no batch was begun twice"
    assert rest.total.in_ == 500
    assert faults(target, source) == []


def test_a_failing_batch_ends_the_route_with_its_own_error(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(2))

    def fail(point: str, _batch: int) -> None:
        if point == "staged":
            raise ZeroDivisionError("planted")

    with pytest.raises(ZeroDivisionError, match="planted"):
        route(contract(), str(source), str(target), spark=spark, probe=fail)
    assert not target.exists(), "a folder whose first batch fails is as it was"
    route(contract(), str(source), str(target), spark=spark)
    assert faults(target, source) == []


def test_the_command_ends_between_batches_on_a_signal(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write_files(source, range(3))
    (tmp_path / "c.yaml").write_text(CONTRACT)
    conf = [part for name, value in quick_conf().items() for part in ("--conf", f"{name}={value}")]
    command = [str(Path(sys.executable).with_name("keylane")), "route", str(tmp_path / "c.yaml"), "--follow"]
    command += ["--from", str(source), "--to", str(target), "--master", "local[2]", "-o", "json", *conf]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path
    )
    wait_for(lambda: len(seen(target)) == 294 or process.poll() is not None)
    write_files(source, [3])
    wait_for(lambda: len(seen(target)) == 392 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found = json.loads(out)
    assert (found["in"], found["out"], found["dead"], found["filtered"]) == (400, 392, 8, 0)
    assert found["stopped"]
    assert sum(lane["records"] for lane in found["lanes"]) == 392
    assert "ending after this batch" in err
    assert faults(target, source) == []

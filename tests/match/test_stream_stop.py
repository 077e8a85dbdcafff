"""`keylane match --follow` as a process that is asked to stop: it ends after its batch, and goes on from there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.match.killable_matches import run_to_the_end
from tests.match.stream_traffic import matches, world
from tests.route.killable_routes import environment, quick_conf, wait_for

pytestmark = pytest.mark.faults

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


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_after_its_batch_and_the_next_run_goes_on(
    tmp_path: Path, sent: signal.Signals
) -> None:
    made, target = world(files=4), tmp_path / "out"
    drivers, riders = made.write(tmp_path / "in", range(2))
    (tmp_path / "c.yaml").write_text(CONTRACT)
    conf = [part for name, value in quick_conf().items() for part in ("--conf", f"{name}={value}")]
    command = [str(Path(sys.executable).with_name("keylane")), "match", "--follow", "--contract", "c.yaml"]
    command += ["--drivers", str(drivers), "--riders", str(riders), "--radius", "3000", "--max-files", "1"]
    command += ["--to", str(target), "--master", "local[2]", "-o", "json", *conf]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path
    )
    wait_for(lambda: len(list(target.glob("_metrics/*.json"))) == 2 or process.poll() is not None)
    made.write(tmp_path / "in", range(2, 3))
    process.send_signal(sent)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert document["pairs"] == len(matches(target))
    assert "ending after this batch" in err
    assert "Traceback" not in err
    made.write(tmp_path / "in")
    _, whole = run_to_the_end(drivers, riders, target)
    assert matches(target) == made.expected(3000.0, made.watermark)
    assert whole["pings"] == made.pings.num_rows

"""The memory of a running match: a million drivers in a heap of 2 GiB, and nothing of them after its end."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.match.stream_traffic import BEGAN, LONDON, SECOND
from tests.route.killable_routes import ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

DRIVERS = 1_000_000
SCRIPT = """
import json, sys
from tests.match.batch_traffic import geo_contract
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Options
from keylane.spark.session import local_session

*sides, target = sys.argv[1:]
spark = local_session("local[2]", {"spark.driver.memory": "2g"})
seen = []
how = Following(max_files=1, available_now=True, tasks=2)
found = follow(*sides, target, Options(radius=1000.0), how, contract=geo_contract(60, 6), spark=spark, tell=seen.append)
java = spark.sparkContext._jvm.java
java.lang.System.gc()
runtime = java.lang.Runtime.getRuntime()
left = runtime.totalMemory() - runtime.freeMemory()
print(json.dumps({"metrics": [one.metrics for one in seen], "pings": found.pings, "pairs": found.pairs, "left": left}))
"""


@pytest.mark.faults  # some minutes
def test_a_million_drivers_fit_into_a_heap_of_two_gib(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for side, many in (("drivers", DRIVERS), ("riders", 1000)):
        (tmp_path / side).mkdir()
        for number in range(2):
            half = many // 2
            at = BEGAN + number * 60 * SECOND + rng.integers(0, 60 * SECOND, half)
            table = {
                "id": [f"{side[0]}{who}" for who in range(number * half, (number + 1) * half)],
                "ts": pa.array(at).cast(pa.timestamp("us", tz="UTC")),
                "lat": LONDON[0] + rng.normal(0, 0.2, half),
                "lng": LONDON[1] + rng.normal(0, 0.3, half),
            }
            pq.write_table(pa.table(table), tmp_path / side / f"{number}.parquet")
    places = [str(tmp_path / name) for name in ("drivers", "riders", "out")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *places],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        env=environment(),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    last = found["metrics"][-1]
    assert (found["pings"], last["drivers"]) == (DRIVERS, DRIVERS)
    assert found["pairs"] > 0
    assert 0 < last["state_bytes"] / DRIVERS < 300
    assert found["left"] < 300 * 2**20, "what was known is still in memory"

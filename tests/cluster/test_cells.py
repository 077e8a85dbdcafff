"""Cells and lanes on a real cluster: executors that never saw keylane get what they need from the driver."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.cluster.conftest import ROOT, Cluster, plain_environment

if TYPE_CHECKING:
    from pathlib import Path

APP = """
import json, sys
import numpy as np
from pyspark.sql import functions as F
from keylane.geo.bits import ancestor, curve_end, curve_start
from keylane.geo.cells import cells_of
from keylane.placement.cell_lanes import CellLanes
from keylane.placement.partitioners import partitioner
from keylane.spark import local_session
from keylane.spark.cells import cell_lane_column, cell_backend, place_columns

spark = local_session(sys.argv[1], dict(pair.split("=", 1) for pair in sys.argv[3::2]))
chance = np.random.default_rng(1)
lat, lng = np.degrees(np.arcsin(chance.uniform(-1, 1, 4000))), chance.uniform(-180, 180, 4000)
known = cells_of(lat, lng)
leaves = np.unique(ancestor(known[:800], 4))
leaves = leaves[np.argsort(curve_end(leaves))]
starts = np.array([curve_start(cell) for cell in leaves.tolist()], np.int64)
leaf_lane = (np.arange(len(leaves)) % 60).astype(np.int32)
lanes = CellLanes(starts, curve_end(leaves), leaf_lane, 3, 60, partitioner("kafka-java", "h3"))
rows = list(zip(lat.tolist(), lng.tolist(), known.tolist(), lanes.of(known).tolist()))
rows.append((None, 1.0, None, None))
frame = spark.createDataFrame(rows, "lat double, lng double, c bigint, l int").repartition(4)
frame = frame.withColumn("cell", place_columns(F.col("lat"), F.col("lng")).cell)
frame = frame.withColumn("lane", cell_lane_column(spark, lanes, F.col("cell")))
same = F.col("c").eqNullSafe(F.col("cell")) & F.col("l").eqNullSafe(F.col("lane"))
print(json.dumps({"way": cell_backend(spark), "rows": frame.count(), "differ": frame.where(~same).count()}))
"""


@pytest.mark.faults  # starts a master and two workers: long on two cores
@pytest.mark.parametrize("way", ["java", "arrow"])
def test_every_cell_and_lane_is_the_one_of_a_single_machine(cluster: Cluster, tmp_path: Path, way: str) -> None:
    from keylane.systems.jars import fetched

    (tmp_path / "app.py").write_text(APP)
    cache = ROOT / "build" / "cache" if way == "java" else tmp_path / "empty"
    if way == "java":
        fetched("geo", cache / "jars")
    done = subprocess.run(
        [str(cluster.python), "app.py", cluster.master, *cluster.conf(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        cwd=tmp_path,
        env={**plain_environment(), "KEYLANE_CACHE": str(cache)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"way": way, "rows": 4001, "differ": 0}

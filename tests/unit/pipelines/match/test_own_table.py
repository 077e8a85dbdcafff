"""The lanes of a match without a contract: a table of its own drivers for its own radius, or a hash and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from keylane.contract.parse import load_contract
from keylane.placement.cell_lanes import cell_lanes

pytest.importorskip("pyspark")

from keylane.pipelines.geo_table import TableWish, geo_table
from keylane.pipelines.match.options import Columns, Options, plain_contract, region_for
from keylane.pipelines.match.own_table import own_contract
from keylane.pipelines.match.sources import MatchSource
from keylane.plan.geo_work import direct_work, points
from keylane.plan.lane_tables import lane_sums
from keylane.systems.endpoint import parse_address

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.contract.model import Contract

LANES, RADIUS = 8, 1000.0
#: Not used for files of few records.
NO_SPARK = cast("Any", None)


def silent(_: str) -> None:
    """Nothing is to be said."""


@pytest.fixture
def drivers(tmp_path: Path) -> MatchSource:
    rng = np.random.default_rng(3)
    at = np.array([40.75, -73.98]) + rng.normal(0, 1, (4_000, 2)) * (0.04, 0.015)
    whole = np.rint(at * 10_000).astype(np.int32)
    path = tmp_path / "my pings.parquet"
    ts = 1_763_208_000_000 + np.arange(4_000) * 20_000
    parquet.write_table(pa.table({"id": np.arange(4_000), "ts": ts, "lat_e4": whole[:, 0], "lng": whole[:, 1]}), path)
    return MatchSource("drivers", parse_address(str(path)), Columns(lat="lat_e4"))


def fullest(contract: Contract, drivers: MatchSource) -> float:
    """The work of the fullest lane on the drivers themselves."""
    from keylane.geo.cells import cells_of

    table = parquet.read_table(str(drivers.address))
    cells, records = np.unique(
        cells_of(table["lat_e4"].to_numpy() / 1e4, table["lng"].to_numpy() / 1e4), return_counts=True
    )
    lanes, loads = cell_lanes(contract, LANES), records[:, None].astype(float)
    return direct_work(lanes, points(cells, loads, 2_000), lane_sums(lanes, cells, loads), RADIUS).fullest


def test_it_is_the_table_that_geo_table_makes_and_it_divides_the_work(drivers: MatchSource, tmp_path: Path) -> None:
    given = Options(RADIUS, drivers=Columns(lat="lat_e4", scale=1e4))
    own, note = own_contract(drivers, LANES, given, NO_SPARK, silent)
    assert own is not None
    assert own.spec.geo is not None
    wish = TableWish(LANES, radii=(RADIUS,))
    from keylane.pipelines.engine import Options as Counting

    made = geo_table(str(drivers.address), "lat_e4", "lng", wish=wish, options=Counting(time="ts:ms", scale=1e4))
    (tmp_path / "a.yaml").write_text(made.contract)
    same = load_contract(tmp_path / "a.yaml").spec.geo
    assert same is not None
    assert own.spec.geo.leaves == same.leaves
    assert region_for(given.drivers, own).scale == 1e4
    assert fullest(own, drivers) < 0.8 * fullest(plain_contract(LANES), drivers), "the twin: the hash divides less"
    command = "--lat lat_e4 --scale 10000 --time ts --lanes 8 --radius 1000 --write places.yaml"
    assert note.endswith(f"/my pings.parquet' {command}")


def test_where_there_can_be_no_table_the_reason_is_given(drivers: MatchSource) -> None:
    own, note = own_contract(drivers, LANES, Options(RADIUS, drivers=drivers.columns), NO_SPARK, silent)
    assert own is None
    assert note.startswith("no contract: lanes by the hash of cells of resolution 4, over 8, because no table could be")
    assert "a scale of 10000 makes it 40." in note

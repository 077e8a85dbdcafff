"""Profiles by place on Spark: home cells as keys, what is no place by its reason, and plans that come of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from keylane import load_contract
from keylane.errors import UsageError
from keylane.geo.cells import cells_of
from keylane.pipelines.profile import Options, profile
from keylane.plan.contract_text import Means
from keylane.plan.planner import Question, make_plan

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.profile.model import Profile

BAD: list[tuple[float | None, float | None, str]] = [
    (None, 1.0, "null-place"),
    (1.0, None, "null-place"),
    (float("nan"), 1.0, "place-not-finite"),
    (-112.1, 33.4, "place-swapped"),
    (91.0, 200.0, "place-out-of-range"),
    (0.0, 0.0, "place-zero"),
]
REASONS = {"null-place": 2, "place-not-finite": 1, "place-out-of-range": 1, "place-swapped": 1, "place-zero": 1}
GOOD = 600
TODAY = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: pings}
spec: {streams: [pings], lanes: 8, key: {fields: [lat, lng], encoding: place}, partitioner: kafka-java,
       geo: {resolution: 3, region: [0, -180, 90, 180]}}
"""


def pings() -> dict[str, list[Any]]:
    """Places around two cities, one of them in the south, and after them what is no place."""
    rng = np.random.default_rng(1)
    at = np.array([(40.7, -74.0), (-23.5, -46.6)])[np.arange(GOOD) % 2] + rng.normal(0, 0.05, (GOOD, 2))
    return {
        "lat": [*at[:, 0].tolist(), *(lat for lat, _, _ in BAD)],
        "lng": [*at[:, 1].tolist(), *(lng for _, lng, _ in BAD)],
        "ts": [1_700_000_000_000 + 60_000 * n for n in range(GOOD + len(BAD))],
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pings") / "pings.parquet"
    parquet.write_table(pa.table(pings()), path)
    return path


def made(spark: SparkSession, source: Path, **more: Any) -> Profile:
    return profile(str(source), spark=spark, options=Options(time="ts:ms"), **more)


def records_of(found: Profile) -> dict[int, int]:
    return dict(zip(found.keys.column("cell").to_pylist(), found.records.tolist(), strict=True))


def counted_plainly(wanted: Any = slice(None)) -> dict[int, int]:
    rows = pings()
    lat, lng = (np.array(rows[name][:GOOD])[wanted] for name in ("lat", "lng"))
    cells, counts = np.unique(cells_of(lat, lng), return_counts=True)
    return dict(zip(cells.tolist(), counts.tolist(), strict=True))


def test_the_keys_are_home_cells_and_what_is_no_place_is_malformed_with_its_reason(
    spark: SparkSession, source: Path
) -> None:
    found = made(spark, source, place=("lat", "lng"))
    assert records_of(found) == counted_plainly()
    assert (found.without_key.malformed, found.without_key.null, found.total) == (len(BAD), 0, GOOD + len(BAD))
    told = dict(found.facts)
    assert (told["place"], told["no_place"]) == (["lat", "lng"], REASONS)


def test_places_written_as_text_are_the_same_places(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    lines = tmp_path / "pings.csv"
    csv.write_csv(pa.table(pings()), lines)
    with lines.open("a") as file:
        file.write("north,1.0,1700000000000\n")
    found = made(spark, lines, place=("lat", "lng"))
    assert records_of(found) == counted_plainly()
    assert dict(found.facts)["no_place"] == {"malformed-key": 1, **REASONS}


def test_a_contract_of_places_names_them_and_its_region_counts(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    path = tmp_path / "today.yaml"
    path.write_text(TODAY)
    contract = load_contract(path)
    found = made(spark, source, contract=contract)
    assert records_of(found) == counted_plainly(slice(0, None, 2))
    assert dict(found.facts)["no_place"]["place-out-of-range"] == 1 + GOOD // 2
    plan = make_plan(found, Question((8,), Means("pings", ("pings",), today=contract)))
    assert plan.standing is not None
    assert plan.standing.candidate.loads.sum() == GOOD // 2
    geo = plan.contract.spec.geo
    assert (geo and geo.region, plan.contract.metadata.epoch) == ((0, -180, 90, 180), 2)


def test_one_key_at_a_time(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "today.yaml"
    path.write_text(TODAY)
    with pytest.raises(UsageError, match="--place conflicts with"):
        profile(str(source), ("id",), place=("lat", "lng"))
    with pytest.raises(UsageError, match="--place conflicts with"):
        profile(str(source), contract=load_contract(path), place=("y", "x"))
    with pytest.raises(UsageError, match="--place takes two fields"):
        profile(str(source), place=("lat", "lat"))
    with pytest.raises(UsageError, match="cannot be counted approximately"):
        profile(str(source), place=("lat", "lng"), options=Options(approximate=True))

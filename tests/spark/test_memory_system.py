"""The part on Spark of a system that is one class: `tests/unit/systems/test_memory_system.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet
from tests.unit.systems import memory
from tests.unit.systems.memory_streams import KEYS, SPEC, streams

from keylane.errors import UnsupportedError
from keylane.pipelines.profile import Options, profile
from keylane.pipelines.route import route
from keylane.pipelines.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract


@pytest.fixture
def agreed(contract: Callable[..., Contract]) -> Iterator[Contract]:
    made = contract(**SPEC)
    with memory.registered(**streams(made)):
        yield made


@pytest.mark.parametrize("time", [None, "at"], ids=["by position", "by time"])
def test_profile(time: str | None, agreed: Contract, spark: SparkSession) -> None:
    options = Options(time=f"{time}:s" if time else None, windows=4)
    found = profile("memory://here/payments", contract=agreed, options=options, spark=spark)
    assert (found.total, found.keys.num_rows) == (len(KEYS), len(set(KEYS)))
    assert found.lanes is not None
    assert found.lanes.misplaced == 0


def test_records_in_other_lanes_are_counted(agreed: Contract, spark: SparkSession) -> None:
    found = profile("memory://here/raw", contract=agreed, spark=spark)
    assert found.lanes is not None
    assert found.lanes.misplaced


def test_a_route_from_it_and_into_it(agreed: Contract, spark: SparkSession) -> None:
    found = route(agreed, "memory://here/raw", "memory://here/routed", spark=spark)
    assert (found.counts.in_, found.counts.out) == (len(KEYS), len(KEYS))
    assert verify("memory://here/raw", "memory://here/routed", agreed).ok
    lost = memory.STREAMS["routed"]
    memory.STREAMS["routed"] = lost.slice(1)
    assert not verify("memory://here/raw", "memory://here/routed", agreed).ok


def test_a_route_between_it_and_a_folder(agreed: Contract, spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "lanes")
    assert route(agreed, "memory://here/raw", folder, spark=spark).counts.out == len(KEYS)
    assert verify("memory://here/raw", folder, agreed).ok
    files = str(tmp_path / "files.parquet")
    parquet.write_table(memory.STREAMS["raw"].drop_columns(["lane", "offset"]), files)
    assert route(agreed, files, "memory://here/routed", spark=spark).counts.out == len(KEYS)


@pytest.mark.usefixtures("agreed")
def test_what_it_cannot_do_is_refused(spark: SparkSession) -> None:
    from keylane.pipelines.match.batch import match
    from keylane.pipelines.match.options import Options as Match

    with pytest.raises(UnsupportedError, match="memory"):
        match("memory://here/raw", "memory://here/raw", "memory://here/out", Match(1000.0), spark=spark)

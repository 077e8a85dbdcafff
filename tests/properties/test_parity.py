"""Any contract over any batch: record by record, as Arrow and on Spark, the same placement. See tests/parity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from tests.parity.backends import LAYOUTS, by_record, by_spark
from tests.properties.contract_strategies import cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.parity.cases.case import Case

#: Cases in one query, and queries: a query costs what many cases cost.
TOGETHER, QUERIES = 10, max(settings().max_examples // 8, 1)


@settings(max_examples=5 * settings().max_examples)
@given(case=cases())
def test_a_batch_places_every_record_as_it_is_placed_alone(case: Case) -> None:
    right = by_record(case)
    assert LAYOUTS["batch"](case) == right
    assert LAYOUTS["slice"](case) == right


@pytest.mark.faults
@settings(max_examples=QUERIES)
@given(drawn=st.lists(cases(), min_size=TOGETHER, max_size=TOGETHER))
def test_spark_places_every_record_as_it_is_placed_alone(spark: SparkSession, drawn: list[Case]) -> None:
    for case, placed in zip(drawn, by_spark(spark, drawn), strict=True):
        assert placed == by_record(case)


def test_a_fault_in_a_rare_branch_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every divided row of a batch on the first lane of its set: wrong only where a spread by sub-key is drawn."""
    monkeypatch.setattr("keylane.batch_router.by_sub_keys", lambda _, among: among.reshape(-1, among.shape[-1])[:, 0])
    effort = settings(max_examples=1000, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    find(cases(), lambda case: LAYOUTS["batch"](case) != by_record(case), settings=effort)

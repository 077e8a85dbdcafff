"""Which backend a session has for Java methods, and that a class is trusted only after it returned a known hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.spark import java_calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def asked_anew(spark: SparkSession) -> str:
    return java_calls.java_backend.__wrapped__(spark)


def test_classic_spark_has_static_calls(spark: SparkSession) -> None:
    assert asked_anew(spark) == "static"


def test_a_version_that_was_not_tried_uses_arrow(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_calls, "TRIED", ("9.9.",))
    assert asked_anew(spark) == "arrow"


@pytest.mark.parametrize("known", [0, -973932307])
def test_a_class_that_gives_another_hash_is_not_believed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    monkeypatch.setattr(java_calls, "PROBE", ("21", known))
    assert asked_anew(spark) == "arrow"

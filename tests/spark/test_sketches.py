"""What sketches say of a source against the truth, and within the bounds that they state."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.pipelines import spark_counts as pipeline
from keylane.pipelines.profile import Options, profile
from keylane.profile.build import most_over
from keylane.systems.profiles import read_profile

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.profile.model import Profile

RECORDS, KEYS, TRACKED = 60_000, 9_000, 500


@pytest.fixture(scope="module")
def numbers() -> list[int]:
    """Keys of a skewed stream, more than the sketch keeps."""
    rng = np.random.default_rng(6)
    head = rng.zipf(1.3, RECORDS // 2) % 400
    return [int(n) for n in rng.permutation(np.concatenate([head, rng.integers(400, KEYS, RECORDS - len(head))]))]


@pytest.fixture
def source(numbers: list[int], tmp_path: Path) -> str:
    columns = {"k": [f"key-{n}" for n in numbers], "n": numbers, "b": [b"\xff%d" % n for n in numbers]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    return str(tmp_path / "a.parquet")


def outside(found: Profile, truth: dict[Any, int]) -> list[Any]:
    """Keys whose true records lie outside of what the profile says of them."""
    said = found.approximate
    assert said is not None
    keys = [next(iter(row.values())) for row in found.keys.to_pylist()]
    counted = dict(zip(keys, found.records.tolist(), strict=True))
    under = {key: n for key, n in truth.items() if n - counted.get(key, 0) > said.most_under}
    return [*under, *(key for key, n in counted.items() if n - truth[key] > said.most_over)]


def test_the_truth_lies_within_the_bounds_that_are_stated(
    source: str, numbers: list[int], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pipeline, "TRACKED", TRACKED)
    found = profile(source, ["k"], options=Options(approximate=True, windows=4), spark=spark, out=tmp_path / "p")
    said = found.approximate
    assert said is not None
    truth = Counter(f"key-{n}" for n in numbers)
    assert 0 < said.most_over < RECORDS / 50
    assert outside(found, truth) == []
    assert found.keys["k"].to_pylist()[:3] == [key for key, _ in truth.most_common(3)]
    assert abs(said.distinct_keys - len(truth)) <= said.distinct_error * len(truth)
    assert found.keys.num_rows < len(truth)
    assert sum(dict(found.facts)["window_records"]) == RECORDS
    assert read_profile(tmp_path / "p").approximate == said


def test_bounds_that_promise_too_much_are_found_out(
    source: str, numbers: list[int], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keylane.profile import build

    monkeypatch.setattr(pipeline, "TRACKED", TRACKED)
    monkeypatch.setattr(build, "most_over", lambda records, tracked: most_over(records, tracked * 10_000))
    monkeypatch.setattr(pipeline, "checked", lambda made, _: made)
    found = profile(source, ["k"], options=Options(approximate=True, windows=4), spark=spark)
    assert outside(found, Counter(f"key-{n}" for n in numbers))


@pytest.mark.parametrize(
    ("fields", "encoding"), [(["n"], "utf8"), (["b"], "raw"), (["k", "n"], "utf8")], ids=["numbers", "bytes", "fields"]
)
def test_few_keys_are_counted_exactly_whatever_they_are(
    fields: list[str], encoding: Any, source: str, numbers: list[int], spark: SparkSession
) -> None:
    asked = Options(windows=3)
    exact = profile(source, fields, encoding=encoding, options=asked, spark=spark)
    found = profile(source, fields, encoding=encoding, options=Options(windows=3, approximate=True), spark=spark)
    said = found.approximate
    assert said is not None
    assert (said.most_over, said.most_under, said.untracked) == (0, 0, 0)
    assert found.keys.equals(exact.keys)
    assert (found.by_window == exact.by_window).all()
    assert found.total == exact.total == RECORDS


def test_records_without_a_key_are_no_key_of_a_sketch(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a", None, "", "a"]}), tmp_path / "a.parquet")
    found = profile(str(tmp_path), ["k"], options=Options(windows=2, approximate=True), spark=spark)
    assert (found.keys["k"].to_pylist(), found.records.tolist()) == (["a"], [2])
    assert (found.without_key.null, found.without_key.empty, found.total) == (1, 1, 4)

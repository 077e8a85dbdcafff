"""The history checker comes to the same verdict on Spark as on this machine: clean, and with every damage at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.history.generated_histories import ONCE, REPEATED, clean
from tests.history.written_targets import make, payments, rewrite

from keylane.history.rows import normal
from keylane.testing.history import RULES, Settings, check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane import Contract


@pytest.mark.parametrize("settings", [Settings(dense=True), Settings(mode="at-least-once")], ids=lambda one: one.mode)
def test_the_verdict_is_the_same(settings: Settings, spark: SparkSession) -> None:
    from keylane.spark.history import judged

    again = settings.mode == "at-least-once"
    world = clean(5, replays=again)
    for damage in REPEATED if again else ONCE:
        damage(world)
    rows = pa.Table.from_batches([normal(batch) for batch in world.batches()])
    here = check([rows], settings)
    assert judged(spark.createDataFrame(rows).repartition(3), settings, bits=1) == here
    of_files = {"offset_gaps", "unsorted"} if again else set()
    assert {rule for rule, count in here.counts.items() if count} == set(RULES) - of_files


def test_two_streams_are_verified_alike(contract: Callable[..., Contract], spark: SparkSession, tmp_path: Path) -> None:
    from keylane.pipelines.verify import verify

    spread = [{"keys": ["hot"], "spread": {"over": 3, "by": "order"}}]
    agreed = contract(key={"fields": ["k"], "on_null": "reject"}, lanes=4, hot_keys=spread)
    source, target = make(tmp_path, agreed, payments())
    clean_here = verify(str(source), str(target), agreed, engine="local")
    on_spark = verify(str(source), str(target), agreed, engine="spark", spark=spark)
    assert clean_here.ok
    assert on_spark.verdict == clean_here.verdict
    first, second, *_ = sorted(target.glob("stream=t/lane=*/*.parquet"))
    first.unlink()
    rewrite(second, [1, 0, 3, 2])
    here = verify(str(source), str(target), agreed, engine="local")
    assert not here.ok
    assert verify(str(source), str(target), agreed, engine="spark", spark=spark).verdict == here.verdict

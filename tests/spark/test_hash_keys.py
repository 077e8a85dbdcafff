"""Explicit hash keys over unequal shards on Spark: frames, columns and SQL equal the router, to the last key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane import Router
from keylane.keyspace.key_tree import KeyTree
from keylane.placement.ranges import KeySpace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: accounts}
spec: {streams: [accounts], lanes: live, key: {fields: [account]}, partitioner: kinesis-md5}
"""
SPACE = KeySpace((0, 2**127, 3 * 2**126, 7 * 2**125, 15 * 2**124))


@pytest.mark.parametrize("explicit", [20, 300], ids=["literals", "a join"])
def test_frames_and_sql_equal_the_router(spark: SparkSession, explicit: int) -> None:
    from keylane.spark import register, with_placements

    tree = KeyTree()
    keys = {f"a{n}": tree.take() for n in range(explicit)}
    router = Router(CONTRACT, key_space=SPACE, hash_keys=keys)
    names = [*keys, *(f"other{n}" for n in range(200))]
    frame = spark.createDataFrame([(name,) for name in names], "account string")
    expected = {name: router.lane(name) for name in names}
    routed = {row["account"]: row["lane"] for row in with_placements(frame, router).collect()}
    assert routed == expected
    register(spark, router, name="lane_by_hash_key")
    frame.createOrReplaceTempView("hash_key_accounts")
    asked = "SELECT account, lane_by_hash_key('accounts', account) AS lane FROM hash_key_accounts"
    assert {row["account"]: row["lane"] for row in spark.sql(asked).collect()} == expected

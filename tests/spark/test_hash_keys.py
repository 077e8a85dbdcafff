"""Explicit hash keys over unequal shards on Spark: frames, columns and SQL equal the router, to the last key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.parity.cases.partitioners import TWINS

from keylane import Router
from keylane.hashing.md5 import md5_128
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


@pytest.mark.parametrize("wrong", [False, True], ids=["", "a twin"])
@pytest.mark.parametrize("ranges", ["wide", "at digests", "narrow"])
def test_accounts_beside_others_of_their_digest_and_exact_boundaries(
    spark: SparkSession, ranges: str, wrong: bool
) -> None:
    """One of two keys of one MD5 has a hash key; ranges begin at digests, or are many and two keys wide."""
    from keylane.spark import lane

    names = [f"a{n}" for n in range(40)]
    digests = sorted(md5_128(name.encode()) for name in names)
    inner = {
        "wide": [2**126, 2**127],
        "at digests": sorted({one + step for one in digests for step in (-2, 0, 2)}),
        "narrow": list(range(digests[9] - 400, digests[9] + 400, 2)),
    }[ranges]
    space = KeySpace((0, *inner))
    keys = {TWINS[0]: 2**128 - 1, names[1]: 0, names[2]: digests[5]}
    router = Router(CONTRACT, key_space=space, hash_keys=keys)
    given = Router(CONTRACT, key_space=space, hash_keys={**keys, **({TWINS[1]: 5} if wrong else {})})
    rows = [*names, *TWINS, "", None]
    frame = spark.createDataFrame([(name,) for name in rows], "account string")
    placed = {row["account"]: row["lane"] for row in frame.select("account", lane(given).alias("lane")).collect()}
    other = {name for name in [*names, *TWINS] if placed[name] != router.lane(name)}
    assert other == ({TWINS[1]} if wrong and router.lane(TWINS[1]) != 0 else set())
    assert (placed[None], placed[""]) == (None, None)


@pytest.mark.parametrize("wrong", [False, True], ids=["", "a twin"])
def test_boundaries_at_digests_are_exact_to_the_last_bit(spark: SparkSession, wrong: bool) -> None:
    """Ranges that begin at the MD5 of a key, a key before it and behind it; some so close that steps follow steps."""
    from keylane.spark import lane

    names = [f"a{n}" for n in range(40)]
    digests = [md5_128(name.encode()) for name in names]
    starts = {0, *digests[:8], *(at + 1 for at in digests[8:16]), *(at - 1 for at in digests[16:24])}
    starts |= {digests[24] - 2, digests[24], digests[24] + 2}
    space = KeySpace(tuple(sorted(at + 1 if wrong and at == digests[0] else at for at in starts)))
    router = Router(CONTRACT, key_space=KeySpace(tuple(sorted(starts))))
    frame = spark.createDataFrame([(name,) for name in [*names, None, ""]], "account string")
    column = lane(Router(CONTRACT, key_space=space))
    placed = {row["account"]: row["lane"] for row in frame.select("account", column.alias("lane")).collect()}
    other = {name for name in names if placed[name] != router.lane(name)}
    assert other == ({names[0]} if wrong else set())
    assert (placed[None], placed[""]) == (None, None)

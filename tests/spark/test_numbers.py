"""The arithmetic under the columns, where cases made of keys cannot reach: boundaries, ties, the ends of 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from keylane.contract.shards import SPACE
from keylane.hashing.murmur2 import murmur2
from keylane.hashing.murmur3 import fmix32
from keylane.placement.ranges import KeySpace, range_start
from keylane.placement.ranges import range_lane as right_lane
from keylane.spark.hashes import _by_halves, low32, murmur2_of_long, range_lane
from keylane.spark.hashes import murmur2 as murmur2_column
from keylane.spark.keys import Bytes, floor_divided
from keylane.spark.lanes import scores

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from keylane.spark.java_calls import JavaBackend

NUMBERS = [0, 1, -1, 255, 256, -256, -257, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63), 0x0123456789ABCDEF]


def column_of(spark: SparkSession, values: list[Any], kind: str, made: Column) -> list[Any]:
    frame = spark.createDataFrame([(value,) for value in values], f"x {kind}")
    return [row[0] for row in frame.select(made.alias("made")).collect()]


def edges(lanes: int) -> list[int]:
    """Each boundary, the numbers beside it, and numbers that share its high half."""
    starts = [range_start(lane, lanes) for lane in {0, min(1, lanes - 1), lanes // 2, lanes - 1}]
    near = [start + step for start in starts for step in (-1, 0, 1, 2**63, -(2**63), 2**64, -(2**64))]
    return [number for number in (*near, 0, SPACE - 1, SPACE // 2) if 0 <= number < SPACE]


@pytest.mark.parametrize("lanes", [1, 2, 6, 7, 64, 100, 4096, 65_537])
@pytest.mark.parametrize(("way", "kind"), [("static", "binary"), ("arrow", "string")])
def test_a_digest_on_a_boundary_is_in_the_range_that_begins_there(
    spark: SparkSession, lanes: int, way: JavaBackend, kind: str
) -> None:
    digests: list[Any] = [number.to_bytes(16, "big") for number in edges(lanes)]
    given = digests if kind == "binary" else [digest.hex() for digest in digests]
    found = column_of(spark, given, kind, range_lane(F.col("x"), lanes, way))
    assert found == [right_lane(number, lanes) for number in edges(lanes)]


def test_ranges_cut_by_the_other_rule_would_be_caught(spark: SparkSession) -> None:
    lanes = 7
    ideal = [lane * SPACE // lanes for lane in range(1, lanes)]
    digests = [number.to_bytes(16, "big") for number in edges(lanes)]
    found = column_of(spark, digests, "binary", _by_halves(F.col("x"), ideal, lanes))
    assert found != [right_lane(number, lanes) for number in edges(lanes)]


#: Ranges of one number, of two, several in one high half of 64 bits; and thousands that widen.
UNEVEN = [
    KeySpace((0, 1, 3, 2**63, 2**64 - 1, 2**64, 2**64 + 3, 2**100, 2**127, SPACE - 2**64, SPACE - 1)),
    KeySpace(tuple(SPACE * i**2 // 3000**2 for i in range(3000))),
]


@pytest.mark.parametrize("space", UNEVEN, ids=len)
@pytest.mark.parametrize(("way", "kind"), [("static", "binary"), ("arrow", "string")])
def test_uneven_ranges_begin_where_the_key_space_says(
    spark: SparkSession, space: KeySpace, way: JavaBackend, kind: str
) -> None:
    near = [start + step for start in space.starts for step in (-1, 0, 1)]
    numbers = [number for number in (*near, SPACE // 3) if 0 <= number < SPACE]
    digests: list[Any] = [number.to_bytes(16, "big") for number in numbers]
    given = [*(digests if kind == "binary" else [digest.hex() for digest in digests]), None]
    placed = column_of(spark, given, kind, range_lane(F.col("x"), space, way))
    assert placed == [*map(space.lane_of, numbers), None]
    # The twin: equal ranges place them elsewhere.
    assert placed[:-1] != [right_lane(number, len(space)) for number in numbers]


@pytest.mark.parametrize("way", ["static", "arrow"])
def test_murmur2_of_a_long_is_that_of_its_bytes(spark: SparkSession, way: JavaBackend) -> None:
    found = column_of(spark, [*NUMBERS, None], "bigint", low32(murmur2_of_long(F.col("x"), way)))
    assert found == [*(murmur2(number.to_bytes(8, "big", signed=True)) for number in NUMBERS), None]


def test_murmur2_of_an_eight_byte_key_needs_no_java(spark: SparkSession) -> None:
    key = Bytes(F.lit(None).cast("binary"), number=F.col("x"), width=8)
    found = column_of(spark, NUMBERS, "bigint", low32(murmur2_column(key, "arrow")))
    assert found == [murmur2(number.to_bytes(8, "big", signed=True)) for number in NUMBERS]


def test_murmur2_of_a_long_in_the_other_byte_order_would_be_caught(spark: SparkSession) -> None:
    found = column_of(spark, NUMBERS[3:], "bigint", low32(murmur2_of_long(F.col("x"), "arrow")))
    assert found != [murmur2(number.to_bytes(8, "little", signed=True)) for number in NUMBERS[3:]]


def test_scores_of_a_spread_do_not_overflow(spark: SparkSession) -> None:
    numbers = [0, 1, 2**16, 2**31, 2**32 - 1, 0xDEADBEEF]
    assert column_of(spark, numbers, "bigint", scores(F.array("x"))[0]) == [fmix32(number) for number in numbers]


@pytest.mark.parametrize("by", [1, 256, 1000, 3_600_000])
def test_division_rounds_down(spark: SparkSession, by: int) -> None:
    assert column_of(spark, NUMBERS, "bigint", floor_divided(F.col("x"), by)) == [number // by for number in NUMBERS]


def test_division_towards_zero_would_be_caught(spark: SparkSession) -> None:
    found = column_of(spark, [-1], "bigint", F.call_function("div", F.col("x"), F.lit(256)))
    assert found != [-1 // 256]

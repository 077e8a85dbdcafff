"""Every partitioner against published lanes: alone, through a contract, and over a batch."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from keylane.contract.partitioners import FACTS
from keylane.hashing import HASHES
from keylane.placement.fold import absolute, masked, positive, unsigned
from keylane.placement.partitioners import partitioner
from keylane.placement.ranges import range_lane
from keylane.router import Router
from keylane.testing.golden import LaneVector, lane_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

VECTORS = lane_vectors()
STREAMS = [
    pytest.param(name, lanes, list(vectors), id=f"{name} over {lanes}")
    for (name, lanes), vectors in groupby(
        sorted(VECTORS, key=lambda v: (v.partitioner, v.lanes)), key=lambda v: (v.partitioner, v.lanes)
    )
]


def router(contract: Callable[..., Contract], name: str, lanes: int) -> Router:
    """A router whose contract takes keys as the bytes they are, or as text where the client holds nothing else."""
    encoding = "raw" if "raw" in FACTS[name].encodings else "utf8"
    return Router(contract(lanes=lanes, partitioner=name, key={"fields": ["k"], "encoding": encoding}))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v.partitioner} {v.key!r:.30} of {v.lanes}")
def test_a_key_has_its_published_lane(vector: LaneVector, contract: Callable[..., Contract]) -> None:
    assert partitioner(vector.partitioner).lane(vector.key, vector.lanes) == vector.lane
    assert router(contract, vector.partitioner, vector.lanes).lane({"k": vector.key}) == vector.lane


@pytest.mark.parametrize(("name", "lanes", "vectors"), STREAMS)
def test_a_batch_has_its_published_lanes(
    name: str, lanes: int, vectors: list[LaneVector], contract: Callable[..., Contract]
) -> None:
    keys = pa.array([vector.key for vector in vectors], pa.binary())
    placed = router(contract, name, lanes).lanes(pa.RecordBatch.from_pydict({"k": keys}))
    assert placed.to_pylist() == [vector.lane for vector in vectors]


LONGS = [v for v in VECTORS if v.partitioner == "spark-hash" and "a long" in v.source]


def test_spark_gives_a_long_column_the_published_lanes_of_longs(contract: Callable[..., Contract]) -> None:
    """The source publishes longs as their little-endian bytes; a contract takes them as numbers."""
    key = {"fields": ["k"], "encoding": "int64be"}
    typed = Router(contract(lanes=200, partitioner="spark-hash", key=key))
    numbers = [int.from_bytes(vector.key or b"", "little", signed=True) for vector in LONGS]
    assert [typed.lane({"k": number}) for number in numbers] == [vector.lane for vector in LONGS]
    assert typed.lanes(pa.RecordBatch.from_pydict({"k": numbers})).to_pylist() == [vector.lane for vector in LONGS]


def misses(fold: str, broken: Callable[[int, int], int]) -> list[LaneVector]:
    """The vectors of all partitioners of a fold that another fold gets wrong; only keys that are hashed."""
    hashed = [v for v in VECTORS if v.key and FACTS[v.partitioner].fold == fold]
    return [v for v in hashed if broken(_hash(v), v.lanes) != v.lane]


def _hash(vector: LaneVector) -> int:
    name: Any = FACTS[vector.partitioner].hash
    return HASHES[name].one(vector.key or b"")


def signed_remainder(h: int, lanes: int) -> int:
    """C and Java: the remainder has the sign of the hash."""
    number = h - 2**32 if h >= 2**31 else h
    return -(-number % lanes) if number < 0 else number % lanes


def signed_ranges(number: int, lanes: int) -> int:
    """`new BigInteger(digest)` without a sign: the upper half of the space is negative."""
    signed = number - 2**128 if number >= 2**127 else number
    return min(signed // (2**128 // lanes), lanes - 1)


PLANTED: list[tuple[str, Callable[[int, int], int], Callable[[int, int], int]]] = [
    ("masked", masked, unsigned),
    ("masked", masked, absolute),
    ("unsigned", unsigned, signed_remainder),
    ("unsigned", unsigned, masked),
    ("absolute", absolute, masked),
    ("absolute", absolute, signed_remainder),
    ("positive", positive, masked),
    ("positive", positive, unsigned),
    ("ranges", range_lane, signed_ranges),
    ("ranges", range_lane, unsigned),
]


@pytest.mark.parametrize(("fold", "right", "broken"), PLANTED, ids=[f"{n} {f.__name__}" for n, _, f in PLANTED])
def test_a_planted_fold_is_caught(
    fold: str, right: Callable[[int, int], int], broken: Callable[[int, int], int]
) -> None:
    assert misses(fold, right) == []
    assert misses(fold, broken) != []

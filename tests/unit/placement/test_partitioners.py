from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from keylane.contract.names import PARTITIONERS
from keylane.errors import LaneCountError, UnknownNameError
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from keylane.contract.names import Encoding

HASHING = [one for one in map(partitioner, PARTITIONERS) if one.hash is not None]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'kafka-java'\?"):
        partitioner("kafka_java")


@pytest.mark.parametrize(
    ("name", "lane"),
    [("kafka-java", 10), ("librdkafka-consistent-random", 9)],
)
def test_clients_disagree_about_one_key(name: str, lane: int) -> None:
    assert partitioner(name).lane(b"TT0124", 15) == lane


@pytest.mark.parametrize(
    ("name", "null", "empty"),
    [
        ("kafka-java", None, 1),
        ("librdkafka-consistent", 0, 0),
        ("librdkafka-consistent-random", None, None),
        ("librdkafka-murmur2", 1, 1),
        ("librdkafka-murmur2-random", None, 1),
        ("librdkafka-random", None, None),
        ("kinesis-md5", None, None),
    ],
)
def test_null_and_empty_keys_do_what_they_do_in_that_client(name: str, null: int | None, empty: int | None) -> None:
    assert (partitioner(name).lane(None, 4), partitioner(name).lane(b"", 4)) == (null, empty)


def test_a_null_goes_where_spark_puts_it() -> None:
    """Spark's hash() skips a null and keeps its seed, 42, whatever the column's type."""
    encodings: tuple[Encoding, ...] = ("utf8", "int32be", "int64be")
    assert [partitioner("spark-hash", encoding).lane(None, 100) for encoding in encodings] == [42, 42, 42]


def test_a_client_that_ignores_keys_decides_nothing() -> None:
    assert partitioner("librdkafka-random").lane(b"key", 4) is None


def test_an_empty_key_that_a_client_cannot_hold_decides_nothing() -> None:
    assert partitioner("abs-long-hashcode").lane(b"", 4) is None


def test_spark_hashes_numbers_as_numbers_and_all_others_as_bytes() -> None:
    key = (7).to_bytes(8, "big")
    assert partitioner("spark-hash", "int64be").lane(key, 1000) != partitioner("spark-hash").lane(key, 1000)
    assert partitioner("kafka-java", "int64be").lane(key, 1000) == partitioner("kafka-java").lane(key, 1000)


@pytest.mark.parametrize("lanes", [0, -1, 1.5, True, None, "live", 100_001], ids=repr)
def test_a_lane_count_that_is_none_is_refused(lanes: Any) -> None:
    with pytest.raises(LaneCountError, match="not a lane count"):
        partitioner("kafka-java").lane(b"key", lanes)


@pytest.mark.parametrize("one", HASHING, ids=lambda one: one.name)
def test_a_batch_gives_what_single_keys_give(one: Any) -> None:
    keys = [b"%08d" % (i * 7919) for i in range(20)]
    assert one.hashed_lanes(pa.array(keys), 13).tolist() == [one.lane(key, 13) for key in keys]

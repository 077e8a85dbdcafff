from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.partitioners import FACTS
from keylane.errors import DataError
from keylane.measure.evidence import Hypothesis, candidates_for, family_of, narrowed
from keylane.placement.partitioners import partitioner

UUIDS = [str(UUID(int=i * 2**90 + i)) for i in range(1, 20)]
CELLS = [f"{0x8928308280FFFFF + i * 2**18:015x}" for i in range(20)]
FRAMED = [b"\0\0\0\0\x07\xff\xfe%d" % i for i in range(20)]


@pytest.mark.parametrize(
    ("keys", "encodings"),
    [
        pytest.param(pa.array(["a", "b"]), {("utf8", False)}, id="text"),
        pytest.param(pa.array(["a"], pa.large_string()), {("utf8", False)}, id="large text"),
        pytest.param(pa.array(["a", "b"]).dictionary_encode(), {("utf8", False)}, id="dictionary"),
        pytest.param(pa.array(UUIDS), {("utf8", False), ("uuid", False)}, id="uuid text"),
        pytest.param(pa.array([*UUIDS, "x"]), {("utf8", False)}, id="one of them no uuid"),
        pytest.param(pa.array(CELLS), {("utf8", False), ("h3", False)}, id="h3 cells"),
        pytest.param(pa.array([1 << 40], pa.int64()), {("utf8", False), ("int64be", False)}, id="int64"),
        pytest.param(pa.array([1], pa.int32()), {("utf8", False), ("int32be", False), ("int64be", False)}, id="int32"),
        pytest.param(pa.array([b"a"] * 20), {("raw", False), ("utf8", False)}, id="bytes that are text"),
        pytest.param(pa.array([b"\xff\xfe"] * 20), {("raw", False)}, id="bytes that are not"),
        pytest.param(pa.array([b"abcd"] * 20, pa.binary(4)), {("raw", False), ("utf8", False)}, id="fixed bytes"),
        pytest.param(pa.array(FRAMED), {("raw", False), ("raw", True)}, id="registry header"),
        pytest.param(pa.array([*FRAMED, b"x"]), {("raw", False)}, id="one of them without header"),
    ],
)
def test_the_encodings_tried_are_those_the_values_could_have(keys: pa.Array, encodings: set[tuple[str, bool]]) -> None:
    assert {(c.encoding, c.strip_header) for c in candidates_for(keys)} == encodings


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(pa.array([1.5]), id="float"),
        pytest.param(pa.array([True]), id="bool"),
        pytest.param(pa.array([[1]]), id="list"),
        pytest.param(pa.array([0], pa.timestamp("us")), id="timestamp"),
    ],
)
def test_a_column_that_holds_no_keys_is_refused(keys: pa.Array) -> None:
    with pytest.raises(DataError, match="whole numbers"):
        candidates_for(keys)


def test_every_family_is_tried_once_for_each_encoding() -> None:
    found = [c.partitioner.facts.family for c in candidates_for(pa.array(["a"]))]
    text = {f.family for f in FACTS.values() if f.hash and "utf8" in f.encodings}
    assert sorted(found) == sorted(text)


def test_a_partitioner_is_tried_only_on_keys_its_client_can_hold() -> None:
    by_encoding: dict[str, set[str]] = {}
    for candidate in candidates_for(pa.array([1], pa.int64())):
        by_encoding.setdefault(candidate.encoding, set()).add(candidate.name)
    assert "abs-long-hashcode" in by_encoding["int64be"]
    assert "abs-long-hashcode" not in by_encoding["utf8"]
    assert "kinesis-md5" not in by_encoding["int64be"]


@pytest.mark.parametrize(
    ("family", "first"),
    [
        ("murmur2/masked", "kafka-java"),
        ("crc32/unsigned", "librdkafka-consistent-random"),
        ("fnv1a/absolute", "sarama-hash"),
        ("fnv1a/masked", "sarama-reference"),
    ],
)
def test_the_usual_member_of_a_family_comes_first(family: str, first: str) -> None:
    names = family_of(family)
    assert names[0] == first
    assert sorted(names) == sorted(name for name, facts in FACTS.items() if facts.family == family)


@pytest.mark.parametrize("name", ["kafka-java", "sarama-hash", "spark-hash", "kinesis-md5"])
def test_a_candidate_predicts_what_the_partitioner_does(name: str) -> None:
    keys = [f"k{i}" for i in range(200)]
    one = partitioner(name)
    predicted = Hypothesis(one, "utf8").lanes(pa.array(keys), 12)
    assert predicted.tolist() == [one.lane(key.encode(), 12) for key in keys]


def test_a_key_that_does_not_fit_has_no_predicted_lane() -> None:
    candidate = Hypothesis(partitioner("kafka-java"), "int32be")
    assert candidate.lanes(pa.array([1, 2**40, 3]), 12).tolist()[1] == -1


def test_a_stripped_candidate_hashes_what_is_behind_the_header() -> None:
    keys = [b"\0\0\0\0%c" % i + b"m-7" for i in range(20)]
    lanes = Hypothesis(partitioner("kafka-java"), "raw", strip_header=True).lanes(pa.array(keys), 12)
    assert set(lanes.tolist()) == {partitioner("kafka-java").lane(b"m-7", 12)}


MURMUR2 = family_of("murmur2/masked")
CRC32 = family_of("crc32/unsigned")
NONE = np.zeros(12, np.int64)


def at_one_lane(lane: int, rows: int) -> Any:
    counts = np.zeros(12, np.int64)
    counts[lane] = rows
    return counts


def hashed_lane(name: str) -> int:
    lane = partitioner(name).lane(None, 12)
    assert lane is not None
    return lane


def test_nothing_is_narrowed_without_null_and_empty_rows() -> None:
    assert narrowed(MURMUR2, NONE, NONE, 12) == MURMUR2


def test_nine_rows_say_nothing() -> None:
    assert narrowed(MURMUR2, at_one_lane(hashed_lane("librdkafka-murmur2"), 9), NONE, 12) == MURMUR2


def test_null_keys_that_were_hashed_name_the_client_that_hashes_them() -> None:
    nulls = at_one_lane(hashed_lane("librdkafka-murmur2"), 10)
    assert narrowed(MURMUR2, nulls, NONE, 12) == ["librdkafka-murmur2"]


def test_null_keys_in_several_lanes_exclude_the_client_that_hashes_them() -> None:
    assert narrowed(MURMUR2, np.ones(12, np.int64), NONE, 12) == [n for n in MURMUR2 if n != "librdkafka-murmur2"]


def test_empty_keys_tell_apart_what_null_keys_cannot() -> None:
    spread = np.ones(12, np.int64)
    empties = at_one_lane(hashed_lane("librdkafka-consistent"), 10)
    assert narrowed(CRC32, spread, spread, 12) == ["librdkafka-consistent-random", "kafka-go-crc32"]
    assert narrowed(CRC32, spread, empties, 12) == ["sarama-crc"]
    assert narrowed(CRC32, empties, empties, 12) == ["librdkafka-consistent"]


def test_null_rows_that_fit_no_member_narrow_nothing() -> None:
    only = ["kafka-java"]
    assert narrowed(only, at_one_lane(hashed_lane("librdkafka-murmur2"), 10), NONE, 12) == only


def test_null_keys_together_in_another_lane_were_not_hashed() -> None:
    """A sticky client keeps a whole batch of them on one lane, any lane."""
    elsewhere = (hashed_lane("librdkafka-murmur2") + 1) % 12
    assert "librdkafka-murmur2" not in narrowed(MURMUR2, at_one_lane(elsewhere, 50), NONE, 12)

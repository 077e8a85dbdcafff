"""Whatever the key and however many lanes: a lane, within range, and the same for one key and for a batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.contract.partitioners import FACTS, PartitionerFacts
from keylane.hashing import HASHES
from keylane.placement.fold import FOLDS
from keylane.placement.partitioners import partitioner

#: One, two, the powers of two, their neighbours, and the most a contract may say.
COUNTS = sorted({1, 2, 3, 99_999, 100_000} | {2**k + d for k in range(2, 17) for d in (-1, 0, 1)})
HASHED = [facts for facts in FACTS.values() if facts.hash]
MIN_INT = {"fnv1a": b"1468509572224", "java-string": b"polygenelubricants", "java-long": (2**63 - 1).to_bytes(8, "big")}


def keys_of(facts: PartitionerFacts) -> st.SearchStrategy[bytes]:
    """Keys that this client can hold."""
    if "raw" in facts.encodings:
        return st.binary(min_size=1, max_size=40)
    if "utf8" in facts.encodings:
        return st.text(min_size=1, max_size=20).map(str.encode)
    return st.binary(min_size=8, max_size=8)


@pytest.mark.parametrize("facts", HASHED, ids=lambda facts: facts.name)
@given(data=st.data(), lanes=st.sampled_from(COUNTS))
def test_every_key_has_a_lane_within_range(facts: PartitionerFacts, data: st.DataObject, lanes: int) -> None:
    keys = data.draw(st.lists(keys_of(facts), min_size=1, max_size=10))
    one = partitioner(facts.name)
    placed: list[Any] = [one.lane(key, lanes) for key in keys]
    assert all(0 <= lane < lanes for lane in placed)
    assert one.hashed_lanes(pa.array(keys), lanes).tolist() == placed


@pytest.mark.parametrize("name", FOLDS)
@given(h=st.integers(0, 2**32 - 1) | st.sampled_from([2**31, 2**31 - 1, 2**32 - 1]), lanes=st.integers(1, 100_000))
def test_every_hash_folds_into_range(name: str, h: int, lanes: int) -> None:
    assert 0 <= FOLDS[name](h, lanes) < lanes


@pytest.mark.parametrize("hash_name", MIN_INT)
@given(lanes=st.integers(1, 100_000))
def test_the_key_whose_absolute_value_is_negative_in_java_has_a_lane(hash_name: str, lanes: int) -> None:
    key = MIN_INT[hash_name]
    assert HASHES[hash_name].one(key) == 0x80000000
    for facts in HASHED:
        if facts.hash == hash_name:
            lane = partitioner(facts.name).lane(key, lanes)
            assert lane is not None
            assert 0 <= lane < lanes

"""What a contract says another lane count would move is what it moves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keylane.contract.answers import moved_share
from keylane.placement.partitioners import partitioner

KEYS = pa.array([f"merchant_{i:06d}" for i in range(20_000)])
CHANGES = [(12, 24), (12, 18), (7, 8), (64, 100), (24, 12), (2, 4), (16, 16)]


def measured(name: str, old: int, new: int) -> float:
    one = partitioner(name)
    return float((one.hashed_lanes(KEYS, old) != one.hashed_lanes(KEYS, new)).mean())


@pytest.mark.parametrize("name", ["kafka-java", "sarama-hash", "kinesis-md5", "spark-hash"])
@pytest.mark.parametrize(("old", "new"), CHANGES, ids=[f"{old} to {new}" for old, new in CHANGES])
def test_the_share_of_keys_that_move_is_the_share_that_was_told(name: str, old: int, new: int) -> None:
    told = moved_share(name, old, new)
    assert told is not None
    assert measured(name, old, new) == pytest.approx(float(told), abs=0.02)


def test_the_rule_of_another_fold_would_be_caught() -> None:
    told = moved_share("kafka-java", 12, 24)
    assert told is not None
    assert measured("kinesis-md5", 12, 24) != pytest.approx(float(told), abs=0.02)

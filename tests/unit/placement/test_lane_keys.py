"""Lane keys are what Spark's hash puts in the partition of their lane; Spark itself is asked in `tests/spark`."""

from __future__ import annotations

import pytest

from keylane.errors import LaneCountError
from keylane.placement.lane_keys import lane_keys, partition_of


@pytest.mark.parametrize("lanes", [1, 2, 12, 60, 64, 256])
def test_every_lane_has_the_smallest_key_of_its_partition(lanes: int) -> None:
    keys = lane_keys(lanes)
    assert [partition_of(key, lanes) for key in keys] == list(range(lanes))
    for lane, key in enumerate(keys):
        assert lane not in {partition_of(smaller, lanes) for smaller in range(key)}


def test_lane_ids_as_keys_would_leave_partitions_empty() -> None:
    assert len({partition_of(lane, 60) for lane in range(60)}) == 38


def test_a_lane_count_that_is_none_is_refused() -> None:
    with pytest.raises(LaneCountError, match="got 0; allowed: 1 to 100,000"):
        lane_keys(0)

from __future__ import annotations

from typing import Any

import pytest

from keylane.contract.names import MAX_LANES
from keylane.errors import LaneCountError
from keylane.placement.fold import lane_count


@pytest.mark.parametrize("value", [1, 15, MAX_LANES])
def test_a_whole_number_within_bounds_is_a_lane_count(value: int) -> None:
    assert lane_count(value) == value


@pytest.mark.parametrize("value", [0, -3, MAX_LANES + 1, 2.0, "8", True, None], ids=repr)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(LaneCountError, match=f"from 1 to {MAX_LANES}"):
        lane_count(value)


def test_live_is_answered_with_what_to_do() -> None:
    with pytest.raises(LaneCountError, match="ask the cluster"):
        lane_count("live")

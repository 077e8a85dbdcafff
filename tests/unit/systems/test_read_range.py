from __future__ import annotations

from itertools import pairwise

import pytest

from keylane.errors import UsageError
from keylane.systems.read_range import ALL, ReadRange, Stretch, clipped, newest, stated, stretches

RANGES = [(0, 1_000_000), (500, 500), (10, 4_010)]


def test_a_window_of_time_is_cut_where_the_broker_says() -> None:
    there = [(100, 200), (100, 200), (100, 200), (100, 200)]
    assert clipped(there, ReadRange(1, 2), since=[50, 120, -1, 180], until=[150, -1, -1, 150]) == [
        (100, 150),
        (120, 200),
        (200, 200),
        (180, 180),
    ]


def test_partitions_that_are_not_asked_for_are_empty_and_unknown_ones_refused() -> None:
    assert clipped([(0, 5), (0, 7)], ReadRange(partitions=(0,))) == [(0, 5), (0, 0)]
    with pytest.raises(UsageError, match="no such partition: got 2; allowed: 0 to 1"):
        clipped([(0, 5), (0, 7)], ReadRange(partitions=(2,)))
    with pytest.raises(UsageError, match="ends before it begins"):
        ReadRange(since=5, until=5)


@pytest.mark.parametrize("most", [1, 7, 1_000, 999_999])
def test_stretches_are_within_the_lanes_apart_and_no_more_than_asked(most: int) -> None:
    found = stretches(RANGES, most)
    # At least one record of each lane that has some.
    assert sum(one.end - one.start for one in found) <= max(most, 2)
    by_lane: dict[int, list[tuple[int, int]]] = {}
    for one in found:
        assert RANGES[one.lane][0] <= one.start < one.end <= RANGES[one.lane][1]
        by_lane.setdefault(one.lane, []).append((one.start, one.end))
    assert set(by_lane) == {0, 2}
    for some in by_lane.values():
        some.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(some))


def new_share(some: list[tuple[int, int]], since: int) -> float:
    return sum(max(0, end - max(start, since)) for start, end in some) / sum(end - start for start, end in some)


@pytest.mark.parametrize("most", [300, 1_000, 3_000, 20_000])
@pytest.mark.parametrize("since", [2_500, 3_333, 4_000])
def test_old_and_new_records_weigh_alike_in_a_sample(most: int, since: int) -> None:
    """What began of late is as large in a sample of twelve lanes as in all records."""
    found = stretches([(0, 5_000)] * 12, most)
    assert new_share([(one.start, one.end) for one in found], since) == pytest.approx(1 - since / 5_000, abs=0.03)


def test_twin_the_same_places_in_all_lanes_weigh_unevenly() -> None:
    lane = [(one.start, one.end) for one in stretches([(0, 5_000)] * 12, 1_000) if one.lane == 0]
    assert abs(new_share(lane * 12, 3_333) - 1 / 3) > 0.04


LANES, EACH_LANE, SECOND = 12, 5_000, 0.4


def second_writer(lane: int, offset: int) -> bool:
    """Two of five records of the last third of each lane, spread evenly, are by a second writer."""
    return 3 * offset >= 2 * EACH_LANE and (offset * 7 + lane * 3) % 5 < 5 * SECOND


def share_found(taken: list[Stretch]) -> float:
    offsets = [(one.lane, offset) for one in taken for offset in range(one.start, one.end)]
    return sum(second_writer(*one) for one in offsets) / len(offsets)


def ends_included(ranges: list[tuple[int, int]], most: int) -> list[Stretch]:
    """The rule that was here: eight stretches at equal distances, the first and the last at the ends of a lane."""
    size = most // len(ranges) // 8
    return [
        Stretch(lane, at, at + size)
        for lane, (start, end) in enumerate(ranges)
        for at in (start + (end - start - size) * piece // 7 for piece in range(8))
    ]


@pytest.mark.parametrize("most", [1_000, 3_000, 5_000, 20_000])
def test_a_second_writer_of_the_last_third_is_estimated_within_noise(most: int) -> None:
    true = SECOND / 3
    noise = 3 * (true * (1 - true) / most) ** 0.5
    assert abs(share_found(stretches([(0, EACH_LANE)] * LANES, most)) - true) <= noise


@pytest.mark.parametrize("most", [5_000, 20_000])
def test_twin_stretches_at_both_ends_overestimate_it(most: int) -> None:
    """The newest records weigh more, by more than a sample of this size explains."""
    true = SECOND / 3
    noise = 3 * (true * (1 - true) / most) ** 0.5
    assert abs(share_found(ends_included([(0, EACH_LANE)] * LANES, most)) - true) > noise


def test_lanes_of_about_one_size_weigh_alike_however_their_quotas_divide() -> None:
    found = stretches([(0, 5_999), (0, 6_000)], 31)
    assert [sum(one.end - one.start for one in found if one.lane == lane) for lane in (0, 1)] == [15, 15]
    found = stretches([(0, 15_000), (0, 16_000)], 31)
    assert [sum(one.end - one.start for one in found if one.lane == lane) for lane in (0, 1)] == [15, 16]


def test_a_sample_of_a_large_lane_is_of_eight_stretches() -> None:
    assert len([one for one in stretches(RANGES, 1_000) if one.lane == 0]) == 8


def test_all_of_it_is_one_stretch_a_lane_where_it_is_not_too_much() -> None:
    assert stretches(RANGES, None) == stretches(RANGES, 10_000_000)
    assert [tuple(one) for one in stretches(RANGES, None)] == [(0, 0, 1_000_000), (2, 10, 4_010)]


def test_many_lanes_do_not_take_more_requests_than_are_affordable() -> None:
    found = stretches([(0, 10_000)] * 1_000, 100_000)
    assert len(found) == 1_000
    assert len(stretches([(0, 10_000)] * 128, 100_000)) <= ALL


def test_the_newest_end_where_the_lane_ends() -> None:
    found = newest(RANGES, 1_000)
    assert [end for _, end in found] == [end for _, end in RANGES]
    assert sum(end - start for start, end in found) <= 1_000
    assert newest(RANGES, None) == RANGES


def test_what_was_read_is_stated_unless_it_is_all() -> None:
    window = ReadRange(since=1, most=100, partitions=(0, 2))
    assert stated(RANGES, RANGES, 1_004_000, ReadRange(), spread=True) == ""
    assert stated(RANGES, [(0, 50)], 50, window, spread=True) == (
        "a part: 50 of 1,004,000 offsets, partitions 0, 2, by time"
    )
    text = stated(RANGES, [(0, 500)], 100, window, spread=False)
    assert text.startswith("a sample: 100 of 1,004,000 offsets")
    assert "the newest of each lane" in text

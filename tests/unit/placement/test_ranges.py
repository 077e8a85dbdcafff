from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.shards import SPACE
from keylane.errors import KeylaneError, LaneCountError, UnknownNameError, UsageError
from keylane.placement.ranges import KeySpace, range_lane, range_lanes, range_start

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTS = [1, 2, 3, 7, 64, 1000]
#: Shards wide and narrow: of one number, of two, several in one high half of 64 bits, and from one half to the next.
NARROW = (0, 1, 3, 2**63, 2**64 - 1, 2**64, 2**64 + 3, 2**100, 2**100 + 256, 2**127, SPACE - 2**64, SPACE - 1)
LAYOUTS = {
    **{f"{count} equal": KeySpace.equal(count) for count in COUNTS},
    "two": KeySpace((0, 5)),
    "narrow": KeySpace(NARROW),
    "4000 that widen": KeySpace(tuple(SPACE * i**2 // 4000**2 for i in range(4000))),
}
every_layout = pytest.mark.parametrize("space", LAYOUTS.values(), ids=LAYOUTS)


def halves(numbers: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return np.array([divmod(number, 1 << 64) for number in numbers], np.uint64).reshape(-1, 2)


def near_boundaries(space: KeySpace) -> list[int]:
    near = (start + step for start in space.starts for step in (-(2**64), -1, 0, 1, 2**64))
    return [number for number in (*near, SPACE - 1) if 0 <= number < SPACE]


def by_looking(space: KeySpace, number: int) -> int:
    """The twin of the search: all ranges, one after the other."""
    return max(lane for lane, start in enumerate(space.starts) if start <= number)


@every_layout
def test_a_boundary_belongs_to_the_range_it_begins(space: KeySpace) -> None:
    for lane, start in enumerate(space.starts):
        assert space.lane_of(start) == lane
        assert start == 0 or space.lane_of(start - 1) == lane - 1


@every_layout
def test_the_last_range_takes_the_rest(space: KeySpace) -> None:
    assert space.lane_of(SPACE - 1) == len(space) - 1


@every_layout
def test_arrays_are_right_on_both_sides_of_every_boundary(space: KeySpace) -> None:
    numbers = near_boundaries(space)
    right = [space.lane_of(number) for number in numbers]
    assert space.lanes_of(halves(numbers)).tolist() == right
    digests = pa.array([number.to_bytes(16, "big") for number in numbers])
    assert space.lanes_of(digests).tolist() == right
    assert space.lanes_of(pa.chunked_array([digests.cast(pa.binary(16))])[3:]).tolist() == right[3:]


@every_layout
def test_the_search_finds_what_looking_at_every_range_finds(space: KeySpace) -> None:
    numbers = near_boundaries(space)[:: max(1, len(space) // 20)]
    assert [space.lane_of(number) for number in numbers] == [by_looking(space, number) for number in numbers]


def test_a_search_by_high_halves_alone_would_be_caught() -> None:
    space, numbers = LAYOUTS["narrow"], near_boundaries(LAYOUTS["narrow"])
    high = np.array([start >> 64 for start in space.starts], np.uint64)
    by_half = np.searchsorted(high, halves(numbers)[:, 0], side="right") - 1
    assert by_half.tolist() != space.lanes_of(halves(numbers)).tolist()


@every_layout
def test_ranges_are_inclusive_and_meet(space: KeySpace) -> None:
    ranges = [space.range_of(lane) for lane in range(len(space))]
    assert [first for first, _ in ranges] == [0, *(last + 1 for _, last in ranges[:-1])]
    assert ranges[-1][1] == SPACE - 1
    named = zip(space.ids, *zip(*ranges, strict=True), strict=True)
    assert KeySpace.from_ranges(reversed(list(named))).starts == space.starts


@pytest.mark.parametrize("lanes", COUNTS)
def test_a_lane_count_stands_for_equal_ranges(lanes: int) -> None:
    space, width = KeySpace.equal(lanes), SPACE // lanes
    assert [range_start(lane, lanes) for lane in range(lanes)] == [width * lane for lane in range(lanes)]
    numbers = near_boundaries(space)
    right = [min(number // width, lanes - 1) for number in numbers]
    assert [range_lane(number, lanes) for number in numbers] == right
    assert range_lanes(halves(numbers), lanes).tolist() == range_lanes(halves(numbers), space).tolist() == right


def test_seven_ranges_are_not_cut_where_proportion_would_cut_them() -> None:
    assert range_start(6, 7) == 6 * (SPACE // 7) != 6 * SPACE // 7


def test_ids_are_numbers_unless_the_ranges_have_names() -> None:
    assert KeySpace.equal(3).ids == ("0", "1", "2")
    shards = KeySpace.from_ranges(
        [("shardId-000000000012", 2**127, SPACE - 1), ("shardId-000000000003", 0, 2**127 - 1)]
    )
    assert shards.ids == ("shardId-000000000003", "shardId-000000000012")
    assert shards.is_equal
    assert shards.range_of("shardId-000000000012") == shards.range_of(1) == (2**127, SPACE - 1)


WRONG: dict[str, tuple[Callable[[], Any], type[KeylaneError], str]] = {
    "a hole": (lambda: KeySpace.from_ranges([("a", 0, 4), ("b", 6, SPACE - 1)]), UsageError, "a hole before 'b'"),
    "a hole at the beginning": (lambda: KeySpace.from_ranges([("a", 1, SPACE - 1)]), UsageError, "a hole before 'a'"),
    "an overlap": (lambda: KeySpace.from_ranges([("a", 0, 6), ("b", 6, SPACE - 1)]), UsageError, "'b' overlaps 'a'"),
    "the same twice": (lambda: KeySpace.from_ranges([("a", 0, SPACE - 1)] * 2), UsageError, "'a' overlaps 'a'"),
    "an end too early": (lambda: KeySpace.from_ranges([("a", 0, SPACE - 2)]), UsageError, "do not end at"),
    "an end too late": (lambda: KeySpace.from_ranges([("a", 0, SPACE)]), UsageError, "do not end at"),
    "an end before the start": (lambda: KeySpace.from_ranges([("a", 0, -1)]), UsageError, "ends before it begins"),
    "no range": (lambda: KeySpace.from_ranges([]), UsageError, "do not end at"),
    "one id twice": (lambda: KeySpace((0, 7), ("a", "a")), UsageError, "a distinct, non-empty id"),
    "an id too few": (lambda: KeySpace((0, 7), ("a",)), UsageError, "a distinct, non-empty id"),
    "an empty id": (lambda: KeySpace((0, 7), ("a", "")), UsageError, "a distinct, non-empty id"),
    "starts out of order": (lambda: KeySpace((0, 7, 7)), UsageError, "must ascend"),
    "starts that go down": (lambda: KeySpace(range(0, -4, -1)), UsageError, "must ascend"),
    "a start beyond the space": (lambda: KeySpace((0, SPACE)), UsageError, "must ascend"),
    "no start at zero": (lambda: KeySpace((1, 7)), UsageError, "does not begin at 0"),
    "no starts": (lambda: KeySpace(()), LaneCountError, "not a lane count"),
    "no lanes": (lambda: KeySpace.equal(0), LaneCountError, "not a lane count"),
    "a negative number": (lambda: KeySpace((0, 7)).lane_of(-1), UsageError, "outside the key space"),
    "a number beyond the space": (lambda: KeySpace.equal(2).lane_of(SPACE), UsageError, "outside the key space"),
    "a lane that is not there": (lambda: KeySpace.equal(2).range_of(2), UsageError, "no such lane"),
    "a negative lane": (lambda: KeySpace.equal(2).range_of(-1), UsageError, "no such lane"),
    "an id that is not there": (lambda: KeySpace.equal(2).range_of("2"), UnknownNameError, "unknown lane"),
    "a null digest": (lambda: KeySpace.equal(2).lanes_of(pa.array([None], pa.binary())), UsageError, "a null"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_key_space_is_refused(name: str) -> None:
    make, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        make()

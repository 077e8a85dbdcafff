from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from keylane.contract.model import Window
from keylane.errors import DataError, UnplacedError
from keylane.keys.read import window_column, window_number

MORNING = datetime(2026, 11, 15, 5, 41, 16, 123456, tzinfo=UTC)
HOUR = datetime(2026, 11, 15, 5, tzinfo=UTC)


def window(**options: Any) -> Window:
    return Window.model_validate({"field": "t", "size": "1h", **options})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1ms", 10**3),
        ("500ms", 500_000),
        ("30s", 30 * 10**6),
        ("5m", 300 * 10**6),
        ("1h", 3600 * 10**6),
        ("2d", 172800 * 10**6),
    ],
)
def test_durations_are_microseconds(text: str, expected: int) -> None:
    assert window(size=text).micros == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("start_ms", int(HOUR.timestamp()) * 1000),
        ("start_s", int(HOUR.timestamp())),
        ("index", int(HOUR.timestamp()) // 3600),
    ],
)
def test_a_window_is_written_as_its_start_or_its_number(written: str, expected: int) -> None:
    assert window_number(MORNING, window(**{"as": written})) == expected


@pytest.mark.parametrize(("unit", "ticks"), [("s", 1), ("ms", 1000), ("us", 10**6)])
def test_a_whole_number_counts_in_the_unit_of_the_contract(unit: str, ticks: int) -> None:
    time = int(MORNING.timestamp()) * ticks
    assert window_number(time, window(unit=unit)) == window_number(MORNING, window())


def test_a_naive_time_is_utc_and_a_zone_does_not_change_the_window() -> None:
    expected = window_number(MORNING, window())
    assert window_number(MORNING.replace(tzinfo=None), window()) == expected
    assert window_number(MORNING.astimezone(timezone(timedelta(hours=5, minutes=30))), window()) == expected


@pytest.mark.parametrize(("time", "index"), [(0, 0), (3_599_999, 0), (3_600_000, 1), (-1, -1), (-3_600_000, -1)])
def test_windows_are_half_open_and_floor_before_1970(time: int, index: int) -> None:
    assert window_number(time, window(**{"as": "index"})) == index


@pytest.mark.parametrize("value", ["05:41", 1.5, True, 2**63, -(2**63)], ids=repr)
def test_what_is_no_time_is_malformed(value: Any) -> None:
    with pytest.raises(UnplacedError, match="not a window key"):
        window_number(value, window())


TIMES = [MORNING, None, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TIMES, pa.timestamp("us", "UTC")),
        pa.array([t and t.replace(tzinfo=None) for t in TIMES], pa.timestamp("us")),
        pa.array(TIMES[:3], pa.timestamp("ns", "UTC")),
        pa.array([t and t.replace(microsecond=0) for t in TIMES], pa.timestamp("s", "Asia/Kolkata")),
        pa.array([0, -1, 3_599_999, None]),
        pa.array([0, -1, None], pa.int32()),
        pa.array([0, 7, None], pa.uint64()),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("written", ["start_ms", "start_s", "index"])
def test_a_column_has_the_windows_of_its_values(column: pa.Array, written: str) -> None:
    how = window(**{"as": written})
    numbers, bad = window_column(column, how)
    times = (
        column.cast(pa.timestamp("us", column.type.tz)).to_pylist()
        if pa.types.is_timestamp(column.type)
        else column.to_pylist()
    )
    assert not bad.any()
    assert [n for n, t in zip(numbers.tolist(), times, strict=True) if t is not None] == [
        window_number(t, how) for t in times if t is not None
    ]


def test_nanoseconds_before_1970_fall_into_the_window_before() -> None:
    numbers, _ = window_column(pa.array([-1, 0], pa.timestamp("ns")), window(**{"as": "index"}))
    assert numbers.tolist() == [-1, 0]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_number_beyond_64_bits_of_microseconds_is_marked(unit: str) -> None:
    _, bad = window_column(pa.array([2**62, 0, -(2**62)]), window(unit=unit))
    assert bad.tolist() == [True, False, True]


def number_or_none(time: int, how: Window) -> int | None:
    try:
        return window_number(time, how)
    except UnplacedError:
        return None


@pytest.mark.parametrize("time", [-(2**63), -(2**63) + 1, 2**63 - 1], ids=["lowest", "lowest + 1", "highest"])
def test_the_ends_of_64_bits_are_the_same_for_one_time_and_for_a_column(time: int) -> None:
    how = window(unit="us")
    numbers, bad = window_column(pa.array([time]), how)
    assert (None if bad[0] else int(numbers[0])) == number_or_none(time, how)


def test_an_unsigned_time_that_only_fits_unsigned_is_marked() -> None:
    _, bad = window_column(pa.array([2**63 + 5], pa.uint64()), window(unit="us"))
    assert bad.tolist() == [True]


def test_a_timestamp_beyond_64_bits_of_microseconds_is_marked() -> None:
    _, bad = window_column(pa.array([2**60], pa.timestamp("s")), window())
    assert bad.tolist() == [True]


def test_the_longest_window_a_contract_may_name_works_for_a_column() -> None:
    how = window(size="99999d")
    numbers, _ = window_column(pa.array([5]), how)
    assert numbers.tolist() == [window_number(5, how)]


@pytest.mark.parametrize("column", [pa.array(["05:41"]), pa.array([1.5])], ids=lambda column: str(column.type))
def test_a_column_that_holds_no_times_is_refused_whole(column: pa.Array) -> None:
    with pytest.raises(DataError, match="column 't' holds no times"):
        window_column(column, window())

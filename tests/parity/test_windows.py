"""Keys with a time window: every form of time, every unit, every way to write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.parity.conftest import Way

    from keylane.contract.model import Contract

TIMES: list[datetime | None] = [
    datetime(2026, 11, 15, 5, 41, 16, 123456, tzinfo=UTC),
    datetime(2026, 11, 15, 5, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 11, 15, 6, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1700, 2, 28, 1, 2, 3, 4, tzinfo=UTC),
    None,
]
ZONED = [time and time.astimezone(timezone(timedelta(hours=5, minutes=30))) for time in TIMES]
NAIVE = [time and time.replace(tzinfo=None) for time in TIMES]
WHOLE: list[int | None] = [0, 1, -1, 3_599, 3_600, -3_600, -3_601, 1_794_720_076_123, 2**31, 2**62, -(2**62), None]
SIZES = ["1ms", "500ms", "30s", "5m", "1h", "7d"]
WRITTEN = ["start_ms", "start_s", "index"]


def records(times: list[Any]) -> list[dict[str, Any]]:
    return [{"k": key, "n": 7, "t": time} for time in times for key in ("a", "", None)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("written", WRITTEN)
def test_whole_numbers(way: Way, one_by_one: Way, contract: Callable[..., Contract], size: str, written: str) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": size, "as": written}})
    assert way(promise, records(WHOLE)) == one_by_one(promise, records(WHOLE))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_whole_numbers_of_every_unit(way: Way, one_by_one: Way, contract: Callable[..., Contract], unit: str) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": "5m", "unit": unit}})
    assert way(promise, records(WHOLE)) == one_by_one(promise, records(WHOLE))


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        (TIMES, pa.timestamp("us", "UTC")),
        (TIMES, pa.timestamp("ns", "UTC")),
        (ZONED, pa.timestamp("us", "Asia/Kolkata")),
        (NAIVE, pa.timestamp("us")),
        (NAIVE, pa.timestamp("ns")),
        ([time and time.replace(microsecond=123_000) for time in NAIVE], pa.timestamp("ms")),
        ([time and time.replace(microsecond=0) for time in NAIVE], pa.timestamp("s")),
    ],
    ids=["us utc", "ns utc", "us zone", "us", "ns", "ms", "s"],
)
@pytest.mark.parametrize("written", WRITTEN)
def test_times(
    way: Way,
    one_by_one: Way,
    contract: Callable[..., Contract],
    times: list[datetime | None],
    kind: pa.DataType,
    written: str,
) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": "1h", "as": written}})
    assert way(promise, records(times), types={"t": kind}) == one_by_one(promise, records(times))


@pytest.mark.parametrize(
    "key",
    [
        {"fields": ["k", "n"]},
        {"fields": ["n"], "encoding": "int32be"},
        {"fields": ["n", "k"], "encoding": ["int64be", "utf8"]},
        {"fields": ["k"], "join": "::"},
        {"fields": ["n"], "encoding": "int32be", "join": "·"},
        {"fields": ["k"], "on_null": "hash"},
        {"fields": ["k"], "on_null": "reject"},
    ],
    ids=["two texts", "fixed width", "mixed", "join", "join of fixed width", "null is hashed", "null is rejected"],
)
def test_the_window_is_the_last_part_of_any_key(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], key: dict[str, Any]
) -> None:
    promise = contract(key={**key, "window": {"field": "t", "size": "1h", "as": "index"}})
    assert way(promise, records(WHOLE)) == one_by_one(promise, records(WHOLE))


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint32(), pa.uint64()], ids=str)
def test_whole_numbers_of_other_widths(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], kind: pa.DataType
) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": "1m", "unit": "s"}})
    times = [0, 59, 60, 2**31 - 1, None]
    assert way(promise, records(times), types={"t": kind}) == one_by_one(promise, records(times))


@pytest.mark.parametrize("time", [-(2**63), -(2**63) + 1, 2**63 - 1], ids=["lowest", "lowest + 1", "highest"])
def test_the_ends_of_64_bits(way: Way, one_by_one: Way, contract: Callable[..., Contract], time: int) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": "1h", "unit": "us"}})
    assert way(promise, records([time])) == one_by_one(promise, records([time]))


def test_a_number_that_only_fits_unsigned(way: Way, one_by_one: Way, contract: Callable[..., Contract]) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": "1h", "unit": "us"}})
    times = [0, 2**63 + 5]
    assert way(promise, records(times), types={"t": pa.uint64()}) == one_by_one(promise, records(times))


def test_the_longest_window_there_can_be(way: Way, one_by_one: Way, contract: Callable[..., Contract]) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": "99999d"}})
    assert way(promise, records(WHOLE)) == one_by_one(promise, records(WHOLE))


def test_a_way_that_rounds_towards_zero_would_be_caught(
    way: Way, one_by_one: Way, contract: Callable[..., Contract]
) -> None:
    promise = contract(key={"fields": ["k"], "window": {"field": "t", "size": "1h", "as": "index"}})
    assert way(promise, records([-1])) != one_by_one(promise, records([1]))

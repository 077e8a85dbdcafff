"""What a column of times holds: text, whole numbers of a unit that their size tells, timestamps of every unit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from keylane.keys.times import micros_of, sizes_of, text_micros, unit_between, unit_of

AT = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
MICROS = int(AT.timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("2026-11-15 08:30", 0),
        ("2026-11-15T08:30:00Z", 0),
        (" 2026-11-15 08:30:00.000001999 ", 1),
        ("2026-11-15 09:30:00+01:00", 0),
        ("2026-11-15 07:30:00-0100", 0),
        ("2026-11-15 08:30:00 UTC", 0),
    ],
)
def test_text_that_is_a_time(text: str, off: int) -> None:
    assert text_micros(text) == MICROS + off
    values, missing = micros_of(pa.array([text, None, "soon"]), None)
    assert (int(values[0]), missing.tolist()) == (MICROS + off, [False, True, True])


@pytest.mark.parametrize(
    "text",
    ["2026-02-30", "2026-11-15 24:00", "08:30", "2026-11-15T08:30Z", "", "1794731400", "2026-11-15 08:30:00+19:00"],
)
def test_text_that_is_none(text: str) -> None:
    assert text_micros(text) is None


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_size_of_whole_numbers_tells_their_unit(unit: str) -> None:
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    numbers = pa.array([0, None, int(AT.timestamp()) * factor, (int(AT.timestamp()) + 1) * factor])
    assert unit_of(sizes_of(numbers).tolist()) == unit
    assert unit_of(sizes_of(numbers.cast(pa.string())).tolist()) == unit
    assert unit_between(int(AT.timestamp()) * factor, (int(AT.timestamp()) + 99) * factor) == unit
    for column in (numbers, numbers.cast(pa.string())):
        values, missing = micros_of(column, unit)
        assert (values[2:].tolist(), missing.tolist()) == ([MICROS, MICROS + 10**6], [False, True, False, False])


def test_small_numbers_tell_none() -> None:
    assert unit_of(sizes_of(pa.array([1, 2, 400_000])).tolist()) is None
    assert unit_between(1, 400_000) is None
    assert unit_between(0, 1_794_731_400_000) is None, "two sizes: all have to be looked at"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("s"), AT.replace(tzinfo=None)),
        (pa.timestamp("ms", "UTC"), AT),
        (pa.timestamp("us", "Europe/Berlin"), AT),
        (pa.timestamp("ns"), AT.replace(tzinfo=None)),
        (pa.date32(), date(2026, 11, 15)),
    ],
    ids=str,
)
def test_timestamps_of_every_unit(kind: pa.DataType, value: Any) -> None:
    values, missing = micros_of(pa.array([value, None], kind), None)
    day = MICROS - (8 * 60 + 30) * 60 * 10**6
    assert (int(values[0]), missing.tolist()) == (day if pa.types.is_date(kind) else MICROS, [False, True])


def test_nanoseconds_before_1970_are_cut_downwards() -> None:
    assert micros_of(pa.array([-1], pa.timestamp("ns")), None)[0].tolist() == [-1]

"""What a column of times holds: text, whole numbers of a unit that their size tells, timestamps of every unit."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.errors import UsageError
from keylane.keys.times import TimeField, micros_of, sizes_of, text_micros, time_range, unit_of, unread_times

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
def test_the_size_of_numbers_tells_their_unit(unit: str) -> None:
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    numbers = pa.array([0, None, int(AT.timestamp()) * factor, (int(AT.timestamp()) + 1) * factor])
    for column in (numbers, numbers.cast(pa.string())):
        assert unit_of("at", sizes_of(column).tolist()) == unit
        for form in (None, unit):
            values, missing = micros_of(column, form)
            # Without a unit nothing is known of 0; with one it is the first moment of 1970.
            assert (values[2:].tolist(), missing.tolist()) == (
                [MICROS, MICROS + 10**6],
                [form is None, True, False, False],
            )


SECONDS = [1_763_000_000 + n for n in range(1_000)]


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 400_000],
        [0, -1, 0],
        [20261115083000] * 9,
        # Either the year 2922 in seconds or February of 1970 in milliseconds.
        [30_000_000_000] * 9,
        [*SECONDS, *(one * 1000 for one in SECONDS[:20])],
        [*SECONDS, *([5] * 20)],
    ],
    ids=["small", "marks", "written days", "two units", "mixed", "many of none"],
)
def test_numbers_of_no_one_unit_are_refused(values: list[int]) -> None:
    for column in (pa.array(values), pa.array(values).cast(pa.string()), pa.array(values, pa.float64())):
        with pytest.raises(UsageError, match="at:"):
            unit_of("at", sizes_of(column).tolist(), text=pa.types.is_string(column.type))


def test_a_few_of_another_unit_are_read_by_it() -> None:
    values = [*SECONDS, SECONDS[0] * 1000, 0, -1]
    assert unit_of("at", sizes_of(pa.array(values)).tolist()) == "s"
    assert micros_of(pa.array(values), None)[0].tolist()[1_000] == SECONDS[0] * 1_000_000
    assert micros_of(pa.array(values), None)[1].tolist()[1_000:] == [False, True, True]


def test_dates_and_numbers_in_one_column_of_text_are_refused() -> None:
    mixed = pa.array(["2026-11-15"] * 50 + ["1763000000"] * 50)
    with pytest.raises(UsageError):
        unit_of("at", sizes_of(mixed).tolist(), text=True)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%d/%m/%Y %H:%M:%S", "15/11/2026 8:30:00"),
        ("%m/%d/%y %I:%M %p", "11/15/26 08:30 AM"),
        ("%d/%b/%Y:%H:%M:%S %z", "15/nov/2026:10:00:00 +0130"),
        ("%Y%m%d%H%M%S", "20261115083000"),
        ("%A, %B %d %Y %R", "Sunday, November 15 2026 08:30"),
    ],
)
def test_a_format_that_is_given(form: str, text: str) -> None:
    values, missing = micros_of(pa.array([text, None, f"{text}x", "31/31/2026 8:30:00"]), form)
    assert (int(values[0]), missing.tolist()) == (MICROS, [False, True, True, True])


@pytest.mark.parametrize("form", ["%H:%M", "%d/%m/%Y %d", "%Y-%m-%d %I:%M", "%Y-%m-%d %Q", "%Y %y %m %d", "%"])
def test_a_format_that_says_no_day_or_two_is_refused(form: str) -> None:
    with pytest.raises(UsageError, match="format"):
        TimeField.of(f"at:{form}")


@pytest.mark.parametrize(
    ("texts", "advice"),
    [
        (["5/1/2014 0:02:00"], ("at:%d/%m/%Y %H:%M:%S", "at:%m/%d/%Y %H:%M:%S", "2014-01-05", "2014-05-01")),
        (["5/1/2014 0:02", "5/13/2014 0:02"], ("at:%m/%d/%Y %H:%M",)),
        (["02:30"], ("without a date",)),
        (["whenever"], ("COLUMN:FORMAT",)),
    ],
)
def test_text_that_is_no_time_is_refused_with_what_it_could_be(texts: list[str], advice: tuple[str, ...]) -> None:
    found = str(unread_times("at", "string", None, texts))
    assert all(one in found for one in advice)
    given = re.findall(r"--time '(.*?)'", found)
    for one in given if "COLUMN" not in found else ():
        assert not micros_of(pa.array(texts), TimeField.of(one).form)[1].any(), "the advice reads them"


HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("times", "strays"),
    [
        ([*range(0, HOUR, HOUR // 1000), 10**16], (0, 1)),
        ([-(10**15), *range(0, HOUR, HOUR // 1000), 10**16, 2 * 10**16], (1, 2)),
        # A burst, and less and less after it: no gap divides them.
        ([*range(0, HOUR, HOUR // 3000), *range(HOUR, 10 * HOUR, HOUR // 3)], (0, 0)),
        # Two halves are two halves.
        ([*range(1000), *range(10**16, 10**16 + 1000)], (0, 0)),
        ([0, 10**16], (0, 0)),
        ([5] * 500, (0, 0)),
    ],
    ids=["one", "both ends", "a trail", "halves", "two", "one moment"],
)
def test_a_few_that_a_gap_divides_from_the_rest_are_strays(times: list[int], strays: tuple[int, int]) -> None:
    known = np.array(sorted(times), np.int64)
    found = time_range(known, known, len(known))
    assert (found.before, found.after) == strays
    kept = known[strays[0] : len(known) - strays[1]]
    assert (found.first, found.last) == (kept[0], kept[-1])


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

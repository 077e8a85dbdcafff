"""How times are written where their values do not say it: units, formats in the letters of strptime, and what fits.

    split_time   `COLUMN[:FORMAT]` -> the column and the format
    format_of    a format as regular expressions for any engine, and its parts as a time
    readings     the formats that some texts could have

What is a time without any of these: `times`. The same as Spark columns: `spark.times`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

UNITS: Final = ("s", "ms", "us", "ns")
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL: Final = "january|february|march|april|may|june|july|august|september|october|november|december"
_WEEKDAYS: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
#: The letter of a part -> its name, and what it looks like; a part without a name has no meaning.
_LETTERS: Final = {
    "Y": ("year", "[0-9]{4}"),
    "y": ("short", "[0-9]{2}"),
    "m": ("month", "[0-9]{1,2}"),
    "b": ("named", f"(?i:{'|'.join(MONTHS)})"),
    "B": ("named", f"(?i:{_FULL})"),
    "d": ("day", "[0-9]{1,2}"),
    "H": ("hour", "[0-9]{1,2}"),
    "I": ("hour12", "[0-9]{1,2}"),
    "p": ("half", "[AaPp][Mm]"),
    "M": ("minute", "[0-9]{1,2}"),
    "S": ("second", "[0-9]{1,2}"),
    "f": ("fraction", "[0-9]{1,12}"),
    "z": ("zone", "Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?"),
    "a": ("", "(?i:mon|tue|wed|thu|fri|sat|sun)"),
    "A": ("", f"(?i:{_WEEKDAYS})"),
}
#: What other signs of a format stand for.
_LITERAL: Final = {" ": r"[ \t]+", "\t": r"[ \t]+", "^": r"\^", "[": r"\[", "]": r"\]", "\\": r"\\"}
_SHORT: Final = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y"}
NO_OFFSET: Final = 10**9


def split_time(text: str) -> tuple[str, str | None]:
    """The column and the form of `COLUMN[:FORM]`; a column that ends as a form is given with a colon after it.

    >>> split_time("a:b"), split_time("ts:s"), split_time("at:%d/%m/%Y %H:%M"), split_time("at:ms:")
    (('a:b', None), ('ts', 's'), ('at', '%d/%m/%Y %H:%M'), ('at:ms', None))
    """
    if "%" in text:
        name, colon, _ = text[: text.index("%")].rpartition(":")
        if colon and name:
            form = text[len(name) + 1 :]
            format_of(form)
            return name, form
    name, colon, form = text.rpartition(":")
    if colon and name and form in UNITS:
        return name, form
    return (name, None) if colon and name and not form else (text, None)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A format: its parts in their order, and the regular expression whose groups they are.

    `body` has no ends; `named` is for Arrow, which wants names of groups, and `java` for Spark.
    """

    form: str
    groups: tuple[str, ...]
    body: str
    named: str
    java: str

    def micros(self, parts: Mapping[str, NDArray[np.int64]], many: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Parts as times, and which of them are none."""
        none = np.zeros(many, np.int64)
        short = parts.get("short", none)
        year = parts.get("year", np.where(short < 69, 2000 + short, 1900 + short))
        month = parts.get("month", parts.get("named", none))
        day, minute, second = parts["day"], parts.get("minute", none), parts.get("second", none)
        hour, offset = parts.get("hour", none), parts.get("zone", none)
        bad = (month < 1) | (month > 12) | (day < 1) | (minute > 59) | (second > 59) | (hour > 23)
        if "hour12" in parts:
            twelve = parts["hour12"]
            bad |= (twelve < 1) | (twelve > 12)
            hour = twelve % 12 + 12 * parts["half"]
        bad |= offset == NO_OFFSET
        month = np.where(bad, 1, month)
        bad |= days_since_1970(year, month, day) >= days_since_1970(year + month // 12, month % 12 + 1, 1 + none)
        seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute - offset) * 60 + second
        return seconds * 1_000_000 + parts.get("fraction", none), bad


@lru_cache(maxsize=1_000)
def format_of(form: str) -> TimeFormat:
    """A format that was given, checked: it has to say which day a time is on, and each part once.

    >>> format_of("%d/%m/%y %H:%M").groups
    ('day', 'month', 'short', 'hour', 'minute')
    """
    long = re.sub(r"%([FTRD])", lambda found: _SHORT[found[1]], form)
    groups, body, named, at = list[str](), "", "", 0
    while at < len(long):
        sign, letter = long[at], long[at + 1 : at + 2]
        at += 1 + (sign == "%")
        if sign == "%" and letter in _LETTERS:
            name, looks = _LETTERS[letter]
            groups += [name] if name else []
            body += f"({looks})" if name else looks
            named += f"(?P<{name}>{looks})" if name else looks
            continue
        if sign == "%" and letter != "%":
            raise _no_format(form, f"%{letter} is not a part of a time")
        plain = _LITERAL.get(sign) or (sign if sign.isalnum() else f"[{sign}]")
        if plain != _LITERAL[" "] or not body.endswith(plain):
            body, named = body + plain, named + plain
    _check(form, groups)
    return TimeFormat(form, tuple(groups), body, rf"^[ \t]*{named}[ \t]*\z", rf"^[ \t]*{body}[ \t]*\z")


def _check(form: str, groups: Sequence[str]) -> None:
    twice = next((name for name in groups if groups.count(name) > 1), None)
    if twice:
        raise _no_format(form, f"it has the {twice} twice")
    if len({"year", "short"} & {*groups}) != 1 or len({"month", "named"} & {*groups}) != 1 or "day" not in groups:
        raise _no_format(form, "it does not say year, month and day once each")
    if ("half" in groups) != ("hour12" in groups) or {"hour", "hour12"} <= {*groups}:
        raise _no_format(form, "%I goes with %p, and %H without")


def _no_format(form: str, why: str) -> UsageError:
    allowed = "s, ms, us, ns, or year, month and day of %Y %y %m %b %B %d, with %H %I %p %M %S %f %z %a %A %F %T %R %D"
    return UsageError.of(f"not a format of times: {why}", got=form, allowed=allowed, hint="'ts:%d/%m/%Y %H:%M:%S'")


def part_number(name: str, text: str) -> int:
    """The number that a part is.

    >>> part_number("named", "Nov"), part_number("zone", "-03:30"), part_number("fraction", "5")
    (11, -210, 500000)
    """
    match name:
        case _ if not text:
            found = 0
        case "named":
            found = MONTHS.index(text[:3].lower()) + 1
        case "half":
            found = int(text[0] in "Pp")
        case "fraction":
            found = int(f"{text:0<6}"[:6])
        case "zone":
            found = offset_of(text)
        case _:
            found = int(text)
    return found


def offset_of(zone: str) -> int:
    """Minutes east of UTC; beyond all times where there are none such."""
    if zone[0] not in "+-":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    found = (hours * 60 + minutes) * (1 if zone[0] == "+" else -1)
    return found if minutes < 60 and abs(found) <= 18 * 60 else NO_OFFSET


def days_since_1970(year: Any, month: Any, day: Any) -> Any:
    """Days since 1970-01-01 in the calendar of today, also for years before it; of one date, or of arrays of them.

    >>> days_since_1970(1970, 1, 2), days_since_1970(2000, 3, 1)
    (1, 11017)
    """
    moved = year - (month <= 2)
    era, of_era = moved // 400, moved % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


# What a text could be.

_ORDERS: Final = ("dmY", "mdY", "Ymd", "dmy", "mdy", "ymd")
_DATES: Final = (
    *(sign.join(f"%{letter}" for letter in order) for order in _ORDERS for sign in "/.-"),
    *("%d %b %Y", "%d-%b-%Y", "%d/%b/%Y", "%d-%b-%y", "%b %d %Y", "%b %d, %Y", "%B %d, %Y", "%d %B %Y"),
    *("%a, %d %b %Y", "%a %d %b %Y", "%Y%m%d"),
)
_CLOCKS: Final = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%H%M%S", "%I:%M%p")
_MOST_READINGS: Final = 3


def readings(texts: Sequence[str]) -> list[tuple[str, str]]:
    """The formats that all these texts could have, with the date that the first of them then is.

    >>> readings(["5/1/2014 0:02:00", "6/1/2014 0:02:00"])
    [('%d/%m/%Y %H:%M:%S', '2014-01-05'), ('%m/%d/%Y %H:%M:%S', '2014-05-01')]
    """
    found = list[tuple[str, str]]()
    for date, clock, between, zone in product(_DATES, _CLOCKS, (" ", "T", ":", ""), ("", " %z", "%z")):
        if (not clock and (between or zone)) or (zone and not clock.startswith("%H:%M:%S")):
            continue
        form = f"{date}{between}{clock}{zone}" if clock else date
        first = _dates(format_of(form), texts)
        if first and first not in [known for _, known in found]:
            found.append((form, first))
    return found[:_MOST_READINGS]


def _dates(how: TimeFormat, texts: Sequence[str]) -> str:
    """The date of the first text, where all of them are of a format."""
    pattern, first = re.compile(rf"[ \t]*{how.body}[ \t]*"), ""
    for text in texts:
        match = pattern.fullmatch(text)
        if match is None:
            return ""
        parts = {
            name: np.array([part_number(name, part)]) for name, part in zip(how.groups, match.groups(), strict=True)
        }
        times, bad = how.micros(parts, 1)
        if bad[0]:
            return ""
        first = first or str(np.datetime64(int(times[0]) // 86_400_000_000, "D"))
    return first

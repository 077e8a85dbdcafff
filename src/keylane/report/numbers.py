"""Numbers, shares and windows of time as short text. Keys: `profile.document`."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keylane.documents.profile import Edge, ProfileWindows


def count(number: int) -> str:
    """With thousands apart: 1,745,240."""
    return f"{number:,}"


def times(value: float, digits: int = 2) -> str:
    """How many times the mean: 3.79×."""
    return f"{value:.{digits}f}×"


def percent(share: float, digits: int = 1) -> str:
    """A share in percent, which never breaks over two lines; what is not nothing is never shown as 0.

    >>> [percent(share).split()[0] for share in (0.0, 0.00001, 0.5, 0.99999, 1.0)]
    ['0', '<0.1', '50.0', '>99.9', '100']
    """
    return f"{_percents(share, digits)}\N{NO-BREAK SPACE}%"


def share(value: float) -> str:
    """A share in percent, with two digits that count: of 1,000 lanes, a key that fills one has 0.1 %.

    >>> [share(value).split()[0] for value in (0.0, 0.5, 0.0618, 0.00437, 0.000437)]
    ['0', '50.0', '6.2', '0.44', '0.044']
    """
    digits = 1
    while 0 < value < 10.0 ** (-digits - 1) and digits < 6:
        digits += 1
    return percent(value, digits)


def spread(cv: float) -> str:
    """How far lanes are from their mean (CV), in percent; it may be above 100.

    >>> [spread(cv).split()[0] for cv in (0.0, 0.00412, 0.33, 1.76)]
    ['0.00', '0.41', '33.0', '176']
    """
    digits = 2 if cv < 0.1 else 1 if cv < 1 else 0
    return f"{cv * 100:.{digits}f}\N{NO-BREAK SPACE}%"


def _percents(share: float, digits: int) -> str:
    least, value = 10.0**-digits, share * 100
    if share in (0, 1):
        return f"{value:.0f}"
    if value < least / 2:
        return f"<{least:g}"
    return f">{100 - least:g}" if value > 100 - least / 2 else f"{value:.{digits}f}"


def lanes(numbers: list[int], most: int = 6) -> str:
    """Lane numbers, runs of neighbours as one: 0–5, 17."""
    parts = [f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in _runs(sorted(numbers))]
    return ", ".join([*parts[:most], *(["…"] if len(parts) > most else [])])


def _runs(numbers: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def short_count(number: float) -> str:
    """For an axis: 10, 2.5k, 3M.

    >>> [short_count(number) for number in (0, 10, 2_500, 3_000_000)]
    ['0', '10', '2.5k', '3M']
    """
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def visible(key: str) -> str:
    r"""A key as it is, but for characters that would not be seen or would turn the text around: those as escapes.

    >>> visible("a\u202eb\n")
    'a\\u202eb\\n'
    """
    return "".join(_seen(character) for character in key)


def _seen(character: str) -> str:
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return character.encode("unicode_escape").decode() if hidden else character


def chance(value: float) -> str:
    """A small probability: 0.02, 4e-4, below 1e-9 as < 1e-9.

    >>> [chance(value) for value in (0.5, 0.0214, 0.0004, 1e-12)]
    ['0.5', '0.021', '4e-4', '< 1e-9']
    """
    if value < 1e-9:
        return "< 1e-9"
    if value >= 0.001:
        return f"{value:.2g}"
    digits, _, power = f"{value:.0e}".partition("e")
    return f"{digits}e{int(power)}"


# Windows in words: from the edges of a profile to what a reader calls the time between them.


def window_names(windows: ProfileWindows) -> list[str]:
    """The windows' names; what all of them share (the day, the year, midnight) is left out.

    >>> from keylane.documents.profile import ProfileWindows
    >>> def windows(kind, *edges):
    ...     return ProfileWindows(kind=kind, edges=list(edges), records=[], distinct_keys=[], new_keys=[])
    >>> window_names(windows("time", "2013-11-12T00:00:00Z", "2013-11-12T06:00:00Z"))
    ['00:00–06:00']
    >>> window_names(windows("position", 0, 1500, 3000))
    ['records 1–1,500', 'records 1,501–3,000']
    """
    edges = windows.edges
    if windows.kind == "position":
        return [f"records {count(int(start) + 1)}–{count(int(end))}" for start, end in pairwise(edges)]
    form = _form([_moment(edge) for edge in edges])
    return [_between(_moment(start), _moment(end), form) for start, end in pairwise(edges)]


def edge_names(windows: ProfileWindows) -> list[str]:
    """The edges' names, as short as they can be: for an axis."""
    return [edge_name(edge, windows) for edge in windows.edges]


def edge_name(edge: Edge, windows: ProfileWindows) -> str:
    """One edge: a time, or how many records lie before it."""
    if windows.kind == "position":
        return count(int(edge))
    return _name(_moment(edge), _form([_moment(one) for one in windows.edges]))


def _moment(edge: Edge) -> datetime:
    return datetime.fromisoformat(str(edge))


@dataclass(frozen=True, slots=True)
class _Form:
    """What has to be said of a time to tell it from the others."""

    day: bool
    year: bool
    clock: bool


def _form(times: list[datetime]) -> _Form:
    one_day = times[-1] - times[0] <= timedelta(days=1) and times[0].date() == times[-2].date()
    midnights = all((time.hour, time.minute, time.second) == (0, 0, 0) for time in times)
    return _Form(day=not one_day, year=times[0].year != times[-1].year, clock=one_day or not midnights)


def _between(start: datetime, end: datetime, form: _Form) -> str:
    if form.clock and start.date() == end.date():
        return f"{_name(start, form)}–{_clock(end)}"
    return f"{_name(start, form)}–{_name(end, form)}"


def _name(moment: datetime, form: _Form) -> str:
    day = f"{moment.day} {moment.strftime('%b')}" if form.day else ""
    year = str(moment.year) if form.day and form.year else ""
    return " ".join(part for part in (day, year, _clock(moment) if form.clock else "") if part)


def _clock(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S" if moment.second else "%H:%M")

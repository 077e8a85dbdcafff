"""Windows of time as short text for a page. Numbers, for pages and terminals alike: `keylane.numbers`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from keylane.numbers import count

if TYPE_CHECKING:
    from keylane.documents.profile import Edge, ProfileWindows


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

"""Windows in words: from the edges of a profile to what a reader calls the time between them."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from keylane.report.words import count

__all__ = ["edge_name", "edge_names", "window_names"]

#: A time as text, or a position.
Edge = str | int


def window_names(windows: dict[str, Any]) -> list[str]:
    """The windows' names, one day's without the day.

    >>> window_names({"kind": "time", "edges": ["2013-11-12T00:00:00Z", "2013-11-12T06:00:00Z"]})
    ['00:00–06:00']
    >>> window_names({"kind": "position", "edges": [0, 1500, 3000]})
    ['records 1–1,500', 'records 1,501–3,000']
    """
    edges = windows["edges"]
    if windows["kind"] == "position":
        return [f"records {count(start + 1)}–{count(end)}" for start, end in pairwise(edges)]
    times = [_moment(edge) for edge in edges]
    return [_between(start, end, one_day=_one_day(times)) for start, end in pairwise(times)]


def edge_names(windows: dict[str, Any]) -> list[str]:
    """The edges' names, as short as they can be: for an axis."""
    return [edge_name(edge, windows) for edge in windows["edges"]]


def edge_name(edge: Edge, windows: dict[str, Any]) -> str:
    """One edge: a time, or how many records lie before it."""
    if windows["kind"] == "position":
        return count(int(edge))
    moment = _moment(edge)
    return _clock(moment) if _one_day([_moment(one) for one in windows["edges"]]) else _day_and_clock(moment)


def _moment(edge: Edge) -> datetime:
    return datetime.fromisoformat(str(edge))


def _one_day(times: list[datetime]) -> bool:
    return times[-1] - times[0] <= timedelta(days=1) and times[0].date() == times[-2].date()


def _between(start: datetime, end: datetime, *, one_day: bool) -> str:
    if one_day:
        return f"{_clock(start)}–{_clock(end)}"
    same = start.date() == end.date()
    return f"{_day_and_clock(start)}–{_clock(end) if same else _day_and_clock(end)}"


def _clock(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S" if moment.second else "%H:%M")


def _day_and_clock(moment: datetime) -> str:
    return f"{moment.day} {moment.strftime('%b')} {_clock(moment)}"

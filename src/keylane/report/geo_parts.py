"""Sections that the pages of `geo table` and of `match` share: the frame, load by hour, lanes, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.report import curves
from keylane.report.geo_map import map_section
from keylane.report.lanes import lanes_section, maps_data
from keylane.report.map_data import map_data
from keylane.report.markup import Markup, join, tag
from keylane.report.page import page
from keylane.report.parts import bullets, chart, heading_of, section, sentence, table, words
from keylane.report.words import count, times, visible

if TYPE_CHECKING:
    from keylane.report.map_data import Picture

__all__ = ["hours_section", "loads_section", "map_page", "notes_section"]

Document = dict[str, Any]
Hours = list[list[int]]
#: Pixels of a chart that has a row to itself.
WHOLE = 1160
#: The edges of the hours of a day, as a profile would name them.
EDGES = [*(f"2000-01-01T{hour:02}:00:00+00:00" for hour in range(24)), "2000-01-02T00:00:00+00:00"]


def map_page(
    kind: str,
    source: str,
    top: Markup,
    found: Picture,
    lanes: int,
    sections: dict[str, Markup | None],
    hours: Hours | None,
) -> str:
    """The file: the verdict, the map, then what it rests on; a section that has nothing to say is left out."""
    data = map_data(found, lanes)
    shown = {"map": map_section(found, data), **{name: made for name, made in sections.items() if made is not None}}
    links = [tag("a", heading_of(name), href=f"#{name}") for name in shown]
    where = visible(source)
    body = join(
        tag("header", tag("p", tag("b", "keylane"), f" {kind} of ", tag("bdi", where), class_="brand"), top),
        tag("nav", *links, aria_label="Sections"),
        tag("main", *shown.values()),
        tag("div", id="tip", role="status", hidden=True),
        tag("noscript", tag("p", words("page")["no_script"])),
    )
    figures = {**_hours_data(hours), "map": data}
    styles, scripts = ("charts", "plan", "map"), ("tip", "plan", "map")
    return page(f"keylane {kind}: {where}", body, figures, "plan", styles, scripts)


def hours_section(hours: Hours | None) -> Markup | None:
    """Lanes over the hours of the day; None where the places had no time."""
    return lanes_section(_sides(hours), _windows(hours), "hours") if _timed(hours) and hours else None


def _hours_data(hours: Hours | None) -> Document:
    timed = hours if hours and _timed(hours) else None
    return maps_data(_sides(timed), _windows(timed)) if timed else {"maps": {}, "windows": [], "power": 1}


def _timed(hours: Hours | None) -> bool:
    """Whether there are hours, and records in more than one of them."""
    busy = [any(column) for column in zip(*hours or [], strict=True)]
    return len(busy) == 24 and sum(busy) > 1


def _sides(hours: Hours | None) -> Document:
    if not hours:
        return {}
    whole = [[round(records) for records in lane] for lane in hours]
    return {"seen": {"title": f"{count(len(whole))} lanes by hour of the day", "lanes": len(whole), "cells": whole}}


def _windows(hours: Hours | None) -> Document:
    return {"kind": "time", "edges": EDGES, "records": [sum(column) for column in zip(*hours or [], strict=True)]}


def loads_section(loads: list[int]) -> Markup | None:
    """Lanes from the fullest to the emptiest, and the same as a table."""
    if not any(loads):
        return None
    mean = sum(loads) / len(loads)
    rows = [
        tag(
            "tr",
            tag("th", lane, scope="row"),
            tag("td", count(round(load)), class_="n"),
            tag("td", times(load / mean), class_="n"),
        )
        for lane, load in enumerate(loads)
    ]
    heads = ("Lane", *(tag("th", name, scope="col", class_="n") for name in ("Records", "Of the mean")))
    listed = tag("details", tag("summary", "The lanes as a table"), table(heads, rows, "Lanes", "small"))
    whole = [round(load) for load in loads]
    return section("loads", None, chart(lambda width: curves.lane_loads(whole, width=width), WHOLE), listed)


def notes_section(notes: list[str], prints: list[tuple[str, str | None]]) -> Markup | None:
    """What the document says of its own figures, and what it can be recognised by."""
    rows = [join(tag("dt", title), tag("dd", tag("code", value))) for title, value in prints if value]
    listed = bullets([sentence(note) for note in notes])
    if not rows and listed is None:
        return None
    return section("how", None, listed, tag("dl", *rows, class_="how prints") if rows else None)

"""Lanes over time: one heat map for each side, one scale for all, rows in order or by load. The script draws them."""

from __future__ import annotations

from itertools import chain
from typing import Any

from keylane.report.draw import POWER, STOPS
from keylane.report.heat import scale_ticks
from keylane.report.markup import Markup, join, tag
from keylane.report.parts import intro_of, section, side_title
from keylane.report.when import edge_names, window_names
from keylane.report.words import count

__all__ = ["lanes_section", "maps_data"]

Side = dict[str, Any]
#: Above so many lanes the fullest come first, unless a reader wants them in order.
MOST_IN_ORDER = 64


def lanes_section(sides: dict[str, Side], windows: dict[str, Any], name: str = "lanes") -> Markup | None:
    """A map for each side (before, after, or the one that was observed); None without any. `name` is the section's."""
    if not sides or not windows["records"]:
        return None
    return section(
        name,
        intro_of(name),
        _switch(max(side["lanes"] for side in sides.values())),
        tag("div", *(_map(name, sides, windows) for name in sides), class_=f"maps of-{len(sides)}"),
        _legend(sides),
    )


def maps_data(sides: dict[str, Side], windows: dict[str, Any]) -> dict[str, Any]:
    """What the script draws from."""
    return {
        "power": POWER,
        "windows": window_names(windows),
        "maps": {name: {"title": side["title"], "cells": side["cells"]} for name, side in sides.items()},
    }


def _switch(lanes: int) -> Markup:
    by_load = lanes > MOST_IN_ORDER
    options = (("order", "in order", not by_load), ("load", "fullest first", by_load))
    labels = [
        tag("label", tag("input", type="radio", name="rows", value=value, checked=checked), tag("span", text))
        for value, text, checked in options
    ]
    return tag("fieldset", tag("legend", "Lanes"), *labels, class_="switch")


def _map(name: str, sides: dict[str, Side], windows: dict[str, Any]) -> Markup:
    side, edges = sides[name], edge_names(windows)
    places = sorted({0, len(edges) // 2, len(edges) - 1})
    return tag(
        "figure",
        tag("p", side_title(name, side, alone=len(sides) == 1), class_="which"),
        tag(
            "div",
            tag("div", class_="gutter", aria_hidden="true"),
            tag("canvas", tabindex=0, role="img", aria_label=f"Lanes over time: {side['title']}"),
            tag("svg", class_="totals", aria_hidden="true", preserveAspectRatio="none"),
            tag("i", class_="cursor", hidden=True),
            class_="plot",
        ),
        tag("div", *(tag("span", edges[place]) for place in places), class_="hours", aria_hidden="true"),
        tag("figcaption", class_="said"),
        class_="map",
        data_side=name,
    )


def _legend(sides: dict[str, Side]) -> Markup:
    most = max(chain([1], *(row for side in sides.values() for row in side["cells"])))
    stops = [tag("stop", offset=f"{i / (STOPS - 1) * 100:.1f}%", class_=f"h{i}") for i in range(STOPS)]
    scale = tag(
        "svg",
        tag("defs", tag("linearGradient", *stops, id="heat-scale")),
        tag("rect", width="100%", height="10", rx="2", fill="url(#heat-scale)"),
        *(_tick(at, label) for at, label in scale_ticks(most)),
        role="img",
        aria_label=f"Colour scale: from 0 to {count(most)} records in a lane and window.",
    )
    words = join(
        f"Records in one lane and window{', on one scale for both maps' if len(sides) > 1 else ''}; ",
        f"the mean cell has {_means(sides)}. ",
        tag("i", class_="swatch"),
        "is a cell without a record. Bars beside the map: all records of the lane; the dashed line is the mean lane.",
    )
    return tag("figure", scale, tag("figcaption", words), class_="legend")


def _means(sides: dict[str, Side]) -> str:
    """The mean cell of each map; one figure where they agree, as they do with equally many lanes."""
    found = {name: count(round(_mean_cell(side))) for name, side in sides.items()}
    different = [f"{mean} {name}" for name, mean in found.items()]
    return next(iter(found.values())) if len(set(found.values())) == 1 else ", ".join(different)


def _mean_cell(side: Side) -> float:
    return sum(map(sum, side["cells"])) / (len(side["cells"]) * len(side["cells"][0]))


def _tick(at: float, label: str) -> Markup:
    anchor = "end" if at == 1 else "start" if at == 0 else "middle"
    return tag("text", label, x=f"{at * 100:.2f}%", y="25", text_anchor=anchor)

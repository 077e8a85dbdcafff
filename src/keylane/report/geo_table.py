"""The page of `keylane geo table --report`: the lane table on a map, by hour, and beside other strategies.

From a document of schema keylane.geo-table/1. The map: `geo_map`; the page of a match: `match`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from keylane.report.draw import bar
from keylane.report.geo_parts import hours_section, loads_section, map_page, notes_section
from keylane.report.map_data import picture
from keylane.report.markup import Markup, join, tag
from keylane.report.parts import fact, facts, intro_of, section, table
from keylane.report.words import count, share, spread, times

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["geo_table_page", "write_geo_table"]

Document = dict[str, Any]
#: Metres around a record in which its copies are looked for, where the document says nothing.
RADIUS = 1000.0


def write_geo_table(document: Document, path: str | PathLike[str]) -> None:
    """Write the page to a file; what is there is replaced."""
    Path(path).write_text(geo_table_page(document), encoding="utf-8")


def geo_table_page(document: Document) -> str:
    """The whole file."""
    found = picture(document["cells"], _radius(document))
    sections = {
        "hours": hours_section(document["hours"]),
        "beside": _beside(document),
        "loads": loads_section(document["lane_loads"]),
        "how": notes_section(document["notes"], [("Lane table", document["checksum"])]),
    }
    return map_page(
        "geo table", document["source"], _top(document), found, document["lanes"], sections, document["hours"]
    )


def _radius(document: Document) -> float:
    radii = sorted(float(radius) for radius in document["copies_per_rider"] or {})
    return radii[0] if radii else RADIUS


def _top(document: Document) -> Markup:
    balance = document["balance"]
    held = balance["held_out"] or balance
    return join(
        tag("h1", *_headline(document, held)),
        tag("p", _sub(document), class_="sub"),
        facts(
            fact("CV of the lanes", spread(held["cv"]), _floor(held), _fitted(balance), kind="after"),
            fact("CV in the worst hour", _maybe(held["worst_hour_cv"]), _floor(held, "hour_noise_floor")),
            fact("Fullest lane", times(balance["max_over_mean"]), "the mean"),
            fact("Copies per rider", *_copies(document["copies_per_rider"])) if document["copies_per_rider"] else None,
            fact("Moved", share(document["moved"]["share"]), f"{count(document['moved']['leaves'])} leaves")
            if document["moved"]
            else None,
        ),
    )


def _headline(document: Document, held: Document) -> list[str | Markup]:
    if not document["records"]:
        return ["No place was found, so there is nothing to balance."]
    figure = tag("em", spread(held["cv"]), class_="after")
    what = f"{count(document['leaves'])} cells on {count(document['lanes'])} lanes: the lanes differ by "
    hours = held["worst_hour_cv"]
    return [what, figure, " (CV)", f", in the worst hour by {spread(hours)}." if hours is not None else "."]


def _sub(document: Document) -> str:
    dead = sum(document["dead"].values())
    lost = f" {count(dead)} more had no place and are dead letters." if dead else ""
    return (
        f"From {count(document['records'])} places, epoch {document['epoch']}, strategy {document['strategy']}.{lost}"
    )


def _floor(held: Document, name: str = "noise_floor") -> str | None:
    floor = held.get(name)
    return f"noise floor {spread(floor)}" if floor is not None else None


def _fitted(balance: Document) -> str | None:
    return f"held out; {spread(balance['cv'])} on what it was fitted on" if balance["held_out"] else "as fitted"


def _maybe(value: float | None) -> str:
    return "–" if value is None else spread(value)


def _copies(per_radius: dict[str, float]) -> list[str]:
    found = sorted((float(radius), copies) for radius, copies in per_radius.items())
    said = ", ".join(f"{copies:.2f} within {radius:,.0f} m" for radius, copies in found[1:])
    return [f"{found[0][1]:.2f}", f"within {found[0][0]:,.0f} m", *([said] if said else [])]


def _beside(document: Document) -> Markup | None:
    if not document["beside"]:
        return None
    balance = document["balance"]["held_out"] or document["balance"]
    this = {"strategy": f"this table ({document['strategy']})", **balance}
    rows = sorted([this, *document["beside"]], key=lambda one: one["cv"])
    most = max(one["cv"] for one in rows) or 1.0
    made = [_strategy(one, most, chosen=one is this) for one in rows]
    heads = ("Strategy", *(tag("th", name, scope="col", class_="n") for name in ("CV", "CV, worst hour")), "")
    return section("beside", intro_of("beside"), table(heads, made, "Strategies", "candidates"))


def _strategy(one: Document, most: float, *, chosen: bool) -> Markup:
    named = join(tag("b", one["strategy"]), tag("span", "this table", class_="badge")) if chosen else one["strategy"]
    drawn = bar(one["cv"] / most, f"CV {spread(one['cv'])}", kind="after" if chosen else "heat")
    return tag(
        "tr",
        tag("th", named, scope="row"),
        tag("td", spread(one["cv"]), class_="n"),
        tag("td", _maybe(one.get("worst_hour_cv")), class_="n"),
        tag("td", drawn, class_="wide"),
        class_="chosen" if chosen else None,
    )

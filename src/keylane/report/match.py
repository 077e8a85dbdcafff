"""The page of `keylane match --report`: who was matched, where the lanes are, what went over their borders.

From a document of schema keylane.match/1, whose `picture` has the cells of the map. The page of a lane table:
`geo_table`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from keylane.report.draw import bar
from keylane.report.geo_parts import hours_section, loads_section, map_page, notes_section
from keylane.report.map_data import match_picture
from keylane.report.markup import Markup, join, tag
from keylane.report.parts import fact, facts, intro_of, section, table
from keylane.report.words import count, percent, share, spread

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["match_page", "write_match"]

Document = dict[str, Any]
#: Lanes whose lag is shown at once.
LAGGING = 8


def write_match(document: Document, path: str | PathLike[str]) -> None:
    """Write the page to a file; what is there is replaced."""
    Path(path).write_text(match_page(document), encoding="utf-8")


def match_page(document: Document) -> str:
    """The whole file."""
    drawn = document.get("picture") or {}
    hours = drawn.get("hours")
    sections = {
        "hours": hours_section(hours),
        "loads": loads_section(document["lane_loads"] or []),
        "lag": _lag(document["metrics"]["lag"]),
        "dead": _dead(document["dead"]),
        "how": notes_section(document["notes"], [("Contract", document["fingerprint"])]),
    }
    found = match_picture(drawn.get("cells", []), document["radius_m"])
    where = f"{document['drivers']} and {document['riders_source']}"
    return map_page("match", where, _top(document), found, document["lanes"], sections, hours)


def _top(document: Document) -> Markup:
    metrics = document["metrics"]
    return join(
        tag("h1", *_headline(document)),
        tag("p", _sub(document), class_="sub"),
        facts(
            fact("Recall", *_recall(document), kind="after"),
            fact("Copies per rider", f"{document['copies_per_rider']:.2f}", *_at_borders(metrics)),
            fact("Time to a match", *_latency(metrics["match_latency_ms"])) if metrics["match_latency_ms"] else None,
            fact("Ghosts dropped", count(metrics["ghosts_dropped"] or 0), *_tombstones(metrics)),
            fact("CV of the lanes", spread(metrics["lane_cv"]), *_floor(metrics))
            if metrics["lane_cv"] is not None
            else None,
            fact("Offers", *_offers(document["offers"])) if document["offers"] else None,
        ),
    )


def _headline(document: Document) -> list[str | Markup]:
    if not document["riders"]:
        return ["No request was found, so nobody was matched."]
    served = tag("em", count(document["riders_with_a_match"]), class_="after")
    found = f" of {count(document['riders'])} requests have a driver within {_metres(document['radius_m'])}: "
    return [served, found, f"{count(document['pairs'])} pairs."]


def _metres(radius: float) -> str:
    return f"{radius / 1000:g} km" if radius >= 1000 else f"{radius:g} m"


def _sub(document: Document) -> str:
    nearest = f", the {count(document['nearest'])} nearest of each" if document["nearest"] else ""
    expire = f", no ping older than {document['expire_s']:g} s" if document["expire_s"] else ""
    return f"From {count(document['pings'])} pings on {count(document['lanes'])} lanes{nearest}{expire}."


def _recall(document: Document) -> list[str]:
    checked = document["verified"]
    if document["recall"] is None or not checked:
        return ["not checked", "--verify compares with brute force"]
    wrong = f"{count(checked['missing'])} missing, {count(checked['extra'])} too many"
    return [percent(document["recall"], 2), f"of {count(checked['pairs'])} pairs by brute force", wrong]


def _at_borders(metrics: Document) -> list[str]:
    border = metrics["border_share"]
    return [f"{share(border)} of the requests are near a border"] if border is not None else []


def _latency(found: Document) -> list[str]:
    return [f"{found['p50']:,.0f} ms", f"half of them; 99 % within {found['p99']:,.0f} ms"]


def _tombstones(metrics: Document) -> list[str]:
    said = (
        (metrics["tombstones"], "tombstones"),
        (metrics["late_pings"], "late pings"),
        (metrics["pending"], "waiting"),
    )
    return [", ".join(f"{count(number)} {name}" for number, name in said if number is not None)]


def _floor(metrics: Document) -> list[str]:
    floor = metrics["noise_floor"]
    return [f"noise floor {spread(floor)}"] if floor is not None else []


def _offers(offers: Document) -> list[str]:
    mean = offers["mean_distance_m"]
    far = [f"{mean:,.0f} m apart in the mean"] if mean is not None else []
    return [count(offers["granted"]), f"granted, {count(offers['refused'])} refused", *far]


def _lag(lag: list[Document] | None) -> Markup | None:
    if not lag:
        return None
    order = sorted(lag, key=lambda one: (-one["records"], one["lane"]))
    most = order[0]["records"] or 1
    heads = ("Lane", tag("th", "Records", scope="col", class_="n"), "")
    first, rest = ([_waiting(one, most) for one in part] for part in (order[:LAGGING], order[LAGGING:]))
    more = tag("details", tag("summary", "All other lanes"), table(heads, rest, "Lag of the other lanes", "small"))
    return section("lag", intro_of("lag"), table(heads, first, "Lanes that lag most", "small"), more if rest else None)


def _waiting(one: Document, most: int) -> Markup:
    drawn = bar(one["records"] / most, f"{count(one['records'])} records", kind="heat")
    number = tag("td", count(one["records"]), class_="n")
    return tag("tr", tag("th", f"lane {one['lane']}", scope="row"), number, tag("td", drawn, class_="wide"))


def _pair(name: str | int, number: int) -> Markup:
    return tag("tr", tag("th", name, scope="row"), tag("td", count(number), class_="n"))


def _dead(dead: Document) -> Markup | None:
    rows = [
        _pair(f"{side}: {reason}", number)
        for side, reasons in dead.items()
        for reason, number in sorted(reasons.items(), key=lambda item: -item[1])
        if number
    ]
    if not rows:
        return None
    heads = ("Reason", tag("th", "Records", scope="col", class_="n"))
    return section("dead", intro_of("dead"), table(heads, rows, "Dead letters", "small"))

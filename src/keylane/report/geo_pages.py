"""The pages of `keylane geo table --report` and `keylane match --report`: lanes on a map, by hour, and their figures.

From the documents of these commands (`documents.geo_table`, `documents.match`). The map: `map`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from keylane.documents.geo_table import GeoBeside
from keylane.documents.plan import LanesOverTime
from keylane.documents.profile import ProfileWindows
from keylane.errors import visible
from keylane.numbers import count, duration, percent, share, spread, times
from keylane.plan.geo_work import COSTLY_COPIES
from keylane.report import svg_charts
from keylane.report.html import Markup, join, page, tag
from keylane.report.map import map_data, map_section, match_picture, picture
from keylane.report.plan_sections import lanes_section, maps_data
from keylane.report.sections import bullets, chart, fact, facts, heading_of, intro_of, section, sentence, table, words
from keylane.report.svg_charts import bar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.documents.geo_table import GeoFigures, GeoTableDocument
    from keylane.documents.match import (
        DeadLetters,
        LaneLag,
        MatchDocument,
        MatchLatency,
        MatchMetrics,
        MatchPicture,
        Offers,
        UnmatchedRequest,
    )
    from keylane.documents.profile import Edge
    from keylane.report.map import Picture

# Sections that the pages of `geo table` and of `match` share: the frame, load by hour, lanes, notes.

Hours: TypeAlias = "Sequence[Sequence[float]]"
#: Pixels of a chart that has a row to itself.
WHOLE = 1160
#: The edges of the hours of a day, as a profile would name them.
EDGES: list[Edge] = [*(f"2000-01-01T{hour:02}:00:00+00:00" for hour in range(24)), "2000-01-02T00:00:00+00:00"]


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
    return lanes_section(_sides(hours), _windows(hours), "hours") if hours and _timed(hours) else None


def _hours_data(hours: Hours | None) -> dict[str, object]:
    if hours and _timed(hours):
        return maps_data(_sides(hours), _windows(hours))
    return {"maps": {}, "windows": [], "power": 1}


def _timed(hours: Hours) -> bool:
    """Whether there are records in more than one hour."""
    busy = [any(column) for column in zip(*hours, strict=True)]
    return len(busy) == 24 and sum(busy) > 1


def _sides(hours: Hours) -> dict[str, LanesOverTime]:
    whole = [[round(records) for records in lane] for lane in hours]
    title, totals = f"{count(len(whole))} lanes by hour of the day (UTC)", [sum(lane) for lane in whole]
    return {"seen": LanesOverTime(title=title, lanes=len(whole), cells=whole, totals=totals)}


def _windows(hours: Hours) -> ProfileWindows:
    records = [round(sum(column)) for column in zip(*hours, strict=True)]
    return ProfileWindows(kind="time", edges=EDGES, records=records, distinct_keys=[], new_keys=[])


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
    return section("loads", None, chart(lambda width: svg_charts.lane_loads(whole, width=width), WHOLE), listed)


def notes_section(notes: list[str], prints: list[tuple[str, str | None]]) -> Markup | None:
    """What the document says of its own figures, and what it can be recognised by."""
    rows = [join(tag("dt", title), tag("dd", tag("code", value))) for title, value in prints if value]
    listed = bullets([sentence(note) for note in notes])
    if not rows and listed is None:
        return None
    return section("how", None, listed, tag("dl", *rows, class_="how prints") if rows else None)


def geo_table_page(document: GeoTableDocument) -> str:
    """The whole file."""
    found = picture(document.cells, document.radius_m)
    sections = {
        "hours": hours_section(document.hours),
        "beside": _beside(document),
        "loads": loads_section(document.lane_loads),
        "how": notes_section([*_how(document), *document.notes], [("Lane table", document.checksum)]),
    }
    return map_page("geo table", document.source, _table_top(document), found, document.lanes, sections, document.hours)


def _table_top(document: GeoTableDocument) -> Markup:
    balance = document.balance
    held = balance.held_out or balance
    return join(
        tag("h1", *_table_headline(document, held)),
        tag("p", _table_sub(document), class_="sub"),
        facts(
            fact("Lanes that a request goes to", *_copies(document, held), kind="bad" if _dear(held) else "after")
            if _for_matching(document)
            else None,
            fact("Copies included", *_worked(document, held)) if _for_matching(document) else None,
            fact("Fullest lane", _more(held.max_over_mean), "than the average", _uneven(held.cv, held.noise_floor)),
            fact("Worst hour", *_hour(held)) if held.worst_hour_cv is not None else None,
            fact("Moved", share(document.moved.share), f"of the load, in {count(document.moved.leaves)} cells")
            if document.moved
            else None,
        ),
    )


def _for_matching(document: GeoTableDocument) -> bool:
    """Whether a radius was given; without one nobody asked for copies."""
    return document.decided_by == "work"


def _dear(held: GeoFigures) -> bool:
    return held.copies > COSTLY_COPIES


def _table_headline(document: GeoTableDocument, held: GeoFigures) -> list[str | Markup]:
    """What a request costs where that was asked for; how even the lanes are in any case."""
    copies = tag("em", f"{held.copies:.2f}", class_="bad" if _dear(held) else "after")
    lanes, near = (
        f"{count(document.lanes)} lanes (partitions)",
        f"request for drivers within {_metres(document.radius_m)}",
    )
    even = f"carries {_more(held.max_over_mean)} than the average{_unseen(document)}"
    if _for_matching(document):
        return [f"A {near} goes to ", copies, f" of {lanes} on average; the fullest {even}."]
    more = tag("em", _more(held.max_over_mean), class_="after")
    return [f"The fullest of {lanes} carries ", more, f" than the average{_unseen(document)}."]


def _unseen(document: GeoTableDocument) -> str:
    """Of which records the figures are, where the map below them is of all."""
    return " of records it was not fitted on" if document.balance.held_out else ""


def _more(max_over_mean: float) -> str:
    return f"{share(max(0.0, max_over_mean - 1))} more"


def _uneven(cv: float, floor: float) -> str:
    return f"CV {spread(cv)}; chance alone gives {spread(floor)}"


def _hour(held: GeoFigures) -> list[str]:
    assert held.worst_hour_cv is not None
    floor = held.hour_noise_floor or 0.0
    return [
        spread(held.worst_hour_cv),
        "CV of the lanes in the hour that is least even",
        f"chance {spread(floor)}",
    ]


def _copies(document: GeoTableDocument, held: GeoFigures) -> list[str]:
    further = list(document.copies_per_rider.items())[1:]
    more = [f"{copies:.2f} within {_metres(float(radius))}" for radius, copies in further]
    about = f"round regions of equal load would need about {document.round_copies:.2f}"
    return [f"{held.copies:.2f}", f"within {_metres(document.radius_m)}; {about}", ", ".join(more)]


def _worked(document: GeoTableDocument, held: GeoFigures) -> list[str]:
    alike = document.lanes / max(held.total_work, 1.0)
    work = f"{count(document.lanes)} lanes do the work of {alike:.1f}"
    return [f"{alike:.1f} lanes", f"{work}: the fullest has {times(held.total_work)} the mean load to do"]


def _table_sub(document: GeoTableDocument) -> str:
    dead = sum(document.dead.values())
    lost = f" {count(dead)} more had no location and are dead letters." if dead else ""
    how = words("geo")[document.strategy]
    cells = f"{count(document.leaves)} cells of the map"
    return f"From {count(document.records)} locations: {cells}, {how}. Epoch {document.epoch}.{lost}"


def _how(document: GeoTableDocument) -> list[str]:
    """What the figures are of."""
    texts = words("geo")
    scored = texts["held_out"] if document.balance.held_out else texts["fitted"]
    return [scored, *((texts["copies"], texts["work"], texts["round"]) if _for_matching(document) else ())]


def _maybe(value: float | None) -> str:
    return "–" if value is None else spread(value)


def _beside(document: GeoTableDocument) -> Markup:
    held = document.balance.held_out or document.balance
    this = GeoBeside(
        strategy=document.strategy,
        copies=held.copies,
        total_work=held.total_work,
        cv=held.cv,
        worst_hour_cv=held.worst_hour_cv,
    )
    matching = _for_matching(document)
    rows = sorted([this, *document.beside], key=lambda one: one.total_work if matching else one.cv)
    most = max(one.total_work if matching else one.cv for one in rows) or 1.0
    made = [_strategy(one, most, chosen=one is this, matching=matching) for one in rows]
    costs = (f"Lanes per request, {_metres(document.radius_m)}", "Total work") if matching else ()
    heads = (
        "Strategy",
        *(tag("th", name, scope="col", class_="n") for name in (*costs, "CV", "CV, worst hour")),
        "",
    )
    return section(
        "beside", intro_of("beside", "intro" if matching else "even"), table(heads, made, "Strategies", "candidates")
    )


def _strategy(one: GeoBeside, most: float, *, chosen: bool, matching: bool) -> Markup:
    named = join(tag("b", one.strategy), tag("span", "this table", class_="badge")) if chosen else one.strategy
    label = f"total work {times(one.total_work)}" if matching else f"CV {spread(one.cv)}"
    drawn = bar((one.total_work if matching else one.cv) / most, label, kind="after" if chosen else "heat")
    costs = (
        tag("td", f"{one.copies:.2f}", class_="n bad" if one.copies > COSTLY_COPIES else "n"),
        tag("td", times(one.total_work), class_="n"),
    )
    return tag(
        "tr",
        tag("th", named, scope="row"),
        *(costs if matching else ()),
        tag("td", spread(one.cv), class_="n"),
        tag("td", _maybe(one.worst_hour_cv), class_="n"),
        tag("td", drawn, class_="wide"),
        class_="chosen" if chosen else None,
    )


# The page of `keylane match --report`: who was matched, where the lanes are, what went over their borders.

#: Lanes whose lag is shown at once.
LAGGING = 8


def match_page(document: MatchDocument, drawn: MatchPicture | None = None) -> str:
    """The whole file; `drawn` is what the map shows, of a match that was asked for it."""
    hours = drawn.hours if drawn else None
    alone = drawn.unmatched if drawn else []
    sections = {
        "unmatched": _unmatched(document, alone),
        "hours": hours_section(hours),
        "loads": loads_section(document.lane_loads),
        "lag": _lag(document.metrics.lag),
        "dead": _dead(document.dead),
        "how": notes_section([*_how_matched(document), *document.notes], [("Contract", document.fingerprint)]),
    }
    found = match_picture(drawn.cells if drawn else [], document.radius_m, alone)
    where = f"{document.drivers} and {document.riders_source}"
    return map_page("match", where, _match_top(document), found, document.lanes, sections, hours)


def _match_top(document: MatchDocument) -> Markup:
    metrics = document.metrics
    return join(
        tag("h1", *_match_headline(document)),
        tag("p", _match_sub(document), class_="sub"),
        facts(
            fact("Recall", *_recall(document), kind="after"),
            fact("Without a driver", *_without(document)) if document.riders else None,
            fact(
                "Lanes that a request went to",
                f"{document.copies_per_rider:.2f}",
                _at_borders(metrics),
                kind="bad" if document.copies_per_rider > COSTLY_COPIES else None,
            ),
            fact("Time to a match", *_latency(metrics.match_latency_ms)) if metrics.match_latency_ms else None,
            fact("Fullest lane", *_fullest(document)),
            fact("Offers", *_offers(document.offers)) if document.offers else None,
        ),
    )


def _match_headline(document: MatchDocument) -> list[str | Markup]:
    if not document.riders:
        return ["No request was found, so there is nothing to match."]
    served = tag("em", count(document.riders_with_a_match), class_="after")
    return [served, f" of {count(document.riders)} requests have a driver within {_metres(document.radius_m)}."]


def _metres(radius: float) -> str:
    return f"{radius / 1000:g} km" if radius >= 1000 else f"{radius:g} m"


def _match_sub(document: MatchDocument) -> str:
    nearest = f", the {count(document.nearest)} nearest of each" if document.nearest else ""
    expire = f", no ping older than {document.expire_s:g} s" if document.expire_s else ""
    pairs = f"{count(document.pairs)} pairs of a request and a driver"
    lanes = f"{count(document.lanes)} lanes (partitions)"
    near = (
        "" if document.median_m is None else f"The nearest driver is {count(document.median_m)} m away at the median. "
    )
    return f"{near}{pairs}, from {count(document.pings)} pings on {lanes}{nearest}{expire}."


def _recall(document: MatchDocument) -> list[str]:
    checked = document.verified
    if document.recall is None or not checked:
        return ["not checked", "--verify compares with brute force"]
    wrong = f"{count(checked.missing)} missing, {count(checked.extra)} too many"
    return [percent(document.recall, 2), f"of {count(checked.pairs)} pairs by brute force", wrong]


def _at_borders(metrics: MatchMetrics) -> str:
    return f"{share(metrics.border_share)} of the requests are near another lane"


def _latency(found: MatchLatency) -> list[str]:
    return [f"{count(found.p50)} ms", f"half of them; 99% within {count(found.p99)} ms"]


def _without(document: MatchDocument) -> list[str]:
    alone = document.riders - document.riders_with_a_match
    return [count(alone), f"{share(alone / document.riders)} of the requests; each is a dot on the map"]


def _fullest(document: MatchDocument) -> list[str]:
    mean = sum(document.lane_loads) / len(document.lane_loads)
    most = max(document.lane_loads) / mean if mean else 1.0
    return [_more(most), f"pings than the average; CV {spread(document.metrics.lane_cv)}"]


def _how_matched(document: MatchDocument) -> list[str]:
    """Counts of the match, each with its meaning."""
    metrics = document.metrics
    counts = (
        (metrics.ghosts_dropped, "ghosts"),
        (metrics.tombstones, "tombstones"),
        (metrics.late_pings, "late_pings"),
        (metrics.pending, "pending"),
    )
    found = words("matched")
    return [found["method"], *(found[name].format(number=count(number)) for number, name in counts if number)]


#: Parts of the radius that tell how far the nearest driver was, and seconds that tell how long one took to come.
BANDS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
WAITS = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


def _unmatched(document: MatchDocument, alone: list[UnmatchedRequest]) -> Markup | None:
    """How far the nearest driver was of those who had none within the radius, and how long they waited for one."""
    if not alone:
        return None
    far = sorted(one.nearest_m for one in alone if one.nearest_m is not None)
    waits = sorted(one.wait_s for one in alone if one.wait_s is not None)
    edges = [band * document.radius_m for band in BANDS]
    nearest = [*_banded(far, edges, _metres), ("no driver known", len(alone) - len(far))]
    came = [*_banded(waits, WAITS, duration), ("none came", len(alone) - len(waits))]
    # Among too many pings nothing was looked for, and then nothing is known of waits.
    tables = [("Nearest driver", nearest), *([("First driver within the radius", came)] if far or waits else [])]
    return section(
        "unmatched",
        tag("p", _alone(document, alone, far, waits)),
        *(_band_table(title, rows) for title, rows in tables),
    )


def _banded(figures: list[float], edges: Sequence[float], named: Callable[[float], str]) -> list[tuple[str, int]]:
    """How many figures are in each band, and above the last."""
    found = [
        (f"up to {named(edge)}", sum(low < one <= edge for one in figures)) for low, edge in pairwise([0.0, *edges])
    ]
    return [*found, (f"more than {named(edges[-1])}", sum(one > edges[-1] for one in figures))]


def _band_table(title: str, rows: list[tuple[str, int]]) -> Markup:
    most = max(number for _, number in rows) or 1
    made = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", count(number), class_="n"),
            tag("td", bar(number / most, f"{count(number)} requests", kind="heat"), class_="wide"),
        )
        for name, number in rows
        if number
    ]
    return table((title, tag("th", "Requests", scope="col", class_="n"), ""), made, title, "small")


def _alone(document: MatchDocument, alone: list[UnmatchedRequest], far: list[float], waits: list[float]) -> str:
    every = document.riders - document.riders_with_a_match
    text = f"{count(every)} requests had no driver within {_metres(document.radius_m)}."
    if len(alone) < every:
        text += f" Of these, {count(len(alone))} were looked at."
    if far:
        half, nine = _middle_and_most(far)
        text += f" Half of them had one within {_metres(round(half))}, nine in ten within {_metres(round(nine))}."
    if waits:
        half, nine = _middle_and_most(waits)
        later = f" For {count(len(waits))} a driver came within the radius later:"
        text += f"{later} half of these waited at most {duration(half)}, nine in ten at most {duration(nine)}."
    return text


def _middle_and_most(figures: list[float]) -> tuple[float, float]:
    """The middle one of sorted figures, and the one that nine in ten do not exceed."""
    return figures[(len(figures) - 1) // 2], figures[(len(figures) - 1) * 9 // 10]


def _offers(offers: Offers) -> list[str]:
    mean = offers.mean_distance_m
    far = [f"{count(mean)} m apart in the mean"] if mean is not None else []
    return [count(offers.granted), f"granted, {count(offers.refused)} refused", *far]


def _lag(lag: list[LaneLag] | None) -> Markup | None:
    if not lag:
        return None
    order = sorted(lag, key=lambda one: (-one.records, one.lane))
    most = order[0].records or 1
    heads = ("Lane", tag("th", "Records", scope="col", class_="n"), "")
    first, rest = ([_waiting(one, most) for one in part] for part in (order[:LAGGING], order[LAGGING:]))
    more = tag("details", tag("summary", "All other lanes"), table(heads, rest, "Lag of the other lanes", "small"))
    return section("lag", intro_of("lag"), table(heads, first, "Lanes that lag most", "small"), more if rest else None)


def _waiting(one: LaneLag, most: int) -> Markup:
    drawn = bar(one.records / most, f"{count(one.records)} records", kind="heat")
    number = tag("td", count(one.records), class_="n")
    return tag("tr", tag("th", f"lane {one.lane}", scope="row"), number, tag("td", drawn, class_="wide"))


def _pair(name: str | int, number: int) -> Markup:
    return tag("tr", tag("th", name, scope="row"), tag("td", count(number), class_="n"))


def _dead(dead: DeadLetters) -> Markup | None:
    rows = [
        _pair(f"{side}: {reason}", number)
        for side, reasons in (("drivers", dead.drivers), ("riders", dead.riders))
        for reason, number in sorted(reasons.items(), key=lambda item: -item[1])
        if number
    ]
    if not rows:
        return None
    heads = ("Reason", tag("th", "Records", scope="col", class_="n"))
    return section("dead", intro_of("dead"), table(heads, rows, "Dead letters", "small"))

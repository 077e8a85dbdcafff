"""The page of `keylane migrate plan --report`: who waits for whom, what moves, and who does what and when.

From a document of schema keylane.migrate-plan/1, which `pipelines.migrate` makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.errors import visible
from keylane.numbers import count, duration, plural, share
from keylane.report.html import Markup, join, tag
from keylane.report.sections import bullets, chart, fact, facts, intro_of, section, sentence, whole_page
from keylane.report.shards_page import MOST_ROWS, WHOLE, more_rows, stacked
from keylane.report.svg_charts import Box, Scale, drawing, mark, text

if TYPE_CHECKING:
    from keylane.documents.migrate import MigratePlanDocument

#: New lanes up to which the graph is drawn; more are a table.
MOST_DRAWN: Final = 64
_HIGH: Final = 220


def migrate_page(document: MigratePlanDocument) -> str:
    """The whole file."""
    sections = {
        "timetable": _timetable(document),
        "drain": _drain(document),
        "waits": _waits(document),
        "breaks": _breaks(document),
    }
    where = visible(document.old.address or document.old.file)
    return whole_page(f"keylane migrate: {where}", "migration of", where, _top(document), sections)


def _top(document: MigratePlanDocument) -> Markup:
    old, new = document.old, document.new
    how = "In place" if document.mode == "in-place" else "By a mirror"
    headline = f"{how}: {plural(old.lanes, 'lane')} to {count(new.lanes)}" if document.steps else "Nothing to do"
    moved = "none" if document.moved_share is None else share(document.moved_share)
    observed = document.observed
    return join(
        tag("h1", headline),
        tag("p", sentence(document.reason), class_="sub"),
        facts(
            fact("Keys that change lane", moved, "of those that no rule of a contract names"),
            fact(
                "Old lanes that a new one waits for", count(document.parents_at_most), f"of {count(old.lanes)}, at most"
            ),
            fact("Records that are there", count(observed.records), _kept(observed.retention_seconds))
            if observed is not None and observed.records is not None
            else None,
            fact("Records that are copied", "0", "in place nothing is copied") if document.mode == "in-place" else None,
        ),
    )


def _kept(seconds: float | None) -> str:
    return "kept for ever" if seconds is None else f"kept for {duration(seconds)}"


def _timetable(document: MigratePlanDocument) -> Markup | None:
    if not document.steps:
        return None
    rows = [(str(one.step), one.who, visible(one.action), visible(one.why)) for one in document.steps]
    return section(
        "timetable", intro_of("timetable"), stacked({"Step": "n", "Who": "", "What": "", "Why": ""}, rows, "Steps")
    )


def _drain(document: MigratePlanDocument) -> Markup | None:
    lanes = [lane for lane in document.drain if lane.isdecimal()]
    if not document.steps or not lanes or max(len(lanes), document.old.lanes) > MOST_DRAWN:
        return None
    return section("drain", intro_of("drain"), chart(lambda width: drain_drawing(document, width), WHOLE))


def drain_drawing(document: MigratePlanDocument, width: int = WHOLE) -> Markup:
    """Old lanes above, new ones below, and a line from each new lane to every old one that it waits for."""
    box = Box(24, 34, width - 24, 34 + _HIGH)
    old, new = document.old.lanes, document.new.lanes
    above, below = (Scale(-0.5, many - 0.5, box.left, box.right) for many in (old, new))
    old_step, new_step = (_label_step(many, box.right - box.left) for many in (old, new))
    marks = []
    for lane in range(new):
        parents = [int(one) for one in document.drain.get(str(lane), ()) if isinstance(one, int)]
        lines = [
            tag(
                "line",
                x1=f"{above.at(parent):.1f}",
                x2=f"{below.at(lane):.1f}",
                y1=f"{box.top:g}",
                y2=f"{box.bottom:g}",
                class_="mean" if parent != lane else "ring",
            )
            for parent in parents
        ]
        says = f"new lane {lane}\nwaits for {', '.join(map(str, parents)) or 'nobody'}"
        label = [text(str(lane), below.at(lane), box.bottom + 16, anchor="middle")] if lane % new_step == 0 else []
        marks.append(mark(says, join(*lines, *label)))
    return drawing(
        f"{old} old lanes, {new} new lanes, and which old ones each new one waits for",
        width,
        box.bottom + 40,
        text("old lanes", box.left, 12, kind="strong"),
        *(text(str(lane), above.at(lane), box.top - 6, anchor="middle") for lane in range(0, old, old_step)),
        *marks,
        text("new lanes", box.left, box.bottom + 34, kind="strong"),
        kind="loads",
    )


def _label_step(many: int, room: float) -> int:
    """Every how many lanes a number has room beside the next.

    >>> [_label_step(24, room) for room in (1100, 300)], _label_step(128, 300)
    ([1, 2], 20)
    """
    need = 8 * len(str(many - 1)) + 4
    return next(step for step in (1, 2, 5, 10, 20, 50, many) if room / many * step >= need or step >= many)


def _waits(document: MigratePlanDocument) -> Markup | None:
    if not document.steps or not document.drain:
        return None
    rows = [
        (visible(lane), count(len(parents)), ", ".join(visible(str(one)) for one in parents[:60]))
        for lane, parents in list(document.drain.items())[:MOST_ROWS]
    ]
    heads = {"New lane": "n", "Old lanes": "n", "Which": ""}
    return section("waits", intro_of("waits"), stacked(heads, rows, "Waits"), more_rows(len(document.drain), "lanes"))


def _breaks(document: MigratePlanDocument) -> Markup | None:
    found = bullets([sentence(visible(one)) for one in document.breaks], "says")
    return section("breaks", intro_of("breaks"), found) if found is not None else None

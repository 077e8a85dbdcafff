"""The page of `keylane migrate plan --report`: who waits for whom, what moves, what it needs, and who does what when.

From a document of schema keylane.migrate-plan/1, which `pipelines.migrate` makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.errors import visible
from keylane.migration.cost import NOT_ASKED
from keylane.numbers import count, duration, plural, share, size
from keylane.report.heatmap import waits_for
from keylane.report.html import Markup, join, tag
from keylane.report.sections import bullets, chart, fact, facts, intro_of, read_by_keys, section, sentence, whole_page
from keylane.report.shards_page import MOST_ROWS, WHOLE, more_rows, stacked
from keylane.report.svg_charts import Box, Scale, drawing, mark, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.migrate import MigratePlanDocument, MigrationFigure, PlannedCost

#: New lanes up to which the graph is drawn; more are a table.
MOST_DRAWN: Final = 64
_HIGH: Final = 220
_HOW: Final = {
    "measured": "measured",
    "sampled": "an estimate, from a part of the records",
    "computed": "by the contracts",
    "unknown": "not known",
}


def migrate_page(document: MigratePlanDocument) -> str:
    """The whole file."""
    sections = {
        "timetable": _timetable(document),
        "cost": _cost(document),
        "pause": _pause(document),
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
    moved = "unknown" if document.moved_share is None else share(document.moved_share)
    observed = document.observed
    return join(
        tag("h1", headline),
        tag("p", sentence(document.reason), class_="sub"),
        facts(
            fact("Keys that change lane", moved, document.moved_basis),
            fact(
                "Old lanes that a new one waits for", count(document.parents_at_most), f"of {count(old.lanes)}, at most"
            ),
            fact("Records that are there", count(observed.records), _kept(observed.retention_seconds))
            if observed is not None and observed.records is not None
            else None,
            *(_needs(document.cost) if document.cost is not None else ()),
        ),
    )


def _needs(cost: PlannedCost) -> tuple[Markup | None, ...]:
    """What is copied and how long producers stand, as far as it is known."""
    moved, copied, pause = cost.moved_records, cost.copied_bytes, cost.pause_seconds
    return (
        fact("Records of keys that change lane", shown(moved, _whole), _HOW[moved.known])
        if moved.value is not None
        else None,
        fact("Bytes that are copied", shown(copied, size), _HOW[copied.known]) if copied.value is not None else None,
        fact("Pause of producers", shown(pause, duration), "the waits that are known: see below")
        if pause.value is not None
        else None,
    )


def shown(figure: MigrationFigure, form: Callable[[float], str]) -> str:
    """A figure for people; a dash where it is unknown.

    >>> from keylane.documents.migrate import MigrationFigure
    >>> shown(MigrationFigure(value=2048, known="sampled", basis="of some"), size)
    '2.0 KiB'
    """
    return "–" if figure.value is None else form(figure.value)


def cost_rows(cost: PlannedCost) -> list[tuple[str, str, str, str]]:
    """What it moves and needs, a row each: what, how much, how that is known, and by what or why not.

    What only a stream could say is left out where none was asked.
    """
    figures: tuple[tuple[str, MigrationFigure, Callable[[float], str]], ...] = (
        ("records that are there", cost.records, _whole),
        ("bytes that are there", cost.stored_bytes, size),
        ("keys", cost.keys, _whole),
        ("keys that change lane", cost.moved_keys, _whole),
        ("records of such keys", cost.moved_records, _whole),
        ("bytes of such records", cost.moved_bytes, size),
        ("records to copy", cost.copied_records, _whole),
        ("bytes to copy", cost.copied_bytes, size),
        ("disk", cost.disk_bytes, size),
        ("network", cost.network_bytes, size),
        ("pause of producers", cost.pause_seconds, _seconds),
    )
    return [(what, shown(one, form), one.known, one.basis) for what, one, form in figures if one.basis != NOT_ASKED]


def _whole(number: float) -> str:
    return count(round(number))


def _seconds(seconds: float) -> str:
    """Short times with the digits that they have."""
    return f"{seconds:.2f} s" if 0 < seconds < 1 else duration(seconds)


def _cost(document: MigratePlanDocument) -> Markup | None:
    if document.cost is None:
        return None
    rows = [(what, figure, how, sentence(visible(basis))) for what, figure, how, basis in cost_rows(document.cost)]
    heads = {"What": "", "How much": "n", "How it is known": "", "By what": ""}
    asked = document.old.address is not None
    note = None if asked else tag("p", sentence(f"records, bytes and keys are not known: {NOT_ASKED}"), class_="note")
    return section("cost", intro_of("cost"), stacked(heads, rows, "What moves, and what it needs"), note)


def _pause(document: MigratePlanDocument) -> Markup | None:
    if document.cost is None:
        return None
    rows = [
        (one.what, "–" if one.seconds is None else _seconds(one.seconds), sentence(one.basis))
        for one in document.cost.pause_parts
    ]
    return section("pause", intro_of("pause"), stacked({"Part": "", "About": "n", "By what": ""}, rows, "The pause"))


def _kept(seconds: float | None) -> str:
    return "kept for ever" if seconds is None else f"kept for {duration(seconds)}"


def _timetable(document: MigratePlanDocument) -> Markup | None:
    if not document.steps:
        return None
    rows = [
        (
            str(one.step),
            one.who,
            visible(f"{one.action}: {one.command}" if one.command else one.action),
            visible(one.why),
        )
        for one in document.steps
    ]
    return section(
        "timetable", intro_of("timetable"), stacked({"Step": "n", "Who": "", "What": "", "Why": ""}, rows, "Steps")
    )


def _drain(document: MigratePlanDocument) -> Markup | None:
    lanes = [lane for lane in document.drain if lane.isdecimal()]
    if not document.steps or not lanes:
        return None
    if max(len(lanes), document.old.lanes) > MOST_DRAWN:
        parents = [[one for one in document.drain[lane] if isinstance(one, int)] for lane in lanes]
        picture = tag("div", read_by_keys(waits_for(parents, document.old.lanes)), class_="chart square")
        return section("drain", intro_of("drain", "many"), picture)
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
    heads = {"New lane": "", "Old lanes": "n", "Which": ""}
    listed = join(stacked(heads, rows, "Waits"), more_rows(len(document.drain), "lanes"))
    is_long = len(document.drain) > MOST_DRAWN
    shown_as = tag("details", tag("summary", "The new lanes as a table"), listed) if is_long else listed
    return section("waits", intro_of("waits"), shown_as)


def _breaks(document: MigratePlanDocument) -> Markup | None:
    found = bullets([sentence(visible(one)) for one in document.breaks], "says")
    return section("breaks", intro_of("breaks"), found) if found is not None else None

"""The page of `keylane migrate status --report`: phases over time, who is waited for, old lanes, late writers.

From a document of schema keylane.migrate-status/1, which `pipelines.migrate_run` makes. The page of a plan:
`migrate_page`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from keylane.errors import visible
from keylane.migration.cutover import HELD
from keylane.numbers import count, duration, plural, short_count
from keylane.report.html import Markup, join, tag
from keylane.report.sections import chart, fact, facts, intro_of, section, sentence, whole_page
from keylane.report.shards_page import MOST_ROWS, WHOLE, more_rows, stacked
from keylane.report.svg_charts import NARROW, Box, Scale, across, drawing, mark, spaced, text, upright, whole_steps

if TYPE_CHECKING:
    from keylane.documents.migrate import MigrateStatusDocument, MigrationEntry, MigrationLane

#: What a phase is, for the top of the page.
PHASES: Final = {
    None: "Not begun",
    "begun": "Begun",
    "copying": "Copying into the new stream",
    "holding": "Producers stop",
    "doubling": "Producers keep records for the new stream",
    "fenced": "The fences stand",
    "growing": "The stream gets its lanes",
    "open": "Producers go on; readers drain the old lanes",
    "drained": "All old lanes are drained",
    "done": "Done",
    "rolled-back": "Rolled back",
}
_ROW: Final = 26
_HIGH: Final = 150


def migrate_status_page(document: MigrateStatusDocument) -> str:
    """The whole file."""
    sections = {
        "waiting": _waiting(document),
        "phases": _phases(document),
        "drained": _drained(document),
        "late-writers": _late(document),
        "journal": _journal(document),
    }
    where = visible(document.stream)
    return whole_page(f"keylane migrate status: {where}", "migration of", where, _top(document), sections)


def _top(document: MigrateStatusDocument) -> Markup:
    lanes, late = document.lanes, document.late_writers
    drained, pause = sum(one.drained is True for one in lanes), document.pause_seconds
    known = document.lag is not None
    how = "in place" if document.mode == "in-place" else f"by a mirror into {visible(document.new_stream)}"
    return join(
        tag("h1", PHASES[document.phase]),
        tag("p", sentence(f"{how}; looked at {_moment(document.looked_at)} UTC"), class_="sub"),
        facts(
            fact("Phase", document.phase or "none", plural(len(document.entries), "entry")),
            fact("Old lanes drained", count(drained), f"of {count(len(lanes))}") if known else None,
            fact("Lag", count(document.lag or 0), "offsets up to the fences") if known else None,
            fact("Not copied yet", count(document.copy_lag), "offsets of the old stream")
            if document.copy_lag is not None
            else None,
            fact("Time left", duration(document.seconds_left), "at the speed of the last second")
            if document.seconds_left is not None
            else None,
            fact("Pause of producers", _lasted(pause), "from the hold to the end of it") if pause is not None else None,
            fact("Late writers", count(len(late)), plural(sum(one.records for one in late), "record"), kind="worse")
            if late
            else None,
        ),
    )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]


def _waiting(document: MigrateStatusDocument) -> Markup | None:
    waits = document.waits_for
    if waits is None:
        return None
    who = {
        "producers": "producers that have not acknowledged that they stopped",
        "writes": "writes to the old lanes that do not end: a producer was not stopped",
        "readers": "readers that have not drained these old lanes",
    }[waits.why]
    names = ", ".join(visible(name) for name in waits.names[:MOST_ROWS])
    if not waits.names and waits.why == "producers":
        who = "producers: none is named that acknowledges; stop them, then migrate run PLAN --producers-stopped"
    return section("waiting", None, tag("p", sentence(f"{who}: {names}" if names else who), class_="intro"))


def _phases(document: MigrateStatusDocument) -> Markup | None:
    if not document.entries:
        return None
    return section("phases", intro_of("phases"), chart(lambda width: phases_drawing(document, width), WHOLE))


def _lasts(document: MigrateStatusDocument) -> list[tuple[MigrationEntry, float]]:
    """Each entry with when the next one came; the last of what is not over with when it was looked at."""
    entries = document.entries
    end = entries[-1].at if document.over else max(document.looked_at, entries[-1].at)
    return list(zip(entries, [*(one.at for one in entries[1:]), end], strict=True))


def phases_drawing(document: MigrateStatusDocument, width: int = WHOLE) -> Markup:
    """Time from left to right, an entry a row, as long as it lasted; those in which producers stand are red."""
    found = _lasts(document)[-MOST_ROWS:]
    first, last = found[0][0].at, max(end for _, end in found)
    box = Box(96, 10, width - 74, 10 + _ROW * len(found))
    x = Scale(0, max(last - first, 0.001), box.left, box.right)
    ticks = whole_steps(x.high, 4 if width <= NARROW else 8)
    labels = spaced([x.at(one) for one in ticks], 52)
    rows = []
    for number, (entry, end) in enumerate(found):
        y, at = box.top + _ROW * number, x.at(entry.at - first)
        long = end - entry.at
        wide = max(2.0, x.at(end - first) - at)
        ends = document.over and number == len(found) - 1
        lasted = "" if ends else _lasted(long)
        bar = tag("rect", x=f"{at:.2f}", y=f"{y + 5:g}", width=f"{wide:.2f}", height=f"{_ROW - 10}", rx=2)
        says = f"{entry.phase}\nfrom {_clock(entry.at)} UTC" + (f", {lasted}" if lasted else "")
        drawn = tag("g", bar, class_="bars before" if entry.phase in HELD else "bars after")
        label = text(entry.phase, box.left - 10, y + _ROW / 2 + 4, anchor="end", kind="said")
        rows.append(mark(says, label, drawn, text(lasted, at + wide + 6, y + _ROW / 2 + 4)))
    return drawing(
        f"{plural(len(found), 'entry')} of the journal over {duration(last - first)}",
        width,
        box.bottom + 40,
        *(
            upright(box, x.at(one), _lasted(one) if labelled else "")
            for one, labelled in zip(ticks, labels, strict=True)
        ),
        *rows,
        text("since the first entry; red: producers are paused", box.left, box.bottom + 36),
        kind="loads",
    )


def _lasted(seconds: float) -> str:
    """Short times with their milliseconds.

    >>> _lasted(0.0421), _lasted(3.2), _lasted(125)
    ('42 ms', '3.2 s', '2 min 5 s')
    """
    return f"{seconds * 1000:.0f} ms" if 0 < seconds < 1 else duration(seconds)


def _drained(document: MigrateStatusDocument) -> Markup | None:
    lanes = document.lanes
    if not lanes:
        return None
    asked = document.lag is not None
    rows = [
        (
            str(one.lane),
            count(one.fence),
            "–" if one.applied is None else count(one.applied),
            "–" if one.left is None else count(one.left),
            {True: "drained", False: "not yet", None: "not asked"}[one.drained],
        )
        for one in lanes[:MOST_ROWS]
    ]
    heads = {"Old lane": "n", "Fence": "n", "Applied": "n", "Left": "n", "Drained": ""}
    listed = tag("details", tag("summary", "As a table"), stacked(heads, rows, "Old lanes"))
    picture = chart(lambda width: lanes_drawing(lanes, width), WHOLE) if asked else None
    intro = intro_of("drained", "intro" if asked else "fenced")
    return section("drained", intro, picture, listed, more_rows(len(lanes), "lanes"))


def lanes_drawing(lanes: list[MigrationLane], width: int = WHOLE) -> Markup:
    """A bar for each old lane, as high as what is left of it, and below the line a square that is full when drained."""
    most = max([1, *(one.left or 0 for one in lanes)])
    step = min(64.0, (width - 66) / len(lanes))
    box = Box(58, 28, 58 + max(120.0, step * len(lanes)), 28 + _HIGH)
    y = Scale(0, most * 1.04, box.bottom, box.top)
    places = [box.left + step * number for number in range(len(lanes))]
    numbered = spaced(places, 8 * len(str(len(lanes) - 1)) + 6)
    marks = [
        _lane(one, at, step, box, y, number=number) for one, at, number in zip(lanes, places, numbered, strict=True)
    ]
    drained = sum(one.drained is True for one in lanes)
    return drawing(
        f"{count(drained)} of {plural(len(lanes), 'old lane')} drained",
        width,
        box.bottom + 46,
        *(across(box, y.at(value), short_count(value)) for value in whole_steps(most * 1.04, 4)),
        *marks,
        text("offsets left", 0, 11, kind="axis"),
        text("drained", box.left - 7, box.bottom + 17, anchor="end"),
        text("lane", box.left - 7, box.bottom + 38, anchor="end"),
        kind="loads",
    )


def _lane(one: MigrationLane, at: float, step: float, box: Box, y: Scale, *, number: bool) -> Markup:
    wide = step * 0.84 if step > 3 else step
    top = y.at(one.left or 0)
    side = min(wide, 12.0)
    place = {"x": f"{at + (wide - side) / 2:.2f}", "y": f"{box.bottom + 7:g}"}
    full = "new" if one.drained else "all"
    says = f"old lane {one.lane}\nfence {count(one.fence)}, applied {count(one.applied or 0)}\n"
    says += "drained" if one.drained else f"{count(one.left or 0)} left"
    bar = tag("rect", x=f"{at:.2f}", width=f"{wide:.2f}", y=f"{top:g}", height=f"{box.bottom - top:.2f}")
    label = [text(str(one.lane), at + wide / 2, box.bottom + 38, anchor="middle")] if number else []
    square = tag("rect", **place, width=f"{side:.2f}", height="12", class_=full)
    return mark(says, tag("g", bar, class_="bars before"), square, *label)


def _late(document: MigrateStatusDocument) -> Markup | None:
    if not document.late_writers:
        return None
    rows = [
        (
            visible(one.writer),
            "none" if one.epoch is None else str(one.epoch),
            count(one.records),
            f"offset {one.offset} of lane {one.lane}",
        )
        for one in document.late_writers[:MOST_ROWS]
    ]
    heads = {"Writer": "", "Epoch": "n", "Records": "n", "The first": ""}
    more = more_rows(len(document.late_writers), "writers")
    return section("late-writers", intro_of("late-writers"), stacked(heads, rows, "Late writers"), more)


def _journal(document: MigrateStatusDocument) -> Markup | None:
    if not document.entries:
        return None
    rows = [
        (
            str(entry.number),
            entry.phase,
            _clock(entry.at),
            "" if document.over and entry is document.entries[-1] else _lasted(end - entry.at),
            str(entry.driver),
        )
        for entry, end in _lasts(document)[:MOST_ROWS]
    ]
    heads = {"Entry": "", "Phase": "", "At (UTC)": "n", "Lasted": "n", "Driver": "n"}
    return section(
        "journal", intro_of("journal"), stacked(heads, rows, "Entries"), more_rows(len(document.entries), "entries")
    )

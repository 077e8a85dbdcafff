"""The page of `keylane assign --report`: members with their lanes, what moved, and every assignor side by side.

From a document of schema keylane.assign/1, which `pipelines.assign` makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.documents.assign import MemberRow
from keylane.errors import visible
from keylane.numbers import agree, amount, count, duration, plural, times
from keylane.report.html import Markup, join, tag
from keylane.report.sections import bullets, chart, fact, facts, intro_of, section, sentence, whole_page
from keylane.report.shards_page import more_rows, stacked
from keylane.report.svg_charts import drawing, mark, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.documents.assign import AssignDocument, AssignorCost

#: Pixels of a chart that has a row to itself.
WHOLE: Final = 1160
#: Members that are drawn lane by lane, and lanes of all of them; beyond, a member is a bar.
MOST_DRAWN: Final = 60
MOST_CELLS: Final = 3_000
#: Rows that tables of the page have at most: what is more is in the JSON.
MOST_ROWS: Final = 400
#: Pixels of a square at least and at most, between rows, and of a name.
_SMALL, _LARGE, _ROW, _NAME = 13, 24, 10, 150
_LETTERS: Final = 19


def assign_page(document: AssignDocument) -> str:
    """The whole file."""
    sections = {
        "members": _members(document),
        "assignors": _compared(document),
        "moves": _moves(document),
        "how": _notes(document),
    }
    where = visible(document.group or document.source or plural(len(document.members), "member"))
    return whole_page(f"keylane assign: {where}", "assign:", where, _top(document), sections)


def _top(document: AssignDocument) -> Markup:
    cost = document.cost
    lanes, members = sum(document.topics.values()), len(document.members)
    each = count(cost.most) if cost.fewest == cost.most else f"{count(cost.fewest)} to {count(cost.most)}"
    whole = f"{plural(lanes, 'lane')} ({agree(lanes, 'partition', 'partitions')}) for {plural(members, 'member')}"
    headline = f"{whole}, {each} each" if document.before is None else _change(document, lanes)
    what = f"{', '.join(document.steps[:4])}{', …' if len(document.steps) > 4 else ''}; " if document.steps else ""
    sub = f"{what}{document.assignor} gives each member {each} {agree(cost.most, 'lane', 'lanes')}"
    waits = plural(cost.lanes_paused, "lane")
    return join(
        tag("h1", headline),
        tag("p", sentence(visible(sub)), class_="sub"),
        facts(
            _stopped(cost) if document.before is not None else None,
            fact("Longest pause", duration(cost.longest_pause), f"of {waits} that wait") if cost.lanes_paused else None,
            fact("Fullest member", times(cost.max_over_mean), "the mean load") if cost.max_over_mean else None,
            fact("Idle", plural(len(document.idle), "member"), f"at most {count(document.ceiling)} can have a lane"),
        ),
    )


def _change(document: AssignDocument, lanes: int) -> Markup:
    """What a change costs, in one line: what moves, what waits, and what nobody reads."""
    cost = document.cost
    of = f"{count(document.moved)} of {plural(lanes, 'lane')} ({agree(lanes, 'partition', 'partitions')})"
    parts: list[Markup | str] = [f"{of} {agree(document.moved, 'moves', 'move')}"]
    if cost.lanes_paused:
        pause = f"{agree(cost.lanes_paused, 'pauses', 'pause')}, for at most {duration(cost.longest_pause)}"
        parts.append(f"; {count(cost.lanes_paused)} {pause}")
    if cost.unowned:
        nobody = f"{count(cost.unowned)} {agree(cost.unowned, 'is', 'are')} read by nobody"
        parts += ["; ", tag("em", nobody, class_="worse")]
    return join(*parts)


def _stopped(cost: AssignorCost) -> Markup:
    how = "stop reading all of their lanes" if cost.protocol == "eager" else "give up lanes, and go on with the others"
    how = how if cost.stopped else "no member gives up a lane"
    return fact("Disturbed", plural(cost.stopped, "member"), how)


def _members(document: AssignDocument) -> Markup:
    drawn = chart(lambda width: members_drawing(document, width), WHOLE)
    heads = {"Member": "", "Lanes": "n", "Gained": "n", "Lost": "n", "Load": "n", "Lag": "n"}
    rows = [
        (
            visible(row.member),
            count(row.lanes),
            count(row.gained),
            count(row.lost),
            "" if row.load is None else amount(row.load),
            "" if row.lag is None else count(row.lag),
        )
        for row in document.members[:MOST_ROWS]
    ]
    listed = stacked(heads, rows, "Members")
    more = more_rows(len(document.members), "members")
    details = tag("details", tag("summary", "The members as a table"), listed, more)
    intro = intro_of("members", "intro" if _by_lane(document) else "many")
    return section("members", intro, drawn, details)


def _by_lane(document: AssignDocument) -> bool:
    """Whether every lane is drawn; otherwise members are bars."""
    everyone = [*document.members, *_gone(document)]
    return len(everyone) <= MOST_DRAWN and sum(row.lanes + row.lost for row in everyone) <= MOST_CELLS


def members_drawing(document: AssignDocument, width: int = WHOLE) -> Markup:
    """A row for each member: its lanes as squares, what it gained filled, what it lost hollow; or bars, for many."""
    everyone = [*document.members, *_gone(document)]
    by_lane = _by_lane(document)
    rows = everyone if by_lane else sorted(everyone, key=lambda row: -(row.gained + row.lost))[:MOST_DRAWN]
    left = 12 + min(_NAME, max(len(_short(row.member)) for row in rows) * 7.5 + 10)
    most = max((row.lanes + row.lost for row in rows), default=1) or 1
    size = int(min(_LARGE, max(_SMALL, (width - 12 - left) / most)))
    parts: list[Markup] = []
    y = 34.0
    for row in rows:
        name = text(_short(row.member), left - 8, y + size / 2 + 3, anchor="end", kind="strong" if row.gained else None)
        if by_lane:
            made, high = _squares(document, row, left, y, width - 12, size)
        else:
            made, high = _bar(row, left, y, (width - 12 - left) / most), float(_SMALL)
        parts += [name, made]
        y += high + _ROW
    what = f"{plural(len(rows), 'member')} of {count(len(everyone))} with their lanes"
    return drawing(what, width, y + 4, _legend(document), *parts, kind="loads")


def _gone(document: AssignDocument) -> list[MemberRow]:
    """Members that were there before and no longer are: all of their lanes are lost."""
    here = {row.member for row in document.members}
    return [
        MemberRow(member=name, lanes=0, gained=0, lost=len(lanes), load=None, lag=None, rack=None, instance=None)
        for name, lanes in (document.before or {}).items()
        if name not in here
    ]


def _short(name: str) -> str:
    clean = visible(name)
    return clean if len(clean) <= _LETTERS else f"{clean[: _LETTERS - 1]}…"


def _legend(document: AssignDocument) -> Markup:
    if document.before is None:
        return tag("g")
    entries = (("kept", "all"), ("gained", "new"), ("lost", "today"))
    made = []
    for n, (word, kind) in enumerate(entries):
        x = 12 + n * 84
        made += [tag("rect", x=x, y=8, width=11, height=11, class_=kind), text(word, x + 17, 18)]
    return tag("g", *made)


def _squares(
    document: AssignDocument, row: MemberRow, left: float, y: float, right: float, cell: int
) -> tuple[Markup, float]:
    """The lanes of a member, wrapped where they do not fit, and how high they are."""
    before = set() if document.before is None else set(document.before.get(row.member, ()))
    now = document.assignment.get(row.member, [])
    kinds = [(lane, "all" if document.before is None or lane in before else "new") for lane in now]
    kinds += [(lane, "today") for lane in sorted(before - set(now))]
    words_of = {"all": "", "new": "\ngained", "today": "\nlost"}
    per_line = max(1, int((right - left) // cell))
    made = []
    for n, (lane, kind) in enumerate(kinds):
        x, down = left + n % per_line * cell, y + n // per_line * cell
        size = cell - 2
        inset = 1 if kind == "today" else 0
        shape = tag(
            "rect",
            x=f"{x + inset:g}",
            y=f"{down + inset:g}",
            width=size - 2 * inset,
            height=size - 2 * inset,
            class_=kind,
        )
        made.append(mark(f"{visible(lane[0])} lane {lane[1]}\n{visible(row.member)}{words_of[kind]}", shape))
    if not made:
        made.append(text("idle", left, y + cell / 2 + 3))
    return tag("g", *made), float(cell * max(1, -(-len(kinds) // per_line)))


def _bar(row: MemberRow, left: float, y: float, step: float) -> Markup:
    kept = row.lanes - row.gained
    parts = [("all", 0, kept), ("new", kept, row.gained), ("today", row.lanes, row.lost)]
    shapes = [
        tag(
            "rect",
            x=f"{left + begin * step:.2f}",
            y=f"{y + 1:g}",
            width=f"{many * step:.2f}",
            height=_SMALL - 2,
            class_=kind,
        )
        for kind, begin, many in parts
        if many
    ]
    says = f"{visible(row.member)}\n{plural(row.lanes, 'lane')}, {count(row.gained)} gained, {count(row.lost)} lost"
    return mark(says, tag("g", *shapes))


def _compared(document: AssignDocument) -> Markup | None:
    rows: Sequence[AssignorCost] = document.compared or ([document.cost] if document.steps else [])
    if not rows:
        return None
    known = any(row.max_over_mean is not None for row in rows)
    several = any(row.moves > row.moved for row in rows)
    moving = ("Lanes moved", *(["Moves on the way"] if several else []))
    numbers = (*moving, "Members disturbed", "Lanes paused", "Longest pause", "Lanes each", "Idle", "Unowned")
    heads = {"Assignor": "", "Protocol": "", **dict.fromkeys(numbers, "n"), **({"Fullest": "n"} if known else {})}
    made = [
        (
            f"{row.assignor}, chosen" if row.assignor == document.assignor and len(rows) > 1 else row.assignor,
            row.protocol,
            count(row.moved),
            *([count(row.moves)] if several else []),
            count(row.stopped),
            count(row.lanes_paused),
            duration(row.longest_pause) if row.longest_pause else "0",
            count(row.most) if row.fewest == row.most else f"{count(row.fewest)} to {count(row.most)}",
            count(row.idle),
            count(row.unowned),
            *(["" if row.max_over_mean is None else times(row.max_over_mean)] if known else []),
        )
        for row in rows
    ]
    return section("assignors", intro_of("assignors"), stacked(heads, made, "Assignors"))


def _moves(document: AssignDocument) -> Markup | None:
    if not document.moves:
        return None
    rows = [
        (visible(move.topic), str(move.lane), visible(move.from_ or ""), visible(move.to or "nobody"))
        for move in document.moves[:MOST_ROWS]
    ]
    listed = stacked({"Topic": "", "Lane": "n", "From": "", "To": ""}, rows, "Moves")
    more = more_rows(len(document.moves), "moves")
    opened = tag("details", tag("summary", plural(len(document.moves), "move")), listed, more)
    return section("moves", intro_of("moves"), opened)


def _notes(document: AssignDocument) -> Markup | None:
    fixed = [
        "a pause is counted from rounds of agreement and from state to restore; a crash adds the session timeout",
        "an eager protocol stops every member at every change, a cooperative one only lanes that move",
    ]
    return section("how", None, bullets([sentence(visible(line)) for line in (*document.notes, *fixed)]))

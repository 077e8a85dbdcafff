"""The page of `keylane shards plan --report`: the key space as a line, load before and after, and the calls as steps.

From a document of schema keylane.shards-plan/1, which `plan.shards` makes.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from keylane.errors import visible
from keylane.keyspace.hash_keys import at_share
from keylane.keyspace.load import ROUNDING
from keylane.numbers import carried, count, duration, percent, plural, times
from keylane.report.html import Markup, join, tag
from keylane.report.sections import bullets, chart, fact, facts, intro_of, section, sentence, table, whole_page
from keylane.report.svg_charts import Box, Scale, drawing, mark, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from keylane.documents.shards import ShardCall, ShardRow, ShardSide, ShardsPlanDocument

#: Pixels of a chart that has a row to itself.
WHOLE: Final = 1160
#: Rows that tables of the page have at most: what is more is in the JSON.
MOST_ROWS: Final = 400
_BAND: Final = 96
_TICKS: Final = 26


def shards_page(document: ShardsPlanDocument) -> str:
    """The whole file."""
    sections = {
        "space": _space(document),
        "calls": _calls(document),
        "hot-shards": _hot(document),
        "uniform": _uniform(document),
        "shards": _shards(document),
        "how": _notes(document),
    }
    where = visible(document.source)
    return whole_page(f"keylane shards: {where}", "shards of", where, _top(document), sections)


def _top(document: ShardsPlanDocument) -> Markup:
    before, after = document.before, document.after
    calls = len(document.calls)
    headline = plural(calls, "call") if calls else "No call to make"
    even = " if its load is even" if any(one.kind == "unknown" for one in document.hot) else ""
    under = {True: f", and every shard is under the cap{even}", False: ", and a hot key stays over the cap", None: ""}
    sub = (
        f"From {plural(before.shards, 'shard')} to {count(after.shards)}, by {plural(document.splits, 'split')} and "
        f"{plural(document.merges, 'merge')}; at most {count(document.peak_shards)} are open on the way"
        if calls
        else f"{plural(before.shards, 'shard')}, none of them split or merged"
    )
    return join(
        tag("h1", f"{headline}{under[document.within_cap]}"),
        tag("p", sentence(sub), class_="sub"),
        facts(
            _fullest("Fullest shard before", before, document),
            _fullest("Fullest shard after", after, document),
            fact("Cap", carried(document.cap, document.load_unit), "what a shard may carry")
            if document.cap is not None
            else None,
            fact("Calls", count(calls), _one_by_one(document)) if calls else None,
        ),
    )


def _fullest(title: str, side: ShardSide, document: ShardsPlanDocument) -> Markup | None:
    """Its load; of the mean only beneath, because the means of two layouts are not of the same number of shards."""
    if side.max_load is None or side.max_over_mean is None:
        return None
    cap, load = document.cap, carried(side.max_load, document.load_unit)
    of_cap = "" if cap is None else f"{percent(side.max_load / cap, 0)} of the cap, "
    kind = None if cap is None else "worse" if _is_over(side.max_load, cap) else "better"
    return fact(title, load, f"{of_cap}{times(side.max_over_mean)} the mean of {side.shards}", kind=kind)


def _is_over(load: float | None, cap: float | None) -> bool:
    """Whether a load is over the cap, by the rule of the plan."""
    return load is not None and cap is not None and load > cap * (1 + ROUNDING)


def _one_by_one(document: ShardsPlanDocument) -> str:
    least = duration(document.quotas.least_seconds)
    return f"one after the other, each when the stream is active again; the rate limit alone allows them in {least}"


def _space(document: ShardsPlanDocument) -> Markup:
    """Both layouts over one line, with ticks for hash keys between them."""
    return section("space", intro_of("space"), chart(lambda width: space_drawing(document, width), WHOLE))


def space_drawing(document: ShardsPlanDocument, width: int = WHOLE) -> Markup:
    """The key space from left to right: shards above and below the line, as high as their load, and the boundaries."""
    rows = [*document.before.layout, *document.after.layout]
    fullest = max((row.load or 0 for row in rows), default=0) or 1
    # The cap is drawn to the scale of the loads, unless these are so far below it that they would be flat.
    drawn = document.cap is not None and document.cap <= 3 * fullest
    top = max(fullest, document.cap or 0) if drawn else fullest
    # Below the line there is room for the highest of the planned shards, and for the cap.
    planned = max((row.load or 0.0 for row in document.after.layout), default=0.0)
    below = _BAND * max(planned, (document.cap or 0.0) if drawn else 0.0, 0.3 * top) / top
    # Beside the bars there is room for the word at the cap.
    margin = 34 if drawn else 12
    box = Box(12, 24, width - margin, 24 + _BAND + below + _TICKS)
    x = Scale(0, 1, box.left, box.right)
    line = box.top + _BAND + _TICKS / 2
    limit = [_limit(box, line, (document.cap or 0) / top, up) for up in (True, False)] if drawn else []
    moved = [mark(_step(n, call), _moved(call, x, line)) for n, call in enumerate(document.calls[:MOST_ROWS], 1)]
    bar = partial(_bar, document, x, line, top)
    any_over = any(_is_over(row.load, document.cap) for row in rows)
    legend = [text("over the cap", box.right, 14, kind="over", anchor="end")] if any_over else []
    return drawing(
        f"{document.before.shards} shards before and {document.after.shards} after, over the key space",
        width,
        box.bottom + 28,
        text("before", box.left, 14, kind="strong"),
        text("after", box.left, box.bottom + 18, kind="strong"),
        *legend,
        tag("g", *(bar(row, up=True) for row in document.before.layout), class_="bars now"),
        tag("g", *(bar(row, up=False) for row in document.after.layout), class_="bars after"),
        *limit,
        tag("g", *(_tick(share, x, line) for share in document.ticks)),
        *moved,
        text("hash keys 0 to 2¹²⁸ − 1", box.right, box.bottom + 18, anchor="end"),
        kind="loads",
    )


def _bar(document: ShardsPlanDocument, x: Scale, line: float, top: float, row: ShardRow, *, up: bool) -> Markup:
    """A shard: as wide as its range, as high as its load; without a load, a band. One over the cap is red."""
    left, right = x.at(at_share(int(row.start))), x.at(at_share(int(row.end)))
    high = _BAND * (0.3 if row.load is None else row.load / top)
    y = line - _TICKS / 2 - high if up else line + _TICKS / 2
    gap = min(1.0, (right - left) / 4)
    load = "load not known" if row.load is None else f"load {carried(row.load, document.load_unit)}"
    says = f"{visible(row.id)}\n{load}\n{percent(at_share(int(row.end)) - at_share(int(row.start)))} of the key space"
    shape = tag("rect", x=f"{left:.2f}", y=f"{y:.2f}", width=f"{right - left - gap:.2f}", height=f"{high:.2f}")
    return mark(says, shape, kind="over" if _is_over(row.load, document.cap) else "")


def _tick(share: float, x: Scale, line: float) -> Markup:
    at = f"{x.at(share):.2f}"
    return tag("line", x1=at, x2=at, y1=f"{line - 4:g}", y2=f"{line + 4:g}", class_="mean")


def _limit(box: Box, line: float, share: float, up: bool) -> Markup:
    y = line - _TICKS / 2 - _BAND * share if up else line + _TICKS / 2 + _BAND * share
    drawn = tag("line", x1=f"{box.left:g}", x2=f"{box.right:g}", y1=f"{y:g}", y2=f"{y:g}", class_="limit")
    return join(drawn, text("cap", box.right + 5, y + 4))


def _moved(call: ShardCall, x: Scale, line: float) -> Markup:
    """A boundary that is added, or one that is removed, as a stroke through the line."""
    at = f"{x.at(at_share(int(call.at))):.2f}"
    kind = "ring" if call.call == "SplitShard" else "removed"
    wide = tag("rect", x=f"{float(at) - 4:.2f}", y=f"{line - 13:g}", width=8, height=26, class_="reach")
    return join(wide, tag("line", x1=at, x2=at, y1=f"{line - 12:g}", y2=f"{line + 12:g}", class_=kind))


def _step(number: int, call: ShardCall) -> str:
    of, makes = (visible(" and ".join(ids)) for ids in (call.shards, call.makes))
    return f"{number}. {call.call}\n{of}\nat {call.at}\nmakes {makes}"


def _calls(document: ShardsPlanDocument) -> Markup | None:
    if not document.calls:
        return None
    rows = [
        (
            str(n),
            call.call,
            visible(" and ".join(call.shards)),
            call.at if call.call == "SplitShard" else "",
            visible(" and ".join(call.makes)),
            count(call.shards_after),
        )
        for n, call in enumerate(document.calls[:MOST_ROWS], 1)
    ]
    heads = {"Step": "n", "Call": "", "Shards": "", "At": "", "Makes": "", "Open afterwards": "n"}
    more = more_rows(len(document.calls), "calls")
    return section("calls", intro_of("calls"), stacked(heads, rows, "Calls"), more)


def _hot(document: ShardsPlanDocument) -> Markup | None:
    if not document.hot:
        return None
    kinds = {"hot-key": "hot key: a split does not help", "hot-shard": "hot shard: a split helps"}
    rows = [
        (
            visible(one.shard),
            carried(one.load, document.load_unit),
            kinds.get(one.kind, "by one key or by many: not known"),
            "" if one.key_load is None else carried(one.key_load, document.load_unit),
            visible(one.key or one.hash_key or ""),
        )
        for one in document.hot[:MOST_ROWS]
    ]
    heads = {"Shard": "", "Load": "n", "Why": "", "Heaviest key": "n", "Which": ""}
    return section("hot-shards", intro_of("hot-shards"), stacked(heads, rows, "Hot shards"))


def _uniform(document: ShardsPlanDocument) -> Markup | None:
    if not document.uniform:
        return None
    rows = [
        (
            count(one.shards),
            count(one.calls),
            times(one.max_over_mean),
            carried(one.max_load, document.load_unit),
            {True: "under the cap", False: "over the cap", None: ""}[one.within_cap],
            "allowed" if one.within_quota else "not in one update",
        )
        for one in document.uniform
    ]
    numbers = dict.fromkeys(("Equal shards", "Splits and merges", "Fullest over mean", "Fullest"), "n")
    return section("uniform", intro_of("uniform"), stacked({**numbers, "Cap": "", "Quota": ""}, rows, "Equal shards"))


def _shards(document: ShardsPlanDocument) -> Markup:
    unit = document.load_unit
    rows = [
        (visible(one.id), one.start, one.end, "" if one.load is None else carried(one.load, unit))
        for one in _after(document)
    ]
    listed = stacked({"Shard": "", "From": "n", "To": "n", "Load": "n"}, rows, "Shards afterwards")
    more = more_rows(document.after.shards, "shards")
    return section("shards", None, tag("details", tag("summary", "The shards as a table"), listed, more))


def _after(document: ShardsPlanDocument) -> Sequence[ShardRow]:
    return document.after.layout[:MOST_ROWS]


def _notes(document: ShardsPlanDocument) -> Markup | None:
    quotas = document.quotas
    between = f"from {count(quotas.uniform_from)} to {count(quotas.uniform_to)} shards"
    fixed = [
        "moving a boundary keeps the order of every key for readers that read parents before children: no fence",
        f"a uniform update may go {between}, {quotas.uniform_updates_per_day} times a day; accounts may have more",
    ]
    if document.calls:
        least = "the time is the least: each call also waits until the stream is active again, which is to be measured"
        fixed.append(least)
    return section("how", None, bullets([sentence(visible(line)) for line in (*document.notes, *fixed)]))


def stacked(heads: Mapping[str, str], rows: Iterable[Sequence[str]], label: str) -> Markup:
    """A table whose rows become blocks on a narrow screen, where a hash key alone takes its width; `n` is a number."""
    shown = [tag("th", name, scope="col", class_=kind or None) for name, kind in heads.items()]
    made = [
        tag("tr", *(_cell(n, head, text) for n, (head, text) in enumerate(zip(heads.items(), row, strict=True))))
        for row in rows
    ]
    return table(shown, made, label, "small stacked")


def _cell(number: int, head: tuple[str, str], text: str) -> Markup:
    name, kind = head
    # Ids and options are not broken at their hyphens: each is to be copied.
    words = join(*(tag("span", one, class_="whole") if _is_whole(one) else one for one in re.split(r"(\s+)", text)))
    inner = tag("span", words)
    if not number:
        return tag("th", inner, scope="row", class_=kind or None, data_head=name)
    return tag("td", inner, class_=kind or None, data_head=name)


def _is_whole(word: str) -> bool:
    return "-" in word and "/" not in word


def more_rows(total: int, what: str) -> Markup | None:
    """How many rows a table leaves out; none where it has them all."""
    left = total - MOST_ROWS
    return tag("p", f"{count(left)} more {what} are in the JSON.", class_="note") if left > 0 else None

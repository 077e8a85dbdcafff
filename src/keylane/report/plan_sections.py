"""The sections of the pages of plan and profile: lanes over time, keys, hot lanes, cost of a change.

The order on the page, the verdict and the table of strategies: `plan_page`. What sections are built from: `sections`.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from keylane.errors import visible
from keylane.measure.balance import max_over_mean
from keylane.numbers import chance, count, lanes, length, percent, plural, share, size, throughput, times
from keylane.plan.document import all_keyed, keys_moved
from keylane.profile.document import heat_text
from keylane.report.heatmap import scale_ticks, waits_for
from keylane.report.html import Markup, join, tag
from keylane.report.sections import (
    aside,
    bullets,
    chart,
    fact,
    facts,
    intro_of,
    named,
    read_by_keys,
    section,
    sentence,
    side_title,
    table,
    words,
)
from keylane.report.svg_charts import POWER, STOPS, bar, distinct_keys, key_ranks, lane_loads, records_over_time, spark
from keylane.report.windows import edge_name, edge_names, window_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.documents.plan import (
        ByHand,
        ChangeCost,
        FoldRow,
        LanesOverTime,
        PlanDocument,
        PlanFloor,
        PlanSizing,
        SizingReason,
        StrategyRow,
        UsefulLanes,
    )
    from keylane.documents.profile import (
        Approximate,
        HeavyKey,
        HotLaneEvidence,
        KeyRank,
        KeysAlike,
        LookalikeKeys,
        ProfileDocument,
        ProfileWindows,
    )
    from keylane.report.html import Child

Sides: TypeAlias = "Mapping[str, LanesOverTime]"
#: Above so many lanes the fullest come first, unless a reader wants them in order.
MOST_IN_ORDER = 64


def lanes_section(sides: Sides, windows: ProfileWindows, name: str = "lanes") -> Markup | None:
    """A map for each side (before, after, or the one that was observed); None without any. `name` is the section's."""
    if not sides or not windows.records:
        return None
    return section(
        name,
        intro_of(name),
        _switch(max(side.lanes for side in sides.values())),
        tag("div", *(_map(name, sides, windows) for name in sides), class_=f"maps of-{len(sides)}"),
        _legend(sides),
    )


def maps_data(sides: Sides, windows: ProfileWindows) -> dict[str, object]:
    """What the script draws from."""
    return {
        "power": POWER,
        "windows": window_names(windows),
        "maps": {name: {"title": side.title, "cells": side.cells} for name, side in sides.items()},
    }


def _switch(lanes: int) -> Markup:
    by_load = lanes > MOST_IN_ORDER
    options = (("order", "in order", not by_load), ("load", "fullest first", by_load))
    labels = [
        tag("label", tag("input", type="radio", name="rows", value=value, checked=checked), tag("span", text))
        for value, text, checked in options
    ]
    return tag("fieldset", tag("legend", "Lanes"), *labels, class_="switch")


def _map(name: str, sides: Sides, windows: ProfileWindows) -> Markup:
    side, edges = sides[name], edge_names(windows)
    places = sorted({0, len(edges) // 2, len(edges) - 1})
    return tag(
        "figure",
        tag("p", side_title(name, side, alone=len(sides) == 1), class_="which"),
        tag(
            "div",
            tag("div", class_="gutter", aria_hidden="true"),
            tag("canvas", tabindex=0, role="img", aria_label=f"Lanes over time: {side.title}"),
            tag("svg", class_="totals", aria_hidden="true", preserveAspectRatio="none"),
            tag("i", class_="cursor", hidden=True),
            class_="plot",
        ),
        tag("div", *(tag("span", edges[place]) for place in places), class_="hours", aria_hidden="true"),
        tag("figcaption", class_="said"),
        class_="map",
        data_side=name,
    )


def _legend(sides: Sides) -> Markup:
    most = max(chain([1], *(row for side in sides.values() for row in side.cells)))
    stops = [tag("stop", offset=length(i / (STOPS - 1)), class_=f"h{i}") for i in range(STOPS)]
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


def _means(sides: Sides) -> str:
    """The mean cell of each map; one figure where they agree, as they do with equally many lanes."""
    found = {name: count(round(_mean_cell(side))) for name, side in sides.items()}
    different = [f"{mean} {name}" for name, mean in found.items()]
    return next(iter(found.values())) if len(set(found.values())) == 1 else ", ".join(different)


def _mean_cell(side: LanesOverTime) -> float:
    return sum(map(sum, side.cells)) / (len(side.cells) * len(side.cells[0]))


def _tick(at: float, label: str) -> Markup:
    anchor = "end" if at == 1 else "start" if at == 0 else "middle"
    return tag("text", label, x=length(at), y="25", text_anchor=anchor)


# What the keys look like: by rank, hot lanes and their causes, heavy keys, look-alikes, records without a key.


def ranks_section(profile: ProfileDocument, lanes: Sequence[int], ceiling: UsefulLanes | None = None) -> Markup:
    """The curve of keys by rank, and beside it what the heaviest key allows."""
    ranks = profile.key_ranks
    drawn = chart(partial(_drawn_ranks, ranks, tuple(lanes)), 820)
    return section("ranks", _head_says(ranks), tag("div", drawn, _beside(ranks, ceiling), class_="with-aside"))


def _drawn_ranks(ranks: list[KeyRank], lanes: tuple[int, ...], width: int) -> Markup:
    return key_ranks(ranks, lanes, width)


def _head_says(ranks: list[KeyRank]) -> str:
    first = ranks[0]
    return f"{count(ranks[-1].rank)} keys. The heaviest has {share(first.share)} of all records."


def _beside(ranks: list[KeyRank], ceiling: UsefulLanes | None) -> Markup:
    rows = [
        tag("tr", tag("th", _top(row.rank), scope="row"), tag("td", share(row.cumulative), class_="n"))
        for row in _milestones(ranks)
    ]
    held = aside("Records they hold", tag("table", tag("tbody", *rows), class_="small"))
    if ceiling is None:
        return tag("div", held)
    useful = tag("p", sentence(ceiling.says))
    return tag("div", held, aside("What the heaviest key allows", useful))


def _top(rank: int) -> str:
    return "heaviest key" if rank == 1 else f"heaviest {count(rank)}"


def _milestones(ranks: list[KeyRank]) -> list[KeyRank]:
    """The rows nearest to 1, 10, 100, … keys; the last of all has everything, and says nothing."""
    found = {}
    goal = 1
    while goal < ranks[-1].rank:
        nearest = min(ranks, key=lambda row: (abs(row.rank - goal), row.rank))
        found[nearest.rank] = nearest
        goal *= 10
    return [row for rank, row in found.items() if rank < ranks[-1].rank]


def hot_section(profile: ProfileDocument, says: str | None = None) -> Markup | None:
    """Lanes that are fuller than chance allows, each with its cause and the evidence; None where nothing was asked.

    `says` is the verdict where the page has figures on another basis too.
    """
    hot = profile.hot
    if hot is None:
        return None
    by_chance = "By chance: how often a fair hash of the same keys fills some lane as much"
    at_fault = f"below {chance(hot.alpha)} the hash is at fault, and the lane is called hot"
    alarm = f"{by_chance}; {at_fault}. Shares and means are of {hot.basis or 'all records'}."
    found = _hot_table(hot.lanes) if hot.lanes else None
    return section("hot", sentence(says or heat_text(profile, hot)), found, tag("p", alarm, class_="fine"))


def _hot_table(lanes: list[HotLaneEvidence]) -> Markup:
    most = max(row.over_mean for row in lanes)
    heads = (tag("th", "Lane", scope="col", class_="n"), "Over the mean", "Cause", "Evidence", _right("By chance"))
    return table(heads, (_hot_row(row, most) for row in lanes), "Lanes above the mean", "hot")


def _hot_row(row: HotLaneEvidence, most: float) -> Markup:
    over, part = times(row.over_mean), f"{share(row.share)} of them"
    full = join(tag("b", over), bar(row.over_mean / most, over, kind="heat"), tag("small", part))
    return tag(
        "tr",
        tag("th", count(row.lane), scope="row", class_="n"),
        tag("td", full),
        tag("td", tag("b", f"{'hot: ' if row.alarm else ''}{named('causes', row.cause)}")),
        tag("td", sentence(visible(row.evidence)), class_="long"),
        tag("td", "–" if row.chance is None else chance(row.chance), class_="n"),
    )


def _right(title: str) -> Markup:
    return tag("th", title, scope="col", class_="n")


def keys_section(profile: ProfileDocument, lanes: int | None) -> Markup:
    """Everything that is known of the keys."""
    return section(
        "keys",
        words("page")["keys_are_private"],
        _totals(profile),
        tag("div", _records(profile.windows), _over_time(profile.windows), class_="pair"),
        _heavy(profile, lanes),
        _lookalikes(profile.lookalikes),
    )


def _totals(profile: ProfileDocument) -> Markup:
    without, records = profile.without_key, profile.records
    none = [("Null key", without.null), ("Empty key", without.empty), ("Malformed key", without.malformed)]
    return facts(
        fact("Records", count(profile.records), "all, with and without a key", _size(profile.bytes, profile.bytes_of)),
        fact("Distinct keys", count(profile.distinct_keys), _about(profile.approximate)),
        *(fact(title, count(found), f"{percent(found / records)} of the records") for title, found in none),
    )


def _size(given: int | None, of: str | None) -> str | None:
    if given is None:
        return None
    return f"{size(given)} {'on the disk' if of == 'disk' else 'of records'}"


def _about(approximate: Approximate | None) -> str:
    return f"by a sketch, ± {percent(approximate.distinct_error)}" if approximate else "counted exactly"


def _records(windows: ProfileWindows) -> Markup | None:
    if windows.kind != "time" or not windows.records:
        return None
    return tag("figure", tag("h3", "Records over time"), chart(partial(records_over_time, windows)))


def _over_time(windows: ProfileWindows) -> Markup | None:
    if not windows.records:
        return None
    drawn = chart(partial(distinct_keys, windows))
    looks = tag(
        "p",
        tag("i", class_="swatch all"),
        "in the window ",
        tag("i", class_="swatch new"),
        "never before it",
        class_="fine",
    )
    return tag("figure", tag("h3", "Distinct keys over time"), drawn, looks)


def _lookalikes(found: LookalikeKeys) -> Markup:
    if not found.groups:
        return tag(
            "div",
            tag("h3", "Look-alike keys"),
            tag("p", "No two keys differ only in capitals, spaces or the spelling in Unicode.", class_="fine"),
            class_="after-table",
        )
    many = f"{plural(found.groups, 'group')}: one key to the eye, several to a hash"
    groups = f"{many}. {count(found.records)} records have the rarer spelling."
    rows = [_lookalike(example) for example in found.examples]
    heads = ("They differ in", "Keys", _right("Records"))
    return tag(
        "div",
        tag("h3", "Look-alike keys"),
        tag("p", groups, class_="fine"),
        table(heads, rows, "Look-alike keys", "alike"),
        class_="after-table",
    )


def _lookalike(example: KeysAlike) -> Markup:
    keys = [tag("div", _key(key)) for key in example.keys]
    records = [tag("div", count(found)) for found in example.records]
    kind = named("lookalikes", example.kind)
    return tag("tr", tag("th", kind, scope="row"), tag("td", *keys), tag("td", *records, class_="n"))


def _key(key: str) -> Markup:
    return tag("bdi", tag("code", visible(key), class_="key"))


def _heavy(profile: ProfileDocument, lanes: int | None) -> Markup:
    heavy = profile.heavy
    errors = any(row.error for row in heavy)
    fills = f"Of one of {count(lanes)} lanes" if lanes else None
    heads = (
        _right("#"),
        "Key",
        _right("Records"),
        *((_right("Off by at most"),) if errors else ()),
        _right("Share"),
        *((fills,) if fills else ()),
        "Over time",
    )
    rows = (_heavy_row(row, lanes, errors=errors) for row in heavy)
    return join(tag("h3", "Heavy keys"), table(heads, rows, "Heavy keys", "heavy"))


def _heavy_row(row: HeavyKey, lanes: int | None, *, errors: bool) -> Markup:
    off = tag("td", count(row.error), class_="n") if errors else None
    return tag(
        "tr",
        tag("td", count(row.rank), class_="n"),
        tag("th", _key(row.key), scope="row"),
        tag("td", count(row.records), class_="n"),
        off,
        tag("td", share(row.share), class_="n"),
        _fills(row.share * lanes) if lanes else None,
        tag("td", spark(row.by_window, f"rank {row.rank} over time"), class_="over-time"),
    )


def _fills(lane: float) -> Markup:
    """How much of one lane's fair share a key takes; above all of it, it cannot be placed well."""
    says = percent(lane, 0) if lane <= 1 else f"{times(lane, 1)} a lane"
    return tag("td", tag("div", tag("span", says), bar(lane, says, kind="heat"), class_="fills"))


# Before and after: the same figures of both sides with what bounds them from below, and the lanes by load.


def balance_section(document: PlanDocument) -> Markup:
    """The table of figures, and one chart of lanes for each side on one scale."""
    sides = document.over_time.sides
    top = max(max_over_mean(side.totals) for side in sides.values())
    loads = [_loads(name, sides, top) for name in sides]
    return section(
        "before-after",
        intro_of("before-after", "intro" if "before" in sides else "intro_alone"),
        _table(document),
        tag("div", *loads, class_=f"pair of-{len(loads)}"),
    )


def _loads(name: str, sides: Sides, top: float) -> Markup:
    caption = tag("figcaption", side_title(name, sides[name], alone=len(sides) == 1), class_="which")
    return tag("figure", caption, chart(partial(_drawn_loads, sides[name].totals, name, top)))


def _drawn_loads(totals: list[int], kind: str, top: float, width: int) -> Markup:
    return lane_loads(totals, kind, width, top)


def _table(document: PlanDocument) -> Markup:
    rows: dict[str, StrategyRow | None] = {"before": document.today, "after": document.chosen}
    found = {name: row for name, row in rows.items() if row is not None}
    names = {"before": "Today", "after": "Chosen"}
    heads = ("", *(tag("th", names[name], scope="col", class_=f"n {name}") for name in found), "Read it with")
    shown = found.values()
    made = (
        _row("Fullest lane", [share(row.fullest_share) for row in shown], _counted(document)),
        _row("Over the mean", [times(row.max_over_mean) for row in shown], _asked(document)),
        _row("Over the mean, all records", [times(row.fitted) for row in shown], _floor(document)),
        _row("CV of the lanes, all records", [percent(row.cv) for row in shown], _cv_floors(document)),
        _row("Fullest lane in its worst window", [times(row.worst_window) for row in shown], ""),
        _row("Idle lanes, all records", [count(row.idle_lanes) for row in shown], ""),
        _row("Lanes", [count(row.lanes) for row in shown], ""),
    )
    return table(heads, made, "Before and after", "figures")


def _row(title: str, values: list[str], note: Child) -> Markup:
    cells = [tag("td", value, class_="n") for value in values]
    return tag("tr", tag("th", title, scope="row"), *cells, tag("td", note, class_="note"))


def _counted(document: PlanDocument) -> str:
    found = document.basis
    return f"of the {'newest ' if found.later else ''}{count(found.records)} records, as above"


def _asked(document: PlanDocument) -> str:
    limit = document.constraints.max_over_mean
    return f"of the same records; asked for: at most {limit:g}×" if limit is not None else "of the same records"


def _bounds(document: PlanDocument) -> PlanFloor | None:
    return document.floor.get(str(document.chosen.lanes))


def _floor(document: PlanDocument) -> str:
    bounds = _bounds(document)
    if not bounds:
        return ""
    return f"which the contract is fitted on; no placement with one lane a key goes below {times(bounds.max_over_mean)}"


def _cv_floors(document: PlanDocument) -> str:
    bounds = _bounds(document)
    if not bounds:
        return ""
    least = bounds.cv if bounds.cv > 1e-9 else 0.0  # what rounding leaves of nothing is nothing
    return f"floor {percent(least)}; noise of the sample {percent(bounds.noise_cv)}"


# What a change costs and whether it holds: keys and traffic moved, lanes that wait, lane counts by reason, folds.

#: Up to so many lanes, what each waits for is also written out.
MOST_LISTED = 128


def change_line(document: PlanDocument) -> tuple[str, str]:
    """The cost of the change in a figure and a line."""
    change = document.change
    if change is None:
        return "not compared", "there is no contract of today"
    if not document.changes:
        return "nothing", "the contract stays as it is"
    steps = f"; {plural(len(document.by_hand), 'step')} by hand" if document.by_hand else ""
    return f"{share(change.moved_traffic or 0)} moves", f"of {all_keyed(document)}, {keys_moved(document)}{steps}"


def change_section(document: PlanDocument) -> Markup | None:
    """Shares that move, what breaks, and which old lanes each new lane waits for; None where nothing changes."""
    change = document.change
    if change is None or not document.changes:
        return None
    return section(
        "change",
        None if change.possible else "This change cannot be made in place.",
        facts(
            fact("Keys moved", keys_moved(document), _expected(change.expected)),
            fact("Traffic moved", share(change.moved_traffic or 0), "weighed with the records of each key"),
            *_waiting(change),
        ),
        _steps(document.by_hand),
        tag("div", _broken(_care(change)), _waits(change), class_="pair"),
    )


def _steps(found: list[ByHand]) -> Markup | None:
    """What only people can do, in order, as `keylane apply` lists it."""
    if not found:
        return None
    items = [
        tag("li", tag("b", sentence(one.who).removesuffix(".")), f": {visible(one.what)}", *_commands(one.commands))
        for one in found
    ]
    return join(tag("h3", f"By hand, {plural(len(found), 'step')}"), tag("ol", *items, class_="steps"))


def _commands(found: list[str]) -> list[Markup]:
    return [tag("div", tag("code", visible(command))) for command in found]


def _expected(expected: float | None) -> str | None:
    return None if expected is None else f"{percent(expected)} expected of hashed keys by the contracts alone"


def _waiting(change: ChangeCost) -> list[Markup]:
    if change.fan_in is None or change.old_lanes is None:
        return []
    waits = [len(row.for_) for row in change.waits_for or []]
    mean = f"; {sum(waits) / len(waits):.1f} in the mean" if waits else ""
    return [fact("A new lane waits for at most", count(change.fan_in), f"of {count(change.old_lanes)} old lanes{mean}")]


def _care(change: ChangeCost) -> list[tuple[str, str]]:
    """What breaks or needs care: a kind and a sentence each. What is safe is none of it."""
    kinds = [(named("kinds", one.kind), one.message) for one in change.kinds if one.kind != "safe"]
    epoch = change.epoch_to_raise
    raised = [("Epoch", f"the new contract has epoch {epoch}")] if epoch is not None else []
    return [*kinds, *raised]


def _broken(care: list[tuple[str, str]]) -> Markup | None:
    if not care:
        return None
    rows = [join(tag("dt", kind), tag("dd", sentence(message))) for kind, message in care]
    return aside("What the change is", tag("dl", *rows, class_="kinds"))


def _waits(change: ChangeCost) -> Markup | None:
    """The picture of what waits for what; a document leaves it out where every lane waits for very many."""
    parents = [row.for_ for row in change.waits_for or []]
    if change.old_lanes is None or not any(parents):
        return None
    drawn = tag("div", read_by_keys(waits_for(parents, change.old_lanes)), class_="chart square")
    return tag("figure", tag("h3", "Old lanes that a new lane waits for"), drawn, _listed(parents))


def _listed(parents: list[list[int]]) -> Markup | None:
    if len(parents) > MOST_LISTED:
        return None
    items = [
        tag("li", tag("b", f"{lane} "), f"waits for {lanes(old, 40) or 'none'}") for lane, old in enumerate(parents)
    ]
    return tag("details", tag("summary", "As a list"), tag("ul", *items, class_="waits"))


def sizing_section(document: PlanDocument) -> Markup | None:
    """Lane counts by each reason as bars, what they come to, and what was assumed."""
    sizing = document.sizing
    if sizing is None:
        return None
    return section(
        "sizing",
        None,
        facts(*_sized(sizing)),
        _reasons(sizing, document.chosen.lanes) if sizing.reasons else None,
        bullets([sentence(line) for line in sizing.says], "says"),
    )


def _sized(sizing: PlanSizing) -> list[Markup]:
    """The figures of a sizing that there are."""
    rate, readers, faster = sizing.fullest_lane_mb_s, sizing.useful_readers, sizing.parallelism
    shown = (
        ("Fewest lanes", None if sizing.fewest is None else count(sizing.fewest), "that carry it"),
        ("Suggested", None if sizing.lanes is None else count(sizing.lanes), "so that doublings move the fewest keys"),
        ("Fullest lane", None if rate is None else throughput(rate), "at the peak"),
        ("Readers of use", None if readers is None else count(readers), "side by side"),
        ("Faster than one reader", None if faster is None else times(faster), "held up by the fullest lane"),
    )
    return [fact(title, figure, note) for title, figure, note in shown if figure is not None]


def _reasons(sizing: PlanSizing, chosen: int) -> Markup:
    most = max([chosen, *(row.lanes or 0 for row in sizing.reasons)])
    heads = ("Reason", tag("th", "Lanes", scope="col", class_="n"), f"Mark: the {count(chosen)} chosen", "Because")
    rows = (_reason(row, most, chosen, decides=row.reason == sizing.binding) for row in sizing.reasons)
    return table(heads, rows, "Lanes by each reason", "reasons")


def _reason(row: SizingReason, most: int, chosen: int, *, decides: bool) -> Markup:
    found = "none is enough" if row.lanes is None else count(row.lanes)
    drawn = bar((row.lanes or most) / most, f"lanes: {found}", kind="after", mark=chosen / most)
    return tag(
        "tr",
        tag("th", named("reasons", row.reason), tag("small", "decides") if decides else None, scope="row"),
        tag("td", found, class_="n"),
        tag("td", drawn, class_="wide"),
        tag("td", sentence(row.says), class_="long"),
    )


def folds_section(document: PlanDocument) -> Markup | None:
    """Each cut in time: fitted before it, scored after it; the one that the promise is from is marked."""
    folds, windows = document.folds, document.profile.windows
    if not folds:
        return None
    most = max(max(fold.fitted, fold.scored) for fold in folds)
    promise = document.chosen.max_over_mean
    right = [tag("th", title, scope="col", class_="n") for title in ("Fitted", "Scored")]
    heads = ("Fitted until", "Scored until", *right, f"From fitted to scored, 1× to {times(most)}")
    rows = (_fold(fold, windows, most, promised=fold.scored == promise) for fold in folds)
    return section("folds", intro_of("folds"), table(heads, rows, "Folds", "folds"))


def _fold(fold: FoldRow, windows: ProfileWindows, most: float, *, promised: bool) -> Markup:
    says = f"fitted {times(fold.fitted)}, scored {times(fold.scored)}"
    cut, end = edge_name(fold.fitted_until, windows), edge_name(fold.scored_until, windows)
    what = "record " if windows.kind == "position" else ""
    return tag(
        "tr",
        tag("th", f"{what}{cut}", tag("small", "the figures above") if promised else None, scope="row"),
        tag("td", f"{what}{end}"),
        tag("td", times(fold.fitted), class_="n"),
        tag("td", times(fold.scored), class_="n"),
        tag("td", _from_to(fold.fitted, fold.scored, most, says), class_="wide"),
    )


def _from_to(fitted: float, scored: float, most: float, says: str) -> Markup:
    """A line from the hollow dot of what was fitted to the full one of what held, from 1 to the worst of all folds."""
    start, end = (length(0.04 + 0.92 * (value - 1) / (most - 1 or 1)) for value in (fitted, scored))
    return tag(
        "svg",
        tag("title", says),
        tag("line", x1=start, x2=end, y1="50%", y2="50%", class_="way"),
        tag("circle", cx=start, cy="50%", r="4", class_="fitted"),
        tag("circle", cx=end, cy="50%", r="5", class_="scored"),
        class_="from-to",
        role="img",
        aria_label=says,
    )

"""What the keys look like: by rank, hot lanes and their causes, heavy keys, look-alikes, records without a key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from keylane.report.curves import distinct_keys, key_ranks, spark
from keylane.report.draw import bar
from keylane.report.markup import Markup, join, tag
from keylane.report.parts import aside, chart, fact, facts, named, section, sentence, table, words
from keylane.report.words import chance, count, percent, share, times, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["hot_section", "keys_section", "ranks_section"]

Profile = dict[str, Any]


def ranks_section(profile: Profile, lanes: Sequence[int], ceiling: dict[str, Any] | None = None) -> Markup | None:
    """The curve of keys by rank, and beside it what the heaviest key allows."""
    ranks = profile["key_ranks"]
    if not ranks:
        return None
    drawn = chart(partial(_drawn, ranks, tuple(lanes)), 820)
    return section("ranks", _head_says(ranks), tag("div", drawn, _beside(ranks, ceiling), class_="with-aside"))


def _drawn(ranks: list[dict[str, Any]], lanes: tuple[int, ...], width: int) -> Markup:
    return key_ranks(ranks, lanes, width)


def _head_says(ranks: list[dict[str, Any]]) -> str:
    first = ranks[0]
    return f"{count(ranks[-1]['rank'])} keys. The heaviest has {share(first['share'])} of the records."


def _beside(ranks: list[dict[str, Any]], ceiling: dict[str, Any] | None) -> Markup:
    rows = [
        tag("tr", tag("th", _top(row["rank"]), scope="row"), tag("td", share(row["cumulative"]), class_="n"))
        for row in _milestones(ranks)
    ]
    held = aside("Records they hold", tag("table", tag("tbody", *rows), class_="small"))
    if ceiling is None:
        return tag("div", held)
    useful = tag("p", sentence(ceiling["says"]))
    return tag("div", held, aside("What the heaviest key allows", useful))


def _top(rank: int) -> str:
    return "heaviest key" if rank == 1 else f"heaviest {count(rank)}"


def _milestones(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows nearest to 1, 10, 100, … keys; the last of all has everything, and says nothing."""
    found = {}
    goal = 1
    while goal < ranks[-1]["rank"]:
        nearest = min(ranks, key=lambda row: (abs(row["rank"] - goal), row["rank"]))
        found[nearest["rank"]] = nearest
        goal *= 10
    return [row for rank, row in found.items() if rank < ranks[-1]["rank"]]


def hot_section(profile: Profile) -> Markup | None:
    """Lanes that are fuller than chance allows, each with its cause and the evidence; None where nothing was asked."""
    hot = profile["hot"]
    if hot is None:
        return None
    by_chance = "By chance: how often a fair hash of the same keys fills some lane as much"
    alarm = f"{by_chance}; below {chance(hot['alpha'])} is an alarm."
    found = _hot_table(hot["lanes"]) if hot["lanes"] else None
    return section("hot", sentence(hot["verdict"]), found, tag("p", alarm, class_="fine"))


def _hot_table(lanes: list[dict[str, Any]]) -> Markup:
    most = max(row["over_mean"] for row in lanes)
    heads = (tag("th", "Lane", scope="col", class_="n"), "Over the mean", "Cause", "Evidence", _right("By chance"))
    return table(heads, (_hot_row(row, most) for row in lanes), "Hot lanes", "hot")


def _hot_row(row: dict[str, Any], most: float) -> Markup:
    over, part = times(row["over_mean"]), f"{share(row['share'])} of the records"
    full = join(tag("b", over), bar(row["over_mean"] / most, over, kind="heat"), tag("small", part))
    return tag(
        "tr",
        tag("th", count(row["lane"]), scope="row", class_="n"),
        tag("td", full),
        tag("td", tag("b", named("causes", row["cause"]))),
        tag("td", sentence(visible(row["evidence"])), class_="long"),
        tag("td", "–" if row["chance"] is None else chance(row["chance"]), class_="n"),
    )


def _right(title: str) -> Markup:
    return tag("th", title, scope="col", class_="n")


def keys_section(profile: Profile, lanes: int | None) -> Markup:
    """Everything that is known of the keys."""
    return section(
        "keys",
        words("page")["keys_are_private"],
        _totals(profile),
        tag("div", _over_time(profile["windows"]), _lookalikes(profile["lookalikes"]), class_="pair"),
        _heavy(profile, lanes),
    )


def _totals(profile: Profile) -> Markup:
    without, records = profile["without_key"], profile["records"] or 1
    none = [(f"{kind.capitalize()} key", without[kind]) for kind in ("null", "empty", "malformed")]
    return facts(
        fact("Records", count(profile["records"]), _size(profile["bytes"])),
        fact("Distinct keys", count(profile["distinct_keys"]), _about(profile["approximate"])),
        *(fact(title, count(found), f"{percent(found / records)} of the records") for title, found in none),
    )


def _size(size: int | None) -> str | None:
    if size is None:
        return None
    for unit, letter in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {letter}"
    return f"{count(size)} bytes"


def _about(approximate: dict[str, Any] | None) -> str | None:
    if not approximate:
        return "counted exactly"
    error = approximate.get("distinct_error")
    return "by a sketch" if error is None else f"by a sketch, ± {percent(error)}"


def _over_time(windows: dict[str, Any]) -> Markup | None:
    if not windows["records"]:
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


def _lookalikes(found: dict[str, Any] | None) -> Markup | None:
    if not found or not found["groups"]:
        return tag(
            "div", tag("h3", "Look-alike keys"), tag("p", "None: no two keys differ in looks only.", class_="fine")
        )
    groups = (
        f"{count(found['groups'])} groups, {count(found['records'])} records: one key to the eye, several to a hash."
    )
    rows = [_lookalike(example) for example in found["examples"]]
    heads = ("They differ in", "Keys", _right("Records"))
    return tag(
        "div",
        tag("h3", "Look-alike keys"),
        tag("p", groups, class_="fine"),
        table(heads, rows, "Look-alike keys", "alike"),
    )


def _lookalike(example: dict[str, Any]) -> Markup:
    keys = [tag("div", _key(key)) for key in example["keys"]]
    records = [tag("div", count(found)) for found in example["records"]]
    kind = named("lookalikes", example["kind"])
    return tag("tr", tag("th", kind, scope="row"), tag("td", *keys), tag("td", *records, class_="n"))


def _key(key: str) -> Markup:
    return tag("bdi", tag("code", visible(key), class_="key"))


def _heavy(profile: Profile, lanes: int | None) -> Markup | None:
    heavy = profile["heavy"]
    if not heavy:
        return None
    errors = any(row["error"] for row in heavy)
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


def _heavy_row(row: dict[str, Any], lanes: int | None, *, errors: bool) -> Markup:
    off = tag("td", count(row["error"]), class_="n") if errors else None
    return tag(
        "tr",
        tag("td", count(row["rank"]), class_="n"),
        tag("th", _key(row["key"]), scope="row"),
        tag("td", count(row["records"]), class_="n"),
        off,
        tag("td", share(row["share"]), class_="n"),
        _fills(row["share"] * lanes) if lanes else None,
        tag("td", spark(row["by_window"], f"rank {row['rank']} over time"), class_="over-time"),
    )


def _fills(lane: float) -> Markup:
    """How much of one lane's fair share a key takes; above all of it, it cannot be placed well."""
    says = percent(lane, 0) if lane <= 1 else f"{times(lane, 1)} a lane"
    return tag("td", tag("div", tag("span", says), bar(lane, says, kind="heat"), class_="fills"))

"""`keylane assign`: who reads which lane, now and after a member comes, goes or restarts."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import (
    Applies,
    bytes_in,
    check_applies,
    client_options,
    grouped,
    length_of_time,
    properties_from,
    written_applies,
)
from keylane.cli.output import Form, Result, Section, check_apart, check_free, output_option, write
from keylane.numbers import agree, amount, count, duration, plural, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.documents.assign import AssignDocument

MEMBERS: Final = ("member", "lanes", "which", "gained", "lost", "load", "lag", "rack", "instance")
#: What matters most comes first: a narrow terminal cuts the rest off.
COMPARED: Final = (
    *("assignor", "moved", "moves", "unowned", "stopped", "lanes_paused", "longest_pause", "max_over_mean"),
    *("lane_seconds", "protocol", "fewest", "most", "idle"),
)
MOVES: Final = ("topic", "lane", "from", "to")
#: Rows that a table shows; all of them are in the other formats.
SHOWN: Final = 50
#: Letters of a list of lanes.
WIDTH: Final = 60
_FORMS: Final[dict[str, Form]] = {
    "max_over_mean": times,
    "load": amount,
    "longest_pause": lambda seconds: duration(seconds) if seconds else "0",
    "lane_seconds": lambda seconds: duration(seconds) if seconds else "0",
}

change_options: Final = grouped(
    click.option("--remove", multiple=True, metavar="NAME", help="A member that leaves; several: A,B, or repeated."),
    click.option("--add", multiple=True, metavar="NAME", help="A member that joins, with all topics."),
    click.option("--bounce", multiple=True, metavar="NAME", help="A member that restarts."),
    click.option("--rolling", is_flag=True, help="All members restart, one after the other: a rolling deploy."),
    click.option("--static-members", is_flag=True, help="Members have group.instance.id: a restart is no rebalance."),
    click.option("--state", metavar="SIZE", help="State of one lane that its reader has to restore: 500MB, 2GB."),
    click.option("--restore-rate", metavar="SIZE", default="50MB", show_default=True, help="Restored a second."),
    click.option(
        *("--round", "round_seconds"),
        metavar="TIME",
        default="3s",
        show_default=True,
        callback=length_of_time,
        help="How long members take to agree once: a heartbeat.",
    ),
    click.option(
        *("--restart", "restart_seconds"),
        metavar="TIME",
        default="30s",
        show_default=True,
        callback=length_of_time,
        help="How long a member is away when it restarts.",
    ),
)


@click.command(short_help="Who reads which lane, and what a change of members moves.")
@click.argument("source", required=False, metavar="[GROUP.json|kafka://HOST:PORT]")
@click.option("--lanes", metavar="N[,N…]", help="Lanes of each topic; with names: orders=6,payments=12.")
@click.option("--members", metavar="A,B,C", help="The members by name, or how many.")
@click.option("--assignor", metavar="NAME", help="range, round-robin, sticky, …; default: all of them side by side.")
@click.option("--previous", type=click.Path(path_type=Path), metavar="FILE", help="The assignment before, as printed.")
@click.option("--loads", type=click.Path(path_type=Path), metavar="FILE", help="What lanes carry, as JSON.")
@click.option("--reads", multiple=True, metavar="A=T,T", help="A member reads these topics only; repeatable.")
@click.option("--rack", "racks", multiple=True, metavar="A=RACK", help="Where a member runs; repeatable.")
@click.option("--group", metavar="NAME", help="The group to read from the brokers.")
@change_options
@click.option("--map", "map_", type=click.Path(), metavar="FILE", help="Write member -> lanes, for assign().")
@click.option("--report", type=click.Path(), metavar="FILE", help="Write a page to look at.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@client_options
@output_option
def assign(
    source: str | None, map_: str | None, report: str | None, force: bool, output: str, **rest: Any
) -> tuple[Result, str]:
    """Assign lanes (partitions) to the members of a group, and compare what a change costs under every assignor.

    The group is numbers, a file, or a live group on brokers, which is only read. A change is --remove, --add,
    --bounce or --rolling. Assignors: range, round-robin, sticky, cooperative-sticky, uniform (what brokers do since
    Kafka 4), static, and by-load, which weighs lanes by --loads, or by the lag of a live group.

    \b
    keylane assign --lanes 6 --members 2
    keylane assign --lanes 12,12 --members A,B,C --remove B --state 2GB
    keylane assign --lanes 12 --members 3 --assignor by-load --loads loads.json
    keylane assign kafka://localhost:9092 --group payments --rolling
    """
    from keylane.groups.changes import WaitTiming
    from keylane.pipelines.assign import Wanted, assign_group

    restarts = bool(rest["bounce"]) or rest["rolling"]
    changes = restarts or bool(rest["remove"] or rest["add"])
    check_applies(
        Applies(("pairs", "file", "group"), source is not None and "://" in source, "brokers: kafka://HOST:PORT"),
        Applies(("state", "round_seconds"), changes, "a change: --remove, --add, --bounce or --rolling"),
        Applies(("restart_seconds", "static_members"), restarts, "--bounce or --rolling"),
        Applies(("restore_rate",), rest["state"] is not None, "--state"),
        written_applies(map_, report, options="--map or --report"),
    )
    files = [rest["previous"], rest["loads"], Path(source) if source and "://" not in source else None]
    check_apart(map_, report, inputs=files)
    for path in (map_, report):
        check_free(path, force=force)
    rate = bytes_in(rest.pop("restore_rate"), "--restore-rate", "bytes a second, as 50MB")
    size = rest.pop("state")
    state = 0 if size is None else bytes_in(size, "--state", "a size, as 500MB or 2GB")
    timing = WaitTiming(rest.pop("round_seconds"), rest.pop("restart_seconds"), state / rate)
    named = {name: _names(rest.pop(name), f"--{name}") for name in ("remove", "add", "bounce")}
    wanted = Wanted(**named, rolling=rest.pop("rolling"), timing=timing, static_members=rest.pop("static_members"))
    properties = properties_from(rest)
    document = assign_group(source, properties=properties, wanted=wanted, **rest)
    if map_:
        write(map_, json.dumps(document.as_json()["assignment"], indent=2) + "\n")
    if report:
        from keylane.report.assign_page import assign_page

        write(report, assign_page(document))
    written = [f"{name}: {path}" for name, path in (("map", map_), ("page", report)) if path]
    return _result(document, written), output


def _names(given: Sequence[str], option: str) -> tuple[str, ...]:
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if not name or names.count(name) > 1:
            what = "names a member twice" if name else "takes names of members"
            raise click.UsageError(f"{option} {what}, got {','.join(given)!r}")
    return tuple(names)


def _result(document: AssignDocument, written: list[str]) -> Result:
    rows = [{**row.as_json(), "which": shown_lanes(document.assignment[row.member], WIDTH)} for row in document.members]
    changed = document.before is not None
    columns = [
        name
        for name in MEMBERS
        if name in {"member", "lanes", "which"}
        or (name in {"gained", "lost"} and changed)
        or (name in {"load", "lag", "rack", "instance"} and any(row[name] is not None for row in rows))
    ]
    moves = [move.as_json() for move in document.moves]
    sections = [
        Section(tuple(columns), rows, forms=_FORMS, for_programs=len(rows) > SHOWN),
        *(
            [Section(tuple(columns), rows[:SHOWN], f"The first {SHOWN} members:", forms=_FORMS)]
            if len(rows) > SHOWN
            else []
        ),
        _compared(document),
        Section(MOVES, moves[:SHOWN], _moves_title(len(moves))),
    ]
    return Result(document, sections, [*document.notes, *written], 0, _answer(document))


def _compared(document: AssignDocument) -> Section:
    rows = document.compared
    empty = {"max_over_mean"} if document.cost.max_over_mean is None else set()
    if not document.steps:
        empty |= {"stopped", "lanes_paused", "longest_pause", "lane_seconds", "moved"}
    empty |= set() if any(row.moves > row.moved for row in rows) else {"moves"}
    empty |= set() if any(row.unowned for row in rows) else {"unowned"}
    columns = tuple(name for name in COMPARED if name not in empty)
    heads = {"max_over_mean": "fullest", "lane_seconds": "lane time paused", "stopped": "disturbed"}
    steps = ", ".join(document.steps[:4]) + (", …" if len(document.steps) > 4 else "")
    title = f"Every assignor, for: {steps}" if steps else "Every assignor:"
    return Section(columns, rows, title, forms=_FORMS, heads=heads, unbroken=("assignor",))


def _moves_title(moves: int) -> str:
    return f"Moves, the first {SHOWN} of {count(moves)}:" if moves > SHOWN else "Moves:"


def _answer(document: AssignDocument) -> list[str]:
    lanes = plural(sum(document.topics.values()), "lane")
    members = plural(len(document.members), "member")
    cost = document.cost
    each = count(cost.most) if cost.fewest == cost.most else f"{count(cost.fewest)} to {count(cost.most)}"
    lines = [f"{document.assignor}: {lanes} (partitions) for {members}, {each} each"]
    if document.before is not None:
        who = plural(cost.stopped, "member")
        stops = agree(cost.stopped, "stops", "stop")
        if cost.protocol != "eager":
            stops = f"{agree(cost.stopped, 'gives', 'give')} up lanes and {agree(cost.stopped, 'goes', 'go')} on"
        stop = f"{who} {stops}" if cost.stopped else "no member stops"
        if cost.lanes_paused:
            stop += f"; {plural(cost.lanes_paused, 'lane')} paused, for at most {duration(cost.longest_pause)}"
        on_the_way = f" in the end, by {plural(cost.moves, 'move')} on the way" if cost.moves > document.moved else ""
        lines.append(f"{plural(document.moved, 'lane')} {agree(document.moved, 'moves', 'move')}{on_the_way}; {stop}")
    if cost.max_over_mean is not None:
        lines.append(f"the fullest member carries {times(cost.max_over_mean)} the mean")
    return lines


def shown_lanes(lanes: Sequence[tuple[str, int]], width: int) -> str:
    """Lanes as a person writes them, cut where there are many.

    >>> shown_lanes([("t", 0), ("t", 1), ("t", 2), ("t", 5), ("u", 3)], 40)
    't 0-2,5; u 3'
    """
    by_topic: dict[str, list[int]] = {}
    for topic, index in lanes:
        by_topic.setdefault(topic, []).append(index)
    text = ""
    for topic, indexes in by_topic.items():
        text += f"{'; ' if text else ''}{topic} {_runs(indexes)}"
        if len(text) > width:
            return f"{text[:width]}…"
    return text or "none"


def _runs(indexes: list[int]) -> str:
    starts = [indexes[0], *(after for before, after in pairwise(indexes) if after != before + 1)]
    ends = [*(before for before, after in pairwise(indexes) if after != before + 1), indexes[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))

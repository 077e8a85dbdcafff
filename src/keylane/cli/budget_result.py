"""What `keylane budget` found, as a document, a table and words. The command itself: `budget`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from keylane.cli.output import Result, Section
from keylane.plan.budget import ALERT, Layout, figures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.plan.budget import Figures, Spread
    from keylane.plan.order import UnderWay
    from keylane.plan.reassign import Change
    from keylane.systems.kafka_reassign import Applied

__all__ = ["as_result", "question", "status_result"]

COLUMNS = ("broker", "rack", "replicas", "leaders", "bytes", "receives", "sends", "replicas_after", "leaders_after")


def as_result(
    address: str,
    layout: Layout,
    change: Change,
    options: Mapping[str, Any],
    *,
    files: Mapping[str, str | None] | None,
    done: Applied | None,
    busy: int,
) -> Result:
    """The budget of a cluster as it is, what is proposed, and what was done. 3: proposed; 4: wrong, and not mended."""
    found = figures(layout, limit=options["limit"])
    after = figures(Layout(layout.brokers, change.after), limit=options["limit"])
    proposed = not change.is_empty and done is None
    findings = _findings(found, options["limit"], 0 if done else busy, done)
    rows = _rows(layout, found, after, change)
    document = {
        "schema": "keylane.budget/1",
        "cluster": address,
        "fingerprint": change.fingerprint,
        "ok": not findings,
        "alert": ALERT,
        "limit": options["limit"],
        "lanes": len(layout.lanes),
        "replicas": _spread(found.replicas),
        "leaders": _spread(found.leaders),
        **{name: getattr(found, name) for name in WRONG},
        "not_preferred": found.not_preferred,
        "over_limit": list(found.over_limit),
        "under_way": 0 if done else busy,
        "brokers": rows,
        "findings": findings,
        "plan": None if change.is_empty else _plan(change, after, options["rate"]),
        "files": None if files is None else dict(files),
        "applied": None if done is None else asdict(done),
    }
    code = 3 if proposed else 4 if findings else 0
    lines = [*findings, *_said(change, options, files, done), *([] if findings or proposed else ["in balance"])]
    return Result(document, [Section(COLUMNS, rows)], lines, code)


#: Figures that should be nought, and what one more of them is called.
WRONG = {
    "under_replicated": "{:,} lane(s) with a copy behind or gone",
    "offline": "{:,} lane(s) that nobody leads",
    "below_min_isr": "{:,} lane(s) with fewer copies in step than the topic demands",
    "rack_violations": "{:,} lane(s) on fewer racks than they could be",
}


def _findings(found: Figures, limit: int, busy: int, done: Applied | None) -> list[str]:
    """What is wrong, in words."""
    said = [
        _uneven(name, one) for name, one in (("replicas", found.replicas), ("leaders", found.leaders)) if not one.even
    ]
    said += [text.format(getattr(found, name)) for name, text in WRONG.items() if getattr(found, name)]
    said += [f"broker {broker} has more than {limit:,} replicas" for broker in found.over_limit]
    said += [f"{busy:,} lane(s) are being moved; a plan is made when that is done"] if busy else []
    return said + ([f"{done.not_elected:,} preferred leader(s) not elected"] if done and done.not_elected else [])


def _uneven(name: str, one: Spread) -> str:
    shown = "a broker has none" if one.over_min is None else f"max/min {one.over_min:.2f}"
    return f"{name} per broker: {shown}, over the alert of {ALERT}"


def _spread(one: Spread) -> dict[str, Any]:
    most, least = max(one.counts, default=0), min(one.counts, default=0)
    ratios = {"max_over_min": one.over_min, "max_over_mean": one.over_mean}
    return {"total": sum(one.counts), "max": most, "min": least, **ratios, "even": one.even}


def _rows(layout: Layout, found: Figures, after: Figures, change: Change) -> list[dict[str, Any]]:
    received, sent = change.received(), change.sent()
    return [
        {
            "broker": broker.id,
            "rack": broker.rack,
            "replicas": found.replicas.counts[i],
            "leaders": found.leaders.counts[i],
            "bytes": found.bytes[i] if found.bytes is not None else None,
            "receives": received.get(broker.id, 0) if received is not None else None,
            "sends": sent.get(broker.id, 0) if sent is not None else None,
            "replicas_after": after.replicas.counts[i],
            "leaders_after": after.leaders.counts[i],
        }
        for i, broker in enumerate(layout.brokers)
    ]


def _plan(change: Change, after: Figures, rate: int | None) -> dict[str, Any]:
    return {
        "partitions": [
            {
                "topic": move.topic,
                "partition": move.partition,
                "before": list(move.before),
                "replicas": list(move.replicas),
            }
            for move in change.moves
        ],
        "elections": [{"topic": topic, "partition": partition} for topic, partition in change.elections],
        "moved_replicas": change.copies,
        "leader_changes": change.leaders,
        "moved_bytes": change.bytes,
        "throttle": rate,
        "seconds": change.seconds(rate),
        "replicas": _spread(after.replicas),
        "leaders": _spread(after.leaders),
    }


def _said(
    change: Change, options: Mapping[str, Any], files: Mapping[str, str | None] | None, done: Applied | None
) -> list[str]:
    if change.is_empty:
        return []
    written = ", ".join(path for path in (files or {}).values() if path)
    wrote = [f"written: {written}"] if written else []
    if done:
        lists = f"{done.lanes:,} lane(s) have their new replica list, {done.elected:,} leader(s) changed"
        return [*wrote, f"done in {done.seconds:,.1f} s: {lists}"]
    return [f"proposed: {cost(change, options['rate'])}", *wrote]


def cost(change: Change, rate: int | None) -> str:
    """What a change amounts to, in words."""
    size = "size unknown" if change.bytes is None else f"{change.bytes / 1e6:,.1f} MB"
    seconds = change.seconds(rate)
    time = f" (at least {seconds:,.1f} s at {(rate or 0) / 1e6:,.1f} MB/s and broker)" if seconds else ""
    reordered = sum(not move.added for move in change.moves)
    parts = [f"{change.copies:,} replica(s) move, {size}{time}"] if change.copies else []
    parts += [f"{reordered:,} list(s) in another order"] if reordered else []
    return ", ".join([*parts, f"{change.leaders:,} leader(s) change"])


def question(change: Change, rate: int | None) -> str:
    """What is asked before a cluster is changed."""
    return f"{cost(change, rate)}. Carry it out?"


def status_result(
    address: str, busy: Mapping[tuple[str, int], UnderWay], set_now: Mapping[str, Mapping[str, Mapping[str, str]]]
) -> Result:
    """What is under way, and which throttles are set."""
    rows = [
        {"topic": topic, "partition": partition, "adding": list(one.adding), "removing": list(one.removing)}
        for (topic, partition), one in sorted(busy.items())
    ]
    told = [
        {"kind": kind, "name": name, "setting": setting, "value": value}
        for kind, names in set_now.items()
        for name, settings in names.items()
        for setting, value in settings.items()
    ]
    document = {"schema": "keylane.budget-status/1", "cluster": address, "under_way": rows, "throttles": told}
    lines = [] if rows else ["nothing is under way"]
    lines += [f"throttle on {one['kind']} {one['name']}: {one['setting']} = {one['value']}" for one in told]
    return Result(document, [Section(("topic", "partition", "adding", "removing"), rows)], lines)

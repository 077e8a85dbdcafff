"""The figures of a running match: of each batch, and of all of them. The document that it ends with: `document`.

What is alerted on, and when: docs/how-to/match-stream.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.documents.match import LaneLag, MatchLatency, Offers
from keylane.measure.balance import cv, noise_floor
from keylane.pipelines.match.document import MatchTotals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.pipelines.match.follow_batch import Answered, Loads, Waiting
    from keylane.pipelines.match.watermark import Unread

_SUMS: Final = ("asked", "border", "copies", "tombstones", "changed")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch wrote: pairs, riders with one, dead letters by source and reason, offers."""

    pairs: int
    riders: int
    dead: dict[str, dict[str, int]]
    offers: Offers | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a batch, and the counts of all batches up to it."""

    metrics: dict[str, Any]
    total: dict[str, Any]


def empty_counts(lanes: int) -> dict[str, Any]:
    """Before the first batch."""
    counts: dict[str, Any] = dict.fromkeys((*_SUMS, "pings", "late", "pairs", "riders_with_a_match", "ghosts"), 0)
    return {**counts, "pending": 0, "dead": {"drivers": {}, "riders": {}}, "lane_loads": [0] * lanes, "offers": None}


def added(
    before: Mapping[str, Any],
    answered: Answered,
    loads: Loads,
    result: BatchResult,
    waits: Waiting,
    unread: Unread,
    began: float,
) -> Figures:
    """The figures of a batch, and the counts with it."""
    found = before or empty_counts(len(answered.lanes))
    here = {name: sum(row[name] for row in answered.lanes) for name in _SUMS}
    here |= {"pings": sum(loads.lanes.values()), "late": loads.late, "ghosts": answered.ghosts}
    here |= {"pairs": result.pairs, "riders_with_a_match": result.riders}
    total: dict[str, Any] = {name: found[name] + count for name, count in here.items()}
    total |= {"pending": waits.requests, "dead": _summed(found["dead"], result.dead)}
    total["offers"] = result.offers and result.offers.as_json()
    total["lane_loads"] = [count + loads.lanes.get(lane, 0) for lane, count in enumerate(found["lane_loads"])]
    metrics = {
        "at": round(time.time(), 3),
        "seconds": round(time.time() - began, 3),
        **here,
        "dead": result.dead,
        "ahead": loads.ahead,
        "match_latency_ms": _latency(waits.middle, waits.oldest),
        "border_share": here["border"] / here["asked"] if here["asked"] else 0.0,
        "waiting": waits.requests,
        "lag": unread.by_lane(),
        "entries": sum(row["entries"] for row in answered.lanes),
        "stays": sum(row["stays"] for row in answered.blocks),
        "lane_cv": cv(total["lane_loads"]),
        "noise_floor": noise_floor(len(total["lane_loads"]), sum(total["lane_loads"])),
    }
    return Figures(metrics, total)


def totals(counts: Mapping[str, Any], latest: Mapping[str, Any]) -> MatchTotals:
    """The counts of all batches as a document has them; `latest` are the metrics of the last batch of this run."""
    latency, lag, offers = latest.get("match_latency_ms"), latest.get("lag"), counts["offers"]
    return MatchTotals(
        requests=counts["asked"],
        pings=counts["pings"],
        pairs=counts["pairs"],
        riders_with_a_match=counts["riders_with_a_match"],
        copies=counts["copies"],
        border=counts["border"],
        ghosts=counts["ghosts"],
        dead=counts["dead"],
        loads=counts["lane_loads"],
        offers=Offers.model_validate(offers) if offers else None,
        latency=MatchLatency.model_validate(latency) if latency else None,
        lag=[LaneLag.model_validate(one) for one in lag] if lag is not None else None,
        tombstones=counts["tombstones"],
        late_pings=counts["changed"],
        pending=counts["pending"],
    )


def _latency(middle: int | None, oldest: int | None) -> dict[str, float] | None:
    """How long the riders of this batch have waited since they asked."""
    if middle is None or oldest is None:
        return None
    now = time.time() * 1000
    # A clock that is ahead of ours has not waited at all.
    return {name: max(0.0, round(now - ts / 1000, 1)) for name, ts in (("p50", middle), ("p99", oldest))}


def _summed(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return {
        side: {
            reason: one[side].get(reason, 0) + other[side].get(reason, 0)
            for reason in sorted({*one[side], *other[side]})
        }
        for side in ("drivers", "riders")
    }

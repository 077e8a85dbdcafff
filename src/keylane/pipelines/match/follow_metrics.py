"""The figures of a running match: of each batch, and of all of them. The document that it ends with: `document`.

What is alerted on, and when: docs/how-to/match-stream.md.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.documents.match import LaneLag, MatchLatency, Offers
from keylane.measure.balance import cv, noise_floor
from keylane.pipelines.match.document import MatchTotals
from keylane.pipelines.stateful.state_folder import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SUMS: Final = ("asked", "border", "copies", "tombstones", "changed")
#: What the steps count, beside what is by lane.
_COUNTED: Final = (
    *_SUMS,
    *("pings", "late", "ahead", "reported", "late_requests", "waiting", "stays", "drivers", "entries"),
    *("state_bytes", "restored", "pairs", "riders", "ghosts"),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a batch, and the counts of all batches up to it."""

    metrics: dict[str, Any]
    total: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What the steps of the plan counted in a batch, of all slots together.

    `read` is how many records of each source were read; `ripe` has times of requests that were answered, each with how
    many it stands for. `oldest` is the time of the oldest ping that still counts, where that is asked for. `slots` has
    of each slot of each step the batch that wrote the state that it found.
    """

    sums: Mapping[str, int]
    loads: Mapping[int, int]
    read: Mapping[str, int]
    ripe: tuple[tuple[int, float], ...]
    unread: Mapping[str, int] | None
    newest: int
    oldest: int | None
    slots: Mapping[str, int]
    offers: Offers | None = None

    @staticmethod
    def of(texts: Iterable[str]) -> BatchCounts:
        """Sums of the rows that the steps wrote, as JSON."""
        rows = [json.loads(text) for text in texts]
        homes = [row for row in rows if row["step"] == "homes"]
        sums = {name: sum(row.get(name, 0) for row in rows) for name in _COUNTED}
        loads: Counter[int] = Counter()
        for row in homes:
            loads.update({int(lane): count for lane, count in row["loads"].items()})
        ripe = ((ts, row["ripe_count"] / len(row["ripe"])) for row in homes for ts in row["ripe"])
        read = {side: sum(row.get(f"{side}_read", 0) for row in homes) for side in ("drivers", "riders")}
        unread = next((row["unread"] for row in homes if "unread" in row), None)
        oldest = min((row["oldest"] for row in homes if "oldest" in row), default=None)
        newest = max((row["newest"] for row in homes), default=BEGINNING)
        slots = {f"{row['of']}/{row['slot']}": row["found"] for row in rows if row["step"] == "state"}
        offers = _offered([row for row in rows if row["step"] == "offers"])
        return BatchCounts(sums, loads, read, tuple(sorted(ripe)), unread, newest, oldest, slots, offers)

    @property
    def pings(self) -> int:
        """Good pings."""
        return self.sums["pings"]

    @property
    def reported(self) -> int:
        """Good requests, as often as they were reported."""
        return self.sums["reported"]

    @property
    def late_requests(self) -> int:
        """Those of a time that is forgotten."""
        return self.sums["late_requests"]

    def ripe_at(self, share: float) -> int | None:
        """The time that this share of the answered requests is not after."""
        whole, before = sum(many for _, many in self.ripe), 0.0
        for ts, many in self.ripe:
            before += many
            if before >= share * whole:
                return ts
        return None

    def lag(self, lanes: int) -> list[dict[str, int]] | None:
        """Unread records of both sources together by lane, where they are known."""
        if self.unread is None:
            return None
        return [{"lane": lane, "records": self.unread.get(str(lane), 0)} for lane in range(lanes)]


def empty_counts(lanes: int) -> dict[str, Any]:
    """Before the first batch."""
    counts: dict[str, Any] = dict.fromkeys((*_SUMS, "pings", "late", "pairs", "riders_with_a_match", "ghosts"), 0)
    return {**counts, "pending": 0, "dead": {"drivers": {}, "riders": {}}, "lane_loads": [0] * lanes, "offers": None}


def added(
    before: Mapping[str, Any], counts: BatchCounts, dead: Mapping[str, Mapping[str, int]], lanes: int, began: float
) -> Figures:
    """The figures of a batch, and the counts with it; `dead` are its dead letters by source and reason."""
    found = before or empty_counts(lanes)
    here = {name: counts.sums[name] for name in (*_SUMS, "pings", "late", "ghosts", "pairs")}
    here["riders_with_a_match"] = counts.sums["riders"]
    total: dict[str, Any] = {name: found[name] + count for name, count in here.items()}
    total |= {"pending": counts.sums["waiting"], "dead": _summed(found["dead"], dead)}
    total["offers"] = _added_offers(found["offers"], counts.offers)
    total["lane_loads"] = [count + counts.loads.get(lane, 0) for lane, count in enumerate(found["lane_loads"])]
    metrics = {
        "at": round(time.time(), 3),
        "seconds": round(time.time() - began, 3),
        **here,
        "dead": dead,
        "ahead": counts.sums["ahead"],
        "match_latency_ms": _latency(counts.ripe_at(0.5), counts.ripe_at(0.01)),
        "border_share": here["border"] / here["asked"] if here["asked"] else 0.0,
        "waiting": counts.sums["waiting"],
        "lag": counts.lag(lanes),
        "entries": counts.sums["entries"],
        "stays": counts.sums["stays"],
        "drivers": counts.sums["drivers"],
        "state_bytes": counts.sums["state_bytes"],
        "restored": counts.sums["restored"],
        "lane_cv": cv(total["lane_loads"]),
        "noise_floor": noise_floor(len(total["lane_loads"]), sum(total["lane_loads"])),
    }
    return Figures(metrics, total)


def _offered(rows: list[dict[str, Any]]) -> Offers | None:
    if not rows:
        return None
    granted, refused, metres = (sum(row[name] for row in rows) for name in ("granted", "refused", "metres"))
    return Offers(granted=granted, refused=refused, mean_distance_m=metres / granted if granted else None)


def _added_offers(before: Mapping[str, Any] | None, here: Offers | None) -> Mapping[str, Any] | None:
    if before is None or here is None:
        return before if here is None else here.as_json()
    granted = before["granted"] + here.granted
    metres = (before["mean_distance_m"] or 0.0) * before["granted"] + (here.mean_distance_m or 0.0) * here.granted
    mean = metres / granted if granted else None
    return Offers(granted=granted, refused=before["refused"] + here.refused, mean_distance_m=mean).as_json()


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

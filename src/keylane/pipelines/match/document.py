"""The document that a match ends with: `keylane.match/1`. Its schema: `schemas/match.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from keylane.measure.balance import cv, noise_floor
from keylane.pipelines.match.follow_metrics import empty_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from keylane.contract.model import Contract
    from keylane.pipelines.match.batch import Work
    from keylane.pipelines.match.follow_batch import MatchBatches

__all__ = ["document_of", "metrics_of", "stream_document"]


def document_of(
    work: Work, counts: Sequence[Any], dead: dict[str, dict[str, int]], matches: DataFrame, ghosts: int
) -> dict[str, Any]:
    """What a batch came to; `counts` has a row for each lane that took part."""
    given, total = work.given, {name: sum(row[name] for row in counts) for name in ("pings", "copies", "requests")}
    loads = [0] * work.lanes.count
    for row in counts:
        loads[row["lane"]] += row["pings"]
    (found,) = matches.agg(F.count(F.lit(1)), F.count_if(F.col("rank") == 1)).collect()
    border = sum(row["border"] for row in counts)
    return {
        "schema": "keylane.match/1",
        "drivers": str(work.drivers),
        "riders_source": str(work.riders),
        "target": str(work.target),
        "contract": work.contract.metadata.name,
        "fingerprint": work.contract.fingerprint,
        "lanes": work.lanes.count,
        "radius_m": given.radius,
        "nearest": given.nearest,
        "expire_s": given.expire,
        "riders": total["requests"],
        "pings": total["pings"],
        "pairs": found[0],
        "riders_with_a_match": found[1],
        "recall": None,
        "verified": None,
        "copies_per_rider": _share(total["copies"], total["requests"]),
        "dead": dead,
        "offers": None,
        "metrics": metrics_of(loads, border_share=_share(border, total["requests"]), ghosts_dropped=ghosts),
        "lane_loads": loads,
        "seconds": 0.0,
        "notes": work.notes,
    }


def metrics_of(loads: Sequence[int], **known: Any) -> dict[str, Any]:
    """What a dispatcher is alarmed by; null where this kind of run does not measure it."""
    unknown = dict.fromkeys(("match_latency_ms", "lag", "border_share", "ghosts_dropped"))
    unknown |= dict.fromkeys(("tombstones", "late_pings", "pending"))
    return {**unknown, **known, "lane_cv": cv(loads), "noise_floor": noise_floor(len(loads), sum(loads))}


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


# The document that a running match ends with: `keylane.match/1`, of all of its runs.


def stream_document(body: MatchBatches, contract: Contract, notes: list[str], seconds: float) -> dict[str, Any]:
    """What the match came to so far."""
    total, given = body.last.counts or empty_counts(body.epochs.count), body.given
    drivers, riders = map(str, body.sides)
    asked = total["asked"]
    latest = body.figures[-1].metrics if body.figures else {}
    return {
        "schema": "keylane.match/1",
        "drivers": drivers,
        "riders_source": riders,
        "target": str(body.written.target),
        "contract": contract.metadata.name,
        "fingerprint": contract.fingerprint,
        "lanes": body.epochs.count,
        "radius_m": given.radius,
        "nearest": given.nearest,
        "expire_s": given.expire,
        "riders": asked,
        "pings": total["pings"],
        "pairs": total["pairs"],
        "riders_with_a_match": total["riders_with_a_match"],
        "recall": None,
        "verified": None,
        "copies_per_rider": round(total["copies"] / asked, 6) if asked else 0.0,
        "dead": total["dead"],
        "offers": total["offers"],
        "metrics": metrics_of(
            total["lane_loads"],
            match_latency_ms=latest.get("match_latency_ms"),
            lag=latest.get("lag"),
            border_share=round(total["border"] / asked, 6) if asked else 0.0,
            ghosts_dropped=total["ghosts"],
            tombstones=total["tombstones"],
            late_pings=total["changed"],
            pending=total["pending"],
        ),
        "lane_loads": total["lane_loads"],
        "seconds": round(seconds, 3),
        "notes": notes,
    }

"""The document that a running match ends with: `keylane.match/1`, of all of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.pipelines.match.document import metrics_of
from keylane.pipelines.match.stream_metrics import empty_counts

if TYPE_CHECKING:
    from keylane.contract.model import Contract
    from keylane.pipelines.match.stream_batch import MatchBatches

__all__ = ["stream_document"]


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

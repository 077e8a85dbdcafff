"""The document that a match ends with: `keylane.match/1`. Its schema: `schemas/match.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from keylane.measure.balance import cv, noise_floor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from keylane.pipelines.match.batch import Work

__all__ = ["document_of", "metrics_of"]


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

"""The document that a match ends with, of a batch or of all runs of one that goes on. Its fields: `documents.match`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keylane.documents.match import DeadLetters, MatchDocument, MatchMetrics
from keylane.measure.balance import cv, noise_floor

if TYPE_CHECKING:
    from keylane.contract.model import Contract
    from keylane.documents.match import LaneLag, MatchLatency, MatchPicture, MatchVerified, Offers
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import MatchSource
    from keylane.systems.endpoint import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchTotals:
    """What was counted. None where this kind of match does not measure it."""

    requests: int
    pings: int
    pairs: int
    riders_with_a_match: int
    median_m: float | None = None
    copies: int
    border: int
    ghosts: int
    dead: dict[str, dict[str, int]]
    loads: list[int]
    offers: Offers | None = None
    verified: MatchVerified | None = None
    recall: float | None = None
    latency: MatchLatency | None = None
    lag: list[LaneLag] | None = None
    tombstones: int | None = None
    late_pings: int | None = None
    pending: int | None = None


@dataclass(frozen=True, slots=True)
class Matched:
    """The document of a match, and what a page shows beside it, where that was asked for."""

    document: MatchDocument
    picture: MatchPicture | None = None


def document_of(
    sides: tuple[MatchSource, MatchSource],
    target: Address,
    contract: Contract,
    given: Options,
    total: MatchTotals,
    *,
    notes: list[str],
    seconds: float,
) -> MatchDocument:
    """The result of a match."""
    drivers, riders = map(str, sides)
    return MatchDocument(
        drivers=drivers,
        riders_source=riders,
        target=str(target),
        contract=contract.metadata.name,
        fingerprint=contract.fingerprint,
        lanes=len(total.loads),
        radius_m=given.radius,
        nearest=given.nearest,
        expire_s=given.expire,
        riders=total.requests,
        pings=total.pings,
        pairs=total.pairs,
        riders_with_a_match=total.riders_with_a_match,
        median_m=None if total.median_m is None else round(total.median_m, 1),
        recall=total.recall,
        verified=total.verified,
        copies_per_rider=_share(total.copies, total.requests),
        dead=DeadLetters(drivers=total.dead["drivers"], riders=total.dead["riders"]),
        offers=total.offers,
        metrics=MatchMetrics(
            match_latency_ms=total.latency,
            lag=total.lag,
            border_share=_share(total.border, total.requests),
            ghosts_dropped=total.ghosts,
            tombstones=total.tombstones,
            late_pings=total.late_pings,
            pending=total.pending,
            lane_cv=cv(total.loads),
            noise_floor=noise_floor(len(total.loads), sum(total.loads)),
        ),
        lane_loads=total.loads,
        seconds=round(seconds, 3),
        notes=notes,
    )


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0

"""The document that a verify ends with. What is compared, and how: `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.documents.route import RecordCounts
from keylane.documents.verify import UnprovenRule, ValueCost, VerifiedLane, VerifyDocument, VerifyViolation
from keylane.profile.document import masked

if TYPE_CHECKING:
    from keylane.history.verdict import Violation
    from keylane.pipelines.verify import Verified


def document_of(found: Verified, salt: bytes | None = None) -> VerifyDocument:
    """The document of a comparison, as it is printed; with a `salt`, keys are cut and hashed with it."""
    verdict, claimed = found.verdict, found.claimed
    open_rules = {one.rule for one in found.unproven}
    return VerifyDocument(
        ok=found.ok,
        verdict=found.outcome,
        mode=verdict.mode,
        engine="spark" if found.engine == "spark" else "local",
        source=found.source,
        target=found.target,
        contract=found.contract,
        fingerprint=found.fingerprint,
        epoch=found.epoch,
        sent=verdict.facts.get("ok", 0),
        unvouched=verdict.facts.get("unknown_read", 0),
        records=verdict.records,
        dead=verdict.facts.get("dead", 0),
        repeats=verdict.facts.get("repeats", 0),
        lost=verdict.counts["lost"],
        invented=verdict.counts["invented"],
        duplicated=verdict.counts["duplicated"],
        changed=verdict.counts["changed"],
        reordered=verdict.counts["reordered"],
        split_keys=verdict.counts["split_keys"],
        misrouted=verdict.counts["misrouted"],
        inconsistent_offsets=verdict.counts["inconsistent_offsets"],
        offset_gaps=verdict.counts["offset_gaps"],
        unsorted=verdict.counts["unsorted"],
        stale_epochs=verdict.counts["stale_epochs"],
        violations=[_violation(one, salt) for one in verdict.violations],
        miscounted=list(found.miscounted),
        not_taken=list(found.not_taken),
        checked=[rule for rule in found.rules if rule not in open_rules],
        unproven=[
            UnprovenRule(rule=one.rule, records=one.records, why=one.why, hint=one.hint or None)
            for one in found.unproven
        ],
        compared=verdict.facts.get("compared", 0),
        cost=ValueCost(digests=round(found.cost[0], 3), all=round(found.cost[1], 3)) if found.cost else None,
        claimed=RecordCounts.model_validate(claimed.as_json()) if claimed else None,
        lanes=[
            VerifiedLane(stream=one.stream, lane=one.lane, records=one.records, first=one.first, last=one.last)
            for one in verdict.lanes
        ],
        remarks=list(found.remarks),
    )


def _violation(one: Violation, salt: bytes | None) -> VerifyViolation:
    """With null for what it has not: an offset of -1 is none."""
    return VerifyViolation(
        rule=one.rule,
        stream=one.stream or None,
        lane=None if one.lane < 0 else one.lane,
        offset=None if one.offset < 0 else one.offset,
        source=one.writer or None,
        position=None if one.seq < 0 else one.seq,
        key=(one.key if salt is None else masked(one.key, salt)) if one.key else None,
        detail=one.detail,
    )

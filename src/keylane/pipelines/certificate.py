"""The document that a verify ends with. What is compared, and how: `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keylane.documents.route import RecordCounts
from keylane.documents.verify import UnprovenRule, ValueCost, VerifiedLane, VerifyDocument, VerifyViolation
from keylane.profile.document import masked

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.history.verdict import LaneSeen, Violation
    from keylane.pipelines.verify import Verified

    #: The shard of an offset, and the position in it.
    Located = Callable[[int], tuple[str, int]]


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
        violations=[_violation(one, salt, found.located) for one in verdict.violations],
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
        lanes=[_lane(one, found.located) for one in verdict.lanes],
        remarks=list(found.remarks),
    )


def _at(offset: int, located: Located | None) -> tuple[str | None, int]:
    return (None, offset) if located is None or offset < 0 else located(offset)


def _lane(one: LaneSeen, located: Located | None) -> VerifiedLane:
    (first_shard, first), (last_shard, last) = (_at(offset, located) for offset in (one.first, one.last))
    shards = {"first_shard": first_shard, "last_shard": last_shard}
    return VerifiedLane(stream=one.stream, lane=one.lane, records=one.records, first=first, last=last, **shards)


def _violation(one: Violation, salt: bytes | None, located: Located | None) -> VerifyViolation:
    """With null for what it has not: an offset of -1 is none."""
    shard, offset = _at(one.offset, located)
    return VerifyViolation(
        rule=one.rule,
        stream=one.stream or None,
        lane=None if one.lane < 0 else one.lane,
        shard=shard,
        offset=None if offset < 0 else offset,
        source=one.writer or None,
        position=None if one.seq < 0 else one.seq,
        key=(one.key if salt is None else masked(one.key, salt)) if one.key else None,
        detail=one.detail,
    )

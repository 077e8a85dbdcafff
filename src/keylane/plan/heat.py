"""Why lanes are hot under a contract, from a profile: `measure.hot` asked with the keys' lanes, as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from keylane.contract.model import Contract
from keylane.contract.partitioners import FACTS
from keylane.measure.hot import why_hot
from keylane.plan.stream import Stream, moved_loads
from keylane.plan.today import Today, today_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.measure.profile import Profile
    from keylane.plan.candidates import Candidate
    from keylane.plan.make import Plan

__all__ = ["assumed", "heat_of", "heat_under", "plainly_hashed"]


def heat_of(profile: Profile, contract: Contract, seed: int) -> dict[str, Any] | None:
    """The heat of a profile's lanes; None where there are not two lanes, or nobody knows how many."""
    lanes = _lanes(profile, contract)
    if lanes is None or lanes < 2:
        return None
    stream = Stream(profile)
    return heat_under(stream, today_of(stream, contract, lanes), seed)


def assumed(profile: Profile) -> Contract:
    """What is taken for the contract of a source that has lanes and none: Java's hash, on the lanes there are."""
    key = profile.key.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    spec = {"streams": ["stream"], "lanes": "live", "key": key, "partitioner": "kafka-java"}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "stream"}, "spec": spec}
    return Contract.model_validate(document)


def plainly_hashed(plan: Plan) -> Today:
    """The keys of a plan under their hash alone, at the chosen lane count: what there is to explain without a today."""
    candidate = plan.choice.chosen.candidate
    geo = plan.contract.spec.geo and plan.contract.spec.geo.model_copy(update={"leaves": (), "checksum": None})
    plain = {"hot_keys": (), "table": None, "geo": geo, "partitioner": _keyed(candidate)}
    spec = plan.contract.spec.model_copy(update=plain)
    return today_of(plan.stream, plan.contract.model_copy(update={"spec": spec}), candidate.lanes)


def _keyed(candidate: Candidate) -> str:
    return "kafka-java" if FACTS[candidate.partitioner].fold == "keyless" else candidate.partitioner


def _lanes(profile: Profile, contract: Contract) -> int | None:
    if contract.spec.lanes != "live":
        return contract.spec.lanes
    return None if profile.lanes is None else len(profile.lanes.by_window)


def heat_under(stream: Stream, today: Today, seed: int) -> dict[str, Any] | None:
    """The same for keys that are placed already; None where no key has one lane."""
    if today.lanes < 2 or not (today.home >= 0).any():
        return None
    mine, home, records = _placed(stream, today)
    seen, rng = _observed(stream.profile, today.lanes), np.random.default_rng(seed)
    exact = stream.profile.approximate is None
    found = why_hot(mine, home, records, today.lanes, rng=rng, observed=seen, same_records=exact)
    names = ("lane", "share", "over_mean", "cause", "evidence", "chance")
    return {
        "verdict": found.verdict.says,
        "cause": found.verdict.cause,
        "alarm": found.verdict.alarm,
        "alpha": found.alpha,
        "chance": found.verdict.chance,
        "lanes": [{name: getattr(lane, name) for name in names} for lane in found.hot],
    }


def _placed(stream: Stream, today: Today) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]:
    """Records of each lane; and lane and records of what has one lane each: a key, or of places a leaf or cell."""
    if today.by_place is not None and stream.places is not None:
        lanes, records = stream.places.units(today.by_place)
        return np.bincount(lanes, records, minlength=today.lanes), lanes, records
    hashed = stream.hashed(today.contract.spec.partitioner, today.lanes)
    loads = moved_loads(hashed, today.fitted.moves, stream.profile.by_window, today.fitted.tier_lanes)
    return loads.sum(axis=1)[: today.lanes], today.home, stream.records


def _observed(profile: Profile, lanes: int) -> Any:
    """What really stands in each lane, where the source has as many as the contract."""
    if profile.lanes is None or len(profile.lanes.by_window) != lanes:
        return None
    return profile.lanes.by_window.sum(axis=1)

"""The router's steps as branches over columns: null, empty, hot, tabled, hashed, in the order of `keylane.router`.

A branch is a condition and what it leads to; the columns `stream`, `lane` and `reason` are read off the same branches,
so that they cannot disagree. How a key is read: `keys`. How a number becomes a lane: `lanes`, `ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from keylane.records import Reason
from keylane.spark.hashes import murmur2, range_lane
from keylane.spark.keys import read_sub_key
from keylane.spark.lanes import by_position, by_sub_key, by_sub_key_among, fold, keyless_lane, most_lanes
from keylane.spark.overrides import behaviours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from keylane.placement.overrides import HotRule, Overrides
    from keylane.router import Router
    from keylane.spark.java_calls import JavaBackend
    from keylane.spark.keys import Keys
    from keylane.spark.overrides import LookedUp


@dataclass(frozen=True, slots=True)
class SubKey:
    """What divides a key among lanes: murmur2 of a field, and which rows hold bytes that are no text, if any can."""

    hash: Column
    misfit: Column | None


@dataclass(frozen=True, slots=True)
class Given:
    """Everything a decision looks at.

    `hash` is None for clients that ignore keys; `position`, when rows have none. `sub_keys` are those of the fields
    that the frame has. `written_out`: whether sets of lanes are (`spread`).
    """

    router: Router
    keys: Keys
    hash: Column | None
    found: LookedUp
    sub_keys: Mapping[str, SubKey]
    position: Column | None
    backend: JavaBackend
    written_out: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a branch leads: a lane, or a reason, each null where the other is not; and a stream if it is another."""

    lane: Column | None = None
    reason: Column | None = None
    stream: str | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition and its outcome. `keyless` says that no row here has a key to hash."""

    when: Column
    outcome: Outcome
    keyless: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The branches in order, and where all others go. `by_key`: to a lane that is null when the routing key is."""

    stream: str
    branches: tuple[Branch, ...]
    otherwise: Outcome
    by_key: bool

    def lane_column(self) -> Column:
        """The lane, null where there is none. Where no branch leads to one, the hash alone says so: of null, it is."""
        idle = self.by_key and all(branch.keyless and branch.outcome.lane is None for branch in self.branches)
        return self._case(lambda outcome: outcome.lane, idle=idle).cast("int")

    def reason_column(self) -> Column:
        """Why there is no lane, null where there is one."""
        return self._case(lambda outcome: outcome.reason).cast("string")

    def stream_column(self) -> Column:
        """The router's stream, or that of a tier."""
        idle = not any(branch.outcome.stream for branch in self.branches)
        return self._case(lambda outcome: F.lit(outcome.stream or self.stream), idle=idle)

    def _case(self, of: Callable[[Outcome], Column | None], *, idle: bool = False) -> Column:
        out = _or_null(of(self.otherwise))
        for branch in () if idle else reversed(self.branches):
            out = F.when(branch.when, _or_null(of(branch.outcome))).otherwise(out)
        return out


def _or_null(column: Column | None) -> Column:
    return F.lit(None) if column is None else column


def decide(given: Given) -> Decision:
    """The decision for every row."""
    router, branches = given.router, [*_without_key(given)]
    if given.hash is None:
        return Decision(router.stream, tuple(branches), _keyless(given, router.facts.on_null), by_key=False)
    branches += [*_hot(given), *_tabled(given)]
    rejects = router.overrides.table is not None and router.overrides.table_rejects
    otherwise = _refused(Reason.NOT_IN_TABLE) if rejects else Outcome(_home(given))
    return Decision(router.stream, tuple(branches), otherwise, by_key=True)


def _refused(reason: Reason) -> Outcome:
    return Outcome(reason=F.lit(str(reason)))


def _home(given: Given, tier: int | None = None) -> Column:
    """The lane of the hash alone; `tier` is the lane count of another stream."""
    assert given.hash is not None
    rule, space = given.router.facts.fold, given.router.key_space_of(tier)
    return range_lane(given.hash, space, given.backend) if rule == "ranges" else fold(rule, given.hash, len(space))


def _without_key(given: Given) -> Iterator[Branch]:
    """Malformed, null and (unless hashed) empty keys."""
    keys, router = given.keys, given.router
    if keys.malformed is not None:
        yield Branch(keys.malformed, _refused(Reason.MALFORMED_KEY), keyless=True)
    yield Branch(keys.routing.binary.isNull(), _by_rule(given, router.on_null, Reason.NULL_KEY), keyless=True)
    if router.on_empty != "hash":
        yield Branch(
            F.octet_length(keys.base.binary) == 0,
            _by_rule(given, router.on_empty, Reason.EMPTY_KEY),
            keyless=router.on_empty == "reject",
        )


def _by_rule(given: Given, rule: str, reason: Reason) -> Outcome:
    if rule == "reject":
        return _refused(reason)
    if rule != "hash":
        return _keyless(given, rule)
    # Only null keys come here: empty ones that are hashed go the way of all others.
    partitioner = given.router.partitioner
    assert partitioner.hash is not None
    over = partitioner.over(given.router.key_space)
    return Outcome(F.lit(int(partitioner.fold(partitioner.hash.of(None), over))))


def _keyless(given: Given, rule: str) -> Outcome:
    if given.position is None:
        return _refused(Reason.NO_POSITION)
    return _at_position(given.position, keyless_lane(rule, given.position, given.router.lane_count, given.backend))


def _at_position(position: Column, lane: Column, stream: str | None = None) -> Outcome:
    return Outcome(lane, F.when(position.isNull(), F.lit(str(Reason.NO_POSITION))), stream)


def _hot(given: Given) -> Iterator[Branch]:
    if given.found.pin is not None:
        yield Branch(given.found.pin.isNotNull(), Outcome(given.found.pin))
    for i, rule in enumerate(behaviours(given.router.overrides)):
        assert given.found.behaviour is not None
        yield Branch(given.found.behaviour == i, _behave(given, rule))


def _behave(given: Given, rule: HotRule) -> Outcome:
    """A tier, a spread, or a spread inside a tier."""
    lanes = rule.lanes or given.router.lane_count
    home = _home(given, rule.lanes)
    spread = rule.spread
    if spread is None:
        return Outcome(home, stream=rule.stream)
    if spread.by is not None:
        return _divided(
            given,
            spread.by,
            lambda sub: by_sub_key(sub, spread, home, lanes, given.backend, written_out=given.written_out),
            rule.stream,
        )
    if given.position is None:
        return Outcome(reason=F.lit(str(Reason.NO_POSITION)), stream=rule.stream)
    return _at_position(given.position, by_position(given.position, spread, home, lanes), rule.stream)


def _divided(given: Given, by: str, place: Callable[[Column], Column], stream: str | None = None) -> Outcome:
    """One of several lanes, by sub-key."""
    sub = given.sub_keys.get(by)
    if sub is None:
        return Outcome(reason=F.lit(str(Reason.MISSING_FIELD)), stream=stream)
    lane = place(sub.hash)
    if sub.misfit is None:
        return Outcome(lane, stream=stream)
    return Outcome(F.when(~sub.misfit, lane), F.when(sub.misfit, F.lit(str(Reason.MALFORMED_KEY))), stream)


def _tabled(given: Given) -> Iterator[Branch]:
    found, overrides = given.found, given.router.overrides
    if found.table_lanes is not None:
        lanes, most = found.table_lanes, most_lanes(overrides)
        outcome = _divided(
            given,
            overrides.table_by or "",
            lambda sub: by_sub_key_among(sub, lanes, most, given.backend, written_out=given.written_out),
        )
        yield Branch(lanes.isNotNull(), outcome)
    if found.table_lane is not None:
        yield Branch(found.table_lane.isNotNull(), Outcome(found.table_lane))
    if found.table_range is not None:
        yield Branch(found.table_range.isNotNull(), Outcome(found.table_range))


def sub_keys(overrides: Overrides, schema: StructType | None, backend: JavaBackend) -> dict[str, SubKey]:
    """The sub-keys that a frame has, by field; all of them while nobody knows the frame."""
    fields = {rule.spread.by for rule in behaviours(overrides) if rule.spread} | {overrides.table_by}
    known = [field for field in fields if field and (schema is None or field in schema.names)]
    read = {field: read_sub_key(field, schema) for field in sorted(known)}
    return {field: SubKey(murmur2(key, backend), misfit) for field, (key, misfit) in read.items()}


def divided_by(field: str, overrides: Overrides, found: LookedUp) -> Column:
    """Which rows a sub-key divides: no other has to pay for its hash."""
    numbers = [i for i, rule in enumerate(behaviours(overrides)) if rule.spread and rule.spread.by == field]
    spread = found.behaviour.isin(numbers) if found.behaviour is not None and numbers else F.lit(False)
    if found.table_lanes is None or overrides.table_by != field:
        return spread
    return spread | found.table_lanes.isNotNull()

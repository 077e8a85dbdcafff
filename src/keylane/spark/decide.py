"""The router's steps as branches over columns: null, empty, hot, tabled, hashed, in the order of `keylane.router`.

A branch is a condition and what it leads to; the columns `stream`, `lane` and `reason` are read off the same branches,
so that they cannot disagree. How a key is read: `keys`. How a number becomes a lane: `lanes`, `ranges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from keylane.records import Reason
from keylane.spark.hashes import halves, murmur2, range_lane
from keylane.spark.keys import read_sub_key
from keylane.spark.lanes import by_position, by_sub_key, by_sub_key_among, fold, keyless_lane, most_lanes
from keylane.spark.overrides import behaviours
from keylane.spark.shard_lanes import with_hash_keys, without_empty

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
    """What divides a key among lanes: murmur2 of a field; which rows hold bytes that are not text, or have no field."""

    hash: Column
    misfit: Column | None
    absent: Column | None = None

    def reason(self) -> Column | None:
        """Why a row has none, null where it has one; None where all have."""
        found = None if self.misfit is None else F.when(self.misfit, F.lit(str(Reason.MALFORMED_KEY)))
        if self.absent is None:
            return found
        return F.when(self.absent, F.lit(str(Reason.MISSING_FIELD))).otherwise(_or_null(found))


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a decision depends on.

    `hash` is None for clients that ignore keys; `position`, when rows have none. `sub_keys` are by field.
    `written_out`: whether sets of lanes are expanded in the expression (`lanes`). `hash_keys` are lanes of
    explicit hash keys, by account, that no look-up has.
    """

    router: Router
    keys: Keys
    hash: Column | None
    look_ups: LookedUp
    sub_keys: Mapping[str, SubKey]
    position: Column | None
    backend: JavaBackend
    written_out: bool
    hash_keys: Mapping[bytes, int] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a branch leads: a lane or a reason, each null where the other is not; and a stream if it differs."""

    lane: Column | None = None
    reason: Column | None = None
    stream: str | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition and its outcome. `keyless`: no row here has a key to hash."""

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
        """The lane, null where there is none. Where no branch leads to one, the hash of a null key is null already."""
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


def decide(inputs: Inputs) -> Decision:
    """The decision for every row."""
    router, branches = inputs.router, [*_without_key(inputs)]
    if inputs.hash is None:
        return Decision(router.stream, tuple(branches), _keyless(inputs, router.facts.on_null), by_key=False)
    branches += [*_hot(inputs), *_tabled(inputs)]
    rejects = router.overrides.table is not None and router.overrides.table_rejects
    otherwise = _refused(Reason.NOT_IN_TABLE) if rejects else Outcome(_tail(inputs))
    return Decision(router.stream, tuple(branches), otherwise, by_key=True)


def _refused(reason: Reason) -> Outcome:
    return Outcome(reason=F.lit(str(reason)))


def _tail(inputs: Inputs) -> Column:
    """The lane of a key without a rule: that of its explicit hash key where it has one, otherwise of its hash."""
    router, base = inputs.router, inputs.keys.base.binary
    if inputs.hash_keys is not None:
        hashes_empty = router.on_empty != "reject"
        return with_hash_keys(base, router.key_space, inputs.hash_keys, hashes_empty=hashes_empty)
    home = _home(inputs)
    if inputs.hash is None or not empty_by_digest(router, inputs.keys, inputs.backend):
        return home
    return without_empty(home, base, halves(inputs.hash)[0])


def empty_by_digest(router: Router, keys: Keys, backend: JavaBackend) -> bool:
    """Whether refused empty keys are told by their digest, after it is made: faster than a branch before it."""
    whole = router.on_empty == "reject" and keys.routing is keys.base and backend == "static"
    return whole and router.partitioner.hash is not None and router.partitioner.hash.name == "md5-128"


def _home(inputs: Inputs, tier: int | None = None) -> Column:
    """The lane of the hash alone; `tier` is the lane count of another stream."""
    assert inputs.hash is not None
    rule, space = inputs.router.facts.fold, inputs.router.key_space_of(tier)
    return range_lane(inputs.hash, space, inputs.backend) if rule == "ranges" else fold(rule, inputs.hash, len(space))


def _without_key(inputs: Inputs) -> Iterator[Branch]:
    """Missing fields; malformed, null and (unless hashed) empty keys."""
    keys, router = inputs.keys, inputs.router
    if keys.missing is not None:
        yield Branch(keys.missing, _refused(Reason.MISSING_FIELD), keyless=True)
    if keys.malformed is not None:
        yield Branch(keys.malformed, _refused(Reason.MALFORMED_KEY), keyless=True)
    yield Branch(keys.routing.binary.isNull(), _by_rule(inputs, router.on_null, Reason.NULL_KEY), keyless=True)
    if router.on_empty != "hash":
        yield Branch(
            F.octet_length(keys.base.binary) == 0,
            _by_rule(inputs, router.on_empty, Reason.EMPTY_KEY),
            keyless=router.on_empty == "reject",
        )


def _by_rule(inputs: Inputs, rule: str, reason: Reason) -> Outcome:
    if rule == "reject":
        return _refused(reason)
    if rule != "hash":
        return _keyless(inputs, rule)
    # Only null keys come here: empty ones that are hashed are treated as all others.
    partitioner = inputs.router.partitioner
    assert partitioner.hash is not None
    over = partitioner.over(inputs.router.key_space)
    return Outcome(F.lit(int(partitioner.fold(partitioner.hash.of(None), over))))


def _keyless(inputs: Inputs, rule: str) -> Outcome:
    if inputs.position is None:
        return _refused(Reason.NO_POSITION)
    return _at_position(inputs.position, keyless_lane(rule, inputs.position, inputs.router.lane_count, inputs.backend))


def _at_position(position: Column, lane: Column, stream: str | None = None) -> Outcome:
    return Outcome(lane, F.when(position.isNull(), F.lit(str(Reason.NO_POSITION))), stream)


def _hot(inputs: Inputs) -> Iterator[Branch]:
    if inputs.look_ups.pin is not None:
        yield Branch(inputs.look_ups.pin.isNotNull(), Outcome(inputs.look_ups.pin))
    for i, rule in enumerate(behaviours(inputs.router.overrides)):
        assert inputs.look_ups.behaviour is not None
        yield Branch(inputs.look_ups.behaviour == i, _behave(inputs, rule))


def _behave(inputs: Inputs, rule: HotRule) -> Outcome:
    """A tier, a spread, or a spread inside a tier."""
    lanes = rule.lanes or inputs.router.lane_count
    home = _home(inputs, rule.lanes)
    spread = rule.spread
    if spread is None:
        return Outcome(home, stream=rule.stream)
    if spread.by is not None:
        return _divided(
            inputs,
            spread.by,
            lambda sub: by_sub_key(sub, spread, home, lanes, inputs.backend, written_out=inputs.written_out),
            rule.stream,
        )
    if inputs.position is None:
        return Outcome(reason=F.lit(str(Reason.NO_POSITION)), stream=rule.stream)
    return _at_position(inputs.position, by_position(inputs.position, spread, home, lanes), rule.stream)


def _divided(inputs: Inputs, by: str, place: Callable[[Column], Column], stream: str | None = None) -> Outcome:
    """One of several lanes, by sub-key."""
    sub = inputs.sub_keys[by]
    lane, reason = place(sub.hash), sub.reason()
    return Outcome(lane, stream=stream) if reason is None else Outcome(F.when(reason.isNull(), lane), reason, stream)


def _tabled(inputs: Inputs) -> Iterator[Branch]:
    known, overrides = inputs.look_ups, inputs.router.overrides
    if known.table_lanes is not None:
        lanes, most = known.table_lanes, most_lanes(overrides)
        outcome = _divided(
            inputs,
            overrides.table_by or "",
            lambda sub: by_sub_key_among(sub, lanes, most, inputs.backend, written_out=inputs.written_out),
        )
        yield Branch(lanes.isNotNull(), outcome)
    if known.table_lane is not None:
        yield Branch(known.table_lane.isNotNull(), Outcome(known.table_lane))
    if known.table_range is not None:
        yield Branch(known.table_range.isNotNull(), Outcome(known.table_range))


def sub_keys(overrides: Overrides, schema: StructType | None, backend: JavaBackend) -> dict[str, SubKey]:
    """The sub-keys of the overrides, by field."""
    fields = {rule.spread.by for rule in behaviours(overrides) if rule.spread} | {overrides.table_by}
    read = {field: read_sub_key(field, schema) for field in sorted(filter(None, fields))}
    return {field: SubKey(murmur2(key, backend), misfit, absent) for field, (key, misfit, absent) in read.items()}


def divided_by(field: str, overrides: Overrides, look_ups: LookedUp) -> Column:
    """Which rows a sub-key divides: only those need its hash."""
    numbers = [i for i, rule in enumerate(behaviours(overrides)) if rule.spread and rule.spread.by == field]
    spread = look_ups.behaviour.isin(numbers) if look_ups.behaviour is not None and numbers else F.lit(False)
    if look_ups.table_lanes is None or overrides.table_by != field:
        return spread
    return spread | look_ups.table_lanes.isNotNull()

"""What a migration costs: keys and bytes that move, what is copied, disk, network, and how long producers pause.

Every figure says how it is known: measured (asked of the system, or all records were read), sampled (from a part of
the records), computed (from the contracts and the rules of a run), or unknown, and then there is none, with the reason.

    m_i    records of lane i that were read and whose key changes lane;  r_i all that were read;  n_i that are there
    moved  sum of n_i * m_i / r_i over the lanes that were read, times all records / those of these lanes

What is asked of a stream: `keylane.systems.migrations`. The cost of a change on a profile: `plan.cost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.migration.drain import lanes_of
from keylane.numbers import count, duration, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.migration.planner import Migration
    from keylane.router import Router

Known: TypeAlias = Literal["measured", "sampled", "computed", "unknown"]
NOT_ASKED: Final = "no stream was asked: --from names it"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and how it is known; without a value it is unknown, and `basis` says why."""

    value: float | None
    known: Known
    basis: str


@dataclass(frozen=True, slots=True)
class SampledLane:
    """Records of a lane that were read: how many and how many bytes by key, and how many have no key.

    `records` is how many there are; where as many were read, these are all.
    """

    lane: int
    records: int
    keys: Mapping[bytes, tuple[int, int]]
    keyless: tuple[int, int] = (0, 0)

    @property
    def read(self) -> int:
        """Records that were read."""
        return self.keyless[0] + sum(many for many, _ in self.keys.values())

    @property
    def weight(self) -> int:
        """Their bytes."""
        return self.keyless[1] + sum(weight for _, weight in self.keys.values())


@dataclass(frozen=True, slots=True)
class StreamMeasure:
    """What a stream holds. `stored` are the bytes of one replica; None, and `stored_basis` says why they are not known.

    `sample` is empty where no record was read, and `sample_basis` says which records they are, or why there are none.
    """

    records: int | None
    stored: int | None
    stored_basis: str
    sample: tuple[SampledLane, ...]
    sample_basis: str
    #: Whether the sample is all that there is.
    whole: bool = False
    #: Seconds between two looks of a producer that stops by itself; None where there is none for this system.
    look_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunTerms:
    """What a run's pause depends on: the waits of its driver, who stops, and how many replicas the copies get."""

    driver_seconds: float
    settle_seconds: float
    rest_seconds: float
    producers: Sequence[str]
    gated: bool
    dual: bool
    #: Whether the key alone says the lane, and is the same on both sides: otherwise keys of records say nothing.
    keys_comparable: bool
    #: Of the new stream of a mirror; None where copies take another form there, or it is not known.
    replicas: int | None = None


@dataclass(frozen=True, slots=True)
class PausePart:
    """A part of the pause. Without seconds nothing is known of it before; with them, it takes about as long at most."""

    what: str
    seconds: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class MigrationCost:
    """All figures of a planned migration."""

    records: Figure
    stored_bytes: Figure
    keys: Figure
    moved_keys: Figure
    moved_records: Figure
    moved_bytes: Figure
    copied_records: Figure
    copied_bytes: Figure
    disk_bytes: Figure
    network_bytes: Figure
    pause_seconds: Figure
    pause_parts: tuple[PausePart, ...]
    records_read: int


@dataclass(frozen=True, slots=True)
class _Moved:
    """Of the records that were read: keys, those that change lane, and the records and bytes behind them by lane."""

    keys: int
    moved_keys: int
    by_lane: Mapping[int, tuple[int, int]]


def cost_of(
    old: Router, new: Router, planned: Migration, measure: StreamMeasure | None, terms: RunTerms
) -> MigrationCost:
    """The figures; `measure` is None where no stream was asked."""
    parts = _pause_parts(planned, measure, terms)
    records = unknown(NOT_ASKED) if measure is None else _records(measure)
    stored = unknown(NOT_ASKED) if measure is None else _stored(measure)
    keys, moved_keys, moved_records, moved_bytes = _moves(old, new, measure, stored, terms)
    in_place = planned.mode == "in-place"
    nothing = Figure(0, "computed", "in place nothing is copied")
    return MigrationCost(
        records=records,
        stored_bytes=stored,
        keys=keys,
        moved_keys=moved_keys,
        moved_records=moved_records,
        moved_bytes=moved_bytes,
        copied_records=nothing if in_place else _as(records, "all that the old stream has now, and what comes until"),
        copied_bytes=nothing if in_place else _as(stored, "all that the old stream has now"),
        disk_bytes=nothing if in_place else _disk(stored, terms),
        network_bytes=nothing if in_place else _network(stored, terms),
        pause_seconds=_pause(parts, terms),
        pause_parts=parts,
        records_read=sum(lane.read for lane in measure.sample) if measure is not None else 0,
    )


def unknown(why: str) -> Figure:
    """No figure, and why there is none."""
    return Figure(None, "unknown", why)


def _as(figure: Figure, basis: str) -> Figure:
    """The same figure of something else; one that is not known keeps its reason."""
    return figure if figure.value is None else Figure(figure.value, figure.known, f"{basis}; {figure.basis}")


def _records(measure: StreamMeasure) -> Figure:
    if measure.records is None:
        return unknown("the system does not count its records")
    return Figure(
        measure.records, "measured", "offsets between the first and the end, marks of transactions among them"
    )


def _stored(measure: StreamMeasure) -> Figure:
    if measure.stored is not None:
        return Figure(measure.stored, "measured", measure.stored_basis)
    found = _scaled(measure, {lane.lane: (lane.read, lane.weight) for lane in measure.sample})
    if found is None:
        return unknown(measure.stored_basis)
    basis = f"keys and values of {measure.sample_basis}, before compression; {measure.stored_basis}"
    return Figure(found[1], "sampled", basis)


def _scaled(measure: StreamMeasure, parts: Mapping[int, tuple[int, int]]) -> tuple[int, int] | None:
    """Records and bytes of a part of what was read, as many as they are of all records; None where none was read."""
    read = [lane for lane in measure.sample if lane.read]
    there = sum(lane.records for lane in read)
    if not there or measure.records is None:
        return None
    # What no sampled lane stands for is taken to be as the lanes that were read.
    more = 1.0 if measure.whole else measure.records / there
    each = [1.0 if measure.whole else lane.records / lane.read * more for lane in read]
    found = [parts.get(lane.lane, (0, 0)) for lane in read]
    records, weights = (sum(part[at] * by for part, by in zip(found, each, strict=True)) for at in (0, 1))
    return round(records), round(weights)


def _moves(
    old: Router, new: Router, measure: StreamMeasure | None, stored: Figure, terms: RunTerms
) -> tuple[Figure, Figure, Figure, Figure]:
    """Keys, those that change lane, and the records and bytes behind them."""
    why = _no_keys(measure, terms)
    if measure is None or why:
        return (unknown(why),) * 4
    found, how = _moved(old, new, measure.sample), measure.sample_basis
    all_ = _scaled(measure, {lane.lane: (lane.read, lane.weight) for lane in measure.sample})
    moved = _scaled(measure, found.by_lane)
    if measure.whole:
        keys, moved_keys = (Figure(many, "measured", how) for many in (found.keys, found.moved_keys))
    else:
        seen = f"{plural(found.keys, 'key')}, of which {count(found.moved_keys)} change lane"
        keys = moved_keys = unknown(f"only {how} were read, which have {seen}")
    if all_ is None or moved is None:
        nothing = Figure(0, "measured", how) if measure.whole else unknown("no record could be read")
        return keys, moved_keys, nothing, nothing
    known: Known = "measured" if measure.whole else "sampled"
    records = Figure(moved[0], known, how)
    if stored.value is None:
        return keys, moved_keys, records, unknown(stored.basis)
    share = moved[1] / all_[1] if all_[1] else 0.0
    of_bytes = f"their share of the keys and values of {how}, times the bytes that are stored"
    # A share of compressed batches is no measurement, even where every record was read.
    return keys, moved_keys, records, Figure(round(stored.value * share), "sampled", of_bytes)


def _no_keys(measure: StreamMeasure | None, terms: RunTerms) -> str:
    """Why nothing can be said about keys; empty where it can."""
    if measure is None:
        return NOT_ASKED
    if not terms.keys_comparable:
        return "the lane depends on more than the record's key, or the contracts do not take the same key"
    return "" if measure.sample or measure.whole else measure.sample_basis


def _moved(old: Router, new: Router, sample: Sequence[SampledLane]) -> _Moved:
    moves: dict[bytes, bool] = {}
    by_lane: dict[int, tuple[int, int]] = {}
    for lane in sample:
        records = weight = 0
        for key, (many, bytes_) in lane.keys.items():
            if key not in moves:
                moves[key] = lanes_of(old, key) != lanes_of(new, key)
            if moves[key]:
                records, weight = records + many, weight + bytes_
        by_lane[lane.lane] = records, weight
    return _Moved(len(moves), sum(moves.values()), by_lane)


def _disk(stored: Figure, terms: RunTerms) -> Figure:
    if stored.value is None:
        return stored
    if terms.replicas is None:
        return unknown("how the copies are stored is not known before: another form, or replicas that are not known")
    basis = f"{plural(terms.replicas, 'replica')} of what the old stream holds, as long as both are there; compression"
    return Figure(stored.value * terms.replicas, "computed", f"{basis} may make it other; {stored.basis}")


def _network(stored: Figure, terms: RunTerms) -> Figure:
    if stored.value is None:
        return stored
    if terms.replicas is None:
        return unknown("how much is written is not known before: another form, or replicas that are not known")
    basis = f"read once, and written to {plural(terms.replicas, 'replica')}"
    return Figure(stored.value * (1 + terms.replicas), "computed", f"{basis}; {stored.basis}")


def _pause_parts(planned: Migration, measure: StreamMeasure | None, terms: RunTerms) -> tuple[PausePart, ...]:
    if terms.dual:
        return (PausePart("nobody stops", 0.0, "producers write to both streams"),)
    look = measure.look_seconds if measure is not None and terms.producers else None
    by_hand = "producers are stopped by you, and started again" if not terms.producers else NOT_ASKED
    looks = f"a producer looks every {duration(look)}" if look is not None else by_hand
    drain = planned.drain
    return (
        PausePart("producers see that they are to stop", look, looks),
        PausePart("producers flush", None, "until the last records are acknowledged: the brokers' time"),
        PausePart(
            "the fence is set",
            terms.driver_seconds + terms.settle_seconds,
            f"a look every {terms.driver_seconds:g} s, and no lane may have grown for {terms.settle_seconds:g} s",
        ),
        *_copy_or_growth(planned.mode == "mirror", terms, grows=drain.new_lanes != drain.old_lanes),
        *(() if terms.gated else (PausePart("readers drain", None, "readers without the gate: their speed"),)),
        PausePart("producers see that they may go on", look, looks),
    )


def _copy_or_growth(is_mirror: bool, terms: RunTerms, *, grows: bool) -> tuple[PausePart, ...]:
    if is_mirror:
        basis = (
            f"copies are repeated until one takes {duration(terms.rest_seconds)} at most; what was written "
            "meanwhile is left. More where producers write faster than is copied"
        )
        return (PausePart("the rest is copied", terms.rest_seconds, basis),)
    return (PausePart("the stream grows", None, "the brokers' time"),) if grows else ()


def _pause(parts: Sequence[PausePart], terms: RunTerms) -> Figure:
    if terms.dual:
        return Figure(0, "computed", "nobody stops: producers write to both streams")
    if not terms.producers:
        return unknown("no producer is named that stops by itself: it lasts until you have stopped and started all")
    if parts[0].seconds is None:
        return unknown(parts[0].basis)
    left = ", ".join(one.what for one in parts if one.seconds is None)
    seconds = sum(one.seconds for one in parts if one.seconds is not None)
    return Figure(round(seconds, 3), "computed", f"the waits that are known; on top, and not known before: {left}")

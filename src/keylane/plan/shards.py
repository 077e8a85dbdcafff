"""A plan of shards: the target layout, the calls to it, what is hot and why, and what equal shards would do instead.

From a layout and a load over the key space, all pure. Which layout: `keyspace.cuts`; in which order:
`keyspace.reshard`. The page: `report.shards_page`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from keylane.contract.shards import NARROWEST, SPACE
from keylane.documents.shards import (
    HotShard,
    ShardCall,
    ShardQuotas,
    ShardRow,
    ShardSide,
    ShardsPlanDocument,
    UniformScaling,
)
from keylane.errors import UsageError
from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.keys.read import read_batch
from keylane.keyspace.cuts import Chosen, at_most, fewest_calls
from keylane.keyspace.hash_keys import at_share
from keylane.keyspace.layout import new_layout
from keylane.keyspace.load import ROUNDING, from_halves
from keylane.keyspace.reshard import difference, resharding
from keylane.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.keyspace.layout import ShardLayout
    from keylane.keyspace.load import LoadCurve, LoadUnit
    from keylane.keyspace.reshard import ReshardCall
    from keylane.profile.model import Profile

LoadFrom: TypeAlias = Literal["layout", "profile", "keys", "registry", "stream", "service", "none"]
#: Of splits, and as many of merges: each call has a quota of its own.
CALLS_PER_SECOND: Final = 5
MOST_SHARDS: Final = 10_000
UPDATES_PER_DAY: Final = 10
#: Boundaries of two layouts that are nearer than this are meant to be one: rounding of equal widths leaves such.
SLIVER: Final = 1 << 64
MOST_TICKS: Final = 500
#: A shard of which one key has this share gains nothing worth a call by a split.
ONE_KEY: Final = 0.9
_A_SECOND: Final[dict[LoadUnit, Literal["records/s", "bytes/s"]]] = {"records": "records/s", "bytes": "bytes/s"}


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """The load over the key space, where it comes from, and the keys behind hash keys where they are known.

    `unit` is what a measured load counts, of each second; None for one that was given.
    """

    curve: LoadCurve | None
    source: LoadFrom
    keys: Mapping[int, str]
    unit: LoadUnit | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardGoal:
    """What is asked for: a cap, with at most so many shards if that is given, or a layout, to within some keys."""

    cap: float | None = None
    shards: int | None = None
    to: ShardLayout | None = None
    tolerance: int = 0


def profile_load(profile: Profile, hash_keys: Mapping[str, int], *, named: bool) -> ShardLoad:
    """The records of every key of a profile at its hash key: the explicit one of its account, otherwise its MD5."""
    base = read_batch(profile.keys, profile.key.model_copy(update={"window": None})).base
    halves = np.array(hash_batch(HASHES["md5-128"], base), np.uint64).reshape(-1, 2)
    texts = base.to_pylist() if hash_keys or named else []
    for row, key in enumerate(texts if hash_keys else ()):
        given = hash_keys.get(key.decode("utf-8", "replace"))
        if given is not None:
            halves[row] = divmod(given, 1 << 64)
    known = {}
    if named:
        heaviest = np.argsort(-profile.records)[:MOST_TICKS].tolist()
        known = {_joined(halves[row].tolist()): texts[row].decode("utf-8", "replace") for row in heaviest}
    return ShardLoad(from_halves(halves, profile.records.astype(np.float64)), "profile", known)


def shards_plan(
    source: str, layout: ShardLayout, load: ShardLoad, goal: ShardGoal, stream_id: str | None = None
) -> ShardsPlanDocument:
    """The plan as a document; `stream_id` is what the system knows the stream by, where it was asked."""
    curve, cap = load.curve, goal.cap
    chosen = _chosen(layout, curve, goal)
    change = resharding(layout, chosen.starts)
    before = _side(layout, curve)
    after = _side(change.layout, curve)
    hot = _hot(before, curve, cap, load.keys) if curve is not None and cap is not None else []
    hot_keys = 0 if curve is None or cap is None else curve.keys_over(cap)
    count = len(layout.open)
    return ShardsPlanDocument(
        source=source,
        stream_id=stream_id,
        load_from=load.source,
        load_unit=None if load.unit is None else _A_SECOND[load.unit],
        cap=cap,
        within_cap=None if cap is None or after.max_load is None else after.max_load <= cap * (1 + ROUNDING),
        calls=[_call(one) for one in change.calls],
        splits=change.splits,
        merges=change.merges,
        proven_fewest=chosen.proven,
        peak_shards=change.peak,
        before=before,
        after=after,
        hot=hot,
        uniform=_uniform(layout, curve, cap, after.shards) if curve is not None else [],
        quotas=ShardQuotas(
            calls_per_second=CALLS_PER_SECOND,
            least_seconds=max(change.splits, change.merges) / CALLS_PER_SECOND,
            uniform_from=max(1, ceil(count / 2)),
            uniform_to=min(MOST_SHARDS, 2 * count),
            uniform_updates_per_day=UPDATES_PER_DAY,
        ),
        ticks=_ticks(curve),
        hot_keys=hot_keys,
        notes=[*load.notes, *_notes(layout, chosen, goal, hot, hot_keys)],
    )


def _chosen(layout: ShardLayout, curve: LoadCurve | None, goal: ShardGoal) -> Chosen:
    if goal.to is not None:
        return Chosen(_near(layout.starts, goal.to.starts, goal.tolerance))
    if goal.cap is None or curve is None:
        raise UsageError.of("a cap needs loads", hint="loads in the layout, --measure, --profile, --load or --registry")
    if goal.shards is None:
        return _without_vain(layout, curve, goal.cap, fewest_calls(layout, curve, goal.cap))
    return at_most(layout, curve, goal.cap, goal.shards)


def _without_vain(layout: ShardLayout, curve: LoadCurve, cap: float, chosen: Chosen) -> Chosen:
    """The cuts without those of shards that are over the cap by one key, which no split takes from them."""
    vain = [one for one in layout.open if _is_one_key(curve, one.start, one.end + 1, cap)]
    kept = [at for at in chosen.starts if not any(one.start < at <= one.end for one in vain)]
    return replace(chosen, starts=sorted({*kept, *(one.start for one in vain)}))


def _is_one_key(curve: LoadCurve, start: int, end: int, cap: float) -> bool:
    """Whether a range is over the cap by a key that is nearly all of its load."""
    heaviest = curve.heaviest_key(start, end)
    return heaviest is not None and heaviest[1] > max(cap * (1 + ROUNDING), ONE_KEY * curve.between(start, end))


def _near(old: Sequence[int], new: Sequence[int], tolerance: int) -> list[int]:
    """The new starts, each as the nearest old one within the tolerance where the shards beside it stay wide enough.

    A start that moves leaves room for the next one as it is, so that each can stay where it is if it cannot move.

    >>> _near([0, 103], [0, 100, 102], 5)
    [0, 100, 103]
    """
    taken: list[int] = []
    for at, after in zip(new, [*new[1:], SPACE], strict=True):
        low = max(at - tolerance, taken[-1] + NARROWEST if taken else 0)
        high = min(at + tolerance, after - NARROWEST) if taken else 0
        first, end = bisect_left(old, low), bisect_right(old, high)
        place = bisect_left(old, at, first, end)
        taken.append(min(old[max(first, place - 1) : min(end, place + 1)], key=lambda one: abs(one - at), default=at))
    return taken


def _side(layout: ShardLayout, curve: LoadCurve | None) -> ShardSide:
    loads = [None if curve is None else curve.between(one.start, one.end + 1) for one in layout.open]
    known = [load for load in loads if load is not None]
    total, top = (sum(known), max(known)) if known else (None, None)
    mean = None if total is None else total / len(loads)
    return ShardSide(
        shards=len(loads),
        total_load=total,
        max_load=top,
        mean_load=mean,
        max_over_mean=None if mean is None or top is None else (top / mean if mean else 0.0),
        layout=[
            ShardRow(id=one.id, start=str(one.start), end=str(one.end), load=load)
            for one, load in zip(layout.open, loads, strict=True)
        ],
    )


def _call(one: ReshardCall) -> ShardCall:
    if one.call == "SplitShard":
        arguments = {"ShardToSplit": one.shards[0], "NewStartingHashKey": str(one.at)}
    else:
        arguments = {"ShardToMerge": one.shards[0], "AdjacentShardToMerge": one.shards[1]}
    return ShardCall(
        call=one.call,
        at=str(one.at),
        shards=list(one.shards),
        makes=list(one.makes),
        arguments=arguments,
        shards_after=one.after,
    )


def _hot(side: ShardSide, curve: LoadCurve, cap: float, keys: Mapping[int, str]) -> list[HotShard]:
    """Shards over the cap, the fullest first: by one key, or by all of them."""
    found = []
    over = [row for row in side.layout if row.load is not None and row.load > cap * (1 + ROUNDING)]
    for row in sorted(over, key=lambda row: -(row.load or 0)):
        heaviest = curve.heaviest_key(int(row.start), int(row.end) + 1)
        kind: Literal["hot-key", "hot-shard", "unknown"] = "unknown"
        if heaviest is not None:
            kind = "hot-key" if heaviest[1] > cap * (1 + ROUNDING) else "hot-shard"
        found.append(
            HotShard(
                shard=row.id,
                load=row.load or 0,
                kind=kind,
                hash_key=str(heaviest[0]) if heaviest else None,
                key_load=heaviest[1] if heaviest else None,
                key=keys.get(heaviest[0]) or None if heaviest else None,
            )
        )
    return found


def uniform_calls(layout: ShardLayout, count: int) -> int:
    """The splits and merges that a change to `count` equal shards takes, whoever carries them out.

    Boundaries of equal shards are cut by rounding, so that those of two counts which mean one place differ by fewer
    keys than there are shards: they are taken for one.

    >>> uniform_calls(new_layout(10), 12)
    18
    """
    starts = new_layout(count).starts
    return difference(layout, _near(layout.starts, starts, count + len(layout.open)))


def _uniform(layout: ShardLayout, curve: LoadCurve, cap: float | None, ours: int) -> list[UniformScaling]:
    """Equal shards: as many as today, as many as the plan has, and a quarter, a half and once more than today."""
    today = len(layout.open)
    counts = sorted({today, ours, *(min(MOST_SHARDS, ceil(today * part)) for part in (1.25, 1.5, 2))})
    rows = []
    for count in counts:
        loads = [curve.between(one.start, one.end + 1) for one in new_layout(count).open]
        mean = sum(loads) / count
        rows.append(
            UniformScaling(
                shards=count,
                calls=uniform_calls(layout, count),
                max_load=max(loads),
                max_over_mean=max(loads) / mean if mean else 0.0,
                within_cap=None if cap is None else max(loads) <= cap * (1 + ROUNDING),
                within_quota=ceil(today / 2) <= count <= min(MOST_SHARDS, 2 * today),
            )
        )
    return rows


def _ticks(curve: LoadCurve | None) -> list[float]:
    if curve is None:
        return []
    loads = np.diff(curve.before)
    heaviest = np.argsort(-loads, kind="stable")[:MOST_TICKS].tolist()
    return sorted(at_share(curve.starts[n]) for n in heaviest if curve.widths[n] == 1)


def _notes(layout: ShardLayout, chosen: Chosen, goal: ShardGoal, hot: Sequence[HotShard], hot_keys: int) -> list[str]:
    """What to know before it is done."""
    notes = []
    if hot_keys:
        notes.append(
            f"{plural(hot_keys, 'hash key')} over the cap alone: a split does not help a hot key. Salt "
            "it, give its records a second key, or spread it in the contract (hot_keys: spread)"
        )
    if any(one.kind == "unknown" for one in hot):
        notes.append(
            "loads are known by shard only, and taken as even inside a shard: whether one key is behind a hot shard "
            "cannot be seen; --measure read, --profile, --load or --registry show it"
        )
    slivers = _slivers(layout.starts, chosen.starts)
    if slivers and not goal.tolerance:
        near = plural(max(slivers), "key")
        notes.append(
            f"new boundaries within {near} of an old one: {len(slivers)}. Rounding of equal widths leaves such "
            f"differences; --tolerance {max(slivers)} keeps the old boundaries and needs fewer calls"
        )
    if not chosen.proven:
        notes.append("with so many shards the search is approximate: a plan with a few calls fewer may exist")
    return notes


def _slivers(old: Sequence[int], new: Sequence[int]) -> list[int]:
    """How far new boundaries are from the old ones that they nearly are."""
    gone, added = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    found, at = [], 0
    for one in added:
        while at + 1 < len(gone) and gone[at + 1] <= one + SLIVER:
            at += 1
        near = min((abs(gone[n] - one) for n in (at - 1, at) if 0 <= n < len(gone)), default=SLIVER)
        found += [near] if near < SLIVER else []
    return found


def _joined(halves: Sequence[int]) -> int:
    return halves[0] << 64 | halves[1]

"""Whether a plan's promise holds on records it has not seen, and how even it makes the lanes of real card payments.

Each set is cut in the middle of its time. A plan is made of the first half alone, its contract is written down, and the
second half is routed under that contract; its fullest lane over the mean is held against what the plan promised. A
stream that turns out more even than promised breaks no promise: only what is worse has a target.

The real sets are public data that is not part of this repository: put the files into a folder and name it in
KEYLANE_DATA. Sets that are not there are left out; drawn ones, steady and wandering, are always there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.timing import Figure
from keylane import Router
from keylane.batch_router import decide
from keylane.contract.model import Key
from keylane.contract.parse import parse_contract
from keylane.measure.balance import max_over_mean
from keylane.plan.contract_text import Means, contract_text
from keylane.plan.planner import Question, make_plan
from keylane.profile.model import Profile, Windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract
    from keylane.plan.candidates import Candidate
    from keylane.plan.planner import Plan

WINDOWS, LANES = 24, (12, 32, 64)
#: Keys that never come back to what they were: the longer ahead, the further off, and no promise holds for long.
WANDERING = "wandering, drawn"
#: File, and the column of the key; records lie in the order of their time.
SETS = {
    "card payments by merchant": ("card_payments.parquet", "merchant"),
    "rides by base": ("ride_pickups_nyc_2014_04.parquet", "base"),
    "rides by place": ("ride_pickups_nyc_2014_04.parquet", None),
    "reads of objects": ("object_reads_orm_busy.parquet", "key"),
    "views of pages": ("page_views_web12.parquet", "key"),
}


def run() -> Iterator[Figure]:
    """Every set at every lane count: the later half over the promise, and how far off that is."""
    for name, keys in _sets():
        for lanes in LANES:
            yield from _kept(name, keys, lanes)
        if name.startswith("card"):
            yield from _card(keys)


def _kept(name: str, keys: pa.Array, lanes: int) -> Iterator[Figure]:
    half = len(keys) // 2
    plan = _planned(keys[:half], lanes)
    chosen = plan.choice.chosen.candidate
    later = max_over_mean(_loads(plan.contract, keys[half:]))
    what = f"{name}, {lanes} lanes, {chosen.strategy}"
    yield Figure(f"{what}: keys named", chosen.listed, "keys")
    yield Figure(f"{what}: promised", chosen.max_over_mean, "max/mean")
    yield Figure(f"{what}: later", later, "max/mean")
    off = later / chosen.max_over_mean - 1
    yield Figure(f"{what}: better than promised by", max(0.0, -off), "of it")
    at_most = None if name == WANDERING else 0.1
    yield Figure(f"{what}: worse than promised by", max(0.0, off), "of it", at_most=at_most)


def _card(keys: pa.Array) -> Iterator[Figure]:
    """All payments on 12 lanes, order kept per merchant: what was not fitted on, and the fit that is no promise."""
    half = len(keys) // 2
    plan = _planned(keys[:half], 12)
    for what, one in (("murmur2 alone", _candidate(plan, "hash")), ("as planned", plan.choice.chosen.candidate)):
        loads = _loads(_contract(plan, one), keys[half:])
        yield Figure(
            f"card payments on 12 lanes, second half, {what}: does the work of", loads.sum() / loads.max(), "lanes"
        )
    for what, some in (("what it was fitted on", keys[:half]), ("the second half", keys[half:])):
        yield Figure(
            f"card payments on 12 lanes, as planned, on {what}", max_over_mean(_loads(plan.contract, some)), "max/mean"
        )


def _candidate(plan: Plan, strategy: str) -> Candidate:
    return next(one.candidate for one in plan.judged if one.candidate.strategy == strategy)


def _contract(plan: Plan, candidate: Candidate) -> Contract:
    return parse_contract(contract_text(candidate, plan.stream.profile, plan.question.means))


def _planned(keys: pa.Array, lanes: int) -> Plan:
    return make_plan(_profiled(keys), Question((lanes,), Means("stream", ("stream",))))


def _loads(contract: Contract, keys: pa.Array) -> Any:
    """Records in every lane of the stream and of its tier."""
    router = Router(contract)
    decided = decide(router, pa.table({"key": keys}), np.zeros(len(keys), np.int64))
    counts = [router.lane_count, *contract.tiers.values()]
    first = np.cumsum([0, *counts[:-1]])
    return np.bincount(first[decided.stream] + decided.lane, minlength=sum(counts))


def _profiled(keys: pa.Array) -> Profile:
    """As `keylane profile` without a time counts them: windows of equal numbers of records."""
    coded = pc.dictionary_encode(keys)
    windows = np.arange(len(keys)) * WINDOWS // len(keys)
    flat = np.bincount(coded.indices.to_numpy() * WINDOWS + windows, minlength=len(coded.dictionary) * WINDOWS)
    counts = flat.reshape(-1, WINDOWS).astype(np.int32)
    order = np.argsort(-counts.sum(axis=1), kind="stable")
    edges = tuple(int(edge) for edge in np.linspace(0, len(keys), WINDOWS + 1))
    table = pa.table({"key": coded.dictionary.take(pa.array(order))})
    return Profile("stream", Key(fields=("key",)), Windows("position", edges), table, counts[order])


def public_sets() -> Iterator[tuple[str, pa.Array]]:
    """The keys of each public set that is in the folder of KEYLANE_DATA."""
    folder = Path(os.environ.get("KEYLANE_DATA", "."))
    for name, (file, column) in SETS.items():
        if (folder / file).is_file():
            yield name, _column(pq.read_table(folder / file), column)


def _sets() -> Iterator[tuple[str, pa.Array]]:
    yield from public_sets()
    yield "steady, drawn", _drawn(drift=0.0)
    yield WANDERING, _drawn(drift=0.5)


def _column(table: pa.Table, name: str | None) -> pa.Array:
    if name is not None:
        return table.column(name).cast(pa.string()).combine_chunks()
    # A hundredth of a degree: about a kilometre.
    places = [pc.cast(pc.divide(table.column(one), 100), pa.string()) for one in ("lat_e4", "lon_e4")]
    return pc.binary_join_element_wise(*places, ",").combine_chunks()


def _drawn(drift: float, records: int = 500_000, keys: int = 20_000) -> pa.Array:
    """Zipf-like keys; each one's weight changes by a random walk of this size from window to window."""
    rng = np.random.default_rng(7)
    weights = 1.0 / (np.arange(keys) + 10)
    parts = []
    for _ in range(WINDOWS):
        weights = weights * np.exp(drift * rng.normal(size=keys) / np.sqrt(WINDOWS))
        parts.append(rng.choice(keys, records // WINDOWS, p=weights / weights.sum()))
    return pc.cast(pa.array(np.concatenate(parts)), pa.string())

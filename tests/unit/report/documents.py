"""Documents of `keylane profile` and `keylane plan` as a page gets them: made of simulated keys, so that figures agree.

Records of keys are drawn, placed on lanes by rules that resemble the real ones, and counted. What the real commands
print is held against the same shape by their own schemas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from keylane.measure.balance import cv, max_over_mean
from keylane.plan.bounds import ceiling, floor
from keylane.plan.cost import Drain, drain_by_gcd
from keylane.plan.sizing import Demand, lanes_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.plan.sizing import Sizing

__all__ = ["Document", "plan_document", "profile_document"]

Document = dict[str, Any]

START = datetime(2013, 11, 12, tzinfo=UTC)
TITLES = {
    "hash": "the hash alone",
    "hash-crc32": "the hash of librdkafka-consistent-random",
    "hash-fnv1a": "the hash of sarama-hash",
    "window": "key and time window hashed together",
    "pin": "few keys pinned, the rest hashed",
    "table": "heavy keys in a table, the rest hashed",
    "spread": "hot keys spread by sub-key",
    "spread-by-position": "hot keys spread by position",
    "tier": "hot keys in a stream of their own",
    "tier-spread": "hot keys in a stream of their own, spread there",
    "concentrate": "accounts on as few lanes as they need",
    "keyless": "no key: any lane",
}
SCOPES = {
    "window": "per-key-and-window",
    "spread": "per-sub-key",
    "tier-spread": "per-sub-key",
    "spread-by-position": "none",
    "keyless": "none",
}
CONTRACT = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: payments}}
spec:
  streams: [payments]
  lanes: {lanes}
  key: {{fields: [merchant], encoding: utf8}}
  partitioner: kafka-java
  hot_keys:
    - {{keys: ["AMAZ…#a1b2c3"], pin: 3}}   # 8 % of the records, < 1/lanes & whole
  expect: {{max_over_mean: 1.3}}
"""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Records of each key, heaviest first, in each window."""

    by_window: NDArray[np.int64]
    rng: np.random.Generator

    @property
    def records(self) -> NDArray[np.int64]:
        made: NDArray[np.int64] = self.by_window.sum(axis=1)
        return made


def traffic(keys: int, records: int, windows: int, flat: float, seed: int) -> Traffic:
    """Zipf-like keys through a day that has its quiet hours; the higher `flat`, the lighter the heaviest of them."""
    rng = np.random.default_rng(seed)
    weights = (np.arange(keys) + flat) ** -1.05
    day = 1 + 0.6 * np.sin(np.linspace(-1.6, 4.7, windows))
    expected = np.outer(weights / weights.sum(), day / day.sum()) * records
    drawn = rng.poisson(expected * rng.gamma(8, 1 / 8, expected.shape))
    return Traffic(drawn[np.argsort(-drawn.sum(axis=1), kind="stable")], rng)


def cells(seen: Traffic, strategy: str, lanes: int) -> NDArray[np.int64]:
    """Records of each lane in each window, under something like a strategy."""
    made = np.zeros((lanes, seen.by_window.shape[1]), np.int64)
    if strategy in SCOPES:
        return made + seen.rng.poisson(seen.by_window.sum(axis=0) / lanes, made.shape)
    lane_of = np.random.default_rng(len(strategy) * 1_000 + lanes).integers(0, lanes, len(seen.by_window))
    if strategy in ("pin", "table", "concentrate", "tier"):
        lane_of = _pinned(seen.records, lane_of, lanes)
    np.add.at(made, lane_of, seen.by_window)
    return made


def _pinned(records: NDArray[np.int64], lane_of: NDArray[np.int64], lanes: int) -> NDArray[np.int64]:
    heavy = min(len(records), 6 * lanes)
    loads = np.bincount(lane_of[heavy:], records[heavy:], lanes)
    placed = lane_of.copy()
    for key in range(heavy):
        placed[key] = int(np.argmin(loads))
        loads[placed[key]] += records[key]
    return placed


def profile_document(
    *,
    keys: int = 4_000,
    records: int = 180_000,
    windows: int = 24,
    lanes: int | None = 12,
    key: str = "merc…#4f0c11",
    kind: str = "time",
    flat: float = 2,
    seed: int = 7,
) -> Document:
    """A document of `keylane profile`; the heaviest key has the name that is given."""
    return _profile(traffic(keys, records, windows, flat, seed), lanes, key, kind)


def _profile(seen: Traffic, lanes: int | None, key: str, kind: str) -> Document:
    records, total = seen.records, int(seen.by_window.sum())
    first = (seen.by_window > 0).argmax(axis=1)
    windows = seen.by_window.shape[1]
    observed = cells(seen, "hash", lanes) if lanes else None
    return {
        "schema": "keylane.profile/1",
        "source": "payments/",
        "key": ["merchant"],
        "encoding": ["utf8"],
        "records": total + 41,
        "bytes": total * 212,
        "distinct_keys": int((records > 0).sum()),
        "without_key": {"null": 38, "empty": 3, "malformed": 0},
        "windows": {
            "kind": kind,
            "edges": _edges(seen.by_window.sum(axis=0), kind),
            "records": seen.by_window.sum(axis=0).tolist(),
            "distinct_keys": (seen.by_window > 0).sum(axis=0).tolist(),
            "new_keys": np.bincount(first[records > 0], minlength=windows).tolist(),
        },
        "heavy": [_heavy(seen, rank, total, key) for rank in range(min(20, len(records)))],
        "key_ranks": _ranks(records[records > 0]),
        "lookalikes": _lookalikes(key),
        "hot": _hot(observed) if observed is not None else None,
        "lanes": {"count": lanes, "by_window": observed.tolist(), "misplaced": 0} if observed is not None else None,
        "approximate": None,
        "how": {
            "records": "Every record of the source was read once, by Spark.",
            "heavy": "Counted exactly, key by key; no sketch.",
            "hot": "Each lane's excess against what chance gives with these very keys, over 1,000 draws.",
        },
        "profile": "payments.profile",
        "fingerprint": "5d3c0a9be1d4f7a26b8a52f4a06fd0a1c1f2f4c9f4e1f86ee61a0b8f6c1a7d33",
    }


def _edges(per_window: NDArray[np.int64], kind: str) -> list[Any]:
    if kind == "position":
        return [0, *np.cumsum(per_window).tolist()]
    step = timedelta(hours=48) / len(per_window)
    return [(START + i * step).strftime("%Y-%m-%dT%H:%M:%SZ") for i in range(len(per_window) + 1)]


def _heavy(seen: Traffic, row: int, total: int, key: str) -> Document:
    records = int(seen.records[row])
    name = key if row == 0 else f"m{row:03}…#{row * 7919 % 0xFFFFFF:06x}"
    windows = seen.by_window[row].tolist()
    return {
        "rank": row + 1,
        "key": name,
        "records": records,
        "share": records / total,
        "error": 0,
        "by_window": windows,
        "bytes": None,
    }


def _ranks(records: NDArray[np.int64]) -> list[Document]:
    ranks = np.unique(np.geomspace(1, len(records), 60).round().astype(int))
    shares, cumulative = records / records.sum(), np.cumsum(records) / records.sum()
    return [
        {"rank": int(rank), "share": float(shares[rank - 1]), "cumulative": float(cumulative[rank - 1])}
        for rank in ranks
    ]


def _lookalikes(key: str) -> Document:
    examples = [
        {"kind": "case", "keys": [key, key.swapcase()], "records": [14_021, 86]},
        {"kind": "spaces", "keys": ["shop 12", "shop 12 "], "records": [310, 9]},
        {"kind": "unicode", "keys": ["caf\u00e9", "cafe\u0301"], "records": [57, 4]},
    ]
    return {"groups": 3, "records": 14_487, "examples": examples}


def _hot(observed: NDArray[np.int64]) -> Document:
    totals = observed.sum(axis=1)
    causes = [
        ("one-key", "its heaviest key holds 71.0% of it; without that key it has 0.90 times its share of the lighter"),
        (
            "unlucky-hash",
            "made of many keys, the heaviest with 0.60% of it; a fair hash gives this in fewer than 0.0004",
        ),
    ]
    lanes = [
        {
            "lane": int(lane),
            "share": float(totals[lane] / totals.sum()),
            "over_mean": float(totals[lane] / totals.mean()),
            "cause": cause,
            "evidence": evidence,
            "chance": chance,
        }
        for lane, (cause, evidence), chance in zip(
            np.argsort(-totals, kind="stable"), causes, (1e-9, 4e-4), strict=False
        )
    ]
    verdict = f"Lane {lanes[0]['lane']} carries {lanes[0]['over_mean']:.2f} times the mean because of one hot key."
    return {"verdict": verdict, "cause": "one-key", "alarm": False, "alpha": 0.001, "chance": 0.02, "lanes": lanes}


def plan_document(
    *,
    lanes: int = 12,
    counts: tuple[int, ...] = (12, 24, 48, 96),
    today: int | None = 12,
    key: str = "merc…#4f0c11",
    keys: int = 4_000,
    records: int = 180_000,
    windows: int = 24,
    kind: str = "time",
    flat: float = 2,
    seed: int = 7,
) -> Document:
    """A document of `keylane plan`: `lanes` are chosen among `counts`; `today` are the lanes of today's contract."""
    seen = traffic(keys, records, windows, flat, seed)
    before = cells(seen, "hash", today) if today else None
    found = [_candidate(seen, strategy, count, before) for count in counts for strategy in TITLES]
    stands = [_candidate(seen, "today", today, before)] if today else []
    chosen = next(one for one in found if (one["strategy"], one["lanes"]) == ("pin", lanes))
    return {
        "schema": "keylane.plan/1",
        "profile": _profile(seen, today, key, kind),
        "constraints": {"keep_order": "per-key", "max_over_mean": 1.3, "lanes": list(counts)},
        "today": {"name": "payments", "epoch": 1, "fingerprint": "0b5e6f2d", **stands[0]} if stands else None,
        "chosen": {**chosen, "met": True, "why": _why(chosen)},
        "verdict": f"Take few keys pinned, the rest hashed, on {lanes} lanes: the fullest lane "
        f"{chosen['max_over_mean']:.2f} times the mean on records it had not seen; order is kept per-key.",
        "candidates": _ranked([*stands, *found], chosen),
        "floor": {str(count): _floor(seen, count) for count in counts},
        "ceiling": ceiling(float(seen.records[0] / seen.records.sum()), lanes).as_json(),
        "sizing": _sizing(lanes_for(Demand(peak_mb_s=41, readers=lanes), lambda _: 1.2)),
        "change": _change(today, lanes) if today else None,
        "folds": _folds(seen, kind, chosen["max_over_mean"]),
        "over_time": {
            "before": _side(before, f"today: the hash alone, {today} lanes") if before is not None else None,
            "after": _side(cells(seen, "pin", lanes), f"chosen: few keys pinned, the rest hashed, {lanes} lanes"),
        },
        "how": {
            "max_over_mean": "the fullest lane over the mean lane: fitted on the first half, counted on the second",
            "floor": "what no placement with each key on one lane goes below, given the records of each key",
            "moved_traffic": "keys of the profile whose lane changes, weighted by records",
        },
        "notes": ["41 records have no key and are in no figure of a lane"],
        "contract": CONTRACT.format(lanes=lanes),
        "contract_fingerprint": "a77e01c25b8f63d90c4e2f1b7d5a98e0c3f6b2a1d4e8f7c6b5a4d3c2b1a09f8e",
        "changes": True,
    }


def _floor(seen: Traffic, lanes: int) -> Document:
    found = floor(seen.records, lanes).as_json()
    return {name: found[name] for name in ("max_over_mean", "cv", "noise_cv", "held_by")}


def _why(chosen: Document) -> list[str]:
    return [
        "it keeps order per-key; per-key was asked for",
        f"on all that was seen the fullest lane is {chosen['fitted']:.2f} times the mean",
        "64 key(s) are named in the contract; the others stay hashed",
    ]


def _candidate(seen: Traffic, strategy: str, lanes: int, before: NDArray[np.int64] | None) -> Document:
    placed = before if strategy == "today" and before is not None else cells(seen, strategy, lanes)
    totals, scope = placed.sum(axis=1), SCOPES.get(strategy, "per-key")
    fitted, kept = max_over_mean(totals.tolist()), scope == "per-key"
    promised = 1 + (fitted - 1) * 1.15 + 0.01
    because = _because(scope, promised)
    moved = 0.0 if strategy == "today" else float(1 - 1 / lanes)
    return {
        "strategy": strategy,
        "title": TITLES.get(strategy, "as it stands today"),
        "partitioner": "kafka-java",
        "lanes": lanes,
        "tier_lanes": 2 if strategy.startswith("tier") else 0,
        "order_scope": scope,
        "lanes_per_key": 1 if kept else min(8, lanes),
        "readers_merge": not kept,
        "overrides": 0 if strategy.startswith(("hash", "window", "keyless", "today")) else 64,
        "max_over_mean": promised,
        "fitted": fitted,
        "cv": cv(totals.tolist()),
        "p99": float(np.quantile(totals / totals.mean(), 0.99)),
        "worst_window": max(max_over_mean(column.tolist()) for column in placed.T),
        "idle_lanes": int((totals == 0).sum()),
        "hottest_key_share": float(seen.records[0] / seen.records.sum()),
        "moved_keys": None if before is None else moved,
        "moved_traffic": None if before is None else moved * 0.9,
        "allowed": because is None,
        "because": because,
    }


def _because(scope: str, promised: float) -> str | None:
    if scope != "per-key":
        return f"keeps order {scope}, wanted per-key"
    return f"max/mean {promised:.2f}, wanted at most 1.3" if promised > 1.3 else None


def _ranked(found: list[Document], chosen: Document) -> list[Document]:
    """The chosen one first, then what is allowed, then what is not."""
    by_balance = sorted(found, key=lambda one: float(one["max_over_mean"] / one["lanes"]))
    ordered = sorted(by_balance, key=lambda one: (one is not chosen, not one["allowed"]))
    return [{**one, "rank": rank if one["allowed"] else None} for rank, one in enumerate(ordered, 1)]


def _sizing(sized: Sizing) -> Document:
    return {
        "lanes": sized.suggested,
        "fewest": sized.lanes,
        "binding": sized.binding,
        "reasons": [{"reason": need.reason, "lanes": need.lanes, "says": need.says} for need in sized.needs],
        "parallelism": sized.parallelism,
        "useful_readers": sized.useful_readers,
        "fullest_lane_mb_s": sized.fullest_lane_mb_s,
        "limits": [],
        "says": [sized.says, *(f"assumed: {text}" for text in sized.assumptions)],
    }


def _change(old: int, new: int) -> Document:
    drain = drain_by_gcd(old, new) if old != new else _few_parents(old)
    kinds = {
        "moves-keys": "47 % of the keys get another lane: drain before the switch",
        "breaks-co-partitioning": "payments.refunds shares the contract of today and has to change with it",
        "safe": "what is expected of the lanes moves nothing",
    }
    return {
        "moved_keys": 0.4712,
        "moved_traffic": 0.6231,
        "expected": None if old == new else 1 - math.gcd(old, new) / max(old, new),
        "old_lanes": drain.old_lanes,
        "fan_in": drain.fan_in,
        "waits_for": [{"lane": lane, "for": list(parents)} for lane, parents in enumerate(drain.parents)],
        "kinds": [{"kind": kind, "message": message} for kind, message in kinds.items()],
        "possible": True,
        "epoch_to_raise": 2,
        "says": [] if old == new else [f"Spark keeps {old} shuffle partitions in the checkpoint of a stateful query"],
    }


def _few_parents(lanes: int) -> Drain:
    """Keys that were pinned: a lane waits for itself, and for where its new keys come from."""
    return Drain("keys", lanes, lanes, tuple(tuple(sorted({lane, lane * 7 % lanes})) for lane in range(lanes)))


def _folds(seen: Traffic, kind: str, promise: float) -> list[Document]:
    edges = _edges(seen.by_window.sum(axis=0), kind)
    cuts = [len(edges) * part // 6 for part in (3, 4, 5)]
    return [
        {
            "fitted_until": edges[cut],
            "scored_until": edges[min(len(edges) - 1, cut + 4)],
            "fitted": 1.002,
            "scored": score,
        }
        for cut, score in zip(cuts, (promise, 1.16, 1.09), strict=True)
    ]


def _side(placed: NDArray[np.int64], title: str) -> Document:
    return {
        "title": title,
        "lanes": len(placed),
        "cells": placed.tolist(),
        "totals": placed.sum(axis=1).tolist(),
    }

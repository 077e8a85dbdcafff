"""Documents of `keylane profile` and `keylane plan` as a page gets them: made of simulated keys, so that figures agree.

Records of keys are drawn, placed on lanes by rules that resemble the real ones, and counted. What the real commands
print is held against the same shape by their own schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from keylane.measure.balance import cv, least_cv, max_over_mean, noise_floor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Document", "plan_document", "profile_document"]

Document = dict[str, Any]

START = datetime(2013, 11, 12, tzinfo=UTC)
TITLES = {
    "hash": "every key hashed, as the Java client does it",
    "hash-crc32": "every key hashed by CRC32",
    "hash-fnv1a": "every key hashed by FNV-1a",
    "pin": "heavy keys pinned, the rest hashed",
    "table": "every key in a table",
    "concentrate": "light keys on few lanes, heavy ones on their own",
    "tier": "heavy keys on a stream of their own",
    "window": "key and minute hashed together",
    "spread": "heavy keys spread by a sub-key",
    "tier-spread": "heavy keys on a stream of their own, spread there",
    "spread-by-position": "heavy keys spread by position",
    "keyless": "keys ignored: lanes in turn",
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
        "lanes": {"count": lanes, "by_window": observed.tolist()} if observed is not None else None,
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
    fullest = np.argsort(-totals, kind="stable")[:2]
    causes = [
        ("one-key", "merc…#4f0c11 alone is 71 % of the lane; without it the lane holds 0.9 of the mean.", 1e-9),
        ("unlucky-hash", "No key is above 6 % of the lane; 1,412 keys where 1,320 ± 35 are expected.", 0.0004),
    ]
    return {
        "verdict": "2 lanes are hotter than chance allows: one of a single key, one of an unlucky hash.",
        "alpha": 0.001,
        "chance": 0.02,
        "lanes": [
            {
                "lane": int(lane),
                "share": float(totals[lane] / totals.sum()),
                "over_mean": float(totals[lane] / totals.mean()),
                "cause": cause,
                "evidence": evidence,
                "chance": chance,
            }
            for lane, (cause, evidence, chance) in zip(fullest, causes, strict=True)
        ],
    }


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
    after = cells(seen, "pin", lanes)
    candidates = [_candidate(seen, strategy, count, before) for count in counts for strategy in TITLES]
    _ranked(candidates, lanes)
    chosen = next(one for one in candidates if one["rank"] == 1)
    return {
        "schema": "keylane.plan/1",
        "profile": _profile(seen, today, key, kind),
        "constraints": {"keep_order": "per-key", "max_over_mean": 1.3, "lanes": list(counts)},
        "today": _today(before) if before is not None else None,
        "chosen": {
            **{name: chosen[name] for name in ("strategy", "title", "lanes", "order_scope", "max_over_mean", "cv")},
            "fitted": chosen["fitted"],
            "why": [
                "The fewest lanes that keep max/mean at most 1.3 out of sample.",
                "Each key stays on one lane, so readers need not merge.",
            ],
        },
        "verdict": f"Pin the {chosen['overrides']} heaviest merchants to lanes of their own choosing, hash the rest. "
        "Every merchant stays on one lane.",
        "candidates": candidates,
        "floor": {str(count): _floor(seen, count) for count in counts},
        "ceiling": {
            "hottest_key_share": float(seen.records[0] / seen.records.sum()),
            "useful_lanes": int(seen.records.sum() // seen.records[0]),
            "says": "More lanes than that gain nothing while the heaviest key stays whole.",
        },
        "sizing": _sizing(lanes),
        "change": _change(today, lanes) if today else None,
        "folds": _folds(seen, kind),
        "over_time": {
            "before": _side(before, f"today: hash, {today} lanes") if before is not None else None,
            "after": _side(after, f"pin, {lanes} lanes"),
        },
        "how": {
            "max_over_mean": "Fitted on earlier windows, scored on later ones: what held out of sample.",
            "floor": "The least that any placement with one lane a key can reach, given these records.",
            "moved_traffic": "Every key placed under both contracts, weighed with its records.",
        },
        "notes": ["38 records have no key; they go where the client's rule for null keys sends them."],
        "contract": CONTRACT.format(lanes=lanes),
        "contract_fingerprint": "a77e01c25b8f63d90c4e2f1b7d5a98e0c3f6b2a1d4e8f7c6b5a4d3c2b1a09f8e",
        "changes": True,
    }


def _candidate(seen: Traffic, strategy: str, lanes: int, before: NDArray[np.int64] | None) -> Document:
    placed = cells(seen, strategy, lanes)
    totals, scope = placed.sum(axis=1), SCOPES.get(strategy, "per-key")
    fitted = max_over_mean(totals.tolist())
    worst = max(max_over_mean(column.tolist()) for column in placed.T)
    moved = float(1 - 1 / lanes) if before is not None else None
    allowed = scope == "per-key"
    return {
        "strategy": strategy,
        "title": TITLES[strategy],
        "lanes": lanes,
        "order_scope": scope,
        "lanes_per_key": 1 if allowed else min(8, lanes),
        "readers_merge": not allowed,
        "overrides": 0 if strategy.startswith(("hash", "window", "keyless")) else 64,
        "max_over_mean": 1 + (fitted - 1) * 1.15 + 0.01,
        "fitted": fitted,
        "cv": cv(totals.tolist()),
        "p99": float(np.quantile(totals / totals.mean(), 0.99)),
        "worst_window": worst,
        "hottest_key_share": float(seen.records[0] / seen.records.sum()),
        "moved_keys": moved,
        "moved_traffic": None if moved is None else moved * 0.9,
        "allowed": allowed,
        "because": None if allowed else f"keeps order {scope.replace('-', ' ')} only; asked for: per key",
        "rank": None,
    }


def _ranked(candidates: list[Document], lanes: int) -> None:
    """The chosen one first, then whatever keeps the constraint best."""
    allowed = [one for one in candidates if one["allowed"]]
    chosen = (lanes, "pin")
    order = sorted(allowed, key=lambda one: ((one["lanes"], one["strategy"]) != chosen, one["max_over_mean"]))
    for rank, one in enumerate(order, 1):
        one["rank"] = rank


def _today(before: NDArray[np.int64]) -> Document:
    totals = before.sum(axis=1).tolist()
    return {
        "name": "payments",
        "fingerprint": "0b5e6f2d",
        "strategy": "hash",
        "lanes": len(totals),
        "max_over_mean": max_over_mean(totals),
        "cv": cv(totals),
    }


def _floor(seen: Traffic, lanes: int) -> Document:
    share = float(seen.records[0] / seen.records.sum())
    records = int(seen.records.sum())
    return {
        "max_over_mean": max(1.0, share * lanes),
        "cv": least_cv(seen.records.tolist(), lanes),
        "noise_cv": noise_floor(lanes, records),
    }


def _sizing(lanes: int) -> Document:
    return {
        "lanes": lanes,
        "reasons": [
            {"reason": "write throughput", "lanes": max(1, lanes // 2), "says": "peak 41 MB/s, 10 MB/s a lane"},
            {"reason": "consumer rate", "lanes": lanes, "says": "peak 12,000 records/s, 1,100 a reader"},
            {"reason": "growth and headroom", "lanes": max(1, lanes * 3 // 4), "says": "1.5 times in a year"},
        ],
        "says": ["The consumers decide: they are the slowest part.", "Not a power of two: a doubling is still cheap."],
    }


def _change(old: int, new: int) -> Document:
    step = int(np.gcd(old, new))
    return {
        "moved_keys": 0.4712,
        "moved_traffic": 0.6231,
        "expected": 1 - step / max(old, new),
        "waits_for": [
            {"lane": lane, "for": sorted({*range(lane % step, old, step), lane * 7 % old})} for lane in range(new)
        ],
        "kinds": [
            {"kind": "moves-keys", "message": "47 % of the keys get another lane: drain before you switch."},
            {"kind": "breaks-co-partitioning", "message": "payments.refunds shares the contract and must change too."},
            {"kind": "freezes-state", "message": "Spark state keeps its shuffle partitions; start a new checkpoint."},
        ],
        "says": ["A reader of a new lane must have drained the old lanes it waits for."],
    }


def _folds(seen: Traffic, kind: str) -> list[Document]:
    edges = _edges(seen.by_window.sum(axis=0), kind)
    cuts = [len(edges) * part // 6 for part in (3, 4, 5)]
    return [
        {
            "fitted_until": edges[cut],
            "scored_until": edges[min(len(edges) - 1, cut + 4)],
            "fitted": 1.002,
            "scored": score,
        }
        for cut, score in zip(cuts, (1.21, 1.16, 1.09), strict=True)
    ]


def _side(placed: NDArray[np.int64], title: str) -> Document:
    return {
        "title": title,
        "lanes": len(placed),
        "cells": placed.tolist(),
        "totals": placed.sum(axis=1).tolist(),
    }

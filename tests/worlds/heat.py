"""Streams with a hot lane whose cause is planted, and what of them a profile states, counted.

`heated(cause, seed)` is a stream in two halves of the same traffic: the first is shown, the second held out. Nothing
here comes from keylane.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.worlds.producers import BEGIN, HOUR, Recipe, Writer, made

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    #: A place is the stream, which a tier has of its own, and the lane in it.
    Place = tuple[str | None, int | None]

CAUSES: Final = ("fair", "one-key", "few-keys", "unlucky-hash", "mixed-writer")
_POPULATIONS: Final = ("uuid", "words", "email", "padded")
_RULES: Final = (("murmur2", "masked"), ("crc32", "unsigned"), ("fnv1a", "absolute"), ("murmur3-32", "masked"))
ROWS: Final = 24_000


@dataclass(frozen=True, eq=False)
class Heated:
    """One stream: its records in the order of time, by which rule they are to lie, and what makes a lane hot."""

    cause: str
    seed: int
    rule: Writer
    keys: tuple[str | None, ...]
    lanes: NDArray[np.int64]
    times: NDArray[np.int64]

    @property
    def half(self) -> int:
        """The records that are shown."""
        return len(self.keys) // 2

    @cached_property
    def records(self) -> Counter[str]:
        """Records of each key that were shown."""
        return Counter(key for key in self.keys[: self.half] if key)

    @property
    def later(self) -> tuple[str, ...]:
        """Keys of the records that were held out."""
        return tuple(key for key in self.keys[self.half :] if key)

    def misplaced(self) -> int:
        """Records with a key that do not lie by the rule, of those that were shown."""
        keyed = [(key, lane) for key, lane in zip(self.keys[: self.half], self.lanes.tolist(), strict=False) if key]
        placed = self.rule.place([key for key, _ in keyed])
        return int((placed != np.array([lane for _, lane in keyed])).sum())

    def write(self, path: str) -> str:
        """The first half as a file of Parquet."""
        shown = slice(0, self.half)
        columns = {"key": pa.array(self.keys[shown], pa.string()), "lane": pa.array(self.lanes[shown].astype(np.int32))}
        columns["time"] = pa.array(self.times[shown], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table(columns), path)
        return path

    def describe(self) -> str:
        """The stream in one line."""
        return f"{self.cause}, seed {self.seed}: {self.rule}; {self.half:,} rows of {len(self.records):,} keys"


def heated(cause: str, seed: int) -> Heated:
    """A stream from a seed, with this cause."""
    rng = np.random.default_rng([seed, CAUSES.index(cause), 33])
    hash_, fold = _RULES[int(rng.integers(len(_RULES)))]
    rule = Writer(hash_, fold, "utf8", int(rng.integers(6, 25)))
    distinct = int(rng.integers(4, 8)) if cause == "few-keys" else int(rng.integers(2_000, 5_000))
    population = _POPULATIONS[int(rng.integers(len(_POPULATIONS)))]
    plain = Recipe(seed, "listed", population, distinct * 3, distinct * 3, (rule,), (1.0,), skew="once")
    keys = list(made(plain).distinct)
    if cause == "unlucky-hash":
        # One lane of the rule has three times the keys of another.
        full = int(rng.integers(rule.lanes))
        kept = (rule.place(keys) == full) | (rng.random(len(keys)) < 1 / 3)
        keys = [key for key, own in zip(keys, kept, strict=True) if own]
    else:
        keys = keys[:distinct]
    code = rng.integers(0, len(keys), ROWS)
    if cause == "one-key":
        code = np.where(rng.random(ROWS) < rng.uniform(0.2, 0.5), 0, code)
    lanes = rule.place(keys)[code]
    if cause == "mixed-writer":
        # A service that still knows the few lanes of the beginning.
        other = Writer("java-string", "masked", "utf8", max(2, rule.lanes // 4))
        lanes = np.where(rng.random(ROWS) < rng.uniform(0.2, 0.45), other.place(keys)[code], lanes)
    column: list[str | None] = [keys[at] for at in code.tolist()]
    for at in np.flatnonzero(rng.random(ROWS) < rng.choice([0.0, 0.1])).tolist():
        column[at], lanes[at] = None, int(rng.integers(rule.lanes))
    times = BEGIN + np.sort(rng.integers(0, 48 * HOUR, ROWS))
    return Heated(cause, seed, rule, tuple(column), lanes, times)


def false_profile(case: Heated, said: dict[str, Any]) -> list[str]:
    """What a profile states of the half that was shown, and is not so."""
    shares = case.lanes[: case.half]
    loads = np.bincount(shares, minlength=case.rule.lanes)
    nulls = case.half - sum(case.records.values())
    facts = {
        "records": (said["records"], case.half),
        "distinct keys": (said["distinct_keys"], len(case.records)),
        "null keys": (said["without_key"]["null"], nulls),
        "records with a key, by window": (sum(said["windows"]["records"]), case.half - nulls),
        "lanes": (np.sum(said["lanes"]["by_window"], axis=1).tolist(), loads.tolist()),
        "misplaced": (said["lanes"]["misplaced"], case.misplaced()),
        "cause": (said["hot"]["cause"], case.cause),
    }
    if case.cause == "fair" and said["hot"]["cause"] == "few-keys" and not said["hot"]["alarm"]:
        # What a fair hash gives of so many keys, however it is called.
        del facts["cause"]
    false = [f"{name}: {got}, and it is {truth}" for name, (got, truth) in facts.items() if got != truth]
    keyed = sum(case.records.values())
    for heavy in said["heavy"]:
        truth = case.records[heavy["key"]]
        if abs(heavy["records"] - truth) > heavy["error"]:
            false.append(f"{heavy['key']} has {heavy['records']} records, and it is {truth}")
        if not any(abs(heavy["share"] - heavy["records"] / of) < 1e-6 for of in (keyed, case.half)):
            false.append(f"{heavy['key']} has {heavy['share']:.4%} of the records")
    lightest = min(heavy["records"] + heavy["error"] for heavy in said["heavy"])
    named = {heavy["key"] for heavy in said["heavy"]}
    missing = [key for key, records in case.records.items() if records > lightest and key not in named]
    return [*false, *(f"{key} is heavier than those that are named" for key in missing)]


def false_plan(
    case: Heated, said: dict[str, Any], before: Mapping[str, Place], after: Mapping[str, Place]
) -> list[str]:
    """What a plan states, and is not so: `before` and `after` are where both contracts put every key of the case."""
    false = []
    keys = list(case.records)
    moved = [key for key in keys if before[key] != after[key]]
    keyed = sum(case.records.values())
    counted = {
        "moved_keys": len(moved) / len(keys),
        "moved_traffic": sum(case.records[key] for key in moved) / keyed,
    }
    for name, truth in counted.items():
        for where, stated in (("chosen", said["chosen"][name]), ("change", (said["change"] or {}).get(name))):
            if stated is not None and abs(stated - truth) > 1e-5:
                false.append(f"{where}: {name} is {stated:.4%}, counted {truth:.4%}")
    was, now = (_fullest(placed, case.later) for placed in (before, after))
    if said["changes"] and now > was + _noise(was, len(case.later)):
        false.append(f"the plan is worse than today on what came later: {now:.2%} in its fullest lane, not {was:.2%}")
    # Counted by the plan on the last quarter of what was shown.
    for name, later in (("today", was), ("chosen", now)):
        stated = said[name]["fullest_share"]
        if abs(stated - later) > _noise(later, len(case.later)) + _noise(later, keyed // 4):
            false.append(f"{name}: {stated:.2%} in the fullest lane, later it was {later:.2%}")
    return false


def _fullest(placed: Mapping[str, Place], keys: tuple[str, ...]) -> float:
    loads = Counter(placed[key] for key in keys)
    return max(loads.values()) / len(keys)


def _noise(share: float, records: int) -> float:
    return 4 * (share * (1 - share) / records) ** 0.5

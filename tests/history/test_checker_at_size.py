"""The checker proves itself, at size: every planted fault under fifty seeds, and a million clean records in a minute.

Each prints its seeds, its size and its verdict as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.history.generated_histories import ONCE, REPEATED, clean

from keylane.testing.history import Settings, check, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.history.generated_histories import World

SEEDS = range(1000, 1050)
MODES = {"exactly-once": (Settings(dense=True), ONCE), "at-least-once": (Settings(mode="at-least-once"), REPEATED)}
RECORDS, KEYS, LANES, WRITERS = 1_000_000, 20_000, 32, 8


def said(**about: Any) -> None:
    sys.stdout.write(json.dumps(about) + "\n")


@pytest.mark.faults
@pytest.mark.parametrize("mode", MODES)
def test_every_planted_fault_is_caught_under_fifty_seeds(mode: str) -> None:
    settings, faults = MODES[mode]
    replays, missed = mode == "at-least-once", []
    for damage, rule in faults.items():
        caught = sum(_is_caught(seed, damage, settings, rule, replays=replays) for seed in SEEDS)
        missed += [] if caught == len(SEEDS) else [(damage.__name__, caught)]
    said(mode=mode, kinds=len(faults), seeds=[SEEDS[0], SEEDS[-1]], missed=missed)
    assert len(faults) >= 12
    assert missed == []


def _is_caught(seed: int, damage: Callable[[World], None], settings: Settings, rule: Any, *, replays: bool) -> bool:
    world = clean(seed, replays=replays)
    damage(world)
    return check(world.batches(), settings).counts[rule] > 0


@pytest.mark.faults
@pytest.mark.parametrize("mode", MODES)
def test_two_hundred_clean_histories_raise_no_alarm(mode: str) -> None:
    settings, _ = MODES[mode]
    alarms = [
        seed
        for seed in range(2000, 2200)
        if not check(clean(seed, replays=mode == "at-least-once").batches(), settings).ok
    ]
    said(mode=mode, seeds=[2000, 2199], alarms=alarms)
    assert alarms == []


def history(seed: int, records: int) -> tuple[list[pa.RecordBatch], dict[str, int]]:
    """Sends, one in fifty of unknown outcome, of which a half was read, one in a hundred failed; and their reads."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, KEYS, records)
    outcome = rng.choice([2, 1, 0], records, p=[0.97, 0.02, 0.01]).astype(np.int8)
    names = pa.array([b"merchant_%06d" % n for n in range(KEYS)], pa.binary())
    digest = rng.integers(-(2**62), 2**62, records)
    writer = pa.array([f"w{n}" for n in range(WRITERS)]).take(pa.array(key % WRITERS))
    every = {"writer": writer, "seq": pa.array(np.arange(records)), "key": names.take(pa.array(key)), "digest": digest}
    sent = rows("send", outcome=pa.array(["failed", "unknown", "ok"]).take(pa.array(outcome)), keyed=True, **every)
    landed = np.flatnonzero((outcome == 2) | ((outcome == 1) & (rng.random(records) < 0.5)))
    lane = key[landed] * 7 % LANES
    by_lane = np.argsort(lane, kind="stable")
    offset = np.empty(len(landed), np.int64)
    offset[by_lane] = np.arange(len(landed)) - np.searchsorted(lane[by_lane], lane[by_lane])
    taken = pa.table({name: pa.array(column) for name, column in every.items()}).take(pa.array(landed))
    read = rows(
        "read",
        **{name: taken[name].combine_chunks() for name in every},
        keyed=True,
        lane=lane.astype(np.int32),
        expected_lane=lane.astype(np.int32),
        offset=offset,
        place=offset,
    )
    unknown = int((outcome == 1).sum())
    return [sent, read], {"unknown": unknown, "unknown_read": int((outcome[landed] == 1).sum())}


def test_unknown_outcomes_are_neither_lost_nor_invented() -> None:
    batches, facts = history(5, 20_000)
    found = check(batches, Settings(dense=True))
    assert found.ok, found.violations
    assert {name: found.facts[name] for name in facts} == facts


@pytest.mark.faults
def test_a_million_clean_records_are_certified_in_a_minute() -> None:
    batches, facts = history(7, RECORDS)
    began = time.process_time()
    found = check(batches, Settings(dense=True))
    seconds = time.process_time() - began
    alarms = sum(found.counts.values())
    said(seed=7, records=RECORDS, reads=found.records, **facts, alarms=alarms, seconds=round(seconds, 1))
    assert alarms == 0
    assert {name: found.facts[name] for name in facts} == facts
    assert seconds <= 60

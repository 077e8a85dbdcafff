"""What was counted -> each figure beside what the lesson asks of it, kept or broken; and why CV < 5 % is not to be had.

Pure. Where the counts come from: `run`. What CV and its floors are: `keylane.measure.balance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.measure.balance import cv, least_cv, max_over_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.systems.kafka_measured import Following, Sent

__all__ = ["SCHEMA", "Cell", "Check", "Lesson", "Producer", "Rule", "Trial", "checks", "records_for_cv", "trial", "why"]

SCHEMA: Final = "keylane.demo-lesson/1"
#: What the lesson asks: all of CV, errors and lag below, batches above.
MOST_CV: Final = 0.05
MOST_ERRORS: Final = 0.0
LEAST_BATCH: Final = 16_384
MOST_LAG: Final = 500


@dataclass(frozen=True, slots=True)
class Rule:
    """One of the two: its name here, the contract's name of it, and as one would write it."""

    name: str
    partitioner: str
    formula: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One key: its cities, its records, and its lane under each rule."""

    cell: str
    cities: list[str]
    records: int
    lanes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Producer:
    """The settings of the producer that batches depend on, and the pace it was given; 0 is as fast as it goes."""

    linger_ms: int = 20
    batch_size: int = 65_536
    compression: str = "none"
    acks: str = "all"
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the lesson asks. `got` is None where it could not be measured, which keeps nothing."""

    measure: str
    asked: str
    got: float | None
    kept: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """One rule on one topic: what the broker holds of each lane, what the producer and the group saw."""

    name: str
    partitioner: str
    formula: str
    topic: str
    active_lanes: int
    cv: float
    max_over_mean: float
    fullest_lane: int
    sent: int
    failed: int
    first_error: str | None
    error_rate: float
    seconds: float
    batches: int
    mean_batch_bytes: float | None
    mean_batch_records: float | None
    read: int
    peak_lag: int
    peak_lag_lane: int
    end_lag: int
    lag_samples: int
    per_lane: list[int]
    checks: list[Check]


@dataclass(frozen=True, slots=True)
class Lesson:
    """All that was found."""

    schema: str
    version: str
    seed: int
    drivers: int
    updates: int
    radius_km: float
    records: int
    lanes: int
    resolution: int
    broker: str
    own_broker: bool
    producer: Producer
    kept: bool
    why: str
    least_cv: float
    noise_floor: float
    records_for_cv: int
    cells: list[Cell]
    trials: list[Trial]


def trial(rule: Rule, sent: Sent, group: Following) -> Trial:
    """The figures of one rule."""
    records, failed = sent.delivered + sent.failed, sent.failed
    told = bool(sent.batches) and sent.batch_records >= sent.delivered
    batch = sent.batch_bytes / sent.batches if told else None
    spread, errors = cv(group.read), failed / records if records else 0.0
    lag, end = int(group.peak.max()), int(group.end.max())
    return Trial(
        name=rule.name,
        partitioner=rule.partitioner,
        formula=rule.formula,
        topic=sent.topic,
        active_lanes=int(np.count_nonzero(group.read)),
        cv=spread,
        max_over_mean=max_over_mean(group.read),
        fullest_lane=int(group.read.argmax()),
        sent=records,
        failed=failed,
        first_error=sent.first_error,
        error_rate=errors,
        seconds=sent.seconds,
        batches=sent.batches,
        mean_batch_bytes=batch,
        mean_batch_records=sent.batch_records / sent.batches if told else None,
        read=int(group.read.sum()),
        peak_lag=lag,
        peak_lag_lane=int(group.peak.argmax()),
        end_lag=end,
        lag_samples=group.samples,
        per_lane=group.read.tolist(),
        checks=checks(spread, errors, batch, lag, end),
    )


def checks(spread: float, errors: float, batch: float | None, lag: int, end: int) -> list[Check]:
    """Each figure held against the lesson's threshold."""
    return [
        Check("cv", "< 5 %", spread, spread < MOST_CV),
        Check("error_rate", "0", errors, errors <= MOST_ERRORS),
        Check("mean_batch_bytes", "> 16 KB", batch, batch is not None and batch > LEAST_BATCH),
        Check("peak_lag", "< 500", lag, lag < MOST_LAG),
        Check("end_lag", "< 500", end, end < MOST_LAG),
    ]


def why(keys: Sequence[int], lanes: int) -> str:
    """In one line, why CV < 5 % cannot be had with these keys on so many lanes; or that it could be."""
    least, cells = least_cv(keys, lanes), len(keys)
    if least < MOST_CV:
        return (
            f"The sizes of the {cells} cells do not rule out CV < 5 % on {lanes} lanes; but a hash does not look at "
            "sizes, so that would be luck."
        )
    heaviest = max(keys) * lanes / sum(keys)
    reason = (
        f"{cells} cells fill at most {cells} of {lanes} lanes"
        if cells < lanes
        else f"the lane of the heaviest cell holds at least {heaviest:.1f} times the mean"
    )
    return (
        f"No hash can keep CV < 5 % here: a cell is one key and a key has one lane, so {reason}, "
        f"and CV is at least {100 * least:.0f} %."
    )


def records_for_cv(lanes: int) -> int:
    """How many records it takes until chance alone leaves CV below the threshold."""
    return floor((lanes - 1) / MOST_CV**2 + 1e-9) + 1

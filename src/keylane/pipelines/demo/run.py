"""The demo's steps in a row: make the day, write it, learn from its morning, route it under each contract, count.

`run_demo` leaves a folder: `source/` (Parquet, as a source of `keylane route`), `contracts/` (YAML) and `figures.json`.
The page is made from what it returns, by `keylane.report.demo`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.parquet as pq
from pyspark.errors import PySparkException

from keylane import __version__
from keylane.errors import DataError, KeylaneError, SparkError, TargetError
from keylane.pipelines.demo import choose, counts, figures, traffic
from keylane.pipelines.demo.figures import SCHEMA, Case, Demo
from keylane.pipelines.demo.order import order_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from keylane.pipelines.demo.choose import Choice
    from keylane.pipelines.demo.tally import KeyCounts

    Say = Callable[[str], None]

__all__ = ["run_demo", "told"]

#: How many heavy keys are shown.
SHOWN: Final = 8
#: Files a source has, so that two cores have something to share.
FILES: Final = 4


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream before it is tried: its name, its key, the group inside a key that must not part, how it is made."""

    name: str
    key: str
    sub_key: str | None
    private: bool
    make: Callable[[np.random.Generator, traffic.Sizes], pa.Table]
    choices: Callable[[dict[str, int]], list[Choice]]


STREAMS: Final = (
    _Stream("payments", "merchant_id", "order_id", True, traffic.payments, choose.payments_choices),
    _Stream("rides", "city", "ride_id", False, traffic.rides, lambda _: choose.rides_choices()),
    _Stream("queries", "query_id", None, True, traffic.query_events, choose.queries_choices),
)


@contextmanager
def told(to: Path) -> Iterator[None]:
    """Errors of the disk and of Spark in keylane's words. The next run replaces whatever is there of this one."""
    try:
        yield
    except KeylaneError:
        raise
    except OSError as error:
        hint = "make room, or --to another folder; the next run replaces what is there"
        raise TargetError.of(f"the demo cannot write: {error.strerror or error}", got=str(to), hint=hint) from error
    except Exception as error:
        if not isinstance(error, PySparkException) and not type(error).__module__.startswith("py4j"):
            raise
        raise SparkError.of("Spark failed in the demo", got=str(error).partition("\n")[0]) from error


def run_demo(spark: SparkSession, to: Path, seed: int, sizes: traffic.Sizes, say: Say) -> Demo:
    """Run every step; `say` hears of each. The folder must be there."""
    days = [(stream, _written(to, stream, seed, sizes, say)) for stream in STREAMS]
    cases, drift = [], []
    for stream, path in days:
        day = spark.read.parquet(str(path))
        tallied = counts.key_counts(day, stream.key)
        say(f"{stream.name}: {int(tallied.day.sum()):,} records of {len(tallied.keys):,} keys")
        cases.append(_case(to, stream, day, tallied, say))
        if stream.name == "payments":
            drift = _drift(tallied, sizes.merchants)
            say(f"drift: {len(drift)} changes of lane count for {sizes.merchants:,} merchants")
    made = (SCHEMA, __version__, spark.version, seed, sizes.scale, f"{traffic.DAY:%Y-%m-%d}")
    demo = Demo(*made, cases, sizes.merchants, drift)
    (to / "figures.json").write_text(json.dumps(figures.as_document(demo)), encoding="utf-8")
    return demo


def _written(to: Path, stream: _Stream, seed: int, sizes: traffic.Sizes, say: Say) -> Path:
    """Make a stream's day and write it. Each stream has its own chance, so that one can change and the others stay."""
    rng = np.random.default_rng([seed, *stream.name.encode()])
    table = stream.make(rng, sizes)
    folder = to / "source" / stream.name
    folder.mkdir(parents=True, exist_ok=True)
    rows = -(-len(table) // FILES)
    for part in range(FILES):
        pq.write_table(table.slice(part * rows, rows), folder / f"part-{part}.parquet")
    say(f"{stream.name}: a day of {len(table):,} records made")
    return folder


def _case(to: Path, stream: _Stream, day: DataFrame, tallied: KeyCounts, say: Say) -> Case:
    choices = stream.choices(tallied.of_morning)
    for choice in choices:
        _write_contract(to, choice)
    groups = [stream.key, *([stream.sub_key] if stream.sub_key else [])]
    routed = counts.lanes_under(day, [choice.contract for choice in choices], groups).cache()
    try:
        trials = _trials(stream, choices, routed, tallied, say)
        seen = counts.lanes_seen(routed, stream.key, tallied.heaviest(SHOWN), len(choices))
    finally:
        routed.unpersist()
    return Case(
        name=stream.name,
        key=stream.key,
        sub_key=stream.sub_key,
        private=stream.private,
        records=int(tallied.day.sum()),
        distinct_keys=len(tallied.keys),
        chosen=len(choices) - 1,
        trials=trials,
        hot_keys=figures.hot_keys(tallied, trials[0].lanes, seen[0], seen[-1]),
    )


def _trials(
    stream: _Stream, choices: list[Choice], routed: DataFrame, tallied: KeyCounts, say: Say
) -> list[figures.Trial]:
    trials = []
    lanes = counts.lane_counts(routed, [int(choice.contract.spec.lanes) for choice in choices])
    keys = counts.parted(routed, stream.key, len(choices))
    sub_keys = counts.parted(routed, stream.sub_key, len(choices)) if stream.sub_key else [None] * len(choices)
    for i, choice in enumerate(choices):
        _adds_up(choice, int(lanes[i].cells.sum()) + lanes[i].unplaced, int(tallied.day.sum()))
        scopes = order_kept(choice.contract, tallied.of_day)
        trials.append(figures.trial(choice, lanes[i], scopes, keys[i], sub_keys[i]))
        say(f"{choice.name}: the fullest lane holds {trials[i].max_over_mean:.2f} times the mean")
    return trials


def _adds_up(choice: Choice, found: int, records: int) -> None:
    if found != records:
        raise DataError.of(f"{choice.name}: records do not add up", got=found, allowed=str(records))


def _write_contract(to: Path, choice: Choice) -> None:
    folder = to / "contracts"
    folder.mkdir(exist_ok=True)
    (folder / f"{choice.name}.yaml").write_text(choice.text, encoding="utf-8")


def _drift(tallied: KeyCounts, merchants: int) -> list[figures.Drift]:
    """All merchants, also those without a payment today: their next one moves just the same."""
    names = traffic.all_merchants(merchants).to_pylist()
    of_day = tallied.of_day
    return figures.drift(names, np.array([of_day.get(name, 0) for name in names]))

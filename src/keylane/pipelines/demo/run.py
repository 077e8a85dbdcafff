"""The demo's steps in a row: make the day, write it, learn from its morning, route it under each contract, count.

`run_demo` leaves a folder: `source/` (Parquet, as a source of `keylane route`), `contracts/` (YAML), `aggregate/` (see
`standing`) and `figures.json`.
The page is made from what it returns, by `keylane.report.demo_page`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from keylane import __version__, numbers
from keylane.documents.demo import DemoCase, DemoFigures, Parted
from keylane.errors import DataError, KeylaneError, SparkError, TargetError
from keylane.pipelines.demo import contracts, figures, traffic
from keylane.pipelines.demo.figures import BUCKETS, NOON, KeyCounts, LaneCounts, order_kept
from keylane.pipelines.demo.standing import run_standing
from keylane.pipelines.demo.traffic import DAY, MINUTE
from keylane.spark import with_placements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.documents.demo import DemoTrial, LaneDrift
    from keylane.pipelines.demo.contracts import DemoContract

    Say = Callable[[str], None]

# What Spark counts of a routed day: small tables that come back as `tally` values. What they mean: `figures`.

_BUCKET: Final = 30 * MINUTE


def key_counts(day: DataFrame, key: str) -> KeyCounts:
    """Count the records of each key."""
    morning = F.sum((_bucket() < NOON).cast("int"))
    table = day.groupBy(key).agg(F.count("*").alias("day"), morning.alias("morning")).toArrow()
    return KeyCounts(table[key].to_pylist(), table["day"].to_numpy(), table["morning"].to_numpy())


def lanes_under(day: DataFrame, contracts: Sequence[Contract], groups: Sequence[str]) -> DataFrame:
    """The columns `groups` and `bucket` of each record, and `lane_0`, `lane_1` …: its lane under each contract."""
    kept = list(day.columns)
    for i, contract in enumerate(contracts):
        day = with_placements(day, contract).select(*kept, F.col("lane").alias(_lane(i)))
        kept.append(_lane(i))
    return day.select(*groups, _bucket().alias("bucket"), *map(_lane, range(len(contracts))))


def lane_counts(routed: DataFrame, lanes: Sequence[int]) -> list[LaneCounts]:
    """Count, under each contract, the records of each lane and half hour, and those on another lane under the first.

    `lanes` are the lane counts of the contracts. One pass: every record stands once for each contract.
    """
    moved = F.sum((F.col("lane") != F.col(_lane(0))).cast("int"))
    each = F.posexplode(F.array(*(_lane(i) for i in range(len(lanes))))).alias("contract", "lane")
    grouped = routed.select("bucket", _lane(0), each).groupBy("contract", "lane", "bucket")
    table = grouped.agg(F.count("*").alias("records"), moved.alias("moved")).toArrow()
    contract = table["contract"].to_numpy()
    return [_lane_counts(table.filter(pa.array(contract == i)), count) for i, count in enumerate(lanes)]


def _lane_counts(table: pa.Table, lanes: int) -> LaneCounts:
    lane = table["lane"].fill_null(-1).to_numpy()
    records, placed = table["records"].to_numpy(), lane >= 0
    cells = np.zeros((lanes, BUCKETS), np.int64)
    cells[lane[placed], table["bucket"].to_numpy()[placed]] = records[placed]
    return LaneCounts(cells, int(records[~placed].sum()), int(table["moved"].fill_null(0).to_numpy().sum()))


def parted(routed: DataFrame, group: str, contracts: int) -> list[Parted]:
    """Count, under each contract, the groups (keys, orders, rides) whose records are on more than one lane.

    That is seen in the data; what was promised is the contract's answer.
    """
    several = [(F.min(_lane(i)) != F.max(_lane(i))).cast("int").alias(_lane(i)) for i in range(contracts)]
    sums = [F.sum(_lane(i)).alias(_lane(i)) for i in range(contracts)]
    row: Any = routed.groupBy(group).agg(*several).agg(F.count("*").alias("groups"), *sums).first()
    return [Parted(groups=row["groups"], parted=row[_lane(i)] or 0) for i in range(contracts)]


def lanes_seen(routed: DataFrame, key: str, keys: Sequence[str], contracts: int) -> list[dict[str, list[int]]]:
    """Under each contract, the lanes on which some keys were seen."""
    seen = [F.sort_array(F.collect_set(_lane(i))).alias(_lane(i)) for i in range(contracts)]
    rows = routed.where(F.col(key).isin(list(keys))).groupBy(key).agg(*seen).collect()
    return [{row[key]: list(row[_lane(i)]) for row in rows} for i in range(contracts)]


def _lane(i: int) -> str:
    return f"lane_{i}"


def _bucket() -> Column:
    start = int(DAY.timestamp()) * 1_000_000
    return F.floor((F.unix_micros("ts") - start) / _BUCKET).cast("int")


#: How many heavy keys are shown.
SHOWN: Final = 8
#: Files a source has, so that two cores have something to share.
FILES: Final = 4


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream before it is tried: its name, its key, the group inside a key that must not part, how it is made."""

    name: Literal["payments", "rides", "queries"]
    key: str
    sub_key: str | None
    private: bool
    make: Callable[[np.random.Generator, traffic.Sizes], pa.Table]
    choices: Callable[[dict[str, int]], list[DemoContract]]


STREAMS: Final = (
    _Stream("payments", "merchant_id", "order_id", True, traffic.payments, contracts.payments_choices),
    _Stream("rides", "city", "ride_id", False, traffic.rides, lambda _: contracts.rides_choices()),
    _Stream("queries", "query_id", None, True, traffic.query_events, contracts.queries_choices),
)


@contextmanager
def errors_translated(to: Path) -> Iterator[None]:
    """Errors of the disk and of Spark in keylane's words. The next run replaces whatever is there of this one."""
    try:
        yield
    except KeylaneError:
        raise
    except OSError as error:
        hint = "free disk space, or --to another folder; the next run replaces the files"
        raise TargetError.of(f"the demo cannot write: {error.strerror or error}", got=str(to), hint=hint) from error
    except Exception as error:
        if not isinstance(error, PySparkException) and not type(error).__module__.startswith("py4j"):
            raise
        raise SparkError.of("Spark failed in the demo", got=str(error).partition("\n")[0]) from error


def run_demo(spark: SparkSession, to: Path, seed: int, sizes: traffic.Sizes, say: Say) -> DemoFigures:
    """Run every step; `say` reports each. The folder must exist."""
    days = [(stream, _written(to, stream, seed, sizes, say)) for stream in STREAMS]
    cases, drift = [], []
    for stream, path in days:
        day = spark.read.parquet(str(path))
        tallied = key_counts(day, stream.key)
        say(
            f"{stream.name}: {numbers.count(int(tallied.day.sum()))} records of {numbers.count(len(tallied.keys))} keys"
        )
        cases.append(_case(to, stream, day, tallied, say))
        if stream.name == "payments":
            drift = _drift(tallied, sizes.merchants)
            say(f"drift: {len(drift)} changes of lane count for {numbers.count(sizes.merchants)} merchants")
    standing = run_standing(spark, to / "aggregate", seed, sizes.standing, sizes.standing_events, say)
    demo = DemoFigures(
        version=__version__,
        spark=spark.version,
        seed=seed,
        scale=sizes.scale,
        day=f"{traffic.DAY:%Y-%m-%d}",
        cases=cases,
        merchants=sizes.merchants,
        drift=drift,
        standing=standing,
    )
    (to / "figures.json").write_text(json.dumps(demo.as_json()), encoding="utf-8")
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
    say(f"{stream.name}: a day of {numbers.count(len(table))} records made")
    return folder


def _case(to: Path, stream: _Stream, day: DataFrame, tallied: KeyCounts, say: Say) -> DemoCase:
    choices = stream.choices(tallied.of_morning)
    for choice in choices:
        _write_contract(to, choice)
    groups = [stream.key, *([stream.sub_key] if stream.sub_key else [])]
    routed = lanes_under(day, [choice.contract for choice in choices], groups).cache()
    try:
        trials = _trials(stream, choices, routed, tallied, say)
        seen = lanes_seen(routed, stream.key, tallied.heaviest(SHOWN), len(choices))
    finally:
        routed.unpersist()
    return DemoCase(
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
    stream: _Stream, choices: list[DemoContract], routed: DataFrame, tallied: KeyCounts, say: Say
) -> list[DemoTrial]:
    trials = []
    lanes = lane_counts(routed, [int(choice.contract.spec.lanes) for choice in choices])
    keys = parted(routed, stream.key, len(choices))
    sub_keys = parted(routed, stream.sub_key, len(choices)) if stream.sub_key else [None] * len(choices)
    for i, choice in enumerate(choices):
        _adds_up(choice, int(lanes[i].cells.sum()) + lanes[i].unplaced, int(tallied.day.sum()))
        scopes = order_kept(choice.contract, tallied.of_day)
        trials.append(figures.trial(choice, lanes[i], scopes, keys[i], sub_keys[i]))
        say(f"{choice.name}: the fullest lane holds {trials[i].max_over_mean:.2f} times the mean")
    return trials


def _adds_up(choice: DemoContract, found: int, records: int) -> None:
    if found != records:
        raise DataError.of(f"{choice.name}: records do not add up", got=found, allowed=str(records))


def _write_contract(to: Path, choice: DemoContract) -> None:
    folder = to / "contracts"
    folder.mkdir(exist_ok=True)
    (folder / f"{choice.name}.yaml").write_text(choice.text, encoding="utf-8")


def _drift(tallied: KeyCounts, merchants: int) -> list[LaneDrift]:
    """All merchants, also those without a payment today: their next one moves just the same."""
    names = traffic.all_merchants(merchants).to_pylist()
    of_day = tallied.of_day
    return figures.drift(names, np.array([of_day.get(name, 0) for name in names]))

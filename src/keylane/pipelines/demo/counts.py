"""What Spark counts of a routed day: small tables that come back as `tally` values. What they mean: `figures`.

All contracts of a stream are carried out in one pass: `lanes_under` gives a frame with one lane column for each of
them, and everything after reads that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from keylane.pipelines.demo.tally import BUCKETS, NOON, KeyCounts, LaneCounts, Parted
from keylane.pipelines.demo.traffic import DAY, MINUTE
from keylane.spark import route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from keylane.contract.model import Contract

__all__ = ["key_counts", "lane_counts", "lanes_seen", "lanes_under", "parted"]

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
        day = route(day, contract).select(*kept, F.col("lane").alias(_lane(i)))
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
    return [Parted(row["groups"], row[_lane(i)] or 0) for i in range(contracts)]


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

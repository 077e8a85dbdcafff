"""What is counted in a batch on the way: pings of each lane, what is behind the watermark, ghosts, who waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["Answered", "Asked", "Loads", "Waiting", "asked_of", "ghosts_of", "loads_of", "waiting"]


@dataclass(frozen=True, slots=True)
class Loads:
    """Pings of a batch: how many for each lane, how many behind the watermark, and the newest of each lane read.

    `ahead` are those of a time that cannot be yet; `moved` is the newest of each lane without them.
    """

    lanes: dict[int, int]
    late: int
    newest: dict[str, int]
    ahead: int = 0
    moved: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of a batch: how many, how many of a time that is forgotten, and the newest of each lane read."""

    records: int
    late: int
    newest: dict[str, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Requests that wait; and of those answered now the ts of the middle one, and of the oldest of a hundred."""

    requests: int
    middle: int | None
    oldest: int | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What lanes say: pairs, a row of counts for each lane and for each block of drivers, and how many are ghosts."""

    pairs: DataFrame
    lanes: list[Any]
    blocks: list[Any]
    ghosts: int

    @property
    def oldest(self) -> int | None:
        """The ts of the oldest ping that a request may still see."""
        return min((row["ts"] for row in self.blocks if row["ts"] is not None), default=None)


def loads_of(pings: DataFrame, part: Column, watermark: int, latest: int) -> Loads:
    """Count the pings of a batch; `part` is where each was read, `latest` the last time that may be."""
    late, ahead = F.count_if(F.col("ts") < watermark), F.count_if(F.col("ts") > latest)
    moved = F.max(F.when(F.col("ts") <= latest, F.col("ts"))).alias("moved")
    named = (F.count(F.lit(1)).alias("n"), late.alias("late"), ahead.alias("ahead"))
    rows = pings.groupBy("lane", part).agg(*named, F.max("ts").alias("newest"), moved).collect()
    lanes: dict[int, int] = {}
    for row in rows:
        lanes[row["lane"]] = lanes.get(row["lane"], 0) + row["n"]
    late_pings, ahead_pings = (sum(row[name] for row in rows) for name in ("late", "ahead"))
    return Loads(lanes, late_pings, _newest(rows, "newest"), ahead_pings, _newest(rows, "moved"))


def _newest(rows: Sequence[Any], name: str) -> dict[str, int]:
    """The largest of a column for each part, where there is one."""
    found: dict[str, int] = {}
    for row in rows:
        if row[name] is not None:
            found[row["part"]] = max(found.get(row["part"], row[name]), row[name])
    return found


def asked_of(requests: DataFrame, part: Column, kept_from: int) -> Asked:
    """Count the requests of a batch, as they were told."""
    late = F.count_if(F.col("ts") < kept_from).alias("late")
    rows = requests.groupBy(part).agg(F.count(F.lit(1)).alias("n"), F.max("ts").alias("newest"), late).collect()
    newest = {row["part"]: row["newest"] for row in rows}
    return Asked(sum(row["n"] for row in rows), sum(row["late"] for row in rows), newest)


def ghosts_of(pairs: DataFrame) -> int:
    """Pairs that a second lane has found too: of a driver that it should not know any more."""
    found = pairs.agg(F.count(F.lit(1)), F.count_distinct("rider", "rider_ts", "driver")).first()
    return 0 if found is None else int(found[0] - found[1])


def waiting(requests: DataFrame) -> Waiting:
    """Of judged requests."""
    ripe = F.when(F.col("ripe"), F.col("ts"))
    ages = [F.percentile_approx(ripe, share, 1000) for share in (0.5, 0.01)]
    found = requests.where(~F.col("answered")).agg(F.count_if(~F.col("ripe")), *ages).first()
    assert found is not None
    return Waiting(*found)

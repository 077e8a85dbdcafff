"""A batch of a running match: records in, the answers of all requests that are ripe out, and the state after it.

    pings     -> lanes; their newest time moves the watermark
    requests  -> those that wait and those that are new; the ripe ones are fanned out, by every contract in use
    homes     -> tombstones for the lanes that drivers have left
    lanes     -> pairs, merged by rider
    commit    -> the batch is committed in one step, and only then is it in the target

Every step reads the state of the batch before and writes files of its own, so a batch that is made again, after a
kill or a failure, makes the same. One that is committed already is not made again.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keylane.errors import CountError
from keylane.matching.assign import empty_ledger
from keylane.pipelines.match.follow_lanes import (
    ASK,
    KEPT_AGAIN,
    Step,
    answers,
    copy_rows,
    homes,
    ping_rows,
    tombstone_rows,
)
from keylane.pipelines.match.follow_metrics import added
from keylane.pipelines.match.follow_sources import after_batch, has_topics, taken
from keylane.pipelines.match.follow_state import name_of, read_table, write_table
from keylane.pipelines.match.lanes import as_matches, fanned_out, in_lanes
from keylane.pipelines.match.offers import Sums
from keylane.pipelines.match.records import as_pings, as_requests
from keylane.pipelines.match.watermark import lane_read, passed, ripe_before
from keylane.records import Reason
from keylane.spark.context import translated
from keylane.systems.checkpoint import query_id
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from keylane.geo.coordinates import Region
    from keylane.pipelines.match.follow_metrics import Figures
    from keylane.pipelines.match.follow_sources import Epochs, InUse
    from keylane.pipelines.match.follow_state import Happened, MatchState
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import MatchSource
    from keylane.pipelines.match.watermark import Lags
    from keylane.pipelines.match.write import Written
    from keylane.systems.journal import Probe

    #: Computes a frame once for a batch.
    Keep = Callable[[DataFrame], DataFrame]

# What is counted in a batch on the way: pings of each lane, what is behind the watermark, ghosts, who waits.


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
    """Count the requests of a batch, as they were reported."""
    late = F.count_if(F.col("ts") < kept_from).alias("late")
    rows = requests.groupBy(part).agg(F.count(F.lit(1)).alias("n"), F.max("ts").alias("newest"), late).collect()
    newest = {row["part"]: row["newest"] for row in rows}
    return Asked(sum(row["n"] for row in rows), sum(row["late"] for row in rows), newest)


def ghosts_of(pairs: DataFrame) -> int:
    """Pairs that a second lane reports too: of a driver that it should not know any more."""
    found = pairs.agg(F.count(F.lit(1)), F.count_distinct("rider", "rider_ts", "driver")).first()
    return 0 if found is None else int(found[0] - found[1])


def waiting(requests: DataFrame) -> Waiting:
    """Of judged requests."""
    ripe = F.when(F.col("ripe"), F.col("ts"))
    ages = [F.percentile_approx(ripe, share, 1000) for share in (0.5, 0.01)]
    found = requests.where(~F.col("answered")).agg(F.count_if(~F.col("ripe")), *ages).first()
    assert found is not None
    return Waiting(*found)


# Requests between their arrival and the end of their memory: those that wait, those that are ripe, those answered.

_REQUEST: Final = ("rider", "ts", "offset", "lat", "lng", "cell")
#: What is kept of a request.
KNOWN: Final = (
    "rider string, ts bigint, offset bigint, lat double, lng double, cell bigint, told bigint, answered boolean"
)


def told_too_late(requests: DataFrame, kept_from: int) -> DataFrame:
    """Requests of a time that lanes no longer know, as dead letters."""
    late = requests.where(F.col("ts") < kept_from)
    return late.select(
        F.lit("riders").alias("side"),
        F.lit(None).cast("string").alias("source"),
        F.lit(str(Reason.LATE_REQUEST)).alias("reason"),
        F.to_json(F.struct(*_REQUEST[:5])).alias("original"),
    )


def judged(known: DataFrame, requests: DataFrame, kept_from: int, ripe_before: int) -> DataFrame:
    """Each request once, with whether it was answered and whether it is now `ripe`.

    Of several reports the last counts; one that comes after the answer changes nothing.
    """
    new = requests.where(F.col("ts") >= kept_from).select(
        *_REQUEST, F.lit(1).cast("bigint").alias("told"), F.lit(False).alias("answered")
    )
    counts = F.max_by(F.struct(*_REQUEST[2:]), F.struct("answered", "offset")).alias("last")
    each = (
        known.unionByName(new)
        .groupBy("rider", "ts")
        .agg(counts, F.sum("told").alias("told"), F.max("answered").alias("answered"))
    )
    ripe = ~F.col("answered") & (F.col("ts") < ripe_before)
    return each.select("rider", "ts", "last.*", "told", "answered", ripe.alias("ripe"))


def remembered(requests: DataFrame, kept_from: int) -> DataFrame:
    """What is kept of judged requests: those that wait, and those answered that may be reported again."""
    answered = F.col("answered") | F.col("ripe")
    kept = requests.where(~answered | (F.col("ts") >= kept_from))
    return kept.select(*_REQUEST, "told", answered.alias("answered"))


# Partial answers of lanes -> each rider's drivers in order: of this batch alone, with no state.

_PAIR: Final = (
    "rider string, rider_ts bigint, driver string, distance_m double, driver_ts bigint, driver_offset bigint, "
    "rider_offset bigint"
)
_NAMES: Final = [one.split()[0] for one in _PAIR.split(", ")]


def merged(pairs: DataFrame, nearest: int | None, tasks: int) -> DataFrame:
    """Each pair once, with its rank among its rider's; the first `nearest` of them."""
    parts = pairs.select(*_NAMES).repartition(tasks, "rider")
    return parts.mapInArrow(_merger(nearest), f"{_PAIR}, rank int")


def _merger(nearest: int | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keylane.matching.near import merged_pairs
        from keylane.matching.tables import differs, numbers, ranks

        found = [batch for batch in batches if len(batch)]
        if not found:
            return
        whole = merged_pairs(pa.Table.from_batches(found), nearest)
        begins = differs(numbers(whole, "rider_ts")[0], ranks(whole.column("rider"))[0])
        first = np.flatnonzero(begins)
        rank = np.arange(len(whole)) - first[np.cumsum(begins) - 1] + 1
        yield from whole.append_column("rank", pa.array(rank.astype(np.int32))).combine_chunks().to_batches()

    return merge


MICROS: Final = 1_000_000
_PINGS: Final = "driver string, ts bigint, offset bigint, lat double, lng double, available boolean, cell bigint"
_REQUESTS: Final = "rider string, ts bigint, offset bigint, lat double, lng double, cell bigint"
_DEAD: Final = "side string, source string, reason string, original string"


@dataclass(frozen=True, slots=True)
class MatchRules:
    """How long records are waited for, in microseconds, and how the work is divided.

    `late` is how far a ping may be behind the newest; `keep` how far requests may be behind the pings; requests of a
    `window` are answered together. Pings more than `ahead` of the clock move no time. Without `matching` all is done
    but the search for who is near: what a benchmark compares with.
    """

    late: int
    keep: int
    tasks: int
    matching: bool = True
    window: int = 1
    ahead: int = 86_400 * MICROS


@dataclass(slots=True)
class MatchBatches:
    """The body of the query."""

    spark: SparkSession
    sides: tuple[MatchSource, MatchSource]
    regions: tuple[Region, Region]
    given: Options
    rules: MatchRules
    epochs: Epochs
    lags: Lags
    state: MatchState
    written: Written
    last: Happened
    tell: Callable[[Figures], None]
    probe: Probe = no_probe
    figures: list[Figures] = field(default_factory=list)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make a batch, unless it is committed."""
        happened = self.state.happened(batch)
        if happened is not None:
            self.state.move(happened, self.written.folder)
            self.last = happened
            return
        try:
            with _kept() as keep:
                # Each lane of a topic is a partition of the frame; every step in Python would start as many tasks.
                few = keep(frame.coalesce(self.rules.tasks)) if has_topics(*self.sides) else frame
                self._make(few, batch, keep)
        except Exception as error:
            raise translated(error, batch, "the match") from error

    def _make(self, frame: DataFrame, batch: int, keep: Keep) -> None:
        began = time.time()
        self.probe("begun", batch)
        token, staging = self.state.begin(batch)
        epochs = self.epochs.of(self.last)
        read = self._read(frame, epochs, keep)
        unread = self.lags.of(self.state.checkpoint, batch)
        rules, newest = self.rules, (read.loads.moved, read.asked.newest)
        done = passed(self.last, *newest, unread, rules.late, rules.keep, rules.window)
        query = query_id(self.state.checkpoint)
        done = replace(done, batch=batch, token=token, query=query, files=read.files)
        ripe = ripe_before(done.watermark, rules.window)
        requests = keep(judged(self._known(), read.told, self.last.kept_from, ripe))
        answered = self._answered(read, requests, epochs, self._step(done), keep)
        self.probe("answered", batch)
        done = replace(done, epochs=after_batch(epochs, read.loads.newest, answered.oldest))
        remembered(requests, done.kept_from).write.parquet(f"file://{self.state.part('requests', done)}")
        sums = self._offers()
        pairs = merged(answered.pairs, self.given.nearest, self.rules.tasks)
        result = self.written.stage(staging, batch, as_matches(pairs), read.dead, sums)
        _check_counts(read, result.dead)
        self._save_ledger(sums.ledger, done)
        self.probe("staged", batch)
        figures = added(self.last.counts, answered, read.loads, result, waiting(requests), unread, began)
        done = replace(done, counts=figures.total, moved=self.written.moved(staging, batch, figures))
        self.state.commit(done, self.written.folder, self.probe)
        self.last = done
        self.figures.append(figures)
        self.tell(figures)

    def _read(self, frame: DataFrame, epochs: list[InUse], keep: Keep) -> Records:
        """What a batch has of both sources."""
        drivers, riders = (taken(frame, one, self.given, self.last.files.get(one.side, 0)) for one in self.sides)
        given, (of_drivers, of_riders) = self.given, self.regions
        good, dead_pings = _judged(self.spark, as_pings, drivers.frame, given.drivers, of_drivers, _PINGS)
        told, dead_requests = _judged(self.spark, as_requests, riders.frame, given.riders, of_riders, _REQUESTS)
        pings, told = keep(in_lanes(good, epochs[-1].lanes).drop("cell")), keep(told)
        latest = round(time.time() * MICROS) + self.rules.ahead
        loads = loads_of(pings, lane_read(self.sides[0]), self.last.watermark, latest)
        asked = asked_of(told, lane_read(self.sides[1]), self.last.kept_from)
        # Where all records are good there is none to look for, and the source is not read again.
        dead = [dead_pings] * (sum(loads.lanes.values()) != drivers.records)
        dead += [dead_requests] * (asked.records != riders.records)
        dead += [told_too_late(told, self.last.kept_from)] * (asked.late > 0)
        letters = reduce(DataFrame.unionByName, dead) if dead else None
        there = {"drivers": drivers.records, "riders": riders.records}
        return Records(pings, told, letters, loads, asked, {"drivers": drivers.files, "riders": riders.files}, there)

    def _answered(self, read: Records, requests: DataFrame, epochs: list[InUse], step: Step, keep: Keep) -> Answered:
        """What the lanes answer to the requests that are ripe."""
        lanes, radius = [one.lanes for one in epochs], self.given.radius
        stays = keep(homes(read.pings, step))
        blocks = stays.where(F.col("driver").isNull()).collect()
        rows = [ping_rows(read.pings), tombstone_rows(stays)]
        rows.append(copy_rows(fanned_out(requests.where("ripe"), lanes, radius), ASK))
        if read.loads.late:
            rows.append(copy_rows(fanned_out(requests.where("answered"), lanes, radius), KEPT_AGAIN))
        found = keep(answers(reduce(DataFrame.unionAll, rows), step))
        counts = found.where(F.col("rider").isNull()).collect()
        pairs = found.where(F.col("rider").isNotNull())
        guests = sum(row["copies"] - row["asked"] for row in counts)
        return Answered(pairs, counts, blocks, ghosts_of(pairs) if guests else 0)

    def _step(self, done: Happened) -> Step:
        last, given = self.last, self.given
        before = name_of(last) if last.token else ""
        expire = None if given.expire is None else round(given.expire * MICROS)
        asked = (given.radius, given.nearest, expire, self.rules.matching)
        lanes, tasks = self.epochs.count, min(self.rules.tasks, self.epochs.count)
        return Step(str(self.state.path), before, name_of(done), lanes, tasks, done.kept_from, *asked)

    def _offers(self) -> Sums:
        """What all offers came to so far, and the drivers that they hold."""
        said = self.last.counts.get("offers") or {"granted": 0, "refused": 0, "mean_distance_m": None}
        metres = (said["mean_distance_m"] or 0.0) * said["granted"]
        known = self.given.assign is not None and self.last.token
        ledger = read_table(self.state.part("ledger", self.last)) if known else empty_ledger()
        return Sums(said["granted"], said["refused"], metres, ledger)

    def _save_ledger(self, ledger: Any, done: Happened) -> None:
        if self.given.assign is not None:
            write_table(self.state.part("ledger", done), ledger)

    def _known(self) -> DataFrame:
        if not self.last.token:
            return _nothing(self.spark, KNOWN)
        return self.spark.read.schema(KNOWN).parquet(f"file://{self.state.part('requests', self.last)}")


@dataclass(frozen=True, slots=True)
class Records:
    """What a batch has: pings in lanes, requests as reported, dead letters, counts, files taken so far, all records."""

    pings: DataFrame
    told: DataFrame
    dead: DataFrame | None
    loads: Loads
    asked: Asked
    files: dict[str, int]
    there: dict[str, int]


def _check_counts(read: Records, dead: Mapping[str, Mapping[str, int]]) -> None:
    """Nothing is lost: good records and dead letters are all that there are."""
    good = {"drivers": sum(read.loads.lanes.values()), "riders": read.asked.records - read.asked.late}
    for side, there in read.there.items():
        letters = sum(dead[side].values())
        if good[side] + letters != there:
            got = f"{good[side]} good, {letters} dead"
            raise CountError.of(f"the records of the {side} do not add up", got=got, allowed=f"{there} in all")


def _judged(spark: SparkSession, how: Any, raw: DataFrame | None, columns: Any, region: Region, kinds: str) -> Any:
    return (_nothing(spark, kinds), _nothing(spark, _DEAD)) if raw is None else how(raw, columns, region)


def _nothing(spark: SparkSession, columns: str) -> DataFrame:
    return spark.createDataFrame([], columns)


@contextmanager
def _kept() -> Iterator[Keep]:
    """Frames that are computed once in a batch, and let go after it."""
    held: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        held.append(frame.persist())
        return frame

    try:
        yield keep
    finally:
        for frame in held:
            frame.unpersist()

"""A batch of a running match: records in, the answers of all requests that are ripe out, and the state after it.

    pings     -> lanes; their newest time moves the watermark
    requests  -> those that wait and those that are new; the ripe ones are fanned out, by every contract in use
    homes     -> tombstones for the lanes that drivers have left
    lanes     -> pairs, merged by rider
    commit    -> the batch happens in one step, and only then is it in the target

Every step reads the state of the batch before and writes files of its own, so a batch that is made again, after a
kill or a failure, makes the same. One that has happened already is not made again.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keylane.errors import CountError
from keylane.matching.offers import empty_ledger
from keylane.pipelines.batch import query_id
from keylane.pipelines.failures import translated
from keylane.pipelines.match.assigning import Sums
from keylane.pipelines.match.fanout import fanned_out, in_lanes
from keylane.pipelines.match.joined import as_matches
from keylane.pipelines.match.reading import as_pings, as_requests
from keylane.pipelines.match.stream_counts import Answered, asked_of, ghosts_of, loads_of, waiting
from keylane.pipelines.match.stream_epochs import after_batch
from keylane.pipelines.match.stream_lanes import (
    ASK,
    KEPT_AGAIN,
    Step,
    answers,
    copy_rows,
    homes,
    ping_rows,
    tombstone_rows,
)
from keylane.pipelines.match.stream_merge import merged
from keylane.pipelines.match.stream_metrics import added
from keylane.pipelines.match.stream_requests import KNOWN, judged, remembered, told_too_late
from keylane.pipelines.match.stream_sources import has_topics, taken
from keylane.pipelines.match.stream_time import lane_read, passed, ripe_before
from keylane.systems.folders import no_probe
from keylane.systems.match_state import name_of, read_table, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from keylane.geo.places import Region
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import Found
    from keylane.pipelines.match.stream_counts import Asked, Loads
    from keylane.pipelines.match.stream_epochs import Epochs, InUse
    from keylane.pipelines.match.stream_metrics import Figures
    from keylane.pipelines.match.stream_time import Lags
    from keylane.pipelines.match.stream_written import Written
    from keylane.systems.folders import Probe
    from keylane.systems.match_state import Happened, MatchState

    #: Computes a frame once for a batch.
    Keep = Callable[[DataFrame], DataFrame]

__all__ = ["MatchBatches", "Rules"]

MICROS: Final = 1_000_000
_PINGS: Final = "driver string, ts bigint, offset bigint, lat double, lng double, available boolean, cell bigint"
_REQUESTS: Final = "rider string, ts bigint, offset bigint, lat double, lng double, cell bigint"
_DEAD: Final = "side string, source string, reason string, original string"


@dataclass(frozen=True, slots=True)
class Rules:
    """How long records are waited for, in microseconds, and how the work is divided.

    `late` is how far a ping may be behind the newest; `keep` how far requests may be behind the pings; requests of a
    `window` are answered together. Without `matching` all is done but the search for who is near: what a benchmark
    compares with.
    """

    late: int
    keep: int
    tasks: int
    matching: bool = True
    window: int = 1


@dataclass(slots=True)
class MatchBatches:
    """The body of the query."""

    spark: SparkSession
    sides: tuple[Found, Found]
    region: Region
    given: Options
    rules: Rules
    epochs: Epochs
    lags: Lags
    state: MatchState
    written: Written
    last: Happened
    tell: Callable[[Figures], None]
    probe: Probe = no_probe
    figures: list[Figures] = field(default_factory=list)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make a batch, unless it has happened."""
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
        rules, newest = self.rules, (read.loads.newest, read.asked.newest)
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
        """What a batch has of both sides."""
        drivers, riders = (taken(frame, one, self.given, self.last.files.get(one.side, 0)) for one in self.sides)
        good, dead_pings = _judged(self.spark, as_pings, drivers.frame, self.given.drivers, self.region, _PINGS)
        told, dead_requests = _judged(self.spark, as_requests, riders.frame, self.given.riders, self.region, _REQUESTS)
        pings, told = keep(in_lanes(good, epochs[-1].lanes).drop("cell")), keep(told)
        loads = loads_of(pings, lane_read(self.sides[0]), self.last.watermark)
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
    """What a batch has: pings in lanes, requests as told, dead letters, counts, files taken so far, all records."""

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

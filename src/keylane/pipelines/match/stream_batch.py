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
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.matching.schemas import Kind
from keylane.pipelines.batch import query_id
from keylane.pipelines.failures import translated
from keylane.pipelines.match.fanout import fanned_out, in_lanes
from keylane.pipelines.match.joined import as_matches
from keylane.pipelines.match.reading import as_pings, as_requests
from keylane.pipelines.match.stream_epochs import Epochs, after_batch
from keylane.pipelines.match.stream_lanes import ASK, KEPT_AGAIN, LANE_ROWS, Step, answers, homes
from keylane.pipelines.match.stream_merge import merged
from keylane.pipelines.match.stream_metrics import Figures, added
from keylane.pipelines.match.stream_requests import KNOWN, judged, remembered, told_too_late
from keylane.pipelines.match.stream_sources import has_topics, taken
from keylane.pipelines.match.stream_written import Written
from keylane.systems.folders import no_probe
from keylane.systems.match_state import BEGINNING, Happened, MatchState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from keylane.geo.places import Region
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import Found
    from keylane.systems.folders import Probe

__all__ = ["MatchBatches", "Rules"]

MICROS: Final = 1_000_000
_PINGS: Final = "driver string, ts bigint, offset bigint, lat double, lng double, available boolean, cell bigint"
_REQUESTS: Final = "rider string, ts bigint, offset bigint, lat double, lng double, cell bigint"
_DEAD: Final = "side string, source string, reason string, original string"


@dataclass(frozen=True, slots=True)
class Rules:
    """How long records are waited for, in microseconds, and how the work is divided.

    `late` is how far a ping may be behind the newest; `keep` how far requests may be behind the pings. Without
    `matching` all is done but the search for who is near: what a benchmark compares with.
    """

    late: int
    keep: int
    tasks: int
    matching: bool = True


@dataclass(slots=True)
class MatchBatches:
    """The body of the query."""

    spark: SparkSession
    sides: tuple[Found, Found]
    region: Region
    given: Options
    rules: Rules
    epochs: Epochs
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
                self._make(keep(frame) if has_topics(*self.sides) else frame, batch, keep)
        except Exception as error:
            raise translated(error, batch, "the match") from error

    def _make(self, frame: DataFrame, batch: int, keep: Callable[[DataFrame], DataFrame]) -> None:
        began = time.time()
        self.probe("begun", batch)
        token, staging = self.state.begin(batch)
        epochs = self.epochs.of(self.last)
        drivers, riders = (taken(frame, one, self.given, self.last.files.get(one.side, 0)) for one in self.sides)
        good, dead_pings = _read(self.spark, as_pings, drivers.frame, self.given.drivers, self.region, _PINGS)
        told, dead_requests = _read(self.spark, as_requests, riders.frame, self.given.riders, self.region, _REQUESTS)
        pings = keep(in_lanes(good, epochs[-1].lanes).drop("cell"))
        loads = _loads(pings, self.last.watermark)
        passed = self._passed(loads.newest, _newest(told))
        known = self._known()
        requests = keep(judged(known, told, self.last.kept_from, self._ripe_before(passed.watermark)))
        step = self._step(batch, token, passed.kept_from)
        stays = keep(homes(pings, step))
        blocks = stays.where(F.col("driver").isNull()).collect()
        self.probe("homed", batch)
        copies = fanned_out(requests.where("ripe"), [one.lanes for one in epochs], self.given.radius)
        rows = [_as_rows(pings), _tombstones(stays), _copies(copies, ASK)]
        if loads.late:
            again = requests.where(F.col("answered"))
            rows.append(_copies(fanned_out(again, [one.lanes for one in epochs], self.given.radius), KEPT_AGAIN))
        found = keep(answers(_together(rows), step))
        lanes = found.where(F.col("rider").isNull()).collect()
        self.probe("answered", batch)
        partial = found.where(F.col("rider").isNotNull())
        ghosts = _ghosts(partial) if sum(row["copies"] - row["asked"] for row in lanes) else 0
        pairs = merged(partial, self.given.nearest, self.rules.tasks)
        done = replace(passed, batch=batch, token=token, query=query_id(self.state.checkpoint))
        done = replace(done, files={"drivers": drivers.files, "riders": riders.files})
        done = replace(done, epochs=after_batch(epochs, loads.newest, _oldest(blocks)))
        remembered(requests, passed.kept_from).write.parquet(f"file://{self.state.part('requests', done)}")
        late = told_too_late(told, self.last.kept_from)
        dead = dead_pings.unionByName(dead_requests).unionByName(late)
        result = self.written.stage(staging, batch, as_matches(pairs), dead, self.state, self.last, done)
        self.probe("staged", batch)
        waiting = requests.where(~F.col("answered")).agg(F.count_if(~F.col("ripe")), *_ages()).first()
        assert waiting is not None
        figures = added(
            self.last.counts, lanes, blocks, loads.lanes, {"late": loads.late, "ghosts": ghosts}, result, waiting, began
        )
        done = replace(done, counts=figures.total, moved=self.written.moved(staging, batch, figures))
        self.probe("forced", batch)
        self.state.commit(done, self.written.folder)
        self.probe("moved", batch)
        self.last = done
        self.figures.append(figures)
        self.tell(figures)

    def _step(self, batch: int, token: str, kept_from: int) -> Step:
        last, given = self.last, self.given
        before = f"{last.batch:010d}-{last.token}" if last.token else ""
        expire = None if given.expire is None else round(given.expire * MICROS)
        asked = (given.radius, given.nearest, expire, self.rules.matching)
        lanes, tasks = self.epochs.count, min(self.rules.tasks, self.epochs.count)
        return Step(str(self.state.path), before, f"{batch:010d}-{token}", lanes, tasks, kept_from, *asked)

    def _passed(self, newest: int | None, asked: int | None) -> Happened:
        """How far time has gone: the watermark, the newest request, and from when on lanes have to remember."""
        last, rules = self.last, self.rules
        watermark = max(last.watermark, BEGINNING if newest is None else newest - rules.late)
        seen = max(last.riders_seen, BEGINNING if asked is None else asked)
        kept = max(last.kept_from, min(watermark, seen) - rules.late, watermark - max(rules.keep, rules.late))
        return replace(last, watermark=watermark, riders_seen=seen, kept_from=max(kept, BEGINNING))

    def _ripe_before(self, watermark: int) -> int:
        """Requests before this are answered: whole windows where drivers are assigned."""
        if self.given.assign is None or watermark <= BEGINNING:
            return watermark
        window = round(self.given.window * MICROS)
        return watermark // window * window

    def _known(self) -> DataFrame:
        if not self.last.token:
            return _nothing(self.spark, KNOWN)
        return self.spark.read.schema(KNOWN).parquet(f"file://{self.state.part('requests', self.last)}")


@dataclass(frozen=True, slots=True)
class _Loads:
    """Pings of a batch: how many for each lane, how many behind the watermark, and the newest."""

    lanes: dict[int, int]
    late: int
    newest: int | None


def _loads(pings: DataFrame, watermark: int) -> _Loads:
    late = F.count_if(F.col("ts") < watermark).alias("late")
    rows = pings.groupBy("lane").agg(F.count(F.lit(1)).alias("n"), F.max("ts").alias("newest"), late).collect()
    newest = max((row["newest"] for row in rows), default=None)
    return _Loads({row["lane"]: row["n"] for row in rows}, sum(row["late"] for row in rows), newest)


def _newest(requests: DataFrame) -> int | None:
    found = requests.agg(F.max("ts")).first()
    return None if found is None else found[0]


def _ghosts(pairs: DataFrame) -> int:
    """Pairs that a second lane has found too: of a driver that it should not know any more."""
    found = pairs.agg(F.count(F.lit(1)), F.count_distinct("rider", "rider_ts", "driver")).first()
    return 0 if found is None else int(found[0] - found[1])


def _oldest(blocks: list[Any]) -> int | None:
    return min((row["ts"] for row in blocks if row["ts"] is not None), default=None)


def _ages() -> tuple[Any, ...]:
    ripe = F.when(F.col("ripe"), F.col("ts"))
    return F.percentile_approx(ripe, 0.5, 1000), F.percentile_approx(ripe, 0.01, 1000)


def _read(spark: SparkSession, how: Any, raw: DataFrame | None, columns: Any, region: Region, kinds: str) -> Any:
    return (_nothing(spark, kinds), _nothing(spark, _DEAD)) if raw is None else how(raw, columns, region)


def _nothing(spark: SparkSession, columns: str) -> DataFrame:
    return spark.createDataFrame([], columns)


def _as_rows(pings: DataFrame) -> DataFrame:
    kind = F.when(F.col("available"), F.lit(int(Kind.AVAILABLE))).otherwise(F.lit(int(Kind.UNAVAILABLE)))
    return pings.select(kind.cast("tinyint").alias("kind"), F.col("driver").alias("id"), *LANE_ROWS[2:7], _none())


def _tombstones(stays: DataFrame) -> DataFrame:
    left = F.lit(int(Kind.LEFT)).cast("tinyint").alias("kind")
    nowhere = [F.lit(0.0).alias(name) for name in ("lat", "lng")]
    told = stays.where(F.col("driver").isNotNull())
    return told.select(left, F.col("driver").alias("id"), "ts", "offset", *nowhere, "lane", _none())


def _copies(copies: DataFrame, kind: int) -> DataFrame:
    """Of a request's copies the one at home knows how many there are."""
    many = F.when(F.col("home"), F.col("copies")).otherwise(F.lit(0)).cast("int").alias("copies")
    return copies.select(F.lit(kind).cast("tinyint").alias("kind"), F.col("rider").alias("id"), *LANE_ROWS[2:7], many)


def _none() -> Any:
    return F.lit(0).cast("int").alias("copies")


def _together(frames: list[DataFrame]) -> DataFrame:
    first, *others = frames
    for one in others:
        first = first.unionAll(one)
    return first


@contextmanager
def _kept() -> Iterator[Callable[[DataFrame], DataFrame]]:
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

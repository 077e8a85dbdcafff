"""A match of all that is there: two sources in, exact pairs out. Following what arrives: `follow`.

Drivers are read twice, by columns: for dead letters, which needs only the record itself, and for matching;
and a third time, for drivers and times alone, where lanes might have kept a ghost. No ping is ever collected here, but
for `--verify`, which is what `verified` does.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from keylane import numbers
from keylane.documents.match import MatchPicture, MatchVerified, PictureCell, UnmatchedRequest
from keylane.errors import CountError, DataError, UsageError
from keylane.geo.bits import ancestor, cell_name
from keylane.matching.brute import brute, nearest_metres, seconds_to_a_driver
from keylane.pipelines.match.document import Matched, MatchTotals, document_of
from keylane.pipelines.match.lanes import (
    as_entries,
    as_matches,
    distinct_requests,
    fanned_out,
    ghosts_among,
    in_lanes,
    lane_answers,
    ranked,
)
from keylane.pipelines.match.offers import assigned
from keylane.pipelines.match.options import MICROS, agreed, lie_by_place, region_for
from keylane.pipelines.match.own_table import own_contract
from keylane.pipelines.match.records import as_pings, as_requests, noted_unit
from keylane.pipelines.match.sources import find, opened
from keylane.pipelines.match.write import check_target, staged, write_dead, write_matches
from keylane.placement.cell_lanes import cell_lanes
from keylane.spark.context import RunContext, translated, warn
from keylane.spark.hashes import arrow_udf
from keylane.spark.session import active_session_kept
from keylane.systems.endpoint import open_endpoint, parse_address
from keylane.systems.jars import fetch_cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import MatchSource
    from keylane.placement.cell_lanes import CellLanes
    from keylane.spark.context import Say
    from keylane.systems.endpoint import Address

# The same match by the plain definition, every request against every ping; and how it differs from the result.

#: Requests times pings: some seconds.
MOST_PRODUCTS: Final = 2_000_000_000
#: Pings that are held in memory at once.
MOST_PINGS: Final = 5_000_000
_KEYS: Final = ["rider", "rider_ts", "driver", "driver_ts"]

#: `verified` of the document, recall, and notes on them.
Verdict = tuple[MatchVerified, float, list[str]]


def verified(
    pings: DataFrame,
    reported: DataFrame,
    matches: DataFrame,
    counts: tuple[int, int],
    given: Options,
    expire: int | None,
) -> Verdict:
    """Compare the matches that were written with brute force; `counts` are those of pings and requests."""
    drivers = max(1, -(-counts[0] // MOST_PINGS))
    if drivers > 1 and given.nearest is not None:
        what = "too many pings to verify with --nearest"
        raise DataError.of(
            what, got=counts[0], allowed=f"up to {numbers.count(MOST_PINGS)}", hint="leave --nearest or --verify out"
        )
    riders = max(1, -(-(counts[0] // drivers) * counts[1] // MOST_PRODUCTS))
    of_drivers, of_riders = _one_in("driver", drivers), _one_in("rider", riders)
    known = pings.where(of_drivers).select("driver", "ts", "offset", "lat", "lng", "available").toArrow()
    asked = reported.where(of_riders).select("rider", "ts", "offset", "lat", "lng").toArrow()
    expected = brute(as_entries(known), asked, given.radius, expire, given.nearest)
    found = _as_pairs(matches).where(of_drivers & of_riders).toArrow()
    return _compared(expected, found, _notes(riders, drivers))


def _one_in(column: str, many: int) -> Column:
    return F.lit(True) if many == 1 else F.pmod(F.xxhash64(column), F.lit(many)) == 0


def _as_pairs(matches: DataFrame) -> DataFrame:
    return matches.select(
        F.col("rider_id").alias("rider"),
        F.unix_micros("rider_ts").alias("rider_ts"),
        F.col("driver_id").alias("driver"),
        F.unix_micros("driver_ts").alias("driver_ts"),
    )


def _compared(expected: pa.Table, found: pa.Table, notes: list[str]) -> Verdict:
    wanted, got = (_plain(table) for table in (expected, found))
    missing = len(wanted.join(got, _KEYS, join_type="left anti"))
    once = got.group_by(_KEYS).aggregate([])
    extra = len(once.join(wanted, _KEYS, join_type="left anti")) + len(got) - len(once)
    recall = 1.0 - missing / len(wanted) if len(wanted) else 1.0
    return MatchVerified(pairs=len(wanted), missing=missing, extra=extra), recall, notes


def _plain(table: pa.Table) -> pa.Table:
    kinds: list[tuple[str, Any]] = [
        ("rider", pa.string()),
        ("rider_ts", pa.int64()),
        ("driver", pa.string()),
        ("driver_ts", pa.int64()),
    ]
    return table.select(_KEYS).cast(pa.schema(kinds))


def _notes(riders: int, drivers: int) -> list[str]:
    shares = [f"1 rider in {numbers.count(riders)}"] * (riders > 1) + [f"1 driver in {numbers.count(drivers)}"] * (
        drivers > 1
    )
    return [f"verified on a sample: {' and '.join(shares)}, by the hash of their ids"] if shares else []


# What a page shows of a match beside its document: cells with their lanes and loads, and lanes by the hour.

#: Cells of about 250 km2: some thousand for the towns of a country.
RESOLUTION: Final = 5
_FINEST: Final = 9
_MICROS_OF_HOUR: Final = 3_600_000_000


@dataclass(slots=True)
class _Load:
    """What is in one cell, while it is counted."""

    pings: int = 0
    requests: int = 0
    copies: int = 0
    hour: int | None = None
    busiest: int = 0


#: Requests without a driver that a page shows.
_MOST_UNMATCHED: Final = 1_000


def picture_of(pings: DataFrame, copies: DataFrame, lanes: CellLanes) -> MatchPicture:
    """Cells by pings, requests and guest copies; pings of every lane by the hour of the day, in UTC."""
    hour = F.pmod(F.floor(F.col("ts") / _MICROS_OF_HOUR), F.lit(24)).cast("int").alias("hour")
    cell = _shown_column(lanes, F.col("cell")).alias("at")
    placed = pings.select(cell, "lane", hour).groupBy("at", "lane", "hour").count().sort("at", "hour").collect()
    asked = copies.select(cell, "home").groupBy("at").agg(F.count_if("home"), F.count_if(~F.col("home"))).collect()
    loads: defaultdict[int, _Load] = defaultdict(_Load)
    hours = [[0] * 24 for _ in range(lanes.count)]
    for at, lane, when, count in placed:
        load = loads[at]
        load.pings += count
        hours[lane][when] += count
        if count > load.busiest:
            load.busiest, load.hour = count, when
    for at, requests, guests in asked:
        loads[at].requests, loads[at].copies = requests, guests
    cells = [
        PictureCell(
            cell=cell_name(at),
            lane=int(lanes.of(np.array([at]))[0]),
            pings=load.pings,
            requests=load.requests,
            copies=load.copies,
            hour=load.hour,
            records=load.pings + load.requests,
        )
        for at, load in sorted(loads.items())
    ]
    return MatchPicture(cells=cells, hours=hours, resolution=RESOLUTION)


def unmatched(
    sides: Sides, matches: DataFrame, pings: int, radius_m: float, expire: int | None
) -> list[UnmatchedRequest]:
    """Requests without a driver, of many a sample: how far the nearest was, and how long until one came.

    Neither is known among too many pings.
    """
    served = _as_pairs(matches).select("rider", F.col("rider_ts").alias("ts")).distinct()
    alone = sides.requests.select("rider", "ts", "offset", "lat", "lng").join(served, ["rider", "ts"], "left_anti")
    asked = alone.orderBy(F.xxhash64("rider", "ts"), "rider", "ts").limit(_MOST_UNMATCHED).toArrow()
    far, wait = np.full(len(asked), np.nan), np.full(len(asked), np.nan)
    if len(asked) and pings <= MOST_PINGS:
        known = as_entries(sides.pings.select("driver", "ts", "offset", "lat", "lng", "available").toArrow())
        far, wait = nearest_metres(known, asked, expire), seconds_to_a_driver(known, asked, radius_m)
    places = (asked.column("lat").to_pylist(), asked.column("lng").to_pylist())
    return [
        UnmatchedRequest(
            lat=lat,
            lng=lng,
            nearest_m=None if np.isnan(metres) else round(metres, 1),
            wait_s=None if np.isnan(seconds) else round(seconds, 1),
        )
        for lat, lng, metres, seconds in zip(*places, far.tolist(), wait.tolist(), strict=True)
    ]


def shown_cells(lanes: CellLanes, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The coarsest ancestor of each cell, from resolution 5 on, that is one lane throughout."""
    shown = ancestor(cells, RESOLUTION)
    for finer in range(RESOLUTION + 1, _FINEST + 1):
        mixed = np.flatnonzero(~lanes.one_lane(shown))
        shown[mixed] = ancestor(cells[mixed], finer)
    return shown


def _shown_column(lanes: CellLanes, cell: Column) -> Column:
    def shown(cells: pa.Array) -> pa.Array:
        return pa.array(shown_cells(lanes, cells.to_numpy(zero_copy_only=False)))

    return arrow_udf(shown, "bigint")(cell)


#: The median is right to one in so many ranks.
_RANKS: Final = 10_000
PARTITIONS: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sources: pings in their lanes, requests as reported and each once, their copies, dead letters of both."""

    pings: DataFrame
    reported: DataFrame
    requests: DataFrame
    copies: DataFrame
    dead: DataFrame
    records: tuple[int | None, int | None]
    #: How times were read, where no unit or format was given.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What a match is made of, once it is agreed."""

    drivers: MatchSource
    riders: MatchSource
    target: Address
    contract: Contract
    lanes: CellLanes
    given: Options
    notes: list[str]


def match(
    drivers: str,
    riders: str,
    target: str,
    options: Options,
    *,
    contract: Contract | None = None,
    spark: SparkSession | None = None,
    say: Say = warn,
) -> Matched:
    """Match all riders with all drivers, and return its document."""
    began = time.monotonic()
    check_target(parse_address(target), options.checked())
    work = agreed_work(drivers, riders, target, options, contract)
    try:
        with active_session_kept(), session_for(work, spark, say) as session:
            fetch_cells(session, say)
            return _matched(session, work if contract else _with_own_table(work, session, say), began)
    except Exception as error:
        raise translated(error, work="the match") from error


def agreed_work(drivers: str, riders: str, target: str, options: Options, contract: Contract | None) -> Work:
    """Open both sources without Spark; refuse sources that do not fit together."""
    given = options.checked()
    sides = (find("drivers", drivers, given.drivers, given), find("riders", riders, given.riders, given))
    if given.kafka.read_range is not None and not any(one.messages for one in sides):
        hint = "leave out --last, --since, --until, --max-records and --partitions"
        raise UsageError.of("only a topic can be read in part", got=f"{drivers}, {riders}", hint=hint)
    chosen, lanes, notes = agreed(*sides, contract, given)
    notes += [f"not all of the {one.side} were read, but {one.sampled}" for one in sides if one.sampled]
    return Work(*sides, parse_address(target), chosen, cell_lanes(chosen, lanes), given, notes)


def _with_own_table(work: Work, spark: SparkSession, say: Say) -> Work:
    """Without a contract, lanes by a table of these drivers for this radius, where there can be one."""
    count = work.lanes.count
    if work.given.co_partitioned or count == 1:
        return work
    own, note = own_contract(work.drivers, count, work.given, spark, say)
    notes = [note, *work.notes[1:]]
    if own is None:
        return replace(work, notes=notes)
    return replace(work, contract=own, lanes=cell_lanes(own, count), notes=notes)


def session_for(
    work: Work, spark: SparkSession | None, say: Say, conf: Mapping[str, str] | None = None
) -> AbstractContextManager[SparkSession]:
    """A session with what the records need, and with the connector of the three that have messages.

    `conf` are the settings of the options, unless others are given.
    """
    given, addresses = work.given, (work.drivers.address, work.riders.address, work.target)
    endpoints = [open_endpoint(address, given.kafka) for address in addresses]
    chosen = next((endpoint for endpoint in endpoints if endpoint.connector), endpoints[0])
    return chosen.session(RunContext(spark, given.master, given.conf if conf is None else conf, say=say))


def sides_of(spark: SparkSession, work: Work) -> Sides:
    """Read both sources."""
    given = work.given
    of_drivers, of_riders = (region_for(columns, work.contract) for columns in (given.drivers, given.riders))
    (raw_drivers, drivers), (raw_riders, riders) = (opened(spark, one, given) for one in (work.drivers, work.riders))
    pings, dead_pings = as_pings(raw_drivers, given.drivers, of_drivers)
    if not lie_by_place(work.drivers, work.contract):
        pings = pings.drop("lane", "lane_key")
    reported, dead_requests = as_requests(raw_riders, given.riders, of_riders)
    requests = distinct_requests(reported)
    copies = fanned_out(requests, [work.lanes], given.radius)
    dead, records = dead_pings.unionAll(dead_requests), (drivers.records, riders.records)
    sources = ((raw_drivers, given.drivers, "drivers"), (raw_riders, given.riders, "riders"))
    notes = tuple(filter(None, (noted_unit(*one) for one in sources)))
    return Sides(in_lanes(pings, work.lanes), reported, requests, copies, dead, records, notes)


def _matched(spark: SparkSession, work: Work, began: float) -> Matched:
    sides, given = sides_of(spark, work), work.given
    notes = [*work.notes, *sides.notes]
    with staged(work.target) as folder:
        dead = write_dead(sides.dead, folder, work.target, given)
        answers = _answered(spark, work, sides, folder)
        counts = answers.where(F.col("rider").isNull()).collect()
        pairs = answers.where(F.col("rider").isNotNull())
        ghosts = ghosts_among(pairs, sides.pings, pairs.count())
        gone = _kept(spark, ghosts, folder / "ghosts")
        matches = write_matches(as_matches(ranked(pairs, gone, given.nearest)), folder, work.target, given)
        total = _totals(work, counts, dead, matches, gone.count())
        _check_counts(total, sides, counts)
        if given.verify:
            sizes = total.pings, total.requests
            result, recall, more = verified(sides.pings, sides.reported, matches, sizes, given, _expire(given))
            total, notes = replace(total, verified=result, recall=recall), [*notes, *more]
        if given.assign is not None:
            total = replace(total, offers=assigned(matches, folder, given))
        picture = picture_of(sides.pings, sides.copies, work.lanes) if given.picture else None
        if picture is not None:
            alone = unmatched(sides, matches, total.pings, given.radius, _expire(given))
            picture = picture.model_copy(update={"unmatched": alone})
        for part in ("answers", "ghosts", "ordered"):
            shutil.rmtree(folder / part, ignore_errors=True)
    seconds = time.monotonic() - began
    both = work.drivers, work.riders
    return Matched(document_of(both, work.target, work.contract, given, total, notes=notes, seconds=seconds), picture)


def _totals(
    work: Work, counts: Sequence[Any], dead: dict[str, dict[str, int]], matches: DataFrame, ghosts: int
) -> MatchTotals:
    """The counts of all lanes; `counts` has a row for each that took part."""
    loads = [0] * work.lanes.count
    for row in counts:
        loads[row["lane"]] += row["pings"]
    nearest = F.when(F.col("rank") == 1, F.col("distance_m"))
    middle = F.percentile_approx(nearest, F.lit(0.5), F.lit(_RANKS))
    (written,) = matches.agg(F.count(F.lit(1)), F.count(nearest), middle).collect()
    return MatchTotals(
        requests=sum(row["requests"] for row in counts),
        pings=sum(row["pings"] for row in counts),
        pairs=written[0],
        riders_with_a_match=written[1],
        median_m=written[2],
        copies=sum(row["copies"] for row in counts),
        border=sum(row["border"] for row in counts),
        ghosts=ghosts,
        dead=dead,
        loads=loads,
    )


def _answered(spark: SparkSession, work: Work, sides: Sides, folder: Path) -> DataFrame:
    """What the lanes answer, kept because it is read more than once. One task for each lane."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, str(work.lanes.count))
    answers = lane_answers(sides.pings, sides.copies, work.given.radius, _expire(work.given))
    try:
        return _kept(spark, answers, folder / "answers")
    finally:
        spark.conf.set(PARTITIONS, str(before))


def _expire(given: Options) -> int | None:
    return None if given.expire is None else round(given.expire * MICROS)


def _kept(spark: SparkSession, frame: DataFrame, folder: Path) -> DataFrame:
    frame.write.parquet(f"file://{folder}")
    return spark.read.schema(frame.schema).parquet(f"file://{folder}")


def _check_counts(total: MatchTotals, sides: Sides, counts: list[Any]) -> None:
    """No record is lost: matched and dead records are all records, where their number is known."""
    reports = sum(row["reports"] for row in counts)
    for side, good, there in zip(("drivers", "riders"), (total.pings, reports), sides.records, strict=True):
        dead = sum(total.dead[side].values())
        if there is not None and good + dead != there:
            got = f"{good} matched, {dead} dead"
            raise CountError.of(f"the records of the {side} do not add up", got=got, allowed=f"{there} in all")

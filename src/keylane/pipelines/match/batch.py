"""A match of all that is there: two sources in, exact pairs out. Following what arrives: `stream`.

The driver side is read twice, by columns: for dead letters, which only looks at what a record says, and for matching;
and a third time, for drivers and times alone, where lanes might have kept a ghost. No ping is ever collected here, but
for `--verify`, which is what `verified` does.
"""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.errors import CountError
from keylane.geo.places import EARTH, Region
from keylane.pipelines.failures import translated
from keylane.pipelines.match.assigning import assigned
from keylane.pipelines.match.copartition import agreed, lie_by_place
from keylane.pipelines.match.document import document_of
from keylane.pipelines.match.fanout import distinct_requests, fanned_out, in_lanes
from keylane.pipelines.match.joined import as_matches, ghosts_among, lane_answers, ranked
from keylane.pipelines.match.picture import picture_of
from keylane.pipelines.match.reading import as_pings, as_requests
from keylane.pipelines.match.sources import find, opened
from keylane.pipelines.match.written import check_target, staged, write_dead, write_matches
from keylane.pipelines.session import fetch_cells, session_beside, warn
from keylane.placement.cell_lanes import cell_lanes
from keylane.spark.session import active_session_kept
from keylane.systems.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import Found
    from keylane.pipelines.session import Say
    from keylane.placement.cell_lanes import CellLanes
    from keylane.systems.address import Address

__all__ = ["Sides", "Work", "agreed_work", "match", "region_of", "session_for", "sides_of"]

MICROS: Final = 1_000_000
PARTITIONS: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sources, read: pings in their lanes, requests as told and each once, their copies, dead letters of both."""

    pings: DataFrame
    tellings: DataFrame
    requests: DataFrame
    copies: DataFrame
    dead: DataFrame
    records: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Work:
    """What a match is made of, once it is agreed."""

    drivers: Found
    riders: Found
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
) -> dict[str, Any]:
    """Match all riders with all drivers, and return the document that says what it came to."""
    began = time.monotonic()
    check_target(parse_address(target), options.checked())
    work = agreed_work(drivers, riders, target, options, contract)
    try:
        with active_session_kept(), session_for(work, spark, say) as session:
            fetch_cells(session, say)
            found = _matched(session, work)
    except Exception as error:
        raise translated(error, work="the match") from error
    return {**found, "seconds": round(time.monotonic() - began, 3)}


def agreed_work(drivers: str, riders: str, target: str, options: Options, contract: Contract | None) -> Work:
    """Look at both sources without Spark; what does not fit together is refused here."""
    given = options.checked()
    sides = (find("drivers", drivers, given.drivers, given), find("riders", riders, given.riders, given))
    chosen, lanes, notes = agreed(*sides, contract, given)
    return Work(*sides, parse_address(target), chosen, cell_lanes(chosen, lanes), given, notes)


@contextmanager
def session_for(work: Work, spark: SparkSession | None, say: Say) -> Iterator[SparkSession]:
    """A session with what the records need, and with Kafka's connector where one of the three is a topic."""
    given, places = work.given, (work.drivers.address, work.riders.address, work.target)
    topic = next((one for one in places if one.system == "kafka"), None)
    if topic is None:
        yield session_beside(spark, given.master, given.conf, say)
        return
    from keylane.pipelines.kafka.login import session_with_login
    from keylane.pipelines.kafka.options import Running
    from keylane.pipelines.route import Options as Route
    from keylane.systems.folders import no_probe
    from keylane.systems.kafka_access import kafka_access

    running = Running(False, spark, None, lambda: None, lambda _: None, say, no_probe)
    access = kafka_access(topic.place, given.kafka.properties)
    with session_with_login(Route(master=given.master, conf=given.conf, kafka=given.kafka), running, access) as session:
        yield session


def region_of(contract: Contract) -> Region:
    """Where places may be, as the contract says."""
    found = contract.spec.geo.region if contract.spec.geo else None
    return Region(*found) if found else EARTH


def sides_of(spark: SparkSession, work: Work) -> Sides:
    """Read both sources."""
    region, given = region_of(work.contract), work.given
    (raw_drivers, drivers), (raw_riders, riders) = (opened(spark, one, given) for one in (work.drivers, work.riders))
    pings, dead_pings = as_pings(raw_drivers, given.drivers, region)
    if not lie_by_place(work.drivers, work.contract):
        pings = pings.drop("lane", "lane_key")
    told, dead_requests = as_requests(raw_riders, given.riders, region)
    requests = distinct_requests(told)
    copies = fanned_out(requests, [work.lanes], given.radius)
    dead, records = dead_pings.unionAll(dead_requests), (drivers.records, riders.records)
    return Sides(in_lanes(pings, work.lanes), told, requests, copies, dead, records)


def _matched(spark: SparkSession, work: Work) -> dict[str, Any]:
    sides, given = sides_of(spark, work), work.given
    with staged(work.target) as folder:
        dead = write_dead(sides.dead, folder, work.target, given)
        answers = _answered(spark, work, sides, folder)
        counts = answers.where(F.col("rider").isNull()).collect()
        pairs = answers.where(F.col("rider").isNotNull())
        ghosts = ghosts_among(pairs, sides.pings, pairs.count())
        gone = _kept(spark, ghosts, folder / "ghosts")
        matches = write_matches(as_matches(ranked(pairs, gone, given.nearest)), folder, work.target, given)
        found = document_of(work, counts, dead, matches, gone.count())
        _check_counts(found, sides, counts)
        if given.verify:
            found |= _judged(work, sides, matches, found)
        if given.assign is not None:
            found["offers"] = assigned(matches, folder, given)
        if given.picture:
            found["picture"] = picture_of(sides.pings, sides.copies, work.lanes)
        for part in ("answers", "ghosts", "ordered"):
            shutil.rmtree(folder / part, ignore_errors=True)
    return found


def _answered(spark: SparkSession, work: Work, sides: Sides, folder: Path) -> DataFrame:
    """What the lanes answer, kept while it is looked at more than once. One task for each lane."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, str(work.lanes.count))
    answers = lane_answers(sides.pings, sides.copies, work.given.radius, _expire(work.given))
    try:
        return _kept(spark, answers, folder / "answers")
    finally:
        spark.conf.set(PARTITIONS, str(before))


def _expire(given: Options) -> int | None:
    return None if given.expire is None else round(given.expire * MICROS)


def _judged(work: Work, sides: Sides, matches: DataFrame, found: dict[str, Any]) -> dict[str, Any]:
    from keylane.pipelines.match.verified import verified

    counts = found["pings"], found["riders"]
    result, recall, notes = verified(sides.pings, sides.tellings, matches, counts, work.given, _expire(work.given))
    return {"verified": result, "recall": recall, "notes": [*found["notes"], *notes]}


def _kept(spark: SparkSession, frame: DataFrame, folder: Path) -> DataFrame:
    frame.write.parquet(f"file://{folder}")
    return spark.read.schema(frame.schema).parquet(f"file://{folder}")


def _check_counts(found: dict[str, Any], sides: Sides, counts: list[Any]) -> None:
    """Nothing is lost: what was matched and what is dead is what there is, where that is known."""
    told = sum(row["told"] for row in counts)
    for side, good, there in zip(("drivers", "riders"), (found["pings"], told), sides.records, strict=True):
        dead = sum(found["dead"][side].values())
        if there is not None and good + dead != there:
            got = f"{good} matched, {dead} dead"
            raise CountError.of(f"the records of the {side} do not add up", got=got, allowed=f"{there} in all")

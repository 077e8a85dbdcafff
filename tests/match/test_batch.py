"""A batch gives what brute force gives: from raw folders by an exchange, and from lanes without one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from tests.match.batch_traffic import expected, found_in, geo_contract, pings, requests, routed, write
from tests.match.spark_plans import exchanges_above

from keylane.errors import DataError
from keylane.pipelines.match.batch import agreed_work, match, sides_of, verified
from keylane.pipelines.match.lanes import lane_answers
from keylane.pipelines.match.options import Options
from keylane.pipelines.match.write import as_messages
from keylane.pipelines.route import Options as RouteOptions
from keylane.pipelines.route import route

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.match.document import Matched

RADIUS = 2500.0
#: What Spark writes for a frame whose partitioning is declared.
DRIVERS = "Scan ExistingRDD"


@pytest.fixture(scope="module")
def geo() -> Contract:
    return geo_contract()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """drivers/ and riders/ as they come."""
    folder = tmp_path_factory.mktemp("raw")
    write(folder / "drivers", pings())
    write(folder / "riders", requests())
    return folder


@pytest.fixture(scope="module")
def lanes(spark: SparkSession, raw: Path, geo: Contract, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, routed by one contract."""
    folder = tmp_path_factory.mktemp("lanes")
    for side, stream in (("drivers", "driver-locations"), ("riders", "rider-requests")):
        route(geo, str(raw / side), str(folder / side), options=RouteOptions(stream=stream), spark=spark)
    return folder


def valid(matched: Matched) -> dict[str, Any]:
    document = matched.document.as_json()
    schema = json.loads(files("keylane").joinpath("schemas", "match.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(document)
    return {**document, "picture": matched.picture and matched.picture.as_json()}


@pytest.mark.parametrize(
    ("nearest", "expire"),
    [
        pytest.param(None, None, id="all within the radius", marks=pytest.mark.faults),
        pytest.param(3, 45.0, id="the nearest that are not too old"),
    ],
)
def test_raw_folders_give_what_brute_force_gives(
    nearest: int | None,
    expire: float | None,
    spark: SparkSession,
    raw: Path,
    geo: Contract,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if nearest is not None:  # ghosts are found without a broadcast too
        monkeypatch.setattr("keylane.pipelines.match.lanes.FEW_PAIRS", 0)
    options = Options(RADIUS, nearest=nearest, expire=expire, verify=nearest is not None)
    document = valid(
        match(str(raw / "drivers"), str(raw / "riders"), str(tmp_path / "out"), options, contract=geo, spark=spark)
    )
    wanted = expected(pings(), requests(), RADIUS, expire, nearest)
    found = found_in(tmp_path / "out")
    assert sorted(found) == sorted(wanted)
    assert document["pairs"] == len(wanted) > 100
    assert document["riders"] == 160
    assert document["pings"] == sum(document["lane_loads"]) == 2400
    assert document["copies_per_rider"] > 1.3
    assert document["metrics"]["ghosts_dropped"] > 20
    if options.verify:
        assert (document["recall"], document["verified"]) == (1.0, {"pairs": len(wanted), "missing": 0, "extra": 0})


@pytest.mark.faults
def test_lanes_by_another_place_than_the_matched_one_lose_no_pair(
    spark: SparkSession, raw: Path, tmp_path: Path
) -> None:
    where = {"lat": "home_lat", "lng": "home_lng"}
    sent = pings()
    homes = pa.table({name: sent[column].take(pa.array(range(len(sent))[::-1])) for column, name in where.items()})
    both = sent.append_column("home_lat", homes["home_lat"]).append_column("home_lng", homes["home_lng"])
    write(tmp_path / "raw", both, parts=1)
    by_home = geo_contract(fields=list(where.values()))
    route(by_home, str(tmp_path / "raw"), str(tmp_path / "lanes"), spark=spark)
    sides = str(tmp_path / "lanes"), str(raw / "riders")
    match(*sides, str(tmp_path / "out"), Options(RADIUS, nearest=3), contract=by_home, spark=spark)
    drivers, theirs = routed(tmp_path / "lanes")
    wanted = expected(drivers, requests(), RADIUS, None, 3, offsets=(theirs, None))
    assert sorted(found_in(tmp_path / "out")) == sorted(wanted)


@pytest.mark.faults
def test_a_file_of_a_lane_is_a_file_like_any_other(spark: SparkSession, lanes: Path, raw: Path, tmp_path: Path) -> None:
    """What route wrote beside the records is not of this match."""
    (one, *_) = sorted((lanes / "drivers").glob("stream=*/lane=*/*.parquet"))
    alone = match(str(one), str(raw / "riders"), str(tmp_path / "one"), Options(RADIUS, verify=True), spark=spark)
    assert (alone.document.recall, alone.document.pings) == (1.0, pq.read_metadata(one).num_rows)


def test_lanes_give_the_same_without_an_exchange_of_drivers(
    spark: SparkSession, lanes: Path, geo: Contract, tmp_path: Path
) -> None:
    options = Options(RADIUS, co_partitioned=True, picture=True, assign="optimal", window=30, offer_for=20)
    document = valid(
        match(str(lanes / "drivers"), str(lanes / "riders"), str(tmp_path / "out"), options, contract=geo, spark=spark)
    )
    (drivers, theirs), (riders, hers) = (routed(lanes / side) for side in ("drivers", "riders"))
    wanted = expected(drivers, riders, RADIUS, offsets=(theirs, hers))
    assert sorted(found_in(tmp_path / "out")) == sorted(wanted)
    assert document["offers"]["granted"] > 50
    picture = document["picture"]
    assert sum(one["pings"] for one in picture["cells"]) == sum(map(sum, picture["hours"])) == document["pings"]
    assert sum(one["requests"] for one in picture["cells"]) == document["riders"]
    copies = document["riders"] + sum(one["copies"] for one in picture["cells"])
    assert copies / document["riders"] == pytest.approx(document["copies_per_rider"], abs=1e-6)
    alone = picture["unmatched"]
    assert len(alone) == document["riders"] - document["riders_with_a_match"] > 0
    assert all(one["nearest_m"] is None or one["nearest_m"] > document["radius_m"] for one in alone)
    assert any(one["nearest_m"] is not None for one in alone)
    assert any(one["wait_s"] is not None and one["wait_s"] > 0 for one in alone)


@pytest.fixture(
    params=[pytest.param("false", id="as planned", marks=pytest.mark.faults), pytest.param("true", id="adaptive")]
)
def session(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    """A session of its own, with and without plans that change while they run."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", request.param)
    own.conf.set("spark.sql.session.timeZone", "UTC")
    own.conf.set("spark.sql.shuffle.partitions", "8")
    return own


def ran(frame: DataFrame) -> str:
    """The plan of a frame that has run: under adaptive execution only then is it the final one."""
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_the_plan_has_no_shuffle_of_the_driver_side_and_plain_hashing_has_one(
    session: SparkSession, lanes: Path, geo: Contract
) -> None:
    work = agreed_work(str(lanes / "drivers"), str(lanes / "riders"), "out", Options(RADIUS), geo)
    sides = sides_of(session, work)
    plan = ran(lane_answers(sides.pings, sides.copies, RADIUS, None))
    assert DRIVERS in plan
    assert exchanges_above(plan, DRIVERS)[0] == []
    plain = sides.pings.withColumn("lane_key", sides.pings["lane"])
    by_id = lane_answers(plain, sides.copies.withColumn("lane_key", sides.copies["lane"]), RADIUS, None)
    assert exchanges_above(ran(by_id), DRIVERS)[0] != []


def test_every_lane_is_a_task_of_its_own(session: SparkSession, lanes: Path, geo: Contract) -> None:
    from pyspark.sql import functions as F

    work = agreed_work(str(lanes / "drivers"), str(lanes / "riders"), "out", Options(RADIUS), geo)
    pings = sides_of(session, work).pings
    where = pings.select("lane", F.spark_partition_id().alias("task")).distinct().collect()
    assert sorted(map(tuple, where)) == [(lane, lane) for lane in range(8)]
    assert pings.rdd.getNumPartitions() == 8


def test_a_sample_is_judged_by_itself_and_a_planted_fault_is_found(
    session: SparkSession, raw: Path, geo: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F

    monkeypatch.setattr("keylane.pipelines.match.batch.MOST_PINGS", 1000)
    monkeypatch.setattr("keylane.pipelines.match.batch.MOST_PRODUCTS", 50_000)
    work = agreed_work(str(raw / "drivers"), str(raw / "riders"), "out", Options(RADIUS), geo)
    sides = sides_of(session, work)
    truth = sorted(expected(pings(), requests(), RADIUS))
    newest = session.createDataFrame(truth, "rider_id string, ms bigint, driver_id string")
    known = sides.pings.select("driver", F.col("ts").alias("at"), "offset")
    asked = newest.withColumn("rider_ts", F.timestamp_millis("ms"))
    seen = asked.join(known, (F.col("driver") == F.col("driver_id")) & (F.col("at") <= F.col("ms") * 1000))
    latest = seen.groupBy("rider_id", "rider_ts", "driver_id").agg(F.max("at").alias("at"))
    matches = latest.withColumn("driver_ts", F.timestamp_micros("at")).cache()
    counts, given = (2400, 160), work.given
    found, recall, notes = verified(sides.pings, sides.reported, matches, counts, given, None)
    (note,) = notes
    assert "1 rider in 3 and 1 driver in 3" in note
    assert (found.missing, found.extra, recall) == (0, 0, 1.0)
    assert 0 < found.pairs < len(truth) / 4
    chosen = (F.pmod(F.xxhash64("rider_id"), F.lit(3)) == 0) & (F.pmod(F.xxhash64("driver_id"), F.lit(3)) == 0)
    gone = matches.where(chosen).select("rider_id").first()
    assert gone is not None
    wrong, recall, _ = verified(
        sides.pings, sides.reported, matches.where(F.col("rider_id") != gone[0]), counts, given, None
    )
    assert wrong.missing > 0
    assert recall < 1.0
    with pytest.raises(DataError, match="too many pings"):
        verified(sides.pings, sides.reported, matches, counts, Options(RADIUS, nearest=1), None)


def test_a_match_in_a_topic_has_an_id_that_is_the_same_in_every_run_and_no_other_has(spark: SparkSession) -> None:
    kinds = "rider_id string, rider_ts timestamp, driver_id string, distance_m double, driver_ts timestamp, rank int"
    at = datetime(2025, 11, 15, 12, tzinfo=UTC)
    rows = [("a", at, "b", 1.0, at, 1), ("a", at, "c", 2.0, at, 2), ("a/1", at, "b", 1.0, at, 1)]
    sent = [as_messages(spark.createDataFrame(each, kinds)).collect() for each in (rows, rows[::-1])]
    one, again = ({json.loads(row["value"])["match_id"]: bytes(row["key"]) for row in each} for each in sent)
    assert one == again
    assert sorted(one.values()) == [b"a", b"a", b"a/1"]
    assert set(json.loads(sent[0][0]["value"])) == {"match_id", *(kind.split()[0] for kind in kinds.split(", "))}

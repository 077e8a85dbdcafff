"""`match --follow`: the same pairs as brute force, however records are cut into batches, and over restarts."""

from __future__ import annotations

import json
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.match.batch_traffic import geo_contract
from tests.match.stream_traffic import BEGAN, LONDON, SECOND, World, matches, world

from keylane.errors import TargetError, UsageError
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.follow_plan import MatchPlan
from keylane.pipelines.match.follow_sources import Epochs
from keylane.pipelines.match.offers import Sums, _window, windows
from keylane.pipelines.match.options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

RADIUS = 3000.0
FEW = Following(max_files=1, available_now=True, tasks=2)


def run(spark: SparkSession, folder: Path, how: Following = FEW, resolution: int = 5, **more: Any) -> dict[str, Any]:
    given = Options(**{"radius": RADIUS, **more})
    sides = str(folder / "in" / "drivers"), str(folder / "in" / "riders")
    found = follow(*sides, str(folder / "out"), given, how, contract=geo_contract(4, resolution), spark=spark)
    return found.as_json()


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "out" / "_metrics").glob("*.json"))]


def wrong(folder: Path, made: World, **more: Any) -> tuple[int, int]:
    """Pairs that are missing, and pairs too many."""
    found, expected = matches(folder / "out"), made.expected(RADIUS, made.watermark, **more)
    assert expected, "a world without a pair tells nothing"
    return len(expected - found), len(found - expected)


@pytest.mark.parametrize("batches", [2, pytest.param(4, marks=pytest.mark.faults)])
def test_all_pairs_are_found_over_batches_and_a_restart_and_unripe_requests_wait(
    spark: SparkSession, tmp_path: Path, batches: int
) -> None:
    made = world(files=batches)
    made.write(tmp_path / "in", range(batches // 2))
    first = run(spark, tmp_path, expire=20.0)
    assert first["metrics"]["pending"] > 0
    made.write(tmp_path / "in")
    last = run(spark, tmp_path, expire=20.0)
    assert wrong(tmp_path, made, expire=20 * SECOND) == (0, 0)
    asked = made.requests.num_rows
    assert (last["riders"] + last["metrics"]["pending"], last["pings"]) == (asked, made.pings.num_rows)
    assert last["metrics"]["tombstones"] > 0
    assert last["copies_per_rider"] > 1
    reports = metrics(tmp_path)
    assert len(reports) == batches
    assert sum(one["pairs"] for one in reports) == last["pairs"] == len(matches(tmp_path / "out"))
    assert all(one["entries"] < made.pings.num_rows / (batches * 0.75) for one in reports), (
        "the state is not thinned out"
    )


@pytest.mark.faults
@pytest.mark.parametrize(
    ("options", "late", "keep"),
    [
        ({"nearest": 2}, 10.0, 600.0),
        ({"nearest": 1, "expire": 8.0}, 6.0, 600.0),
        ({"expire": 2.0}, 10.0, 600.0),
        ({}, 6.0, 6.0),
        ({}, 60.0, 30.0),
    ],
    ids=["nearest", "nearest and expire", "expire", "late and keep as short as can be", "late above keep"],
)
def test_pairs_are_those_of_brute_force_with_every_option(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], late: float, keep: float
) -> None:
    made = world(files=3)
    made.write(tmp_path / "in")
    how = Following(late=late, keep=keep, max_files=1, available_now=True, tasks=2)
    document = run(spark, tmp_path, how, **options)
    newest = int(made.pings["ts"].cast(pa.int64()).to_numpy().max())
    given = {name: round(value * SECOND) if name == "expire" else value for name, value in options.items()}
    expected = made.expected(RADIUS, newest - round(late * SECOND), **given)
    assert matches(tmp_path / "out") == expected
    assert document["dead"] == {"drivers": {}, "riders": {}}


def moved_to(table: pa.Table, number: int) -> pa.Table:
    """All records in the file of this number."""
    return table.set_column(table.column_names.index("file"), "file", pa.array(np.full(len(table), number)))


@pytest.mark.parametrize(
    "traffic",
    [
        pytest.param("drivers jump", marks=pytest.mark.faults),
        pytest.param("requests are far ahead", marks=pytest.mark.faults),
        pytest.param("requests are far behind", marks=pytest.mark.faults),
        pytest.param("requests come twice", marks=pytest.mark.faults),
    ],
)
def test_traffic_that_is_not_as_one_would_like_it_gives_the_same_pairs(
    spark: SparkSession, tmp_path: Path, traffic: str
) -> None:
    made = world(files=3, jumps=traffic == "drivers jump")
    given = made
    if traffic == "requests are far ahead":
        given = replace(made, requests=moved_to(made.requests, 0))
    elif traffic == "requests are far behind":
        given = replace(made, requests=moved_to(made.requests, 2))
    elif traffic == "requests come twice":
        # Once more with their own batch, and once more when most are answered.
        copies = [made.requests, made.requests, moved_to(made.requests, 2)]
        given = replace(made, requests=pa.concat_tables(copies))
    given.write(tmp_path / "in")
    document = run(spark, tmp_path)
    assert wrong(tmp_path, made) == (0, 0)
    assert document["riders"] + document["metrics"]["pending"] == made.requests.num_rows
    # One that is answered long since, and comes again when nothing of its time is remembered, is too late.
    late = document["dead"]["riders"].pop("late-request", 0)
    assert (late > 0) == (traffic == "requests come twice")
    assert document["dead"] == {"drivers": {}, "riders": {}}
    waiting = [one["waiting"] for one in metrics(tmp_path)]
    assert (waiting[0] > made.requests.num_rows / 2) == (traffic == "requests are far ahead")
    if traffic == "drivers jump":
        assert document["metrics"]["tombstones"] > made.pings.num_rows / 3


@pytest.mark.parametrize(
    "forgets",
    [
        pytest.param(False, id="both tables"),
        pytest.param(True, id="twin: the new table only", marks=pytest.mark.faults),
    ],
)
def test_a_new_lane_table_loses_no_pair_while_drivers_are_still_in_the_old(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    # Drivers that ping once in the time of a file: most have not moved to the new table when they are asked for.
    made = world(files=2, drivers=150, every=25.0, riders=120)
    made.write(tmp_path / "in", range(1))
    run(spark, tmp_path, resolution=6)
    if forgets:
        both = Epochs.of
        monkeypatch.setattr(Epochs, "of", lambda self, last: both(self, last)[-1:])
    made.write(tmp_path / "in")
    run(spark, tmp_path, resolution=5)
    missing, extra = wrong(tmp_path, made)
    assert extra == 0
    assert (missing > 0) == forgets


def test_an_old_lane_table_leaves_the_plan_of_a_match_that_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(tmp_path, "drivers", 0, [("d1", 0, 0), ("d2", 1, 100), ("d1", 60, 0)])
    small(tmp_path, "riders", 0, [("r1", 5, 10)])
    run(spark, tmp_path, Following(available_now=True, tasks=2, late=1), resolution=6, expire=30.0)
    plans, asked, made = list[int](), threading.Event(), MatchPlan.of

    def counted(session: Any, given: Any, rules: Any, tables: Any) -> MatchPlan:
        plans.append(len(tables))
        return made(session, given, rules, tables)

    monkeypatch.setattr(MatchPlan, "of", counted)
    batches: list[Any] = []

    def tell(figures: Any) -> None:
        batches.append(figures)
        at = 60 + len(batches) * 100
        if plans == [2, 1] or len(batches) == 6:
            asked.set()
        else:
            # All that the old table has placed has expired by then.
            small(tmp_path, "drivers", len(batches) + 1, [("d1", at, 0), ("d2", at, 100)])
            small(tmp_path, "riders", len(batches) + 1, [(f"r{at}", at - 50, 10)])

    small(tmp_path, "drivers", 1, [("d1", 100, 0)])
    sides = str(tmp_path / "in" / "drivers"), str(tmp_path / "in" / "riders")
    how = Following(every="100 milliseconds", tasks=2, late=1)
    given = Options(radius=RADIUS, expire=30.0)
    follow(
        *sides, str(tmp_path / "out"), given, how, contract=geo_contract(4), spark=spark, stop_asked=asked, tell=tell
    )
    assert plans == [2, 1]


def small(folder: Path, side: str, number: int, rows: list[tuple[str, float, float]]) -> None:
    """A file with (id, seconds, metres north of the middle of London)."""
    who, at, north = zip(*rows, strict=True)
    ts = pa.array([BEGAN + int(one * SECOND) for one in at]).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table(
        {"id": list(who), "ts": ts, "lat": [LONDON[0] + one / 111_195 for one in north], "lng": [LONDON[1]] * len(who)}
    )
    (folder / "in" / side).mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "in" / side / f"{number:04d}.parquet")


def test_pings_and_requests_that_come_too_late_are_counted_and_offers_hold_their_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    small(tmp_path, "drivers", 0, [("d1", 0, 0), ("d2", 1, 900), ("d4", 1, 30_000), ("d3", 100, 50_000)])
    small(tmp_path, "riders", 0, [("r1", 5, 10), ("r2", 6, 20), ("r5", 85, 20_000), ("r3", 95, 0)])
    how = Following(late=10, keep=20, available_now=True, tasks=2)
    first = run(spark, tmp_path, how, radius=500.0, assign="greedy", offer_for=60.0)
    assert (first["riders"], first["metrics"]["pending"]) == (3, 1)
    assert first["offers"] == {"granted": 1, "refused": 1, "mean_distance_m": pytest.approx(10, abs=1)}
    # A ping of d4 that the answer to r5 should have seen, one of d2 that is too old for that to be known, and a request
    # of a time that is forgotten.
    small(tmp_path, "drivers", 1, [("d2", 5.5, 100), ("d4", 84, 20_050), ("d3", 150, 50_000)])
    small(tmp_path, "riders", 1, [("r0", 2, 0), ("r4", 120, 100)])
    last = run(spark, tmp_path, how, radius=500.0, assign="greedy", offer_for=60.0)
    assert last["dead"]["riders"] == {"late-request": 1}
    assert (last["riders"], last["metrics"]["pending"], last["metrics"]["late_pings"]) == (5, 0, 1)
    # d1 is free again at 95; d2 is where the late ping says.
    assert last["offers"]["granted"] == 3
    dead = pq.read_table(next((tmp_path / "out" / "_dead").glob("batch=*")))
    assert json.loads(dead["original"][0].as_py())["rider"] == "r0"


@pytest.mark.faults
def test_a_request_that_waits_for_its_window_finds_the_driver_of_its_own_moment(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The window of 0 to 100 ends after the first run: by then d1 has moved on, and lanes remember two seconds.
    how = Following(late=2, available_now=True, tasks=2)
    small(tmp_path, "drivers", 0, [("d1", 0, 0), ("d1", 40, 9_000), ("d1", 50, 20_000)])
    small(tmp_path, "riders", 0, [("r1", 20, 10), ("r2", 55, 9_000)])
    more: dict[str, Any] = {"radius": 500.0, "assign": "greedy", "window": 100.0}
    assert run(spark, tmp_path, how, **more)["metrics"]["pending"] == 2
    small(tmp_path, "drivers", 1, [("d1", 130, 30_000)])
    found = run(spark, tmp_path, how, **more)
    assert (found["pairs"], found["riders"], found["offers"]["granted"]) == (1, 2, 1)


class StoppedError(Exception):
    """As if it were killed there."""


@pytest.mark.faults
@pytest.mark.parametrize(
    ("is_cut", "planted"),
    [(False, False), (True, False), (True, True)],
    ids=["", "and its last batch is given again", "twin: which is made by the new rules"],
)
@pytest.mark.parametrize("lates", [(30, 0), (0, 60)], ids=str)
def test_a_run_with_another_late_answers_each_request_once(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lates: tuple[float, float],
    is_cut: bool,
    planted: bool,
) -> None:
    small(tmp_path, "drivers", 0, [("d1", 0, 0), ("d1", 60, 0)])
    small(tmp_path, "riders", 0, [("r1", 5, 10), ("r2", 40, 10), ("r3", 55, 10)])

    def stop(point: str, _batch: int) -> None:
        if point == "committed" and is_cut:
            raise StoppedError

    sides = str(tmp_path / "in" / "drivers"), str(tmp_path / "in" / "riders")
    places, given, contract = (*sides, str(tmp_path / "out")), Options(radius=500.0), geo_contract(4)
    how = [Following(available_now=True, tasks=2, late=late) for late in lates]
    with pytest.raises(StoppedError) if is_cut else nullcontext():
        follow(*places, given, how[0], contract=contract, spark=spark, probe=stop)
    small(tmp_path, "drivers", 1, [("d1", 300, 0)])
    if planted:
        monkeypatch.setattr("keylane.pipelines.match.follow._rules_of", lambda _last, _held, asked: asked)
    found = follow(*places, given, how[1], contract=contract, spark=spark)
    assert (found.pairs == found.riders == 3) != planted
    if not planted:
        assert {rider for rider, *_ in matches(tmp_path / "out")} == {"r1", "r2", "r3"}
        assert found.metrics is not None
        assert found.metrics.pending == 0


def offered(folder: Path) -> set[tuple[Any, ...]]:
    """Offers as they were written: id, rider, driver, when."""
    tables = [pq.read_table(path) for path in sorted((folder / "out" / "offers").glob("batch=*/*.parquet"))]
    found = pa.concat_tables(tables)
    names = ("offer_id", "rider_id", "driver_id", "made", "expires")
    return set(zip(*(found[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("method", ["greedy", pytest.param("optimal", marks=pytest.mark.faults)])
@pytest.mark.parametrize("cut", [[2, 4], pytest.param([1, 2, 3, 4], marks=pytest.mark.faults)], ids=str)
def test_offers_are_those_of_all_windows_in_their_order_over_restarts(
    spark: SparkSession, tmp_path: Path, method: str, cut: list[int]
) -> None:
    made = world(files=4, drivers=25, riders=120, seconds=15.0)
    more: dict[str, Any] = {"assign": method, "window": 4.0, "offer_for": 21.0}
    for upto in cut:
        made.write(tmp_path / "in", range(upto))
        last = run(spark, tmp_path, Following(max_files=2, available_now=True, tasks=2), **more)
    found = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / "out" / "matches").glob("batch=*"))])
    pairs = pa.table(
        {
            "rider": found["rider_id"],
            "rider_ts": found["rider_ts"].cast(pa.int64()),
            "driver": found["driver_id"],
            "distance_m": found["distance_m"],
        }
    ).sort_by([("rider_ts", "ascending")])
    sums, options = Sums(), Options(radius=RADIUS, **more)
    assigned = [_window(window, end, options, sums) for end, window in windows(iter([pairs]), 4 * SECOND)]
    expected = pa.concat_tables(assigned)
    names = ("offer_id", "rider_id", "driver_id", "made", "expires")
    assert offered(tmp_path) == set(zip(*(expected[name].to_pylist() for name in names), strict=True))
    assert last["offers"]["granted"] == sums.granted > 10
    assert last["offers"]["refused"] == sums.refused > 10
    assert last["offers"]["mean_distance_m"] == pytest.approx(sums.metres / sums.granted)


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(3600.0, id="an hour is the most"),
        pytest.param(1e9 - 1, id="twin: anything goes", marks=pytest.mark.faults),
    ],
)
def test_one_clock_that_is_years_ahead_does_not_end_every_answer(
    spark: SparkSession, tmp_path: Path, ahead: float
) -> None:
    how = Following(late=10, keep=20, ahead=ahead, available_now=True, tasks=2)
    wrong_by = time.time() - BEGAN / SECOND + 10_000_000
    small(tmp_path, "drivers", 0, [("d1", 0, 0), ("d2", wrong_by, 0), ("d1", 30, 0)])
    small(tmp_path, "riders", 0, [("r1", 5, 10), ("r2", 28, 0), ("r9", wrong_by, 0)])
    run(spark, tmp_path, how, radius=500.0)
    small(tmp_path, "drivers", 1, [("d1", 60, 0), ("d1", 90, 0)])
    small(tmp_path, "riders", 1, [("r3", 62, 0)])
    found = run(spark, tmp_path, how, radius=500.0)
    lost = ahead > 3600
    assert found["dead"]["riders"] == {"late-request" if lost else "time-ahead": 1}
    assert found["dead"]["drivers"] == ({} if lost else {"time-ahead": 1})
    assert (found["riders"], found["pairs"], found["metrics"]["pending"]) == ((2, 2, 1) if lost else (3, 3, 0))
    assert [one["ahead"] for one in metrics(tmp_path)] == ([0, 0] if lost else [1, 0])


def test_files_are_followed_until_the_match_is_asked_to_stop_and_a_stop_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    asked, reports = threading.Event(), list[Any]()
    small(tmp_path, "drivers", 0, [("d1", 0, 0), ("d1", 60, 0)])
    small(tmp_path, "riders", 0, [("r1", 5, 10)])

    def tell(figures: Any) -> None:
        reports.append(figures)
        if len(reports) == 1:
            small(tmp_path, "drivers", 1, [("d1", 90, 0)])
            small(tmp_path, "riders", 1, [("r2", 62, 0)])
        if sum(one.metrics["pairs"] for one in reports) == 2:
            asked.set()

    sides = str(tmp_path / "in" / "drivers"), str(tmp_path / "in" / "riders")
    how = Following(every="100 milliseconds", tasks=2)
    given, contract = Options(radius=500.0), geo_contract(4)
    document = follow(
        *sides, str(tmp_path / "out"), given, how, contract=contract, spark=spark, stop_asked=asked, tell=tell
    )
    assert (document.pairs, document.pings, document.riders) == (2, 3, 2)
    commits = (tmp_path / "out" / "_state" / "checkpoint" / "commits").glob("[0-9]*")
    assert len(list(commits)) == len(reports)
    steps: list[tuple[str, int]] = []
    follow(
        *sides,
        str(tmp_path / "out"),
        given,
        FEW,
        contract=contract,
        spark=spark,
        probe=lambda point, batch: steps.append((point, batch)),
    )
    assert not steps


def test_a_match_goes_on_with_what_it_was_begun_with_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    small(tmp_path, "drivers", 0, [("d1", 0, 0), ("d1", 60, 0)])
    small(tmp_path, "riders", 0, [("r1", 5, 10)])
    assert run(spark, tmp_path)["pairs"] == 1
    with pytest.raises(TargetError, match=r"radius: 3000\.0, now 2000\.0"):
        run(spark, tmp_path, radius=2000.0)
    with pytest.raises(UsageError, match="late"):
        run(spark, tmp_path, Following(late=-1))
    other = tmp_path / "out" / "matches" / "mine.txt"
    other.write_text("mine")
    with pytest.raises(TargetError, match="is not empty"):
        run(spark, tmp_path, Following(state=str(tmp_path / "elsewhere"), available_now=True))
    assert other.read_text() == "mine"

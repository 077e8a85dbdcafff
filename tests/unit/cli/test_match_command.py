"""`keylane match` as it is typed, up to where Spark begins; and what it says of a result."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from keylane.cli.match import as_result
from keylane.cli.output import Result, render
from keylane.documents.match import MatchDocument

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

NEEDED = ("--radius", 1000, "--to", "out")


@pytest.mark.parametrize("follow", [("--follow",), ()])
def test_a_source_that_is_not_there_is_refused_before_spark_and_leaves_nothing(
    follow: tuple[str, ...], run: Run, tmp_path: Path
) -> None:
    (tmp_path / "riders").mkdir()
    code, out, err = run("match", "--drivers", "nowhere", "--riders", "riders", *NEEDED, *follow)
    assert (code, out) == (1, "")
    assert "no such source of the drivers" in err
    assert [path.name for path in tmp_path.iterdir()] == ["riders"]


def document(**more: Any) -> dict[str, Any]:
    metrics = dict.fromkeys(("match_latency_ms", "lag", "tombstones", "late_pings", "pending"))
    metrics |= {"border_share": 0.08, "ghosts_dropped": 3, "lane_cv": 0.5, "noise_floor": 0.1}
    return {
        "schema": "keylane.match/1",
        "drivers": "pings/",
        "riders_source": "requests/",
        "target": "out",
        "contract": "geo",
        "fingerprint": "ab" * 32,
        "lanes": 2,
        "radius_m": 1000.0,
        "nearest": None,
        "expire_s": None,
        "riders": 10,
        "pings": 100,
        "pairs": 20,
        "riders_with_a_match": 8,
        "recall": None,
        "verified": None,
        "copies_per_rider": 1.08,
        "dead": {"drivers": {"place-zero": 2}, "riders": {}},
        "offers": None,
        "metrics": metrics,
        "lane_loads": [75, 25],
        "seconds": 1.5,
        "notes": ["no contract"],
        **more,
    }


def result(**more: Any) -> Result:
    return as_result(MatchDocument.model_validate(document(**more)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--drivers SRC, or --from DRIVERS"),
        (("--drivers", "a"), "hint: --riders SRC"),
        (("--from", "a"), "--from is given twice"),
        (("--from", "a", "--from", "b", "--drivers", "c"), "--from is given twice"),
        (("--from", "a", "--from", "b", "--from", "c"), "--from is given twice"),
        (("--drivers", "a", "--riders", "b", "--late", 3), "--late"),
        (("--drivers", "a", "--riders", "b", "--max-files", 3), "--max-files"),
        (("--drivers", "a", "--riders", "b", "--follow", "--verify"), "--verify is of a batch"),
        (("--drivers", "a", "--riders", "b", "--expire", -3), "got -3.0"),
        (("--drivers", "a", "--riders", "b", "--assign", "best"), "got 'best'; allowed: greedy, optimal"),
        (("--drivers", "a", "--riders", "b", "--conf", "x=1"), "--conf takes spark.NAME=VALUE"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_read(
    arguments: tuple[object, ...], said: str, run: Run
) -> None:
    pytest.importorskip("pyspark")
    code, out, err = run("match", *NEEDED, *arguments)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())


def test_the_columns_of_both_sides_are_the_contracts_unless_others_are_given() -> None:
    pytest.importorskip("pyspark")
    from keylane.cli.match import _columns
    from keylane.contract.parse import parse_contract

    contract = parse_contract(
        "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: rides}\nspec: {streams: [d], lanes: 12, "
        "key: {fields: [p_lat, p_lng], encoding: place}, partitioner: kafka-java, geo: {resolution: 3}}"
    )
    nothing = {f"{side}_{name}": None for side in ("driver", "rider", "any") for name in ("id", "time", "lat", "lng")}
    given = {**nothing, "driver_lat": "y", "any_id": "who", "available": None, "scale": None}
    given |= {"driver_scale": None, "rider_scale": None}
    drivers, riders = (_columns(given, side, contract) for side in ("driver", "rider"))
    assert drivers.needed == ("who", "ts", "y", "p_lng")
    assert riders.needed == ("who", "ts", "p_lat", "p_lng")
    assert _columns(given, "rider", None).needed == ("who", "ts", "lat", "lng")


@pytest.mark.parametrize("radius", [["--radius", -5], ["--radius", "nan"], []])
def test_a_radius_that_is_none_is_refused(radius: list[object], run: Run) -> None:
    code, _, err = run("match", "--drivers", "a", "--riders", "b", "--to", "out", *radius)
    assert (code, "--radius" in err) == (2, True)


def test_a_source_that_is_not_there_and_a_target_that_is_are_refused(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    (tmp_path / "mine").touch()
    code, _, err = run("match", "--drivers", "a", "--riders", "b", "--radius", 5, "--to", tmp_path)
    assert (code, "is not empty" in err) == (1, True)
    code, _, err = run("match", *NEEDED, "--drivers", "a", "--riders", "b", "--report", tmp_path / "mine")
    assert (code, "--force replaces it" in err) == (2, True)


def test_what_is_printed_is_valid_and_the_schema_says_no() -> None:
    schema = json.loads(files("keylane").joinpath("schemas", "match.json").read_text("utf-8"))
    check = Draft202012Validator(schema)
    whole = document(
        recall=1.0,
        verified={"pairs": 20, "missing": 0, "extra": 0},
        offers={"granted": 3, "refused": 1, "mean_distance_m": 410.5},
    )
    check.validate(json.loads(render(as_result(MatchDocument.model_validate(whole)), "json")))
    planted: list[dict[str, Any]] = [{"recall": 1.2}, {"riders": -1}, {"lane_loads": []}, {"dead": {"drivers": {}}}]
    for wrong in [*planted, {"surprise": 1}]:
        with pytest.raises(ValidationError):
            check.validate(document(**wrong))


def test_the_answer_comes_first_and_the_evidence_after() -> None:
    judged = {"pairs": 20, "missing": 0, "extra": 0}
    text = render(result(recall=1.0, verified=judged, median_m=210.4, seconds=75.0), "table")
    first, second, third, *rest = text.splitlines()
    assert first == "8 of 10 requests (80.0%) have a driver within 1,000 m; the nearest is 210 m away at the median"
    assert second.strip().startswith("each request went to 1.08 of 2 lanes (partitions) on average; 8.0% are within")
    assert third.strip() == "recall 100%: brute force finds 20 pairs"
    evidence = "\n".join(rest)
    assert "LANE" in evidence
    assert "1.50×" in evidence, "a lane beside the mean"
    assert "20 pairs of 10 requests and 100 pings, 1 min 15 s" in evidence
    assert "the fullest lane holds 50.0% more pings than the average (CV 50.0%; chance alone 10.0%)" in evidence
    assert "3 stale positions" in evidence
    assert "2 place-zero" in evidence
    assert text.endswith("no contract")


def test_what_was_not_measured_is_left_out() -> None:
    text = render(result(riders=0, riders_with_a_match=0, pairs=0, lane_loads=[0, 0]), "table")
    assert text.splitlines()[0] == "0 of 0 requests have a driver within 1,000 m"
    assert "median" not in text
    assert "recall" not in text


def test_many_copies_are_named_with_what_helps() -> None:
    assert "more than 2 lanes per request is expensive" in render(result(copies_per_rider=3.1), "table")
    assert "is expensive" not in render(result(copies_per_rider=1.9), "table")


def test_a_result_that_brute_force_does_not_confirm_ends_with_1() -> None:
    assert result().exit_code == 0
    assert result(recall=1.0, verified={"pairs": 20, "missing": 0, "extra": 0}).exit_code == 0
    assert result(recall=0.95, verified={"pairs": 20, "missing": 1, "extra": 0}).exit_code == 1
    assert result(recall=1.0, verified={"pairs": 20, "missing": 0, "extra": 1}).exit_code == 1


@pytest.mark.parametrize(
    ("pending", "said"), [(None, ""), (0, ""), (1, "1 more request waits"), (3, "3 more requests")]
)
def test_requests_that_wait_are_in_the_answer(pending: int | None, said: str) -> None:
    text = render(result(metrics=document()["metrics"] | {"pending": pending}, pairs=1), "table")
    assert "1 pair of 10 requests" in text
    assert said in text
    assert ("for an answer" in text) == bool(said)

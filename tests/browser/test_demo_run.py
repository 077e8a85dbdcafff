"""`keylane demo`, run once and small: what it prints, what it leaves, and that its figures hold together."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from keylane import load_contract
from keylane.cli.demo import as_result
from keylane.cli.output import render
from keylane.cli.progress import ready
from keylane.documents.demo import DemoFigures
from keylane.errors import TargetError, UsageError
from keylane.measure.conformance import keeps
from keylane.pipelines.aggregate.verify import verify_results
from keylane.pipelines.demo.standing import check_order
from keylane.router import Router
from keylane.systems.files.data import open_data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.running import DemoRun

CONTRACTS = [
    "payments-naive",
    "payments-spread",
    "payments-table",
    "queries-more-lanes",
    "queries-naive",
    "queries-table",
    "rides-by-population",
    "rides-naive",
    "rides-windowed",
]


def trials(run: DemoRun) -> dict[str, dict[str, Any]]:
    return {trial["name"]: trial for case in run.figures["cases"] for trial in case["trials"]}


def test_it_ends_well_and_says_where_the_page_is(demo_run: DemoRun) -> None:
    steps = [line for line in demo_run.err.splitlines() if re.match(r"\[ *\d+\.\d s\] ", line)]
    assert "starting Spark" in steps[0]
    assert len(steps) > 15
    assert steps[-1].endswith(f"the page is {demo_run.folder / 'index.html'}")
    assert (demo_run.folder / "index.html").stat().st_size > 100_000


def test_json_is_the_figures_without_the_cells(demo_run: DemoRun) -> None:
    document = json.loads(demo_run.out)
    schema = schema_of_demo()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    assert document["page"] == str(demo_run.folder / "index.html")
    figures = DemoFigures.model_validate(demo_run.figures)
    assert json.loads(render(as_result(figures, demo_run.folder / "index.html"), "json")) == document


@pytest.mark.parametrize(
    "plant",
    [
        lambda document: document.pop("drift"),
        lambda document: document.update(extra=1),
        lambda document: document["drift"][0].pop("expected"),
        lambda document: document["cases"][0]["trials"][0].update(cells=[[1]]),
        lambda document: document["cases"][0]["trials"][0].update(lanes="64"),
    ],
    ids=["no drift", "something more", "a drift without its field", "with cells", "lanes as text"],
)
def test_another_document_is_not_valid(demo_run: DemoRun, plant: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(demo_run.out)
    plant(document)
    assert not Draft202012Validator(schema_of_demo()).is_valid(document)


def schema_of_demo() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files("keylane").joinpath("schemas", "demo.json").read_text("utf-8"))
    return found


def test_every_record_has_a_lane_under_every_contract(demo_run: DemoRun) -> None:
    assert sorted(trials(demo_run)) == CONTRACTS
    for case in demo_run.figures["cases"]:
        written = sum(len(batch) for batch in open_data(str(demo_run.folder / "source" / case["name"])).batches(["ts"]))
        for trial in case["trials"]:
            assert trial["unplaced"] == 0
            assert sum(map(sum, trial["cells"])) == trial["records"] == case["records"] == written


@pytest.mark.parametrize("name", CONTRACTS)
def test_spark_counts_what_the_router_counts(demo_run: DemoRun, name: str) -> None:
    contract = load_contract(demo_run.folder / "contracts" / f"{name}.yaml")
    data = open_data(str(demo_run.folder / "source" / name.partition("-")[0]))
    kept, _ = keeps(Router(contract), data.batches(data.columns))
    trial = trials(demo_run)[name]
    assert kept.per_lane.tolist() == [sum(row) for row in trial["cells"]]
    assert trial["max_over_mean"] == pytest.approx(kept.per_lane.max() / kept.per_lane.mean(), abs=1e-4)
    assert trial["fingerprint"] == contract.fingerprint


@pytest.mark.parametrize("stream", ["payments", "rides", "queries"])
def test_every_figure_of_the_comparison_is_what_the_router_finds_over_arrow(demo_run: DemoRun, stream: str) -> None:
    """Again from the files, without Spark: cells, records on a new lane, keys and sub-keys on several lanes, shares."""
    case = next(case for case in demo_run.figures["cases"] if case["name"] == stream)
    day = pq.read_table(demo_run.folder / "source" / stream)
    placed = [lanes_under(demo_run, day, trial["name"]) for trial in case["trials"]]
    half_hour = (pc.hour(day["ts"]).to_numpy() * 2 + pc.minute(day["ts"]).to_numpy() // 30).astype(int)
    for trial, lanes in zip(case["trials"], placed, strict=True):
        cells = np.zeros((trial["lanes"], 48), int)
        np.add.at(cells, (lanes, half_hour), 1)
        assert trial["cells"] == cells.tolist()
        assert trial["moved"] == pytest.approx((lanes != placed[0]).mean(), abs=1e-5)
        assert trial["keys"] == on_several(day[case["key"]], lanes)
        if case["sub_key"]:
            assert trial["sub_keys"] == on_several(day[case["sub_key"]], lanes)
        assert trial["fullest_share"] == pytest.approx(cells.sum(axis=1).max() / len(day), abs=1e-5)
    for hot in case["hot_keys"]:
        rows = pc.equal(day[case["key"]], hot["key"]).to_numpy()
        assert hot["share"] == pytest.approx(rows.mean(), abs=1e-5)
        assert [hot["before"], hot["after"]] == [sorted(set(lanes[rows].tolist())) for lanes in (placed[0], placed[-1])]


def lanes_under(run: DemoRun, day: pa.Table, name: str) -> Any:
    return Router(load_contract(run.folder / "contracts" / f"{name}.yaml")).lanes(day).to_numpy()


def on_several(groups: Any, lanes: Any) -> dict[str, int]:
    """How many groups there are, and how many have records on more than one lane."""
    ranges = pa.table({"group": groups, "lane": lanes}).group_by("group").aggregate([("lane", "min_max")])
    ends = ranges["lane_min_max"].combine_chunks()
    return {"groups": len(ranges), "parted": int((ends.field("min").to_numpy() != ends.field("max").to_numpy()).sum())}


@pytest.mark.parametrize("stream", ["payments", "rides", "queries"])
def test_the_better_contract_is_better_also_where_it_learned_nothing(demo_run: DemoRun, stream: str) -> None:
    case = next(case for case in demo_run.figures["cases"] if case["name"] == stream)
    before, after = case["trials"][0], case["trials"][case["chosen"]]
    assert after["before_noon"] < 0.6 * before["before_noon"]
    assert after["after_noon"] < 0.75 * before["after_noon"]


def test_the_data_shows_the_order_that_the_contracts_promise(demo_run: DemoRun) -> None:
    for case in demo_run.figures["cases"]:
        for trial in case["trials"]:
            spread = sum(scope["keys"] for scope in trial["order"] if scope["order_scope"] != "per-key")
            assert trial["keys"]["parted"] <= spread
            assert sum(scope["keys"] for scope in trial["order"]) == trial["keys"]["groups"] == case["distinct_keys"]
    found = trials(demo_run)
    assert found["payments-spread"]["keys"]["parted"] > 0
    assert found["payments-spread"]["sub_keys"]["parted"] == found["rides-by-population"]["sub_keys"]["parted"] == 0
    assert found["rides-windowed"]["sub_keys"]["parted"] > 0.9 * found["rides-windowed"]["sub_keys"]["groups"]


def test_hot_keys_were_seen_where_the_contract_says(demo_run: DemoRun) -> None:
    for case in demo_run.figures["cases"]:
        before = load_contract(demo_run.folder / "contracts" / f"{case['trials'][0]['name']}.yaml")
        for hot in case["hot_keys"]:
            assert hot["before"] == [Router(before).lane({case["key"]: hot["key"]})]
            assert len(hot["after"]) >= 1
        assert [hot["share"] for hot in case["hot_keys"]] == sorted(
            (h["share"] for h in case["hot_keys"]), reverse=True
        )


def test_drift_is_of_all_two_hundred_thousand_merchants(demo_run: DemoRun) -> None:
    assert demo_run.figures["merchants"] == 200_000
    assert all(abs(row["keys"] - row["formula"]) < 0.0025 for row in demo_run.figures["drift"])


def test_standing_queries_have_the_shape_and_every_account_of_their_events_agrees(demo_run: DemoRun) -> None:
    found = demo_run.figures["standing"]
    by_query, by_window, partial = found["divisions"]
    assert found["events"] == found["matched"] == 3_000 == by_query["received"] == by_window["received"]
    assert partial["received"] <= by_window["received"]
    assert found["queries_with_90_percent"] <= 20, "15 are hot; so few events are a sample of them"
    assert by_window["max_over_mean"] < by_query["max_over_mean"]
    for one in found["divisions"]:
        assert np.array(one["cells"]).shape == (16, 60)
        assert np.array(one["cells"]).sum(axis=1).max() == one["fullest"]


def test_results_of_standing_queries_are_those_of_a_plain_count(demo_run: DemoRun) -> None:
    events = pq.read_table(demo_run.folder / "aggregate" / "events")
    minutes = pc.floor_temporal(events["ts"], unit="minute")
    known = pa.table({"symbol": events["symbol"], "minute": minutes, "amount": events["amount"]})
    counted = known.group_by(["symbol", "minute"]).aggregate([("amount", "count"), ("amount", "sum")]).to_pylist()
    wanted = {(row["symbol"][1:], row["minute"]): (row["amount_count"], row["amount_sum"]) for row in counted}
    results = demo_run.folder / "aggregate" / "results" / "results"
    got = {
        (row["query_id"].removeprefix("watch-"), row["window_start"]): (row["trades"], row["total"])
        for path in results.rglob("*.parquet")
        for row in pq.read_table(path, partitioning=None).to_pylist()
        if row["trades"]
    }
    assert got == wanted


def swapped(found: pa.Table) -> pa.Table:
    """The same results with two of one query in each other's place."""
    last: dict[str, int] = {}
    for at, query in enumerate(found["query_id"].to_pylist()):
        if query in last:
            order = list(range(len(found)))
            order[at], order[last[query]] = order[last[query]], order[at]
            return found.take(order)
        last[query] = at
    raise AssertionError("no query with two results")


def test_twin_results_out_of_order_are_refused(demo_run: DemoRun, tmp_path: Path) -> None:
    target = tmp_path / "results"
    shutil.copytree(demo_run.folder / "aggregate" / "results", target)
    check_order(verify_results(str(target)))
    files_of = sorted((target / "results").rglob("*.parquet"), key=lambda path: path.stat().st_size)
    pq.write_table(swapped(pq.read_table(files_of[-1], partitioning=None)), files_of[-1])
    with pytest.raises(TargetError, match="not in order"):
        check_order(verify_results(str(target)))


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="empty folder"):
        ready(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("text", ["[]", "no json", '{"schema": "other/1"}'])
def test_a_file_called_figures_does_not_make_it_a_demo(tmp_path: Path, text: str) -> None:
    (tmp_path / "figures.json").write_text(text)
    with pytest.raises(UsageError):
        ready(tmp_path)


def test_a_run_that_was_cut_off_can_be_run_again(tmp_path: Path) -> None:
    ready(tmp_path / "new")
    (tmp_path / "new" / "source").mkdir()
    ready(tmp_path / "new")


def test_an_old_page_does_not_stand_for_a_new_run(tmp_path: Path) -> None:
    ready(tmp_path)
    (tmp_path / "index.html").write_text("old")
    ready(tmp_path)
    assert not (tmp_path / "index.html").exists()


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    """In a process of its own, which sees no Java: not in the environment, not on the path, nowhere else."""
    script = "import keylane.spark.jvm as java; java.USUAL = (); from keylane.cli.main import main; main()"
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    command = [sys.executable, "-c", script, "demo", "--to", str(tmp_path / "demo")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Java 17" in done.stderr
    assert "openjdk-17-jre-headless" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "demo" / "index.html").exists()

"""`keylane match` as it is typed, on the session of the whole run: small worlds, and worlds with nothing in them."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from keylane.cli.main import _run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    Run = Callable[..., tuple[int, str, str]]

NOON = "2026-11-15T12:00:0"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["keylane", "match", *map(str, arguments)])
        code = _run()
        out, err = capsys.readouterr()
        return code, out, err

    return run


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_result_has_what_was_asked_for(run: Run, tmp_path: Path) -> None:
    drivers = lines(
        tmp_path / "drivers.jsonl",
        {"driver": 1, "at": f"{NOON}0Z", "lat": 33.45, "lng": -112.07, "free": True},
        {"driver": 2, "at": f"{NOON}1Z", "lat": 33.451, "lng": -112.07, "free": True},
        {"driver": 3, "at": f"{NOON}1Z", "lat": 33.45, "lng": -112.07, "free": False},
        {"driver": 2, "at": f"{NOON}6Z", "lat": 35.0, "lng": -112.07, "free": True},
        {"driver": None, "at": f"{NOON}1Z", "lat": 33.45, "lng": -112.07},
    )
    riders = tmp_path / "riders.csv"
    riders.write_text(f"id,ts,lat,lng\nr,{NOON}5Z,33.45,-112.07\nr,{NOON}7Z,33.45,-112.07\n")
    page, out = tmp_path / "page.html", tmp_path / "out"
    options = ["--driver-id", "driver", "--driver-time", "at", "--available", "free", "--lanes", 3]
    sides = ["--drivers", drivers, "--riders", riders]
    code, text, err = run(*sides, *options, "--radius", 500, "--to", out, "--verify", "--report", page, "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(text)
    schema = json.loads(files("keylane").joinpath("schemas", "match.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(document)
    assert (document["riders"], document["pings"], document["pairs"], document["recall"]) == (2, 4, 3, 1.0)
    assert document["dead"] == {"drivers": {"null-key": 1}, "riders": {}}
    assert document["median_m"] == 0.0
    assert document["notes"][0].startswith("no contract: a table of "), "the table of least work for the radius"
    rows = pq.read_table(out / "matches").sort_by([("rider_ts", "ascending"), ("rank", "ascending")]).to_pylist()
    assert [(row["driver_id"], row["rank"]) for row in rows] == [("1", 1), ("2", 2), ("1", 1)]
    assert rows[1]["distance_m"] == pytest.approx(111.2, abs=0.1)
    assert page.read_text().startswith("<!doctype html>")
    assert run(*sides, *options, "--radius", 500, "--to", out)[0] == 1


@pytest.mark.parametrize(
    ("drivers", "riders"),
    [
        ("nobody", "one"),
        pytest.param("one", "nobody", marks=pytest.mark.faults),
        pytest.param("nobody", "nobody", marks=pytest.mark.faults),
    ],
)
def test_where_nobody_is_nobody_is_found(run: Run, tmp_path: Path, drivers: str, riders: str) -> None:
    columns = {"id": pa.string(), "ts": pa.int64(), "lat": pa.float64(), "lng": pa.float64()}
    empty = pa.schema(list(columns.items())).empty_table()
    pq.write_table(empty, tmp_path / "nobody.parquet")
    one = pa.table({"id": ["r"], "ts": [1_763_208_000_000], "lat": [33.45], "lng": [-112.07]})
    pq.write_table(one, tmp_path / "one.parquet")
    out = tmp_path / "out"
    sides = ["--drivers", tmp_path / f"{drivers}.parquet", "--riders", tmp_path / f"{riders}.parquet", "--lanes", 2]
    code, text, err = run(*sides, "--radius", 500, "--to", out, "--verify", "--assign", "greedy", "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(text)
    assert (document["pairs"], document["recall"]) == (0, 1.0)
    assert (document["pings"], document["riders"]) == (int(drivers == "one"), int(riders == "one"))
    assert document["offers"] == {"granted": 0, "refused": 0, "mean_distance_m": None}
    assert pq.read_table(out / "matches").num_rows == 0

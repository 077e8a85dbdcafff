"""`keylane geo table` on Spark: what is counted, what is dead, and the contract that comes of it."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator
from pyarrow import parquet

from keylane import load_contract
from keylane.cli.main import _run
from keylane.geo.cells import cells_of
from keylane.pipelines.geo_table import TableWish, geo_table
from keylane.pipelines.profile import Options
from keylane.placement.cell_lanes import cell_lanes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    Run = Callable[..., tuple[int, str, str]]

RECORDS = 6_000
#: Latitude and longitude of what is no place, and the reason.
BAD: list[tuple[float | None, float | None, str]] = [
    (None, 1.0, "null-place"),
    (1.0, None, "null-place"),
    (float("nan"), 1.0, "place-not-finite"),
    (-112.1, 33.4, "place-swapped"),
    (91.0, 200.0, "place-out-of-range"),
    (0.0, 0.0, "place-zero"),
]


def pings(seed: int = 1) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    city = rng.integers(0, 3, RECORDS)
    at = np.array([(40.7, -74.0), (51.5, -0.1), (35.7, 139.7)])[city] + rng.normal(0, 0.1, (RECORDS, 2))
    hour = rng.integers(0, 24, RECORDS)
    return {
        "lat": at[:, 0].tolist(),
        "lng": at[:, 1].tolist(),
        "ts": ((hour * 3600 + 1799) * 1000 + 1_790_000_000_000 // 86_400_000 * 86_400_000).tolist(),
    }


def with_bad(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {
        "lat": [*rows["lat"], *(lat for lat, _, _ in BAD)],
        "lng": [*rows["lng"], *(lng for _, lng, _ in BAD)],
        "ts": [*rows["ts"], *[0] * len(BAD)],
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    parquet.write_table(pa.table(with_bad(pings())), tmp_path / "pings.parquet")
    return tmp_path / "pings.parquet"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["keylane", "geo", "table", *map(str, arguments)])
        code = _run()
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_every_record_is_counted_once_at_its_cell_and_hour(spark: SparkSession, source: Path) -> None:
    made = geo_table(str(source), wish=TableWish(5), options=Options(time="ts:ms"), spark=spark)
    found, rows = made.document, pings()
    lanes = cell_lanes(_parsed(made.contract), 5).of(cells_of(rows["lat"], rows["lng"]))
    assert found.records == RECORDS
    assert found.lane_loads == np.bincount(lanes, minlength=5).tolist()
    hour = np.array(rows["ts"]) // 3_600_000 % 24
    assert found.hours is not None
    for lane in range(5):
        assert found.hours[lane] == np.bincount(hour[lanes == lane], minlength=24).tolist()
    assert found.dead == {
        "null-place": 2,
        "place-not-finite": 1,
        "place-out-of-range": 1,
        "place-swapped": 1,
        "place-zero": 1,
    }


def _parsed(text: str) -> Any:
    from keylane import parse_contract

    return parse_contract(text)


def test_lines_give_the_same_table_as_columns(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    rows = with_bad(pings())
    shown = [
        ("" if lat is None else repr(lat), "" if lng is None else repr(lng))
        for lat, lng in zip(rows["lat"], rows["lng"], strict=True)
    ]
    lines = [f"{lat},{lng},{ts}" for (lat, lng), ts in zip(shown, rows["ts"], strict=True)]
    (tmp_path / "pings.csv").write_text("lat,lng,ts\n" + "\n".join([*lines, "north,5.0,0"]) + "\n")
    options = Options(time="ts:ms")
    columns, text = (
        geo_table(str(path), wish=TableWish(5), options=options, spark=spark).document
        for path in (source, tmp_path / "pings.csv")
    )
    assert text.dead == {**columns.dead, "malformed-key": 1}
    assert text.checksum == columns.checksum
    assert text.balance == columns.balance


def test_the_same_source_gives_the_same_table(spark: SparkSession, source: Path) -> None:
    first, second = (geo_table(str(source), wish=TableWish(4), spark=spark) for _ in range(2))
    assert first == second
    assert first.document.hours is None
    held = first.document.balance.held_out
    assert held is not None
    assert held.cv > 0


def test_records_without_a_time_count_in_every_hour(spark: SparkSession, tmp_path: Path) -> None:
    rows = pings()
    rows["ts"][:240] = [None] * 240
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    found = geo_table(str(tmp_path / "a.parquet"), wish=TableWish(3), options=Options(time="ts:ms"), spark=spark)
    assert np.sum(found.document.hours or []) == pytest.approx(RECORDS, abs=0.1)
    assert any("240 records" in note for note in found.document.notes)


def test_times_before_1970_have_their_hour(spark: SparkSession, tmp_path: Path) -> None:
    rows = pings()
    rows["ts"] = [-1] * RECORDS
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    found = geo_table(str(tmp_path / "a.parquet"), wish=TableWish(3), options=Options(time="ts:ms"), spark=spark)
    assert np.sum(found.document.hours or [], axis=0).tolist() == [0.0] * 23 + [float(RECORDS)]


def test_the_command_prints_a_valid_document_and_writes_what_it_says(run: Run, source: Path, tmp_path: Path) -> None:
    written, page = tmp_path / "places.yaml", tmp_path / "page.html"
    arguments = ["--time", "ts:ms", "-n", 6, "--radius", 1000, "--write", written, "--report", page]
    code, out, err = run(source, *arguments, "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    schema = json.loads(files("keylane").joinpath("schemas", "geo-table.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(document)
    contract = load_contract(written)
    assert contract.spec.geo is not None
    assert contract.spec.geo.checksum == document["checksum"]
    assert contract.spec.key.fields == ("lat", "lng")
    assert page.read_text().startswith("<!doctype html>")
    assert run(source, *arguments)[0] == 2, "files that are there are not replaced unasked"


def test_a_sticky_change_is_the_next_epoch_and_moves_little(run: Run, source: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    timed = ["--time", "ts:ms"]
    assert run(source, *timed, "-n", 6, "--name", "cabs", "--stream", "pings", "--write", old)[0] == 0
    code, out, _ = run(source, *timed, "--sticky", old, "--write", new, "-o", "json")
    assert code == 0
    document = json.loads(out)
    assert (document["epoch"], document["moved"]) == (2, {"share": 0.0, "leaves": 0})
    assert load_contract(new).metadata.name == "cabs"
    assert load_contract(new).spec.geo == load_contract(old).spec.geo
    code, out, _ = run(source, *timed, "--contract", old)
    assert code == 0
    assert "6,000 locations" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "needs a lane count"),
        (["-n", 4, "--lat", "latt"], "did you mean 'lat'?"),
        (["-n", 4, "--tau", "0"], "--tau"),
        (["-n", 4, "--tau", "inf"], "--tau"),
        (["-n", 4, "--radius", "-1"], "--radius"),
        (["-n", 4, "--most-moved", "0.1"], "--most-moved"),
    ],
    ids=["no lanes", "no column", "no share", "no number", "no radius", "nothing to move"],
)
def test_usage_that_makes_no_sense_ends_with_2(arguments: list[object], words: str, run: Run, source: Path) -> None:
    code, out, err = run(source, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_sticky_change_of_another_lane_count_is_refused(run: Run, source: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    assert run(source, "-n", 6, "--write", old)[0] == 0
    assert "keeps the lane count" in run(source, "-n", 7, "--sticky", old)[2]
    assert "changes a table by few moves" in run(source, "--strategy", "curve", "--sticky", old)[2]
    assert "--name and --stream" in run(source, "--sticky", old, "--name", "x")[2]


def test_a_source_without_a_place_is_refused(run: Run, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"lat": [0.0, 95.0], "lng": [0.0, 300.0]}), tmp_path / "a.parquet")
    code, _, err = run(tmp_path / "a.parquet", "-n", 4)
    assert code == 1
    assert "1 place-out-of-range, 1 place-zero" in err
    parquet.write_table(pa.table({"lat": ["1.0"], "lng": ["2.0"]}), tmp_path / "b.parquet")
    assert "holds no degrees" in run(tmp_path / "b.parquet", "-n", 4)[2]


def test_what_no_table_can_be_written_for_is_refused_before_anything_is_read(run: Run, tmp_path: Path) -> None:
    base = tmp_path / "users.yaml"
    head = "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: users}\nspec:\n  streams: [a]\n  lanes: 6\n"
    base.write_text(head + "  key: {fields: [user], encoding: utf8}\n  partitioner: kafka-java\n")
    unread = tmp_path / "unread.parquet"
    unread.write_bytes(b"no Parquet")
    code, _, err = run(unread, "--contract", base)
    assert code == 2
    assert "users" in err
    assert "got 'utf8'" in err
    assert "--tau" in run(unread, "-n", 4, "--tau", "nan")[2]
    assert "--radius" in run(unread, "-n", 4, "--radius", "nan")[2]


def test_the_columns_are_those_of_the_contract(run: Run, source: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    parquet.write_table(pa.table({"y": pings()["lat"], "x": pings()["lng"]}), tmp_path / "yx.parquet")
    assert run(tmp_path / "yx.parquet", "-n", 6, "--lat", "y", "--lng", "x", "--write", old)[0] == 0
    assert run(tmp_path / "yx.parquet", "--sticky", old, "--write", new)[0] == 0
    assert load_contract(new).spec.key.fields == ("y", "x")
    assert "unknown column" in run(source, "--contract", old)[2]
    assert run(source, "--contract", old, "--lat", "lat", "--lng", "lng")[0] == 0


def test_one_record_is_not_called_even(run: Run, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"lat": [40.7], "lng": [-74.0]}), tmp_path / "one.parquet")
    page = tmp_path / "page.html"
    code, out, _ = run(tmp_path / "one.parquet", "-n", 6, "--report", page)
    assert code == 0
    assert "fitted on" in out
    assert "1 location on 6 lanes" in out
    assert "too few records" in out
    assert "as fitted" in page.read_text()

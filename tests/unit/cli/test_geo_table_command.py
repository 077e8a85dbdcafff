"""`keylane geo table` on a small file, in this process: what a radius decides, limits, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from keylane import load_contract
from keylane.cli.main import _run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    rng = np.random.default_rng(3)
    at = np.array([40.75, -73.98]) + rng.normal(0, 1, (6_000, 2)) * (0.04, 0.015)
    degrees = {"lat": at[:, 0], "lng": at[:, 1]}
    parquet.write_table(pa.table(degrees), tmp_path / "rides.parquet")
    whole = {name: np.rint(column * 10_000).astype(np.int32) for name, column in degrees.items()}
    parquet.write_table(pa.table(whole), tmp_path / "whole.parquet")
    rounded = {name: column / 10_000 for name, column in whole.items()}
    parquet.write_table(pa.table(rounded), tmp_path / "rounded.parquet")
    monkeypatch.chdir(tmp_path)

    def called(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["keylane", "geo", "table", *map(str, arguments), "--engine", "local"])
        code = _run()
        return (code, *capsys.readouterr())

    return called


def test_a_radius_decides_and_the_answer_comes_first(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("rides.parquet", "-n", 8, "--radius", 1000, "--write", "a.yaml")
    assert code == 0
    assert out.startswith("6,000 locations on 8 lanes (partitions), in ")
    assert "this table (regions)" in out
    assert "8 lanes do the work of " in out
    assert "CV 1 = 100" not in out
    table = load_contract(tmp_path / "a.yaml")
    assert table.spec.geo is not None
    assert table.spec.lanes == 8


def test_without_a_radius_the_copies_for_a_kilometre_are_reported(run: Run) -> None:
    document = json.loads(run("rides.parquet", "-n", 8, "-o", "json")[1])
    assert (document["decided_by"], document["strategy"], document["radius_m"]) == ("evenness", "hours", 1000.0)
    decided = json.loads(run("rides.parquet", "-n", 8, "--radius", 1000, "-o", "json")[1])
    assert (decided["decided_by"], decided["strategy"]) == ("work", "regions")
    assert decided["balance"]["held_out"]["copies"] < document["balance"]["held_out"]["copies"]
    assert any("--radius 1000 makes a table" in note for note in document["notes"])


def test_copies_that_nobody_asked_for_are_not_shown(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("rides.parquet", "-n", 8, "--report", "a.html")
    (head,) = (line for line in out.splitlines() if line.startswith("STRATEGY"))
    assert head.split() == ["STRATEGY", "CV", "WORST", "HOUR", "CV"]
    assert "do the work of" not in out
    assert out.splitlines()[-1] == "page: a.html"
    assert "Lanes per request" not in (tmp_path / "a.html").read_text()
    _, out, _ = run("rides.parquet", "-n", 8, "--radius", 1000, "--report", "b.html")
    (head,) = (line for line in out.splitlines() if line.startswith("STRATEGY"))
    assert head.split()[1:4] == ["COPIES", "TOTAL", "WORK"], "the twin: with a radius they decide"
    assert "Lanes per request" in (tmp_path / "b.html").read_text()


def test_a_new_contract_is_of_the_stream_that_the_source_is_named_after(run: Run, tmp_path: Path) -> None:
    assert run("rides.parquet", "-n", 8, "--write", "a.yaml")[0] == 0
    assert load_contract(tmp_path / "a.yaml").spec.streams == ("rides",)
    assert run("rides.parquet", "-n", 8, "--write", "b.yaml", "--stream", "pings", "--stream", "asks")[0] == 0
    assert load_contract(tmp_path / "b.yaml").spec.streams == ("pings", "asks")


def test_both_columns_may_be_named_at_once(run: Run, tmp_path: Path) -> None:
    renamed = parquet.read_table(tmp_path / "rides.parquet").rename_columns(["north", "east"])
    parquet.write_table(renamed, tmp_path / "named.parquet")
    assert run("named.parquet", "-n", 8, "--place", "north,east", "--write", "a.yaml")[0] == 0
    assert load_contract(tmp_path / "a.yaml").spec.key.fields == ("north", "east")
    assert run("named.parquet", "-n", 8, "--place", "east", "--write", "b.yaml")[0] == 2
    code, _, err = run("named.parquet", "-n", 8, "--place", "north,east", "--lat", "north")
    assert (code, "hint: leave one of them out" in err) == (2, True)


def test_a_limit_that_is_not_kept_writes_nothing_and_ends_with_4(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("rides.parquet", "-n", 24, "--radius", 1000, "--copies", 1.5, "--write", "no.yaml")
    assert code == 4
    assert "no table of 24 lanes has at most 1.5 copies; about " in out
    assert out.rstrip().endswith("contract not written: no.yaml")
    assert not (tmp_path / "no.yaml").exists()
    assert run("rides.parquet", "-n", 24, "--radius", 1000, "--copies", 20, "--write", "yes.yaml")[0] == 0
    assert (tmp_path / "yes.yaml").exists(), "the twin: a limit that is kept"


def test_regions_without_a_radius_are_refused(run: Run) -> None:
    code, _, err = run("rides.parquet", "-n", 8, "--strategy", "regions")
    assert (code, "--radius" in err) == (2, True)


def test_a_sticky_change_keeps_to_the_radius(run: Run, tmp_path: Path) -> None:
    assert run("rides.parquet", "-n", 8, "--radius", 1000, "--write", "old.yaml")[0] == 0
    at = parquet.read_table(tmp_path / "rides.parquet")
    fewer = np.random.default_rng(2).random(len(at)) < np.where(at["lat"].to_numpy() > 40.75, 0.4, 1.0)
    parquet.write_table(at.filter(pa.array(fewer)), tmp_path / "later.parquet")
    sticky = ("later.parquet", "--sticky", "old.yaml", "-o", "json")
    by_evenness, by_work, still = (
        json.loads(run(*sticky, *more)[1])
        for more in ((), ("--radius", 1000), ("--radius", 1000, "--most-moved", "0.000001"))
    )
    assert (by_work["decided_by"], by_evenness["decided_by"]) == ("work", "evenness")
    assert 0 < by_work["moved"]["share"] <= 0.05
    assert still["moved"]["leaves"] == 0
    works = [one["balance"]["held_out"]["total_work"] for one in (by_work, by_evenness, still)]
    assert works[0] < 0.99 * min(works[1:]), "the twins: moved for evenness, and not moved at all"
    code, out, _ = run(
        "later.parquet", "--sticky", "old.yaml", "--radius", 1000, "--copies", 1.01, "--write", "no.yaml"
    )
    assert (code, (tmp_path / "no.yaml").exists()) == (4, False), out


def test_a_table_that_still_fits_is_left_as_it_is(run: Run) -> None:
    assert run("rides.parquet", "-n", 8, "--radius", 1000, "--write", "old.yaml")[0] == 0
    same = json.loads(run("rides.parquet", "--sticky", "old.yaml", "--radius", 1000, "-o", "json")[1])
    assert same["moved"] == {"share": 0.0, "leaves": 0}


def test_whole_numbers_without_a_scale_name_the_one_that_fits(run: Run) -> None:
    code, _, err = run("whole.parquet", "-n", 8)
    assert code == 1
    assert "6,000 place-out-of-range" in err
    assert re.search(r"a scale of 10000 makes it 40\.\d+, -7\d\.\d+", err)
    assert "(--scale)" in err


def test_a_scale_gives_the_table_that_degrees_give(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(
        "whole.parquet", "-n", 8, "--radius", 1000, "--scale", "1e4", "--write", "whole.yaml", "-o", "json"
    )
    assert code == 0
    plain = json.loads(run("rounded.parquet", "-n", 8, "--radius", 1000, "--write", "plain.yaml", "-o", "json")[1])
    assert {**json.loads(out), "source": ""} == {**plain, "source": ""}
    whole, degrees = (load_contract(tmp_path / name).spec for name in ("whole.yaml", "plain.yaml"))
    assert whole.geo is not None
    assert degrees.geo is not None
    assert (whole.geo.scale, degrees.geo.scale, whole.geo.leaves == degrees.geo.leaves) == (10_000.0, None, True)
    again = run("whole.parquet", "--sticky", "whole.yaml", "--write", "later.yaml")
    assert again[0] == 0, "the scale is the contract's"
    assert "    scale: 10000\n" in (tmp_path / "later.yaml").read_text()


@pytest.mark.parametrize(
    ("source", "scale", "code", "said"),
    [
        ("whole.parquet", "1e-4", 2, "hint: 10000: numbers are divided by it"),
        ("whole.parquet", "many", 2, "--scale takes a number, as 1e7"),
        ("whole.parquet", "100", 1, "a scale of 10000 makes it 40."),
        ("rides.parquet", "1e7", 1, "the numbers are degrees already: leave out the scale"),
    ],
)
def test_a_wrong_scale_says_what_is_wrong(run: Run, source: str, scale: str, code: int, said: str) -> None:
    found, _, err = run(source, "-n", 8, "--scale", scale)
    assert (found, said in err) == (code, True), err


def test_a_scale_that_contradicts_the_contract_is_refused(run: Run) -> None:
    assert run("rounded.parquet", "-n", 8, "--write", "plain.yaml")[0] == 0
    code, _, err = run("whole.parquet", "--sticky", "plain.yaml", "--scale", "1e4")
    assert code == 2
    assert "--scale contradicts the contract: got '10000'; allowed: 1" in err

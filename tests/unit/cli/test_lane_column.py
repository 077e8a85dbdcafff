"""One rule for the column of lanes: the usual names are taken alike by every command that reads lanes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

LANES = 12


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(path: Path, column: str, *, nulls: int = 0, lane: Callable[[int], object] | None = None) -> None:
    """Keys in the lanes of Java's client; each `nulls`-th row has an empty cell, in lanes by turns."""
    by_key = partitioner("kafka-java").lane
    rows = []
    for n in range(3_000):
        empty = bool(nulls) and n % nulls == 0
        key = "" if empty else f"m-{n % 400}"
        at = lane(n) if lane else n // nulls % LANES if empty else by_key(key.encode(), LANES)
        rows.append(f"{key},{at}\n")
    path.write_text(f"k,{column}\n" + "".join(rows), "utf-8")


@pytest.mark.parametrize("column", ["lane", "partition"])
def test_every_command_takes_the_usual_names(column: str, run: Run, tmp_path: Path) -> None:
    written(tmp_path / "pay.csv", column)
    code, out, _ = run("init", "pay.csv", "--key", "k")
    assert (code, "kafka-java" in out) == (0, True)
    code, out, _ = run("identify", "pay.csv", "--key", "k", "-o", "json")
    assert (code, json.loads(out)["lanes"]) == (0, LANES)
    code, out, err = run("check", "pay.yaml", "--data", "pay.csv", "-o", "json")
    assert (code, json.loads(out)["data"]["misplaced"]) == (0, 0), err
    code, out, err = run("profile", "pay.csv", "--key", "k", "-o", "json")
    assert (code, json.loads(out)["lanes"] is not None) == (0, True)
    assert f"lanes are those in column {column}" in err
    (tmp_path / "too.csv").write_bytes((tmp_path / "pay.csv").read_bytes())
    assert run("check", "pay.csv", "too.csv", "--key", "k")[0] == 0


def test_twin_a_column_of_the_name_without_whole_numbers_is_no_lane(run: Run, tmp_path: Path) -> None:
    """A partition of a data set by day is none of a topic."""
    written(tmp_path / "pay.csv", "partition", lane=lambda n: f"2014-04-{n % 28 + 1:02}")
    assert "has no column of lanes" in run("init", "pay.csv", "--key", "k")[2]
    assert "which column holds the lane is not given" in run("identify", "pay.csv", "--key", "k")[2]
    code, out, err = run("profile", "pay.csv", "--key", "k", "-o", "json")
    assert (code, json.loads(out).get("lanes")) == (0, None), err


def test_a_key_that_has_the_name_is_no_lane(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pay.csv").write_text("partition\n" + "".join(f"{n % 9}\n" for n in range(900)), "utf-8")
    code, out, err = run("profile", "pay.csv", "--key", "partition", "-o", "json")
    assert (code, json.loads(out).get("lanes")) == (0, None), err


def test_init_reads_empty_cells_in_several_lanes_as_null_and_says_so(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "nul.csv", "partition", nulls=25)
    code, out, err = run("init", "nul.csv", "--key", "k", "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert (document["identified"]["null_rows"], document["identified"]["empty_rows"]) == (120, 0)
    assert "have an empty cell in k, in several lanes" in document["notes"][0]
    assert all(" --csv-null ''" in one for one in document["next"])
    # What it proposes ends well; the twin without the option does not.
    check = ["check", "nul.yaml", "--data", "nul.csv"]
    assert run(*check, "--csv-null", "")[0] == 0
    assert run(*check)[0] == 4


def test_empty_keys_in_one_lane_stay_empty_keys(run: Run, tmp_path: Path) -> None:
    by_key = partitioner("kafka-java").lane
    rows = [
        f"{key},{by_key(key.encode(), LANES)}\n" for n in range(3_000) for key in [f"m-{n % 400}" if n % 25 else ""]
    ]
    (tmp_path / "nul.csv").write_text("k,partition\n" + "".join(rows), "utf-8")
    code, out, err = run("init", "nul.csv", "--key", "k", "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert (document["notes"], document["identified"]["empty_rows"]) == ([], 120)
    assert not any("--csv-null" in one for one in document["next"])


def test_a_usual_column_that_not_every_row_fills_does_not_end_a_profile(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "pay.csv", "lane", lane=lambda n: n % 3 if n < 2_900 else "")
    code, out, err = run("profile", "pay.csv", "--key", "k", "-o", "json")
    assert (code, json.loads(out)["lanes"]) == (0, None), err
    assert "counting again without lanes: not every record has one in column lane" in err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_whose_lane_is_null_is_counted_as_such_by_every_command(run: Run, tmp_path: Path, kind: str) -> None:
    """One rule: it is in no lane, nobody calls it misplaced, and its count is shown."""
    by_key = partitioner("kafka-java").lane
    keys = [f"key-{n % 400}" for n in range(3_000)]
    lanes = [None if n % 100 == 0 else by_key(key.encode(), LANES) for n, key in enumerate(keys)]
    data = tmp_path / f"pay.{kind}"
    if kind == "csv":
        data.write_text(
            "k,lane\n" + "".join(f"{k},{'' if at is None else at}\n" for k, at in zip(keys, lanes, strict=True))
        )
    else:
        pq.write_table(pa.table({"k": keys, "lane": pa.array(lanes, pa.int32())}), data)
    asked = (data, "--key", "k", "--lane", "lane")
    code, out, err = run("identify", *asked, "--write", tmp_path / "c.yaml", "-o", "json")
    found = json.loads(out)
    assert (code, found["rows"], found["keyed_rows"]) == (0, 3_000, 2_970), err
    assert "30 rows without a lane left out" in found["notes"]
    code, out, err = run("check", tmp_path / "c.yaml", "--data", data, "--lane", "lane", "-o", "json")
    found = json.loads(out)
    assert (code, found["data"]["misplaced"], found["data"]["laneless"]) == (0, 0, 30), err
    assert any("30 of 3,000 rows cannot be compared" in one["message"] for one in found["findings"])
    code, out, err = run("profile", *asked, "-o", "json")
    found = json.loads(out)
    assert (code, found["without_key"]["malformed"], sum(map(sum, found["lanes"]["by_window"]))) == (0, 30, 2_970), err
    assert "30 records that cannot be read, or whose lane is null, are in no lane" in run("profile", *asked)[1]


@pytest.mark.parametrize(("text", "code"), [("TESCO 4203", 1), ("1.5", 1), ("-1", 1), ("7", 0)])
def test_a_lane_column_that_was_named_and_holds_no_lanes_is_refused_with_what_it_holds(
    run: Run, tmp_path: Path, text: str, code: int
) -> None:
    """It was an error of Arrow, which called itself a bug."""
    pq.write_table(pa.table({"k": ["a", "b"], "at": ["3", text]}), tmp_path / "pay.parquet")
    found, _, err = run("profile", "pay.parquet", "--key", "k", "--lane", "at")
    assert found == code, err
    assert ("column 'at' holds no lane" in err and text in err) == bool(code)
    assert "bug" not in err

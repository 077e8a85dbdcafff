"""Hostile lines among good ones, by a seed: nothing is lost, nothing crashes, and the good ones do not suffer."""

from __future__ import annotations

import json
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.parquet as pq
import pytest
from tests.hostile_records import key_of, lines
from tests.route.killable_routes import contract

from keylane import Router
from keylane.pipelines.route import Options, route
from keylane.pipelines.verify import verify
from keylane.spark import read_lines

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEED = 20261116
Kind = Literal["json", "csv"]


def conserved(
    kind: Kind, count: int, files: int, folder: Path, spark: SparkSession, seed: int = SEED
) -> dict[str, Any]:
    """Route hostile lines and hold every line against what became of it; what was tried, for a report."""
    began, chance = time.monotonic(), Random(seed)
    source, target = folder / "source", folder / "target"
    source.mkdir()
    sent: dict[tuple[str, int], tuple[bytes, int | None]] = {}
    for n in range(files):
        name, header = f"f{n:03d}.{'jsonl' if kind == 'json' else 'csv'}", [] if kind == "json" else [b"k,n,note"]
        made = lines(kind, count // files, chance)
        (source / name).write_bytes(b"\n".join([*header, *(line for line, _ in made)]) + b"\n")
        sent |= {(name, row): line for row, line in enumerate(made, len(header))}
    found = route(contract(), str(source), str(target), options=Options(max_files=4), spark=spark)
    check_lines(sent, target)
    blank = sum(not line.strip(b" ") for line, _ in sent.values())
    counts = found.counts
    assert (counts.in_, counts.filtered) == (len(sent), blank)
    assert counts.in_ == counts.out + counts.dead + counts.filtered
    verdict = verify(str(source), str(target), contract())
    # Nothing is broken. Of letters whose reason is not in them no more can be said, and verify says so.
    assert not verdict.broken, (verdict.verdict.violations, verdict.miscounted)
    hostile = sum(good is None for _, good in sent.values())
    return {
        "seed": seed,
        "form": kind,
        "hostile": hostile,
        **counts.as_json(),
        "seconds": round(time.monotonic() - began, 1),
    }


def check_lines(sent: dict[tuple[str, int], tuple[bytes, int | None]], target: Path) -> None:
    """Every line is in one place: a good one in its lane and its order, another there or among the dead letters."""
    router, there = Router(contract()), set[tuple[str, int]]()
    for file in sorted(target.glob("stream=*/lane=*/*.parquet")):
        lane, last = int(file.parent.name.partition("=")[2]), ("", -1)
        for row in pq.ParquetFile(file).read(["k", "keylane_source"]).to_pylist():
            at = row["keylane_source"]["file"], row["keylane_source"]["row"]
            assert at not in there, f"{at} is there twice"
            assert at > last, f"{at} comes after {last}"
            there.add(at)
            last, good = at, sent[at][1]
            assert good is None or (row["k"] == key_of(good) and router.lane({"k": row["k"]}) == lane), at
    for file in sorted((target / "_dead").glob("*")):
        for letter in pq.ParquetFile(file).read().to_pylist():
            at = letter["keylane_source"]["file"], letter["keylane_source"]["row"]
            assert at not in there, f"{at} is there twice"
            there.add(at)
            assert sent[at] == (letter["original"], None), f"{at} is another line, or was good"
            assert letter["reason"]
            assert letter["message"]
    lost = [at for at, (line, _) in sent.items() if at not in there and line.strip(b" ")]
    assert not lost, f"{len(lost)} lines are lost: {lost[:5]}"


@pytest.mark.parametrize(("kind", "count"), [("json", 9_000), pytest.param("csv", 4_000, marks=pytest.mark.faults)])
def test_hostile_lines(kind: Kind, count: int, tmp_path: Path, spark: SparkSession) -> None:
    sys.stdout.write(json.dumps(conserved(kind, count, 2, tmp_path, spark)) + "\n")


@pytest.mark.faults
@pytest.mark.parametrize(("kind", "count"), [("json", 150_000), ("csv", 100_000)])
def test_many_hostile_lines(kind: Kind, count: int, tmp_path: Path, spark: SparkSession) -> None:
    sys.stdout.write(json.dumps(conserved(kind, count, 20, tmp_path, spark, seed=SEED + 1)) + "\n")


@pytest.mark.faults
def test_a_reader_that_drops_a_line_is_found_out(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: lines that are no records left out before anybody counts them."""
    numbered = read_lines._numbered

    def dropping(*given: Any, **more: Any) -> Any:
        found = numbered(*given, **more)
        return read_lines._Lines(found.frame.where("keylane_line like '{%}'"), found.rows, found.blank)

    monkeypatch.setattr(read_lines, "_numbered", dropping)
    with pytest.raises(ArithmeticError, match=r"do not add up|batch 0"):
        conserved("json", 1_000, 1, tmp_path, spark)

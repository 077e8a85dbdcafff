from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]
    DataFile = Callable[..., Path]


def listed(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


def test_a_dry_run_decides_as_the_route_would_and_writes_nothing(
    run: Run, contract_file: ContractFile, data_file: DataFile, tmp_path: Path
) -> None:
    contract, data = contract_file(), data_file("a.parquet")
    before = listed(tmp_path)
    asked = ("route", contract, "--from", data, "--to", tmp_path / "lanes", "--dry-run")
    code, out, err = run(*asked, "-o", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    lanes = [partitioner("kafka-java").lane(row["k"].encode(), 15) for row in parquet.read_table(data).to_pylist()]
    assert [one["records"] for one in found["lanes"]] == [lanes.count(lane) for lane in range(15)]
    assert (found["sampled"], found["dead"]) == (500, {})
    assert found["creates"] == [str(tmp_path / "lanes"), str(tmp_path / "lanes" / "stream=t")]
    out = run(*asked)[1]
    assert out.splitlines()[:2] == [f"dry run: nothing is written; from {data}", "  lanes below: of all records"]
    assert "would create" in out
    assert "not written again" not in out
    assert listed(tmp_path) == before


def test_records_without_a_lane_are_in_the_sample_by_reason(
    run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"k": ["a", None, None]}), tmp_path / "a.parquet")
    contract = contract_file(key={"fields": ["k"], "on_null": "reject"})
    asked = ("route", contract, "--from", tmp_path / "a.parquet", "--to", tmp_path / "lanes", "--dry-run")
    assert json.loads(run(*asked, "-o", "json")[1])["dead"] == {"null-key": 2}
    assert run("route", contract, "--from", "nowhere", "--to", tmp_path / "lanes", "--dry-run")[0] == 1


def test_a_length_of_time_is_written_as_in_every_other_option(
    run: Run, contract_file: ContractFile, data_file: DataFile, tmp_path: Path
) -> None:
    asked = ("route", contract_file(), "--from", data_file("a.parquet"), "--to", tmp_path / "lanes", "--dry-run", "-F")
    for every, code in (("500ms", 0), ("10s", 0), ("1m", 0), ("10 seconds", 0), ("10", 2), ("s", 2), ("10x", 2)):
        assert run(*asked, "--every", every)[0] == code, every

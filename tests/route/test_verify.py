"""What `route` makes is certified, of every kind of source; and damage done to it is found."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.route.killable_routes import contract, write_files

from keylane.pipelines.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def routed(source: Path, target: Path, spark: SparkSession) -> None:
    from keylane.pipelines.route import Options, route

    route(contract(), str(source), str(target), options=Options(max_files=2), spark=spark)


def test_a_routed_folder_is_certified_and_its_damage_found(tmp_path: Path, spark: SparkSession) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_files(source, range(4))
    routed(source, target, spark)
    assert verify(str(source), str(target), contract()).ok
    write_files(source, range(4, 6))
    assert verify(str(source), str(target), contract()).not_taken == ("f004.parquet", "f005.parquet")
    routed(source, target, spark)
    found = verify(str(source), str(target), contract())
    assert found.ok
    assert (found.verdict.facts["ok"], found.verdict.facts["dead"]) == (600, 12)
    file = min(target.glob("stream=*/lane=*/*.parquet"))
    shutil.copy(file, file.with_name("part-0000000099.parquet"))
    assert set(_broken(source, target)) == {"duplicated", "unsorted"}
    file.with_name("part-0000000099.parquet").rename(target / "stream=orders" / "lane=3" / "part-0000000099.parquet")
    assert {"duplicated", "split_keys", "misrouted"} <= set(_broken(source, target))
    file.unlink()
    assert "duplicated" not in _broken(source, target)
    (target / "stream=orders" / "lane=3" / "part-0000000099.parquet").unlink()
    assert set(_broken(source, target)) == {"lost", "offset_gaps"}


def _broken(source: Path, target: Path) -> dict[str, int]:
    return {rule: n for rule, n in verify(str(source), str(target), contract()).verdict.counts.items() if n}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_lines_packed_blank_and_malformed_are_accounted_for(kind: str, tmp_path: Path, spark: SparkSession) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    rows = [json.dumps({"k": f"key-{n % 5}", "n": n}) if kind == "json" else f"key-{n % 5},{n}" for n in range(50)]
    text = "\n".join([*(["k,n"] if kind == "csv" else []), *rows[:20], "", '{"k": "un', '"unended,1', *rows[20:]])
    (source / f"a.{kind}").write_text(text)
    (source / f"b.{kind}.gz").write_bytes(gzip.compress(text.encode()))
    routed(source, target, spark)
    found = verify(str(source), str(target), contract())
    assert found.ok, (found.verdict.violations, found.miscounted)
    assert found.verdict.records + found.verdict.facts["dead"] == found.verdict.facts["ok"] == 104
    assert found.verdict.facts["dead"] > 0

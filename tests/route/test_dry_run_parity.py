"""A dry run refuses what the route refuses, with the same error, and neither changes anything.

Each case is run both ways, on the same files. Into Kafka: `test_route_kafka_refused`.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import contract
from tests.route.refused_routes import REFUSALS, everything

from keylane.errors import DataError, KeylaneError, TargetError
from keylane.pipelines.dry_run import SAMPLE, dry_run
from keylane.pipelines.route import Options, route
from keylane.systems.atomic import locked, started

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.documents.route import DryRunDocument
    from keylane.systems.flow import Routed

LINES = 12_000
#: As those of `REFUSALS`: refused when the records are looked at. Of JSON more lines than a dry run decides.
BY_RECORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "a field that no record of JSON has": ("x", {"source": "json", "contract": contract(**{"[k]": "[x]"})}),
    "a column that CSV has not": ("x", {"source": "csv", "contract": contract(**{"[k]": "[x]"})}),
    "a column that Parquet has not": ("x", {"contract": contract(**{"[k]": "[x]"})}),
    "CSV with another delimiter": ("delimiter", {"source": "semicolons"}),
}
#: Both do these: the twin of a dry run that refuses too much.
TAKEN: dict[str, dict[str, Any]] = {
    "a field that only the last record has": {"source": "late", "contract": contract(**{"[k]": "[x]"})},
    "a field inside a text": {"source": "json", "contract": contract(**{"[k]": "[k.id]"})},
    "JSON by its kind": {"source": "named", "options": Options(kind="json")},
    "files without a byte": {"source": "empty.csv"},
    "an empty folder as the target": {"target": "there"},
}
#: What is taken every time.
FEW = {"a field that only the last record has", "an empty folder as the target"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("parity")
    for name in ("in", "empty", "full", "json", "csv", "semicolons", "late", "named", "there"):
        (base / name).mkdir()
    (base / "full" / "mine.txt").write_text("mine")
    (base / "file").write_text("a file")
    (base / "empty.csv").write_text("")
    pq.write_table(pa.table({"k": ["a", None, "b"]}), base / "in" / "a.parquet")
    lines = [json.dumps({"k": f"key-{n % 13}", "n": n}) for n in range(LINES)]
    (base / "json" / "a.json").write_text("\n".join(lines) + "\n")
    (base / "late" / "a.json").write_text("\n".join([*lines, '{"x": "a"}']) + "\n")
    (base / "named" / "a.txt").write_text("\n".join(lines[:50]) + "\n")
    (base / "csv" / "a.csv").write_text("k,n\na,1\nb,2\n")
    (base / "semicolons" / "a.csv").write_text("k;n\na;1\nb;2\n")
    return base


def ways(world: Path, spark: SparkSession, **said: Any) -> dict[str, Any]:
    """The dry run and the route of a case."""
    given, options = said.get("contract", contract()), said.get("options", Options())
    source, target = str(world / said.get("source", "in")), str(world / said.get("target", "out"))

    def dry() -> DryRunDocument:
        streams = replace(options.kafka, kind=options.kind, schema=options.schema)
        wanted: dict[str, Any] = {name: getattr(options, name) for name in ("lanes", "stream", "every")}
        return dry_run(given, source, target, options=streams, **wanted)

    def real() -> Routed:
        return route(given, source, target, options=options, spark=spark)

    return {"dry": dry, "real": real}


@pytest.mark.parametrize("case", [*REFUSALS, *BY_RECORDS])
def test_both_refuse(world: Path, spark: SparkSession, case: str) -> None:
    words, said = {**REFUSALS, **BY_RECORDS}[case]
    before, raised = everything(world), {}
    for name, run in ways(world, spark, **said).items():
        with pytest.raises(KeylaneError, match=words) as found:
            run()
        raised[name] = type(found.value), found.value.exit_code
        assert everything(world) == before, name
    assert raised["dry"] == raised["real"]


@pytest.mark.parametrize("case", [pytest.param(one, marks=() if one in FEW else pytest.mark.faults) for one in TAKEN])
def test_both_take(world: Path, spark: SparkSession, tmp_path: Path, case: str) -> None:
    said = {"target": str(tmp_path / "out"), **TAKEN[case]}
    before = everything(world)
    found = ways(world, spark, **said)
    looked = found["dry"]()
    assert everything(world) == before
    routed = found["real"]()
    assert routed.batches == 1
    if looked.sampled < SAMPLE:
        assert sum(one.records for one in looked.lanes) == routed.counts.out
        assert sum(looked.dead.values()) == routed.counts.dead


def test_dead_letters_are_announced(world: Path, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"k": "a"}\n{"k": null}\n{"n": 1}\nnonsense\n')
    found = ways(world, spark, source=str(tmp_path / "a.json"), target=str(tmp_path / "out"))
    looked = found["dry"]()
    assert looked.dead == {"null-key": 1, "missing-field": 1, "malformed-record": 1}
    assert looked.dead_letters == str(tmp_path / "out" / "_dead")
    routed = found["real"]()
    assert routed.counts.dead == sum(looked.dead.values())
    assert (tmp_path / "out" / "_dead").is_dir()


def test_a_route_that_fails_in_its_first_batch_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Neither the folder nor those above it; but what was there before, and what others put there, stays."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"key": ["a", "b"]}), tmp_path / "in" / "a.parquet")
    before = everything(tmp_path)
    for target in (tmp_path / "out", tmp_path / "deep" / "er" / "out"):
        with pytest.raises(DataError):
            route(contract(), str(tmp_path / "in"), str(target), spark=spark)
        assert everything(tmp_path) == before

    def leave_a_file(step: str, _batch: int) -> None:
        if step == "begun":
            (tmp_path / "out" / "theirs.txt").write_text("theirs")

    with pytest.raises(DataError):
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=spark, probe=leave_a_file)
    assert everything(tmp_path).keys() - before.keys() == {str(tmp_path / "out"), str(tmp_path / "out" / "theirs.txt")}


def test_twin_a_route_that_fails_later_keeps_what_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, column in enumerate(("k", "key")):
        pq.write_table(pa.table({column: ["a", "b"]}), tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (1_700_000_000 + number,) * 2)

    def stop(step: str, batch: int) -> None:
        if (step, batch) == ("staged", 1):
            raise TargetError.of("planted")

    with pytest.raises(KeylaneError):
        route(
            contract(),
            str(tmp_path / "in"),
            str(tmp_path / "out"),
            options=Options(max_files=1),
            spark=spark,
            say=lambda _: None,
            probe=stop,
        )
    assert len(list((tmp_path / "out" / "_keylane" / "batches").glob("*.json"))) == 1
    assert list((tmp_path / "out").glob("stream=*/lane=*/*.parquet"))


def test_a_target_that_is_being_written_to(world: Path, spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "out"
    found = ways(world, spark, target=str(target))
    found["real"]()
    held = target / "_keylane" / "lock"
    with locked(held), pytest.raises(TargetError, match=f"process {os.getpid()}"):
        found["dry"]()
    assert found["dry"]().sampled == 3
    # The note of a process that was killed, whose number another one has now.
    held.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "started": "1"}))
    assert started(os.getpid()) != "1"
    assert found["dry"]().sampled == 3

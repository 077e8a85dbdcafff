"""`keylane route` and `keylane compact` without Spark: what is refused before it starts, and what is printed after."""

from __future__ import annotations

import json
import signal
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator
from pyarrow import parquet

from keylane.cli.output import as_json, render
from keylane.cli.route import Stopping, as_result
from keylane.contract.parse import load_contract
from keylane.pipelines.route import Routed
from keylane.spark import context as sessions
from keylane.systems.folders.folder import Counts, Head, Manifest, Placed, lane_file, open_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]


def valid(command: str, document: Mapping[str, Any]) -> bool:
    schema = json.loads(files("keylane").joinpath("schemas", f"{command}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return bool(Draft202012Validator(schema).is_valid(document))


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refusal here has to come before Spark."""

    def started(*_: object) -> None:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(sessions, "existing_session", started)
    monkeypatch.setattr(sessions, "local_session", started)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    parquet.write_table(pa.table({"k": ["a"]}), tmp_path / "in" / "a.parquet")
    return tmp_path / "in"


def test_a_right_call_does_ask_for_spark(run: Run, contract_file: ContractFile, source: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Spark was asked for"):
        run("route", contract_file(), "--from", source, "--to", tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--conf", "spark.executor.memory"], "--conf takes spark.NAME=VALUE"),
        (["--conf", "executor.memory=1g"], "--conf takes spark.NAME=VALUE"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_makes_no_sense_is_usage(
    run: Run, contract_file: ContractFile, source: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    code, out, err = run("route", contract_file(), "--from", source, "--to", tmp_path / "out", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert not (tmp_path / "out").exists()


def test_source_and_target(run: Run, contract_file: ContractFile, source: Path, tmp_path: Path, bare: str) -> None:
    contract = contract_file()
    for target in (source, source / "out", source.parent):
        code, _, err = run("route", contract, "--from", source, "--to", target)
        assert (code, "within each other" in err) == (2, True)
    (tmp_path / "link").symlink_to(source)
    code, _, err = run("route", contract, "--from", source, "--to", tmp_path / "link" / "out")
    assert (code, "within each other" in err) == (2, True), "a link does not hide it"
    code, _, err = run("route", contract, "--from", tmp_path / "nowhere", "--to", tmp_path / "out")
    assert (code, "no such source" in err) == (1, True)
    code, _, err = run("route", contract, "--from", bare, "--to", tmp_path / "out")
    assert (code, "nothing was contacted" in err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_what_is_no_contract(run: Run, source: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("spec: {lanes: 0}\n")
    code, out, err = run("route", tmp_path / "bad.yaml", "--from", source, "--to", tmp_path / "out")
    assert (code, out) == (2, "")
    assert "spec.lanes" in err
    assert run("route", tmp_path / "none.yaml", "--from", source, "--to", tmp_path / "out")[0] in {1, 2}


def test_a_contract_that_asks_the_cluster_needs_a_count(
    run: Run, contract_file: ContractFile, source: Path, tmp_path: Path
) -> None:
    live = contract_file(lanes="live")
    code, _, err = run("route", live, "--from", source, "--to", tmp_path / "out")
    assert (code, "--lanes N" in err) == (2, True)
    with pytest.raises(AssertionError, match="Spark was asked for"):
        run("route", live, "--from", source, "--to", tmp_path / "out", "--lanes", 4)


def test_contract_source_and_target_are_needed(run: Run) -> None:
    assert run("route")[0] == 2
    assert "--from" in run("route", "c.yaml", "--to", "x")[2]


@pytest.fixture
def routed() -> Routed:
    """A run of ten records into a target that had two already."""
    return Routed("/in", "/out", Counts(10, 7, 2, 1), Counts(12, 9, 2, 1), {"t": [3, 4], "vip": [0]}, 2, stopped=False)


def test_the_document(contract_file: ContractFile, routed: Routed) -> None:
    result = as_result(routed, load_contract(contract_file()), 1.2345, follow=False)
    document = as_json(result.document)
    assert valid("route", document)
    assert (document["in"], document["total"]["in"], result.exit_code) == (10, 12, 0)
    assert document["lanes"][-1] == {"stream": "vip", "lane": 0, "records": 0}
    assert result.answer == [
        "in 10, out 7, dead 2, filtered 1 in 2 batches, 1.2 s",
        "all runs: in 12, out 9, dead 2, filtered 1",
        "dead letters: /out/_dead",
    ]


def test_the_answer_is_printed_before_the_lanes(contract_file: ContractFile, routed: Routed) -> None:
    result = as_result(routed, load_contract(contract_file()), 1.2345, follow=False)
    first, *rest = render(result, "table").splitlines()
    assert first.startswith("in 10, out 7")
    assert any(line.startswith("STREAM") for line in rest)


@pytest.mark.parametrize(("follow", "code"), [(False, 130), (True, 0)])
def test_a_stop_is_an_interruption_unless_it_is_how_it_ends(
    contract_file: ContractFile, routed: Routed, follow: bool, code: int
) -> None:
    from dataclasses import replace

    stopped = replace(routed, stopped=True)
    assert as_result(stopped, load_contract(contract_file()), 1.0, follow=follow).exit_code == code


@pytest.mark.parametrize(
    "change",
    [
        {"in": -1},
        {"in": None},
        {"out": "7"},
        {"lanes": []},
        {"lanes": [{"stream": "t", "lane": 0}]},
        {"lanes": [{"stream": "t", "lane": -1, "records": 1}]},
        {"fingerprint": "abc"},
        {"stopped": 0},
        {"total": {"in": 1, "out": 1, "dead": 0}},
        {"schema": "keylane.route/2"},
        {"extra": 1},
    ],
    ids=str,
)
def test_a_document_with_other_values_is_not_valid(
    contract_file: ContractFile, routed: Routed, change: dict[str, Any]
) -> None:
    document = as_json(as_result(routed, load_contract(contract_file()), 1.0, follow=False).document)
    assert not valid("route", {**document, **change})
    for name in document:
        assert not valid("route", {key: value for key, value in document.items() if key != name})


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Two files in one lane."""
    head = Head("orders", 1, "f" * 64, {"orders": 1}, "/in", "parquet", "*")
    with open_target(tmp_path / "out", head) as held:
        for batch in range(2):
            staging = held.staging(batch)
            parquet.write_table(pa.table({"k": ["a"], "keylane_offset": [batch]}), staging / "0")
            placed = (Placed("0", lane_file("orders", 0, batch), 1),)
            counts, next_ = Counts(1, 1, 0, 0), {"orders": [batch + 1]}
            held.commit(Manifest(batch, "q", "f" * 64, staging.name, counts, counts, next_, 0, placed, (), 0, 0, 0, ""))
    return tmp_path / "out"


def test_what_compact_prints_is_valid(run: Run, target: Path) -> None:
    code, out, err = run("compact", target, "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert valid("compact", document)
    assert document["lanes"] == [{"folder": "stream=orders/lane=0", "files_before": 2, "files_after": 1, "records": 2}]
    assert not valid("compact", {**document, "lanes": [{**document["lanes"][0], "folder": "lane=0"}]})
    assert not valid("compact", {**document, "files_before": -1})
    assert not valid("compact", {**document, "extra": 1})
    again = json.loads(run("compact", target, "-o", "json")[1])
    assert valid("compact", again)
    assert again["lanes"] == []


def test_what_compact_refuses(run: Run, tmp_path: Path, target: Path) -> None:
    assert run("compact", tmp_path / "nowhere")[0] == 1
    for size in ("much", "0", "-1m"):
        assert run("compact", target, "--size", size)[0] == 2
    assert run("compact", "kafka://h:1/t")[0] == 2
    assert run("compact")[0] == 2


@pytest.mark.parametrize("command", ["route", "compact"])
def test_a_schema_is_closed(command: str) -> None:
    schema = json.loads(files("keylane").joinpath("schemas", f"{command}.json").read_text("utf-8"))
    objects = [schema, *schema["$defs"].values()]
    assert len(objects) == {"route": 3, "compact": 2}[command]
    assert all(one["additionalProperties"] is False for one in objects)
    assert all(set(one["required"]) == set(one["properties"]) for one in objects)


def test_a_signal_asks_and_a_second_one_ends(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopping = Stopping()
    stopping.listen()
    signal.raise_signal(signal.SIGTERM)
    assert stopping.asked.is_set()
    assert "ending after this batch" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before, "the next one is not ours any more"
    stopping.restore()


def test_spark_is_not_loaded_for_a_contract_that_is_none(process: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("spec: {lanes: 0}\n")
    code, _, err = process("route", tmp_path / "bad.yaml", "--from", "x", "--to", "y", PYTHONPROFILEIMPORTTIME="1")
    assert code == 2
    assert "keylane.contract" in err
    assert " pyspark" not in err


def test_what_compact_takes_is_what_route_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        code, out, err = run("compact", tmp_path / folder)
        assert (code, out) == (1, "")
        assert f"got '{tmp_path / folder}'; allowed: a folder that keylane route made" in err
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]

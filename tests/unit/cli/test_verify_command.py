"""`keylane verify`: what it prints and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.history.written_targets import make, payments

from keylane import parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]


@pytest.fixture
def streams(contract_file: ContractFile, tmp_path: Path) -> list[Any]:
    """The options for a right target, contract included."""
    file = contract_file(key={"fields": ["k"], "on_null": "reject"}, lanes=4)
    source, target = make(tmp_path, parse_contract(file.read_text()), payments())
    return ["--source", source, "--target", target, "--contract", file]


def test_a_certificate(run: Run, streams: list[Any]) -> None:
    code, out, err = run("verify", *streams)
    assert (code, err) == (0, "")
    assert "misrouted                 0  yes" in out
    assert "1,200 records sent, 1,170" in out
    assert "contents: 1,200 compared; digests took 0.0" in out
    assert out.splitlines()[0] == "certified, exactly-once"
    assert "two_owners" not in out


def test_less_than_everything_is_not_proven(run: Run, streams: list[Any]) -> None:
    code, out, _ = run("verify", *streams, "--no-values")
    assert code == 4
    assert "changed                   0  no" in out
    assert "not proven: changed, not on 1,200 records: contents were not compared" in out
    assert out.splitlines()[0] == "not proven, exactly-once: changed; nothing was found wrong"
    code, out, _ = run("verify", *streams[:4], "-o", "json")
    document = json.loads(out)
    assert (code, document["ok"], document["verdict"]) == (4, False, "not proven")
    assert [(one["rule"], one["hint"]) for one in document["unproven"]] == [
        ("split_keys", "give --contract"),
        ("misrouted", "give --contract"),
    ]


def test_violations_with_their_positions(run: Run, streams: list[Any]) -> None:
    next(streams[3].glob("stream=t/lane=2/*")).unlink()
    code, out, _ = run("verify", *streams, "--keep", 2)
    assert code == 4
    assert out.count("\nlost  -") == 2
    assert "acknowledged" in out
    assert "broken: lost" in out
    code, out, _ = run("verify", *streams, "-o", "json")
    document = json.loads(out)
    assert (code, document["ok"]) == (4, False)
    assert document["lost"] > len(document["violations"]) == 10
    assert document["violations"][0]["source"].endswith(".parquet")
    code, out, _ = run("verify", *streams, "-o", "jsonl")
    assert json.loads(out.splitlines()[0])["rule"] == "lost"


def test_another_contract_is_refused(run: Run, streams: list[Any], contract_file: ContractFile) -> None:
    other = contract_file("other.yaml", lanes=5)
    code, out, err = run("verify", *streams[:4], "--contract", other)
    assert (code, out) == (2, "")
    assert "made under another contract" in err


def test_what_is_not_there_is_an_error_and_no_verdict(run: Run, streams: list[Any], tmp_path: Path) -> None:
    code, _, err = run("verify", "--source", streams[1], "--target", tmp_path / "none")
    assert code == 1
    assert "verified" in err


def test_keys_of_violations_are_masked_unless_they_are_asked_for(run: Run, streams: list[Any]) -> None:
    whole = {key for table in payments() for key in table["k"].to_pylist()}
    next(streams[3].glob("stream=t/lane=2/*")).unlink()
    masked, shown = (
        {one["key"] for one in json.loads(run("verify", *streams, *more, "-o", "json")[1])["violations"]}
        for more in ([], ["--show-keys"])
    )
    assert all("…" in str(key) for key in masked)
    assert shown <= whole

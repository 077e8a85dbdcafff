"""`keylane profile` as it is typed, on the session of the whole run."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator
from tests.spark.profile_sources import records, write

from keylane.cli.main import _run
from keylane.systems.profiles import read_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        verb = () if arguments[0] == "plan" else ("profile",)
        monkeypatch.setattr(sys, "argv", ["keylane", *verb, *map(str, arguments)])
        code = _run()
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_document_is_valid_and_the_profile_is_kept(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", records())
    out = tmp_path / "a.profile"
    code, text, err = run(tmp_path / "a.parquet", "-k", "k", "-t", "at", "--bytes", "size", "--out", out, "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(text)
    schema = json.loads(files("keylane").joinpath("schemas", "profile.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(document)
    assert document["profile"] == str(out)
    assert read_profile(out).fingerprint == document["fingerprint"]
    assert document["records"] == 300
    assert "key-" not in text
    assert run(tmp_path / "a.parquet", "-k", "k", "--out", out)[0] == 2
    assert run(tmp_path / "a.parquet", "-k", "k", "--out", out, "--force")[0] == 0


def test_a_reader_is_told_who_is_heavy_and_what_to_mind(run: Run, tmp_path: Path) -> None:
    rows = [{**row, "k": "ACME" if n < 9 else "Acme" if n < 15 else None} for n, row in enumerate(records(40))]
    write(tmp_path / "a.csv", [*rows, {**rows[0], "at": "soon"}])
    code, text, err = run(tmp_path / "a.csv", "--key", "k", "--time", "at", "--windows", 4, "--show-keys")
    assert code == 0
    assert err.startswith("note: 25 of 41 rows have an empty cell in k")
    assert err.endswith("--csv-null ''\n")
    assert re.search(r"^ *1 +ACME +10 +24\.4%", text, re.MULTILINE)
    assert "41 records of 2 keys" in text
    assert "without a key: 25 empty" in text
    assert "6 records under the rarer spelling: ACME = Acme" in text
    assert "1 record has no readable time" in text
    assert "not saved" in text
    assert re.search(r"^3 to 4  2026-03-", text, re.MULTILINE), "windows without records are one row"


def test_sketches_state_their_error(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", records())
    code, text, _ = run(tmp_path / "a.jsonl", "-k", "k", "--approximate", "-w", 3)
    assert code == 0
    assert "300 records of about 9 keys" in text
    assert "too high by at most 0" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-k", "k", "--for", "soon"], "--for"),
        (["-k", "k", "--for", "10m"], "--for"),
        (["-k", "k", "-e", "latin1"], "--encoding"),
        (["-k", "k", "-k", "n", "-e", "utf8", "-e", "utf8", "-e", "raw"], "encoding"),
        (["-k", "kk"], "did you mean 'k'?"),
        (["-k", "k", "--conf", "x=1"], "--conf takes spark.NAME=VALUE"),
        ([], "--key COLUMN"),
    ],
    ids=["no time", "files do not speak", "no encoding", "too many encodings", "no column", "no setting", "no key"],
)
def test_usage_that_makes_no_sense_ends_with_2(arguments: list[str], words: str, run: Run, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", records(5))
    code, out, err = run(tmp_path / "a.parquet", *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_plan_of_a_folder_that_is_no_profile_reads_it_as_data(run: Run, tmp_path: Path) -> None:
    code, _, err = run("plan", tmp_path / "nothing", "--key", "k", "--lanes", 8)
    assert code != 0
    assert "nothing" in err

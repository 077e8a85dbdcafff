"""Every command that reads files takes them alike: compressed, with another delimiter, with a word for null, as pandas
writes Parquet, and with a line that is no record. A table of commands and inputs, without Spark.

`route` and `verify` on Parquet of pandas: `tests/route/test_nanoseconds.py`.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

RECORDS, KEYS, NULLS = 600, 97, 12
CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: t}
spec: {streams: [t], lanes: 6, key: {fields: [k], encoding: utf8}, partitioner: kafka-java}
"""
#: 2026-11-16T09:30:00Z, in nanoseconds.
BEGIN = 1_794_821_400_000_000_000


def rows() -> list[tuple[str, int, int]]:
    """Key, lane and time: each in the lane that the contract gives it."""
    keys = [f"key-{n % KEYS}" for n in range(RECORDS)]
    by = partitioner("kafka-java")
    return [(key, by.lane(key.encode(), 6) or 0, BEGIN + n * 1_000_000_000) for n, key in enumerate(keys)]


def parquet_of_pandas(path: Path) -> None:
    keys, lanes, at = zip(*rows(), strict=True)
    columns = {"k": keys, "p": pa.array(lanes, pa.int32()), "at": pa.array([*at], pa.timestamp("ns"))}
    pq.write_table(pa.table(columns), path)


def json_lines() -> list[str]:
    return [json.dumps({"k": key, "p": lane, "at": at // 10**9}) for key, lane, at in rows()]


def cells(delimiter: str = ",", null: str = "") -> str:
    lines = [[key, str(lane), str(at // 10**9)] for key, lane, at in rows()]
    for line in lines[: NULLS if null else 0]:
        line[0] = null
    return "\n".join(delimiter.join(line) for line in [["k", "p", "at"], *lines]) + "\n"


#: File -> how it is written, and the options that it needs.
INPUTS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "pandas.parquet": (parquet_of_pandas, []),
    "packed.jsonl.gz": (lambda path: path.write_bytes(gzip.compress("\n".join(json_lines()).encode())), []),
    "packed.csv.gz": (lambda path: path.write_bytes(gzip.compress(cells().encode())), []),
    "semicolons.csv": (lambda path: path.write_text(cells(";")), ["--delimiter", ";"]),
    "nulls.csv": (lambda path: path.write_text(cells(null="NULL")), ["--csv-null", "NULL"]),
    "broken.jsonl": (lambda path: path.write_text("\n".join([*json_lines(), '{"k": broken'])), []),
}
#: Command -> its arguments but for the file's options; `{}` is the file.
COMMANDS: dict[str, list[str]] = {
    "identify": ["identify", "{}", "--key", "k", "--lane", "p"],
    "init": ["init", "{}", "--key", "k", "--lane", "p", "--out", "new.yaml"],
    "check": ["check", "c.yaml", "--data", "{}", "--lane", "p"],
    "profile": ["profile", "{}", "--key", "k", "--lane", "p", "--time", "at", "--engine", "local"],
    "plan": ["plan", "{}", "--key", "k", "--time", "at", "--lanes", "6", "--engine", "local"],
    "route --dry-run": ["route", "c.yaml", "--from", "{}", "--to", "out", "--dry-run"],
}


def records_of(command: str, found: dict[str, Any]) -> int:
    """The records with a key that a command has counted."""
    if command == "route --dry-run":
        return sum(lane["records"] for lane in found["lanes"])
    if command in {"identify", "init"}:
        return int(found.get("identified", found)["keyed_rows"])
    if command == "check":
        return int(found["data"]["rows"])
    counted = found["profile"] if command == "plan" else found
    return int(counted["records"] - sum(counted["without_key"][name] for name in ("null", "empty", "malformed")))


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_every_input(
    command: str, name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, given = INPUTS[name]
    make(tmp_path / name)
    (tmp_path / "c.yaml").write_text(CONTRACT)
    arguments = [name if one == "{}" else one for one in COMMANDS[command]]
    code, out, err = run(*arguments, *given, "-o", "json")
    assert code == 0, err
    expected = RECORDS - (NULLS if name == "nulls.csv" else 0)
    if command in {"check", "route --dry-run"}:
        expected = RECORDS  # a null key is looked at too
    assert records_of(command, json.loads(out)) == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_without_its_options_is_not_taken_for_what_it_is(
    command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same table with the options left out has to fail, or the options of a command do nothing."""
    monkeypatch.setitem(INPUTS, "semicolons.csv", (INPUTS["semicolons.csv"][0], []))
    with pytest.raises(AssertionError):
        test_every_command_takes_every_input(command, "semicolons.csv", run, tmp_path, monkeypatch)


def test_keys_from_a_file_of_records_say_what_to_do(run: Run, tmp_path: Path) -> None:
    parquet_of_pandas(tmp_path / "data.parquet")
    code, _, err = run("explain", "--keys-from", tmp_path / "data.parquet", "--lanes", 6)
    assert code == 1
    assert "data.parquet is not a text of keys: got 'byte 0x" in err
    assert "one key a line, in UTF-8; hint: the keys of a data file: keylane profile" in err

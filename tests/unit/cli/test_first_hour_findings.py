"""What a first user stumbled over: each finding, as the command answers it now."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane import partitioner
from keylane.measure.placed import LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]

LANES = 12
START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYLANE_MASKS", str(tmp_path / "masks"))
    monkeypatch.chdir(tmp_path)


def of_two_writers(path: Path) -> None:
    """Records of Java's client, and about a ninth of librdkafka's."""
    java, other = (partitioner(name).lane for name in ("kafka-java", "librdkafka-consistent-random"))
    keys = [f"merchant-{n * n % 977:04}" for n in range(30_000)]
    lanes = [(other if n % 9 == 4 else java)(key.encode(), LANES) for n, key in enumerate(keys)]
    pq.write_table(pa.table({"k": keys, "lane": pa.array(lanes, pa.int32())}), path)


def test_identify_and_profile_give_one_figure_for_the_shares_of_two_writers(run: Run, tmp_path: Path) -> None:
    of_two_writers(tmp_path / "a.parquet")
    asked = ("a.parquet", "--key", "k", "--lane", "lane", "-o", "json")
    there = {one["partitioner"]: one["share"] for one in json.loads(run("identify", *asked)[1])["writers"]}
    here = {one["partitioner"]: one["share"] for one in json.loads(run("profile", *asked)[1])["writers"]["found"]}
    assert here == pytest.approx(there, abs=1e-6)
    assert len(here) == 2


def test_raw_keys_have_a_reason_a_price_and_a_way_out(run: Run, tmp_path: Path) -> None:
    keys = [b"\xff\xfe" if n % 500 == 0 else f"merchant-{n % 977}".encode() for n in range(5_000)]
    lanes = [partitioner("kafka-java").lane(key, LANES) for key in keys]
    pq.write_table(pa.table({"k": pa.array(keys, pa.binary()), "lane": pa.array(lanes, pa.int32())}), "a.parquet")
    code, out, err = run("init", "a.parquet", "--key", "k", "--lane", "lane")
    assert code == 0, err
    assert "encoding: raw, because 10 of 5,000 keys are no UTF-8 text" in out
    assert "plan can name no raw key" in out
    assert "write encoding: utf8 into the contract" in out
    assert "# encoding: raw, because 10 of 5,000" in (tmp_path / "a.yaml").read_text()


def test_a_plan_for_fewer_keys_than_lanes_says_how_many_stay_empty(
    run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"k": [f"base-{n % 5}" for n in range(2_000)]}), "five.parquet")
    pq.write_table(pa.table({"k": [f"base-{n % 50}" for n in range(2_000)]}), "fifty.parquet")
    contract = contract_file(lanes=12)
    out = run("plan", "five.parquet", "--contract", contract)[1]
    assert "At least 7 of 12 lanes stay empty whatever is planned: there are 5 keys, each on one lane." in out
    assert "stay empty" not in run("plan", "fifty.parquet", "--contract", contract)[1]


@pytest.mark.parametrize(
    "command",
    [
        "profile a.parquet --key nope",
        "profile a.parquet --key k --time nope",
        "plan a.parquet --key nope --lanes 4",
        "identify a.parquet --key nope --lane lane",
        "identify a.parquet --key k --lane nope",
        "init a.parquet --key nope --lane lane",
        "check nope.yaml --data a.parquet",
        "route nope.yaml --from a.parquet --to lanes --dry-run",
        "geo table a.parquet --lat nope --lng k --lanes 4",
    ],
)
def test_an_unknown_column_is_a_wrong_usage_everywhere_and_named_once(
    command: str, run: Run, contract_file: ContractFile
) -> None:
    of = pa.table({"k": ["a", "b"], "lane": pa.array([0, 1], pa.int32())})
    pq.write_table(of, "a.parquet")
    contract_file("nope.yaml", key={"fields": ["nope"]})
    code, out, err = run(*command.split())
    assert (code, out) == (2, ""), err
    assert err.count("'nope'") == 1, err
    assert "k, lane" in err, err


def test_an_empty_file_of_keys_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("")
    for more in ((), ("--null",)):
        code, out, err = run("explain", "--keys-from", "keys.txt", "--lanes", 12, *more)
        assert (code, out) == (1, "")
        assert "keys.txt has no keys" in err


def test_some_seconds_of_data_are_not_listed_in_windows_and_pauses_are_one_row(run: Run) -> None:
    short = [START + timedelta(milliseconds=n) for n in range(5_000)]
    long = [START + timedelta(hours=n % 2 * 23, seconds=n) for n in range(2_000)]
    for name, times in (("short", short), ("long", long)):
        pq.write_table(pa.table({"k": [f"key-{n % 9}" for n in range(len(times))], "at": times}), f"{name}.parquet")
    out = run("profile", "short.parquet", "--key", "k", "--time", "at")[1]
    assert "windows, by time" not in out
    assert "24 windows of 5.0 s in all are not listed; -o json and --report have them" in out
    out = run("profile", "long.parquet", "--key", "k", "--time", "at")[1]
    assert "windows, by time" in out
    rows = [line for line in out.splitlines() if line.lstrip()[:2] in ("2 ", "3 ")]
    assert len(rows) < 4, out
    assert " to 2" in out, "windows without records are one row"


def test_a_key_of_thirty_megabytes_does_not_hold_up_who_wrote_the_rest(run: Run) -> None:
    """Hashing it under every rule took ten minutes: such a row is counted, and compared with none."""
    keys = [f"merchant-{n % 977}" for n in range(3_000)]
    lanes = [partitioner("kafka-java").lane(key.encode(), LANES) for key in keys]
    table = pa.table({"k": [*keys, "x" * 30_000_000, "y" * LONGEST], "lane": pa.array([*lanes, 0, 1], pa.int32())})
    pq.write_table(table, "a.parquet")
    code, out, err = run("identify", "a.parquet", "--key", "k", "--lane", "lane", "-n", LANES, "-o", "json")
    found = json.loads(out)
    assert (code, found["verdict"], found["long_rows"], found["keyed_rows"]) == (0, "one-writer", 1, 3_001), err
    assert "1 row left out: a key above 64.0 KiB is not compared with every rule" in found["notes"]
    assert "key too long" in run("identify", "a.parquet", "--key", "k", "--lane", "lane", "-n", LANES)[1]

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    DataFile = Callable[..., Path]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
def test_the_writer_of_a_file_is_named(name: str, run: Run, data_file: DataFile) -> None:
    code, out, err = run("identify", data_file(name), "--key", "k", "--lane", "lane", "-o", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["verdict"], found["lanes"], found["lanes_from"]) == ("one-writer", 15, "proven")
    assert [(writer["partitioner"], writer["share"]) for writer in found["writers"]] == [("kafka-java", 1.0)]
    assert (found["rows"], found["keyed_rows"], found["distinct_keys"]) == (500, 500, 500)


def test_a_table_begins_with_the_answer(run: Run, data_file: DataFile) -> None:
    code, out, err = run("identify", data_file("a.parquet"), "-k", "k", "-l", "lane", "-n", 15)
    assert (code, err) == (0, "")
    answer, _, head, row, *rest = out.splitlines()
    assert head.split() == ["WRITER", "SHARE", "ENCODING", "FITTING", "KEYS", "CHANCE", "ALSO"]
    assert row.split()[:3] == ["kafka-java", "100%", "utf8"]
    assert "kafka-java (500 keyed rows" in answer
    assert [line.split() for line in rest if "key " in line] == [
        ["with", "a", "key", "500", "100%"],
        ["null", "key", "0", "0%"],
        ["empty", "key", "0", "0%"],
    ]


def test_json_lines_are_one_writer_each(run: Run, data_file: DataFile) -> None:
    _, out, _ = run("identify", data_file("a.parquet"), "-k", "k", "-l", "lane", "-o", "jsonl")
    assert [json.loads(line)["partitioner"] for line in out.splitlines()] == ["kafka-java"]


def test_csv_cells_are_text_and_not_pythons_lists(run: Run, data_file: DataFile) -> None:
    _, out, _ = run("identify", data_file("a.parquet"), "-k", "k", "-l", "lane", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["writer"], row["share"], row["encoding"]) == ("kafka-java", "1.0", "utf8")
    assert "librdkafka-murmur2" in row["also"]
    assert "[" not in row["also"]


def test_two_writers_in_a_folder_are_a_mixture(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    data_file("both/a.parquet")
    data_file("both/b.parquet", "librdkafka-consistent-random")
    code, out, _ = run("identify", tmp_path / "both", "-k", "k", "-l", "lane", "-n", 15)
    assert code == 0
    assert out.startswith("mixed writers: ")
    assert "  librdkafka: set partitioner=murmur2_random" in out
    found = json.loads(run("identify", tmp_path / "both", "-k", "k", "-l", "lane", "-n", 15, "-o", "json")[1])
    assert {w["partitioner"] for w in found["writers"]} == {"kafka-java", "librdkafka-consistent-random"}
    assert [w["share"] for w in found["writers"]] == pytest.approx([0.5, 0.5], abs=0.05)


def test_too_few_keys_are_an_answer_and_no_failure(run: Run, data_file: DataFile) -> None:
    few = data_file("a.parquet", keys=3)
    code, out, _ = run("identify", few, "-k", "k", "-l", "lane", "-n", 15)
    assert code == 0
    assert "(3 keyed rows on 15 lanes)" in out
    assert "3 distinct" in out
    assert run("identify", few, "-k", "k", "-l", "lane", "-n", 15, "-o", "jsonl")[1].strip() == ""


def test_lanes_come_from_the_names_of_folders(run: Run, tmp_path: Path, data_file: DataFile) -> None:
    rows = parquet.read_table(data_file("a.parquet")).to_pylist()
    for lane in range(15):
        folder = tmp_path / "stream" / f"lane={lane}"
        folder.mkdir(parents=True)
        keys = [row["k"] for row in rows if row["lane"] == lane]
        parquet.write_table(pa.table({"k": keys}), folder / "a.parquet")
    code, out, _ = run("identify", tmp_path / "stream", "-k", "k", "-l", "lane", "-o", "json")
    assert code == 0
    assert json.loads(out)["writers"][0]["partitioner"] == "kafka-java"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["DATA", "-l", "lane"], 2, "which column holds the key is not given", id="no key column"),
        pytest.param(["DATA", "-k", "k", "-l", "k"], 1, "column 'k' holds no lanes", id="lanes that are none"),
        pytest.param(["DATA", "-k", "k", "-l", "lane", "-n", 5], 2, "beyond the lane count", id="count"),
    ],
)
def test_what_cannot_be_answered_is_reported_on_stderr(
    arguments: list[object], code: int, message: str, run: Run, data_file: DataFile
) -> None:
    data = data_file("a.parquet")
    got, out, err = run("identify", *(data if part == "DATA" else part for part in arguments))
    assert (got, out) == (code, "")
    assert message in err


@pytest.mark.parametrize(
    "column",
    [pa.array([1.5, 2.5]), pa.array([True, False]), pa.array([[1], [2]]), pa.nulls(2)],
    ids=["float", "bool", "list", "nothing"],
)
def test_a_key_column_that_holds_no_keys_is_no_traceback(column: pa.Array, run: Run, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"k": column, "lane": [0, 1]}), tmp_path / "a.parquet")
    code, _, err = run("identify", tmp_path / "a.parquet", "-k", "k", "-l", "lane")
    assert code in (0, 1)
    assert "Traceback" not in err


def test_null_and_empty_keys_are_counted_in_the_table(run: Run, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"k": ["a", None, None, ""], "lane": [0, 1, 1, 2]}), tmp_path / "a.parquet")
    _, out, _ = run("identify", tmp_path / "a.parquet", "-k", "k", "-l", "lane")
    assert ["null", "key", "2", "50.0%"] in [line.split() for line in out.splitlines()]
    assert ["empty", "key", "1", "25.0%"] in [line.split() for line in out.splitlines()]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Two writers, the second from the 1,001st row on, with times."""
    keys = [f"key-{n}" for n in range(2_000)]
    java, crc = partitioner("kafka-java"), partitioner("librdkafka-consistent-random")
    lanes = [(crc if n > 1_000 and n % 2 else java).lane(key.encode(), 15) for n, key in enumerate(keys)]
    times = pa.array([1_763_000_000_000 + n * 1_000 for n in range(2_000)])
    parquet.write_table(pa.table({"k": keys, "lane": lanes, "at": times}), tmp_path / "mixed.parquet")
    return tmp_path / "mixed.parquet"


def test_a_second_writer_is_dated_with_examples_and_the_setting_that_fixes_it(run: Run, mixed: Path) -> None:
    asked = ("identify", mixed, "-k", "k", "-l", "lane", "-n", 15, "--time", "at", "-o", "json")
    found = json.loads(run(*asked)[1])
    second = found["writers"][1]
    assert second["partitioner"] == "librdkafka-consistent-random"
    assert "2025-11-13T02:30:00Z" < second["since"] < "2025-11-13T02:31:00Z"
    assert second["to_the_end"]
    assert second["setting"] == "partitioner=consistent_random"
    assert {fix["client"]: fix["setting"] for fix in second["fixes"]}["librdkafka"] == "partitioner=murmur2_random"
    assert len(second["examples"]) == 3
    assert all("…" in example["key"] for example in second["examples"])
    whole = json.loads(run(*asked, "--show-keys")[1])["writers"][1]["examples"]
    for example in whole:
        key = example["key"].encode()
        assert example["lane"] == partitioner("librdkafka-consistent-random").lane(key, 15)
        assert example["expected"] == partitioner("kafka-java").lane(key, 15)


def test_the_contract_that_was_found_is_one_that_check_takes(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    data, to = data_file("a.parquet"), tmp_path / "c.yaml"
    code, out, _ = run("identify", data, "-k", "k", "-l", "lane", "--write", to)
    assert code == 0
    assert f"wrote {to}" in out
    assert to.read_text("utf-8").startswith("# yaml-language-server: $schema=./keylane-contract.schema.json\n")
    assert run("check", to, "--data", data)[0] == 0
    assert run("identify", data, "-k", "k", "-l", "lane", "--write", to)[0] == 2
    assert run("identify", data, "-k", "k", "-l", "lane", "--write", to, "--force")[0] == 0


def test_no_contract_is_written_of_data_that_proves_none(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    to = tmp_path / "c.yaml"
    code, out, _ = run("identify", data_file("a.parquet", keys=3), "-k", "k", "-l", "lane", "--write", to)
    assert code == 4
    assert "was not written" in out
    assert not to.exists()

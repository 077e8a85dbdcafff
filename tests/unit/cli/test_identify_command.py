from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

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


def test_a_table_ends_with_the_answer(run: Run, data_file: DataFile) -> None:
    code, out, err = run("identify", data_file("a.parquet"), "-k", "k", "-l", "lane", "-n", 15)
    assert (code, err) == (0, "")
    head, row, _, answer = out.splitlines()
    assert head.split() == ["PARTITIONER", "SHARE", "ENCODING", "FITTING", "KEYS", "CHANCE", "ALSO"]
    assert row.startswith("kafka-java       1  utf8")
    assert "kafka-java (500 keyed rows" in answer


def test_json_lines_are_one_writer_each(run: Run, data_file: DataFile) -> None:
    _, out, _ = run("identify", data_file("a.parquet"), "-k", "k", "-l", "lane", "-o", "jsonl")
    assert [json.loads(line)["partitioner"] for line in out.splitlines()] == ["kafka-java"]


def test_csv_cells_are_text_and_not_pythons_lists(run: Run, data_file: DataFile) -> None:
    _, out, _ = run("identify", data_file("a.parquet"), "-k", "k", "-l", "lane", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["partitioner"], row["share"], row["encoding"]) == ("kafka-java", "1.0", "utf8")
    assert "librdkafka-murmur2" in row["also"]
    assert "[" not in row["also"]


def test_two_writers_in_a_folder_are_a_mixture(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    data_file("both/a.parquet")
    data_file("both/b.parquet", "librdkafka-consistent-random")
    code, out, _ = run("identify", tmp_path / "both", "-k", "k", "-l", "lane", "-n", 15)
    assert code == 0
    assert out.splitlines()[-1].startswith("mixed writers: ")
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
        pytest.param(["nowhere.parquet", "-k", "k", "-l", "lane"], 1, "got 'nowhere.parquet'", id="file"),
        pytest.param(["DATA", "-k", "key", "-l", "lane"], 2, "unknown column of", id="key column"),
        pytest.param(["DATA", "-k", "k", "-l", "lanes"], 2, "did you mean 'lane'", id="lane column"),
        pytest.param(["DATA", "-k", "k"], 2, "which column holds the lane is not given", id="no lane column"),
        pytest.param(["DATA", "-l", "lane"], 2, "which column holds the key is not given", id="no key column"),
        pytest.param(["DATA", "-k", "k", "-l", "k"], 1, "column 'k' holds no lanes", id="lanes that are none"),
        pytest.param(["DATA", "-k", "k", "-l", "lane", "-n", 5], 2, "beyond the lane count", id="count"),
        pytest.param(["DATA", "-k", "k", "-l", "lane", "-n", 0], 2, "not a lane count: got 0", id="no lanes"),
        pytest.param(["-k", "k", "-l", "lane"], 2, "missing argument DATA", id="no data"),
    ],
)
def test_what_cannot_be_answered_is_said_on_stderr(
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

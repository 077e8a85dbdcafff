"""Fields of the key in files: one that no record has stops a route, a record without it is a dead letter.

And no column changes its type or the value of a number, whatever comes later.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import contract
from tests.route.routed_records import counts, letters, records

from keylane.errors import DataError, UsageError
from keylane.pipelines.route import route
from keylane.pipelines.verify import verify
from keylane.systems.folders.folder import read_manifests

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def write(path: Path, *rows: dict[str, Any] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([row for row in rows if isinstance(row, dict)]), path)
    else:
        path.write_text("\n".join(str(row) for row in rows) + "\n")


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("a.jsonl", ['{"key":"a","n":1}', '{"key":"b"}']),
        pytest.param("a.csv", ["key,n", "a,1"], marks=pytest.mark.faults),
        pytest.param("a.parquet", [{"key": "a", "n": 1}], marks=pytest.mark.faults),
    ],
)
def test_a_field_that_no_record_has_stops_the_route(spark: SparkSession, tmp_path: Path, name: str, rows: Any) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / name, *rows)
    with pytest.raises(DataError, match=r"no record has it: got 'k'; allowed: key, n"):
        route(contract(), str(source), str(target), spark=spark)
    assert list(target.glob("stream=*/lane=*/*")) == []
    assert not target.exists() or read_manifests(target) == []
    # The corrected contract goes into the same target.
    assert route(contract(**{"[k]": "[key]"}), str(source), str(target), spark=spark).counts.dead == 0


@pytest.mark.parametrize(
    ("ending", "first", "second"),
    [
        ("jsonl", ['{"k":"a","n":1}', '{"n":2}', '{"k":null}'], ['{"n":3}']),
        pytest.param("csv", ["k,n", "a,1"], ["n", "2"], marks=pytest.mark.faults),
        pytest.param("parquet", [{"k": "a", "n": 1}], [{"n": 2}], marks=pytest.mark.faults),
    ],
)
def test_a_later_batch_without_it_is_dead_letters_and_a_warning(
    spark: SparkSession, tmp_path: Path, ending: str, first: Any, second: Any
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / f"a.{ending}", *first)
    route(contract(), str(source), str(target), spark=spark)
    write(source / f"b.{ending}", *second)
    said: list[str] = []
    found = route(contract(), str(source), str(target), spark=spark, say=said.append)
    assert counts(found) == (1, 0, 1, 0)
    assert [text for text in said if "no record of batch 1 has k" in text]
    assert [text for text in said if "batch 1: no record has a lane, 1 became dead letters" in text]
    dead = {position: letter["reason"] for position, letter in letters(target).items()}
    row = 1 if ending == "csv" else 0
    assert dead.pop((f"b.{ending}", row)) == "missing-field"
    assert dead == ({("a.jsonl", 1): "missing-field", ("a.jsonl", 2): "null-key"} if ending == "jsonl" else {})


@pytest.mark.parametrize(
    ("name", "row"), [pytest.param("b.parquet", {"n": 2}, marks=pytest.mark.faults), ("day=1/b.parquet", {"n": 2})]
)
def test_one_file_of_a_batch_without_it(spark: SparkSession, tmp_path: Path, name: str, row: dict[str, Any]) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "a.parquet", {"k": "a", "n": 1})
    write(source / name, row)
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (2, 1, 1, 0)
    assert letters(target)[name, 0]["reason"] == "missing-field"


def test_a_key_in_the_path_of_json_lines(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "k=a/x.jsonl", '{"n":1}', '{"n":2,"k":"own"}')
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (2, 2, 0, 0)
    assert [row["k"] for row in records(target)] == ["a", "own"]


def test_a_column_of_a_path_does_not_become_one_of_another_type(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "day=1/a.parquet", {"k": "a"})
    route(contract(), str(source), str(target), spark=spark)
    write(source / "b.parquet", {"k": "a", "day": 2})
    with pytest.raises(
        DataError, match=r"b\.parquet: column 'day' has changed its type: got 'bigint'; allowed: string"
    ):
        route(contract(), str(source), str(target), spark=spark)
    write(source / "b.parquet", {"k": "a", "day": "2"})
    route(contract(), str(source), str(target), spark=spark)
    assert sorted(row["day"] for row in records(target)) == ["1", "2"]


@pytest.mark.parametrize("first", [pytest.param("day=1/b.parquet", marks=pytest.mark.faults), "a.parquet"])
def test_nor_the_other_way_round_or_in_one_batch(spark: SparkSession, tmp_path: Path, first: str) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "a.parquet", {"k": "a", "day": 2})
    if first == "a.parquet":
        route(contract(), str(source), str(target), spark=spark)
    write(source / "day=1/b.parquet", {"k": "a"})
    with pytest.raises(DataError, match=r"day=1/b\.parquet: column 'day' has changed its type: got 'text, in the path"):
        route(contract(), str(source), str(target), spark=spark)


NUMBERS = {
    '{"k":"a","x":1.1}': 1.1,
    '{"k":"a","x":9007199254740992}': 9007199254740992.0,
    '{"k":"a","x":40.758895000000003}': 40.758895,
    '{"k":"a","x":1e300}': 1e300,
    '{"k":"a","x":null}': None,
    '{"k":"a","x":12345678901234567890}': "lost",
    '{"k":"a","x":9007199254740993}': "lost",
    '{"k":"a","x":1e400}': "lost",
    '{"k":"a","x":-1e400}': "lost",
    '{"k":"a","x":1e-400}': "lost",
    '{"k":"a","x":2.5,"in":[{"y":0.5},{"y":9223372036854775809}]}': "lost",
    '{"k":"a","big":12345678901234567890}': 12345678901234567890,
}


def test_a_number_keeps_its_value_or_the_record_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "a.jsonl", *NUMBERS)
    route(contract(), str(source), str(target), spark=spark)
    texts = list(NUMBERS)
    kept = {texts[row["keylane_source"]["row"]]: row for row in records(target)}
    dead = {texts[row]: letter for (_, row), letter in letters(target).items()}
    assert set(dead) == {text for text, value in NUMBERS.items() if value == "lost"}
    assert {letter["reason"] for letter in dead.values()} == {"malformed-record"}
    assert all("value of a number" in letter["message"] for letter in dead.values())
    assert {text: row["big"] if "big" in text else row["x"] for text, row in kept.items()} == {
        text: value for text, value in NUMBERS.items() if value != "lost"
    }
    # What is known of a column by now decides for later batches: a fraction is no decimal of whole numbers.
    write(source / "b.jsonl", '{"k":"a","big":1.5}', '{"k":"a","big":7}', '{"k":"a","x":18446744073709551617}')
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (3, 1, 2, 0)


@pytest.mark.parametrize("on_null", ["reject", pytest.param("sticky", marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", ["a.jsonl", pytest.param("a.parquet", marks=pytest.mark.faults)])
def test_verify_reads_fields_as_the_route_did(spark: SparkSession, tmp_path: Path, name: str, on_null: str) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    rows: list[Any] = [{"shop": {"id": f"s-{n % 7}"}, "n": n} for n in range(40)]
    rows += [{"shop": {"id": None}, "n": 1}, {"shop": None, "n": 2}]
    if name != "a.parquet":
        rows = [*(json.dumps(row) for row in rows), '{"n":3}', '{"shop":{},"n":4}', '{"shop":[],"n":5}']
    write(source / name, *rows)
    given = contract(**{"[k]": "[shop.id]", "on_null: reject": f"on_null: {on_null}"})
    route(given, str(source), str(target), spark=spark)
    found = verify(str(source), str(target), given)
    assert [str(one) for one in found.verdict.violations] == []
    assert found.ok
    # Twin: a contract of another field does not hold there.
    other = contract(**{"[k]": "[n]", "on_null: reject": f"on_null: {on_null}"})
    with pytest.raises(UsageError, match="another contract"):
        verify(str(source), str(target), other)

"""What a CSV cell means: text, the empty text or null, the same on Spark and on Arrow, and for good."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.route.killable_routes import contract
from tests.route.routed_records import counts, letters, records

from keylane.contract.fields import FieldSpec
from keylane.errors import TargetError
from keylane.pipelines.route import KafkaOptions, Options, route
from keylane.spark.read_lines import _NULL, _with_marks
from keylane.systems.files.data import open_data

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

#: Cells as they are written, and what they are: without an option, and with each of some.
CELLS: dict[str, dict[tuple[str, ...], str | None]] = {
    "": {(): "", ("",): None, ("NULL",): "", ("", "NULL"): None},
    '""': {(): "", ("",): "", ("NULL",): "", ("", "NULL"): ""},
    "NULL": {(): "NULL", ("",): "NULL", ("NULL",): None, ("", "NULL"): None},
    '"NULL"': {(): "NULL", ("",): "NULL", ("NULL",): "NULL", ("", "NULL"): "NULL"},
    '"a,NULL,b"': dict.fromkeys([(), ("",), ("NULL",), ("", "NULL")], "a,NULL,b"),
    '"say ""NULL"""': dict.fromkeys([(), ("",), ("NULL",), ("", "NULL")], 'say "NULL"'),
    " ": dict.fromkeys([(), ("",), ("NULL",), ("", "NULL")], " "),
    "a": dict.fromkeys([(), ("",), ("NULL",), ("", "NULL")], "a"),
}
NULLS = [(), ("",), ("NULL",), ("", "NULL")]


def write(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("k,n,a,b,c,d\n" + "".join(f"{cell},{n},a,b,,NULL\n" for n, cell in enumerate(CELLS)))


@pytest.mark.parametrize("nulls", NULLS, ids=repr)
def test_on_arrow(tmp_path: Path, nulls: tuple[str, ...]) -> None:
    write(tmp_path / "a.csv")
    found = pa.Table.from_batches(open_data(str(tmp_path / "a.csv"), FieldSpec(("k",)), nulls).batches(["k"])).column(
        "k"
    )
    assert dict(zip(CELLS, found.to_pylist(), strict=True)) == {cell: said[nulls] for cell, said in CELLS.items()}


@pytest.mark.parametrize(
    "nulls", [pytest.param(one, marks=[] if len(one) == 2 else pytest.mark.faults) for one in NULLS], ids=repr
)
def test_on_spark(spark: SparkSession, tmp_path: Path, nulls: tuple[str, ...]) -> None:
    """As many columns as files have: what is too large for Spark to compile is an error here, elsewhere a stack."""
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "a.csv")
    options = Options(kafka=KafkaOptions(csv_null=nulls), conf={"spark.sql.codegen.fallback": "false"})
    found = route(contract(), str(source), str(target), options=options, spark=spark)
    expected: list[Any] = [said[nulls] for said in CELLS.values()]
    assert counts(found)[2] == expected.count(None)
    assert [row["k"] for row in records(target)] == [cell for cell in expected if cell is not None]
    assert {letter["reason"] for letter in letters(target).values()} <= {"null-key"}


def test_another_meaning_is_refused_later(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "a.csv")
    route(contract(), str(source), str(target), options=Options(kafka=KafkaOptions(csv_null=("",))), spark=spark)
    with pytest.raises(TargetError, match=r"csv_null: \[''\] here, \[\] given"):
        route(contract(), str(source), str(target), spark=spark)


def test_numbers_beside_cells_that_are_null(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    cells = {"7": 7, "-": None, "": None, '""': None, " 7": "bad", "1.5": "bad", "99999999999999999999": "bad", "+8": 8}
    (source / "a.csv").write_text("k,n\n" + "".join(f"{cell},1\n" for cell in cells))
    given = contract(utf8="int64be", **{"fields: [k]": "fields: [k], encoding: int64be"})
    options = Options(kafka=KafkaOptions(csv_null=("-",)))
    route(given, str(source), str(target), options=options, spark=spark)
    assert [row["k"] for row in records(target)] == [7, 8]
    reasons = [letter["reason"] for _, letter in sorted(letters(target).items())]
    assert (reasons.count("null-key"), reasons.count("malformed-record")) == (3, 3)


def test_many_such_texts_in_one_cell_take_no_square_of_its_length(spark: SparkSession) -> None:
    quoted = '"' + "NULL," * 100_000 + '"'
    lines = [
        f"NULL,{quoted},NULL",
        f"a,,{quoted}NULL,NULL,NULL",
        "NULL,NULL",
        "NULLS,aNULL,,NULL,",
        'a"b,NULL,c"d,NULL',
    ]
    began = time.monotonic()
    frame = spark.createDataFrame([(line,) for line in lines], "line string").coalesce(1)
    found = [row[0] for row in frame.select(_with_marks(F.col("line"), ("NULL", "NA"), ",")).collect()]
    assert found == [
        f"{_NULL},{quoted},{_NULL}",
        f"a,,{quoted}NULL,{_NULL},{_NULL}",
        f"{_NULL},{_NULL}",
        f"NULLS,aNULL,,{_NULL},",
        f'a"b,NULL,c"d,{_NULL}',
    ]
    assert time.monotonic() - began < 60

"""JSON lines and CSV as sources: nothing dropped, nothing changed in silence, everything else a dead letter."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.route.killable_routes import contract
from tests.route.routed_records import counts, letters, records
from tests.unit.keys.nameless_lines import EMPTY_NAMES, NO_EMPTY_NAMES

from keylane import Router
from keylane.errors import DataError, TargetError
from keylane.pipelines.route import Options, route
from keylane.systems.files.listing import source_files
from keylane.testing.folders import lanes_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


BAD_JSON = [
    b'{"k":"a"}{"k":"b"}',
    b'{"k":"a"},{"k":"b"}',
    b'{"k":"a"} and more',
    b'[{"k":"a"}]',
    b"null",
    b'{"k":"a"',
    b'{"k":"\xff"}',
    b'{"k":"\\ud83d"}',
    b'{"k":"\\\\\\udc00"}',
    b"control \x00\x1b[31m characters",
]


def test_files_are_those_that_other_commands_list(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    for name in ("a.parquet", "_day=1/b.parquet", "C.PARQUET", "d.Pq", "_tmp/e.parquet", ".f.parquet", "g.parquet.txt"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"k": [name]}), source / name)
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (4, 4, 0, 0)
    listed = {str(path.relative_to(source)) for path in source_files(source, "parquet")}
    assert {row["k"] for row in records(target)} == listed == {"a.parquet", "_day=1/b.parquet", "C.PARQUET", "d.Pq"}


def test_json_lines(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    good = [b'{"k":"key-%d","n":%d,"deep":{"x":[%d]}}' % (n % 7, n, n) for n in range(50)]
    odd = [b'{"k":"\\ud83d\\ude00 \\\\ud83d","n":1}', b'  {"n":2,"k":""}  ', b'{"k":"\xc3\xa9"}']
    (source / "a.jsonl").write_bytes(b"\n".join([*good, b"", *odd, b"   ", *BAD_JSON, b'{"n":3}']) + b"\n")
    found = route(contract(), str(source), str(target), spark=spark)
    assert counts(found) == (66, 53, 11, 2)
    rows = records(target)
    assert [row["n"] for row in rows[:50]] == list(range(50))
    assert rows[7]["deep"] == {"x": [7]}
    assert [row["k"] for row in rows[50:]] == ["😀 \\ud83d", "", "é"]
    assert [row["keylane_source"]["row"] for row in rows[50:]] == [51, 52, 53]
    router = Router(contract())
    assert all(router.lane(row) == row["lane"] for row in rows)
    dead = letters(target)
    assert [dead["a.jsonl", 55 + n]["original"] for n in range(len(BAD_JSON))] == BAD_JSON
    assert {dead["a.jsonl", 55 + n]["reason"] for n in range(len(BAD_JSON))} == {"malformed-record"}
    assert dead["a.jsonl", 65]["reason"] == "missing-field"
    assert dead["a.jsonl", 65]["original"] == b'{"n":3}'
    message = dead["a.jsonl", 64]["message"]
    assert message.isprintable()
    assert len(message) <= 512


def test_a_message_is_never_long(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_bytes(b'{"k":"' + b"x" * 5000 + b"\n")
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (1, 0, 1, 0)
    letter = letters(target)["in.jsonl", 0]
    assert len(letter["message"]) == 512
    assert len(letter["original"]) == 5006


def test_json_columns_that_come_later_are_added_and_none_changes_its_type(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonl").write_text('{"k":"a","n":1}\n{"k":"b","n":2}\n')
    route(contract(), str(source), str(target), spark=spark)
    (source / "b.jsonl").write_text('{"k":"a","n":3,"new":"x"}\n{"k":"b","n":"four"}\n{"k":"a","n":5.5}\n')
    assert counts(route(contract(), str(source), str(target), spark=spark)) == (3, 1, 2, 0)
    assert [(row["n"], row.get("new")) for row in records(target)] == [(1, None), (2, None), (3, "x")]
    assert spark.read.option("mergeSchema", "true").parquet(str(target)).schema["n"].dataType.simpleString() == "bigint"


def test_many_splits_of_one_file_keep_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    from keylane.spark.context import session_beside
    from keylane.spark.read_lines import _numbered
    from keylane.spark.read_parquet import SourceFile
    from keylane.spark.session import active_session_kept

    texts = [f'{{"k":"key-{n % 11}","n":{n},"fill":"{"x" * (n % 90)}"}}' for n in range(3000)]
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_text("\n".join(texts))
    packed.write_bytes(gzip.compress("\n".join(texts[:500]).encode()))
    own = session_beside(spark, None, {})
    own.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    files = [SourceFile(str(path), f"file:{path}", path.name, 0, 0) for path in (plain, packed)]
    with active_session_kept():
        numbered = _numbered(own, files, header=False)
    assert numbered.frame.rdd.getNumPartitions() > 5, "the file was read in one piece: the test shows nothing"
    assert numbered.rows == (3000, 500)
    rows = numbered.frame.select("keylane_place", "keylane_line").collect()
    expected = [*enumerate(texts), *((1 << 40 | n, text) for n, text in enumerate(texts[:500]))]
    assert sorted(map(tuple, rows)) == expected


BAD_CSV = ["too,few", "too,many,cells,here", '"a record,1', 'over two lines",2', 'a,"odd"",3']


def test_csv(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    rows = ["00042,1,x", '"with, comma",2,"say ""hi"""', ",3,", 'back\\slash,4,""', "", *BAD_CSV]
    (source / "a.csv").write_text("\r\n".join(["k,n,text", *rows]) + "\r\n")
    (source / "b.csv").write_text("text,k\nturned,00042\n")
    (source / "empty.csv").write_text("")
    found = route(contract(), str(source), str(target), spark=spark)
    assert counts(found) == (11, 5, 5, 1)
    got = [(row["k"], row["n"], row["text"]) for row in records(target)]
    assert got == [
        ("00042", "1", "x"),
        ("with, comma", "2", 'say "hi"'),
        ("", "3", ""),
        ("back\\slash", "4", ""),
        ("00042", None, "turned"),
    ]
    assert [row["keylane_source"]["row"] for row in records(target)] == [1, 2, 3, 4, 1]
    dead = letters(target)
    assert [dead["a.csv", 6 + n]["original"].decode() for n in range(5)] == BAD_CSV
    router = Router(contract())
    assert all(router.lane(row) == row["lane"] for row in records(target))


def test_csv_numbers_that_a_key_is_made_of(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out"
    source.write_text("k,n\n7,1\nseven,2\n,3\n")
    numbers = contract(**{"on_null: reject": "encoding: int64be, on_null: reject"})
    assert counts(route(numbers, str(source), str(target), spark=spark)) == (3, 1, 2, 0)
    assert [row["k"] for row in records(target)] == [7]
    assert {row["reason"] for row in letters(target).values()} == {"malformed-record", "null-key"}


def test_types_of_csv_by_schema(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out"
    source.write_text("k,n,rest\na,1,x\nb,no number,y\n")
    options = Options(schema="n int")
    assert counts(route(contract(), str(source), str(target), options=options, spark=spark)) == (2, 1, 1, 0)
    assert [(row["n"], row["rest"]) for row in records(target)] == [(1, "x")]


def test_types_of_json_by_schema(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out"
    lines = ['{"k":"a","n":1}', '{"k":"a","n":"one"}', '{"k":"a","n":123456789012345678901234567890}', '{"k":"b"}']
    source.write_text("\n".join(lines))
    options = Options(schema="n bigint")
    assert counts(route(contract(), str(source), str(target), options=options, spark=spark)) == (4, 2, 2, 0)
    assert [(row["k"], row["n"]) for row in records(target)] == [("a", 1), ("b", None)]


def test_columns_of_the_path_and_names_with_signs(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    for day in ("0001", "0002"):
        folder = source / f"day={day}" / "a b%20[x]"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"k": ["a", "b"], "n": [1, 2]}), folder / "é {1}*?.parquet")
    by_day = contract(**{"fields: [k]": "fields: [day, k]"})
    assert counts(route(by_day, str(source), str(target), spark=spark)) == (4, 4, 0, 0)
    rows = records(target)
    assert [row["day"] for row in rows] == ["0001", "0001", "0002", "0002"]
    assert rows[0]["keylane_source"]["file"] == "day=0001/a b%20[x]/é {1}*?.parquet"
    router = Router(by_day)
    assert all(router.lane(row) == row["lane"] for row in rows)


def test_parquet_columns_may_be_added_and_not_changed(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    pq.write_table(pa.table({"k": ["a"], "n": [1]}), source / "a.parquet")
    route(contract(), str(source), str(target), spark=spark)
    pq.write_table(pa.table({"k": ["b"], "n": pa.array([2], pa.int32()), "new": [2.5]}), source / "b.parquet")
    route(contract(), str(source), str(target), spark=spark)
    assert [(row["n"], row.get("new")) for row in records(target)] == [(1, None), (2, 2.5)]
    pq.write_table(pa.table({"k": ["c"], "n": ["three"]}), source / "c.parquet")
    with pytest.raises(DataError, match=r"c.parquet: column 'n' .*got 'string'; allowed: bigint"):
        route(contract(), str(source), str(target), spark=spark)
    assert len(records(target)) == 2


def test_a_stream_can_be_routed_on(spark: SparkSession, tmp_path: Path) -> None:
    source, first, second = tmp_path / "in", tmp_path / "first", tmp_path / "second"
    source.mkdir()
    pq.write_table(pa.table({"k": [f"key-{n}" for n in range(40)], "n": range(40)}), source / "a.parquet")
    route(contract(), str(source), str(first), spark=spark)
    wider = contract(**{"lanes: 4": "lanes: 6"})
    assert counts(route(wider, str(first / "stream=orders"), str(second), spark=spark)) == (40, 40, 0, 0)
    rows = records(second)
    assert sorted(row["n"] for row in rows) == list(range(40))
    assert rows[0]["keylane_source"]["file"].startswith("lane=")


def test_keyless_records_are_spread_by_their_position(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for n in range(8):
        pq.write_table(pa.table({"k": pa.array([None], pa.string()), "n": [n]}), source / f"{n}.parquet")
        os.utime(source / f"{n}.parquet", (1_700_000_000 + n,) * 2)
    turns = contract(**{"on_null: reject": "on_null: round_robin"})
    for name, most in (("one", 100), ("several", 3)):
        route(turns, str(source), str(tmp_path / name), options=Options(max_files=most), spark=spark)
    lanes = [row["lane"] for row in records(tmp_path / "one")]
    assert sorted(lanes) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert lanes == [row["lane"] for row in records(tmp_path / "several")]


def test_a_tier_is_a_stream_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    pq.write_table(pa.table({"k": ["hot", "a", "hot", "b"], "n": range(4)}), source / "a.parquet")
    hot = "partitioner: kafka-java\n  hot_keys: [{keys: [hot], tier: {stream: vip, lanes: 2}}]"
    found = route(contract(**{"partitioner: kafka-java": hot}), str(source), str(target), spark=spark)
    assert sum(found.lanes["vip"]) == 2
    vip = [(stream, lane, table["n"].to_pylist()) for stream, lane, table in lanes_of(target) if stream == "vip"]
    assert [numbers for _, _, numbers in vip] == [[0, 2]]


TWICE = b'{"k":"a","k":"b"}\n{"k":"c","x":{"a":1,"a":"2"}}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("empty.jsonl", b"", (0, 0, 0, 0), marks=pytest.mark.faults),
        pytest.param("blank.jsonl", b"\n \n\n", (3, 0, 0, 3), marks=pytest.mark.faults),
        pytest.param("blank.csv", b"\n\n", (1, 0, 0, 1), marks=pytest.mark.faults),
        pytest.param("header.csv", b"k,n\n", (0, 0, 0, 0), marks=pytest.mark.faults),
        pytest.param("mark.jsonl", b'\xef\xbb\xbf{"k":"a"}\n{"k":"b"}', (2, 2, 0, 0), marks=pytest.mark.faults),
        ("mark.csv", b"\xef\xbb\xbfk,n\na,1\n", (1, 1, 0, 0)),
        pytest.param("separator.csv", "k,a\u2028b\nx,1\n".encode(), (1, 1, 0, 0), marks=pytest.mark.faults),
        pytest.param("twice.jsonl", TWICE, (2, 2, 0, 0), marks=pytest.mark.faults),
        ("half.jsonl", b'{"k":5}\n{"k":1.5}\n{"k":7}\n', (3, 2, 1, 0)),
        ("deep.jsonl", b'{"k":"a","x":' + b"[" * 1200 + b"]" * 1200 + b'}\n{"k":"b"}\n', (2, 1, 1, 0)),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_odd_files(
    spark: SparkSession, tmp_path: Path, name: str, content: bytes, expected: tuple[int, int, int, int]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    assert counts(route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=spark)) == expected


def test_of_two_values_under_one_name_the_last_counts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"k":"a","k":"b","n":1}\n')
    route(contract(), str(tmp_path / "in.jsonl"), str(tmp_path / "out"), spark=spark)
    (row,) = records(tmp_path / "out")
    assert row["k"] == "b"
    assert row["lane"] == Router(contract()).lane({"k": "b"})


def test_a_field_with_the_empty_name_has_no_column_and_is_not_dropped(spark: SparkSession, tmp_path: Path) -> None:
    lines = [*EMPTY_NAMES, *NO_EMPTY_NAMES]
    texts = [f'{{"key":"a",{line[1:]}' for line in lines]
    (tmp_path / "in.jsonl").write_text("".join(f"{text}\n" for text in texts))
    given = contract(**{"fields: [k]": "fields: [key]"})
    found = route(given, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), spark=spark)
    assert counts(found) == (len(lines), len(NO_EMPTY_NAMES), len(EMPTY_NAMES), 0)
    dead = letters(tmp_path / "out")
    assert [dead["in.jsonl", n]["original"].decode() for n in range(len(EMPTY_NAMES))] == texts[: len(EMPTY_NAMES)]
    assert {letter["reason"] for letter in dead.values()} == {"malformed-record"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"\nk,n\na,1\n", "no usable header line"),
        ("a.csv", b'k,"n\nx,1\n', "no usable header line"),
        ("a.csv", b"k,k\nx,1\n", "no usable header line"),
        ("a.csv", b"z\n1\n", "got 'k'; allowed: z"),
        ("a.jsonl", b'{"k":"a","keylane_corrupt":"mine"}\n{\n', "reserved names: got 'keylane_corrupt'"),
        ("a.jsonl", b'{"k":"a","keylane_line":1}\n', "keylane_ begins keylane's own columns"),
        ("a.jsonl.gz", gzip.compress(b'{"k":"a"}\n' * 5000)[:-30], r"a\.jsonl\.gz cannot be read"),
    ],
)
def test_files_that_stop_a_route_in_words(
    spark: SparkSession, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        route(contract(), str(tmp_path / "in"), str(tmp_path / "out"), spark=spark)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "out").glob("stream=*"))


def test_columns_called_as_routing_calls_its_own(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"k":"a","reason":"r","routing_key":"z"}\n{"reason":"none"}\n')
    found = route(contract(), str(tmp_path / "in.jsonl"), str(tmp_path / "out"), spark=spark)
    assert counts(found) == (2, 1, 1, 0)
    (row,) = records(tmp_path / "out")
    assert (row["reason"], row["routing_key"]) == ("r", "z")


def test_lanes_and_stream_by_option(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("".join(f'{{"k":"key-{n}"}}\n' for n in range(40)))
    several = contract(**{"lanes: 4": "lanes: live", "streams: [orders]": "streams: [orders, refunds]"})
    given = Options(lanes=5, stream="refunds")
    found = route(several, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), options=given, spark=spark)
    assert {name: len(lanes) for name, lanes in found.lanes.items()} == {"refunds": 5}
    router = Router(several, lanes=5, stream="refunds")
    assert all(router.lane(row) == row["lane"] for row in records(tmp_path / "out"))
    other = Options(lanes=6, stream="refunds")
    with pytest.raises(TargetError, match="was made with another contract"):
        route(several, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), options=other, spark=spark)

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from keylane.contract.fields import FieldSpec
from keylane.errors import DataError, NoRecordsError, UnknownNameError
from keylane.systems.files.data import open_data
from keylane.systems.files.listing import data_files, kind_of
from keylane.systems.files.stream import source_stream
from keylane.systems.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEYS = ["00042", "b"]
NO_TARGET = Stream("", (), lambda *_: iter(()))
ROWS = pa.table({"k": KEYS, "lane": pa.array([1, 2], pa.int32()), "other": [0.5, 1.5]})


def rows(path: Path, *columns: str, text: tuple[str, ...] = ("k",)) -> dict[str, list[Any]]:
    batches = list(open_data(str(path), FieldSpec(tuple(text))).batches(columns or ("k", "lane")))
    found: dict[str, list[Any]] = pa.Table.from_batches(batches).to_pydict()
    return found


def as_parquet(path: Path) -> None:
    parquet.write_table(ROWS, path)


def as_csv(path: Path) -> None:
    path.write_text("k,lane,other\n00042,1,0.5\nb,2,1.5\n")


def as_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS.to_pylist()))


WRITERS = [
    pytest.param("a.parquet", as_parquet, id="parquet"),
    pytest.param("a.pq", as_parquet, id="pq"),
    pytest.param("a.csv", as_csv, id="csv"),
    pytest.param("a.jsonl", as_jsonl, id="jsonl"),
    pytest.param("a.ndjson", as_jsonl, id="ndjson"),
    pytest.param("a.json", as_jsonl, id="json"),
]


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_a_file_is_read_by_its_columns_in_the_order_asked_for(
    name: str, write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path / name)
    assert rows(tmp_path / name, "lane", "k") == {"lane": [1, 2], "k": KEYS}
    assert list(rows(tmp_path / name, "lane", "k")) == ["lane", "k"]
    assert open_data(str(tmp_path / name)).columns == ("k", "lane", "other")


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_a_folder_is_read_as_one(name: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path / name)
    write(tmp_path / "deep" / name)
    assert sorted(rows(tmp_path)["k"]) == ["00042", "00042", "b", "b"]


def test_a_csv_key_stays_the_text_it_is(tmp_path: Path) -> None:
    keys = ["00042", "1e5", "NA", "null", "true", "0x1f", "2026-01-01", " padded "]
    (tmp_path / "a.csv").write_text("k,lane\n" + "".join(f"{key},1\n" for key in keys))
    assert rows(tmp_path / "a.csv")["k"] == keys


def test_an_empty_csv_cell_is_the_empty_key(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('k,lane\n,1\n"",2\n"a,b",3\n')
    assert rows(tmp_path / "a.csv") == {"k": ["", "", "a,b"], "lane": [1, 2, 3]}


def test_a_csv_column_nobody_calls_text_is_what_it_looks_like(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,lane\n00042,1\n")
    assert rows(tmp_path / "a.csv", text=())["k"] == [42]


def test_json_keeps_null_and_text_and_numbers_apart(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"k": "00042", "lane": 1}\n{"k": null, "lane": 2}\n')
    assert rows(tmp_path / "a.jsonl")["k"] == ["00042", None]
    (tmp_path / "b.jsonl").write_text('{"k": 42, "lane": 1}\n')
    assert rows(tmp_path / "b.jsonl")["k"] == [42]


@pytest.mark.parametrize(
    ("name", "write"),
    [
        pytest.param("a.parquet", lambda path: parquet.write_table(ROWS.select(["k"]), path), id="parquet"),
        pytest.param("a.csv", lambda path: path.write_text("k\n00042\nb\n"), id="csv"),
        pytest.param("a.jsonl", lambda path: path.write_text('{"k": "00042"}\n{"k": "b"}\n'), id="jsonl"),
    ],
)
def test_sub_folders_give_the_lane(name: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    for lane in (7, 11):
        (tmp_path / f"lane={lane}").mkdir()
        write(tmp_path / f"lane={lane}" / name)
    found = rows(tmp_path)
    assert sorted(zip(found["k"], found["lane"], strict=True)) == [("00042", 7), ("00042", 11), ("b", 7), ("b", 11)]


def test_a_key_in_a_folders_name_stays_the_text_it_is(tmp_path: Path) -> None:
    """Its bytes decide its lane there too."""
    (tmp_path / "k=00042").mkdir()
    parquet.write_table(ROWS.select(["lane"]), tmp_path / "k=00042" / "a.parquet")
    assert rows(tmp_path)["k"] == ["00042", "00042"]


def test_hidden_files_and_markers_are_not_data(tmp_path: Path) -> None:
    as_parquet(tmp_path / "part-0.parquet")
    (tmp_path / ".part-0.parquet.crc").write_bytes(b"crc")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "_temporary.parquet").write_text("no parquet")
    for folder in ("_delta_log", ".hidden"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.json").write_text("{}")
        (tmp_path / folder / "0.parquet").write_text("no parquet")
    assert rows(tmp_path)["k"] == KEYS


def test_data_inside_a_hidden_folder_is_read_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    as_parquet(tmp_path / ".cache" / "a.parquet")
    assert rows(tmp_path / ".cache")["k"] == KEYS


def test_a_file_that_is_no_data_does_not_spoil_its_folder(tmp_path: Path) -> None:
    as_parquet(tmp_path / "a.parquet")
    (tmp_path / "README.txt").write_text("what this is")
    assert rows(tmp_path)["k"] == KEYS


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    as_parquet(tmp_path / "a.parquet")
    as_csv(tmp_path / "b.csv")
    with pytest.raises(DataError, match="got 'csv, parquet'"):
        open_data(str(tmp_path))


@pytest.mark.parametrize("name", ["", "a.txt", "a.gz"], ids=["an empty folder", "text", "packed, of no kind"])
def test_what_is_no_data_is_said_to_be_none(name: str, tmp_path: Path) -> None:
    if name:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=r"got 'no file of a known kind'; allowed: \.parquet, \.pq, \.json"):
        open_data(str(tmp_path / name))


def test_missing_data_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"got '.*nowhere'"):
        open_data(str(tmp_path / "nowhere"))


#: A folder of each kind, with names that every command has to read or leave out alike.
LISTED = ["a.EXT", "_day=1/b.EXT", "x/y=2/c.UPPER", "größe.EXT", "a b%20#?.EXT", "a\nb.EXT", "EXT.d/e.EXT"]
UNLISTED = [
    "_SUCCESS",
    ".a.EXT.crc",
    "_tmp/d.EXT",
    ".hidden/e.EXT",
    "README",
    "f.EXT._COPYING_",
    "g.EXT.tmp",
    "_metadata",
]


@pytest.mark.parametrize(
    ("ending", "write"), [("parquet", as_parquet), ("csv", as_csv), ("jsonl", as_jsonl)], ids=["parquet", "csv", "json"]
)
def test_all_commands_list_the_same_files(ending: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    for name in [*LISTED, *UNLISTED]:
        path = tmp_path / name.replace("EXT", ending).replace("UPPER", ending.upper())
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    (tmp_path / f"empty.{ending}").touch()
    (tmp_path / f"latest.{ending}").symlink_to(tmp_path / f"a.{ending}")
    listed = [str(path) for path in data_files(tmp_path, kind_of(tmp_path, None))]  # route, profile, match
    assert len(listed) == len(LISTED)
    data = open_data(str(tmp_path), FieldSpec(("k",)))  # identify, check
    read: Any = data.read
    assert (read.dataset.files if ending == "parquet" else [file for file, _ in read.files]) == listed
    assert len(pa.Table.from_batches(data.batches(["k"]))) == len(LISTED) * len(KEYS)
    assert [part.name for part in source_stream(tmp_path, NO_TARGET).parts] == listed  # verify


@pytest.mark.parametrize(("name", "write"), [("a.csv", as_csv), ("a.jsonl", as_jsonl)])
@pytest.mark.parametrize("packed", ["gz", "bz2", "zst"])
def test_packed_lines_are_read(packed: str, name: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / name)
    with pa.output_stream(tmp_path / f"{name}.{packed}", compression="detect") as out:
        out.write((tmp_path / name).read_bytes())
    (tmp_path / name).unlink()
    assert rows(tmp_path) == {"k": KEYS, "lane": [1, 2]}
    assert rows(tmp_path / f"{name}.{packed}") == {"k": KEYS, "lane": [1, 2]}


def test_a_packed_file_that_is_none_is_refused_and_not_left_out(tmp_path: Path) -> None:
    as_jsonl(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl.zst").write_bytes(b"x")
    with pytest.raises(DataError, match=r"b\.jsonl\.zst cannot be read"):
        rows(tmp_path)


def test_parquet_that_is_packed_once_more_is_refused(tmp_path: Path) -> None:
    as_parquet(tmp_path / "a.parquet.gz")
    with pytest.raises(DataError, match="decompress it first"):
        open_data(str(tmp_path))


def truncated(path: Path) -> None:
    as_parquet(path)
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
def test_a_file_without_a_byte_has_no_records(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(NoRecordsError) as caught:
        open_data(str(tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)
    (tmp_path / "a.csv").write_text("k\n1\n")
    assert open_data(str(tmp_path / "a.csv")).columns == ("k",)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        pytest.param("a.parquet", truncated, id="a truncated parquet file"),
        pytest.param("a.csv", lambda path: path.write_bytes(b"k,lane\nZo\xeb,1\n"), id="csv that is not UTF-8"),
        pytest.param("a.jsonl", lambda path: path.write_text("{oops\n"), id="broken json"),
    ],
)
def test_broken_files_are_named_in_one_line(name: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / name)
    with pytest.raises(DataError, match=r"cannot be read|is not in UTF-8") as caught:
        rows(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


LINES = {
    "a.csv": ["k,lane", "a,1", "b", "", "c,3", 'd,"4', "e,5"],
    "a.jsonl": [
        '{"k": "a", "lane": 1}',
        "{oops",
        "",
        '{"k": "c", "lane": 3}',
        '{"k": [1], "lane": 4}',
        '{"k": "e", "lane": 5}',
    ],
}


@pytest.mark.parametrize(("name", "first"), [("a.csv", 3), ("a.jsonl", 2)])
def test_a_line_that_is_no_record_is_skipped_and_counted_with_its_number(name: str, first: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("\n".join(LINES[name]))
    data = open_data(str(path), FieldSpec(("k",)))
    found = pa.Table.from_batches(list(data.batches(["k", "lane"]))).to_pydict()
    assert (found["k"], found["lane"]) == (["a", "c", "e"], [1, 3, 5])
    assert (data.skipped.lines, data.skipped.first) == (2, f"line {first} of {path}")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_the_number_of_a_broken_line_counts_over_blocks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keylane.systems.files.lines.BLOCK", 64)
    good = ["k,lane", *["a,1"] * 40_000] if name == "a.csv" else ['{"k": "a", "lane": 1}'] * 40_001
    (tmp_path / name).write_text("\n".join([*good[:2_000], "broken", *good[:10]]))
    data = open_data(str(tmp_path / name), FieldSpec(("k",)))
    assert sum(len(batch) for batch in data.batches(["k", "lane"])) >= 2_000
    assert data.skipped.first == f"line 2,001 of {tmp_path / name}"


def test_another_delimiter_is_read_and_suggested(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('k;lane\n"a;b";1\nc,d;2\n')
    read = open_data(str(tmp_path / "a.csv"), FieldSpec(("k",)), delimiter=";")
    assert pa.Table.from_batches(list(read.batches(["k", "lane"]))).to_pydict() == {"k": ["a;b", "c,d"], "lane": [1, 2]}
    with pytest.raises(DataError, match=r"has one column.*hint: --delimiter ';'"):
        rows(tmp_path / "a.csv")


def test_damage_that_shows_only_while_reading_is_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"k": [str(i) for i in range(10_000)], "lane": list(range(10_000))})
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    damaged = bytearray(path.read_bytes())
    damaged[4:3_000] = b"\xff" * 2_996
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"a\.parquet .*: got"):
        rows(path)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pa.array([1, 2]), id="numbers first"),
        pytest.param(pa.array([[1], [2]]), id="lists"),
        pytest.param(pa.array([{"x": 1}, {"x": 2}]), id="structs"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_files_whose_columns_disagree_give_text_or_a_data_error(other: pa.Array, first: bool, tmp_path: Path) -> None:
    as_parquet(tmp_path / "m.parquet")
    disagreeing = pa.table({"k": other, "lane": pa.array([1, 2], pa.int32())})
    parquet.write_table(disagreeing, tmp_path / ("a.parquet" if first else "z.parquet"))
    try:
        assert rows(tmp_path)["k"] == [*KEYS, "1", "2"]
    except DataError as error:
        assert "cannot be read" in str(error)  # noqa: PT017  text is right too


def test_an_unknown_column_has_a_did_you_mean(tmp_path: Path) -> None:
    as_parquet(tmp_path / "a.parquet")
    with pytest.raises(UnknownNameError, match="got 'lanes'; allowed: k, lane, other"):
        rows(tmp_path / "a.parquet", "k", "lanes")


def test_a_file_without_rows_has_no_rows(tmp_path: Path) -> None:
    parquet.write_table(ROWS.slice(0, 0), tmp_path / "a.parquet")
    assert sum(len(batch) for batch in open_data(str(tmp_path / "a.parquet")).batches(["k"])) == 0


def test_a_large_file_comes_in_batches(tmp_path: Path) -> None:
    table = pa.table({"k": pa.array(range(300_000)), "lane": pa.array(range(300_000))})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=50_000)
    sizes = [len(batch) for batch in open_data(str(tmp_path / "a.parquet")).batches(["k", "lane"])]
    assert len(sizes) > 1
    assert sum(sizes) == 300_000

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

from keylane.errors import DataError, UsageError
from keylane.systems.files.listing import kind_of, name_in, path_values, pattern_of, source_files, weigh


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a.parquet", "b/c.PQ"], "parquet"),
        (["a.jsonl", "b.json.gz", "c.ndjson.zst"], "json"),
        (["a.csv", "_SUCCESS", ".part.crc", "_tmp/x.parquet", "readme"], "csv"),
        (["_day=1/a.csv"], "csv"),
    ],
)
def test_the_kind_by_the_endings(tmp_path: Path, names: list[str], kind: str) -> None:
    assert kind_of(made(tmp_path, *names), None) == kind
    assert kind_of(tmp_path, "json") == "json"


@pytest.mark.parametrize("names", [[], ["readme"], ["a.csv", "b.parquet"], ["a.gz"], ["parquet"]])
def test_a_kind_that_is_not_clear(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(DataError, match="is not clear"):
        kind_of(made(tmp_path, *names), None)


def test_what_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such source"):
        kind_of(tmp_path / "nowhere", "csv")
    made(tmp_path / "a*b", "x.csv")
    with pytest.raises(UsageError, match="reads as a pattern"):
        kind_of(tmp_path / "a*b", None)


def test_links_are_followed_as_spark_follows_them(tmp_path: Path) -> None:
    made(tmp_path / "elsewhere", "a.csv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "elsewhere")
    assert kind_of(tmp_path / "in", None) == "csv"
    assert [path.name for path in source_files(tmp_path / "in", "csv")] == ["a.csv"]


def test_which_names_count() -> None:
    assert pattern_of("csv", "csv") == "*"
    endings = pattern_of("json", None).removeprefix("*.{").removesuffix("}").split(",")
    assert {"json", "jsonl.gz", "ndjson.zst"} <= set(endings)
    assert not any(fnmatch.fnmatch("a.csv", f"*.{ending}") for ending in endings)


def test_weight(tmp_path: Path) -> None:
    made(tmp_path, "a.csv", "b/c.csv", "d.json")
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere")
    assert weigh(tmp_path, "csv") == (2, 2)
    assert weigh(tmp_path, None) == (3, 3)
    assert weigh(tmp_path / "a.csv", "csv") == (1, 1)


def test_a_name_from_the_source() -> None:
    assert name_in(Path("/in"), "/in/b/a.csv") == "b/a.csv"
    assert name_in(Path("/in/a.csv"), "/in/a.csv") == "a.csv"
    with pytest.raises(ValueError, match="subpath"):
        name_in(Path("/in"), "/elsewhere/a.csv")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a.csv", {}),
        ("day=1/shop=a%2Fb/x", {"day": "1", "shop": "a/b"}),
        ("day=__HIVE_DEFAULT_PARTITION__/x", {"day": None}),
        ("stream=t/lane=3/x", {}),
        ("a=b=c/x", {"a": "b=c"}),
        ("x=1.csv", {}),
    ],
)
def test_columns_of_a_path(name: str, values: dict[str, str | None]) -> None:
    assert path_values(name) == values

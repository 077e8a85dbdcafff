from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keylane.errors import DataError, UsageError
from keylane.systems.files.listing import (
    as_listed,
    data_files,
    kind_of,
    listed,
    name_in,
    path_values,
    pattern_of,
    source_files,
    weigh,
)

#: Where links are in the test of all of them, and where they lead.
FOLDERS = ["in", "in/b", "in/_v", "out", "out/y"]
TARGETS = ["in", "in/b", "in/_v", "in/b/d", "out", "out/y", "", "in/a.csv", "in/b/c.csv", "in/_v/h.csv", "out/x.csv"]


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


def linked(folder: Path, **links: str) -> list[str]:
    """Names in the source after links were added: their names without ending, and where they lead."""
    for name, to in links.items():
        (folder / name).symlink_to(to)
    return names_in(folder)


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in source_files(folder, "csv"))


@pytest.mark.parametrize("to", [".", "..", "../in", "b", "../other"])
def test_a_link_to_a_folder_that_is_there_already_is_refused(tmp_path: Path, to: str) -> None:
    """Spark would follow it to the end of what a path can be, and two of them through every way there is."""
    source = made(tmp_path / "in", "a.csv", "b/c.csv")
    made(tmp_path, "x.csv", "other/y.csv")
    (tmp_path / "other" / "back").symlink_to(tmp_path / "other")
    with pytest.raises(DataError, match=r"loop.* leads to a folder that the source has already.*hint: remove the link"):
        linked(source, loop=to)
    with pytest.raises(DataError, match="has already"):
        kind_of(source, None)


def test_a_link_to_a_file_that_counts_is_another_name_of_it(tmp_path: Path) -> None:
    source = made(tmp_path / "in", "2026-11-16.csv", "_v3/data.csv", "raw.txt")
    links = {"latest.csv": "2026-11-16.csv", "current": "_v3", "raw.csv": "raw.txt"}
    expected = ["2026-11-16.csv", "current/data.csv", "raw.csv"]
    assert linked(source, **links) == expected, "what is hidden, or of another ending, has no name of its own"


def test_two_links_to_one_file_or_folder_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "out", "x.csv")
    for first, second, to in (("a.csv", "b.csv", "out/x.csv"), ("a", "b", "out")):
        source = tmp_path / f"in-{first}"
        source.mkdir()
        with pytest.raises(DataError, match=f"{first} and .*{second} are links to the same.*hint: remove one"):
            linked(source, **{first: str(tmp_path / to), second: str(tmp_path / to)})
    hard = made(tmp_path / "hard", "x.csv")
    (hard / "y.csv").hardlink_to(hard / "x.csv")
    assert names_in(hard) == ["x.csv", "y.csv"], "hard links are files of their own"


@pytest.mark.parametrize("special", ["link", "pipe"])
def test_what_is_no_file_is_named(tmp_path: Path, special: str) -> None:
    made(tmp_path, "a.csv")
    for name in ("b.csv", "_hidden.csv", "other.txt"):
        if special == "link":
            (tmp_path / name).symlink_to(tmp_path / "nowhere")
        else:
            os.mkfifo(tmp_path / name)
    what = "is a link to a file that is not there" if special == "link" else "is neither a file nor a folder"
    with pytest.raises(DataError, match=rf"b\.csv {what}"):
        names_in(tmp_path)
    (tmp_path / "b.csv").unlink()
    assert names_in(tmp_path) == ["a.csv"]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.walk` would leave it out without a word."""
    source, real = made(tmp_path / "in", "a.csv", "locked/b.csv", "removed/c.csv"), os.scandir

    def scandir(path: Path) -> Any:
        if path.name == "removed":
            raise FileNotFoundError
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(DataError, match=r"folder .*/in/locked cannot be listed: got 'Permission denied'"):
        names_in(source)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(FOLDERS), st.sampled_from("pqr"), st.sampled_from(TARGETS)), max_size=4))
def test_one_name_is_judged_as_the_list_judges_it(links: list[tuple[str, str, str]]) -> None:
    """Over every name that a lister finds which follows each link a few times, as Spark does."""
    with TemporaryDirectory() as base:
        root = Path(base)
        source = made(root / "in", "a.csv", "b/c.csv", "_v/h.csv", "b/d/e.csv")
        made(root / "out", "x.csv", "y/z.csv")
        for folder, name, to in links:
            path = root / folder / (f"{name}.csv" if to.endswith(".csv") else name)
            if not path.is_symlink():
                path.symlink_to(root / to)
        try:
            counted = {file.path.relative_to(source).as_posix(): file.real for file in listed(source, "csv")}
        except DataError:
            return
        every = [name for name in followed(source) if name.endswith(".csv")]
        assert len(every) < 100, "no loop"
        judged = {name: one.real for name in every if (one := as_listed(source, name, "csv")) is not None}
        assert judged == counted
        reals = [os.path.realpath(source / name) for name in counted]
        assert len(set(reals)) == len(reals), "each file once"
        assert {os.path.realpath(source / name) for name in every if "_v" not in name} <= set(reals), "none is left out"


def followed(folder: Path, depth: int = 5) -> list[str]:
    """Every name that can be reached in a few steps, through links too."""
    found = []
    for entry in os.scandir(folder):
        if entry.is_dir():
            inner = followed(Path(entry.path), depth - 1) if depth else []
            found += [f"{entry.name}/{name}" for name in inner]
        else:
            found.append(entry.name)
    return found


def test_which_names_count() -> None:
    assert pattern_of("csv", "csv") == "*"
    endings = pattern_of("json", None).removeprefix("*.{").removesuffix("}").split(",")
    assert {"json", "jsonl.gz", "ndjson.zst"} <= set(endings)
    assert not any(fnmatch.fnmatch("a.csv", f"*.{ending}") for ending in endings)


def test_files_without_a_byte_hold_nothing(tmp_path: Path) -> None:
    made(tmp_path, "a.csv")
    (tmp_path / "b.csv").touch()
    assert [path.name for path in source_files(tmp_path, "csv")] == ["a.csv", "b.csv"]
    assert [path.name for path in data_files(tmp_path, "csv")] == ["a.csv"]


def test_weight(tmp_path: Path) -> None:
    made(tmp_path, "a.csv", "b/c.csv", "d.json")
    assert weigh(tmp_path, "csv") == (2, 2)
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere")
    assert weigh(tmp_path, "csv") == (1, 1), "as far as it can be listed: whoever reads the files reports it"
    (tmp_path / "gone.csv").unlink()
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


def test_a_loop_of_links_is_beside_every_target(tmp_path: Path) -> None:
    """Python's own way of following links raises an error that says nothing of the source."""
    from keylane.systems.endpoint import open_endpoint

    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    target = open_endpoint(str(tmp_path / "out"))
    target.check_apart(open_endpoint(str(loop)))
    with pytest.raises(UsageError, match="lie within each other"):
        target.check_apart(target)

"""The registry of standing queries: changes as one transaction, versions, and files that are none."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from keylane.aggregation.query import query_of
from keylane.errors import TargetError, UnknownNameError, UsageError
from keylane.systems.query_registry import checked, open_queries

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.aggregation.query import Query


def query(name: str, **changed: Any) -> Query:
    usual = {"id": name, "filter": "a = 1", "aggregates": {"n": "count(*)"}, "window": "1 minute"}
    return query_of({**usual, **changed})


def test_queries_are_added_paused_resumed_and_removed(tmp_path: Path) -> None:
    address = str(tmp_path / "queries.sqlite")
    with open_queries(address, create=True) as registry:
        assert registry.add([query("a"), query("b")]) == (1, ["a", "b"])
        assert registry.add([query("a")]) == (1, [])
        assert registry.change(["a"], "pause") == (2, ["a"])
        assert registry.change(["a"], "pause") == (2, [])
    with open_queries(address) as registry:
        assert [one["id"] for one in registry.snapshot().active] == ["b"]
        assert registry.change(["a"], "resume") == (3, ["a"])
        assert registry.change(["b"], "remove") == (4, ["b"])
        assert (registry.snapshot().version, [one["id"] for one in registry.snapshot().active]) == (4, ["a"])
        assert {one.id: one.status for one in registry.all()} == {"a": "active", "b": "removed"}


def test_the_end_of_a_transaction_is_forced_to_the_disk(tmp_path: Path) -> None:
    """EXTRA: with FULL a power failure may take a query back that its caller knows as added."""
    with open_queries(str(tmp_path / "queries.sqlite"), create=True) as registry:
        assert registry._sql.execute("PRAGMA synchronous").fetchone() == (3,)  # type: ignore[attr-defined]  # of a file


def test_an_id_means_one_query_for_ever(tmp_path: Path) -> None:
    with open_queries(str(tmp_path / "q"), create=True) as registry:
        registry.add([query("a")])
        registry.change(["a"], "remove")
        with pytest.raises(UsageError, match="another query has the id a"):
            registry.add([query("b"), query("a", filter="a = 2")])
        assert [one.id for one in registry.all()] == ["a"], "nothing of the refused file was registered"
        assert registry.add([query("a")]) == (3, ["a"])


@pytest.mark.parametrize("changed_again", [False, True])
def test_an_older_copy_in_the_place_of_the_registry_is_refused(tmp_path: Path, changed_again: bool) -> None:
    """By the note beside it; without that, whoever kept a version with its digest notices."""
    path, copy, note = tmp_path / "q", tmp_path / "copy", tmp_path / "q.last"
    with open_queries(str(path), create=True) as registry:
        registry.add([query("a")])
    shutil.copy(path, copy)
    with open_queries(str(path)) as registry:
        registry.add([query("b")])
        known = registry.snapshot()
    if changed_again:
        with open_queries(str(copy)) as registry:
            registry.add([query("c")])
            assert registry.version() == known.version
            assert registry.digest_of(known.version) != known.digest
    newest = path.read_bytes()
    shutil.copy(copy, path)
    with pytest.raises(TargetError, match=r"restored from an older copy.*restore the newest"), open_queries(str(path)):
        pass
    path.write_bytes(newest)
    with open_queries(str(path)) as registry:
        assert registry.snapshot() == known
    shutil.copy(copy, path)
    note.unlink()
    with open_queries(str(path)) as registry:
        registry.add([query("b")])
        assert {"a", "b"} <= {one.id for one in registry.all()}


def test_a_note_that_is_damaged_or_behind_stops_nobody(tmp_path: Path) -> None:
    """It is written after the change: a kill leaves it behind."""
    path, note = tmp_path / "q", tmp_path / "q.last"
    with open_queries(str(path), create=True) as registry:
        registry.add([query("a")])
        before = note.read_bytes()
        registry.add([query("b")])
    for content in (before, b"", b"{}"):
        note.write_bytes(content)
        with open_queries(str(path)) as registry:
            assert registry.version() == 2


def test_a_registry_from_before_versions_had_digests_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "q"
    with open_queries(str(path), create=True) as registry:
        registry.add([query("a")])
    (tmp_path / "q.last").unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TABLE changes; PRAGMA user_version = 1")
    with open_queries(str(path)) as registry:
        assert registry.add([query("b")]) == (2, ["b"])
        assert (registry.digest_of(1), len(registry.digest_of(2))) == ("", 32)


def test_a_change_of_an_unknown_query_changes_nothing(tmp_path: Path) -> None:
    with open_queries(str(tmp_path / "q"), create=True) as registry:
        registry.add([query("clicks")])
        with pytest.raises(UnknownNameError, match="clicks"):
            registry.change(["clicks", "click"], "remove")
        assert registry.snapshot().version == 1


def test_a_file_that_is_no_registry_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no registry"), open_queries(str(tmp_path / "none")):
        pass
    assert not (tmp_path / "none").exists()
    other = tmp_path / "other"
    sqlite3.connect(other).execute("CREATE TABLE a (b)").connection.commit()
    before = other.read_bytes()
    with pytest.raises(UsageError, match="not a registry"), open_queries(str(other), create=True):
        pass
    assert other.read_bytes() == before
    text = tmp_path / "text"
    text.write_text("not a database, and longer than a header of one would be, so that it is read" * 4)
    with pytest.raises(Exception, match="registry"), open_queries(str(text)):
        pass


@pytest.mark.faults
def test_ten_thousand_queries_are_added_and_read(tmp_path: Path) -> None:
    """In CPU seconds, with room for a slow machine; one commit for each would take minutes."""
    began, many = time.process_time(), 10_000
    with open_queries(str(tmp_path / "q"), create=True) as registry:
        registry.add([query(f"q{n}", filter=f"type = 'click' and merchant = 'm{n}'") for n in range(many)])
        assert len(checked(registry.snapshot().active)) == len(registry.all()) == many
    assert time.process_time() - began < 60

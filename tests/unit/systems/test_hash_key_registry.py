"""The registry of hash keys: the same key again, never a key twice, writers side by side and killed ones."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.errors import TargetError, UnknownNameError, UsageError
from keylane.keyspace.key_tree import KeyTree, walk
from keylane.keyspace.sequences import SEQUENCES, Sequence, nth_key
from keylane.systems import hash_key_registry
from keylane.systems.hash_key_registry import UNIT, HashKeyRegistry, ImportedAccount, open_registry, thousandths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Adds accounts of its own and prints each once its transaction is committed.
WRITER = """
import sys
from pathlib import Path
from keylane.systems.hash_key_registry import open_registry
path, name = Path(sys.argv[1]), sys.argv[2]
for n in range(int(sys.argv[3])):
    with open_registry(path, create=True) as registry:
        done = registry.add(f"{name}-{n}")
        print(done.entry.account, done.entry.key, flush=True)
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[HashKeyRegistry]:
    with open_registry(tmp_path / "keys.sqlite", create=True) as found:
        yield found


def sums_hold(registry: HashKeyRegistry) -> bool:
    """Whether the kept sums are those of the accounts."""
    tree = KeyTree({entry.key: entry.weight for entry in registry.entries()})
    kept = dict(registry._sql.execute("SELECT node, weight FROM sums WHERE weight != 0"))
    return kept == {node: weight for node, weight in tree._sums.items() if weight}


def test_the_same_account_has_the_same_key(registry: HashKeyRegistry) -> None:
    first = registry.add("a")
    again = registry.add("a")
    assert (first.is_new, again.is_new, again.entry) == (True, False, first.entry)
    assert [registry.add(name).entry.key for name in "bcd"] == [nth_key("tree", n) for n in (2, 3, 4)]


def test_the_end_of_a_transaction_is_forced_to_the_disk(registry: HashKeyRegistry) -> None:
    """EXTRA: with FULL a power failure may take the last key back, which is then handed out to another account."""
    assert registry._sql.execute("PRAGMA synchronous").fetchone() == (3,)
    assert registry._sql.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_another_weight_is_kept_and_the_key_stays(registry: HashKeyRegistry) -> None:
    registry.add("a")
    changed = registry.add("a", weight=5 * UNIT)
    assert (changed.former_weight, changed.entry.weight, changed.entry.key) == (UNIT, 5 * UNIT, 2**127)
    assert sums_hold(registry)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_registry_goes_on_with_its_sequence(registry: HashKeyRegistry, sequence: Sequence) -> None:
    keys = [registry.add("a0", sequence=sequence).entry.key, *(registry.add(f"a{n}").entry.key for n in range(1, 9))]
    assert keys == [nth_key(sequence, n) for n in range(1, 10)]
    registry.remove("a3")
    assert registry.add("new").entry.key == nth_key(sequence, 4)
    assert registry.add("more").entry.key == nth_key(sequence, 10)


def test_sequences_share_a_registry_without_sharing_a_key(registry: HashKeyRegistry) -> None:
    keys = [registry.add(f"{name}{n}", sequence=name).entry.key for n in range(8) for name in SEQUENCES]
    assert len(set(keys)) == len(keys)


class Model:
    """What a registry must do, on a tree in memory."""

    def __init__(self) -> None:
        self.tree, self.keys = KeyTree(), dict[str, int]()

    def add(self, account: str, weight: int) -> int:
        if account not in self.keys:
            self.keys[account] = self.tree.take(weight)
        return self.keys[account]

    def remove(self, account: str) -> None:
        self.tree.remove(self.keys.pop(account))


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans(), st.sampled_from([UNIT, 3 * UNIT])), max_size=25))
def test_a_registry_is_the_tree_in_memory(
    tmp_path_factory: pytest.TempPathFactory, done: list[tuple[str, bool, int]]
) -> None:
    model = Model()
    with open_registry(tmp_path_factory.mktemp("r") / "k.sqlite", create=True) as registry:
        foreign = [ImportedAccount(1, "foreign", 12_345, None), ImportedAccount(2, "other", 2**126, None)]
        registry.bring_in(foreign)
        for row in foreign:
            model.tree.add(row.key or 0, UNIT)
        for account, adds, weight in done:
            if not adds and account in model.keys:
                model.remove(account)
                registry.remove(account)
            elif account not in model.keys:
                assert registry.add(account, weight).entry.key == model.add(account, weight)
        assert sums_hold(registry)


def test_import_takes_all_rows_or_none(registry: HashKeyRegistry) -> None:
    registry.add("a")
    rows = [
        ImportedAccount(2, "b", 7, None),
        ImportedAccount(3, "c", None, 2 * UNIT),
        ImportedAccount(4, "a", None, None),
    ]
    done = registry.bring_in(rows)
    assert ([(one.account, one.origin) for one in done.new], done.known) == ([("b", "imported"), ("c", "tree")], 1)
    before = registry.entries()
    for wrong, named in (
        (ImportedAccount(3, "e", 7, None), "'b'"),
        (ImportedAccount(3, "b", 8, None), "re-keying needs a fence"),
        (ImportedAccount(3, "d", 10, None), "'d' is in lines 2 and 3"),
        (ImportedAccount(3, "d", 9, UNIT), "'d' is in lines 2 and 3"),
        (ImportedAccount(3, "x\0y", None, None), "line 3"),
    ):
        with pytest.raises(UsageError) as caught:
            registry.bring_in([ImportedAccount(2, "d", 9, None), wrong])
        assert named in str(caught.value)
        assert registry.entries() == before
    assert sums_hold(registry)


def test_import_replaces_the_weight_of_a_known_account(registry: HashKeyRegistry) -> None:
    registry.add("a")
    done = registry.bring_in([ImportedAccount(2, "a", None, 9 * UNIT), ImportedAccount(3, "a", None, 9 * UNIT)])
    assert [entry.weight for entry in registry.entries()] == [9 * UNIT]
    assert [(one.former_weight, one.entry.weight) for one in done.reweighed] == [(UNIT, 9 * UNIT)]
    assert (done.new, done.known) == ((), 1)
    assert sums_hold(registry)
    with pytest.raises(UsageError) as caught:
        registry.bring_in([ImportedAccount(2, "a", None, 2 * UNIT), ImportedAccount(3, "a", None, 3 * UNIT)])
    assert "'a' is in lines 2 and 3" in str(caught.value)
    assert [entry.weight for entry in registry.entries()] == [9 * UNIT]
    assert sums_hold(registry)


def test_keys_of_an_import_follow_the_weights_that_it_brings(registry: HashKeyRegistry) -> None:
    for account in "abc":
        registry.add(account)
    # b, left of the middle, is heavier than c from this import on: the new key goes to the right.
    done = registry.bring_in([ImportedAccount(2, "b", None, 9 * UNIT), ImportedAccount(3, "d", None, None)])
    tree = KeyTree({2**127: UNIT, 2**126: 9 * UNIT, 3 * 2**126: UNIT})
    assert [one.key for one in done.new] == [tree.take(UNIT)]
    assert done.new[0].key > 2**127


def test_a_sequence_is_kept_where_no_key_moves(registry: HashKeyRegistry) -> None:
    registry.add("a")
    assert nth_key("halves", 1) == 2**127
    assert registry.redistribute("halves", dry_run=True) == []
    assert registry.sequence == "tree"
    assert registry.redistribute("halves") == []
    assert (registry.sequence, registry.add("b").entry.key) == ("halves", nth_key("halves", 2))
    assert sums_hold(registry)


def test_redistribution_moves_what_is_out_of_place_and_a_dry_run_nothing(registry: HashKeyRegistry) -> None:
    registry.bring_in([ImportedAccount(n, f"a{n}", n, None) for n in range(1, 5)])
    registry.add("b")
    before = registry.entries()
    planned = registry.redistribute(dry_run=True)
    assert registry.entries() == before
    assert registry.redistribute() == planned
    assert {one.account for one in planned} == {"a1", "a2", "a3", "a4"}
    assert {entry.key for entry in registry.entries()} == {nth_key("tree", n) for n in range(1, 6)}
    assert registry.redistribute() == []
    assert sums_hold(registry)


def test_an_unknown_account_cannot_be_removed(registry: HashKeyRegistry) -> None:
    registry.add("acme")
    with pytest.raises(UnknownNameError) as caught:
        registry.remove("acne")
    assert "'acme'" in str(caught.value)


@pytest.mark.parametrize("account", ["", "\ud800", "a\0b"])
def test_what_is_no_account_is_refused(registry: HashKeyRegistry, account: str) -> None:
    with pytest.raises(UsageError):
        registry.add(account)


@pytest.mark.parametrize("weight", [0, -1, 0.0001, float("nan"), float("inf"), 1e10])
def test_what_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(UsageError):
        thousandths(weight)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "a.txt", tmp_path / "other.sqlite"
    text.write_text("not a database, and long enough to be looked at as one" * 20)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    for path in (text, other, tmp_path, tmp_path / "none" / "k.sqlite"):
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(UsageError), open_registry(path, create=True):
            pass
        assert not path.is_file() or path.read_bytes() == before
    with pytest.raises(UsageError), open_registry(tmp_path / "none.sqlite"):
        pass
    assert not (tmp_path / "none.sqlite").exists()


@pytest.mark.parametrize("left", [b"", b"S", b"\0" * 4096])
def test_a_registry_that_was_emptied_is_not_a_new_one(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "k.sqlite"
    path.write_bytes(left)
    with pytest.raises(UsageError, match="not a registry"), open_registry(path, create=True):
        pass
    assert path.read_bytes() == left
    with open_registry(tmp_path / "new.sqlite", create=True) as registry:
        assert registry.add("a").is_new, "the twin: a file that is not there"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["k.sqlite", "new.sqlite", "new.sqlite.last"]


def test_no_changed_bit_gives_another_key_or_account(tmp_path: Path) -> None:
    path, rng = tmp_path / "k.sqlite", Random(2)
    with open_registry(path, create=True) as registry:
        registry.bring_in([ImportedAccount(n, f"account-{n}", None, 1_000 + n) for n in range(60)])
        right = registry.entries()
    content, found = path.read_bytes(), 0
    for _ in range(150):
        at = rng.randrange(100, len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :])
        try:
            with open_registry(path) as registry:
                assert registry.entries() == right
        except (TargetError, UsageError):
            found += 1
    assert found > 5, "some of them are refused"
    path.write_bytes(content[:-1])
    with pytest.raises(TargetError, match="cut"), open_registry(path):
        pass
    path.write_bytes(content)
    with sqlite3.connect(path) as other:
        other.execute("UPDATE accounts SET hash_key = ? WHERE account = 'account-7'", (b"\x07" * 16,))
    with open_registry(path) as registry, pytest.raises(TargetError, match="account-7"):
        registry.add("account-7")


def test_a_writer_that_waits_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.sqlite"
    monkeypatch.setattr(hash_key_registry, "PATIENCE", 0.1)
    with open_registry(path, create=True) as one, open_registry(path) as other:
        one._sql.execute("BEGIN IMMEDIATE")
        with pytest.raises(TargetError):
            other.add("a")
        one._sql.execute("ROLLBACK")
        assert other.add("a").is_new


def test_a_damaged_or_locked_file_is_an_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.sqlite"
    with open_registry(path, create=True) as registry:
        registry.bring_in([ImportedAccount(n, f"a{n}", None, None) for n in range(500)])
    monkeypatch.setattr(hash_key_registry, "PATIENCE", 0.1)
    with open_registry(path) as other:
        blocked = sqlite3.connect(path, isolation_level=None)
        blocked.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TargetError) as caught, open_registry(path) as registry:
            registry.entries()
        blocked.execute("ROLLBACK")
        blocked.close()
        assert ("try again" in str(caught.value), other.size()) == (True, 500)
    # The first page, which says what the file is, stays; all others are noise.
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    for read in (HashKeyRegistry.entries, HashKeyRegistry.size):
        with pytest.raises(TargetError), open_registry(path) as registry:
            read(registry)


def writers(path: Path, names: Iterable[str], each: int) -> list[subprocess.Popen[str]]:
    line = [sys.executable, "-c", WRITER, str(path)]
    return [subprocess.Popen([*line, name, str(each)], stdout=subprocess.PIPE, text=True) for name in names]


def test_writers_side_by_side_never_get_one_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    running = writers(path, "abcdefgh", 6)
    printed = [line.split() for one in running for line in one.communicate(timeout=120)[0].splitlines()]
    keys = {int(key) for _, key in printed}
    assert keys == {nth_key("tree", n) for n in range(1, 49)}
    with open_registry(path) as registry:
        assert {(entry.account, str(entry.key)) for entry in registry.entries()} == {tuple(one) for one in printed}
        assert sums_hold(registry)


def test_killed_writers_lose_nothing_that_they_printed(tmp_path: Path) -> None:
    path, printed = tmp_path / "keys.sqlite", dict[str, int]()
    for turn in range(3):
        files = [tmp_path / f"{turn}{name}" for name in "ab"]
        line = [sys.executable, "-c", WRITER, str(path)]
        running = []
        for file in files:
            with file.open("w") as out:
                running.append(subprocess.Popen([*line, file.name, "10000"], stdout=out))
        # When they are at it, at a moment that differs from turn to turn.
        while len(lines_of(files)) < 5 + turn:
            assert all(one.poll() is None for one in running)
            time.sleep(0.005)
        for one in running:
            os.kill(one.pid, signal.SIGKILL)
            one.wait()
        printed |= lines_of(files)
        with open_registry(path) as registry:
            assert registry.add(f"after-{turn}").is_new
    with open_registry(path) as registry:
        entries = {entry.account: entry.key for entry in registry.entries()}
        assert printed.items() <= entries.items()
        assert len(set(entries.values())) == len(entries) >= len(printed) + 3
        assert sums_hold(registry)
        assert registry._sql.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def lines_of(files: Iterable[Path]) -> dict[str, int]:
    """What writers have printed; a line that a kill cut is no answer."""
    lines = [line.split() for file in files for line in file.read_text().splitlines(keepends=True) if line[-1] == "\n"]
    return {account: int(key) for account, key in lines}


def test_a_registry_that_reads_before_it_locks_hands_out_a_key_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: with a lock that comes late both walk to one key, and the unique index is what refuses it."""
    path = tmp_path / "k.sqlite"
    monkeypatch.setattr(hash_key_registry, "PATIENCE", 0.1)
    with open_registry(path, create=True) as one, open_registry(path) as other:
        found = walk(one)[0]
        other.add("b")
        with pytest.raises(sqlite3.IntegrityError):
            one._insert([hash_key_registry.HandedOut("a", found, UNIT, "tree")])


@pytest.mark.parametrize("changed_again", [False, True])
def test_an_older_copy_in_the_place_of_the_registry_is_refused(tmp_path: Path, changed_again: bool) -> None:
    """It would hand out a key that another account has; with the newest copy back all is well."""
    path, copy = tmp_path / "k.sqlite", tmp_path / "copy.sqlite"
    with open_registry(path, create=True) as registry:
        registry.add("a")
    shutil.copy(path, copy)
    with open_registry(path) as registry:
        given = registry.add("b").entry.key
    newest = path.read_bytes()
    if changed_again:
        with open_registry(copy) as registry:
            assert registry.add("c").entry.key == given, "the key of b"
    shutil.copy(copy, path)
    with pytest.raises(TargetError, match=r"restored from an older copy.*restore the newest"), open_registry(path):
        pass
    path.write_bytes(newest)
    with open_registry(path) as registry:
        assert not registry.add("b").is_new


def test_what_changes_nothing_is_no_version(tmp_path: Path) -> None:
    with open_registry(tmp_path / "k.sqlite", create=True) as registry:
        registry.add("a")
        registry.redistribute("halves", dry_run=True)
        registry.add("a")
        assert registry.version() == 1

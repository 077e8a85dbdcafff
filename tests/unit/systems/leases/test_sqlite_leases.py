"""Leases in a file: several processes, kills in the middle, files that are something else."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.unit.systems.leases.lease_stores import check_store

from keylane.errors import TargetError, UsageError
from keylane.groups.ownership import Acquire, Renew
from keylane.systems.leases import open_leases
from keylane.systems.leases.sqlite import sqlite_leases

if TYPE_CHECKING:
    from pathlib import Path

#: Takes the id whenever it can, prints the term, lets the lease run out, and is killed at some moment.
TAKER = """
import sys, time
from pathlib import Path
from keylane.groups.ownership import Acquire, Release
from keylane.systems.leases.sqlite import sqlite_leases
with sqlite_leases(Path(sys.argv[1]), "g", 1, 60.0) as store:
    while True:
        lease = store.answer(Acquire(sys.argv[2], (0,), 0.01))
        if lease is not None:
            print(lease.term, flush=True)
            if lease.term % 2:
                store.answer(Release(lease))
"""


def test_a_store_in_a_file_does_what_every_store_does(tmp_path: Path) -> None:
    with open_leases(tmp_path / "l.db", "g", 2) as one, open_leases(tmp_path / "l.db", "g", 2) as other:
        check_store(one, other)


def test_groups_of_one_file_are_apart(tmp_path: Path) -> None:
    with open_leases(tmp_path / "l.db", "g", 1) as one, open_leases(tmp_path / "l.db", "h", 1) as other:
        for store in (one, other):
            lease = store.answer(Acquire("a", (0,), 5))
            assert lease is not None
            assert lease.term == 1


def test_a_lease_ends_by_the_clock_of_the_store(tmp_path: Path) -> None:
    now = [100.0]
    with sqlite_leases(tmp_path / "l.db", "g", 1, clock=lambda: now[0]) as store:
        mine = store.answer(Acquire("a", (0,), 10))
        assert mine is not None
        now[0] = 109.9
        assert store.answer(Acquire("b", (0,), 10)) is None
        assert [held.owner for held in store.read()] == ["a"]
        now[0] = 110.0
        assert [held.owner for held in store.read()] == [""]
        assert store.answer(Renew(mine)) is None
        assert store.answer(Acquire("b", (0,), 10)) is not None
        now[0] = 3.0  # the machine started anew
        assert store.answer(Acquire("c", (0,), 10)) is not None


def test_terms_of_killed_processes_are_never_given_twice(tmp_path: Path) -> None:
    """Processes that take the id at the same time and are killed wherever they are; others go on."""
    rng, path = random.Random(5), tmp_path / "l.db"
    outs = [tmp_path / f"out-{n}" for n in range(6)]
    takers = [start(path, out) for out in outs]
    for taker, out in zip(takers, outs, strict=True):
        # When it is at it, at a moment that differs from one to the other.
        enough = rng.randint(3, 9)
        while out.read_text().count("\n") < enough:
            assert taker.poll() is None
            time.sleep(0.01)
        taker.kill()
        taker.wait()
    terms = [int(line) for out in outs for line in out.read_text().split("\n")[:-1]]
    assert len(terms) > 10
    assert len(set(terms)) == len(terms)
    with sqlite_leases(path, "g", 1) as store:
        last = store.answer(Acquire("z", (0,), 5))
        assert last is None or last.term > max(terms)


def start(path: Path, out: Path) -> subprocess.Popen[bytes]:
    with out.open("wb") as written:
        return subprocess.Popen([sys.executable, "-c", TAKER, str(path), out.name], stdout=written)


def test_a_group_has_one_number_of_ids_until_nobody_holds_one(tmp_path: Path) -> None:
    with sqlite_leases(tmp_path / "l.db", "g", 3) as store:
        lease = store.answer(Acquire("a", (0,), 60))
        assert lease is not None
        with pytest.raises(UsageError, match="3"), open_leases(tmp_path / "l.db", "g", 4):
            pass
        with pytest.raises(UsageError, match="in use"):
            store.resize(4)
    with sqlite_leases(tmp_path / "l.db", "g", 3, clock=lambda: 1e9) as later:
        later.resize(4)
        grown = later.answer(Acquire("b", (3,), 5))
        assert grown is not None
        assert grown.term == lease.term + 1, "terms go on"
    with pytest.raises(UsageError), open_leases(tmp_path / "l.db", "g", 3):
        pass


@pytest.mark.parametrize("instances", [0, -1, 10_001])
def test_a_group_is_not_given_a_number_of_ids_that_nobody_could_open(tmp_path: Path, instances: int) -> None:
    with sqlite_leases(tmp_path / "l.db", "g", 3) as store:
        with pytest.raises(UsageError, match="instances"):
            store.resize(instances)
        assert len(store.read()) == 3


def test_the_end_of_a_transaction_is_forced_to_the_disk(tmp_path: Path) -> None:
    """EXTRA: with FULL, the removal of the journal is not, and a power failure may take the last term back."""
    with sqlite_leases(tmp_path / "l.db", "g", 1) as store:
        assert store._sql.execute("PRAGMA synchronous").fetchone() == (3,)
        assert store._sql.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize("ttl", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_time_to_live_is_refused(tmp_path: Path, ttl: float) -> None:
    with pytest.raises(UsageError, match="terms"), open_leases(tmp_path / "l.db", "g", 1, ttl):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("group", "instances"), [("", 1), ("a/b", 1), ("g" * 101, 1), ("g", 0), ("g", 10_001)])
def test_what_is_no_group_is_refused(tmp_path: Path, group: str, instances: int) -> None:
    with pytest.raises(UsageError), open_leases(tmp_path / "l.db", group, instances):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, database = tmp_path / "text", tmp_path / "other.db"
    text.write_text("not a database, but longer than the header of one" * 9)
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    for path in (text, database, tmp_path, tmp_path / "no" / "folder"):
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(UsageError), open_leases(path, "g", 1):
            pass
        assert not path.is_file() or path.read_bytes() == before


def test_a_store_that_is_held_is_given_up_in_time(tmp_path: Path) -> None:
    with sqlite_leases(tmp_path / "l.db", "g", 1, ttl=0.2) as store:
        paused = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
        paused.execute("BEGIN IMMEDIATE")
        with pytest.raises(TargetError, match="paused"):
            store.answer(Acquire("a", (0,), 0.2))
        paused.close()
        assert store.answer(Acquire("a", (0,), 0.2)) is not None, "twin"

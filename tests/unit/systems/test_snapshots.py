from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.systems.snapshots import Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_newest_term_is_read_first_whatever_a_former_owner_wrote_later(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, "g")
    new = Snapshot("g", "orders", 3, 7, 100, b"new")
    kept.write(new)
    kept.write(Snapshot("g", "orders", 3, 6, 140, b"of a former owner that woke up"))
    assert kept.newest("orders", 3) == (new, [])
    assert kept.newest("orders", 4) == (None, [])


def test_two_are_kept(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, "g")
    for position in (9, 10, 100):
        kept.write(Snapshot("g", "orders", 0, 2, position, b"s" * position))
    assert sorted(path.name.lstrip("0") for path in (tmp_path / "g" / "orders-0").iterdir()) == [
        "2-00000000000000000010.snapshot",
        "2-00000000000000000100.snapshot",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[:-1],
        lambda content: content[:20],
        lambda content: content.replace(b"two", b"tw0"),
        lambda content: content.replace(b'"lane": 0', b'"lane": 1'),
        lambda content: content.replace(b"snapshot/2", b"snapshot/9"),
        lambda _: b"[]\n",
    ],
)
def test_a_damaged_snapshot_is_passed_over_and_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    kept = Snapshots(tmp_path, "g")
    for position, state in ((1, b"one"), (2, b"two")):
        kept.write(Snapshot("g", "orders", 0, 2, position, state))
    newest = max((tmp_path / "g" / "orders-0").iterdir())
    newest.write_bytes(damage(newest.read_bytes()))
    found, problems = kept.newest("orders", 0)
    assert found == Snapshot("g", "orders", 0, 2, 1, b"one")
    assert len(problems) == 1
    assert str(newest) in problems[0]


def test_a_write_that_was_cut_short_is_no_snapshot(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, "g")
    kept.write(Snapshot("g", "orders", 0, 2, 1, b"one"))
    (tmp_path / "g" / "orders-0" / ".00000000000000000002-00000000000000000005.snapshot.new").write_bytes(b"half")
    found, problems = kept.newest("orders", 0)
    assert found is not None
    assert (found.position, problems) == (1, [])


def test_groups_that_share_a_folder_do_not_take_each_others_states(tmp_path: Path) -> None:
    """The folder has a default, so that two services of one machine have it in common."""
    one, other = Snapshots(tmp_path, "one"), Snapshots(tmp_path, "other")
    mine = Snapshot("one", "orders", 0, 2, 1, b"mine")
    one.write(mine)
    assert other.newest("orders", 0) == (None, [])
    yours = Snapshot("other", "orders", 0, 9, 5, b"yours")
    other.write(yours)
    assert (one.newest("orders", 0)[0], other.newest("orders", 0)[0]) == (mine, yours)
    # A file that somebody has copied there is not taken for one's own.
    (copied,) = (tmp_path / "other" / "orders-0").iterdir()
    (tmp_path / "one" / "orders-0" / copied.name).write_bytes(copied.read_bytes())
    found, problems = one.newest("orders", 0)
    assert (found, len(problems)) == (mine, 1)


def test_the_highest_term_is_that_of_any_snapshot_of_a_lane(tmp_path: Path) -> None:
    kept = Snapshots(tmp_path, "g")
    assert kept.highest_term("orders", 0) == 0
    for term, position in ((2, 9), (7, 4)):
        kept.write(Snapshot("g", "orders", 0, term, position, b""))
    assert (kept.highest_term("orders", 0), kept.highest_term("orders", 1)) == (7, 0)

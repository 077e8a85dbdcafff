"""The journal as the record of splits and merges: what is appended, who is refused, where shards end and begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.errors import FencedError, TargetError
from keylane.keyspace.layout import new_layout
from keylane.migration.cutover import Entry, may_roll_back, phase_of
from keylane.placement.ranges import KeySpace
from keylane.plan.shards import ShardGoal, ShardLoad, shards_plan
from keylane.systems.kinesis.migration import last_numbers, reader_starts
from keylane.systems.migration_journal import FolderJournal
from keylane.systems.resharding import StreamState, position
from keylane.systems.shard_migrations import JournalRecord, LineageShard, Unbegun, borders

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.documents.shards import ShardsPlanDocument


@pytest.fixture
def journal(tmp_path: Path) -> FolderJournal:
    made = FolderJournal(tmp_path / "journal")
    made.begin({"plan": 1})
    made.append(Entry(0, 1, "begun"))
    return made


def record(journal: FolderJournal, epoch: int = 1, *, held: bool = True) -> JournalRecord:
    return JournalRecord(journal, epoch, lambda: held, lambda: 7.0)


def test_a_call_is_in_the_journal_before_it_is_made(journal: FolderJournal) -> None:
    first = record(journal)
    assert (first.done, first.begun, first.is_new) == (0, False, True)
    first.note(0, begun=False)
    assert may_roll_back(journal.entries()), "nothing was called yet"
    first.note(0, begun=True)
    first.note(1, begun=False)
    first.note(1, begun=True)
    assert [(one.phase, one.calls) for one in journal.entries()] == [("begun", 0), ("resharding", 0), ("resharding", 1)]
    assert not may_roll_back(journal.entries())
    again = record(FolderJournal(journal.path), 2)
    assert (again.done, again.begun, again.is_new) == (1, True, False)


def test_who_has_lost_the_lease_makes_no_call(journal: FolderJournal) -> None:
    with pytest.raises(FencedError):
        record(journal, held=False).note(0, begun=True)
    late = record(FolderJournal(journal.path), 1)
    record(journal, 2).note(0, begun=True)
    with pytest.raises(FencedError):
        late.note(0, begun=True)
    assert phase_of(journal.entries()) == "resharding"
    assert journal.entries()[-1].claim == 2


def plan(before: int, after: int) -> ShardsPlanDocument:
    return shards_plan("s", new_layout(before), ShardLoad(None, "none", {}), ShardGoal(to=new_layout(after)))


def test_calls_that_the_journal_does_not_have_are_named_as_what_they_are() -> None:
    """A journal that is gone in the middle: the stream says which calls were made, and nothing is begun."""
    planned = plan(1, 4)
    half = new_layout(1).split("shardId-000000000000", int(planned.calls[0].at))
    with pytest.raises(TargetError, match="gone, or an older copy"):
        position(planned, Unbegun(), StreamState("arn", half, active=True))
    assert position(planned, Unbegun(), StreamState("arn", new_layout(1), active=True)) == 0
    other = new_layout(1).split("shardId-000000000000", 12345)
    with pytest.raises(TargetError) as caught:
        position(planned, Unbegun(), StreamState("arn", other, active=True))
    assert "older copy" not in str(caught.value), "twin: somebody else's split"


def test_where_shards_of_before_ended_and_those_of_after_begin() -> None:
    layout = new_layout(1).split("shardId-000000000000", 2**127)
    shards = [LineageShard(one, 100 * n, 90 if one.closed else None) for n, one in enumerate(layout.shards, 1)]
    assert borders(plan(1, 2), shards) == ((90,), (100, 200))
    with pytest.raises(TargetError):
        borders(plan(1, 4), shards)


def test_copies_end_by_lane_in_shards_that_were_split_or_merged_since() -> None:
    space = KeySpace.equal(2)
    split = new_layout(2).split("shardId-000000000001", 3 * 2**126)
    assert last_numbers(split, space, (5, 9)) == {0: 5, 1: 9, 2: 9, 3: 9}
    merged = new_layout(2).merge("shardId-000000000000", "shardId-000000000001")
    assert last_numbers(merged, space, (5, 9))[2] == 9
    assert reader_starts(new_layout(2), (0, 9)) == [
        ("shardId-000000000000", "TRIM_HORIZON"),
        ("shardId-000000000001", "9"),
    ]

"""The journal of a migration in a folder: one entry of a number, whoever comes late; damage; acknowledgements."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from keylane.errors import FencedError, TargetError, UsageError
from keylane.migration.cutover import Entry
from keylane.systems.journal import document_file
from keylane.systems.migration_journal import KIND, FolderJournal, MigrationView, migration_gate, parents_of

if TYPE_CHECKING:
    from pathlib import Path

PLAN = {"old": {"lanes": 2}, "new": {"lanes": 3}, "drain": {"0": [0, 1], "1": [1], "2": [0]}, "drain_rule": "gcd"}


@pytest.fixture
def journal(tmp_path: Path) -> FolderJournal:
    found = FolderJournal(tmp_path / "j")
    found.begin(PLAN)
    return found


def test_what_was_appended_is_there_for_everybody(journal: FolderJournal) -> None:
    entries = Entry(0, 1, "begun", at=1.5), Entry(1, 2, "holding"), Entry(2, 2, "fenced", (4, 5))
    for entry in entries:
        journal.append(entry)
    assert FolderJournal(journal.path).entries() == entries
    assert migration_gate(journal.path) is None
    journal.append(Entry(3, 2, "open", (4, 5), (4, 5, 0)))
    gate = migration_gate(journal.path)
    assert gate is not None
    assert (gate.fences, gate.starts, gate.parents) == ((4, 5), (4, 5, 0), ((0, 1), (1,), (0,)))


def test_a_driver_that_is_late_is_refused(journal: FolderJournal) -> None:
    late = FolderJournal(journal.path)
    journal.append(Entry(0, 1, "begun"))
    assert len(late.entries()) == 1
    journal.append(Entry(1, 2, "holding"))
    for entry in (Entry(1, 1, "holding"), Entry(1, 3, "rolled-back"), Entry(2, 1, "fenced", (0, 0))):
        with pytest.raises(FencedError, match="another process drives this migration"):
            late.append(entry)
    assert len(journal.entries()) == 2


def test_of_two_drivers_at_the_same_moment_one_appends(journal: FolderJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked, and nobody has appended yet: the name of the file decides."""
    late = FolderJournal(journal.path)
    seen = late.entries()
    journal.append(Entry(0, 1, "begun"))
    monkeypatch.setattr(FolderJournal, "entries", lambda _: seen)
    with pytest.raises(FencedError):
        late.append(Entry(0, 2, "begun"))


def test_of_two_plans_at_the_same_moment_one_is_begun(journal: FolderJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    late, looks = FolderJournal(journal.path), [None, PLAN]
    monkeypatch.setattr(late, "plan", lambda: looks.pop(0))
    with pytest.raises(TargetError, match="the journal is of another plan"):
        late.begin({**PLAN, "drain_rule": "same"})
    assert journal.plan() == PLAN


def test_damage_is_an_error(journal: FolderJournal) -> None:
    journal.append(Entry(0, 1, "begun"))
    file = document_file(journal.path, KIND, 0)
    file.write_text(file.read_text().replace("begun", "done"))
    with pytest.raises(TargetError, match="damaged"):
        FolderJournal(journal.path).entries()


@pytest.mark.parametrize("lost", ["plan.json", "_keylane/entries/0000000000.json", "_keylane/entries"])
def test_a_journal_that_lost_its_beginning_is_not_taken_for_a_new_one(journal: FolderJournal, lost: str) -> None:
    """Producers would go on under the old contract."""
    for entry in (Entry(0, 1, "begun"), Entry(1, 2, "holding")):
        journal.append(entry)
    file = journal.path / lost
    if file.is_dir():
        shutil.rmtree(file)
    else:
        file.unlink()
    with pytest.raises(TargetError, match="is missing"):
        MigrationView(journal.path).look()


def test_an_acknowledgement_is_of_one_hold(journal: FolderJournal) -> None:
    journal.acknowledge("api", 1)
    journal.acknowledge("web", 3)
    assert [sorted(journal.stopped(hold)) for hold in (1, 2, 3)] == [["api"], [], ["web"]]
    with pytest.raises(UsageError, match="not a name of a producer"):
        journal.acknowledge("../api", 1)


def test_another_plan_is_refused_and_none_is_no_migration(journal: FolderJournal, tmp_path: Path) -> None:
    journal.begin(PLAN)
    with pytest.raises(TargetError, match="the journal is of another plan"):
        journal.begin({**PLAN, "drain_rule": "same"})
    assert MigrationView(tmp_path / "none").look() == ()
    for rule in ("every-lane", "gcd"):
        assert parents_of({**PLAN, "drain": {}, "drain_rule": rule}) == ((0, 1),) * 3, "too many to list, not none"
    assert parents_of({**PLAN, "drain": {"0": [], "1": [], "2": []}, "drain_rule": "none"}) == ((),) * 3

"""What a stream keeps of its migration: which plan, and how far the journal was. By it an older copy is found.

A journal is a folder that anybody can lose, copy or restore; then it says that less was done than was, and whoever goes
by it would begin the migration anew, hold producers, or copy records a second time. So the stream itself keeps a mark,
which only grows: the plan, the number of entries and their digest. `check_mark` compares a journal with it.

A mark is written behind the entry that it names, so a journal may be ahead of it, and never behind. Not while producers
are held: what it would cost is their pause. Where the system keeps none, or has forgotten it, lane counts are left.

Where a mark is kept: `Migrator.mark`. Who writes it: `keylane.systems.migrations`.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from keylane.errors import TargetError
from keylane.migration.cutover import OVER, phase_of
from keylane.numbers import plural
from keylane.systems.migration_journal import entry_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.migration.cutover import Entry


class MigrationMark(NamedTuple):
    """A mark, as a stream keeps it."""

    plan: str
    #: Where the journal was.
    journal: str
    entries: int
    #: Of the entries, in their order.
    digest: str
    phase: str

    @classmethod
    def of(cls, plan: Mapping[str, Any], journal: str, entries: Sequence[Entry]) -> MigrationMark:
        """The mark of a journal as it is."""
        return cls(plan_digest(plan), journal, len(entries), _digest(entries), str(phase_of(entries)))

    @classmethod
    def from_text(cls, text: str) -> MigrationMark | None:
        """A mark as it was kept; None where there is none, or what is there is none.

        >>> MigrationMark.from_text(MigrationMark("p", "j", 1, "d", "begun").as_text())
        MigrationMark(plan='p', journal='j', entries=1, digest='d', phase='begun')
        >>> MigrationMark.from_text(""), MigrationMark.from_text("17")
        (None, None)
        """
        try:
            found = json.loads(text)
            plan, journal, digest, phase = (str(found[name]) for name in ("plan", "journal", "digest", "phase"))
            return cls(plan, journal, int(found["entries"]), digest, phase)
        except (ValueError, KeyError, TypeError):
            return None

    def as_text(self) -> str:
        """As it is kept."""
        return json.dumps(self._asdict(), separators=(",", ":"))


def plan_digest(plan: Mapping[str, Any]) -> str:
    """What a plan is known by."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def check_mark(mark: MigrationMark | None, plan: Mapping[str, Any], journal: str, entries: Sequence[Entry]) -> None:
    """Refuse a journal that is behind what its stream knows, or not of the migration that the stream is in."""
    if mark is None:
        return
    here = f"{plural(len(entries), 'entry')}, the last {phase_of(entries)}" if entries else "no entry"
    there = f"{plural(mark.entries, 'entry')}, the last {mark.phase}, kept in {mark.journal}"
    if mark.plan != plan_digest(plan):
        if mark.phase in OVER or phase_of(entries) in OVER:
            return
        hint = (
            f"its journal is {mark.journal}: end that one first, by migrate run, or by migrate rollback with its plan"
        )
        what = "the stream is in the migration of another plan; nothing was changed"
        raise TargetError.of(what, got=f"{journal}: {here}", allowed=there, hint=hint)
    if not entries and mark.phase == "rolled-back":
        # The stream is as it was before, and the plan may be begun anew.
        return
    if len(entries) < mark.entries:
        what = "the journal is behind its stream: it is an older copy" if entries else "the journal is not there"
        hint = "restore it as it was last, or name where it is: --journal ADDRESS"
        if mark.phase in OVER:
            hint += "; nothing is left to be run, the journal is for readers by the gate and for migrate verify"
        raise TargetError.of(f"{what}; nothing was changed", got=f"{journal}: {here}", allowed=there, hint=hint)
    if _digest(entries[: mark.entries]) != mark.digest:
        what = "the journal is not the one that its stream knows: an older copy was driven on; nothing was changed"
        hint = f"the journal that was kept in {mark.journal}, as it was last: --journal ADDRESS"
        raise TargetError.of(what, got=f"{journal}: {here}", allowed=there, hint=hint)


def _digest(entries: Sequence[Entry]) -> str:
    text = json.dumps([entry_to_json(one) for one in entries], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]

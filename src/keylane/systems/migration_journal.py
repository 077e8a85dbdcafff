"""Where a migration is recorded: its plan, its entries, and which producers have stopped. A folder; any other by name.

    plan.json                        the plan, as it was saved
    _keylane/entries/0000000003.json an entry; a second one of a number is refused by the file system
    _keylane/stopped/NAME.json       the entry `holding` that a producer has acknowledged last
    _keylane/lease.sqlite            who drives

An entry is appended by giving its file a name that must not exist: whoever comes second is refused, however late. That
is the fence; the lease only keeps two drivers from working side by side. Readers and producers look at the same folder,
so it has to be one that all of them see; a topic for those on other machines is `keylane.systems.kafka.migration`.

What entries mean: `keylane.migration.cutover`. Who appends them: `migrations`.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from keylane.errors import FencedError, TargetError, UsageError
from keylane.migration.cutover import PHASES, Entry, accepts, opened, phase_of
from keylane.migration.gate import LaneGate, MirrorGate
from keylane.systems.atomic import make_folder, replace_text, write_json
from keylane.systems.journal import OWN, decoded, document_file, missing, numbers, read_document, with_checksum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from keylane.systems.endpoint import StreamOptions

KIND: Final = "entries"
#: Producers are named in files and headers.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class MigrationJournal(Protocol):
    """The journal of one migration. Every call looks at what is there now."""

    def plan(self) -> dict[str, Any] | None:
        """The plan that it is of; None where it was not begun."""

    def begin(self, plan: dict[str, Any]) -> None:
        """Keep the plan; a journal of another plan is refused."""

    def entries(self) -> tuple[Entry, ...]:
        """All entries, in their order."""

    def append(self, entry: Entry) -> None:
        """Append an entry, durably; FencedError where another driver has appended one, or the journal refuses it."""

    def stopped(self, hold: int) -> frozenset[str]:
        """The producers that have acknowledged the entry `holding` of this number."""

    def acknowledge(self, producer: str, hold: int) -> None:
        """Note that a producer has stopped, and has nothing on its way."""


def check_producer(name: str) -> str:
    """Refuse what is no name of a producer."""
    if not NAME.fullmatch(name):
        raise UsageError.of("not a name of a producer", got=name, allowed="letters, digits, '.', '_', '-'; at most 100")
    return name


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """An entry as it is kept; `entry_from_json` is the inverse."""
    return {
        "batch": entry.number,
        "claim": entry.claim,
        "phase": entry.phase,
        "fences": list(entry.fences),
        "starts": list(entry.starts),
        "at": entry.at,
        **({"calls": entry.calls} if entry.calls else {}),
        **({"unread": list(entry.unread)} if entry.unread else {}),
    }


def entry_from_json(found: Any) -> Entry:
    """An entry as it was kept."""
    if found["phase"] not in PHASES:
        raise ValueError(f"phase {found['phase']!r}")
    fences, starts = (tuple(map(int, found[name])) for name in ("fences", "starts"))
    calls, unread = int(found.get("calls", 0)), tuple(map(int, found.get("unread", ())))
    number, claim = int(found["batch"]), int(found["claim"])
    return Entry(number, claim, found["phase"], fences, starts, float(found["at"]), calls, unread)


def check_appended(entries: Sequence[Entry], entry: Entry) -> None:
    """Refuse an entry that does not follow: another driver has appended meanwhile."""
    if not accepts(entries, entry):
        last = entries[-1] if entries else None
        got = f"entry {entry.number}, {entry.phase}, of claim {entry.claim}"
        allowed = f"what follows entry {last.number}, {last.phase}, of claim {last.claim}" if last else "entry 0, begun"
        raise FencedError.of("another process drives this migration; nothing was done", got=got, allowed=allowed)


def check_same_plan(kept: dict[str, Any] | None, plan: dict[str, Any], where: str) -> bool:
    """Whether a journal is new; one of another plan is refused."""
    if kept is not None and kept != plan:
        hint = "another --journal, or the plan that this one was begun with"
        raise TargetError.of("the journal is of another plan", got=where, hint=hint)
    return kept is None


class FolderJournal:
    """A journal in a folder. Nothing is made before `begin`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: list[Entry] = []

    def plan(self) -> dict[str, Any] | None:
        """The plan that it is of."""
        try:
            found = json.loads((self.path / "plan.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            if numbers(self.path, KIND):
                # Taken for a journal that was not begun, it would let producers go on under the old contract.
                raise missing(self.path / "plan.json") from None
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise TargetError.of("the journal of a migration is damaged", got=f"{self.path}: {error}") from None
        if not (self.path / OWN / KIND).is_dir():
            raise missing(self.path / OWN / KIND)
        return found if isinstance(found, dict) else {}

    def begin(self, plan: dict[str, Any]) -> None:
        """Keep the plan."""
        if check_same_plan(self.plan(), plan, str(self.path)):
            for kind in (KIND, "stopped"):
                make_folder(self.path / OWN / kind)
            try:
                _make(self.path / "plan.json", plan)
            except FileExistsError:
                # Begun by another driver meanwhile, and perhaps by another plan.
                check_same_plan(self.plan(), plan, str(self.path))

    def entries(self) -> tuple[Entry, ...]:
        """All entries. An entry never changes, so that one that was read is not read again."""
        there = numbers(self.path, KIND)
        if there and there[0]:
            raise missing(document_file(self.path, KIND, 0))
        for number in there[len(self._known) :]:
            file = document_file(self.path, KIND, number)
            entry = decoded(file, read_document(file), entry_from_json)
            if entry.number != number:
                raise TargetError.of("the journal of a migration is damaged", got=f"{file} is of entry {entry.number}")
            self._known.append(entry)
        return tuple(self._known)

    def append(self, entry: Entry) -> None:
        """Append an entry: its file is new, or another driver has made it."""
        check_appended(self.entries(), entry)
        file = document_file(self.path, KIND, entry.number)
        try:
            _make(file, with_checksum(entry_to_json(entry)))
        except FileExistsError:
            check_appended(self.entries(), entry)
            raise FencedError.of("another process drives this migration; nothing was done", got=str(file)) from None

    def stopped(self, hold: int) -> frozenset[str]:
        """By a file for each producer."""
        files = (self.path / OWN / "stopped").glob("*.json")
        return frozenset(file.stem for file in files if (read_document(file) or {}).get("hold") == hold)

    def acknowledge(self, producer: str, hold: int) -> None:
        """Replace the file of the producer."""
        file = self.path / OWN / "stopped" / f"{check_producer(producer)}.json"
        write_json(file, with_checksum({"producer": producer, "hold": hold}))


def _make(file: Path, document: dict[str, Any]) -> None:
    """Write a file that is not there; FileExistsError where another process has made it."""

    def check_absent() -> None:
        if file.exists():
            raise FileExistsError(str(file))

    replace_text(file, json.dumps(document), check_absent)


def open_journal(
    given: str | os.PathLike[str] | MigrationJournal, options: StreamOptions | None = None
) -> MigrationJournal:
    """The journal at an address: a folder, or `kafka://host:port/topic`."""
    if not isinstance(given, str | os.PathLike):
        return given
    from keylane.systems.endpoint import open_endpoint

    return open_endpoint(os.fspath(given), options).migration_journal()


def parents_of(plan: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The parents of each new lane, as a plan has them; all old lanes where they were too many to list."""
    drain, lanes = plan["drain"], int(plan["new"]["lanes"])
    if not drain:
        return (tuple(range(int(plan["old"]["lanes"]))),) * lanes
    return tuple(tuple(int(old) for old in drain.get(str(lane), ())) for lane in range(lanes))


class MigrationView:
    """What a journal says to producers and readers. `look` reads it; the rest is as of the last look."""

    def __init__(
        self, journal: str | os.PathLike[str] | MigrationJournal, options: StreamOptions | None = None
    ) -> None:
        self.journal = open_journal(journal, options)
        self.entries: tuple[Entry, ...] = ()
        self.plan: dict[str, Any] = {}
        self.gate: LaneGate | None = None

    @property
    def is_mirror(self) -> bool:
        """Whether records are copied into another stream."""
        return bool(self.plan) and self.plan["mode"] == "mirror"

    @property
    def mirror_gate(self) -> MirrorGate:
        """What may be applied of both streams of a mirror."""
        return MirrorGate(self.gate, rolled_back=phase_of(self.entries) == "rolled-back")

    def look(self) -> tuple[Entry, ...]:
        """The entries as they are now; none before the migration was begun."""
        if not self.plan:
            self.plan = self.journal.plan() or {}
        self.entries = self.journal.entries() if self.plan else ()
        if self.gate is None and (entry := opened(self.entries)) is not None:
            self.gate = LaneGate.of(entry, parents_of(self.plan))
        return self.entries


def migration_gate(
    journal: str | os.PathLike[str] | MigrationJournal, options: StreamOptions | None = None
) -> LaneGate | None:
    """The gate of a migration by its journal; None while all records are of the old contract."""
    view = MigrationView(journal, options)
    view.look()
    return view.gate

"""What a long-running pipeline records, in a folder of its own: `FOLDER/_keylane/`.

    KIND/0000000012.json   a numbered document of one kind: a manifest, a plan, the counts of a batch
    staging/12-…/          files of a batch that is not committed yet
    checkpoint/            Spark's own: which records make a batch
    lock                   one writer at a time

Every document is written whole or not at all, and survives power failure once `write` returns (`systems.atomic`). It
carries a checksum of its content, and numbers have no gap: a document that was changed, cut, removed or replaced by
another is refused by its name, with or without the lock. What the documents mean, and which of them commits a batch,
is defined by `systems.folders.folder` and `systems.messages.state`. What Spark's checkpoint says: `systems.checkpoint`.
Spark, Arrow and pandas ignore names that begin with `_`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from keylane.errors import TargetError
from keylane.systems.atomic import locked, make_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.systems.atomic import Lock

    #: Called at the named steps of a commit, with the batch; tests stop the process there.
    Probe = Callable[[str, int], None]

OWN: Final = "_keylane"
#: The field of a document that holds the digest of all others.
CHECKSUM: Final = "checksum"
RESTORE: Final = "restore it from a backup of the same moment as the rest, or route into a new target"
T = TypeVar("T")


def no_probe(_step: str, _batch: int) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of a folder, its lock held. `path` is the folder that the journal is about."""

    path: Path
    lock: Lock

    @property
    def own(self) -> Path:
        """The folder of keylane's own files."""
        return self.path / OWN

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return self.own / "checkpoint"

    def document(self, kind: str, number: int) -> Any:
        """A numbered document; None where there is none."""
        return _numbered(self.path, kind, number)

    def write(self, kind: str, number: int, document: Any, keep: int | None = None) -> None:
        """Write a numbered document; with `keep`, remove all but the last `keep` of its kind."""
        write_document(document_file(self.path, kind, number), document)
        if keep is not None:
            self.forget(kind, keep)

    def forget(self, kind: str, keep: int) -> None:
        """Remove all but the last `keep` documents of a kind."""
        for old in self.numbers(kind)[:-keep]:
            document_file(self.path, kind, old).unlink(missing_ok=True)

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the documents of a kind that are kept, oldest first."""
        return numbers(self.path, kind)

    def staging(self, batch: int) -> Path:
        """A new folder for the files of a batch. No two attempts share one, so a late task of the last does no harm."""
        folder = self.own / "staging" / f"{batch:010d}-{uuid4().hex[:12]}"
        folder.mkdir()
        return folder

    def clear_staging(self) -> None:
        """Remove the files of batches that were not committed."""
        shutil.rmtree(self.own / "staging", ignore_errors=True)
        (self.own / "staging").mkdir(exist_ok=True)


@dataclass(frozen=True, slots=True)
class Journalled:
    """A folder that has a journal, whose lock is held."""

    journal: Journal

    @property
    def path(self) -> Path:
        """The folder."""
        return self.journal.path

    @property
    def lock(self) -> Lock:
        """The lock that is held."""
        return self.journal.lock

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return self.journal.checkpoint


@contextmanager
def hold_journal(path: Path, *kinds: str) -> Iterator[Journal]:
    """The journal of a folder, created if missing, and locked."""
    for folder in (path / OWN, *(path / OWN / kind for kind in kinds)):
        make_folder(folder)
    with locked(path / OWN / "lock") as lock:
        yield Journal(path, lock)


def last_document(path: Path, kind: str) -> tuple[int, Any]:
    """The last numbered document of a kind and its number, without the lock; -1 and None where there is none."""
    kept = numbers(path, kind)
    return (kept[-1], _numbered(path, kind, kept[-1])) if kept else (-1, None)


def documents(path: Path, kind: str) -> list[Any]:
    """The numbered documents of a kind that are kept, oldest first, without the lock."""
    kept = (_numbered(path, kind, number) for number in numbers(path, kind))
    return [document for document in kept if document is not None]


def numbers(path: Path, kind: str) -> list[int]:
    """The numbers of the documents of a kind that are kept, oldest first. A gap is an error: a document is missing."""
    kept = sorted(int(file.stem) for file in (path / OWN / kind).glob("[0-9]*.json") if file.stem.isdigit())
    for before, after in pairwise(kept):
        gap = document_file(path, kind, before + 1)
        # Seen again: without the lock, a writer may have added and removed some while they were listed.
        if after != before + 1 and document_file(path, kind, before).exists() and not gap.exists():
            raise missing(gap)
    return kept


def check_oldest(path: Path, kind: str, keep: int) -> None:
    """Refuse documents of a kind the oldest of which is missing: only when there are `keep` of them is one removed."""
    kept = numbers(path, kind)
    if kept and kept[0] > 0 and len(kept) < keep:
        raise missing(document_file(path, kind, kept[0] - 1))


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write a document with its checksum."""
    write_json(path, with_checksum(document))


def with_checksum(document: dict[str, Any]) -> dict[str, Any]:
    """A document as it is written."""
    return {**document, CHECKSUM: _checksum(document)}


def read_document(path: Path, form: str = "") -> Any:
    """A document as it was written, its checksum compared; None where there is none. `form` is its `format`, if any."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(document, dict):
        raise damaged(path, "not an object")
    # Before the checksum: another version of keylane may have written it in another way.
    if form and document.get("format") != form:
        raise TargetError.of(f"{path} has another format", got=document.get("format"), allowed=form)
    if document.pop(CHECKSUM, None) != _checksum(document):
        raise damaged(path, "its content does not match its checksum")
    return document


def decoded(path: Path, document: Any, form: Callable[[Any], T]) -> T:
    """The value that a document stands for; one that lacks a field, or has one of another type, is damaged."""
    try:
        return form(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def damaged(path: Path, how: str) -> TargetError:
    """The error for a file that is not what was written."""
    return TargetError.of(f"{path}, a file of keylane's own, is damaged", got=how, hint=RESTORE)


def missing(path: Path) -> TargetError:
    """The error for a file that has to be there."""
    return TargetError.of(f"{path}, a file of keylane's own, is missing", hint=RESTORE)


def document_file(path: Path, kind: str, number: int) -> Path:
    """Where a numbered document of a kind is."""
    return path / OWN / kind / f"{number:010d}.json"


def _numbered(path: Path, kind: str, number: int) -> Any:
    """A numbered document. One with another number inside was copied there."""
    file = document_file(path, kind, number)
    document = read_document(file)
    if document is not None and document.get("batch") != number:
        raise damaged(file, f"it is of batch {document.get('batch')}")
    return document


def _checksum(document: dict[str, Any]) -> str:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

"""What a long-running pipeline records, in a folder of its own: `FOLDER/_keylane/`.

    KIND/0000000012.json   a numbered document of one kind: a manifest, a plan, the counts of a batch
    staging/12-…/          files of a batch that is not committed yet
    checkpoint/            Spark's own: which records make a batch
    lock                   one writer at a time

Every document is written whole or not at all, and survives power failure once `write` returns (`systems.atomic`). What
the documents mean, and which of them commits a batch, is defined by `systems.folders.folder` and
`systems.kafka.state`. Spark, Arrow and pandas ignore names that begin with `_`.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from keylane.errors import TargetError
from keylane.systems.atomic import locked, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.systems.atomic import Lock

    #: Called at the named steps of a commit, with the batch; tests stop the process there.
    Probe = Callable[[str, int], None]

OWN: Final = "_keylane"


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
        return read_document(_file(self.path, kind, number))

    def write(self, kind: str, number: int, document: Any, keep: int | None = None) -> None:
        """Write a numbered document; with `keep`, remove all but the last `keep` of its kind."""
        write_json(_file(self.path, kind, number), document)
        if keep is not None:
            self.forget(kind, keep)

    def forget(self, kind: str, keep: int) -> None:
        """Remove all but the last `keep` documents of a kind."""
        for old in self.numbers(kind)[:-keep]:
            _file(self.path, kind, old).unlink(missing_ok=True)

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the documents of a kind that are kept, oldest first."""
        return _numbers(self.path, kind)

    def staging(self, batch: int) -> Path:
        """A new folder for the files of a batch. No two attempts share one, so a late task of the last does no harm."""
        folder = self.own / "staging" / f"{batch:010d}-{uuid4().hex[:12]}"
        folder.mkdir()
        return folder

    def clear_staging(self) -> None:
        """Remove the files of batches that were not committed."""
        shutil.rmtree(self.own / "staging", ignore_errors=True)
        (self.own / "staging").mkdir(exist_ok=True)


@contextmanager
def hold_journal(path: Path, *kinds: str) -> Iterator[Journal]:
    """The journal of a folder, created if missing, and locked."""
    for folder in (path / OWN, *(path / OWN / kind for kind in kinds)):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(path / OWN / "lock") as lock:
        yield Journal(path, lock)


def last_document(path: Path, kind: str) -> tuple[int, Any]:
    """The last numbered document of a kind and its number, without the lock; -1 and None where there is none."""
    numbers = _numbers(path, kind)
    return (numbers[-1], read_document(_file(path, kind, numbers[-1]))) if numbers else (-1, None)


def documents(path: Path, kind: str) -> list[Any]:
    """The numbered documents of a kind that are kept, oldest first, without the lock."""
    kept = (read_document(_file(path, kind, number)) for number in _numbers(path, kind))
    return [document for document in kept if document is not None]


def read_document(path: Path) -> Any:
    """A document as it was written; None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise TargetError.of("keylane's own files are damaged", got=f"{path}: {error}") from error


def _file(path: Path, kind: str, number: int) -> Path:
    return path / OWN / kind / f"{number:010d}.json"


def _numbers(path: Path, kind: str) -> list[int]:
    return sorted(int(file.stem) for file in (path / OWN / kind).glob("[0-9]*.json") if file.stem.isdigit())

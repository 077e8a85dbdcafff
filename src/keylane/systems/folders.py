"""A stream on disk: `TARGET/stream=payments/lane=7/part-0000000012.parquet`, exactly once for all who list files.

    TARGET/stream=S/lane=N/part-B.parquet   records of batch B in lane N of stream S; part-B-C after compaction
    TARGET/_dead/part-B.dead                dead letters of batch B: Parquet that no pattern for data files matches
    TARGET/_keylane/target.json             the head: contract, streams, source
    TARGET/_keylane/batches/B.json          the manifest of batch B
    TARGET/_keylane/staging/B-…/            files of a batch that has not happened yet
    TARGET/_keylane/checkpoint/             Spark's own
    TARGET/_keylane/lock                    one writer at a time

Names that begin with `_` are passed over by Spark, Arrow and pandas. A batch is staged, forced to the disk, and then
happens in one step: its manifest appears. Only after that are its files renamed into their lanes, each once, and a
process that finds a manifest whose files still wait moves them first of all. So a kill at any point leaves a batch that
either never happened, and is made again from the start, or has happened, and is only moved.

Reading sources is in `files` and `keylane.spark`; merging small files is in `compaction`.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from keylane.errors import TargetError
from keylane.systems.durable import force, force_all, write_json
from keylane.systems.lock import locked
from keylane.systems.manifest import Head, Manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.systems.lock import Lock

    #: Told of every step of a commit, by name and batch; tests stop the process there.
    Probe = Callable[[str, int], None]

__all__ = [
    "DEAD",
    "OWN",
    "Target",
    "dead_file",
    "hold",
    "lane_file",
    "lane_folder",
    "no_probe",
    "open_target",
    "read_head",
    "read_manifests",
]

OWN: Final = "_keylane"
DEAD: Final = "_dead"
#: Manifests are cumulative: only the last one is needed. The others are kept for people.
KEPT_MANIFESTS: Final = 100


def lane_folder(stream: str, lane: int) -> str:
    """The folder of a lane, from the target."""
    return f"stream={stream}/lane={lane}"


def lane_file(stream: str, lane: int, batch: int) -> str:
    """The one file that a batch adds to a lane, from the target. Its name is known before it is written."""
    return f"{lane_folder(stream, lane)}/part-{batch:010d}.parquet"


def dead_file(batch: int) -> str:
    """The one file of dead letters that a batch adds, from the target."""
    return f"{DEAD}/part-{batch:010d}.dead"


def no_probe(_point: str, _batch: int) -> None:
    """Watch nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """A folder that is keylane's, and whose lock is held."""

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

    def head(self) -> Head | None:
        """The head, when there is one."""
        return read_head(self.path)

    def begin(self, head: Head) -> None:
        """Write the head of a new target."""
        for folder in ("batches", "staging"):
            (self.own / folder).mkdir(exist_ok=True)
        write_json(self.own / "target.json", head.as_json())

    def manifest(self, batch: int) -> Manifest | None:
        """The manifest of a batch, when it has happened and is still kept."""
        path = self.own / "batches" / f"{batch:010d}.json"
        return Manifest.from_json(_read_json(path)) if path.exists() else None

    def latest(self) -> Manifest | None:
        """The manifest of the last batch that has happened."""
        batches = self._batches()
        return self.manifest(batches[-1]) if batches else None

    def manifests(self) -> Iterator[Manifest]:
        """Those that are kept, oldest first."""
        yield from (found for batch in self._batches() if (found := self.manifest(batch)) is not None)

    def staging(self, batch: int) -> Path:
        """A new folder for the files of a batch; no two attempts share one, so a straggler of the last harms nobody."""
        folder = self.own / "staging" / f"{batch:010d}-{uuid4().hex[:12]}"
        folder.mkdir()
        return folder

    def recover(self) -> Manifest | None:
        """Finish the last batch that has happened, throw away what has not, and return where the target stands."""
        last = self.latest()
        if last is not None:
            self._move(last, no_probe)
        shutil.rmtree(self.own / "staging", ignore_errors=True)
        (self.own / "staging").mkdir(exist_ok=True)
        return last

    def commit(self, manifest: Manifest, probe: Probe = no_probe) -> None:
        """Let a staged batch happen, then move its files to their lanes."""
        staging = self.own / "staging" / manifest.staging
        for one in manifest.placed:
            force(staging / one.staged)
        force_all([(staging / one.staged).parent for one in manifest.placed] + [staging, staging.parent])
        probe("forced", manifest.batch)
        write_json(self.own / "batches" / f"{manifest.batch:010d}.json", manifest.as_json())
        probe("happened", manifest.batch)
        self._move(manifest, probe)
        self._forget()
        probe("moved", manifest.batch)

    def _move(self, manifest: Manifest, probe: Probe) -> None:
        """Rename what still waits. The staging folder goes last: while it is there, the move is not over."""
        staging = self.own / "staging" / manifest.staging
        if not manifest.staging or not staging.exists():
            return
        folders = set()
        for one in manifest.placed:
            final = self.path / one.final
            self._make(final.parent)
            _rename(staging / one.staged, final)
            folders.add(final.parent)
            probe("renamed", manifest.batch)
        force_all(sorted(folders))
        shutil.rmtree(staging)

    def _make(self, folder: Path) -> None:
        """Make a lane's folder, and its name last through a power cut."""
        if not folder.exists():
            self._make(folder.parent)
            folder.mkdir(exist_ok=True)
            force(folder.parent)

    def _batches(self) -> list[int]:
        folder = self.own / "batches"
        return sorted(int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit()) if folder.exists() else []

    def _forget(self) -> None:
        for batch in self._batches()[:-KEPT_MANIFESTS]:
            (self.own / "batches" / f"{batch:010d}.json").unlink(missing_ok=True)


@contextmanager
def hold(path: Path) -> Iterator[Target]:
    """A target that exists, locked. What a killed process left is still there: `recover` is the caller's to ask for."""
    if not (path / OWN / "target.json").exists():
        raise _foreign(path)
    with locked(path / OWN / "lock") as lock:
        yield Target(path, lock)


@contextmanager
def open_target(path: Path, head: Head) -> Iterator[Target]:
    """The target for this head, made when there is none: locked, of the same contract and source, and recovered."""
    _check_free(path)
    (path / OWN).mkdir(parents=True, exist_ok=True)
    with locked(path / OWN / "lock") as lock:
        target = Target(path, lock)
        found = target.head()
        if found is None:
            target.begin(head)
        elif found != head:
            raise _other(path, found, head)
        yield target


def read_head(path: Path) -> Head | None:
    """The head of a target, without its lock; None when there is no such target."""
    found = path / OWN / "target.json"
    return Head.from_json(_read_json(found)) if found.exists() else None


def read_manifests(path: Path) -> list[Manifest]:
    """The manifests of a target that are kept, oldest first, without its lock."""
    files = sorted((path / OWN / "batches").glob("[0-9]*.json"))
    return [Manifest.from_json(_read_json(file)) for file in files]


def _check_free(path: Path) -> None:
    """Refuse a folder that holds anything and is not keylane's; touch nothing in it."""
    if path.exists() and not path.is_dir():
        raise TargetError.of("the target is not a folder", got=str(path))
    if path.exists() and not (path / OWN / "target.json").exists():
        # A first start that was killed leaves the lock and nothing else.
        left = [entry.name for entry in path.iterdir() if entry.name != OWN]
        inside = [e.name for e in (path / OWN).iterdir()] if (path / OWN).is_dir() else []
        if left or set(inside) - {"lock", "batches", "staging", ".target.json.new"}:
            raise _foreign(path)


def _foreign(path: Path) -> TargetError:
    return TargetError.of(
        "the target is not a keylane folder; nothing in it was touched",
        got=str(path),
        allowed="a new or empty folder, or one that keylane made",
    )


def _other(path: Path, found: Head, given: Head) -> TargetError:
    hint = "another target, or the contract and source that this one was made with"
    if found.fingerprint == given.fingerprint and found.streams == given.streams:
        return TargetError.of(f"{path} takes from another source", got="; ".join(found.differences(given)), hint=hint)
    return TargetError.of(f"{path} belongs to another contract", got="; ".join(found.differences(given)), hint=hint)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TargetError.of("the target is damaged", got=f"{path}: {error}") from error


def _rename(staged: Path, final: Path) -> None:
    if not staged.exists():
        if not final.exists():
            raise TargetError.of("the target is damaged: a file of its last batch is gone", got=str(final))
        return
    if final.exists():
        raise TargetError.of("the target is damaged: a file is in the way of the last batch", got=str(final))
    staged.rename(final)

"""A stream on disk: `TARGET/stream=payments/lane=7/part-0000000012.parquet`, exactly once for every reader.

    TARGET/stream=S/lane=N/part-B.parquet   records of batch B in lane N of stream S; part-B-C after compaction
    TARGET/_dead/part-B.dead                dead letters of batch B: Parquet that no pattern for data files matches
    TARGET/_keylane/target.json             the metadata: contract, streams, source
    TARGET/_keylane/batches/B.json          the manifest of batch B
    TARGET/_keylane/staging/B-…/            files of a batch that is not committed yet
    TARGET/_keylane/checkpoint/             Spark's own
    TARGET/_keylane/lock                    one writer at a time

Spark, Arrow and pandas ignore names that begin with `_`. A batch is staged, forced to the disk, and then committed in
one step: its manifest appears. Only after that are its files renamed into their lanes, each once, and a process that
finds a manifest whose files are still staged moves them first of all. So a kill at any point leaves a batch that is
either not committed, and is repeated from the start, or is committed, and is only moved.

Reading sources is in `files` and `keylane.spark`; merging small files is in `compaction`.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self

from keylane.errors import CountError, TargetError
from keylane.systems.atomic import force_all, make_folder, make_folders
from keylane.systems.identity import same_stream
from keylane.systems.journal import (
    OWN,
    Journalled,
    check_oldest,
    decoded,
    document_file,
    documents,
    hold_journal,
    last_document,
    missing,
    no_probe,
    read_document,
    write_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from keylane.systems.journal import Probe


# What is recorded about a stream folder: its metadata, and one manifest for each batch. Values and their JSON only.

FORMAT: Final = "keylane.folder/2"


@dataclass(frozen=True, slots=True)
class Counts:
    """Records by outcome."""

    in_: int = 0
    out: int = 0
    dead: int = 0
    filtered: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def checked(self, where: str, hint: str = "") -> Counts:
        """The counts themselves if they add up; otherwise an error."""
        if self.in_ != self.out + self.dead + self.filtered:
            got = f"in {self.in_}, out {self.out}, dead {self.dead}, filtered {self.filtered}"
            raise CountError.of(
                f"the records of {where} do not add up", got=got, allowed="in = out + dead + filtered", hint=hint
            )
        return self

    def as_json(self) -> dict[str, int]:
        """With `in`, a reserved word of Python."""
        return {"in": self.in_, "out": self.out, "dead": self.dead, "filtered": self.filtered}

    @classmethod
    def from_json(cls, document: dict[str, int]) -> Self:
        """The inverse of `as_json`."""
        return cls(document["in"], document["out"], document["dead"], document["filtered"])


@dataclass(frozen=True, slots=True)
class Head:
    """What a target is for: one contract, its streams with their lane counts, one source.

    `source_id` is what the source's system knows it by; nothing where it has no such id, or did not report it.
    """

    contract: str
    epoch: int
    fingerprint: str
    streams: dict[str, int]
    source: str
    kind: str
    pattern: str
    source_id: str = ""
    csv_null: list[str] = field(default_factory=list)
    delimiter: str = ","

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `as_json`; another format than this version writes is refused by who reads the file."""
        return cls(**{f.name: document[f.name] for f in fields(cls)})

    def at(self, source: str) -> Self:
        """The same for another source."""
        return replace(self, source=source)

    def agrees(self, other: Head) -> bool:
        """Whether the other is of the same target; an id of the source may have become known, and its brokers moved."""
        if same_stream(self.source, other.source, self.source_id, other.source_id):
            other = other.at(self.source)
        return self == other or (not self.source_id and replace(self, source_id=other.source_id) == other)

    def differences(self, other: Head) -> list[str]:
        """What differs: this one's value, then the other's."""
        return [
            f"{f.name}: {getattr(self, f.name)} here, {getattr(other, f.name)} given"
            for f in fields(self)
            if getattr(self, f.name) != getattr(other, f.name)
        ]


@dataclass(frozen=True, slots=True)
class Placed:
    """One file of a batch: its path in the staging folder, its final path, and its records."""

    staged: str
    final: str
    records: int


@dataclass(frozen=True, slots=True)
class TakenFile:
    """One source file of a batch, as it was when it was read."""

    name: str
    size: int
    modified: int
    records: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a batch changes. Once it is written the batch is committed, even if the process is killed.

    `offsets` are those of the batch in Spark's checkpoint (`systems.checkpoint`): no other batch may have its number.
    """

    batch: int
    query: str
    fingerprint: str
    staging: str
    counts: Counts
    total: Counts
    next: dict[str, list[int]]
    next_dead: int
    placed: tuple[Placed, ...]
    taken: tuple[TakenFile, ...]
    next_position: int
    taken_files: int
    taken_bytes: int
    schema: str
    offsets: str = ""

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return {**asdict(self), "counts": self.counts.as_json(), "total": self.total.as_json()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        values = {f.name: document[f.name] for f in fields(cls)}
        values |= {name: Counts.from_json(document[name]) for name in ("counts", "total")}
        values["placed"] = tuple(Placed(**file) for file in document["placed"])
        values["taken"] = tuple(TakenFile(**file) for file in document["taken"])
        return cls(**values)

    @classmethod
    def before_all(cls, head: Head) -> Self:
        """The state of an empty target."""
        nothing = {stream: [0] * lanes for stream, lanes in head.streams.items()}
        return cls(-1, "", head.fingerprint, "", Counts(), Counts(), nothing, 0, (), (), 0, 0, 0, "")


DEAD: Final = "_dead"
_PART: Final = re.compile(r"part-(?:\d+-)?(\d+)\.\w+")
#: Manifests are cumulative: only the last one is needed. The others are kept for inspection.
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


@dataclass(frozen=True, slots=True)
class Target(Journalled):
    """A target folder whose lock is held."""

    def head(self) -> Head | None:
        """The metadata, if there is any."""
        return read_head(self.path)

    def begin(self, head: Head) -> None:
        """Write the metadata of a new target."""
        for folder in ("batches", "staging"):
            make_folder(self.journal.own / folder)
        # Of an attempt that committed nothing: another contract or source may have come after it.
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        write_document(self.journal.own / "target.json", head.as_json())

    def manifest(self, batch: int) -> Manifest | None:
        """The manifest of a batch, if it is committed and still kept."""
        return _manifest(self.path, batch, self.journal.document("batches", batch))

    def latest(self) -> Manifest | None:
        """The manifest of the last batch that is committed."""
        return read_latest(self.path)

    def staging(self, batch: int) -> Path:
        """A new folder for the files of a batch."""
        return self.journal.staging(batch)

    def recover(self) -> Manifest | None:
        """Finish the last batch that is committed, remove what is not, and return the last manifest."""
        last = check_whole(self.path)
        if last is not None:
            self._move(last, no_probe)
        self.journal.clear_staging()
        return last

    def commit(self, manifest: Manifest, probe: Probe = no_probe) -> None:
        """Commit a staged batch, then move its files to their lanes."""
        staging = self.journal.own / "staging" / manifest.staging
        force_all(staging / file.staged for file in manifest.placed)
        force_all([(staging / file.staged).parent for file in manifest.placed] + [staging, staging.parent])
        # Before the manifest, for what cannot be moved after it would stop every later start.
        make_folders((self.path / file.final).parent for file in manifest.placed)
        for file in manifest.placed:
            if (self.path / file.final).exists():
                raise _in_the_way(self.path / file.final)
        probe("forced", manifest.batch)
        self.journal.write("batches", manifest.batch, manifest.as_json())
        probe("committed", manifest.batch)
        self._move(manifest, probe)
        self.journal.forget("batches", KEPT_MANIFESTS)
        probe("moved", manifest.batch)

    def _move(self, manifest: Manifest, probe: Probe) -> None:
        """Rename staged files. The staging folder is removed last: while it exists, the move is not complete."""
        staging = self.journal.own / "staging" / manifest.staging
        if not manifest.staging or not staging.exists():
            return
        folders = {(self.path / file.final).parent for file in manifest.placed}
        make_folders(sorted(folders))
        for file in manifest.placed:
            _rename(staging / file.staged, self.path / file.final)
            probe("renamed", manifest.batch)
        # Also those above, which a process may have made that was killed before it forced them.
        force_all([*sorted(folders), *sorted({above for folder in folders for above in (folder.parent, self.path)})])
        shutil.rmtree(staging)


@contextmanager
def hold(path: Path) -> Iterator[Target]:
    """A target that exists, locked. What a killed process left is still there: call `recover`."""
    if not path.exists():
        raise TargetError.of("no such folder", got=str(path), allowed=_ROUTED)
    if read_head(path) is None:
        raise _foreign(path, _ROUTED)
    with hold_journal(path) as journal:
        yield Target(journal)


@contextmanager
def open_target(path: Path, head: Head) -> Iterator[Target]:
    """The target for this metadata, created if missing: locked, and of the same contract and source.

    An id of the source that was not known when the target was made is added.
    """
    _check_free(path)
    with hold_journal(path) as journal:
        target = Target(journal)
        check_agrees(path, head)
        known = target.head()
        if known is None or not known.agrees(head):
            target.begin(head)
        elif known != head:
            write_document(target.journal.own / "target.json", head.as_json())
        yield target


def check_agrees(path: Path, head: Head) -> None:
    """Refuse a folder that cannot be a target for this metadata; nothing in it is changed, and no lock is needed.

    One that nothing was committed to may be recreated, for a command that was refused in its first batch.
    """
    _check_free(path)
    _check_names(path, head)
    known = read_head(path)
    if known is not None and not known.agrees(head) and read_latest(path) is not None:
        raise _other(path, known, head)


def check_whole(path: Path) -> Manifest | None:
    """Refuse a folder whose manifests are damaged or missing, without its lock; the last one."""
    # All of them, so that a damaged one is found before it is needed.
    check_oldest(path, "batches", KEPT_MANIFESTS)
    last = next(reversed(read_manifests(path)), None)
    _check_not_newer(path, -1 if last is None else last.batch)
    return last


def remove_uncommitted(path: Path, head: Head) -> None:
    """Remove what a route has made in a folder before anything was committed: for readers it was never there."""
    for own in (OWN, DEAD, *(f"stream={name}" for name in head.streams)):
        shutil.rmtree(path / own, ignore_errors=True)


def read_head(path: Path) -> Head | None:
    """The metadata of a target, without its lock; None when there is no such target."""
    file = path / OWN / "target.json"
    head = read_document(file, FORMAT)
    return None if head is None else decoded(file, head, Head.from_json)


def read_latest(path: Path) -> Manifest | None:
    """The manifest of the last batch that is committed, without the lock; None before the first."""
    return _manifest(path, *last_document(path, "batches"))


def read_manifests(path: Path) -> list[Manifest]:
    """The manifests of a target that are kept, oldest first, without its lock."""
    read = (_manifest(path, document["batch"], document) for document in documents(path, "batches"))
    return [manifest for manifest in read if manifest is not None]


def _manifest(path: Path, batch: int, document: Any) -> Manifest | None:
    if document is None:
        return None
    return decoded(document_file(path, "batches", batch), document, Manifest.from_json)


def _check_free(path: Path) -> None:
    """Refuse a folder with anything in it that is not a target; change nothing in it."""
    if path.exists() and not path.is_dir():
        raise TargetError.of("the target is not a folder", got=str(path))
    if path.exists() and not (path / OWN / "target.json").exists():
        # A first start that was killed leaves the lock and nothing else.
        left = [entry.name for entry in path.iterdir() if entry.name != OWN]
        inside = [e.name for e in (path / OWN).iterdir()] if (path / OWN).is_dir() else []
        if left or set(inside) - {"lock", "batches", "staging", ".target.json.new"}:
            raise _foreign(path)


def _check_names(path: Path, head: Head) -> None:
    """Refuse names of streams that are too long for a folder: found out later, they would stop a batch half way."""
    most = os.pathconf(_existing(path), "PC_NAME_MAX")
    for stream in head.streams:
        name = lane_folder(stream, 0).partition("/")[0]
        if len(os.fsencode(name)) > most:
            raise TargetError.of(
                "the name of a stream is too long for a folder; nothing was written",
                got=stream,
                allowed=f"{most - len('stream=')} bytes",
                hint="another --stream, or a shorter name in the contract",
            )


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


def _check_not_newer(path: Path, last: int) -> None:
    """Refuse lanes with files of later batches than the last manifest: keylane's own folder is an older one."""
    for folder in (*path.glob("stream=*/lane=*"), path / DEAD):
        if not folder.is_dir():
            continue
        with os.scandir(folder) as files:
            newest = max((file.name for file in files), key=_last_batch, default="")
        if _last_batch(newest) > last:
            raise TargetError.of(
                f"the target has files of batches after batch {last}, the last one that is recorded",
                got=str(folder / newest),
                hint=f"{path / OWN} is older than the lanes: restore both from the same moment",
            )


def _last_batch(name: str) -> int:
    """The last batch whose records a file holds, by its name; -1 for what is not keylane's."""
    batch = _PART.fullmatch(name)
    return -1 if batch is None else int(batch[1])


_ROUTED: Final = "a folder that keylane route made"


def _foreign(path: Path, allowed: str = "a new or empty folder, or one that keylane made") -> TargetError:
    if any((path / OWN / "batches").glob("*.json")):
        return missing(path / OWN / "target.json")
    return TargetError.of(
        "the target is not a keylane folder; nothing in it was changed",
        got=str(path),
        allowed=allowed,
    )


def _other(path: Path, known: Head, new: Head) -> TargetError:
    hint = "another target, or the contract, source and options (--csv-null) that this one was made with"
    same_contract = known.fingerprint == new.fingerprint and known.streams == new.streams
    what = f"target {path} was made {'from another source' if same_contract else 'with another contract'}"
    return TargetError.of(what, got="; ".join(known.differences(new)), hint=hint)


def _rename(staged: Path, final: Path) -> None:
    if not staged.exists():
        if not final.exists():
            raise TargetError.of("the target is damaged: a file of its last batch is missing", got=str(final))
        return
    if final.exists() and not filecmp.cmp(staged, final, shallow=False):
        raise _in_the_way(final)
    # A power failure between the two folders of a rename may leave the file in both.
    staged.rename(final)


def _in_the_way(final: Path) -> TargetError:
    hint = "it is of a later batch than the last one that is recorded, or not keylane's: restore the target"
    return TargetError.of("the target is damaged: a file is in the way of the last batch", got=str(final), hint=hint)

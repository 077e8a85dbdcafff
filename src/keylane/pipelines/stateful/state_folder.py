"""The state folder of a pipeline: what may not change between two runs, and which batches are in the target.

    STATE/WORK.json             the metadata: lanes, slots, sources, what may not change between two runs
    STATE/batches/B.json        the manifest of batch B: its offsets, counts, contracts in use, what it adds
    STATE/staging/B-TOKEN/      what batch B adds to the target, until it is committed
    STATE/checkpoint/           Spark's own, unless it is elsewhere: which records are in which batch, what is known
    STATE/files/                of files as sources: the checkpoint that names them as they appear
    STATE/blocks/               of files as sources: their records as blocks, until a batch has taken them
    STATE/lock                  one run at a time

Every attempt at a batch has a token of its own, and stages its own files. The manifest commits a batch in one step,
and names the token; a batch whose manifest exists is only moved. Spark may give such a batch again: its plan is
then run for the state alone. The manifest has the offsets of its batch, so that a checkpoint that was restored, or is
of another query, is refused; and of each slot which batch wrote what this one found, so that a file of the state that
is not of the batch before is refused too. Each JSON file has a seal, a digest of the rest: a number that has changed is
still JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from keylane.errors import TargetError
from keylane.spark.blocks import KEPT_BATCHES
from keylane.systems.atomic import force_all, locked, write_json
from keylane.systems.endpoint import path_of
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from keylane.spark.checkpoint_files import RemoteFolder
    from keylane.systems.atomic import Lock
    from keylane.systems.endpoint import Address
    from keylane.systems.journal import Probe

#: The formats of states, by work.
FORMATS: Final = {"match": 3, "aggregation": 4}
#: The files of a batch in a target.
_BATCH: Final = re.compile(r"(?:batch=)?(\d+)(?:\.json)?", re.ASCII)
#: Before the first record.
BEGINNING: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class RunHead:
    """What every run of a pipeline with this state has to agree with; each pipeline adds its own."""


def place_of(address: Address) -> str:
    """An address as a head has it: a path from the root, since the next run may begin in another folder."""
    return str(path_of(address, "the source")) if address.is_path else str(address)


@dataclass(frozen=True, slots=True)
class Epoch:
    """A contract in use: its text, and the ts of the newest ping that was placed by it while it was the last one."""

    name: str
    epoch: int
    fingerprint: str
    text: str
    newest: int = BEGINNING


@dataclass(frozen=True, slots=True)
class BatchManifest:
    """Where a pipeline stands after a batch. `token` names its files; counts are of all batches together."""

    batch: int = -1
    token: str = ""
    query: str = ""
    offsets: str = ""
    epochs: tuple[Epoch, ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)
    moved: tuple[str, ...] = ()
    #: Of each slot of the plan: the batch that wrote what this one found, and the last that wrote it.
    slots: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The rules that it was made with, of those that the next run may change.
    rules: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)

    @staticmethod
    def from_json(found: dict[str, Any]) -> BatchManifest:
        """As it was written."""
        epochs = tuple(Epoch(**one) for one in found["epochs"])
        slots = {name: (int(one[0]), int(one[1])) for name, one in found["slots"].items()}
        return replace(BatchManifest(**found), epochs=epochs, moved=tuple(found["moved"]), slots=slots)

    def after(self, found: Mapping[str, int], batch: int) -> dict[str, tuple[int, int]]:
        """The slots after a batch that found these: of each the batch that wrote it last, as this one has it."""
        known = {name: (last, last) for name, (_, last) in self.slots.items()}
        _check_slots(found, {name: last for name, (_, last) in self.slots.items()}, batch)
        return {**known, **{name: (before, batch) for name, before in found.items()}}

    def check_again(self, found: Mapping[str, int]) -> None:
        """Refuse slots that are not those that this batch found when it was made."""
        _check_slots(found, {name: before for name, (before, _) in self.slots.items()}, self.batch)


def _check_slots(found: Mapping[str, int], expected: Mapping[str, int], batch: int) -> None:
    other = {name: before for name, before in found.items() if before != expected.get(name, -1)}
    if other:
        raise TargetError.of(
            f"the state in Spark's checkpoint is damaged: batch {batch} found slots that are not of the batch before",
            got=", ".join(f"{name}: batch {before}" for name, before in sorted(other.items())),
            allowed=", ".join(f"{name}: batch {expected.get(name, -1)}" for name in sorted(other)),
            hint="restore the newest checkpoint, or start anew with another --to and --state",
        )


def name_of(batch: BatchManifest) -> str:
    """What the files of a batch are called."""
    return f"{batch.batch:010d}-{batch.token}"


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A state folder whose lock is held."""

    path: Path
    lock: Lock
    #: Spark's checkpoint of the steps, where that is not in this folder.
    elsewhere: Path | RemoteFolder | None = None
    #: What errors call it, and the file of its metadata: a match, or another pipeline with state of this form.
    work: str = "match"

    @property
    def has_begun(self) -> bool:
        """Whether Spark was ever started with this state."""
        return "slots" in read_sealed(self.path / f"{self.work}.json")

    def settled(self, name: str, new: Callable[[], Any]) -> Any:
        """What was decided when the pipeline first ran, as how many slots its state has; `new` where that is now."""
        known = self.path / f"{self.work}.json"
        found = read_sealed(known)
        if name not in found:
            found[name] = new()
            write_sealed(known, found)
        return found[name]

    def check_place(self) -> None:
        """Refuse a state that was moved: Spark knows the blocks of files by their paths, and would read them again."""
        first = self.settled("place", lambda: str(self.path))
        if first != str(self.path):
            raise TargetError.of(
                "the state was moved, and has the records of files by their paths",
                got=str(self.path),
                allowed=first,
                hint=f"move it back, or start a new {self.work} with another --to and --state",
            )

    @property
    def checkpoint(self) -> Path | RemoteFolder:
        """Spark's checkpoint of the steps."""
        return self.elsewhere or self.path / "checkpoint"

    @property
    def files(self) -> Path:
        """Spark's checkpoint of the files that are named as they appear."""
        return self.path / "files"

    @property
    def blocks(self) -> Path:
        """Records of files as blocks."""
        return self.path / "blocks"

    def last(self) -> BatchManifest:
        """The last committed batch; before the first, an empty one."""
        found = sorted(self._manifests())
        return self.manifest(found[-1]) or BatchManifest() if found else BatchManifest()

    def manifest(self, batch: int) -> BatchManifest | None:
        """The manifest of a batch, when it is committed."""
        path = self.path / "batches" / f"{batch:010d}.json"
        if not path.exists():
            return None
        try:
            manifest = BatchManifest.from_json(read_sealed(path))
        except (KeyError, TypeError) as error:
            raise _damaged(path, f"{type(error).__name__}: {error}") from error
        if manifest.batch != batch:
            raise _damaged(path, f"it is the manifest of batch {manifest.batch}")
        return manifest

    def check_target(self, last: BatchManifest, target: Path) -> None:
        """Refuse a state that is older than the target, as one that was restored: it would make its batches again."""
        found = [path for pattern in ("*/batch=*", "_metrics/*.json") for path in target.glob(pattern)]
        numbers = {path: int(number[1]) for path in found if (number := _BATCH.fullmatch(path.name))}
        newest = max(numbers, key=lambda path: numbers[path], default=None)
        if newest is not None and numbers[newest] > last.batch:
            raise TargetError.of(
                f"the state is older than the target: {self.path}",
                got=f"batch {last.batch} is its last" if last.batch >= 0 else "it has no batch",
                allowed=f"batch {numbers[newest]}, of {newest}",
                hint=f"restore the newest state, or start a new {self.work} with another --to and --state",
            )

    def begin(self, batch: int) -> tuple[str, Path]:
        """A token for a new attempt, and its staging folder."""
        token = uuid4().hex[:12]
        staging = self.path / "staging" / f"{batch:010d}-{token}"
        staging.mkdir(parents=True)
        return token, staging

    def commit(self, done: BatchManifest, target: Path, probe: Probe = no_probe) -> None:
        """Commit a batch, then move what it adds to the target."""
        staging = self.path / "staging" / name_of(done)
        force_all(sorted(one for one in staging.rglob("*") if not one.name.startswith(".")))
        probe("forced", done.batch)
        write_sealed(self.path / "batches" / f"{done.batch:010d}.json", done.as_json())
        probe("committed", done.batch)
        self.move(done, target, probe)
        probe("moved", done.batch)

    def move(self, done: BatchManifest, target: Path, probe: Probe = no_probe) -> None:
        """Rename what still waits, each folder once; then forget what the batches before needed."""
        staging = self.path / "staging" / name_of(done)
        folders = set()
        for name in done.moved:
            final = target / name
            if (staging / name).exists():
                final.parent.mkdir(parents=True, exist_ok=True)
                (staging / name).rename(final)
                folders.add(final.parent)
                probe("renamed", done.batch)
            elif not final.exists():
                raise TargetError.of("the target is damaged: a part of its last batch is missing", got=str(final))
        force_all(sorted(folders))
        self._forget(done)

    def _forget(self, done: BatchManifest) -> None:
        """What no later batch needs. Only the last committed one may forget: a batch that is given again is older."""
        if max(self._manifests()) != done.batch:
            return
        shutil.rmtree(self.path / "staging", ignore_errors=True)
        (self.path / "staging").mkdir(exist_ok=True)
        for batch in sorted(self._manifests())[:-KEPT_BATCHES]:
            (self.path / "batches" / f"{batch:010d}.json").unlink(missing_ok=True)

    def _manifests(self) -> list[int]:
        return [int(found.stem) for found in (self.path / "batches").glob("[0-9]*.json")]


@contextmanager
def open_state(path: Path, head: RunHead, work: str = "match") -> Iterator[StateFolder]:
    """The state of this work, created when it does not exist: locked, and with the same head."""
    for folder in ("batches", "staging", "blocks"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    with locked(path / "lock") as lock:
        known = path / f"{work}.json"
        if not known.exists():
            if any((path / "batches").iterdir()) or (path / "checkpoint").exists():
                raise _damaged(known, "it is missing")
            write_sealed(known, {"format": FORMATS[work], **asdict(head)})
        plain = _object(known)
        if _SEAL not in plain and plain.get("format", 1) in range(1, FORMATS[work]):
            raise _of_another_keylane(path, work, plain)
        found = read_sealed(known)
        if found.get("format") != FORMATS[work]:
            raise _of_another_keylane(path, work, found)
        other = [name for name, value in asdict(head).items() if found.get(name) != value]
        if other:
            got = "; ".join(f"{name}: {found.get(name)!r}, now {asdict(head)[name]!r}" for name in other)
            hint = f"continue with the same options, or start a new {work} with another --to and --state"
            raise TargetError.of(f"{path} is the state of another {work}", got=got, hint=hint)
        yield StateFolder(path, lock, work=work)


def _of_another_keylane(path: Path, work: str, head: Mapping[str, Any]) -> TargetError:
    hint = f"end it with that keylane, or start a new {work} with another --to and --state"
    got, allowed = f"format {head.get('format', 1)}", f"format {FORMATS[work]}"
    return TargetError.of(f"{path} is the state of another version of {work}", got=got, allowed=allowed, hint=hint)


_SEAL: Final = "seal"


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON object with its seal."""
    write_json(path, {**document, _SEAL: _digest(document)})


def read_sealed(path: Path) -> dict[str, Any]:
    """Read what was written so."""
    found = _object(path)
    if found.pop(_SEAL, None) != _digest(found):
        raise _damaged(path, "it is not what was written: its seal differs")
    return found


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _damaged(path, "it is missing") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(found, dict):
        raise _damaged(path, "it is no JSON object")
    return found


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


def _damaged(path: Path, how: str) -> TargetError:
    return TargetError.of(
        f"the state is damaged: {path}", got=how, hint="restore it, or start anew with another --to and --state"
    )

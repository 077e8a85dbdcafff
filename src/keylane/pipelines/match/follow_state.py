"""The folder of a running match: what may not change between two runs, and which batches are in the target.

    STATE/match.json            the metadata: lanes, slots, sources, what may not change between two runs
    STATE/batches/B.json        the manifest of batch B: its offsets, counts, contracts in use, what it adds
    STATE/staging/B-TOKEN/      what batch B adds to the target, until it is committed
    STATE/ledger/B-TOKEN.arrow  the offers that hold a driver after batch B
    STATE/checkpoint/           Spark's own: which records are in which batch, and what drivers and lanes know
    STATE/files/                of files as sources: the checkpoint that names them as they appear
    STATE/blocks/               of files as sources: their records as blocks, until a batch has taken them
    STATE/lock                  one match at a time

Every attempt at a batch has a token of its own, and stages its own files. The manifest commits a batch in one step,
and names the token; a batch whose manifest exists is only moved. Spark may give such a batch again: its plan is
then run for the state alone. The manifest has the offsets of its batch, so that a checkpoint that was restored, or is
of another query, is refused.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from keylane.errors import TargetError
from keylane.systems.atomic import force_all, locked, write_json
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.systems.atomic import Lock
    from keylane.systems.journal import Probe

#: Manifests are cumulative; the older ones are kept for inspection.
KEPT_MANIFESTS: Final = 100
FORMAT: Final = 2
#: Before the first record.
BEGINNING: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class MatchHead:
    """What every run of a match has to agree with."""

    drivers: str
    riders: str
    target: str
    lanes: int
    radius: float
    nearest: int | None
    expire: float | None
    assign: str | None


@dataclass(frozen=True, slots=True)
class Epoch:
    """A contract in use: its text, and the ts of the newest ping that was placed by it while it was the last one."""

    name: str
    epoch: int
    fingerprint: str
    text: str
    newest: int = BEGINNING


@dataclass(frozen=True, slots=True)
class Happened:
    """Where a match stands after a batch. `token` names its files; counts are of all batches together."""

    batch: int = -1
    token: str = ""
    query: str = ""
    offsets: str = ""
    epochs: tuple[Epoch, ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)
    moved: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)

    @staticmethod
    def from_json(found: dict[str, Any]) -> Happened:
        """As it was written."""
        epochs = tuple(Epoch(**one) for one in found["epochs"])
        return replace(Happened(**found), epochs=epochs, moved=tuple(found["moved"]))


def name_of(batch: Happened) -> str:
    """What the files of a batch are called."""
    return f"{batch.batch:010d}-{batch.token}"


@dataclass(frozen=True, slots=True)
class MatchState:
    """A state folder whose lock is held."""

    path: Path
    lock: Lock

    def settled(self, name: str, new: Callable[[], Any]) -> Any:
        """What was decided when the match first ran, as how many slots its state has; `new` where that is now."""
        known = self.path / "match.json"
        found = _read(known)
        if name not in found:
            found[name] = new()
            write_json(known, found)
        return found[name]

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint of the match."""
        return self.path / "checkpoint"

    @property
    def files(self) -> Path:
        """Spark's checkpoint of the files that are named as they appear."""
        return self.path / "files"

    @property
    def blocks(self) -> Path:
        """Records of files as blocks."""
        return self.path / "blocks"

    def last(self) -> Happened:
        """The last committed batch; before the first, an empty one."""
        found = sorted(self._manifests())
        return self.happened(found[-1]) or Happened() if found else Happened()

    def happened(self, batch: int) -> Happened | None:
        """The manifest of a batch, when it is committed."""
        path = self.path / "batches" / f"{batch:010d}.json"
        if not path.exists():
            return None
        try:
            return Happened.from_json(_read(path))
        except (KeyError, TypeError) as error:
            raise _damaged(path, f"{type(error).__name__}: {error}") from error

    def begin(self, batch: int) -> tuple[str, Path]:
        """A token for a new attempt, and its staging folder."""
        token = uuid4().hex[:12]
        staging = self.path / "staging" / f"{batch:010d}-{token}"
        staging.mkdir(parents=True)
        return token, staging

    def ledger(self, after: Happened) -> Path:
        """The file of the offers that hold a driver."""
        return self.path / "ledger" / f"{name_of(after)}.arrow"

    def commit(self, done: Happened, target: Path, probe: Probe = no_probe) -> None:
        """Commit a batch, then move what it adds to the target."""
        staging = self.path / "staging" / name_of(done)
        force_all(sorted(one for one in staging.rglob("*") if not one.name.startswith(".")))
        probe("forced", done.batch)
        write_json(self.path / "batches" / f"{done.batch:010d}.json", done.as_json())
        probe("happened", done.batch)
        self.move(done, target, probe)
        probe("moved", done.batch)

    def move(self, done: Happened, target: Path, probe: Probe = no_probe) -> None:
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

    def _forget(self, done: Happened) -> None:
        """What no later batch needs. Only the last committed one may forget: a batch that is given again is older."""
        if max(self._manifests()) != done.batch:
            return
        shutil.rmtree(self.path / "staging", ignore_errors=True)
        (self.path / "staging").mkdir(exist_ok=True)
        for found in (self.path / "ledger").glob("*.arrow"):
            if found != self.ledger(done):
                found.unlink(missing_ok=True)
        for batch in sorted(self._manifests())[:-KEPT_MANIFESTS]:
            (self.path / "batches" / f"{batch:010d}.json").unlink(missing_ok=True)

    def _manifests(self) -> list[int]:
        return [int(found.stem) for found in (self.path / "batches").glob("[0-9]*.json")]


@contextmanager
def open_state(path: Path, head: MatchHead) -> Iterator[MatchState]:
    """The state of this match, created when it does not exist: locked, and of the same sources, lanes and radius."""
    for folder in ("batches", "staging", "ledger", "blocks"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    with locked(path / "lock") as lock:
        known = path / "match.json"
        if not known.exists():
            write_json(known, {"format": FORMAT, **asdict(head)})
        found = _read(known)
        if found.get("format") != FORMAT:
            hint = "end it with that keylane, or start a new match with another --to and --state"
            what = f"{path} is the state of a match of an older keylane"
            raise TargetError.of(what, got=f"format {found.get('format', 1)}", allowed=f"format {FORMAT}", hint=hint)
        other = [name for name, value in asdict(head).items() if found.get(name) != value]
        if other:
            got = "; ".join(f"{name}: {found.get(name)!r}, now {asdict(head)[name]!r}" for name in other)
            hint = "continue with the same options, or start a new match with another --to and --state"
            raise TargetError.of(f"{path} is the state of another match", got=got, hint=hint)
        yield MatchState(path, lock)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a file of the state: it is there whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{uuid4().hex[:12]}")
    with pa.OSFile(str(waiting), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    force_all([waiting])
    waiting.replace(path)


def read_table(path: Path) -> pa.Table:
    """Read a file of the state."""
    try:
        with pa.OSFile(str(path), "rb") as source:
            return pa.ipc.open_file(source).read_all()
    except FileNotFoundError:
        hint = "restore the state folder, or start a new match"
        raise TargetError.of("the state is damaged: one of its files is missing", got=str(path), hint=hint) from None
    except pa.ArrowInvalid as error:
        raise _damaged(path, str(error)) from error


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, how: str) -> TargetError:
    return TargetError.of("the state is damaged", got=f"{path}: {how}", hint="restore it, or start a new match")

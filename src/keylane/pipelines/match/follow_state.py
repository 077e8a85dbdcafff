"""The state of a running match on disk: one file for each lane, and a manifest that commits a batch in one step.

    STATE/match.json              the metadata: lanes, sources, what may not change between two runs
    STATE/batches/B.json          the manifest of batch B: watermark, counts, contracts in use, which files are true
    STATE/lanes/L/B-TOKEN.arrow   the drivers that lane L knows after batch B
    STATE/blocks/K/B-TOKEN.arrow  in which lanes the drivers of block K have been
    STATE/requests/B-TOKEN/       requests that wait, and those answered of late
    STATE/ledger/B-TOKEN.arrow    the offers that hold a driver
    STATE/staging/B-TOKEN/        what batch B adds to the target, until it is committed
    STATE/checkpoint/             Spark's own: which records are in which batch
    STATE/lock                    one match at a time

Every attempt at a batch has a token of its own, and writes its own files. The manifest names the token,
so the files of an attempt that was killed are never read, whatever it left; a batch whose manifest exists is
committed, and is only moved. The batch before stays whole until then.

Why not Spark's own state store: two operators would have to be chained, by driver and by lane, and on sixty lanes their
120 stores are opened and committed in every batch, also in an empty one. Nor could the number of tasks change.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from keylane.errors import TargetError
from keylane.pipelines.watermark import BEGINNING
from keylane.systems.atomic import force_all, locked, write_json
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.atomic import Lock
    from keylane.systems.journal import Probe

#: Manifests are cumulative; the older ones are kept for inspection.
KEPT_MANIFESTS: Final = 100
PARTS: Final = ("lanes", "blocks", "requests", "ledger")


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
    """Where a match stands after a batch. `token` names its files; counts are of all batches together.

    `seen` has the ts of the newest record of each lane of each source.
    """

    batch: int = -1
    token: str = ""
    query: str = ""
    watermark: int = BEGINNING
    kept_from: int = BEGINNING
    epochs: tuple[Epoch, ...] = ()
    files: dict[str, int] = field(default_factory=dict)
    seen: dict[str, dict[str, int]] = field(default_factory=dict)
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

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return self.path / "checkpoint"

    def last(self) -> Happened:
        """The last committed batch; before the first, an empty one."""
        found = sorted(self._manifests())
        return self.happened(found[-1]) or Happened() if found else Happened()

    def happened(self, batch: int) -> Happened | None:
        """The manifest of a batch, when it is committed."""
        path = self.path / "batches" / f"{batch:010d}.json"
        return Happened.from_json(_read(path)) if path.exists() else None

    def begin(self, batch: int) -> tuple[str, Path]:
        """A token for a new attempt, and its staging folder."""
        token = uuid4().hex[:12]
        staging = self.path / "staging" / f"{batch:010d}-{token}"
        staging.mkdir(parents=True)
        return token, staging

    def part(self, kind: str, after: Happened) -> Path:
        """The file or folder of a kind that is not kept by lane."""
        ending = ".arrow" if kind == "ledger" else ""
        return self.path / kind / f"{name_of(after)}{ending}"

    def commit(self, done: Happened, target: Path, probe: Probe = no_probe) -> None:
        """Commit a batch, then move what it adds to the target."""
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
        shutil.rmtree(self.path / "staging", ignore_errors=True)
        (self.path / "staging").mkdir(exist_ok=True)
        true = name_of(done)
        for kind in PARTS:
            for found in (self.path / kind).glob("*-*" if kind in {"requests", "ledger"} else "*/*"):
                if not found.name.startswith(true):
                    shutil.rmtree(found) if found.is_dir() else found.unlink(missing_ok=True)
        for batch in sorted(self._manifests())[:-KEPT_MANIFESTS]:
            (self.path / "batches" / f"{batch:010d}.json").unlink(missing_ok=True)

    def _manifests(self) -> list[int]:
        return [int(found.stem) for found in (self.path / "batches").glob("[0-9]*.json")]


@contextmanager
def open_state(path: Path, head: MatchHead) -> Iterator[MatchState]:
    """The state of this match, created when it does not exist: locked, and of the same sources, lanes and radius."""
    for folder in ("batches", "staging", *PARTS):
        (path / folder).mkdir(parents=True, exist_ok=True)
    with locked(path / "lock") as lock:
        known = path / "match.json"
        if not known.exists():
            write_json(known, asdict(head))
        elif (found := _read(known)) != asdict(head):
            other = [name for name, value in asdict(head).items() if found.get(name) != value]
            got = "; ".join(f"{name}: {found.get(name)!r}, now {asdict(head)[name]!r}" for name in other)
            hint = "continue with the same options, or start a new match with another --to and --state"
            raise TargetError.of(f"{path} is the state of another match", got=got, hint=hint)
        yield MatchState(path, lock)


def save(folder: str, number: int, name: str, table: pa.Table) -> None:
    """Keep what a lane, or a block, knows. Runs where the lane's task runs; a second try writes the same again."""
    write_table(Path(folder) / str(number) / f"{name}.arrow", table)


def load(folder: str, number: int, name: str, schema: pa.Schema) -> pa.Table:
    """What a lane, or a block, knew after a batch; `name` is empty before the first."""
    return read_table(Path(folder) / str(number) / f"{name}.arrow") if name else schema.empty_table()


def write_table(path: Path, table: pa.Table) -> None:
    """Write a file of the state: it is there whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{uuid4().hex[:12]}")
    with pa.OSFile(str(waiting), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    waiting.replace(path)


def read_table(path: Path) -> pa.Table:
    """Read a file of the state."""
    try:
        with pa.OSFile(str(path), "rb") as source:
            return pa.ipc.open_file(source).read_all()
    except FileNotFoundError:
        hint = "restore the state folder, or start a new match"
        raise TargetError.of("the state is damaged: one of its files is missing", got=str(path), hint=hint) from None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TargetError.of("the state is damaged", got=f"{path}: {error}") from error

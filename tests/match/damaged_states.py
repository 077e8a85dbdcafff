"""Damage to the files of a running match's state, one by one: each is named by an error, or does no harm."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.match.stream_traffic import matches

from keylane.errors import KeylaneError


@dataclass(frozen=True)
class Copies:
    """The state after the first batch and after the last, to damage copies of."""

    first: Path
    last: Path

    def other(self, name: Path) -> Path | None:
        """What may stand in the place of a file after a wrong restore: the same file as it was, or one like it."""
        content = (self.last / name).read_bytes()
        like = [path for path in sorted(self.last.rglob(f"*{name.suffix}")) if path.is_file()]
        # The nearest first: of the same name in another slot or step, then of the same folder.
        like.sort(key=lambda path: (path.name != name.name, path.parent.name != name.parent.name))
        found = [self.first / name, *like]
        return next((path for path in found if path.exists() and path.read_bytes() != content), None)


Damage = Callable[[Path, "Path | None", random.Random], object]


def flip(path: Path, _other: Path | None, rng: random.Random) -> None:
    content = bytearray(path.read_bytes() or b"x")
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def swap(path: Path, other: Path | None, _rng: random.Random) -> None:
    if other is not None:
        path.write_bytes(other.read_bytes())


def older(path: Path, _other: Path | None, rng: random.Random) -> None:
    """The file of the batch before in the place of one with a number, as of the same slot."""
    number = re.match(r"\d+", path.name)
    before = number and path.with_name(path.name.replace(number[0], f"{int(number[0]) - 1:0{len(number[0])}d}", 1))
    swap_with_checksum(path, before if before and before.exists() else None, rng)


def swap_with_checksum(path: Path, other: Path | None, _rng: random.Random) -> None:
    """As a restore does it: nothing that Spark checks by itself is then wrong."""
    if other is None:
        return
    path.write_bytes(other.read_bytes())
    check, own = (one.with_name(f".{one.name}.crc") for one in (other, path))
    if check.exists():
        own.write_bytes(check.read_bytes())


DAMAGES: dict[str, Damage] = {
    "gone": lambda path, _other, _rng: path.unlink(),
    "empty": lambda path, _other, _rng: path.write_bytes(b""),
    "cut": lambda path, _other, _rng: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path, _other, _rng: path.write_bytes(bytes(path.stat().st_size)),
    "flipped": flip,
    "swapped": swap,
    "restored": swap_with_checksum,
    "older": older,
}


@dataclass(frozen=True)
class Damageable:
    """A match of two batches with a third to come, to damage copies of: made once for all kinds of damage."""

    folder: Path
    #: Go on with the match until all that is there is taken.
    run: Callable[[], Any]
    #: Steps with a state, as Spark numbers them: from the end of its plan.
    steps: tuple[str, ...]
    expected: tuple[Any, ...] = ()

    @staticmethod
    def of(folder: Path, feed: Callable[[int], object], run: Callable[[], Any], steps: tuple[str, ...]) -> Damageable:
        """`feed` adds the records of a batch to the sources, and `run` matches them, in `folder` / out."""
        plain = Damageable(folder, run, steps)
        for batch in range(2):
            feed(batch)
            run()
            shutil.copytree(folder / "out", folder / f"kept{batch}")
        feed(2)
        return replace(plain, expected=plain.found(run()))

    @property
    def state(self) -> Path:
        return self.folder / "out" / "_state"

    @property
    def copies(self) -> Copies:
        return Copies(self.folder / "kept0" / "_state", self.folder / "kept1" / "_state")

    def restore(self) -> None:
        """Back to the end of the second batch."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        shutil.copytree(self.folder / "kept1", self.folder / "out")

    def found(self, document: Any) -> tuple[Any, ...]:
        offers = sorted((self.folder / "out" / "offers").glob("batch=*/*.parquet"))
        offered = [pq.read_table(path)["offer_id"].to_pylist() for path in offers]
        return matches(self.folder / "out"), document.pairs, sorted(one for ids in offered for one in ids)

    def is_named(self, name: Path, error: str) -> bool:
        """Whether an error names a file, or the one that it has the checksum of.

        Of a slot's state the slot is enough. What tells a state, or a checkpoint in it, from an older or another one
        may be named by its folder: that is what has to be restored.
        """
        slot = re.match(r"checkpoint/state/(\d)/(\d)/", str(name))
        if slot is None:
            return str(self.state) in error
        step = self.steps[int(slot[1])]
        file = self.state / name.with_name(name.name.removeprefix(".").removesuffix(".crc"))
        # The ledger is one for all slots.
        number = 0 if step == "offers" else slot[2]
        return any(one in error for one in (str(file), f"{step}/{number}", f"{step} {number}"))

    def silent(self, damage: str, match: str = "*") -> list[str]:
        """Damage files of the state one by one, and go on: those that were not noticed, and changed what is found.

        Also those that were noticed by an error that names nothing.
        """
        self.restore()
        found = (path for path in self.state.rglob(match) if path.is_file() and path.name != "lock")
        files, rng, silent, named = sorted(path.relative_to(self.state) for path in found), random.Random(damage), [], 0
        assert files
        for name in files:
            self.restore()
            DAMAGES[damage](self.state / name, self.copies.other(name), rng)
            try:
                document = self.run()
            except KeylaneError as error:
                named += 1
                silent += [] if self.is_named(name, str(error)) else [f"{name}: {error}"]
                continue
            if self.found(document) != self.expected:
                silent.append(str(name))
        print(f"{damage}: {len(files)} files, {named} named, {len(files) - named - len(silent)} harmless")
        return silent

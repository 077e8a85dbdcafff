"""What is written down about a stream folder: its head, and one manifest for each batch. Values and their JSON only.

Where these files lie and in which order they are written is in `folders`; what they promise is in
docs/stream-folders.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Self

from keylane.errors import CountError, TargetError

__all__ = ["Counts", "Head", "Manifest", "Placed", "Taken"]

FORMAT: Final = "keylane.folder/1"


@dataclass(frozen=True, slots=True)
class Counts:
    """Records by what became of them."""

    in_: int = 0
    out: int = 0
    dead: int = 0
    filtered: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def checked(self, where: str, hint: str = "") -> Counts:
        """The counts themselves when they add up; else the error that says how they do not."""
        if self.in_ != self.out + self.dead + self.filtered:
            got = f"in {self.in_}, out {self.out}, dead {self.dead}, filtered {self.filtered}"
            raise CountError.of(
                f"the records of {where} do not add up", got=got, allowed="in = out + dead + filtered", hint=hint
            )
        return self

    def as_json(self) -> dict[str, int]:
        """With `in`, which is no name in Python."""
        return {"in": self.in_, "out": self.out, "dead": self.dead, "filtered": self.filtered}

    @classmethod
    def from_json(cls, given: dict[str, int]) -> Self:
        """The inverse of `as_json`."""
        return cls(given["in"], given["out"], given["dead"], given["filtered"])


@dataclass(frozen=True, slots=True)
class Head:
    """What a target is for: one contract, its streams with their lane counts, one source."""

    contract: str
    epoch: int
    fingerprint: str
    streams: dict[str, int]
    source: str
    kind: str
    pattern: str

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        """Read it; a later form than this version knows is refused."""
        if given.get("format") != FORMAT:
            raise TargetError.of("a target of another form", got=given.get("format"), allowed=FORMAT)
        return cls(**{f.name: given[f.name] for f in fields(cls)})

    def at(self, source: str) -> Self:
        """The same for another source."""
        return replace(self, source=source)

    def differences(self, other: Head) -> list[str]:
        """What differs, in words: this one's value, then the other's."""
        return [
            f"{f.name}: {getattr(self, f.name)} here, {getattr(other, f.name)} given"
            for f in fields(self)
            if getattr(self, f.name) != getattr(other, f.name)
        ]


@dataclass(frozen=True, slots=True)
class Placed:
    """One file of a batch: where it waits in the batch's staging folder, where it belongs, what it holds."""

    staged: str
    final: str
    records: int


@dataclass(frozen=True, slots=True)
class Taken:
    """One source file of a batch, as it was when it was read."""

    name: str
    size: int
    modified: int
    records: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a batch changes. Once it is written the batch has happened, whatever happens to the process."""

    batch: int
    query: str
    fingerprint: str
    staging: str
    counts: Counts
    total: Counts
    next: dict[str, list[int]]
    next_dead: int
    placed: tuple[Placed, ...]
    taken: tuple[Taken, ...]
    next_position: int
    taken_files: int
    taken_bytes: int
    schema: str

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return {**asdict(self), "counts": self.counts.as_json(), "total": self.total.as_json()}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        values = {f.name: given[f.name] for f in fields(cls)}
        values["counts"], values["total"] = Counts.from_json(given["counts"]), Counts.from_json(given["total"])
        values["placed"] = tuple(Placed(**one) for one in given["placed"])
        values["taken"] = tuple(Taken(**one) for one in given["taken"])
        return cls(**values)

    @classmethod
    def before_all(cls, head: Head) -> Self:
        """The state of a target that has taken nothing."""
        nothing = {stream: [0] * lanes for stream, lanes in head.streams.items()}
        return cls(-1, "", head.fingerprint, "", Counts(), Counts(), nothing, 0, (), (), 0, 0, 0, "")

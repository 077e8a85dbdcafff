"""Golden vectors: what other projects publish, and what real clients did with a key.

Here are the loaders of the data files in `vectors/` and the types of their rows, nothing else:
this module computes no hash and imports nothing of keylane, so that any implementation can be
checked with the same data. The `about` of each file explains its fields.

For a raw hash take `hash_vectors`, for one published only after it was made non-negative
`folded_vectors`, for a lane out of n `lane_vectors`, and for whole columns of placements read
back from a broker `client_placements`. To compute a lane instead of checking one, go to the
`keylane.hashing` and `keylane.placement` packages.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ClientColumn",
    "ClientPlacement",
    "FoldedVector",
    "HashVector",
    "KeyTreatment",
    "LaneVector",
    "client_columns",
    "client_placements",
    "folded_vectors",
    "hash_vectors",
    "lane_vectors",
]

#: What a client does with a null or an empty key: hash it, or treat the record as keyless.
KeyTreatment: TypeAlias = Literal["hash", "keyless"]


@dataclass(frozen=True, slots=True)
class HashVector:
    """A key and its raw hash, unsigned. The key is an integer only for `java-long`."""

    hash: str
    key: bytes | int
    value: int
    source: str


@dataclass(frozen=True, slots=True)
class FoldedVector:
    """A key and its 32-bit hash after the fold that made it non-negative."""

    hash: str
    fold: Literal["masked", "absolute"]
    key: bytes
    value: int
    source: str


@dataclass(frozen=True, slots=True)
class LaneVector:
    """The lane a partitioner gives a key; None where the key does not decide it."""

    partitioner: str
    key: bytes | None
    lanes: int
    lane: int | None
    source: str


@dataclass(frozen=True, slots=True)
class ClientColumn:
    """One setting of one client, and the partitioner that reproduces it.

    `column` is the header in the csv file. `partitioner` is None where the client ignores the key.
    """

    column: str
    client: str
    version: str
    setting: str
    partitioner: str | None
    null: KeyTreatment
    empty: KeyTreatment

    def decides(self, key: bytes | None) -> bool:
        """Whether this key alone decides the lane, so that a second run must give the same one."""
        if key:
            return self.partitioner is not None
        return (self.null if key is None else self.empty) == "hash"


@dataclass(frozen=True, slots=True)
class ClientPlacement:
    """The lane in which a real broker had a key that a client sent."""

    column: ClientColumn
    key: bytes | None
    lanes: int
    lane: int

    @property
    def decided(self) -> bool:
        """Whether the key decided the lane; if not, the lane is one sample of many."""
        return self.column.decides(self.key)


def hash_vectors() -> tuple[HashVector, ...]:
    """Return every published raw hash."""
    return tuple(
        HashVector(row["hash"], _hash_key(row["key"]), int(row["value"]), row["source"])
        for row in _document("hashes.json")["vectors"]
    )


def folded_vectors() -> tuple[FoldedVector, ...]:
    """Return every hash that its source publishes only after a fold."""
    return tuple(
        FoldedVector(row["hash"], row["fold"], _bytes_key(row["key"]), row["value"], row["source"])
        for row in _document("hashes.json")["folded"]
    )


def lane_vectors() -> tuple[LaneVector, ...]:
    """Return every published or derived lane."""
    return tuple(
        LaneVector(row["partitioner"], _lane_key(row["key"]), row["lanes"], row["lane"], row["source"])
        for row in _document("lanes.json")["vectors"]
    )


def client_columns() -> tuple[ClientColumn, ...]:
    """Return the client settings whose placements were read back, in the order of the csv file."""
    return tuple(ClientColumn(**row) for row in _document("client_placements.json")["columns"])


def client_placements() -> tuple[ClientPlacement, ...]:
    """Return every cell of the csv file, key by key."""
    lanes = int(_document("client_placements.json")["lanes"])
    columns = client_columns()
    return tuple(
        ClientPlacement(column, _csv_key(row["key"]), lanes, int(row[column.column]))
        for row in _csv_rows("client_placements.csv")
        for column in columns
    )


def _document(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_text(name))
    return document


def _csv_rows(name: str) -> Iterator[dict[str, str]]:
    return iter(csv.DictReader(_text(name).splitlines()))


def _text(name: str) -> str:
    return files("keylane.testing").joinpath("vectors", name).read_text(encoding="utf-8")


def _hash_key(key: dict[str, Any]) -> bytes | int:
    return int(key["int"]) if "int" in key else _bytes_key(key)


def _lane_key(key: dict[str, str] | None) -> bytes | None:
    return None if key is None else _bytes_key(key)


def _bytes_key(key: dict[str, str]) -> bytes:
    return bytes.fromhex(key["hex"]) if "hex" in key else key["text"].encode()


def _csv_key(text: str) -> bytes | None:
    if text == "<null>":
        return None
    return b"" if text == "<empty>" else text.encode()

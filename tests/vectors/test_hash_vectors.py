"""Every hash against what other projects publish; and, broken in ways seen in the field, against the same."""

from __future__ import annotations

import hashlib
import zlib
from struct import unpack
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.hashing.murmur2 import murmur2, murmur2_big_endian
from keylane.hashing.murmur3 import spark_bytes
from keylane.placement.fold import absolute, masked
from keylane.testing.golden import FoldedVector, HashVector, folded_vectors, hash_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = hash_vectors()
FOLDED = folded_vectors()
NAMES = sorted({vector.hash for vector in VECTORS})


def key_bytes(vector: HashVector) -> bytes:
    return vector.key.to_bytes(8, "big", signed=True) if isinstance(vector.key, int) else vector.key


def misses(name: str, hash_one: Callable[[bytes], int]) -> list[HashVector]:
    """The vectors of a hash that a function gets wrong."""
    return [vector for vector in VECTORS if vector.hash == name and hash_one(key_bytes(vector)) != vector.value]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector.hash} {vector.key!r:.40}")
def test_one_key_has_its_published_hash(vector: HashVector) -> None:
    assert HASHES[vector.hash].one(key_bytes(vector)) == vector.value


@pytest.mark.parametrize("repeat", [1, 9], ids=["few", "many"])
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_has_its_published_hashes(name: str, repeat: int) -> None:
    vectors = [vector for vector in VECTORS if vector.hash == name] * repeat
    hashed = hash_batch(HASHES[name], pa.array([key_bytes(vector) for vector in vectors])).tolist()
    numbers = [high << 64 | low for high, low in hashed] if name == "md5-128" else hashed
    assert numbers == [vector.value for vector in vectors]


@pytest.mark.parametrize("vector", FOLDED, ids=lambda vector: f"{vector.hash} {vector.key!r:.40}")
def test_a_hash_published_after_a_fold_has_that_value(vector: FoldedVector) -> None:
    fold = {"masked": masked, "absolute": absolute}[vector.fold]
    assert fold(HASHES[vector.hash].one(vector.key), 2**32) == vector.value


def signed_crc32(key: bytes) -> int:
    value = zlib.crc32(key)
    return value - 2**32 if value >= 2**31 else value


def murmur2_without_a_mask(key: bytes) -> int:
    """A port from Java to Python that lets products grow beyond 32 bits."""
    h = 0x9747B28C ^ len(key)
    for at in range(0, len(key) & ~3, 4):
        k = int.from_bytes(key[at : at + 4], "little") * 0x5BD1E995
        h = h * 0x5BD1E995 ^ (k ^ k >> 24) * 0x5BD1E995
    if len(key) & 3:
        h = (h ^ int.from_bytes(key[len(key) & ~3 :], "little")) * 0x5BD1E995
    h = (h ^ h >> 13) * 0x5BD1E995
    return (h ^ h >> 15) & 0xFFFFFFFF


def fnv1(key: bytes) -> int:
    """Multiply, then xor: the older sister of FNV-1a."""
    h = 0x811C9DC5
    for byte in key:
        h = h * 0x01000193 % 2**32 ^ byte
    return h


def java_string_over_bytes(key: bytes) -> int:
    """Right for ASCII only."""
    h = 0
    for byte in key:
        h = (31 * h + byte) % 2**32
    return h


def java_long_by_sum(key: bytes) -> int:
    high, low = unpack(">II", key)
    return int(high + low) % 2**32


PLANTED: list[tuple[str, Callable[[bytes], int]]] = [
    ("murmur2", murmur2_without_a_mask),
    ("murmur2", murmur2_big_endian),
    ("kafkajs-legacy", murmur2),
    ("crc32", signed_crc32),
    ("fnv1a", fnv1),
    ("murmur3-32", spark_bytes),
    ("md5-128", lambda key: int.from_bytes(hashlib.md5(key).digest(), "little")),
    ("java-string", java_string_over_bytes),
    ("java-long", java_long_by_sum),
]


@pytest.mark.parametrize(("name", "broken"), PLANTED, ids=[f"{name} {f.__name__}" for name, f in PLANTED])
def test_a_planted_mistake_is_caught(name: str, broken: Callable[[bytes], int]) -> None:
    assert misses(name, HASHES[name].one) == []
    assert misses(name, broken) != []


def test_every_hash_with_vectors_has_a_planted_mistake() -> None:
    assert {name for name, _ in PLANTED} == set(NAMES)

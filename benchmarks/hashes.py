"""How fast each hash is over an Arrow batch, and how many times a loop over its one-key form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.contracts import one_length
from benchmarks.timing import Figure, best, one_core
from keylane.hashing import HASHES, Hash
from keylane.hashing.batch import hash_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 500_000
LOOPED = 5_000


def run() -> Iterator[Figure]:
    """Keys of 15 bytes; Long hash codes over 8-byte numbers."""
    numbers = pa.array([int(i).to_bytes(8, "big") for i in np.arange(ROWS)], pa.binary())
    texts = one_length(ROWS).cast(pa.binary())
    with one_core():
        for name, hash_ in HASHES.items():
            yield from _one(name, hash_, numbers if name == "java-long" else texts)


def _one(name: str, hash_: Hash, keys: pa.Array) -> Iterator[Figure]:
    some = keys.slice(0, LOOPED).to_pylist()
    seconds = best(3, batch=lambda: hash_batch(hash_, keys), loop=lambda: [hash_.one(key) for key in some])
    batch, loop = ROWS / seconds["batch"], LOOPED / seconds["loop"]
    yield Figure(f"{name} over Arrow", batch / 1e6, "M keys/s")
    yield Figure(f"{name} over Arrow, against its one-key form in a loop", batch / loop, "times")

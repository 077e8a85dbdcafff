"""How many times kafka-python's murmur2 in a loop the router over Arrow batches is, on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from kafka.partitioner.default import murmur2

from benchmarks.contracts import mixed_lengths, one_length, payments
from benchmarks.timing import Figure, best, one_core
from keylane import Router

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 1_000_000
LOOPED = 20_000


def run() -> Iterator[Figure]:
    """Ratios for keys of one length and of mixed lengths; the loop is timed on a part and counted per key."""
    for name, keys, target in (("one length", one_length(ROWS), 100), ("mixed lengths", mixed_lengths(ROWS), 40)):
        with one_core():
            yield from _against_loop(name, keys, target)


def _against_loop(name: str, keys: pa.Array, target: float) -> Iterator[Figure]:
    router = Router(payments())
    batch = pa.record_batch({"merchant_id": keys})
    some = [key.encode() for key in keys.slice(0, LOOPED).to_pylist()]
    seconds = best(7, ours=lambda: router.lanes(batch), loop=lambda: [(murmur2(key) & 0x7FFFFFFF) % 64 for key in some])
    ours, loop = ROWS / seconds["ours"], LOOPED / seconds["loop"]
    yield Figure(f"router over Arrow, {name}, against kafka-python", ours / loop, "times", at_least=target)
    yield Figure(f"router over Arrow, {name}", ours / 1e6, "M records/s")

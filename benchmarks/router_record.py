"""Whether the router for one record is slower than kafka-python's murmur2 plus modulo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.partitioner.default import murmur2

from benchmarks.contracts import payments
from benchmarks.timing import Figure, best, one_core
from keylane import Router

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 5_000


def run() -> Iterator[Figure]:
    """The router takes a record and encodes its key; the peer is given the key's bytes."""
    router, record, key = Router(payments()), {"merchant_id": "merchant_000042"}, b"merchant_000042"

    def ours() -> None:
        for _ in range(CALLS):
            router.lane(record)

    def peer() -> None:
        for _ in range(CALLS):
            (murmur2(key) & 0x7FFFFFFF) % 64

    with one_core():
        seconds = best(25, ours=ours, peer=peer)
    yield Figure("router for one record, against kafka-python", seconds["peer"] / seconds["ours"], "times", at_least=1)
    yield Figure("router for one record", seconds["ours"] / CALLS * 1e6, "µs")

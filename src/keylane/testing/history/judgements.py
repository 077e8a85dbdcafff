"""Which rows have to be seen together: the three judgements, and how rows are dealt to buckets for each.

    records   rows of one (writer, seq)       lost, invented, duplicated
    order     rows of one scope               reordered, split key, early apply
    lanes     rows of one lane                inconsistent offsets, stale epochs, misrouted, two owners, rewinds

A judgement is a pure function of one bucket. Who deals the rows out does not matter to it: `check` does so on this
machine, and `keylane.spark.history` by a shuffle, both with `dealt` from here. So there is one verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.testing.history import lanes, order, records
from keylane.testing.history.columns import kind_of, numbers
from keylane.testing.history.rows import APPLY, CUTOVER, DEAD, OWN, READ, SEND

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from keylane.testing.history.found import Found, Settings

__all__ = ["BITS", "JUDGEMENTS", "Judgement", "dealt"]

#: Buckets at each level are 2**BITS; a bucket that is too large is dealt again by the next bits of the same hash.
BITS: Final = 6


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement: the columns and kinds of rows it looks at, by what they are dealt out, and the rules."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[int, ...]
    hash: Callable[[pa.RecordBatch], NDArray[np.uint64]]
    judge: Callable[[pa.Table, Settings], Found]


def dealt(
    judgement: Judgement, batch: pa.RecordBatch, level: int = 0, bits: int = BITS
) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """The rows that a judgement looks at, bucket by bucket, and the bucket of each. Every bucket gets all cut-overs."""
    what = kind_of(batch)
    wanted = np.isin(what, [kind for kind in judgement.kinds if kind != CUTOVER])
    if judgement.name == "order":
        # Where nothing is kept in order there is nothing to judge.
        wanted &= batch.column("scope").is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(wanted)
    narrow = batch.select(list(judgement.columns))
    mine = narrow.take(pa.array(rows)) if len(rows) < len(batch) else narrow
    bucket = (judgement.hash(mine) >> np.uint64(bits * level) & np.uint64((1 << bits) - 1)).astype(np.int64)
    cut = np.flatnonzero(what == CUTOVER) if CUTOVER in judgement.kinds else rows[:0]
    if len(cut):
        copies = narrow.take(pa.array(np.repeat(cut, 1 << bits)))
        mine = pa.Table.from_batches([mine, copies]).combine_chunks().to_batches()[0]
        bucket = np.concatenate([bucket, np.tile(np.arange(1 << bits), len(cut))])
    by_bucket = np.argsort(bucket.astype(np.uint16), kind="stable")
    return mine.take(pa.array(by_bucket)), bucket[by_bucket]


def _by_record(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    return _mixed(_hash(batch.column("writer")) << np.uint64(32) ^ numbers(batch.column("seq")).view(np.uint64))


def _by_scope(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    return _mixed(hash_batch(HASHES["murmur2"], batch.column("scope")).astype(np.uint64))


def _by_lane(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    place = numbers(batch.column("generation")) << 32 | numbers(batch.column("lane"), 0)
    return _mixed(_hash(batch.column("stream")) << np.uint64(16) ^ place.view(np.uint64))


def _hash(names: Any) -> NDArray[np.uint64]:
    """A hash of names of which there are few different ones."""
    coded = names.dictionary_encode()
    hashes = np.append(hash_batch(HASHES["murmur2"], coded.dictionary), 0).astype(np.uint64)
    return hashes[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]


def _mixed(number: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64: each bit of the result depends on every bit given."""
    number = (number ^ number >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ number >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return number ^ number >> np.uint64(31)


JUDGEMENTS: Final = (
    Judgement("records", records.COLUMNS, (SEND, READ, DEAD), _by_record, records.judge_records),
    Judgement("order", order.COLUMNS, (READ, APPLY, CUTOVER), _by_scope, order.judge_order),
    Judgement("lanes", lanes.COLUMNS, (READ, DEAD, OWN), _by_lane, lanes.judge_lanes),
)

"""Who wrote behind a fence by the old contract: counted batch by batch."""

from __future__ import annotations

import pyarrow as pa

from keylane.systems.migrations import UNNAMED, LateWriter, LateWriters


def batch(lane: int, *records: tuple[int, str | None, int | None]) -> pa.RecordBatch:
    offsets, writers, epochs = zip(*records, strict=True)
    columns = {
        "lane": pa.array([lane] * len(records), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "writer": pa.array(writers, pa.string()),
        "epoch": pa.array(epochs, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_late_writers_are_counted_over_batches_with_their_first_record() -> None:
    """Epoch 4 is of a later migration of the stream: its producers are not late."""
    late = LateWriters(3)
    late.add(batch(0, (40, "api.1", 3), (41, "cart.1", 1)))
    late.add(batch(1, (7, "cart.1", 1), (8, None, None), (9, "api.1", 4)))
    late.add(batch(1, (10, "cart.1", 2)))
    assert late.found == [
        LateWriter("cart.1", 1, 2, 0, 41),
        LateWriter("cart.1", 2, 1, 1, 10),
        LateWriter(UNNAMED, None, 1, 1, 8),
    ]

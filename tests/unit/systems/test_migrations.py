"""Who wrote behind a fence by the old contract: counted batch by batch."""

from __future__ import annotations

import pyarrow as pa

from keylane.systems.migrations import UNNAMED, LateWriter, LateWriters


def batch(lane: int, *records: tuple[int, str | None, int | None], foreign: str | None = None) -> pa.RecordBatch:
    offsets, writers, epochs = zip(*records, strict=True)
    columns = {
        "lane": pa.array([lane] * len(records), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "writer": pa.array(writers, pa.string()),
        "epoch": pa.array(epochs, pa.int64()),
        "foreign": pa.array([foreign] * len(records), pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_late_writers_are_counted_over_batches_with_their_first_record() -> None:
    """Epoch 4 is of a later migration of the stream: its producers are not late."""
    late = LateWriters(3)
    late.add(batch(0, (40, "api.1", 3), (41, "cart.1", 1)))
    late.add(batch(1, (7, "cart.1", 1), (8, None, None), (9, "api.1", 4)))
    late.add(batch(1, (10, "cart.1", 2)))
    assert late.found == [
        LateWriter("cart.1", 1, None, 2, 0, 41),
        LateWriter("cart.1", 2, None, 1, 1, 10),
        LateWriter(UNNAMED, None, None, 1, 1, 8),
    ]


def test_writers_with_foreign_headers_are_counted_once_each_whatever_stands_there() -> None:
    late = LateWriters(2)
    for number in range(100):
        late.add(batch(0, (number, "api.1", None), foreign=f"b'-{number}'"))
    late.add(batch(0, (100, "api.1", None)))
    assert late.found == [LateWriter("api.1", None, "b'-0'", 100, 0, 0), LateWriter("api.1", None, None, 1, 0, 100)]

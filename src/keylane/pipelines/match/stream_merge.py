"""Partial answers of lanes -> each rider's drivers in order: of this batch alone, with no state.

All copies of a request are answered in the same batch, because one watermark decides for all lanes; so nothing has to
wait here for another lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

__all__ = ["merged"]

_PAIR: Final = (
    "rider string, rider_ts bigint, driver string, distance_m double, driver_ts bigint, driver_offset bigint, "
    "rider_offset bigint"
)
_NAMES: Final = [one.split()[0] for one in _PAIR.split(", ")]


def merged(pairs: DataFrame, nearest: int | None, tasks: int) -> DataFrame:
    """Each pair once, with its rank among its rider's; the first `nearest` of them."""
    parts = pairs.select(*_NAMES).repartition(tasks, "rider")
    return parts.mapInArrow(_merger(nearest), f"{_PAIR}, rank int")


def _merger(nearest: int | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keylane.matching.merge import merged_pairs
        from keylane.matching.order import differs, numbers, ranks

        found = [batch for batch in batches if len(batch)]
        if not found:
            return
        whole = merged_pairs(pa.Table.from_batches(found), nearest)
        begins = differs(numbers(whole, "rider_ts")[0], ranks(whole.column("rider"))[0])
        first = np.flatnonzero(begins)
        rank = np.arange(len(whole)) - first[np.cumsum(begins) - 1] + 1
        yield from whole.append_column("rank", pa.array(rank.astype(np.int32))).combine_chunks().to_batches()

    return merge

"""Requests that are told more than once: the one with the larger offset counts, once.

This comes before the fan-out: two tellings of a request may name different places, and so different lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from keylane.matching.order import differs, numbers, ranks, sorted_rows
from keylane.matching.schemas import REQUESTS, shaped

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["distinct", "distinct_rows"]


def distinct_rows(requests: pa.Table) -> NDArray[np.intp]:
    """The rows that count: of each (rider, ts) the one with the largest offset, in the order of rider and ts."""
    (rider,) = ranks(requests.column("rider"))
    ts, offset = numbers(requests, "ts", "offset")
    rows = sorted_rows(rider, ts, offset)
    first = differs(rider[rows], ts[rows])
    return rows[np.append(first[1:], True)] if len(rows) else rows


def distinct(requests: pa.Table) -> pa.Table:
    """Each request once, in the order of rider and ts."""
    return shaped(requests, REQUESTS).take(pa.array(distinct_rows(requests)))

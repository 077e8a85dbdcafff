"""Data as clients would have written it: keys, and the lanes their partitioners give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.keys.columns import encode_column
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


@pytest.fixture(scope="session")
def lanes_by() -> Callable[..., NDArray[np.int32]]:
    """The lanes a named partitioner gives to keys."""

    def lanes_by(name: str, keys: Sequence[Any] | pa.Array, lanes: int, encoding: Any = "utf8") -> NDArray[np.int32]:
        column = keys if isinstance(keys, pa.Array) else pa.array(keys)
        found = partitioner(name, encoding).hashed_lanes(encode_column(column, encoding, "k")[0], lanes)
        return found.astype(np.int32)

    return lanes_by


@pytest.fixture(scope="session")
def batch() -> Callable[..., pa.RecordBatch]:
    """A batch of (key, lane), as `identify` and `check` read it."""

    def batch(keys: Any, lanes: Any, keys_as: pa.DataType | None = None, lanes_as: Any = None) -> pa.RecordBatch:
        columns = [
            keys if isinstance(keys, pa.Array) else pa.array(keys, keys_as),
            lanes if isinstance(lanes, pa.Array) else pa.array(lanes, lanes_as or pa.int32()),
        ]
        return pa.RecordBatch.from_arrays(columns, names=["k", "lane"])

    return batch


@pytest.fixture(scope="session")
def merchants() -> list[str]:
    """Two thousand different keys."""
    return [f"merchant_{i * 7919 % 100_003:06d}" for i in range(2_000)]


@pytest.fixture(scope="session")
def chosen() -> Callable[..., NDArray[np.int64]]:
    """Which of several writers wrote each row, by their shares; the same rows every time."""

    def chosen(rows: int, *shares: float) -> NDArray[np.int64]:
        return np.random.default_rng(7).choice(len(shares), rows, p=shares)

    return chosen

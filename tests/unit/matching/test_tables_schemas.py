"""A table is brought into its shape, and refused when it cannot be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.matching.example_tables import at, entries

from keylane.errors import DataError
from keylane.matching.tables import ENTRIES, shaped

SOME = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (("driver", pa.string()), ("ts", pa.int64()), ("offset", pa.int64()), ("lane", pa.int32()))
    ]
)


def test_other_types_orders_and_columns_come_into_shape() -> None:
    loose = pa.table({"lane": pa.array([3], pa.int64()), "x": [1], "offset": [0], "ts": [5]})
    loose = loose.append_column("driver", pa.array(["a"], pa.large_string()))
    assert shaped(loose, SOME).schema.equals(SOME)
    assert shaped(loose.to_batches()[0], SOME).to_pylist() == [{"driver": "a", "ts": 5, "offset": 0, "lane": 3}]


def test_a_table_in_shape_is_left_as_it_is() -> None:
    known = entries(at("a", 1))
    assert shaped(known, ENTRIES).equals(known)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(DataError, match=r"got \['lane'\]"):
        shaped(pa.table({"driver": ["a"], "ts": [1], "offset": [1]}), SOME)


def test_nulls_are_refused() -> None:
    with pytest.raises(DataError, match=r"hold nulls: got \['ts'\]"):
        shaped(pa.table({"driver": ["a"], "ts": pa.array([None], pa.int64()), "offset": [1], "lane": [1]}), SOME)

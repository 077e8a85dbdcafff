"""Digests of contents: what a faithful copy may change, and what it may not."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from keylane.history.digests import joined, of_bytes, of_columns

AT = [datetime(1500, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 2, 3, 456000, tzinfo=UTC)]
PAIRS = pa.map_(pa.string(), pa.int64())


def digest(values: Any, kind: pa.DataType | None = None) -> list[int]:
    return of_columns({"x": pa.array(values, kind)}).to_pylist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([1, None], pa.int32()), ([1, None], pa.int64())),
        (([2**63], pa.uint64()), ([Decimal(2**63)], pa.decimal128(20, 0))),
        ((["é", "b"], pa.string()), (["é".encode(), b"b"], pa.large_binary())),
        ((AT, pa.timestamp("ms", "UTC")), (AT, pa.timestamp("us"))),
        (([[1, 2], None], pa.list_(pa.int32())), ([[1, 2], None], pa.large_list(pa.int64()))),
        (([b"x" * 999], pa.binary()), (["x" * 999], pa.string())),
    ],
)
def test_a_faithful_copy_has_the_same_digest(one: Any, other: Any) -> None:
    assert digest(*one) == digest(*other)


@pytest.mark.parametrize(
    "values",
    [
        [pa.array([1]), pa.array(["1"]), pa.array([1.0]), pa.array([True]), pa.array([1], pa.timestamp("us"))],
        [pa.array([b""]), pa.array([b"\0"]), pa.array([b"\0" * 8]), pa.array([b"a" * 300]), pa.array([b"a" * 301])],
        [pa.array([[1, 2]]), pa.array([[2, 1]]), pa.array([[1, 2, None]]), pa.array([[]], pa.list_(pa.int64()))],
        [pa.array([{"a": 1}]), pa.array([{"b": 1}]), pa.array([{"a": None}], pa.struct([("a", pa.int64())]))],
        [pa.array([[("a", 1)]], PAIRS), pa.array([[("a", 2)]], PAIRS), pa.array([[("b", 1)]], PAIRS)],
        [pa.array([0.0]), pa.array([-0.0]), pa.array([float("nan")]), pa.array([float("inf")])],
        [pa.array([Decimal("1.10")]), pa.array([Decimal("1.1")]), pa.array([Decimal(11)])],
        [pa.array([None], pa.int64()), pa.array([0])],
    ],
    ids=["kinds", "bytes", "lists", "records", "maps", "fractions", "decimals", "nothing"],
)
def test_other_contents_have_other_digests(values: list[pa.Array]) -> None:
    assert len({of_columns({"x": one})[0].as_py() for one in values}) == len(values)


def test_rows_are_alike_wherever_they_stand() -> None:
    table = pa.table({"a": [f"text {n}" * (1 + n % 50) for n in range(400)], "b": [[n] * (n % 3) for n in range(400)]})
    whole = of_columns({name: table[name].combine_chunks() for name in ("a", "b")}).to_pylist()
    part = table.slice(123, 7)
    assert of_columns({name: part[name].combine_chunks() for name in ("b", "a")}).to_pylist() == whole[123:130]
    assert len(set(whole)) == 400


def test_null_is_a_value_where_digests_are_joined() -> None:
    values = of_bytes(pa.array([b"", None, b"a"]))
    assert values.null_count == 1
    assert len(set(joined(values).to_pylist())) == 3


def test_names_in_capitals_are_other_names() -> None:
    one, other = pa.array([1]), pa.array([2])
    assert of_columns({"v": one, "V": other}) != of_columns({"v": other, "V": one})
    assert of_columns({"v": one}) != of_columns({"V": one})


@pytest.mark.parametrize("nanos", [0, 1_000, -1_000, 1_794_821_400_123_456_000])
def test_a_time_in_nanoseconds_is_that_in_microseconds_where_those_can_hold_it(nanos: int) -> None:
    fine = [of_columns({"at": pa.array([at, None], pa.timestamp("ns"))}) for at in (nanos, nanos + 1, nanos - 1)]
    coarse = of_columns({"at": pa.array([nanos // 1_000, None], pa.timestamp("us"))})
    assert fine[0] == coarse
    assert len({digest[0].as_py() for digest in fine}) == 3

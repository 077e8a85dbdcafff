from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.errors import DataError
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_lanes_are_int32_and_null_where_there_is_none(contract: Make) -> None:
    lanes = Router(contract(lanes=15)).lanes(batch(k=["TT0124", None]))
    assert lanes.type == pa.int32()
    assert lanes.to_pylist() == [10, None]


def test_placements_have_four_columns_and_a_row_for_each_record(contract: Make) -> None:
    placed = Router(contract(lanes=15)).placements(batch(k=["TT0124", None]))
    assert placed.schema == pa.schema(
        [("stream", pa.string()), ("lane", pa.int32()), ("routing_key", pa.large_binary()), ("reason", pa.string())]
    )
    assert placed.to_pylist() == [
        {"stream": "t", "lane": 10, "routing_key": b"TT0124", "reason": None},
        {"stream": "t", "lane": None, "routing_key": None, "reason": "no-position"},
    ]


def test_a_tier_names_its_stream_in_its_rows_only(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["a"], "tier": {"stream": "vip", "lanes": 4}}]))
    assert router.placements(batch(k=["b", "a", "c"])).column("stream").to_pylist() == ["t", "vip", "t"]


@pytest.mark.parametrize(
    "empty",
    [
        batch(k=pa.array([], pa.string())),
        pa.schema([("k", pa.string())]).empty_table(),
        pa.table({"k": ["a"]}).slice(1),
    ],
    ids=["batch", "table without chunks", "slice"],
)
def test_no_rows_give_no_rows(contract: Make, empty: Any) -> None:
    assert Router(contract()).lanes(empty).to_pylist() == []
    assert Router(contract()).placements(empty).num_rows == 0


def test_no_rows_have_no_positions(contract: Make) -> None:
    assert Router(contract()).lanes(batch(k=pa.array([], pa.string())), positions=[]).to_pylist() == []


POSITIONS = [5, 600]


@pytest.mark.parametrize(
    "positions",
    [
        POSITIONS,
        tuple(POSITIONS),
        np.array(POSITIONS, np.uint16),
        pa.array(POSITIONS),
        pa.chunked_array([POSITIONS[:1], POSITIONS[1:]]),
    ],
    ids=["list", "tuple", "numpy", "arrow", "chunks"],
)
def test_positions_may_come_in_any_form(contract: Make, positions: Any) -> None:
    router = Router(contract())
    expected = [router.lane({"k": None}, position) for position in POSITIONS]
    assert router.lanes(batch(k=[None, None]), positions).to_pylist() == expected


@pytest.mark.parametrize("positions", [[1], [1, 2, 3], [1.0, 2.0], [None, 2], pa.array([1, None]), ["1", "2"]], ids=str)
def test_positions_that_do_not_fit_are_refused(contract: Make, positions: Any) -> None:
    with pytest.raises(DataError, match=r"positions .*allowed: 2"):
        Router(contract()).lanes(batch(k=["a", "b"]), positions)


def test_a_column_that_is_not_there_is_named_with_those_that_are(contract: Make) -> None:
    with pytest.raises(DataError, match=r"no column 'k': .*allowed: merchant, amount"):
        Router(contract()).lanes(batch(merchant=["a"], amount=[1]))


def test_a_sub_key_column_that_is_not_there_stops_a_batch_that_needs_it(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["a"], "spread": {"over": 3, "by": "order"}}]))
    with pytest.raises(DataError, match=r"no column 'order': .*allowed: k, orders; hint: did you mean 'orders'"):
        router.placements(batch(k=["a", "b"], orders=["x", "y"]))
    assert router.placements(batch(k=["b"])).column("reason").to_pylist() == [None]


@pytest.mark.parametrize("rows", [1, 20], ids=["few", "many"])
def test_a_null_among_numbers_that_must_have_eight_bytes_stops_nobody(contract: Make, rows: int) -> None:
    router = Router(contract(partitioner="abs-long-hashcode", key={"fields": ["k"], "encoding": "int64be"}))
    lanes = router.lanes(batch(k=[7] * rows + [None] * rows)).to_pylist()
    assert lanes == [router.lane({"k": 7})] * rows + [None] * rows

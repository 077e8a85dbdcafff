from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.model import Key, Table
from keylane.keys.encode import encode
from keylane.placement.table import LaneTable, compile_table

if TYPE_CHECKING:
    from keylane.contract.names import Encoding


def compiled(encoding: str, **table: Any) -> LaneTable:
    return compile_table(Table.model_validate(table), Key.model_validate({"fields": ["k"], "encoding": encoding}))


NUMBERS = compiled(
    "int32be",
    values={7: 2, 8: [5, 3], 9: [4]},
    ranges=[{"from": 1000, "lane": 1}, {"from": 0, "below": 1000, "lane": 0}, {"from": -20, "below": -10, "lane": 6}],
)


@pytest.mark.parametrize(
    ("key", "lanes"),
    [
        (7, (2,)),
        (8, (3, 5)),
        (9, (4,)),
        (0, (0,)),
        (999, (0,)),
        (1000, (1,)),
        (2**31 - 1, (1,)),
        (-1, None),
        (-10, None),
        (-11, (6,)),
        (-20, (6,)),
        (-21, None),
    ],
)
def test_a_number_is_looked_up_by_value_then_by_range(key: int, lanes: tuple[int, ...] | None) -> None:
    assert NUMBERS.lanes_of(encode(key, "int32be")) == lanes


@pytest.mark.parametrize(
    ("key", "lane"), [("", 0), ("A", 0), ("a", 0), ("g", 1), ("gz", 1), ("n", None), ("ü", 2), ("zz", 2), ("😀", 2)]
)
def test_text_is_compared_by_its_bytes_and_ends_may_be_open(key: str, lane: int | None) -> None:
    table = compiled(
        "utf8", ranges=[{"from": "u", "lane": 2}, {"below": "g", "lane": 0}, {"from": "g", "below": "n", "lane": 1}]
    )
    assert table.lanes_of(encode(key, "utf8")) == (None if lane is None else (lane,))


@pytest.mark.parametrize(("encoding", "key"), [("utf8", "7"), ("utf8", 7), ("int64be", 7), ("h3", 1 << 59)])
def test_a_value_is_found_by_the_bytes_of_its_encoding(encoding: Encoding, key: Any) -> None:
    table = compiled(encoding, values={key: 3})
    assert table.lanes_of(encode(key, encoding)) == (3,)


def test_lane_zero_is_a_lane_and_no_ranges_are_no_lane() -> None:
    table = compiled("utf8", values={"a": 0})
    assert table.lanes_of(b"a") == (0,)
    assert table.lanes_of(b"b") is None


def test_a_range_may_take_everything() -> None:
    assert compiled("int64be", ranges=[{"lane": 4}]).lanes_of(encode(-(2**63), "int64be")) == (4,)

"""One record or a batch of them, under contracts that use everything at once: the same placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("t", pa.int64()), ("order", pa.string())])
records = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.none() | st.sampled_from(["a", "b", "c", ""]) | st.text(max_size=6),
            "n": st.none() | st.sampled_from([7, -1, 2**31]) | st.integers(-(2**63), 2**63 - 1),
            "t": st.none() | st.integers(-(2**45), 2**45),
            "order": st.none() | st.text(max_size=3),
        }
    ),
    max_size=25,
)
SPREAD = {"over": 3, "by": "order"}
SPECS: dict[str, dict[str, Any]] = {
    "hot text": {
        "hot_keys": [
            {"keys": ["a"], "pin": {"lanes": [3]}},
            {"keys": ["b"], "spread": SPREAD},
            {"keys": ["c"], "tier": {"stream": "vip", "lanes": 5, "spread": {"over": 2, "by_position": True}}},
        ]
    },
    "text and number in a window": {
        "key": {"fields": ["k", "n"], "window": {"field": "t", "size": "5m"}},
        "hot_keys": [{"keys": [["a", 7]], "spread": SPREAD}],
    },
    "numbers in a table": {
        "key": {"fields": ["n"], "encoding": "int32be", "on_null": "round_robin"},
        "table": {
            "values": {7: [3, 1, 9]},
            "ranges": [{"below": 0, "lane": 2}, {"from": 100, "lane": 4}],
            "by": "order",
            "otherwise": "reject",
        },
    },
    "numbers in a window, by spark": {
        "partitioner": "spark-hash",
        "key": {"fields": ["n"], "encoding": "int64be", "window": {"field": "t", "size": "1d", "as": "index"}},
    },
    "text by md5": {"partitioner": "kinesis-md5", "lanes": 7},
}


@pytest.mark.parametrize("name", SPECS)
@given(drawn=records, positioned=st.booleans())
def test_a_batch_places_every_record_as_it_is_placed_alone(
    contract: Callable[..., Contract], name: str, drawn: list[dict[str, Any]], positioned: bool
) -> None:
    router = Router(contract(**SPECS[name]))
    at = list(range(0, 100 * len(drawn), 100)) if positioned and drawn else None
    alone = [router.place(record, at[i] if at else None) for i, record in enumerate(drawn)]
    batch = pa.RecordBatch.from_pylist(drawn, schema=SCHEMA)
    assert [tuple(row.values()) for row in router.placements(batch, at).to_pylist()] == [
        (p.stream, p.lane, p.routing_key, p.reason) for p in alone
    ]

"""What is kept in order of each record, under every strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from keylane import Router
from keylane.batch_router import decide
from keylane.measure.conformance import order_scopes

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane import Contract

HOUR = 3_600_000
BATCH = pa.record_batch(
    {"k": ["a", "hot", "hot", None], "order": ["x", "y", None, "z"], "ts": [0, 0, HOUR, 0]},
)
WINDOW = {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}


@pytest.mark.parametrize(
    ("spec", "scopes"),
    [
        ({}, [b"a", b"hot", b"hot", None]),
        ({"key": WINDOW}, [b"a|0", b"hot|0", b"hot|3600000", None]),
        ({"key": WINDOW, "hot_keys": [{"keys": ["hot"], "pin": {"lanes": [1]}}]}, [b"a|0", b"hot", b"hot", None]),
        (
            {"hot_keys": [{"keys": ["hot"], "spread": {"over": 2, "by": "order"}}]},
            [b"a", b"hot/y#3", b"hot/#3", None],
        ),
        (
            {"key": WINDOW, "hot_keys": [{"keys": ["hot"], "spread": {"over": 2, "by": "order"}}]},
            [b"a|0", b"hot|0/y#5", b"hot|3600000/#11", None],
        ),
        (
            {"key": WINDOW, "hot_keys": [{"keys": ["hot"], "spread": {"lanes": [1, 2], "by": "order"}}]},
            [b"a|0", b"hot/y#3", b"hot/#3", None],
        ),
        ({"hot_keys": [{"keys": ["hot"], "spread": {"over": 2, "by_position": True}}]}, [b"a", None, None, None]),
        ({"hot_keys": [{"keys": ["hot"], "tier": {"stream": "v", "lanes": 2}}]}, [b"a", b"hot", b"hot", None]),
        (
            {"key": WINDOW, "table": {"values": {"a": 3, "hot": [1, 2]}, "by": "order"}},
            [b"a", b"hot/y#3", b"hot/#3", None],
        ),
        ({"partitioner": "librdkafka-random"}, [None] * 4),
    ],
)
def test_the_scope_of_a_record(
    spec: dict[str, Any], scopes: list[bytes | None], contract: Callable[..., Contract]
) -> None:
    router = Router(contract(**spec))
    found = order_scopes(router, decide(router, BATCH, [0, 1, 2, 3])).to_pylist()
    assert found == scopes

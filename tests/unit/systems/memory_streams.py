"""Streams of the system in memory: records taken in turns, and the same records each in its lane."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keylane import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Run = Callable[..., tuple[int, str, str]]

KEYS = [f"key-{n % 400}" for n in range(2000)]
SPEC = {"streams": ["payments"], "lanes": 4, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}


def streams(contract: Contract) -> dict[str, pa.Table]:
    """`raw`, two lanes taken in turns, and `payments`, the same records each in its lane."""
    router, offsets = Router(contract), Counter[tuple[str, int]]()
    rows: dict[str, list[dict[str, Any]]] = {"raw": [], "payments": []}
    for n, key in enumerate(KEYS):
        lane = router.placed({"k": key}).lane
        assert lane is not None
        rows["raw"].append({"k": key, "at": n, "lane": n % 2, "offset": n // 2})
        placed = {"lane": lane, "offset": offsets["payments", lane], "source": "raw", "position": n}
        rows["payments"].append({"k": key, "at": n, **placed})
        offsets["payments", lane] += 1
    return {name: pa.Table.from_pylist(some) for name, some in rows.items()}

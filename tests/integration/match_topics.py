"""Pings and requests in topics, for running matches: in any lane, plain or as only Spark reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from keylane.systems.broker import Cluster

    Lane = Callable[[int], int]


def produce(broker: Cluster, name: str, rows: list[dict[str, Any]], lane: Lane, *, plain: bool) -> str:
    """Rows in lanes; times as numbers, or as text, which Spark has to read."""
    # Idempotent: what is sent again to a broker that has just started would otherwise come after what was sent later.
    producer = Producer({**librdkafka_settings(broker), "enable.idempotence": True})
    for number, row in enumerate(rows):
        at = row["ts"]
        value = {**row, "ts": round(at.timestamp() * 1e6) if plain else at.isoformat()}
        producer.produce(name, json.dumps(value).encode(), partition=lane(number))
    assert producer.flush(60) == 0
    return f"kafka://{broker.bootstrap}/{name}"


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.drop(["file"]).to_pylist())

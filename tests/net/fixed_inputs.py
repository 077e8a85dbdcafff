"""Small fixed inputs of the net: contracts, payments, pings and riders. Seeded, and a few hundred records each."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CONTRACTS", "contract_file", "contract_text", "keyed_file", "pings", "riders", "write_source"]

DAY: Final = datetime(2026, 3, 1, tzinfo=UTC)
NOON_MS: Final = 1_763_208_000_000
PLACE: Final = {"fields": ["lat", "lng"], "encoding": "place"}
#: The spec of contracts of every kind, without what `contract_text` adds.
CONTRACTS: Final[dict[str, dict[str, Any]]] = {
    "hash": {},
    "hash-librdkafka": {"partitioner": "librdkafka-consistent", "lanes": 7},
    "live": {"lanes": "live"},
    "strict": {"key": {"fields": ["k"], "on_null": "reject", "on_empty": "reject"}},
    "two-fields": {"key": {"fields": ["k", "n"], "encoding": ["utf8", "int64be"], "join": "/"}},
    "window": {"key": {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}},
    "window-index": {"key": {"fields": ["k"], "window": {"field": "ts", "size": "5m", "unit": "s", "as": "index"}}},
    "table": {"table": {"values": {"key-1": 3, "key-2": [0, 1]}, "by": "order"}},
    "table-ranges": {
        "key": {"fields": ["n"], "encoding": "int64be"},
        "table": {"ranges": [{"below": 100, "lane": 0}, {"from": 100, "lane": 1}], "otherwise": "reject"},
    },
    "hot-pin": {"hot_keys": [{"keys": ["hot", "key-1"], "pin": {"lanes": [2, 3]}}]},
    "hot-spread": {"hot_keys": [{"keys": ["hot"], "spread": {"over": 3, "by": "order"}}]},
    "hot-position": {"hot_keys": [{"keys": ["hot"], "spread": {"lanes": [0, 4], "by_position": True}}]},
    "tier": {"hot_keys": [{"keys": ["hot"], "tier": {"stream": "vip", "lanes": 2}}]},
    "expect": {"expect": {"max_over_mean": 4.0, "max_key_share": 0.9}, "golden": [{"key": "key-1", "lane": 0}]},
    "geo": {"key": PLACE, "lanes": 4, "geo": {"resolution": 5}},
    "geo-leaves": {
        "key": PLACE,
        "lanes": 2,
        "geo": {"resolution": 3, "leaves": ["83195dfffffffff", "83194afffffffff 83194efffffffff"]},
    },
    "geo-region": {"key": PLACE, "lanes": 4, "geo": {"resolution": 4, "region": [50.0, -2.0, 53.0, 2.0]}},
}


def contract_text(name: str, **changes: Any) -> str:
    """One of the contracts, as YAML."""
    usual = {"streams": ["t"], "lanes": 15, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
    document = {
        "apiVersion": "keylane/v1",
        "kind": "RoutingContract",
        "metadata": {"name": name},
        "spec": {**usual, **CONTRACTS[name], **changes},
    }
    return yaml.safe_dump(document, sort_keys=False)


def contract_file(folder: Path, name: str, **changes: Any) -> Path:
    """The same in a file; one with changes has a number of them in its name."""
    path = folder / f"{name}{'-changed' if changes else ''}.yaml"
    path.write_text(contract_text(name, **changes), encoding="utf-8")
    return path


def keyed_file(path: Path, lanes: list[int]) -> Path:
    """Keys `key-0`, … with the lanes they lie in."""
    keys = [f"key-{n}" for n in range(len(lanes))]
    pq.write_table(pa.table({"k": keys, "lane": pa.array(lanes, pa.int32())}), path)
    return path


def write_source(folder: Path, numbers: range, rows: int = 60, *, nulls: bool = False) -> Path:
    """Files of payments, each a little younger than the last; with `nulls` one key in twenty is null."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        ids = range(number * rows, (number + 1) * rows)
        table = pa.table(
            {
                "k": [None if nulls and n % 20 == 19 else "hot" if n % 3 == 0 else f"key-{n * n % 17}" for n in ids],
                "order": [f"order-{n % 7}" for n in ids],
                "at": [DAY + timedelta(minutes=16 * n) for n in ids],
                "size": [n % 7 + 1 for n in ids],
                "n": list(ids),
            }
        )
        path = folder / f"f{number:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    return folder


def pings(path: Path, count: int = 400, seed: int = 3) -> Path:
    """Drivers in three cities over a day, one without a place."""
    rng = np.random.default_rng(seed)
    city = rng.integers(0, 3, count)
    spots = np.array([(40.7, -74.0), (51.5, -0.1), (35.7, 139.7)])[city] + rng.normal(0, 0.05, (count, 2))
    rows = [
        {
            "id": f"d{n % 40}",
            "ts": NOON_MS + int(n) * 60_000 * 3,
            "lat": round(float(lat), 6),
            "lng": round(float(lng), 6),
            "available": n % 9 != 0,
        }
        for n, (lat, lng) in enumerate(spots)
    ]
    rows.append({"id": "d0", "ts": NOON_MS, "lat": None, "lng": None, "available": True})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def riders(path: Path, count: int = 40, seed: int = 4) -> Path:
    """Who asks, in the same cities; one asks without a time."""
    rng = np.random.default_rng(seed)
    spots = np.array([(40.7, -74.0), (51.5, -0.1), (35.7, 139.7)])[rng.integers(0, 3, count)]
    spots = spots + rng.normal(0, 0.05, (count, 2))
    rows = [
        {"id": f"r{n}", "ts": NOON_MS + int(n) * 1_800_000, "lat": round(float(a), 6), "lng": round(float(b), 6)}
        for n, (a, b) in enumerate(spots)
    ]
    rows.append({"id": "r-late", "ts": None, "lat": 51.5, "lng": -0.1})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path

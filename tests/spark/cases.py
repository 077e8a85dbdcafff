"""The cases that every way to place a record on Spark must agree on with the router: contract, columns, positions.

A case is small and has its misfits in it. Values are what Arrow can hold and Spark can too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import yaml

from keylane.contract.names import PARTITIONERS
from keylane.contract.parse import parse_contract
from keylane.contract.partitioners import FACTS

UUID = "123e4567-e89b-12d3-a456-426614174000"
CELL = 0x08928308280FFFFF
TEXTS = ["a", "Zoë", "天地", "😀", "merchant_000042", "x" * 37, "", None, "1468509572224", "a", "b", "c", "abc", "abcd"]
BYTES = [b"", b"\x00", b"\xff", b"\x80" * 5, "Zoë".encode(), b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80", b"ok", None]
LONGS = [0, 1, -1, 7, 255, -256, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**62 + 12345, 2**63 - 1, -(2**63), None]
CELLS = [CELL, 0, -1, 1 << 59, 2 << 59, (2 << 59) - 1, 0x832830FFFFFFFFF, 2**63 - 1, None]
TIMES = [
    datetime(2026, 11, 15, 5, 41, 16, 123456, tzinfo=UTC),
    datetime(2026, 11, 15, 5, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1700, 2, 28, 1, 2, 3, 4, tzinfo=UTC),
    None,
]
ORDERS = [None, "", "o-1", "o-2", "o-3", "Zoë", "😀"]
HEADED = [
    b"\0\0\0\0\x07key",
    b"\0\0\0\0\x08key",
    b"\0\0\0\0\x07",
    None,
    b"",
    b"\0\0\0\0",
    b"a longer key",
    b"\x01\0\0\0\x07k",
]


@dataclass(frozen=True)
class Case:
    """One contract and one frame. `positions`: whether `route` is told of the column of them, which has a null.

    `alone`: whether `lane(contract)` is asked too. It must not need to know the frame; and with overrides, which take
    long to compile twice, a few cases of each kind do.
    """

    spec: dict[str, Any]
    columns: dict[str, pa.Array]
    positions: bool = True
    lanes: int | None = None
    alone: bool | None = None

    @property
    def asked_alone(self) -> bool:
        return {"hot_keys", "table"}.isdisjoint(self.spec) if self.alone is None else self.alone

    @property
    def contract(self) -> Any:
        usual = {"streams": ["t"], "lanes": 16, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
        document = {
            "apiVersion": "keylane/v1",
            "kind": "RoutingContract",
            "metadata": {"name": "test"},
            "spec": {**usual, **self.spec},
        }
        return parse_contract(yaml.safe_dump(document, allow_unicode=True))

    @property
    def table(self) -> pa.Table:
        rows = len(next(iter(self.columns.values())))
        at: list[int | None] = [257 * i - 600 for i in range(rows)]
        if rows > 3:
            at[3] = None
            at[-1] = 2**63 - 1
        return pa.table({**self.columns, "at": pa.array(at, pa.int64())})


def of(values: list[Any], kind: Any = None, name: str = "k") -> dict[str, pa.Array]:
    return {name: pa.array(values, kind)}


def crossed(**lists: list[Any]) -> dict[str, pa.Array]:
    """Every combination of the values, as columns."""
    rows: list[dict[str, Any]] = [{}]
    for name, values in lists.items():
        rows = [{**row, name: value} for row in rows for value in values]
    return {name: pa.array([row[name] for row in rows]) for name in lists}


def key(encoding: Any = "utf8", fields: tuple[str, ...] = ("k",), **more: Any) -> dict[str, Any]:
    return {"key": {"fields": list(fields), "encoding": encoding, **more}}


def _values_for(partitioner: str) -> tuple[dict[str, Any], dict[str, pa.Array]]:
    text = "utf8" in FACTS[partitioner].encodings
    return (key("utf8"), of(TEXTS)) if text else (key("int64be"), of(LONGS))


def _partitioners() -> dict[str, Case]:
    out: dict[str, Case] = {}
    for name in PARTITIONERS:
        spec, columns = _values_for(name)
        out[name] = Case({"partitioner": name, "lanes": 15, **spec}, columns)
    return out


ENCODINGS = {
    "utf8 of binary": Case(key("utf8"), of(BYTES)),
    "utf8 of integers": Case(key("utf8"), of(LONGS)),
    "utf8 of tinyint": Case(key("utf8"), of([0, -7, 127, None], pa.int8())),
    "a column of nulls": Case(key("utf8"), of([None, None])),
    "int32be": Case(key("int32be"), of(LONGS)),
    "int32be of smallint": Case(key("int32be"), of([0, -1, 32767, None], pa.int16())),
    "int64be": Case(key("int64be"), of(LONGS)),
    "int64be of int": Case(key("int64be"), of([0, -1, 2**31 - 1, None], pa.int32())),
    "uuid text": Case(
        key("uuid"),
        of([UUID, UUID.upper(), UUID[:-1], UUID + "\n", UUID.replace("-", ""), UUID[:-1] + "g", "x" * 36, "", None]),
    ),
    "uuid bytes": Case(
        key("uuid"), of([bytes(16), bytes(range(16)), b"\xff" * 16, bytes(15), UUID.encode(), b"", None])
    ),
    "h3 numbers": Case(key("h3"), of(CELLS)),
    "h3 text": Case(
        key("h3"),
        of(["8928308280fffff", "08928308280FFFFF", "8928308280ffff", "18928308280fffff", "7928308280fffff", "", None]),
    ),
    "raw": Case(key("raw"), of(BYTES)),
    "raw, crc32": Case({**key("raw"), "partitioner": "librdkafka-consistent-random"}, of(BYTES)),
    "raw, fnv1a": Case({**key("raw"), "partitioner": "sarama-hash"}, of(BYTES)),
    "raw, spark-hash": Case({**key("raw"), "partitioner": "spark-hash"}, of(BYTES)),
    "int32be, spark-hash": Case({**key("int32be"), "partitioner": "spark-hash"}, of(LONGS)),
    "int64be, spark-hash": Case({**key("int64be"), "partitioner": "spark-hash"}, of(LONGS)),
    "h3, spark-hash": Case({**key("h3"), "partitioner": "spark-hash"}, of(CELLS)),
    "uuid, spark-hash": Case({**key("uuid"), "partitioner": "spark-hash"}, of([UUID, None, "x"])),
    "h3, abs-long-hashcode": Case({**key("h3"), "partitioner": "abs-long-hashcode", "lanes": 60}, of(CELLS)),
    "int64be, crc32": Case({**key("int64be"), "partitioner": "librdkafka-consistent"}, of(LONGS)),
    "a megabyte": Case(key("utf8"), of(["m" * 2**20, "é" * 2**19, "m" * (2**20 - 1), "short"])),
    "a megabyte, fnv1a": Case({"partitioner": "sarama-hash"}, of(["m" * 2**20, "é" * 2**19, "short"])),
    "registry header": Case(key("raw", registry_header="strip"), of(HEADED)),
    "registry header, null and empty rejected": Case(
        key("raw", registry_header="strip", on_null="reject", on_empty="reject"), of(HEADED)
    ),
}

COMPOSITE = crossed(k=["x", "", "天", None], n=[0, -1, 2**40, None])
KEYS = {
    "two fields": Case(key(fields=("k", "n")), COMPOSITE),
    "two fields, nothing between": Case(key(fields=("k", "n"), join="", on_empty="reject"), COMPOSITE),
    "two fields, mixed": Case(key(["utf8", "int32be"], fields=("k", "n"), join="·"), COMPOSITE),
    "two numbers": Case(key("int32be", fields=("n", "m")), crossed(n=[0, None, 2**40], m=[0, None, 2**40])),
    "two texts that are all empty": Case(
        key(fields=("k", "m"), join="", on_empty="round_robin"), crossed(k=["", "a"], m=["", None])
    ),
    "names with dots and ticks": Case(
        {"key": {"fields": ["a.b`c", "d e"]}}, {"a.b`c": pa.array(["x", None]), "d e": pa.array(["y", "z"])}
    ),
}

WHOLE = [0, 1, -1, 3_599, 3_600, -3_600, -3_601, 1_794_720_076_123, 2**62, -(2**62), -(2**63), None]


def window(size: str, **more: Any) -> dict[str, Any]:
    return {"window": {"field": "t", "size": size, **more}}


def zoned(times: list[Any], zone: str | None) -> dict[str, pa.Array]:
    values = times if zone else [time and time.replace(tzinfo=None) for time in times]
    return {"k": pa.array(["a", "", "b", "c", "d", "e"]), "t": pa.array(values, pa.timestamp("us", zone))}


FAR = [2**62, 2**62 + 1, -(2**62), -(2**62) - 1, 0]


def far_off(zone: str | None) -> dict[str, pa.Array]:
    return {"k": pa.array(list("abcde")), "t": pa.array(FAR, pa.int64()).cast(pa.timestamp("us", zone))}


WINDOWS = {
    "whole milliseconds": Case(key(**window("1h")), crossed(k=["a", "", None], t=WHOLE)),
    "whole seconds, by index": Case(
        key(**window("5m", unit="s", **{"as": "index"})), crossed(k=["a", "", None], t=[*WHOLE, 4611686018427])
    ),
    "whole microseconds, start in seconds": Case(
        key(**window("500ms", unit="us", **{"as": "start_s"})), crossed(k=["a"], t=WHOLE)
    ),
    "the longest window": Case(key(**window("99999d")), crossed(k=["a"], t=WHOLE)),
    "timestamps": Case(key(**window("1h")), zoned(TIMES, "UTC")),
    "timestamps of a zone": Case(key(**window("7d", **{"as": "start_s"})), zoned(TIMES, "Asia/Kolkata")),
    "naive timestamps": Case(key(**window("1h", **{"as": "index"})), zoned(TIMES, None), alone=False),
    "timestamps of another age": Case(key(**window("1h")), far_off("UTC")),
    "naive timestamps of another age": Case(key(**window("1h")), far_off(None), alone=False),
    "fixed widths": Case(
        {"key": {"fields": ["n"], "encoding": "int32be", **window("1h")}}, crossed(n=[7, -1, 2**40, None], t=WHOLE)
    ),
    "null is hashed, a bad time is not": Case(
        key(on_null="hash", **window("1h", unit="s")), crossed(k=["a", None], t=[0, None, 2**62])
    ),
    "an empty key with no time": Case(
        key(on_null="reject", on_empty="hash", **window("1h")), crossed(k=["", "a"], t=[None, 5])
    ),
    "a hot key with a bad time": Case(
        {
            **key(**window("1h", unit="s")),
            "hot_keys": [
                {"keys": ["a"], "tier": {"stream": "vip", "lanes": 3}},
                {"keys": ["b"], "pin": {"lanes": [3]}},
            ],
        },
        crossed(k=["a", "b", "c"], t=[0, -3601, None, 2**62]),
    ),
}

RULES = ("client", "hash", "sticky", "random", "round_robin", "reject")
RULE_KEYS = of(["a", None, "", None, "", "b", None, "", "a", None, ""])


def _rules() -> dict[str, Case]:
    out: dict[str, Case] = {}
    for on_null, on_empty in zip(RULES, RULES[1:] + RULES[:1], strict=True):
        rules: dict[str, Any] = {"on_null": on_null, "on_empty": on_empty}
        out[f"null {on_null}, empty {on_empty}"] = Case(key(**rules), RULE_KEYS)
        out[f"null {on_null}, empty {on_empty}, no position"] = Case(key(**rules), RULE_KEYS, positions=False)
    out["null and empty go before overrides"] = Case(
        {
            **key(on_null="random", on_empty="reject"),
            "hot_keys": [{"keys": ["", "a"], "tier": {"stream": "vip", "lanes": 3}}],
            "table": {"values": {"b": 7}, "otherwise": "reject"},
        },
        RULE_KEYS,
    )
    out["a client that ignores keys, no position"] = Case(
        {"partitioner": "librdkafka-random"}, RULE_KEYS, positions=False
    )
    return out


OVERRIDDEN = crossed(k=["a", "b", "c", "d", "", None], order=ORDERS)
TIER = {"stream": "vip", "lanes": 5}
BY = {"over": 3, "by": "order"}
TURN = {"over": 5, "by_position": True}


def hot(**rule: Any) -> dict[str, Any]:
    return {"hot_keys": [{"keys": ["a"], **rule}]}


def many(count: int) -> list[str]:
    return [f"key-{i:04d}" for i in range(count)]


OVERRIDES = {
    "pins": Case({"hot_keys": [{"keys": ["a", "b", ""], "pin": {"lanes": [3, 0, 15]}}]}, OVERRIDDEN),
    "spread by sub-key": Case(hot(spread=BY), OVERRIDDEN),
    "spread over all lanes": Case(hot(spread={"over": 16, "by": "order"}), OVERRIDDEN),
    "spread by position": Case(hot(spread=TURN), OVERRIDDEN, alone=True),
    "spread by position, none given": Case(hot(spread=TURN), OVERRIDDEN, positions=False),
    "listed lanes by sub-key": Case(hot(spread={"lanes": [9, 2, 15], "by": "order"}), OVERRIDDEN),
    "listed lanes by position": Case(hot(spread={"lanes": [9, 2, 15], "by_position": True}), OVERRIDDEN),
    "tier": Case(hot(tier=TIER), OVERRIDDEN),
    "tier of shards": Case({"partitioner": "kinesis-md5", **hot(tier=TIER)}, OVERRIDDEN),
    "tier with a spread by sub-key": Case(hot(tier={**TIER, "spread": BY}), OVERRIDDEN),
    "tier with a spread by position": Case(hot(tier={**TIER, "spread": TURN}), OVERRIDDEN),
    "spread over all live lanes": Case({"lanes": "live", **hot(spread=TURN)}, OVERRIDDEN, lanes=5),
    "spread of a hash over Arrow": Case({"partitioner": "sarama-hash", **hot(spread=BY)}, OVERRIDDEN),
    "every kind at once": Case(
        {
            "hot_keys": [
                {"keys": ["a"], "pin": {"lanes": [3]}},
                {"keys": ["b"], "spread": BY},
                {"keys": ["c"], "tier": TIER},
                {"keys": [""], "tier": {"stream": "empty", "lanes": 2}},
            ],
            "table": {"values": {"a": 1, "d": 2}},
        },
        OVERRIDDEN,
        alone=True,
    ),
    "sub-keys of bytes": Case(
        hot(tier={**TIER, "spread": BY}), crossed(k=["a", "e"], order=[b"\xff", b"ok", b"", None])
    ),
    "sub-keys of integers": Case(hot(spread=BY), crossed(k=["a", "e"], order=[1, -1, None])),
    "no sub-key column": Case(hot(tier={**TIER, "spread": BY}), of(["a", "e"])),
    "hot keys of two fields and a window": Case(
        {
            "key": {"fields": ["k", "n"], "window": {"field": "t", "size": "1h"}},
            "hot_keys": [{"keys": [["a", 7]], "spread": {"over": 3, "by": "t"}}],
        },
        crossed(k=["a", "b", None], n=[7, 8, None], t=[0, 3_600_000, -1, None]),
    ),
    "hot numbers": Case({**key("int32be"), "hot_keys": [{"keys": [-1, 7], "pin": {"lanes": [3, 0]}}]}, of(LONGS)),
    "many hot keys": Case(
        {
            "hot_keys": [
                {"keys": many(200)[:100], "pin": {"lanes": [i % 16 for i in range(100)]}},
                {"keys": many(200)[100:], "spread": BY},
            ]
        },
        crossed(k=["key-0000", "key-0099", "key-0100", "key-0199", "key-0200", "", None], order=ORDERS[:4]),
    ),
    "many behaviours": Case(
        {
            "hot_keys": [
                {"keys": [name], "tier": {"stream": f"s{i}", "lanes": i + 1}} for i, name in enumerate(many(40))
            ]
        },
        of([*many(41), "", None]),
        alone=True,
    ),
    "table": Case({"table": {"values": {"a": 7, "b": [4]}}}, OVERRIDDEN),
    "table that rejects the rest": Case({"table": {"values": {"a": 7}, "otherwise": "reject"}}, OVERRIDDEN),
    "few-lane accounts": Case(
        {"table": {"values": {"a": [3, 1, 9], "b": [2], "c": 5, "": [4, 6]}, "by": "order", "otherwise": "reject"}},
        OVERRIDDEN,
        alone=True,
    ),
    "accounts without their sub-key": Case(
        {"table": {"values": {"a": [3, 1], "b": 2}, "by": "order"}}, of(["a", "b", "c"])
    ),
    "a large table": Case(
        {"table": {"values": {**{k: i % 16 for i, k in enumerate(many(300))}, "a": [1, 2]}, "by": "order"}},
        crossed(k=["key-0000", "key-0299", "key-0300", "a", None], order=ORDERS[:4]),
        alone=True,
    ),
    "ranges of text": Case(
        {
            "table": {
                "values": {"bb": 9},
                "ranges": [
                    {"below": "b", "lane": 1},
                    {"from": "b", "below": "c", "lane": 2},
                    {"from": "天", "lane": 3},
                ],
            }
        },
        of(["", "a", "b", "bb", "bz", "c", "d", "天", "天地", "😀", None]),
        alone=True,
    ),
    "ranges of numbers that reject the rest": Case(
        {
            **key("int64be"),
            "table": {
                "ranges": [{"below": -5, "lane": 1}, {"from": -5, "below": 0, "lane": 2}, {"from": 1000, "lane": 3}],
                "otherwise": "reject",
            },
        },
        of([*LONGS, -6, -5, 999, 1000]),
    ),
    "many ranges": Case(
        {
            **key("int32be"),
            "table": {"ranges": [{"from": 10 * i, "below": 10 * i + 7, "lane": i % 16} for i in range(300)]},
        },
        of([-1, 0, 6, 7, 9, 10, 1506, 1507, 2990, 2996, 2997, 2**31 - 1, None]),
    ),
}

SHARDS = {
    f"{lanes} shards": Case(
        {"partitioner": "kinesis-md5", "lanes": lanes}, of([*map(str, range(300)), "Zoë", "", None])
    )
    for lanes in (1, 2, 7, 64, 256, 257, 4096)
}
SHARDS["100000 shards"] = Case({"partitioner": "kinesis-md5", "lanes": 100_000}, of(["a", "b", "Zoë", "", None]))

CASES: dict[str, Case] = {
    **_partitioners(),
    **ENCODINGS,
    **KEYS,
    **WINDOWS,
    **_rules(),
    **OVERRIDES,
    **SHARDS,
}

"""Every override: pins, spreads, tiers, tables, and what other keys do beside them; few and many of each."""

from __future__ import annotations

from typing import Any

from tests.parity.cases.case import Case, Spec, crossed, hot, key, many, of
from tests.parity.cases.partitioners import LONGS, MD5, uneven

ORDERS = [None, "", "o-1", "o-2", "o-3", "Zoë", "😀"]
OVERRIDDEN = crossed(k=["a", "b", "c", "d", "", None], order=ORDERS)
TIER = {"stream": "vip", "lanes": 5}
BY = {"over": 3, "by": "order"}
TURN = {"over": 5, "by_position": True}
LISTED = [9, 2, 15]
CUT = uneven(5)

HOT = {
    "pins": Case({"hot_keys": [{"keys": ["a", "b", ""], "pin": {"lanes": [3, 0, 15]}}]}, OVERRIDDEN),
    "spread by sub-key": Case(hot(spread=BY), OVERRIDDEN),
    "spread over all lanes": Case(hot(spread={"over": 16, "by": "order"}), OVERRIDDEN),
    "spread over many lanes": Case({"lanes": 300, **hot(spread={"over": 256, "by": "order"})}, OVERRIDDEN, alone=True),
    "spread by position": Case(hot(spread=TURN), OVERRIDDEN, alone=True),
    "spread by position, none given": Case(hot(spread=TURN), OVERRIDDEN, positions=False),
    "listed lanes by sub-key": Case(hot(spread={"lanes": LISTED, "by": "order"}), OVERRIDDEN, alone=True),
    "listed lanes by position": Case(hot(spread={"lanes": LISTED, "by_position": True}), OVERRIDDEN),
    "two keys of one spread": Case({"hot_keys": [{"keys": ["a", "b"], "spread": BY}]}, OVERRIDDEN),
    "two spreads": Case(
        {
            "hot_keys": [
                {"keys": ["a"], "spread": BY},
                {"keys": ["b"], "spread": {"lanes": LISTED, "by": "order"}},
                {"keys": ["c"], "spread": TURN},
            ]
        },
        OVERRIDDEN,
        alone=True,
    ),
    "the widest lanes": Case(
        {"lanes": 100_000, **hot(spread={"lanes": [0, 1, 99_999], "by": "order"})}, OVERRIDDEN, alone=True
    ),
    "tier": Case(hot(tier=TIER), OVERRIDDEN),
    "tier of shards": Case({"partitioner": "kinesis-md5", **hot(tier=TIER)}, OVERRIDDEN),
    "tier beside uneven shards": Case({**MD5, "lanes": TIER["lanes"], **hot(tier=TIER)}, OVERRIDDEN, key_space=CUT),
    "spread over uneven shards": Case({**MD5, "lanes": TIER["lanes"], **hot(spread=BY)}, OVERRIDDEN, key_space=CUT),
    "tier with a spread by sub-key": Case(hot(tier={**TIER, "spread": BY}), OVERRIDDEN),
    "tier with a spread by position": Case(hot(tier={**TIER, "spread": TURN}), OVERRIDDEN),
    "tier with listed lanes": Case(hot(tier={**TIER, "spread": {"lanes": [4, 1], "by": "order"}}), OVERRIDDEN),
    "spread over all live lanes": Case({"lanes": "live", **hot(spread=TURN)}, OVERRIDDEN, lanes=5),
    "spread of a hash over Arrow": Case({"partitioner": "sarama-hash", **hot(spread=BY)}, OVERRIDDEN, alone=True),
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
    "hot keys of two fields and a window": Case(
        {
            "key": {"fields": ["k", "n"], "window": {"field": "t", "size": "1h"}},
            "hot_keys": [
                {"keys": [["a", 7]], "spread": {"over": 3, "by": "t"}},
                {"keys": [["a", 8]], "tier": TIER},
                {"keys": [["b", 7]], "pin": {"lanes": [3]}},
            ],
        },
        crossed(k=["a", "b", None], n=[7, 8, None], t=[0, 3_600_000, -1, None]),
    ),
    "many hot keys": Case(
        {
            "hot_keys": [
                {"keys": many(5000)[:2000], "pin": {"lanes": [i % 16 for i in range(2000)]}},
                {"keys": many(5000)[2000:], "spread": BY},
            ]
        },
        crossed(k=["key-0000", "key-1999", "key-2000", "key-4999", "key-5000", "", None], order=ORDERS[:4]),
        alone=True,
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
}


def _sub_keys() -> dict[str, Case]:
    forms: dict[str, list[Any]] = {"bytes": [b"\xff", b"ok", b"", None], "integers": [1, -1, 2**40, None]}
    rules: dict[str, Any] = {
        "spread": hot(spread=BY),
        "tier": hot(tier={**TIER, "spread": BY}),
        "account": {"table": {"values": {"a": [3, 1, 9], "b": 2}, "by": "order"}},
    }
    out: dict[str, Case] = {}
    for rule, spec in rules.items():
        out |= {
            f"{rule}, sub-keys of {form}": Case(spec, crossed(k=["a", "b", "e"], order=values))
            for form, values in forms.items()
        }
    return out


NUMBERED = crossed(n=[*LONGS, -6, -5, 999, 1000], order=["o-1", "o-2", None])
NUMBER_RANGES = [{"below": -5, "lane": 1}, {"from": -5, "below": 0, "lane": 2}, {"from": 1000, "lane": 3}]
NUMBER_RULES: dict[str, Spec] = {
    "pins": {"hot_keys": [{"keys": [-1, 7], "pin": {"lanes": [3, 0]}}]},
    "values": {"table": {"values": {-1: 4, 7: [2, 5]}, "by": "order", "otherwise": "reject"}},
    "ranges": {"table": {"ranges": NUMBER_RANGES, "otherwise": "reject"}},
    "ranges and values": {"table": {"values": {-6: 9}, "ranges": NUMBER_RANGES}},
}
NUMBERS = {
    f"{name} of {encoding}": Case({**key(encoding, fields=("n",)), **spec}, NUMBERED)
    for encoding in ("int32be", "int64be")
    for name, spec in NUMBER_RULES.items()
}

TABLES = {
    "table": Case({"table": {"values": {"a": 7, "b": [4]}}}, OVERRIDDEN),
    "table that rejects the rest": Case({"table": {"values": {"a": 7}, "otherwise": "reject"}}, OVERRIDDEN),
    "few-lane accounts": Case(
        {"table": {"values": {"a": [3, 1, 9], "b": [2], "c": 5}, "by": "order"}}, OVERRIDDEN, alone=True
    ),
    "few-lane accounts that reject the rest": Case(
        {"table": {"values": {"a": [3, 1, 9], "": [4, 6]}, "by": "order", "otherwise": "reject"}}, OVERRIDDEN
    ),
    "a large table": Case(
        {"table": {"values": {**{k: i % 16 for i, k in enumerate(many(300))}, "a": [1, 2]}, "by": "order"}},
        crossed(k=["key-0000", "key-0299", "key-0300", "a", None], order=ORDERS[:4]),
        alone=True,
    ),
    "a table of thousands": Case(
        {"table": {"values": {**{k: i % 16 for i, k in enumerate(many(12_000))}, "": [1, 2]}, "by": "order"}},
        crossed(k=["key-0000", "key-9999", "key-11999", "key-12000", "", None], order=ORDERS[:4]),
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
    "one range for all": Case({"table": {"values": {"b": 9}, "ranges": [{"lane": 1}]}}, OVERRIDDEN),
    "an open range that rejects the rest": Case(
        {"table": {"ranges": [{"from": "c", "lane": 2}], "otherwise": "reject"}}, OVERRIDDEN
    ),
    "many ranges": Case(
        {
            **key("int32be"),
            "table": {"ranges": [{"from": 10 * i, "below": 10 * i + 7, "lane": i % 16} for i in range(300)]},
        },
        of([-1, 0, 6, 7, 9, 10, 1506, 1507, 2990, 2996, 2997, 2**31 - 1, None]),
    ),
}

CASES = {**HOT, **_sub_keys(), **NUMBERS, **TABLES}

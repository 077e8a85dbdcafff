"""Every rule for null and empty keys, with and without positions."""

from __future__ import annotations

from typing import Any

from tests.parity.cases.case import Case, Columns, key, of, window

RULES = ["client", "hash", "sticky", "random", "round_robin", "reject"]
KEYS = of(["a", None, "", None, "", "b", None, "", "a", None, ""])
TIMED: Columns = {**KEYS, **of([7_200_000] * 11, name="t")}


def _rules() -> dict[str, tuple[dict[str, Any], Columns]]:
    out: dict[str, tuple[dict[str, Any], Columns]] = {}
    for on_null, on_empty in zip(RULES, RULES[1:] + RULES[:1], strict=True):
        out[f"null {on_null}, empty {on_empty}"] = key(on_null=on_null, on_empty=on_empty), KEYS
    for rule in RULES:
        ignored = {"partitioner": "librdkafka-random", **key(on_null=rule, on_empty=rule)}
        if rule != "hash":
            out[f"a client that ignores keys, {rule}"] = ignored, KEYS
        out[f"empty {rule}, with a window"] = key(on_empty=rule, **window("1h")), TIMED
        overruled = {
            **key(on_null=rule, on_empty=rule),
            "hot_keys": [{"keys": ["", "a"], "tier": {"stream": "vip", "lanes": 3}}],
            "table": {"values": {"b": 7}, "otherwise": "reject"},
        }
        out[f"null and empty {rule}, before overrides"] = overruled, KEYS
    return out


CASES = {
    **{name: Case(spec, columns) for name, (spec, columns) in _rules().items()},
    **{f"{name}, no position": Case(spec, columns, positions=False) for name, (spec, columns) in _rules().items()},
    "all null": Case({}, of([None, None, None, None])),
    "all empty": Case({}, of(["", ""])),
}

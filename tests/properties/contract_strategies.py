"""Contracts and batches by chance: any key, any partitioner, any rules and overrides that go together."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import reject
from hypothesis import strategies as st
from tests.parity.cases.case import Case

from keylane.contract.names import PARTITIONERS
from keylane.contract.partitioners import FACTS
from keylane.errors import ContractError

UUID = "123e4567-e89b-12d3-a456-426614174000"
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int64()),
        ("b", pa.binary()),
        ("u", pa.string()),
        ("t", pa.int64()),
        ("order", pa.string()),
    ]
)
#: How a field may be read, and values that a contract may name for it.
PARTS: list[tuple[str, str, list[Any]]] = [
    ("k", "utf8", ["a", "b", "", "Zoë"]),
    ("n", "utf8", [7, -1, 0]),
    ("n", "int32be", [7, -1, 0]),
    ("n", "int64be", [7, -1, 2**40]),
    ("u", "uuid", [UUID]),
    ("b", "utf8", ["a", "ok"]),
    ("b", "raw", []),
]
RULES = ["client", "hash", "sticky", "random", "round_robin", "reject"]

rows = st.fixed_dictionaries(
    {
        "k": st.none() | st.sampled_from(["a", "b", "", "Zoë"]) | st.text(max_size=6),
        "n": st.none() | st.sampled_from([7, -1, 0, 2**31, 2**40]) | st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.sampled_from([b"a", b"ok", b"\xff", b""]) | st.binary(max_size=6),
        "u": st.none() | st.sampled_from([UUID, UUID.upper(), "x", ""]) | st.uuids().map(str),
        "t": st.none() | st.integers(-(2**45), 2**45) | st.sampled_from([2**62, -(2**63)]),
        "order": st.none() | st.text(max_size=3),
    }
)


@st.composite
def spreads(draw: st.DrawFn, lanes: int) -> dict[str, Any]:
    by: dict[str, Any] = draw(st.sampled_from([{"by": "order"}, {"by_position": True}]))
    if draw(st.booleans()):
        return {"over": draw(st.integers(2, min(lanes, 20))), **by}
    return {"lanes": draw(st.lists(st.integers(0, lanes - 1), min_size=2, max_size=12, unique=True)), **by}


@st.composite
def hot_rules(draw: st.DrawFn, key: Any, lanes: int) -> dict[str, Any]:
    inside = draw(st.integers(2, 9))
    tier = {"stream": "vip", "lanes": inside, **draw(st.sampled_from([{}, {"spread": draw(spreads(inside))}]))}
    rule = draw(
        st.sampled_from(
            [{"pin": {"lanes": [draw(st.integers(0, lanes - 1))]}}, {"spread": draw(spreads(lanes))}, {"tier": tier}]
        )
    )
    return {"keys": [key], **rule}


@st.composite
def tables(draw: st.DrawFn, keys: list[Any], lanes: int) -> dict[str, Any]:
    one = st.integers(0, lanes - 1)
    few = st.lists(one, min_size=2, max_size=4, unique=True)
    values = {key: draw(one | few) for key in keys}
    by = {"by": "order"} if any(isinstance(lane, list) for lane in values.values()) else {}
    return {"values": values, "otherwise": draw(st.sampled_from(["hash", "reject"])), **by}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    parts = draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=2, unique_by=lambda part: part[0]))
    fields, encodings = [part[0] for part in parts], [part[1] for part in parts]
    names = [name for name in PARTITIONERS if set(encodings) <= set(FACTS[name].encodings)]
    lanes = draw(st.integers(2, 40) | st.integers(2, 5000))
    key: dict[str, Any] = {"fields": fields, "encoding": encodings, "on_null": draw(st.sampled_from(RULES))}
    key["on_empty"] = draw(st.sampled_from(RULES))
    if draw(st.booleans()):
        written = draw(st.sampled_from(["start_ms", "start_s", "index"]))
        key["window"] = {"field": "t", "size": draw(st.sampled_from(["1ms", "5m", "7d"])), "as": written}
    spec: dict[str, Any] = {"lanes": lanes, "key": key, "partitioner": draw(st.sampled_from(names))}
    named = parts[0][2] if len(parts) == 1 else []
    hot = draw(st.lists(st.sampled_from(named), unique=True, max_size=2)) if named else []
    if hot:
        spec["hot_keys"] = [draw(hot_rules(one, lanes)) for one in hot]
    if named and draw(st.booleans()):
        spec["table"] = draw(tables(named, lanes))
    return spec


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A contract that parses, with a batch for it."""
    batch = pa.Table.from_pylist(draw(st.lists(rows, min_size=1, max_size=12)), schema=SCHEMA)
    columns = {name: batch.column(name).combine_chunks() for name in batch.column_names}
    case = Case(draw(specs()), columns, positions=draw(st.booleans()), alone=draw(st.booleans()))
    try:
        case.contract  # noqa: B018 - parsed on first use
    except ContractError:
        reject()
    return case

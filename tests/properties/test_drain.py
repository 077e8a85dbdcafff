"""Whatever two contracts are: the lane that a key was on is among the lanes that its new lane waits for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from tests.parity.cases.case import Case
from tests.properties.contract_strategies import rows, specs

from keylane.errors import ContractError
from keylane.migration import drain
from keylane.migration.drain import drain_graph
from keylane.records import Placement, Reason
from keylane.router import Router


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two contracts: of two kinds that know nothing of each other, or one and its next epoch."""
    old, other = draw(specs()), draw(specs())
    kind = draw(st.sampled_from(["other", "lanes", "rules", "lanes and rules"]))
    if kind == "other":
        return old, other
    new = dict(old)
    if "lanes" in kind:
        new["lanes"] = draw(st.integers(2, 60))
    if "rules" in kind:
        for part in ("hot_keys", "table"):
            new.pop(part, None)
            if part in other and draw(st.booleans()):
                new[part] = other[part]
    return old, new


def router_of(spec: dict[str, Any]) -> Router:
    try:
        return Router(Case(spec, {}).contract)
    except (ContractError, ValueError):
        # Hot keys of the other contract may be no keys of this one, or name lanes that it does not have.
        reject()
        raise


def named(router: Router, placed: Placement) -> str:
    return str(placed.lane) if placed.stream == router.stream else f"{placed.stream}/{placed.lane}"


def unexpected(old: Router, new: Router, found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Pairs of lanes that records have and the graph has not."""
    graph, missing = drain_graph(old, new), []
    for position, row in enumerate(found):
        was, now = old.place(row, position), new.place(row, position)
        # A record whose lane its key does not decide is in no order with any other.
        if any(one.lane is None for one in (was, now)) or new.place(row).reason is Reason.NO_POSITION:
            continue
        if old.place(row).reason is Reason.NO_POSITION and old.facts.fold == "keyless":
            continue
        if named(old, was) not in graph.parents(named(new, now)):
            missing.append((named(old, was), named(new, now)))
    return missing


@given(changes(), st.lists(rows, min_size=1, max_size=12))
def test_the_lane_of_every_key_is_a_parent_of_its_new_lane(
    change: tuple[dict[str, Any], dict[str, Any]], found: list[dict[str, Any]]
) -> None:
    old, new = map(router_of, change)
    assert unexpected(old, new, found) == []


@pytest.mark.parametrize("fault", ["modulo the larger count", "no named keys"])
def test_a_graph_that_leaves_parents_out_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "no named keys":
        monkeypatch.setattr(drain, "_named", lambda *_: iter(()))
    else:
        monkeypatch.setattr(drain, "gcd", max)
    key: dict[str, Any] = {"fields": ["k"], "encoding": "utf8"}
    old = router_of({"lanes": 12, "key": key, "partitioner": "kafka-java"})
    pins = [{"keys": ["a"], "pin": {"lanes": [5]}}]
    new = router_of({"lanes": 18, "key": key, "partitioner": "kafka-java", "hot_keys": pins})
    assume_other_parent = old.lane({"k": "a"}) not in (5, 11)
    assert assume_other_parent
    assert unexpected(old, new, [{"k": "a"}, *({"k": f"key {n}"} for n in range(50))])


@given(st.integers(1, 400), st.integers(1, 400))
def test_under_one_hash_a_lane_has_as_many_parents_as_the_rule_says(old: int, new: int) -> None:
    assume(old != new)
    key: dict[str, Any] = {"fields": ["k"], "encoding": "utf8"}
    was, now = (router_of({"lanes": lanes, "key": key, "partitioner": "kafka-java"}) for lanes in (old, new))
    graph = drain_graph(was, now)
    from math import gcd

    assert {len(graph.parents(lane)) for lane in graph.lanes} == {old // gcd(old, new)} == {graph.fan_in}

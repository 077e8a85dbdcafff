"""What a change costs, counted on keys, against the formulas and against what `evolve` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.evolve import evolve
from keylane.contract.parse import parse_contract
from keylane.errors import LaneCountError, UsageError
from keylane.placement.partitioners import partitioner
from keylane.plan.cost import Cost, cost, drain_by_gcd, drain_by_keys, moved

if TYPE_CHECKING:
    from keylane.contract.model import Contract

KEYS = pa.array([f"merchant_{i:06d}" for i in range(20_000)])
RECORDS = np.arange(20_000, 0, -1)
PAIRS = [(6, 8), (12, 24), (12, 18), (12, 16), (10, 11), (50, 60), (24, 12), (18, 12), (16, 10)]


def contract(lanes: Any = 12, spec: str = "", name: str = "payments", by: str = "kafka-java") -> Contract:
    return parse_contract(f"""\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: {name}}}
spec:
  streams: [{name}]
  lanes: {lanes}
  key: {{fields: [merchant]}}
  partitioner: {by}
  {spec}
""")


def lanes(count: int, by: str = "kafka-java") -> Any:
    return partitioner(by).hashed_lanes(KEYS, count)


def changed(old: Contract, new: Contract, was: int, now: int, **more: Any) -> Cost:
    before, after = lanes(was, old.spec.partitioner), lanes(now, new.spec.partitioner)
    return cost(old, new, before, after, RECORDS, counts=(was, now), **more)


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=[f"{old} to {new}" for old, new in PAIRS])
def test_the_gcd_rule_is_what_keys_do(old: int, new: int) -> None:
    rule, keys = drain_by_gcd(old, new), drain_by_keys(lanes(old), lanes(new), old, new)
    assert rule.parents == keys.parents
    assert {len(parents) for parents in rule.parents} == {old // np.gcd(old, new)}


def test_a_rule_by_another_divisor_would_be_noticed() -> None:
    """The twin: what holds for a doubling, one parent each, does not hold for 12 to 18; nor the rule for ranges."""
    doubling = tuple((lane % 12,) for lane in range(18))
    assert drain_by_keys(lanes(12), lanes(18), 12, 18).parents != doubling
    ranges = drain_by_keys(lanes(4, "kinesis-md5"), lanes(8, "kinesis-md5"), 4, 8)
    assert ranges.parents != drain_by_gcd(4, 8).parents
    assert ranges.parents == tuple((lane // 2,) for lane in range(8))


def test_more_lanes_under_one_hash() -> None:
    found = changed(contract(12), contract(18), 12, 18)
    assert found.moved is not None
    assert found.moved.keys == pytest.approx(2 / 3, abs=0.01)
    assert found.moved.traffic == pytest.approx(2 / 3, abs=0.02)
    assert found.expected_keys == pytest.approx(2 / 3)
    assert found.drain == drain_by_gcd(12, 18)
    assert found.drain.fan_in == 2
    assert found.possible
    assert found.epoch_to_raise == 2


def test_the_changes_are_those_of_evolve() -> None:
    old, new = contract(12), contract(8, by="sarama-hash")
    found = changed(old, new, 12, 8)
    assert found.changes == evolve(old, new).changes
    assert not found.possible
    assert found.drain is not None
    assert found.drain.rule == "keys"


def test_no_change_costs_nothing() -> None:
    found = changed(contract(), contract(), 12, 12)
    assert found.moved == moved([0], [0], [1])
    assert (found.expected_keys, found.changes, found.breaks, found.state) == (0.0, (), (), None)
    assert found.drain is not None
    assert found.drain.parents == tuple((lane,) for lane in range(12))


def test_without_a_contract_today_nothing_is_reported() -> None:
    found = cost(None, contract(), [0], [0], [1], counts=(12, 12))
    assert found == Cost(None, None, None, (), (), None, None)


def test_a_pinned_key_moves_alone_and_its_lane_waits_for_where_it_was() -> None:
    new = contract(12, "hot_keys: [{keys: [merchant_000000], pin: {lanes: [3]}}]")
    was = lanes(12)
    now = was.copy()
    assert was[0] != 3
    now[0] = 3
    found = cost(contract(), new, was, now, RECORDS, counts=(12, 12))
    assert found.moved is not None
    assert (found.moved.keys, found.moved.traffic) == (1 / 20_000, 20_000 / RECORDS.sum())
    assert found.expected_keys == 0  # of keys that no rule names
    assert found.drain is not None
    assert found.drain.rule == "keys"
    assert found.drain.parents[3] == tuple(sorted((3, int(was[0]))))
    assert found.state is None


def test_the_gcd_rule_for_a_pinned_key_would_be_wrong() -> None:
    """The twin: the rule of the hash leaves out the lane that the pinned key comes from."""
    was, now = lanes(12), lanes(12).copy()
    now[0] = 3
    assert drain_by_keys(was, now, 12, 12).parents != drain_by_gcd(12, 12).parents


def test_a_key_that_had_several_lanes_makes_its_new_lane_wait_for_all() -> None:
    drain = drain_by_keys([-1, 0, 1, 2], [1, 0, 1, -1], 3, 2)
    assert (drain.parents, drain.from_several) == (((0,), (1,)), (1,))
    assert moved([-1, -1, 0], [-1, 0, -1], [5, 3, 2]).traffic == 0.5


def test_streams_joined_with_it_stay_behind() -> None:
    refunds = contract(12, name="refunds")
    found = changed(contract(12), contract(24), 12, 24, others=[refunds, contract(7, name="others")])
    (broken,) = found.breaks
    assert "refunds (contract refunds)" in broken
    assert changed(contract(12), contract(12), 12, 12, others=[refunds]).breaks == ()


def test_live_lanes_are_taken_as_counted() -> None:
    found = changed(contract("live"), contract("live"), 12, 24)
    assert found.expected_keys == 0.5
    assert [change.kind for change in found.changes] == ["moves-keys"]


def test_the_state_of_spark_is_told_when_the_count_changes() -> None:
    state = changed(contract(12), contract(24), 12, 24).state
    assert state is not None
    assert "spark.sql.shuffle.partitions = 12" in state
    assert "stream has 24" in state


def test_a_great_graph_is_told_by_its_numbers() -> None:
    small = drain_by_gcd(12, 18)
    assert small.readable_parents == small.parents
    assert (small.parents[1], small.fan_in) == ((1, 7), 2)
    great = drain_by_gcd(1_024, 1_000)
    assert (great.readable_parents, great.fan_in) == (None, 128)


def test_many_lanes_are_paired_without_a_table_of_all_pairs() -> None:
    was, now = lanes(4_000), lanes(4_001)
    drain = drain_by_keys(was, now, 4_000, 4_001)
    assert set(drain.parents[int(now[5])]) >= {int(was[5])}
    assert sum(map(len, drain.parents)) == len(set(zip(was.tolist(), now.tolist(), strict=True)))


def test_nothing_moves_nothing() -> None:
    assert moved([], [], []) == moved([1], [2], [0]) == moved([0], [0], [1])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError):
        moved([0, 1], [0], [1, 1])
    with pytest.raises(UsageError):
        drain_by_keys([0, 3], [0, 1], 3, 2)
    with pytest.raises(LaneCountError):
        drain_by_gcd(0, 3)

"""Explicit hash keys over unequal shards: one record, a batch, what a producer sends, and which rule comes first."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from keylane import Router
from keylane.errors import UsageError
from keylane.keyspace.hash_keys import hash_key_of
from keylane.keyspace.key_tree import KeyTree
from keylane.keyspace.layout import new_layout
from keylane.placement.ranges import KeySpace
from keylane.systems.kinesis import put_arguments

CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: accounts}
spec:
  streams: [accounts]
  lanes: live
  key: {fields: [account]}
  partitioner: kinesis-md5
"""
HOT = "  hot_keys:\n    - {keys: [acme], pin: {lanes: [0]}}\n"
#: Half, a quarter, an eighth and two sixteenths of the space.
SPACE = KeySpace((0, 2**127, 3 * 2**126, 7 * 2**125, 15 * 2**124))


def router(more: str = "", **given: Any) -> Router:
    return Router(CONTRACT + more, key_space=SPACE, **given)


def test_an_account_with_a_hash_key_is_where_that_lies_and_others_by_md5() -> None:
    made = router(hash_keys={"acme": 15 * 2**124, "bolt": 3 * 2**126 - 1})
    assert [made.lane({"account": name}) for name in ("acme", "bolt", "core")] == [
        4,
        1,
        SPACE.lane_of(hash_key_of("core")),
    ]
    assert made.lane("acme") == made.lane_of_key(b"acme") == 4
    assert "explicit hash key" in made.place("acme").why[-1]


def test_hash_keys_may_be_text_and_only_as_the_service_takes_it() -> None:
    assert router(hash_keys={"acme": str(15 * 2**124)}).lane("acme") == 4
    for wrong in ("007", "-1", str(2**128), "x"):
        with pytest.raises(UsageError, match="hash key"):
            router(hash_keys={"acme": wrong})


def test_a_table_and_hash_keys_exclude_each_other() -> None:
    table = "  table: {values: {acme: 3, bolt: 2}, otherwise: hash}\n"
    assert router(table).lane("acme") == 3
    with pytest.raises(UsageError, match="table"):
        router(table, hash_keys={"core": 0})


def test_one_record_and_a_batch_agree_on_every_boundary() -> None:
    tree = KeyTree({key: 1 for start in SPACE.starts for key in (start, max(0, start - 1))})
    keys = {f"a{n}": tree.take() for n in range(300)}
    keys |= {f"b{n}": start for n, start in enumerate(SPACE.starts)}
    keys |= {f"c{n}": start - 1 for n, start in enumerate(SPACE.starts) if start}
    made = router(hash_keys=keys)
    names = [*keys, *(f"other{n}" for n in range(300))]
    expected = [SPACE.lane_of(keys.get(name, hash_key_of(name))) for name in names]
    assert [made.lane(name) for name in names] == expected
    assert made.lanes(pa.table({"account": names})).to_pylist() == expected
    # The twin: without the keys some accounts lie elsewhere.
    assert router().lanes(pa.table({"account": names})).to_pylist() != expected


def test_a_producer_sends_the_key_itself() -> None:
    made = router(hash_keys={"acme": 15 * 2**124 + 5})
    assert put_arguments(made, {"account": "acme"}, b"")["ExplicitHashKey"] == str(15 * 2**124 + 5)
    assert "ExplicitHashKey" not in put_arguments(made, {"account": "core"}, b"")


def test_a_rule_of_the_contract_comes_first() -> None:
    made = router(HOT, hash_keys={"acme": 15 * 2**124})
    assert (made.lane("acme"), made.explicit_hash_key("acme")) == (0, None)
    assert put_arguments(made, {"account": "acme"}, b"").get("ExplicitHashKey", "0") == "0"


def test_hash_keys_need_ranges_and_a_place_in_the_space() -> None:
    with pytest.raises(UsageError):
        Router(CONTRACT.replace("kinesis-md5", "kafka-java"), lanes=4, hash_keys={"acme": 1})
    for number in (-1, 2**128):
        with pytest.raises(UsageError):
            router(hash_keys={"acme": number})


def test_a_layout_of_shards_is_a_key_space_with_its_ids() -> None:
    layout = new_layout(2).split("shardId-000000000001", 3 * 2**126)
    made = Router(CONTRACT, key_space=layout.key_space, hash_keys={"acme": 2**127})
    lane = made.lane("acme")
    assert lane is not None
    assert made.key_space.ids[lane] == "shardId-000000000002"

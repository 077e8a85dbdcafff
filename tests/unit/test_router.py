from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.names import PARTITIONERS
from keylane.errors import ContractError, LaneCountError, UnknownNameError, UnplacedError
from keylane.placement.keyless import sticky_at
from keylane.placement.partitioners import partitioner
from keylane.placement.ranges import KeySpace
from keylane.records import Placement, Reason
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]


def test_lane_is_that_of_the_named_partitioner(contract: Make) -> None:
    assert Router(contract(lanes=15)).lane({"k": "TT0124"}) == 10


def test_a_placement_tells_every_step(contract: Make) -> None:
    assert Router(contract(lanes=15)).place({"k": "TT0124"}) == Placement(
        "t",
        10,
        b"TT0124",
        None,
        (
            "key: k as utf8 -> b'TT0124' (6 bytes)",
            "hash: murmur2 -> 0xaa07cf36",
            "placement: masked over 15 lanes -> lane 10",
        ),
    )


def test_a_long_key_is_cut_in_the_explanation_only(contract: Make) -> None:
    placement = Router(contract()).place({"k": "x" * 1000})
    assert placement.routing_key == b"x" * 1000
    assert "(1000 bytes)" in placement.why[0]
    assert len(placement.why[0]) < 150


def test_live_lanes_must_be_told(contract: Make) -> None:
    with pytest.raises(LaneCountError, match=r"hint: lanes=N, or --lanes N"):
        Router(contract(lanes="live"))
    assert Router(contract(lanes="live"), lanes=15).lane({"k": "TT0124"}) == 10


def test_a_lane_count_may_be_repeated_but_not_contradicted(contract: Make) -> None:
    assert Router(contract(lanes=15), lanes=15).lane_count == 15
    with pytest.raises(LaneCountError, match="got 12; allowed: 15"):
        Router(contract(lanes=15), lanes=12)


def test_a_key_space_says_the_count_and_may_not_contradict_it(contract: Make) -> None:
    shards = KeySpace((0, 2**100, 2**127), ("s-2", "s-3", "s-1"))
    router = Router(contract(lanes="live", partitioner="kinesis-md5"), key_space=shards)
    assert router.lane_count == 3
    assert router.place({"k": "TT0124"}).why[-1] == "placement: ranges over 3 lanes -> lane 1 (s-3)"
    assert Router(contract(lanes=3), lanes=3, key_space=shards).key_space is shards
    with pytest.raises(LaneCountError, match="contradicts the contract"):
        Router(contract(lanes=4), key_space=shards)
    with pytest.raises(LaneCountError, match="contradicts the contract"):
        Router(contract(lanes="live"), lanes=4, key_space=shards)


@pytest.mark.parametrize(
    "spec",
    [
        {"hot_keys": [{"keys": ["a"], "pin": {"lanes": [50]}}]},
        {"hot_keys": [{"keys": ["a"], "spread": {"lanes": [3, 50], "by": "b"}}]},
        {"table": {"values": {"a": 50}}},
        {"table": {"ranges": [{"from": "a", "lane": 50}]}},
    ],
    ids=["pin", "spread", "table value", "table range"],
)
def test_a_live_count_below_a_lane_the_contract_names_is_refused(contract: Make, spec: dict[str, Any]) -> None:
    with pytest.raises(LaneCountError, match="51 or more"):
        Router(contract(lanes="live", **spec), lanes=10)


def test_placements_name_the_stream_asked_for(contract: Make) -> None:
    two = contract(streams=["tx", "refunds"])
    assert Router(two).place({"k": "a"}).stream == "tx"
    assert Router(two, stream="refunds").place({"k": "a"}).stream == "refunds"
    with pytest.raises(UnknownNameError, match="allowed: tx, refunds"):
        Router(two, stream="other")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"k": 1.5}, Reason.MALFORMED_KEY),
        ({"k": "\ud800"}, Reason.MALFORMED_KEY),
        ({}, Reason.MISSING_FIELD),
        ({"k": None}, Reason.NULL_KEY),
        ({"k": ""}, Reason.EMPTY_KEY),
        ({"k": "unlisted"}, Reason.NOT_IN_TABLE),
    ],
    ids=str,
)
def test_a_record_without_a_lane_raises_in_lane_and_is_told_in_place(
    contract: Make, record: dict[str, Any], reason: Reason
) -> None:
    key = {"fields": ["k"], "on_null": "reject", "on_empty": "reject"}
    router = Router(contract(key=key, table={"values": {"a": 0}, "otherwise": "reject"}))
    assert (router.place(record).lane, router.place(record).reason) == (None, reason)
    with pytest.raises(UnplacedError) as error:
        router.lane(record)
    assert error.value.reason is reason


def test_placed_tells_every_step_and_raises_where_lane_does(contract: Make) -> None:
    router = Router(contract(key={"fields": ["k"], "on_null": "reject"}))
    assert router.placed({"k": "a"}) == router.place({"k": "a"})
    with pytest.raises(UnplacedError, match="null key"):
        router.placed({"k": None})


def test_a_key_that_is_bytes_already_goes_where_its_record_goes(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["a"], "pin": {"lanes": [3]}}], table={"values": {"b": 5}}))
    keys: list[str | None] = ["a", "b", "c", "", None]
    expected = [router.lane({"k": key}) for key in keys]
    assert [router.lane_of_key(None if key is None else key.encode()) for key in keys] == expected


def test_a_key_that_is_bytes_already_loses_its_registry_header_too(contract: Make) -> None:
    router = Router(contract(lanes=64, key={"fields": ["k"], "encoding": "raw", "registry_header": "strip"}))
    key = b"\0\0\0\0\x07key"
    assert router.lane_of_key(key) == router.lane({"k": key})


def test_a_key_that_does_not_decide_leaves_the_choice_to_the_client(contract: Make) -> None:
    router = Router(contract())
    assert router.lane({"k": None}) is None
    assert router.place({"k": None}).reason is Reason.NO_POSITION
    assert router.lane({"k": None}, position=3) == router.place({"k": None}, position=3).lane is not None


@pytest.mark.parametrize("name", sorted(set(PARTITIONERS) - {"librdkafka-random", "abs-long-hashcode"}))
def test_null_and_empty_keys_follow_the_named_client_unless_the_contract_says(contract: Make, name: str) -> None:
    router = Router(contract(partitioner=name))
    for value, key in ((None, None), ("", b"")):
        if router.place({"k": value}).reason in (None, Reason.NO_POSITION):
            assert router.lane({"k": value}) == partitioner(name).lane(key, 16)


def test_an_empty_key_is_rejected_with_a_window_too(contract: Make) -> None:
    key = {"fields": ["k"], "on_empty": "reject", "window": {"field": "t", "size": "1h"}}
    with pytest.raises(UnplacedError, match="empty key"):
        Router(contract(key=key)).lane({"k": "", "t": 0})


@pytest.mark.parametrize(("position", "lane"), [(None, None), (5, sticky_at(5, 16))])
def test_an_empty_key_is_placed_by_its_rule_with_a_window_too(
    contract: Make, position: int | None, lane: int | None
) -> None:
    key = {"fields": ["k"], "on_empty": "sticky", "window": {"field": "t", "size": "1h"}}
    assert Router(contract(key=key)).lane({"k": "", "t": 0}, position) == lane


def test_a_pinned_key_goes_to_its_lane_and_every_other_stays(contract: Make) -> None:
    plain, pinned = Router(contract()), Router(contract(hot_keys=[{"keys": ["a"], "pin": {"lanes": [3]}}]))
    assert pinned.lane({"k": "a"}) == 3
    assert [pinned.lane({"k": key}) for key in "bcdefg"] == [plain.lane({"k": key}) for key in "bcdefg"]


def test_a_spread_key_keeps_to_its_lanes_and_each_sub_key_to_one(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["a"], "spread": {"over": 3, "by": "order"}}]))
    home = Router(contract()).lane({"k": "a"})
    assert home is not None
    lanes = [router.lane({"k": "a", "order": order}) for order in range(100)]
    assert set(lanes) == {(home + i) % 16 for i in range(3)}
    assert lanes == [router.lane({"k": "a", "order": order}) for order in range(100)]


def test_a_null_sub_key_is_the_empty_one_and_a_missing_one_has_a_reason(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["a"], "spread": {"over": 3, "by": "order"}}]))
    assert router.lane({"k": "a", "order": None}) == router.lane({"k": "a", "order": ""})
    assert router.place({"k": "a"}).reason is Reason.MISSING_FIELD
    assert router.place({"k": "a", "order": 1.5}).reason is Reason.MALFORMED_KEY


def test_a_tier_takes_a_key_to_another_stream(contract: Make) -> None:
    router = Router(contract(hot_keys=[{"keys": ["a"], "tier": {"stream": "vip", "lanes": 4}}]))
    placement = router.place({"k": "a"})
    assert (placement.stream, placement.lane) == ("vip", partitioner("kafka-java").lane(b"a", 4))


def test_hot_keys_and_tables_are_asked_without_the_window(contract: Make) -> None:
    window = {"field": "t", "size": "1h"}
    hot = [{"keys": ["a"], "pin": {"lanes": [3]}}]
    router = Router(contract(key={"fields": ["k"], "window": window}, hot_keys=hot, table={"values": {"b": 5}}))
    assert {router.lane({"k": "a", "t": hour * 3_600_000}) for hour in range(9)} == {3}
    assert {router.lane({"k": "b", "t": hour * 3_600_000}) for hour in range(9)} == {5}
    assert len({router.lane({"k": "c", "t": hour * 3_600_000}) for hour in range(9)}) > 1


def test_a_hot_rule_goes_before_the_table_and_the_table_before_the_hash(contract: Make) -> None:
    hot = [{"keys": ["a"], "pin": {"lanes": [3]}}]
    router = Router(contract(hot_keys=hot, table={"values": {"a": 5, "b": 6}}))
    assert (router.lane({"k": "a"}), router.lane({"k": "b"})) == (3, 6)
    assert router.lane({"k": "c"}) == Router(contract()).lane({"k": "c"})


@pytest.mark.parametrize(
    ("name", "encoding"), [("librdkafka-random", "utf8"), ("abs-long-hashcode", "int64be")], ids=["no hash", "no bytes"]
)
def test_a_null_key_cannot_be_promised_to_a_hash_that_has_none(contract: Make, name: str, encoding: str) -> None:
    with pytest.raises(ContractError):
        Router(contract(partitioner=name, key={"fields": ["k"], "encoding": encoding, "on_null": "hash"}))


@pytest.mark.parametrize("encoding", ["raw", "int32be", "uuid"])
def test_a_hot_key_that_its_encoding_cannot_hold_is_a_problem_of_the_contract(contract: Make, encoding: str) -> None:
    hot = [{"keys": ["abc"], "pin": {"lanes": [3]}}]
    with pytest.raises(ContractError):
        Router(contract(key={"fields": ["k"], "encoding": encoding}, hot_keys=hot))

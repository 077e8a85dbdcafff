"""Old + new contract -> what the change does: each of the five kinds, and nothing where nothing changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from keylane.contract.evolve import Change, evolve
from keylane.contract.fingerprint import fingerprint
from keylane.contract.parse import parse_contract
from keylane.placement.fold import absolute, masked

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

WINDOW = "key: {fields: [merchant], window: {field: at, size: 1h}}"


def told(old: Contract, new: Contract) -> list[tuple[str, str]]:
    """Kind and place of every change."""
    return [(change.kind, change.where) for change in evolve(old, new).changes]


def only(changes: tuple[Change, ...]) -> Change:
    (change,) = changes
    return change


def test_a_contract_that_stays_has_no_changes(design_example: str) -> None:
    one, other = parse_contract(design_example), parse_contract(design_example)
    evolution = evolve(one, other)
    assert evolution.changes == ()
    assert evolution.safe
    assert evolution.epoch_to_raise is None
    assert evolution.old == evolution.new == fingerprint(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("streams: [a, b]", "streams: [b, a]", id="streams"),
        pytest.param(
            "hot_keys: [{keys: [a, b], pin: {lanes: [1, 2]}}]",
            "hot_keys: [{keys: [b], pin: {lanes: [2]}}, {keys: [a], pin: {lanes: [1]}}]",
            id="hot keys",
        ),
        pytest.param(
            "hot_keys: [{keys: [a], spread: {lanes: [1, 2], by: o}}]",
            "hot_keys: [{keys: [a], spread: {lanes: [2, 1], by: o}}]",
            id="lanes of a spread",
        ),
        pytest.param(
            "key: {fields: [a, b], encoding: uuid}",
            "key: {fields: [a, b], encoding: [uuid, uuid]}",
            id="encodings",
        ),
        pytest.param(
            "table: {ranges: [{below: m, lane: 1}, {from: m, lane: 2}]}",
            "table: {ranges: [{from: m, lane: 2}, {below: m, lane: 1}]}",
            id="ranges of a table",
        ),
        pytest.param("table: {values: {a: 1}}", "table: {values: {a: [1]}}", id="a table value in a list of one"),
        pytest.param("table: {values: {7: 1}}", "table: {values: {'7': 1}}", id="a table value as its digits"),
        pytest.param("key: {fields: [a, b]}", "key: {fields: [a, b], join: '|'}", id="the default joiner"),
        pytest.param("key: {fields: [a]}", "key: {fields: [a], join: '/'}", id="a joiner with nothing to join"),
    ],
)
def test_the_same_placement_in_other_words_is_no_change(
    one: str, other: str, contract: Callable[..., Contract]
) -> None:
    assert evolve(contract(one), contract(other)).changes == ()


@pytest.mark.parametrize(
    ("spec", "metadata", "where"),
    [
        pytest.param("", "{name: payments, owner: team-a}", "metadata", id="owner"),
        pytest.param("", "{name: payments, labels: {a: b}}", "metadata", id="labels"),
        pytest.param("expect: {max_over_mean: 2}", "{name: payments}", "spec.expect", id="expect"),
        pytest.param("golden: [{key: a, lane: 1}]", "{name: payments}", "spec.golden", id="golden"),
        pytest.param("streams: [payments, refunds]", "{name: payments}", "spec.streams", id="a stream joins"),
    ],
)
def test_what_moves_nothing_is_safe(spec: str, metadata: str, where: str, contract: Callable[..., Contract]) -> None:
    evolution = evolve(contract(), contract(spec, metadata))
    assert [(change.kind, change.where) for change in evolution.changes] == [("safe", where)]
    assert evolution.safe
    assert evolution.epoch_to_raise is None


def test_a_new_epoch_alone_is_no_change(contract: Callable[..., Contract]) -> None:
    evolution = evolve(contract(), contract(metadata="{name: payments, epoch: 2}"))
    assert evolution.changes == ()
    assert evolution.old != evolution.new


# Moves keys


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [(12, 24, 1 / 2), (12, 18, 2 / 3), (6, 8, 3 / 4), (10, 11, 10 / 11), (50, 60, 5 / 6)],
)
def test_more_lanes_move_the_share_that_the_arithmetic_says(
    old: int, new: int, share: float, contract: Callable[..., Contract]
) -> None:
    evolution = evolve(contract(f"lanes: {old}"), contract(f"lanes: {new}"))
    change = only(evolution.changes)
    assert (change.kind, change.where) == ("moves-keys", "spec.lanes")
    assert change.moved_share == pytest.approx(share)
    assert f"{old} lanes became {new}: {share:.1%} of hashed keys" in change.message
    assert not evolution.safe


def test_more_shards_move_what_the_ranges_say(contract: Callable[..., Contract]) -> None:
    old, new = contract("partitioner: kinesis-md5\nlanes: 2"), contract("partitioner: kinesis-md5\nlanes: 4")
    assert only(evolve(old, new).changes).moved_share == pytest.approx(3 / 4)


@pytest.mark.parametrize(("old", "new"), [("12", "live"), ("live", "12")])
def test_a_live_count_moves_keys_unless_it_is_the_same(old: str, new: str, contract: Callable[..., Contract]) -> None:
    change = only(evolve(contract(f"lanes: {old}"), contract(f"lanes: {new}")).changes)
    assert (change.kind, change.where, change.moved_share) == ("moves-keys", "spec.lanes", None)
    assert f"{old} became {new}: safe only while" in change.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("key: {fields: [merchant]}", "key: {fields: [merchant, shop]}", id="one field more"),
        pytest.param("key: {fields: [merchant]}", "key: {fields: [merchant], encoding: int64be}", id="other bytes"),
        pytest.param("key: {fields: [a, b]}", "key: {fields: [a, b], join: '/'}", id="another joiner"),
        pytest.param(
            "key: {fields: [a], encoding: raw}",
            "key: {fields: [a], encoding: raw, registry_header: strip}",
            id="without the registry's header",
        ),
        pytest.param(WINDOW, "key: {fields: [merchant], window: {field: at, size: 2h}}", id="another window"),
    ],
)
def test_other_key_bytes_move_all_keys_but_those_that_stay_by_chance(
    old: str, new: str, contract: Callable[..., Contract]
) -> None:
    change = only(evolve(contract(old), contract(new)).changes)
    assert (change.kind, change.where) == ("moves-keys", "spec.key")
    assert change.moved_share == pytest.approx(11 / 12)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("kafka-java", "sarama-hash", id="another hash"),
        pytest.param("librdkafka-consistent-random", "kafkajs-1", id="CRC32 and a murmur2"),
    ],
)
def test_another_hash_moves_all_keys_but_those_that_stay_by_chance(
    old: str, new: str, contract: Callable[..., Contract]
) -> None:
    changes = evolve(contract(f"partitioner: {old}"), contract(f"partitioner: {new}")).changes
    (change,) = [change for change in changes if change.where == "spec.partitioner"]
    assert change.kind == "moves-keys"
    assert change.moved_share == pytest.approx(11 / 12)
    assert f"{old} became {new}" in change.message


def test_another_hash_and_another_count_agree_on_one_key_in_the_greater(contract: Callable[..., Contract]) -> None:
    old, new = contract("lanes: 12"), contract("lanes: 20\npartitioner: librdkafka-consistent")
    (change,) = [change for change in evolve(old, new).changes if change.where == "spec.partitioner"]
    assert change.moved_share == pytest.approx(19 / 20)


@pytest.mark.parametrize("lanes", [1, 2, 3, 12, 13, 64])
@pytest.mark.parametrize(
    ("old", "new"),
    [("sarama-hash", "sarama-reference"), ("sarama-reference", "sarama-hash")],
    ids=["abs to mask", "mask to abs"],
)
def test_another_fold_of_the_same_hash_moves_what_counting_says(
    old: str, new: str, lanes: int, contract: Callable[..., Contract]
) -> None:
    """Hashes below 2**31 stay; above it, one period of the remainder is counted."""
    above = range(1 << 31, (1 << 31) + lanes)
    moved = sum(absolute(h, lanes) != masked(h, lanes) for h in above) / lanes / 2
    changes = evolve(
        contract(f"lanes: {lanes}\npartitioner: {old}"), contract(f"lanes: {lanes}\npartitioner: {new}")
    ).changes
    assert only(changes).moved_share == pytest.approx(moved)


def test_abs_to_mask_at_twelve_lanes_moves_five_keys_in_twelve(contract: Callable[..., Contract]) -> None:
    old, new = contract("partitioner: sarama-hash"), contract("partitioner: sarama-reference")
    assert only(evolve(old, new).changes).moved_share == pytest.approx(5 / 12)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("key: {fields: [merchant]}", "key: {fields: [shop]}", id="another field"),
        pytest.param("key: {fields: [a, b]}", "key: {fields: [b, a]}", id="another order"),
    ],
)
def test_fields_of_another_name_may_hold_the_same_values(old: str, new: str, contract: Callable[..., Contract]) -> None:
    """The bytes are made alike; whether they are the same, only the data can say."""
    change = only(evolve(contract(old), contract(new)).changes)
    assert (change.kind, change.where, change.moved_share) == ("moves-keys", "spec.key.fields", None)


def test_a_table_that_rejects_what_it_does_not_list_says_so(contract: Callable[..., Contract]) -> None:
    """Adding such a table takes the lane of every key outside it, and was told as a change of its rows alone."""
    changes = evolve(contract(), contract("table: {values: {a: 3}, otherwise: reject}")).changes
    assert "spec.table.otherwise" in {change.where for change in changes}


@pytest.mark.parametrize(
    ("field", "rule"),
    [("on_null", "reject"), ("on_null", "hash"), ("on_empty", "sticky"), ("on_empty", "reject")],
)
def test_another_rule_for_null_or_empty_keys_moves_those_only(
    field: str, rule: str, contract: Callable[..., Contract]
) -> None:
    change = only(evolve(contract(), contract(f"key: {{fields: [merchant], {field}: {rule}}}")).changes)
    assert (change.kind, change.where, change.moved_share) == ("moves-keys", f"spec.key.{field}", 0.0)
    assert f"became {rule}: {field.removeprefix('on_')} keys only" in change.message


def test_a_client_of_the_same_family_moves_null_keys_only(contract: Callable[..., Contract]) -> None:
    assert told(contract(), contract("partitioner: kafkajs-2")) == [("moves-keys", "spec.key.on_null")]


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        pytest.param("", "hot_keys: [{keys: [a], pin: {lanes: [1]}}]", ("1", "a"), id="added"),
        pytest.param("hot_keys: [{keys: [a], pin: {lanes: [1]}}]", "", ("1", "a"), id="removed"),
        pytest.param(
            "hot_keys: [{keys: [a], pin: {lanes: [1]}}]",
            "hot_keys: [{keys: [a], pin: {lanes: [2]}}]",
            ("1", "a"),
            id="pinned elsewhere",
        ),
        pytest.param(
            "hot_keys: [{keys: [a, b], pin: {lanes: [1, 2]}}]",
            "hot_keys: [{keys: [a, b], pin: {lanes: [2, 1]}}]",
            ("2", "a, b"),
            id="swapped",
        ),
        pytest.param(
            "",
            "hot_keys: [{keys: [d, a, c, b], pin: {lanes: [1, 2, 3, 4]}}]",
            ("4", "a, b, c, …"),
            id="many",
        ),
        pytest.param(
            "hot_keys: [{keys: [a], pin: {lanes: [1]}}]",
            "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 4}}]",
            ("1", "a"),
            id="to a tier",
        ),
        pytest.param(
            "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 4}}]",
            "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 8}}]",
            ("1", "a"),
            id="a tier with more lanes",
        ),
    ],
)
def test_a_hot_key_that_changes_its_rule_moves_and_no_other(
    old: str, new: str, changed: tuple[str, str], contract: Callable[..., Contract]
) -> None:
    change = only(evolve(contract(old), contract(new)).changes)
    assert change == Change("moves-keys", "spec.hot_keys", change.message)
    assert re.findall(r"^another rule for (\d) hot keys?: (.*)$", change.message) == [changed]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "table: {values: {a: 1}}", id="added"),
        pytest.param("table: {values: {a: 1}}", "", id="removed"),
        pytest.param("table: {values: {a: 1}}", "table: {values: {a: 2}}", id="another lane"),
        pytest.param("table: {values: {a: 1}}", "table: {values: {a: 1, b: 2}}", id="a row more"),
    ],
)
def test_a_table_that_changes_moves_the_keys_of_its_rows(old: str, new: str, contract: Callable[..., Contract]) -> None:
    assert told(contract(old), contract(new)) == [("moves-keys", "spec.table")]


# Changes the order scope


def test_a_window_added_gives_up_order_across_windows(contract: Callable[..., Contract]) -> None:
    evolution = evolve(contract(), contract(WINDOW))
    assert told(contract(), contract(WINDOW)) == [("moves-keys", "spec.key"), ("changes-order-scope", "spec")]
    change = only(evolution.of("changes-order-scope"))
    assert "kept per-key-and-window" in change.message


@pytest.mark.parametrize(
    ("new", "scope"),
    [
        pytest.param("hot_keys: [{keys: [a], spread: {over: 2, by: order}}]", "per-sub-key", id="spread by sub-key"),
        pytest.param("hot_keys: [{keys: [a], spread: {over: 2, by_position: true}}]", "none", id="spread by position"),
        pytest.param("table: {by: order, values: {a: [1, 2]}}", "per-sub-key", id="a divided key of a table"),
        pytest.param("partitioner: librdkafka-random", "none", id="a client that ignores keys"),
    ],
)
def test_a_weaker_order_scope_is_reported_and_so_is_getting_it_back(
    new: str, scope: str, contract: Callable[..., Contract]
) -> None:
    there = only(evolve(contract(), contract(new)).of("changes-order-scope"))
    back = only(evolve(contract(new), contract()).of("changes-order-scope"))
    assert re.findall(r"per-[a-z-]+|none", there.message) == ["per-key", scope]
    assert re.findall(r"per-[a-z-]+|none", back.message) == [scope, "per-key"]


# Breaks co-partitioning


def test_a_stream_that_leaves_no_longer_follows_the_others(contract: Callable[..., Contract]) -> None:
    evolution = evolve(contract("streams: [a, b, c]"), contract("streams: [c, a]"))
    change = only(evolution.changes)
    assert (change.kind, change.where) == ("breaks-co-partitioning", "spec.streams")
    assert "no longer follows a, c" in change.message
    assert evolution.epoch_to_raise is None
    assert not evolution.safe


def test_two_streams_that_leave_together_are_no_longer_held_together(contract: Callable[..., Contract]) -> None:
    evolution = evolve(contract("streams: [a, b]"), contract("streams: [c]"))
    assert evolution.of("breaks-co-partitioning")
    assert not evolution.safe


def test_a_stream_that_is_exchanged_both_leaves_and_joins(contract: Callable[..., Contract]) -> None:
    assert told(contract("streams: [a, b]"), contract("streams: [a, c]")) == [
        ("breaks-co-partitioning", "spec.streams"),
        ("safe", "spec.streams"),
    ]


def test_another_contract_with_the_old_placement_stays_behind(contract: Callable[..., Contract]) -> None:
    other = contract("streams: [refunds, disputes]", "{name: refunds, epoch: 7}")
    evolution = evolve(contract("lanes: 12"), contract("lanes: 24"), [other])
    change = only(evolution.of("breaks-co-partitioning"))
    assert "refunds, disputes (contract refunds)" in change.message


@pytest.mark.parametrize(
    ("other", "new"),
    [
        pytest.param("lanes: 13", "lanes: 24", id="it was never joined"),
        pytest.param("lanes: 24", "lanes: 24", id="it went ahead"),
        pytest.param("lanes: 12", "expect: {max_over_mean: 2}", id="the placement stays"),
    ],
)
def test_another_contract_is_not_left_behind_where(other: str, new: str, contract: Callable[..., Contract]) -> None:
    evolution = evolve(contract(), contract(new), [contract(other, "{name: refunds}")])
    assert evolution.of("breaks-co-partitioning") == ()


def test_another_contract_is_not_left_behind_by_another_name_for_the_same_placement(
    contract: Callable[..., Contract],
) -> None:
    """`librdkafka-murmur2-random` does with every key, null and empty included, what `kafka-java` does."""
    new, other = contract("partitioner: librdkafka-murmur2-random"), contract("streams: [refunds]", "{name: refunds}")
    assert evolve(contract(), new, [other]).of("breaks-co-partitioning") == ()


# Impossible


@pytest.mark.parametrize("partitioner", ["kafka-java", "librdkafka-random", "pulsar-murmur3"])
def test_fewer_lanes_are_impossible_in_place(partitioner: str, contract: Callable[..., Contract]) -> None:
    old, new = (contract(f"partitioner: {partitioner}\nlanes: {lanes}") for lanes in (12, 6))
    change = only(evolve(old, new).of("impossible"))
    assert change.where == "spec.lanes"
    assert "(12 to 6)" in change.message


def test_fewer_lanes_also_say_what_they_would_move(contract: Callable[..., Contract]) -> None:
    assert told(contract("lanes: 12"), contract("lanes: 6")) == [
        ("moves-keys", "spec.lanes"),
        ("impossible", "spec.lanes"),
    ]


def test_fewer_shards_are_possible_because_shards_merge(contract: Callable[..., Contract]) -> None:
    old, new = (contract(f"partitioner: kinesis-md5\nlanes: {lanes}") for lanes in (12, 6))
    assert told(old, new) == [("moves-keys", "spec.lanes")]


def test_fewer_lanes_of_a_tier_are_as_impossible_as_of_any_topic(contract: Callable[..., Contract]) -> None:
    old, new = (contract(f"hot_keys: [{{keys: [a], tier: {{stream: vip, lanes: {lanes}}}}}]") for lanes in (8, 4))
    assert evolve(old, new).of("impossible")


def test_another_name_is_another_contract(contract: Callable[..., Contract]) -> None:
    change = only(evolve(contract(), contract(metadata="{name: refunds}")).changes)
    assert (change.kind, change.where) == ("impossible", "metadata.name")
    assert "'payments' became 'refunds'" in change.message


def test_an_epoch_never_falls(contract: Callable[..., Contract]) -> None:
    old, new = (contract(metadata=f"{{name: payments, epoch: {epoch}}}") for epoch in (3, 2))
    change = only(evolve(old, new).changes)
    assert (change.kind, change.where) == ("impossible", "metadata.epoch")
    assert "3 became 2" in change.message


# The epoch


@pytest.mark.parametrize(
    ("old_epoch", "new_epoch", "due"),
    [(1, 1, 2), (7, 7, 8), (1, 2, None), (7, 8, None), (7, 6, None)],
    ids=["not raised", "not raised, later", "raised", "raised, later", "fallen"],
)
def test_a_change_of_placement_needs_a_new_epoch_where_it_has_none(
    old_epoch: int, new_epoch: int, due: int | None, contract: Callable[..., Contract]
) -> None:
    old = contract("lanes: 12", f"{{name: payments, epoch: {old_epoch}}}")
    new = contract("lanes: 24", f"{{name: payments, epoch: {new_epoch}}}")
    assert evolve(old, new).epoch_to_raise == due


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("key: {fields: [merchant], on_null: sticky, on_empty: hash}", id="the client's rules written out"),
        pytest.param("partitioner: librdkafka-murmur2-random", id="another client that does just the same"),
    ],
)
def test_a_change_that_moves_nothing_needs_no_new_epoch(spec: str, contract: Callable[..., Contract]) -> None:
    evolution = evolve(contract(), contract(spec))
    assert evolution.safe
    assert evolution.epoch_to_raise is None


def test_a_change_that_needs_a_new_epoch_is_listed(contract: Callable[..., Contract]) -> None:
    """No key moves, for no key decides; but an epoch is asked for, so there has to be a reason to show."""
    evolution = evolve(
        contract("partitioner: librdkafka-random\nlanes: 12"), contract("partitioner: librdkafka-random\nlanes: 24")
    )
    assert evolution.epoch_to_raise == 2
    assert evolution.changes


def test_everything_a_change_does_is_listed_at_once(contract: Callable[..., Contract]) -> None:
    old = contract("streams: [a, b]\nlanes: 24", "{name: payments, epoch: 2}")
    new = contract(
        """
        streams: [a, c]
        lanes: 12
        partitioner: librdkafka-consistent-random
        key: {fields: [merchant], on_null: reject}
        hot_keys: [{keys: [x], spread: {over: 2, by: order}}]
        table: {values: {y: 1}}
        expect: {max_over_mean: 2}
        golden: [{key: x, lane: 1}]
        """,
        "{name: refunds, epoch: 1, owner: me}",
    )
    assert set(told(old, new)) == {
        ("impossible", "metadata.name"),
        ("impossible", "metadata.epoch"),
        ("impossible", "spec.lanes"),
        ("moves-keys", "spec.partitioner"),
        ("moves-keys", "spec.key.on_null"),
        ("moves-keys", "spec.key.on_empty"),
        ("moves-keys", "spec.hot_keys"),
        ("moves-keys", "spec.table"),
        ("changes-order-scope", "spec"),
        ("breaks-co-partitioning", "spec.streams"),
        ("safe", "spec.streams"),
        ("safe", "spec.expect"),
        ("safe", "spec.golden"),
        ("safe", "metadata"),
    }

"""What a contract says before it runs: order scope, lanes per key, merging readers, moved share."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.answers import Answers, OrderScope, answers, weakest
from keylane.contract.evolve import evolve
from keylane.contract.fingerprint import placement_form
from keylane.contract.moved import UNEVEN, moved_share
from keylane.contract.names import PARTITIONERS
from keylane.contract.partitioners import FACTS
from keylane.errors import ArgumentError
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

WINDOW = "key: {fields: [merchant], window: {field: at, size: 1h}}\n"
MODULO = [name for name, facts in FACTS.items() if facts.fold not in ("ranges", "keyless") and facts.hash not in UNEVEN]

#: What is asked: (spec, the answers of every rule but the first, or of the first when there is no other)
ANSWERS: dict[str, tuple[str, Answers]] = {
    "a plain hash": ("", Answers("every other key", "per-key", 1, readers_merge=False)),
    "a plain hash over a live count": ("lanes: live", Answers("every other key", "per-key", 1, readers_merge=False)),
    "shards": ("partitioner: kinesis-md5", Answers("every other key", "per-key", 1, readers_merge=False)),
    "a client that ignores keys": (
        "partitioner: librdkafka-random",
        Answers("every other key", "none", 12, readers_merge=True),
    ),
    "a client that ignores keys, over a live count": (
        "partitioner: librdkafka-random\nlanes: live",
        Answers("every other key", "none", None, readers_merge=True),
    ),
    "a window": (WINDOW, Answers("every other key", "per-key-and-window", 12, readers_merge=True)),
    "a window over a live count": (
        WINDOW + "lanes: live",
        Answers("every other key", "per-key-and-window", None, readers_merge=True),
    ),
    "a pin": (
        "hot_keys: [{keys: [a], pin: {lanes: [3]}}]",
        Answers("hot_keys[0]", "per-key", 1, readers_merge=False),
    ),
    "a pin beside a window": (
        WINDOW + "hot_keys: [{keys: [a], pin: {lanes: [3]}}]",
        Answers("hot_keys[0]", "per-key", 1, readers_merge=False),
    ),
    "a spread by sub-key": (
        "hot_keys: [{keys: [a], spread: {over: 8, by: order}}]",
        Answers("hot_keys[0]", "per-sub-key", 8, readers_merge=True),
    ),
    "a spread over listed lanes": (
        "hot_keys: [{keys: [a], spread: {lanes: [1, 5, 9], by: order}}]",
        Answers("hot_keys[0]", "per-sub-key", 3, readers_merge=True),
    ),
    "a spread by position": (
        "hot_keys: [{keys: [a], spread: {over: 4, by_position: true}}]",
        Answers("hot_keys[0]", "none", 4, readers_merge=True),
    ),
    "a tier": (
        "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 4}}]",
        Answers("hot_keys[0]", "per-key", 1, readers_merge=False),
    ),
    "a tier beside a window": (
        WINDOW + "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 4}}]",
        Answers("hot_keys[0]", "per-key-and-window", 4, readers_merge=True),
    ),
    "a tier with a spread": (
        "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 8, spread: {over: 3, by: order}}}]",
        Answers("hot_keys[0]", "per-sub-key", 3, readers_merge=True),
    ),
    "a tier with a spread by position": (
        "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 8, spread: {lanes: [0, 7], by_position: true}}}]",
        Answers("hot_keys[0]", "none", 2, readers_merge=True),
    ),
    "a table of single lanes": (
        "table: {values: {a: 1, b: [2]}, ranges: [{from: m, lane: 3}]}",
        Answers("table", "per-key", 1, readers_merge=False),
    ),
    "a table of ranges": ("table: {ranges: [{from: m, lane: 3}]}", Answers("table", "per-key", 1, readers_merge=False)),
    "a table with a divided key": (
        "table: {by: order, values: {a: 1, b: [2, 3, 4], c: [5, 6]}}",
        Answers("table", "per-sub-key", 3, readers_merge=True),
    ),
}


@pytest.mark.parametrize(("spec", "told"), ANSWERS.values(), ids=ANSWERS.keys())
def test_each_strategy_answers_for_itself(spec: str, told: Answers, contract: Callable[..., Contract]) -> None:
    assert answers(contract(spec))[-1] == told


def test_every_rule_answers_the_rest_of_the_keys_first(contract: Callable[..., Contract]) -> None:
    made = contract(
        """
        hot_keys:
          - {keys: [a], pin: {lanes: [1]}}
          - {keys: [b, c], spread: {over: 2, by: order}}
        table: {values: {d: 1}}
        """
    )
    assert [one.rule for one in answers(made)] == ["every other key", "hot_keys[0]", "hot_keys[1]", "table"]


@pytest.mark.parametrize("name", PARTITIONERS)
def test_only_a_client_that_ignores_keys_keeps_no_order(name: str, contract: Callable[..., Contract]) -> None:
    key = f"{{fields: [merchant], encoding: {FACTS[name].encodings[0]}}}"
    (told,) = answers(contract(f"partitioner: {name}\nkey: {key}"))
    assert told.order_scope == ("none" if name == "librdkafka-random" else "per-key")


def test_the_lanes_a_key_really_uses_are_as_many_as_said(contract: Callable[..., Contract]) -> None:
    spec = "lanes: 64\nhot_keys: [{keys: [a], spread: {over: 3, by: order}}]"
    lanes = {Router(contract(spec)).lane({"merchant": "a", "order": i}) for i in range(500)}
    assert len(lanes) == answers(contract(spec))[1].lanes_per_key == 3


def test_a_spread_beside_a_window_is_not_said_to_use_fewer_lanes_than_it_does(
    contract: Callable[..., Contract],
) -> None:
    """The key's own lane is another in every window, so `over: 2` is two lanes in each, and many in all."""
    made = contract("lanes: 64\n" + WINDOW + "hot_keys: [{keys: [a], spread: {over: 2, by: order}}]")
    router = Router(made)
    lanes = {router.lane({"merchant": "a", "at": hour * 3_600_000, "order": 1}) for hour in range(100)}
    told = answers(made)[1].lanes_per_key
    assert told is not None
    assert len(lanes) <= told


@pytest.mark.parametrize(
    ("spec", "scope"),
    [
        pytest.param("", "per-key", id="one rule"),
        pytest.param(WINDOW, "per-key-and-window", id="a window"),
        pytest.param("hot_keys: [{keys: [a], pin: {lanes: [1]}}]", "per-key", id="a pin weakens nothing"),
        pytest.param("table: {by: order, values: {b: [2, 3]}}", "per-sub-key", id="a divided table"),
        pytest.param(
            WINDOW + "hot_keys: [{keys: [a], spread: {lanes: [1, 2], by: order}}]",
            "per-sub-key",
            id="a sub-key is weaker than a window",
        ),
        pytest.param(
            "hot_keys: [{keys: [a], spread: {over: 2, by: order}}, {keys: [b], spread: {over: 2, by_position: true}}]",
            "none",
            id="nothing is weaker than a sub-key",
        ),
    ],
)
def test_a_reader_may_rely_on_the_weakest_scope_of_all_rules(
    spec: str, scope: OrderScope, contract: Callable[..., Contract]
) -> None:
    assert weakest(answers(contract(spec))) == scope


@pytest.mark.parametrize(
    ("spec", "rules"),
    [
        pytest.param("", ("sticky", "hash"), id="the Java client's own"),
        pytest.param("partitioner: kinesis-md5", ("reject", "reject"), id="those of Kinesis"),
        pytest.param("key: {fields: [a], on_null: reject}", ("reject", "hash"), id="null keys refused"),
        pytest.param("key: {fields: [a], on_empty: random}", ("sticky", "random"), id="empty keys anywhere"),
    ],
)
def test_a_contract_says_what_null_and_empty_keys_do(
    spec: str, rules: tuple[str, str], contract: Callable[..., Contract]
) -> None:
    made = contract(spec)
    form = placement_form(made)
    assert (form["on_null"], form["on_empty"]) == rules


@pytest.mark.parametrize(
    ("old", "new", "percent"),
    [(6, 8, 75), (12, 18, 67), (12, 24, 50), (10, 11, 91), (50, 60, 83), (1, 2, 50), (64, 128, 50), (12, 6, 50)],
)
def test_the_share_of_keys_that_another_lane_count_moves(old: int, new: int, percent: int) -> None:
    share = moved_share("kafka-java", old, new)
    assert share is not None
    assert round(share * 100) == percent


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [
        (2, 4, Fraction(3, 4)),
        (4, 2, Fraction(3, 4)),
        (1, 2, Fraction(1, 2)),
        (2, 3, Fraction(1, 2)),
        (12, 6, Fraction(11, 12)),
        (1, 1000, Fraction(999, 1000)),
    ],
)
def test_the_share_of_keys_that_another_shard_count_moves(old: int, new: int, share: Fraction) -> None:
    assert moved_share("kinesis-md5", old, new) == share


@pytest.mark.parametrize(("old", "new"), [(6, 8), (12, 18), (5, 7), (9, 3), (1, 9), (8, 8)])
def test_the_share_of_moved_keys_is_that_of_counting_them(old: int, new: int) -> None:
    period = lcm(old, new)
    by_modulo = sum(h % old != h % new for h in range(period))
    by_ranges = sum(h * old // period != h * new // period for h in range(period))
    assert moved_share("kafka-java", old, new) == Fraction(by_modulo, period)
    assert moved_share("kinesis-md5", old, new) == Fraction(by_ranges, period)


@pytest.mark.parametrize("name", MODULO)
def test_every_client_that_takes_a_remainder_moves_the_same_share(name: str) -> None:
    assert moved_share(name, 12, 18) == Fraction(2, 3)


@pytest.mark.parametrize("name", [*MODULO, "kinesis-md5"])
@pytest.mark.parametrize("count", [1, 12, 100])
def test_the_same_lane_count_moves_nothing(name: str, count: int) -> None:
    assert moved_share(name, count, count) == 0


@pytest.mark.parametrize("name", [*MODULO, "kinesis-md5"])
def test_going_there_moves_as_much_as_going_back(name: str) -> None:
    assert moved_share(name, 10, 24) == moved_share(name, 24, 10)


def test_where_the_key_does_not_decide_there_is_no_share() -> None:
    assert moved_share("librdkafka-random", 12, 24) is None


@pytest.mark.parametrize("given", ["apiVersion: keylane/v1", "payments.yaml", None, {}], ids=repr)
def test_what_is_not_a_contract_is_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match="not a contract"):
        answers(given)
    with pytest.raises(ArgumentError, match="not a contract"):
        evolve(given, given)

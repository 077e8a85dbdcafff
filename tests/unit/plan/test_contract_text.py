"""A candidate's contract parses, places every key as the plan counted it, and names what cannot be written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.model import Key, Window
from keylane.contract.parse import parse_contract
from keylane.plan.candidates import candidates
from keylane.plan.contract_text import Means, contract_text, parsed, unable
from keylane.plan.hashed_keys import ProfiledStream
from keylane.profile.model import Profile, Windows
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    Made = Callable[..., Profile]

MEANS = Means("t", ("t",), sub_key="order", window=Window(field="at", size="1h"))


@pytest.fixture(scope="module")
def hot(profile: Made) -> Profile:
    rng = np.random.default_rng(5)
    names = [f'key "{i}": # , ü\n' for i in range(613)]
    return profile(rng.poisson([[4_000] * 4, *[[300] * 4] * 12, *[[9] * 4] * 600]), names)


def records_of(profile: Profile) -> pa.Table:
    """A record for each key and each of 40 orders: what divides a key has something to divide by."""
    rows = profile.keys.num_rows
    keys = profile.keys.take(pa.array(np.repeat(np.arange(rows), 40)))
    orders = pa.array([f"o-{i}" for i in range(40)] * rows)
    return keys.append_column("order", orders).append_column("at", pa.array(np.zeros(40 * rows, np.int64)))


@pytest.mark.parametrize("starts", [(0, 2**126), (0, 2**127)], ids=["unequal", "equal"])
def test_a_plan_over_unequal_ranges_has_them_in_its_contract(starts: tuple[int, int], hot: Profile) -> None:
    facts = ("shards", [[f"shard-{n}", str(start)] for n, start in enumerate(starts)])
    stream = ProfiledStream(replace(hot, facts=(*hot.facts, facts)), (2,))
    one = next(one for one in candidates(stream, "kinesis-md5", (2,)) if one.strategy == "hash")
    router = Router(parsed(contract_text(one, stream.profile, MEANS), MEANS))
    assert tuple(router.key_space.starts) == starts
    assert router.lanes(hot.keys).to_pylist() == one.home(stream).tolist()
    assert (router.contract.spec.shards is not None) == (starts[1] != 2**127), "equal ranges are a number of lanes"


STRATEGIES = ("hash", "pin", "table", "spread", "spread-by-position", "tier", "tier-spread", "concentrate")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_router_places_every_key_on_the_lanes_of_the_plan(strategy: str, hot: Profile) -> None:
    stream = ProfiledStream(hot, (8,))
    one = next(one for one in candidates(stream, "kafka-java", (8,)) if one.strategy == strategy)
    router = Router(parsed(contract_text(one, hot, MEANS), MEANS))
    placed = router.placements(records_of(hot), np.arange(40 * hot.keys.num_rows))
    assert placed.column("reason").null_count == len(placed)
    at = np.asarray(placed.column("lane")).reshape(-1, 40)
    away = np.asarray([name != "t" for name in placed.column("stream").to_pylist()]).reshape(-1, 40)
    home = stream.hashed("kafka-java", 8).home
    for rank in range(hot.keys.num_rows):
        expected = set(one.fitted.moves.get(rank, (int(home[rank]),)))
        assert set((at[rank] + 8 * away[rank]).tolist()) <= expected
        if len(expected) > 1:
            assert len(set(at[rank].tolist())) > 1


def test_a_wrong_lane_in_the_text_would_be_noticed(hot: Profile) -> None:
    """The twin: one pin changed in the text, and the router no longer agrees with the plan."""
    stream = ProfiledStream(hot, (8,))
    one = next(one for one in candidates(stream, "kafka-java", (8,)) if one.strategy == "table")
    rank, (lane, *_) = next(iter(one.fitted.moves.items()))
    moved = {**one.fitted.moves, rank: ((lane + 1) % 8,)}
    router = Router(parse_contract(contract_text(one, hot, MEANS, moved)))
    assert router.lanes(hot.keys)[rank].as_py() != lane


#: Keys that break a line, or a reader, when they stand in YAML as they are.
AWKWARD = [
    "a\x7fb",
    "x\u2028y",
    "c\x85d",
    'q"u',
    "tab\there",
    "new\nline",
    "yes",
    "1e3",
    "\ufeffb",
    "\U000e0001",
    "😀",
    "L" * 1500,
]


@pytest.mark.parametrize("strategy", ["pin", "table", "spread-by-position", "tier"])
def test_keys_come_back_from_the_text_as_they_are(strategy: str) -> None:
    keys = pa.table({"k": AWKWARD})
    profile = Profile(
        "s", Key(fields=("k",)), Windows("position", (0, 1)), keys, np.full((len(AWKWARD), 1), 9, np.int32)
    )
    one = next(one for one in candidates(ProfiledStream(profile), "kafka-java", (8,)) if one.strategy == strategy)
    lanes = next(iter(one.fitted.moves.values()), (1,))
    moves = dict.fromkeys(range(len(AWKWARD)), lanes)
    spec = parse_contract(contract_text(one, profile, MEANS, moves)).spec
    named = list(spec.table.values) if spec.table else [key for rule in spec.hot_keys for key in rule.named]
    assert sorted(map(str, named)) == sorted(AWKWARD)


def test_keys_of_several_fields_are_pinned_and_not_listed() -> None:
    keys = pa.table({"city": ["a", "a", "b"], "id": [1, 2, 2**63 - 1]})
    counts = np.array([[60, 60], [50, 50], [10, 10]], np.int32)
    both = Profile("s", Key(fields=("city", "id")), Windows("position", (0, 1, 2)), keys, counts)
    assert "one field" in (unable("table", both, MEANS) or "")
    one = next(one for one in candidates(ProfiledStream(both), "kafka-java", (2,)) if one.strategy == "pin")
    lanes = Router(parsed(contract_text(one, both, MEANS), MEANS)).lanes(keys).to_pylist()
    home = ProfiledStream(both).hashed("kafka-java", 2).home
    assert lanes == [one.fitted.moves.get(rank, (int(home[rank]),))[0] for rank in range(3)]


@pytest.mark.parametrize(
    ("values", "encoding", "wants"),
    [
        ([b"\x00\x01"], "raw", "--encoding utf8"),
        ([b"\x00" * 16], "uuid", "text or whole numbers"),
        ([1.5], "utf8", "float"),
    ],
)
def test_keys_that_no_contract_can_name_are_refused(values: list[Any], encoding: Any, wants: str) -> None:
    one = Profile(
        "s",
        Key(fields=("k",), encoding=encoding),
        Windows("position", (0, 1)),
        pa.table({"k": values}),
        np.ones((1, 1), np.int32),
    )
    assert wants in (unable("pin", one, MEANS) or "")
    assert unable("hash", one, MEANS) is None
    assert unable("window", one, MEANS) is None


def test_a_contract_that_places_as_todays_does_is_todays(hot: Profile) -> None:
    one = next(one for one in candidates(ProfiledStream(hot), "kafka-java", (8,)) if one.strategy == "hash")
    today = parse_contract(contract_text(one, hot, MEANS))
    means = Means("t", ("t",), today=today)
    assert parsed(contract_text(one, hot, means), means) is today
    pinned = next(one for one in candidates(ProfiledStream(hot), "kafka-java", (8,)) if one.strategy == "pin")
    assert parsed(contract_text(pinned, hot, means), means) is not today

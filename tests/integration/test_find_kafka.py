"""A key is found where its writer put it; only lanes that it may be in are read, and what was not is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.integration.commands import run

import keylane
from keylane import ReadRange, StreamOptions, partitioner
from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.documents.find import FindDocument
    from keylane.systems.broker import Cluster

LANES, BEGAN = 12, 1_763_208_000_000
KEY = "TT0124"


def lane_by(name: str, key: str = KEY) -> int:
    lane = partitioner(name).lane(key.encode(), LANES)
    assert lane is not None
    return lane


HOME, ODD = lane_by("kafka-java"), lane_by("librdkafka-consistent-random")


def contract(more: str = "") -> str:
    return (
        "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: payments}\nspec:\n  streams: [payments]\n"
        f"  lanes: {LANES}\n  key: {{fields: [merchant]}}\n  partitioner: kafka-java\n{more}"
    )


@pytest.fixture
def filled(broker: Cluster, topic: Callable[..., str]) -> str:
    """Each of 600 keys in its lane, and KEY three times: at the beginning, in the middle, at the end."""
    name = topic(LANES)
    keys = [f"m-{n}" for n in range(600)]
    every = [KEY, *keys[:300], KEY, *keys[300:], KEY]
    send(broker, name, [(lane_by("kafka-java", key), key) for key in every])
    return f"kafka://{broker.bootstrap}/{name}"


def send(broker: Cluster, name: str, rows: list[tuple[int, str]]) -> None:
    producer = Producer({**librdkafka_settings(broker)})
    for number, (lane, key) in enumerate(rows):
        producer.produce(name, b"{}", key.encode(), lane, timestamp=BEGAN + number * 1000)
    assert producer.flush(60) == 0


def lanes_read(found: FindDocument) -> list[int]:
    return [row.lane for row in found.lanes]


def test_a_key_is_found_in_the_one_lane_of_the_contract(filled: str, tmp_path: Path) -> None:
    found = keylane.find(KEY, filled, contract=contract())
    assert (lanes_read(found), found.found, found.whole, found.everywhere) == ([HOME], 3, True, False)
    assert [record.time for record in found.records] == sorted((r.time or "" for r in found.records), reverse=True)
    assert found.compared == found.lanes[0].end < 200
    (tmp_path / "c.yaml").write_text(contract())
    ended = run("find", KEY, "--from", filled, "--contract", str(tmp_path / "c.yaml"), "--count", "2", "-o", "json")
    assert (ended.code, len(ended.document["records"])) == (0, 2), ended.err


def test_what_another_writer_put_elsewhere_is_not_called_absent(broker: Cluster, topic: Callable[..., str]) -> None:
    """The planted twin: the key is there, in the lane of another client."""
    name = topic(LANES)
    send(broker, name, [(HOME, "other"), (ODD, KEY)])
    address = f"kafka://{broker.bootstrap}/{name}"
    found = keylane.find(KEY, address, contract=contract())
    assert (found.found, found.whole, found.everywhere, lanes_read(found)) == (0, True, False, [HOME])
    assert f"lane {ODD} by librdkafka-consistent" in found.notes[-1]
    assert "--all-lanes" in found.notes[-1]
    ended = run("find", KEY, "--from", address, "-p", "kafka-java")
    assert ended.code == 4
    assert "not found in what was read" in ended.out
    for more in ({}, {"all_lanes": True}, {"partitioner": "librdkafka-consistent-random"}):
        assert keylane.find(KEY, address, **more).found == 1
    absent = keylane.find("nobody", address, all_lanes=True)
    assert (absent.found, absent.everywhere) == (0, True)
    assert run("find", "nobody", "--from", address, "--all-lanes").out.startswith("there is none")


@pytest.mark.parametrize(
    ("more", "lanes"),
    [
        (f"  hot_keys: [{{keys: [{KEY}], pin: {{lanes: [3]}}}}]\n", [3]),
        (f"  hot_keys: [{{keys: [{KEY}], spread: {{lanes: [1, 5, 9], by: order}}}}]\n", [1, 5, 9]),
        (f"  table: {{values: {{{KEY}: 4}}, otherwise: hash}}\n", [4]),
    ],
    ids=["pinned", "spread", "a table"],
)
def test_rules_of_the_contract_say_which_lanes(more: str, lanes: list[int], filled: str) -> None:
    assert lanes_read(keylane.find(KEY, filled, contract=contract(more))) == lanes


def test_a_tier_is_named_as_another_stream(filled: str) -> None:
    tier = f"  hot_keys: [{{keys: [{KEY}], tier: {{stream: vip, lanes: 4}}}}]\n"
    found = keylane.find(KEY, filled, contract=contract(tier))
    assert (lanes_read(found), found.compared) == ([], 0)
    assert [one.partition("/")[0] for one in found.elsewhere] == ["vip"]


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ({"count": 1}, 3),
        ({"options": StreamOptions(read_range=ReadRange(most=5))}, 1),
        ({"options": StreamOptions(read_range=ReadRange(since=BEGAN + 500_000))}, 1),
        ({"options": StreamOptions(read_range=ReadRange(until=BEGAN + 100_000))}, 1),
    ],
    ids=["count", "most", "since", "until"],
)
def test_what_bounds_the_reading_leaves_it_in_part(asked: dict[str, Any], seen: int, filled: str) -> None:
    found = keylane.find(KEY, filled, contract=contract(), **asked)
    assert found.found == seen
    assert found.whole == ("count" in asked), "a lane of one block is read whole, whatever was asked for"
    if not found.whole:
        assert "were not read" in " ".join(found.notes)


def test_keys_that_are_no_text_are_found_by_their_encoding(broker: Cluster, topic: Callable[..., str]) -> None:
    name, number = topic(LANES), (7_000_000_001).to_bytes(8, "big")
    producer = Producer({**librdkafka_settings(broker)})
    lane = partitioner("kafka-java").lane(number, LANES)
    assert lane is not None
    producer.produce(name, b"{}", number, lane)
    assert producer.flush(60) == 0
    address = f"kafka://{broker.bootstrap}/{name}"
    assert keylane.find(7_000_000_001, address, encoding="int64be").found == 1
    assert keylane.find(number, address, encoding="raw").found == 1
    assert keylane.find("7000000001", address, all_lanes=True).found == 0
    assert run("find", number.hex(), "--from", address, "-e", "raw").code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("find",), 2),
        (("find", "a"), 2),
        (("find", "a", "--from", "nowhere.parquet"), 1),
        (("find", "a", "--from", "kafka://127.0.0.1:1/t", "-p", "nobody"), 2),
        (("find", "a", "--from", "kafka://127.0.0.1:1/t", "-f", "a=1"), 2),
        (("find", "a", "--from", "kafka://127.0.0.1:1/t", "--count", "0"), 2),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: tuple[str, ...], code: int) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert "Traceback" not in ended.err

"""A profile of a topic against a plain count of what a reader finds there."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.timed_records import BEGAN, Sent, send
from tests.integration.topics import read_back

from keylane import Router, partitioner
from keylane.errors import DataError, UsageError
from keylane.pipelines.profile import Options, profile
from keylane.pipelines.route import KafkaOptions
from keylane.plan.contract_text import Means
from keylane.plan.planner import Question, assumed, heat_of, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.profile.model import Profile
    from keylane.systems.broker import Cluster


def payments(count: int = 200) -> list[Sent]:
    return [
        (b"m-%d" % (n * n % 11), json.dumps({"shop": f"s{n % 3}", "n": n % 2}).encode(), BEGAN + n * 1000)
        for n in range(count)
    ]


def by_key(found: Profile) -> dict[Any, int]:
    return dict(zip(found.keys.column(0).to_pylist(), found.records.tolist(), strict=True))


def asked(broker: Cluster, **given: Any) -> Options:
    return Options(windows=4, kafka=KafkaOptions(**given.pop("kafka", {})), **given)


def test_a_topic_is_counted_by_its_own_keys_lanes_and_times(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession
) -> None:
    name = topic(3)
    records = payments()
    send(broker, name, records)
    send(broker, name, [(None, b"x", BEGAN), (b"", b"xy", BEGAN)])
    send(broker, name, [(b"aborted", b"x", BEGAN)] * 20, **{"transactional.id": "profile-abort"})
    found = profile(f"kafka://{broker.bootstrap}/{name}", options=asked(broker), spark=spark)
    assert by_key(found) == Counter(key for key, _, _ in records)
    assert (found.without_key.null, found.without_key.empty, found.total) == (1, 1, 202)
    assert found.size is not None
    assert found.bytes_total == sum(len(key or b"") + len(value) for key, value, _ in records) + 3
    there = Counter(read.lane for read in read_back(broker, name))
    assert found.lanes is not None
    assert found.lanes.by_window.sum(axis=1).tolist() == [there[lane] for lane in range(3)]
    assert found.windows.edges[0] == BEGAN * 1000
    at = [
        (when * 1000 - found.windows.edges[0]) // (found.windows.edges[1] - found.windows.edges[0])
        for *_, when in records
    ]
    assert found.by_window.sum(axis=0).tolist() == [at.count(window) for window in range(4)]


def test_only_what_arrives_while_it_listens_is_counted(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, waited = topic(2), []
    send(broker, name, payments(50))
    arriving = [(b"later", b"x", BEGAN + 1_000_000 + n) for n in range(7)]

    def listen(seconds: float) -> None:
        waited.append(seconds)
        if arriving:
            send(broker, name, arriving)

    monkeypatch.setattr("keylane.systems.kafka.data.time", SimpleNamespace(sleep=listen))
    heard: list[str] = []
    options = asked(broker, seconds=4.0)
    found = profile(f"kafka://{broker.bootstrap}/{name}", options=options, spark=spark, say=heard.append)
    assert (by_key(found), waited) == ({b"later": 7}, [4.0])
    arriving.clear()
    with pytest.raises(DataError, match="nothing arrived"):
        profile(f"kafka://{broker.bootstrap}/{name}", options=asked(broker, seconds=0.1), spark=spark, say=heard.append)
    assert len(heard) >= 2


def test_a_key_may_be_a_field_of_the_value_and_what_cannot_be_read_is_malformed(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    name = topic(2)
    records = payments(60)
    send(broker, name, [*records, (b"m-1", b"no json", BEGAN), (b"m-2", b'{"n": 1}', BEGAN)])
    address, said = f"kafka://{broker.bootstrap}/{name}", asked(broker, kafka={"value": "json"})
    found = profile(address, ["shop"], options=said, out=tmp_path / "t.profile", spark=spark)
    assert by_key(found) == {"s0": 20, "s1": 20, "s2": 20}
    assert (found.without_key.null, found.without_key.malformed) == (1, 1)
    with pytest.raises(UsageError, match="values"):
        profile(address, ["shop"], options=asked(broker), spark=spark)
    with pytest.raises(UsageError, match="have their own size"):
        profile(address, options=asked(broker, size="n"), spark=spark)


def test_records_in_another_lane_than_the_contract_gives_them_are_misplaced(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, contract: Callable[..., Contract]
) -> None:
    name = topic(4)
    send(broker, name, payments())
    send(broker, name, payments(40), partitioner="consistent")
    made = contract(lanes=4, key={"fields": ["merchant"]})
    found = profile(f"kafka://{broker.bootstrap}/{name}", contract=made, options=asked(broker), spark=spark)
    assert found.lanes is not None
    from keylane import Router

    router = Router(made)
    wrong = [read for read in read_back(broker, name) if router.place({"merchant": read.key}).lane != read.lane]
    assert found.lanes.misplaced == len(wrong) > 0
    assert found.keys["merchant"].to_pylist()[0].startswith("m-")
    assert found.total == 240


def test_a_topics_text_keys_become_a_plan_that_names_them(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession
) -> None:
    """Two heavy keys that Java puts on one lane of three are parted; the topic itself says who is hot, and why."""
    name, hot = topic(3), [b"hot-1", b"hot-3"]
    assert len({partitioner("kafka-java").lane(key, 3) for key in hot}) == 1
    light = [(b"k-%d" % (n % 300), b"v", BEGAN + n * 100) for n in range(1_800)]
    heavy = [(hot[n % 2], b"v", BEGAN + n * 150) for n in range(1_200)]
    send(broker, name, sorted([*light, *heavy], key=lambda record: record[2]))
    found = profile(f"kafka://{broker.bootstrap}/{name}", ["key"], options=asked(broker), spark=spark)
    heat = heat_of(found, assumed(found), seed=1)
    assert heat is not None
    assert heat.cause in {"one-key", "few-keys"}
    plan = make_plan(found, Question((3,), Means(name, (name,))))
    chosen = plan.choice.chosen.candidate
    lanes = [Router(plan.contract).lane({"key": key.decode()}) for key in hot]
    assert lanes[0] != lanes[1]
    # Two keys of a fifth each and light ones: 40, 40 and 20 % are the best that names no light key.
    assert chosen.score.max_over_mean < 1.25 < max(one.candidate.score.max_over_mean for one in plan.judged)

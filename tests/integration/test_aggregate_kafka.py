"""`aggregate` between real topics: events in, results out, queries in a compacted topic; and over a kill."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from tests.aggregate.killable import run_and_die
from tests.aggregate.reference import MINUTE, QUERIES, START, events, expected
from tests.integration.route_records import read_committed
from tests.integration.topics import create_topic, delete_topic

from keylane.aggregation.query import query_of
from keylane.errors import DataError, TargetError, UnknownNameError, UsageError
from keylane.pipelines.aggregate.explain import explain_load
from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.results import micros_of
from keylane.pipelines.aggregate.run import aggregate
from keylane.pipelines.aggregate.verify import verify_results
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions
from keylane.systems.query_registry import open_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.aggregate.reference import Event

    from keylane.systems.broker import Cluster


def sent(broker: Cluster, topic: str, given: Iterable[Event | str]) -> None:
    """Events over all partitions in turn, without a key."""
    producer = Producer({**librdkafka_settings(broker), "enable.idempotence": True})
    for number, event in enumerate(given):
        text = event if isinstance(event, str) else json.dumps(event)
        producer.produce(topic, text.encode(), partition=number % 2)
    assert producer.flush(60) == 0


def address(broker: Cluster, topic: str) -> str:
    return f"kafka://{broker.bootstrap}/{topic}"


@pytest.fixture
def registry(broker: Cluster, topic: Callable[..., str]) -> str:
    """A registry in a topic, which `add` makes."""
    name = address(broker, f"{topic(1, 'unused')}-queries")
    with open_queries(name, create=True) as found:
        found.add([query_of(query.definition) for query in QUERIES])
    return name


def outputs(broker: Cluster, topic: Callable[..., str]) -> str:
    """A topic for results, with those for corrections and dead letters beside it."""
    name = topic(3, "results")
    for end in (".corrections", ".dlq"):
        create_topic(broker, f"{name}{end}", 1)
    return name


def delivered(broker: Cluster, topic: str) -> list[dict[str, Any]]:
    """The results of a topic by query and sequence, with times as the reference has them."""
    rows = [json.loads(read.value or b"") for read in read_committed(broker, topic)]
    return sorted(rows, key=lambda row: (row["query_id"], row["sequence"]))


def as_messages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**row, **{name: row[name].strftime("%Y-%m-%dT%H:%M:%S.%fZ") for name in ("window_start", "window_end")}}
        for row in rows
    ]


def test_topics_in_and_out_with_queries_in_a_topic(
    broker: Cluster, topic: Callable[..., str], registry: str, spark: SparkSession, tmp_path: Path
) -> None:
    source, target, state = topic(2, "events"), outputs(broker, topic), str(tmp_path / "state")
    given = events(600, 1, START, START + 5 * MINUTE)
    sent(broker, source, [*given, "{broken", ""])
    ends = address(broker, source), address(broker, target), registry
    document = aggregate(*ends, AggregateOptions(lanes=2, state=state), spark=spark)
    assert (document.records, document.dead, document.late) == (602, 2, 0)
    assert delivered(broker, target) == as_messages(expected(given))
    assert verify_results(ends[1], state).is_right
    explained = explain_load(state, 4)
    assert (explained.windows, explained.state is not None) == (document.windows, True), "metrics are in the state"
    letters = read_committed(broker, f"{target}.dlq")
    assert sorted(read.value or b"" for read in letters) == [b"", b"{broken"]
    # A change of the registry takes effect at the border of the next batch, and a second run goes on.
    with open_queries(registry) as found:
        found.change(["clicks", "unindexed"], "pause")
    later = events(200, 2, START + 60 * MINUTE, START + 65 * MINUTE)
    sent(broker, source, later)
    again = aggregate(*ends, AggregateOptions(lanes=2, state=state), spark=spark)
    assert (again.records, again.registry_version) == (802, 2)
    kept = [query for query in QUERIES if query.id == "sliding"]
    of_later = [row for row in delivered(broker, target) if micros_of(row["window_start"]) >= START * 1000 + 10**9]
    assert {row["query_id"] for row in of_later} == {"sliding"}
    assert len(of_later) == len(expected(later, kept))
    assert verify_results(ends[1], state).is_right
    # The twin: a result that is there twice is noticed.
    sent(broker, target, [json.dumps(of_later[0])])
    assert not verify_results(ends[1], state).is_right


def test_a_registry_in_a_topic_keeps_the_rules_of_one_in_a_file(
    broker: Cluster, topic: Callable[..., str], registry: str
) -> None:
    with open_queries(registry) as one, open_queries(registry) as other:
        assert one.version() == 1
        assert one.change(["clicks"], "remove") == (2, ["clicks"])
        assert [query.status for query in other.all()] == ["removed", "active", "active"]
        assert [query["id"] for query in other.snapshot().active] == ["sliding", "unindexed"]
        with pytest.raises(UnknownNameError, match="no such query"):
            other.change(["sliding", "clicks"], "pause")
        with pytest.raises(UsageError, match="another query has the id"):
            other.add([query_of({**QUERIES[0].definition, "window": "2 minutes"})])
        assert one.snapshot() == other.snapshot()
        assert one.version() == 2, "what was refused changed nothing"
    with pytest.raises(UsageError, match="no registry"), open_queries(address(broker, "no-such-registry")):
        pass
    with pytest.raises(TargetError, match="one partition"), open_queries(address(broker, topic(2, "two"))):
        pass
    with pytest.raises(TargetError, match="not compacted"), open_queries(address(broker, topic(1, "plain"))):
        pass


@pytest.mark.faults
@pytest.mark.parametrize("point", ["staged", "committed"])
def test_killed_between_the_topic_and_the_state_a_batch_is_there_once(
    broker: Cluster, topic: Callable[..., str], registry: str, spark: SparkSession, tmp_path: Path, point: str
) -> None:
    source, target, state = topic(2, "events"), outputs(broker, topic), str(tmp_path / "state")
    given = events(400, 1, START, START + 5 * MINUTE)
    sent(broker, source, given)
    ends = address(broker, source), address(broker, target), registry
    run_and_die(*ends, point, 0, state=state)
    early = delivered(broker, target)
    assert early, "the batch was written before it was committed"
    aggregate(*ends, AggregateOptions(lanes=2, state=state), spark=spark)
    assert delivered(broker, target) == as_messages(expected(given))
    assert verify_results(ends[1], state).is_right


@pytest.mark.faults
def test_a_recreated_source_and_an_older_state_are_refused(
    broker: Cluster, topic: Callable[..., str], registry: str, spark: SparkSession, tmp_path: Path
) -> None:
    source, target, state = topic(2, "events"), outputs(broker, topic), tmp_path / "state"
    ends = address(broker, source), address(broker, target), registry
    options = AggregateOptions(lanes=2, state=str(state), stream=StreamOptions(max_records=1000))
    with pytest.raises(UsageError, match="needs a state folder"):
        aggregate(*ends, AggregateOptions(), spark=spark)
    for number in range(3):
        sent(broker, source, events(50, number, START + number * 60 * MINUTE, START + (number * 60 + 1) * MINUTE))
        aggregate(*ends, options, spark=spark)
    for path in sorted((state / "batches").glob("*.json"))[-2:]:
        path.rename(tmp_path / path.name)
    with pytest.raises(TargetError, match="older than the target"):
        aggregate(*ends, options, spark=spark)
    for path in tmp_path.glob("*.json"):
        path.rename(state / "batches" / path.name)
    delete_topic(broker, source)
    create_topic(broker, source, 2)
    with pytest.raises(DataError, match="recreated"):
        aggregate(*ends, options, spark=spark)

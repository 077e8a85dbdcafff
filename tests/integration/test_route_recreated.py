"""Sources and targets that are not what they were, on a real broker: topics made anew, and files that change."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.route_records import contract, numbered, read_committed, send
from tests.integration.topics import create_topic

from keylane.errors import DataError, KeylaneError, TargetError
from keylane.pipelines.route import KafkaOptions, Options, Routed
from keylane.pipelines.route import route as run
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import open_endpoint
from keylane.systems.journal import last_document
from keylane.systems.kafka.cluster import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster


@dataclass
class Between:
    """A topic of two lanes with 50 records, and routes from it into a topic and into a folder."""

    broker: Cluster
    spark: SparkSession
    base: Path
    source: str
    target: str
    said: list[str] = field(default_factory=list)

    def address(self, name: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{name}"

    def route(self, to: str = "", **more: Any) -> Routed:
        options = Options(kafka=KafkaOptions(state=str(self.base / "state"), create=True))
        into = to or self.address(self.target)
        given = contract(self.target)
        return run(
            given, self.address(self.source), into, options=options, spark=self.spark, say=self.said.append, **more
        )

    def files(self, folder: Path, **more: Any) -> Routed:
        options = Options(kafka=KafkaOptions(state=str(self.base / "files"), create=True))
        to = self.address(self.target)
        return run(contract(self.target), str(folder), to, options=options, spark=self.spark, **more)

    def made_anew(self, topic: str, lanes: int) -> None:
        self.delete(topic)
        create_topic(self.broker, topic, lanes)

    def delete(self, topic: str) -> None:
        client = AdminClient({**librdkafka_settings(self.broker)})
        client.delete_topics([topic], operation_timeout=30)[topic].result(30)


@pytest.fixture
def between(broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path) -> Between:
    source, target = topic(2, "src"), topic(4, "dst")
    send(broker, source, numbered(0, 50))
    return Between(broker, spark, tmp_path, source, target)


def test_a_recreated_source_is_refused(between: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = between.base / "out"
    assert between.route().counts.in_ == between.route(str(folder)).counts.in_ == 50
    head = json.loads((between.base / "state/_keylane/head.json").read_text(encoding="utf-8"))
    known = open_endpoint(between.address(between.source)).identity()
    assert head["source_id"] == known != ""
    assert sorted(head["topic_ids"]) == [between.target, f"{between.target}.dlq"]
    assert json.loads((folder / "_keylane/target.json").read_text(encoding="utf-8"))["source_id"] == known
    between.made_anew(between.source, 2)
    send(between.broker, between.source, numbered(1000, 80))
    for to in ("", str(folder)):
        with pytest.raises(DataError, match=f"{between.source} was deleted and recreated .*hint: start a new route"):
            between.route(to)
    assert between.said == []
    # The planted twin: without ids the same records are passed over, and nothing is said but that it is not known.
    monkeypatch.setattr(KafkaCluster, "topic_ids", lambda _self, topics, _seconds=0.0: dict.fromkeys(topics, ""))
    assert between.route().counts.in_ == 30, "50 of 80 records are lost"
    assert "reports no id of" in between.said[0]


@pytest.mark.parametrize(
    "which", ["target", *(pytest.param(one, marks=pytest.mark.faults) for one in ("dead", "gone"))]
)
def test_a_recreated_target_is_refused(between: Between, which: str) -> None:
    between.route()
    topic = between.target if which == "target" else f"{between.target}.dlq"
    if which == "gone":
        between.delete(topic)
    else:
        between.made_anew(topic, 4 if which == "target" else 1)
    send(between.broker, between.source, numbered(50, 10))
    with pytest.raises(TargetError, match=f"topic {topic} was deleted .*hint: start a new route with another --state"):
        between.route()
    assert len(read_committed(between.broker, between.target)) == (0 if which == "target" else 50)


@pytest.mark.faults
@pytest.mark.parametrize(("what", "to"), [("source", ""), ("source", "folder"), ("target", "")])
def test_a_topic_recreated_while_it_is_followed_is_refused(between: Between, what: str, to: str) -> None:
    """After Spark has read from the first, and before anything of the batch is committed."""
    into = str(between.base / "out") if to else ""
    between.route(into)
    send(between.broker, between.source, numbered(50, 10))

    def probe(step: str, batch: int) -> None:
        if batch == 1 and step == ("begun" if to else "planned"):
            between.made_anew(between.source if what == "source" else between.target, 2 if what == "source" else 4)

    with pytest.raises(KeylaneError, match=r"recreated|was deleted|does not exist|OffsetOutOfRange|Spark failed"):
        between.route(into, probe=probe)
    with pytest.raises(KeylaneError, match="was deleted and recreated"):
        between.route(into)


def test_files_that_change_under_a_route_into_a_topic(between: Between) -> None:
    folder = between.base / "in"
    folder.mkdir()
    file = folder / "a.jsonl"
    file.write_text('{"key":"a"}\n{"key":"b"}\n', encoding="utf-8")
    (folder / "empty.jsonl").touch()
    assert between.files(folder).counts.in_ == 2
    file.write_text('{"key":"a"}\n{"key":"b"}\n{"key":"c"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"have changed since they were read.*: a\.jsonl"):
        between.files(folder)
    file.unlink()
    (folder / "empty.jsonl").write_text('{"key":"x"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"have changed since they were read.*: empty\.jsonl \(0 bytes"):
        between.files(folder)
    (folder / "empty.jsonl").rename(folder / "b.jsonl")
    assert between.files(folder).counts.in_ == 1
    assert len(read_committed(between.broker, between.target)) == 3


@pytest.mark.faults
def test_files_that_change_while_they_go_into_a_topic(between: Between) -> None:
    folder = between.base / "in"
    folder.mkdir()

    def grown_at(step: str) -> Any:
        def probe(point: str, batch: int) -> None:
            if (point, batch) == (step, 1):
                with (folder / "b.jsonl").open("a") as lines:
                    lines.write('{"key":"late"}\n')

        return probe

    (folder / "a.jsonl").write_text('{"key":"a"}\n{"key":"b"}\n', encoding="utf-8")
    assert between.files(folder).counts.in_ == 2
    (folder / "a.jsonl").unlink()
    (folder / "b.jsonl").write_text('{"key":"x"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"b\.jsonl has changed while it was read"):
        between.files(folder, probe=grown_at("written"))
    with pytest.raises(DataError, match=r"b\.jsonl has changed since batch 1 was begun"):
        between.files(folder)
    (folder / "b.jsonl").write_text('{"key":"x"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"b\.jsonl has changed since batch 1 was begun"):
        between.files(folder)
    state = last_document(between.base / "files", "plans")[1]
    (planned,) = state["taken"]
    os.utime(folder / "b.jsonl", ns=(planned["modified"] * 1_000_000,) * 2)
    assert between.files(folder).counts.in_ == 1, "restored with its time of change"
    assert sorted(record.value or b"" for record in read_committed(between.broker, between.target)) == [
        b'{"key":"a"}',
        b'{"key":"b"}',
        b'{"key":"x"}',
    ]

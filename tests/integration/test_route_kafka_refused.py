"""A refused route into or from Kafka has written nothing: no topic, no state, no folder. The corrected one works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.route_records import contract, send

from keylane.errors import KeylaneError
from keylane.pipelines.route import KafkaOptions, Options, route
from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

LONG = "t" * 247
BY_VALUE = {"fields: [key]": "fields: [merchant_id]"}
#: What is wrong, words of the refusal, and how the command differs from the right one.
REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "a source that is not there": ("no such topic", {"source": "not-there"}),
    "a target that is not there": (r"no such topic.*got 'refused-dst, refused-dst\.dlq'", {"create": False}),
    "a format of values that nobody gives": ("merchant_id must come from the value", {"value": None}),
    "a schema that is not there": ("none.avsc", {"value": "avro", "value_schema": "none.avsc"}),
    "a position that is none": ("not a position to start at", {"start": "soon"}),
    "an offset beyond 64 bits": ("not a position to start at", {"start": '{"0": 9223372036854775808, "1": 0}'}),
    "an offset that is true": ("not a position to start at", {"start": '{"0": true, "1": 0}'}),
    "a time that Kafka reads as the end": ("before 1970", {"start": "1969-12-31T23:59:59.999Z"}),
    "dead letters among the lanes": (
        "dead letters cannot go to a topic that has lanes",
        {"dead_letters": "refused-dst"},
    ),
    "a name that is too long for dead letters": (r"dead letters cannot have this name", {"target": LONG}),
    "a name that dead letters cannot have": (r"dead letters cannot have this name", {"dead_letters": "a b"}),
    "a stream that is not the contract's": ("stream", {"stream": "other"}),
    "a property that is refused": ("interceptor", {"properties": (("interceptor.classes", "x"),)}),
    "a state that is not keylane's": ("not a state folder", {"state": "full"}),
    "a state that is a file": ("not a folder", {"state": "file"}),
}


@pytest.fixture(scope="module")
def world(broker: Cluster, topic: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    base, source = tmp_path_factory.mktemp("refused"), topic(2, "refused-src")
    send(broker, source, [(0, b"K", b'{"merchant_id": "a"}')])
    (base / "full").mkdir()
    (base / "full" / "mine.txt").write_text("mine")
    (base / "file").write_text("a file")
    return base, source


def command(broker: Cluster, world: tuple[Path, str], spark: SparkSession, **said: Any) -> Any:
    base, source = world
    target, stream = said.pop("target", "refused-dst"), said.pop("stream", None)
    at = [f"kafka://{broker.bootstrap}/{name}" for name in (said.pop("source", source), target)]
    state = str(base / said.pop("state", "state"))
    kafka = KafkaOptions(**{"state": state, "create": True, "value": "json", **said})
    return route(contract(target, **BY_VALUE), at[0], at[1], options=Options(stream=stream, kafka=kafka), spark=spark)


def everything(broker: Cluster, folder: Path) -> tuple[list[str], list[str]]:
    """Every topic, and every file and folder."""
    topics = AdminClient({**librdkafka_settings(broker)}).list_topics(timeout=30).topics
    return sorted(topics), sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_command_has_written_nothing(
    broker: Cluster, world: tuple[Path, str], spark: SparkSession, case: str
) -> None:
    words, said = REFUSALS[case]
    before = everything(broker, world[0])
    with pytest.raises(KeylaneError, match=words):
        command(broker, world, spark, **said)
    assert everything(broker, world[0]) == before


def test_the_corrected_command_works(broker: Cluster, world: tuple[Path, str], spark: SparkSession) -> None:
    """Last: after every refusal, with the same state and target. The state of the first that failed was another's."""
    assert command(broker, world, spark).counts.out == 1
    before = everything(broker, world[0])
    with pytest.raises(KeylaneError, match="value: json here, utf8 given"):
        command(broker, world, spark, value="utf8")
    assert everything(broker, world[0]) == before

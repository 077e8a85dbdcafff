"""A stream that was made anew under its name is refused; what cannot be compared is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from keylane.errors import DataError, TargetError
from keylane.systems.endpoint import Endpoint, StreamOptions, open_endpoint, parse_address
from keylane.systems.flow import Origin
from keylane.systems.folders.folder import Head, Manifest, open_target, read_head
from keylane.systems.identity import agreed_source, agreed_topic_ids
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import KafkaCluster, Listener
from keylane.systems.kafka.follow import SameTopic
from keylane.systems.kafka.topics import Topics, agreed_lanes
from keylane.systems.messages.state import RouteHead, open_state
from keylane.systems.messages.state import read_head as read_route_head

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ADDRESS = parse_address("kafka://127.0.0.1:1/raw")


class Cluster:
    """A cluster that knows topics by these ids; one that is not among them does not exist."""

    def __init__(self, **ids: str) -> None:
        self.ids = ids

    def topic_ids(self, topics: list[str], seconds: float = 1.0) -> dict[str, str]:
        assert seconds > 0
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    def lanes(self, topics: list[str]) -> dict[str, int]:
        return {topic: 2 if topic in self.ids else 0 for topic in topics}

    def create(self, topic: str, lanes: int) -> None:
        raise AssertionError((topic, lanes))


@pytest.mark.parametrize(
    ("known", "now", "agreed", "reported"),
    [
        ("a", "a", "a", ""),
        ("", "", "", "reports no id"),
        ("a", "", "a", "reports no id"),
        ("", "a", "a", "was not known when the route began"),
    ],
)
def test_an_id_that_is_the_same_or_cannot_be_compared(known: str, now: str, agreed: str, reported: str) -> None:
    said: list[str] = []
    source = agreed_source(Origin("kafka://b:1/raw", id=now), Origin("kafka://b:1/raw", id=known), said.append)
    assert source.id == agreed
    assert agreed_topic_ids({"t": known}, {"t": now}, said.append) == {"t": agreed}
    assert [reported in text for text in said] == ([True, True] if reported else [])


def test_an_id_of_another_is_refused_as_source_and_as_target() -> None:
    with pytest.raises(
        DataError, match=r"raw was deleted and recreated.*got 'new'.*allowed: old.*hint: start a new route"
    ):
        agreed_source(Origin("kafka://b:1/raw", id="new"), Origin("kafka://b:1/raw", id="old"), print)
    with pytest.raises(
        TargetError, match=r"topic t was deleted and recreated.*got 'new'.*allowed: old.*hint: start a new"
    ):
        agreed_topic_ids({"t": "old"}, {"t": "new"}, print)


def test_a_new_route_and_a_system_without_ids_have_nothing_to_compare() -> None:
    said: list[str] = []
    assert agreed_source(Origin("x", id="a"), None, said.append).id == "a"
    assert agreed_source(Origin("x"), Origin("x", id=""), said.append).id is None
    assert agreed_source(Origin("x", id="a"), Origin("y", id="b"), said.append).id == "a", "refused as another source"
    assert agreed_topic_ids({}, {"t": "a"}, said.append) == {"t": "a"}
    assert agreed_topic_ids({"old.dlq": "b"}, {"t": "a"}, said.append) == {"t": "a", "old.dlq": "b"}
    assert said == []
    assert open_endpoint("some/folder").identity() == ""
    assert Endpoint.identity(open_endpoint("kafka://b:1/t")) == ""


@pytest.mark.parametrize(
    ("now", "refused"), [({"raw": "a"}, False), ({"raw": ""}, False), ({"raw": "b"}, True), ({}, True)]
)
def test_a_source_is_compared_before_each_batch(now: Mapping[str, str], refused: bool) -> None:
    source = SameTopic(Cluster(**now), ADDRESS, "a", 1.0)  # type: ignore[arg-type]  # a stand-in
    if not refused:
        source.check()
        return
    with pytest.raises(DataError, match="recreated"):
        source.check()


@pytest.mark.parametrize("topic", ["t", "t.dlq"])
def test_targets_are_compared_before_each_batch(topic: str) -> None:
    ids = {"t": "a", "t.dlq": "b"}

    def checked(now: Mapping[str, str], on_poison: Any = "dlq") -> None:
        cluster: Any = Cluster(**now)
        Topics(cluster, {"s": "t"}, "t.dlq", {"t": 2}, ids, 2, 0, True, "stop", on_poison, 1.0).check_same()

    checked(ids)
    for now in ({**ids, topic: "other"}, {name: id_ for name, id_ in ids.items() if name != topic}):
        with pytest.raises(TargetError, match=f"topic {topic} was deleted"):
            checked(now)
    checked({"t": "a"}, on_poison="stop")


@pytest.mark.parametrize("gone", ["t", "t.dlq"])
def test_a_topic_that_was_deleted_is_not_created_again(gone: str, contract: Any) -> None:
    orders, ids = contract(), {"t": "a", "t.dlq": "b"}
    head = RouteHead("orders", 1, "f", "/in", "kafka://b:1/t", {"t": 2}, topic_ids=ids)
    left: Any = Cluster(**{name: id_ for name, id_ in ids.items() if name != gone})
    with pytest.raises(TargetError, match=f"topic {gone} was deleted since the route began"):
        agreed_lanes(left, orders, parse_address("kafka://b:1/t"), StreamOptions(create=True), None, head)


def test_heads_keep_ids_and_take_those_that_were_not_known(tmp_path: Path) -> None:
    head = Head("orders", 1, "f" * 64, {"orders": 2}, "kafka://b:1/raw", "kafka", "", "")
    known = Head("orders", 1, "f" * 64, {"orders": 2}, "kafka://b:1/raw", "kafka", "", "a")
    for one in (head, known, known):
        with open_target(tmp_path / "folder", one) as target:
            assert read_head(tmp_path / "folder") == one
            if target.latest() is None:
                target.commit(replace(Manifest.before_all(head), batch=0))
    with pytest.raises(TargetError, match="source_id: a here,  given"), open_target(tmp_path / "folder", head):
        pass
    route = RouteHead("orders", 1, "f", "kafka://b:1/raw", "kafka://b:1/t", {"t": 2})
    with open_state(tmp_path / "state", route) as state:
        first = state.head
    later = RouteHead(
        "orders", 1, "f", "kafka://b:1/raw", "kafka://b:1/t", {"t": 2}, source_id="a", topic_ids={"t": "b"}
    )
    with open_state(tmp_path / "state", later) as state:
        assert (state.head.route, state.head.source_id, state.head.topic_ids) == (first.route, "a", {"t": "b"})
    assert read_route_head(tmp_path / "state") == state.head


class Described:
    """What an admin client answers for a topic."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def result(self, _seconds: float) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self

    @property
    def topic_id(self) -> Any:
        return self.answer

    partitions = (0, 1, 2)


class Admin:
    """Answers with ids and errors."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Described]:
        assert request_timeout > 0
        del topics
        return {topic: Described(answer) for topic, answer in self.answers.items()}


def test_ids_are_read_off_and_zeros_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    gone = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    admin = Admin(new=Uuid(1, -1), old=Uuid(0, 0), gone=gone)
    cluster = KafkaCluster(kafka_access("127.0.0.1:1"), admin, Listener())
    assert cluster.topic_ids(["new", "old", "gone"]) == {"new": "0000000000000001" + "f" * 16, "old": ""}
    assert cluster.topics_now(["old"])["old"] == ("", 3)


@pytest.mark.parametrize(("id_", "same"), [("x1", True), ("x2", False), ("", False)])
def test_a_folder_goes_on_with_the_source_that_moved(id_: str, same: bool) -> None:
    """One name and one id behind other brokers is one topic; without the id nobody knows."""
    here = Head("orders", 1, "f", {"s": 2}, "kafka://b1:9092/raw", "kafka", "", "x1")
    assert here.agrees(replace(here, source="kafka://b2:9092/raw", source_id=id_)) is same
    assert not here.agrees(replace(here, source="kafka://b2:9092/other"))


@pytest.mark.parametrize(("ids", "same"), [({"t": "x1"}, True), ({"t": "x2"}, False), ({}, False)])
def test_a_state_goes_on_with_a_target_that_moved(ids: dict[str, str], same: bool) -> None:
    here = RouteHead("orders", 1, "f", "in", "kafka://b1:9092/t", {"t": 2}, topic_ids={"t": "x1"})
    there = replace(here, target="kafka://b2:9092/t", topic_ids=ids)
    assert (here.differences(there) == []) is same

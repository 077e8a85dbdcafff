"""A plan as a file: read back as it was, refused when it is none, and refused when it no longer fits."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.brokers.example_clusters import lane, layout, on_two_brokers

from keylane.brokers.layout import Broker, Layout
from keylane.brokers.plan_file import UnderWay, completed, document_of, obstacle, read_plan, still_to_start
from keylane.brokers.rebalance import reassignment
from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

FOUND = on_two_brokers()
CHANGE = reassignment(FOUND)


def moving(count: int) -> dict[tuple[str, int], UnderWay]:
    """The first moves of the change, under way."""
    return {move.place: UnderWay(frozenset(move.replicas), move.added, ()) for move in CHANGE.moves[:count]}


def moved(count: int) -> Layout:
    """The layout after the first moves of the change."""
    to = {move.place: move.replicas for move in CHANGE.moves[:count]}
    lanes = [replace(one, replicas=to.get(one.place, one.replicas)) for one in FOUND.lanes]
    return Layout(FOUND.brokers, tuple(lanes))


def test_a_plan_is_read_back_as_it_was_written() -> None:
    document = json.loads(json.dumps(document_of(CHANGE, "kafka://b:1")))
    assert completed(read_plan(document), FOUND) == CHANGE


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([], id="a list"),
        pytest.param({"version": 1, "partitions": []}, id="the file for Kafka's tool"),
        pytest.param({**document_of(CHANGE, "c"), "schema": "keylane.brokers-plan/2"}, id="a later form"),
        pytest.param({**document_of(CHANGE, "c"), "moves": [{"topic": "t"}]}, id="a move without its lists"),
        pytest.param({**document_of(CHANGE, "c"), "moves": None}, id="no moves at all"),
        pytest.param({**document_of(CHANGE, "c"), "brokers": [1]}, id="brokers as numbers"),
    ],
)
def test_what_is_no_plan_is_refused(document: Any) -> None:
    with pytest.raises(UsageError, match="plan of keylane brokers"):
        read_plan(document)


@pytest.mark.parametrize("replicas", [[], [1, 1]], ids=["none", "a broker twice"])
def test_a_replica_list_that_kafka_would_not_take_is_refused(replicas: list[int]) -> None:
    document = document_of(CHANGE, "c")
    document["moves"][0]["replicas"] = replicas
    with pytest.raises(UsageError, match="damaged"):
        read_plan(document)


@pytest.mark.parametrize("done", [0, 1, 2, len(CHANGE.moves)])
def test_a_plan_fits_before_it_is_begun_and_when_a_part_of_it_is_done_or_under_way(done: int) -> None:
    assert obstacle(CHANGE, moved(done), {}) is None
    assert still_to_start(CHANGE, moved(done), {}) == list(CHANGE.moves[done:])
    assert obstacle(CHANGE, FOUND, moving(done)) is None
    assert still_to_start(CHANGE, FOUND, moving(done)) == list(CHANGE.moves[done:])


def with_lane() -> Layout:
    return Layout(FOUND.brokers, (*FOUND.lanes, lane(6, 3)))


def with_another_order() -> Layout:
    return Layout(FOUND.brokers, (replace(FOUND.lanes[0], replicas=(2, 1)), *FOUND.lanes[1:]))


def with_another_broker() -> Layout:
    return Layout((*FOUND.brokers, Broker(4)), FOUND.lanes)


@pytest.mark.parametrize("change", [with_lane, with_another_order, with_another_broker])
def test_a_cluster_that_has_changed_is_an_obstacle(change: Callable[[], Layout]) -> None:
    assert "has changed" in str(obstacle(CHANGE, change(), {}))


def test_somebody_elses_reassignment_is_an_obstacle_also_of_a_lane_of_ours() -> None:
    other = UnderWay(frozenset({1}), (), (2,))
    assert str(obstacle(CHANGE, FOUND, {("u", 0): other})).endswith("reassignment is under way: u-0")
    assert str(obstacle(CHANGE, FOUND, {CHANGE.moves[0].place: other})).endswith(": t-0")
    many = {("u", p): other for p in range(5)}
    assert str(obstacle(CHANGE, FOUND, many)).endswith(": u-0, u-1, u-2 and 2 more")


def test_a_broker_that_does_not_answer_is_an_obstacle() -> None:
    gone = layout(*FOUND.lanes, brokers=2)
    assert re.search(r"brokers .*: 3$", str(obstacle(CHANGE, gone, {})))

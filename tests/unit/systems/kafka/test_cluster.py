"""How long a topic is looked for: those that were made just now are found, and missing ones are waited for together."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from keylane.errors import BrokerError
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import (
    FIRST_SECONDS,
    PAUSES,
    TURN_SECONDS,
    KafkaCluster,
    Listener,
    open_cluster,
)


class Admin:
    """A cluster that knows a topic from the question of some number on: 1 is the first, 0 is never."""

    def __init__(self, **known: int) -> None:
        self.known, self.asked = known, dict.fromkeys(known, 0)

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        self.asked[topic] += 1
        there = 0 < self.known[topic] <= self.asked[topic]
        unknown = SimpleNamespace(name=lambda: "UNKNOWN_TOPIC_OR_PART")
        told = SimpleNamespace(error=None if there else unknown, partitions=range(3 if there else 0))
        return SimpleNamespace(topics={topic: told})


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made; none of them takes time."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def lanes(admin: Admin) -> dict[str, int]:
    return KafkaCluster(kafka_access("127.0.0.1:1"), admin, Listener()).lanes(list(admin.known))


def test_topics_that_are_there_are_not_waited_for(slept: list[float]) -> None:
    assert lanes(Admin(a=1, b=1)) == {"a": 3, "b": 3}
    assert slept == []


def test_a_topic_that_was_made_just_now_is_found_with_the_last_question(slept: list[float]) -> None:
    admin = Admin(a=1, new=len(PAUSES) + 1)
    assert lanes(admin) == {"a": 3, "new": 3}
    assert admin.asked["a"] == 1
    assert lanes(Admin(late=len(PAUSES) + 2)) == {"late": 0}


def test_several_that_are_missing_are_waited_for_together(slept: list[float]) -> None:
    assert lanes(Admin(a=0, b=0, c=0)) == {"a": 0, "b": 0, "c": 0}
    assert slept == list(PAUSES)


def test_the_first_answer_is_waited_for_less_than_a_later_one() -> None:
    """A socket that accepts and says nothing: the worst of brokers that are down."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with open_cluster(kafka_access(f"127.0.0.1:{silent.getsockname()[1]}")) as cluster:
            waited = {}
            for answered, most in ((False, 0.5), (True, 3.0)):
                cluster.listener.answered = answered
                with pytest.MonkeyPatch.context() as patched:
                    for name, seconds in (("FIRST_SECONDS", 0.5), ("ANSWER_SECONDS", 3.0), ("TURN_SECONDS", 0.2)):
                        patched.setattr(f"keylane.systems.kafka.cluster.{name}", seconds)
                    began = time.monotonic()
                    with pytest.raises(BrokerError, match="no broker answers"):
                        cluster.reached()
                    waited[most] = time.monotonic() - began
    assert waited[0.5] < waited[3.0]
    assert waited[3.0] >= 3.0
    assert FIRST_SECONDS + 2 * TURN_SECONDS <= 10

"""The settings of a topic: a cluster that refuses to report them is not one that cannot be asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from keylane.errors import BrokerError
from keylane.systems.kafka.cluster import KafkaCluster


def cluster(answer: Exception | dict[str, Any]) -> KafkaCluster:
    """A cluster whose admin client answers so."""

    def result(_seconds: float) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    out = KafkaCluster.__new__(KafkaCluster)
    admin = SimpleNamespace(describe_configs=lambda asked: {asked[0]: SimpleNamespace(result=result)})
    object.__setattr__(out, "admin", admin)
    return out


def test_a_compacted_topic_is_known() -> None:
    assert cluster({"cleanup.policy": SimpleNamespace(value="compact,delete")}).is_compacted("t")


def test_a_right_that_is_not_given_is_no_policy() -> None:
    refused = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert not cluster(refused).is_compacted("t")


@pytest.mark.parametrize(
    "error", [TimeoutError(), KafkaException(KafkaError(KafkaError._TIMED_OUT))], ids=["future", "client"]
)
def test_a_cluster_that_cannot_be_asked_is_an_error_and_not_a_policy(error: Exception) -> None:
    with pytest.raises(BrokerError, match="t"):
        cluster(error).is_compacted("t")
    assert cluster(error).topic_settings("t") == {}

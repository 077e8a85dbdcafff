"""Whether a node answers: it lists every broker of its cluster, asked on its own port. Needs the extra `kafka`.

One question to all ports at once would be answered by any node, and hide a dead one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from keylane.errors import BrokerError, MissingExtraError
from keylane.systems.broker.layout import HOST
from keylane.systems.broker.nodes import last_words, process_of
from keylane.systems.broker.tls import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.systems.broker.layout import Cluster

__all__ = ["admin_client", "answers", "brokers_at", "wait_until_ready"]


def admin_client(settings: dict[str, str]) -> Any:
    """confluent-kafka's, which says nothing on stderr while nobody answers yet."""
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise MissingExtraError.named("kafka", "confluent-kafka") from None
    quiet: dict[str, Any] = {"log_level": 0, "error_cb": _unheard}
    return AdminClient({"reconnect.backoff.max.ms": "200", **settings, **quiet})


def _unheard(_error: object) -> None:
    """Whoever asked sees that there is no answer."""


def brokers_at(settings: dict[str, str], seconds: float) -> int | None:
    """How many brokers are listed there; None when nobody answers in time."""
    client = admin_client(settings)
    from confluent_kafka import KafkaException

    try:
        return len(client.list_topics(timeout=seconds).brokers)
    except KafkaException:
        return None


def answers(cluster: Cluster, number: int, seconds: float = 2.0) -> bool:
    """Whether a node answers at all."""
    return bool(brokers_at(_own_settings(cluster, number), seconds))


def _own_settings(cluster: Cluster, number: int) -> dict[str, str]:
    return {**librdkafka_settings(cluster), "bootstrap.servers": f"{HOST}:{cluster.node(number).port}"}


def wait_until_ready(cluster: Cluster, numbers: Sequence[int], seconds: float) -> None:
    """Return when each of these nodes lists them all; an error when one ends before, or the time does."""
    until = time.monotonic() + seconds
    for number in numbers:
        settings = _own_settings(cluster, number)
        while (brokers_at(settings, 1.0) or 0) < len(numbers):
            _check_alive(cluster, numbers)
            if time.monotonic() > until:
                raise BrokerError(f"node {number} gave no answer in {seconds:.0f} s: {last_words(cluster, number)}")
            time.sleep(0.1)


def _check_alive(cluster: Cluster, numbers: Sequence[int]) -> None:
    for number in numbers:
        if process_of(cluster, number) is None:
            raise BrokerError(f"node {number} ended while it started: {last_words(cluster, number)}")

"""A broker without a cluster: librdkafka's own, in this process, with topics of four partitions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

with warnings.catch_warnings():
    # kafka-python reads its schemas by a deprecated name of importlib's, which warns as importlib: once, here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401  only whether it is installed


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """The address of a mock cluster that lives as long as the tests."""
    owner = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 1, "log_level": 0})
    (one,) = owner.list_topics("t", timeout=10).brokers.values()
    yield f"{one.host}:{one.port}"
    owner.flush(1)

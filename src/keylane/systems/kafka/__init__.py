"""Kafka: clusters, topics and producers. The only package that imports its clients.

    endpoint   what an address of a topic opens to
    access     client properties, checked, and passwords by reference only
    cluster    topics, partitions, offsets: what a cluster answers
    topics     the topics of a route and their lane counts; limits: what they take of a record
    reader     records of a topic without Spark
    frames     a topic on Spark
    session    a Spark session that can log in to a cluster
    follow     a topic as the source of a route; target: as its target
    stream     a topic as `verify` reads it; data: as `identify`, `check` and `profile` do
    progress   how far it has come, kept in the cluster
    producers  a contract in confluent-kafka and kafka-python
    transactions  the batches of a pipeline, each one transaction; query_topic: a registry of standing queries
    owner      a consumer that owns its lanes for life, with snapshots; owner_writers: what it writes, behind a fence
    owner_terms  the headers that say which owner wrote a record, and the filter of readers
    load       a producer and a consumer group that measure themselves, for `demo lesson`
    growing    live producers and a live reader of a topic that grows, for `demo migrate`
    migration  a topic that changes its lanes, and a journal in a topic; migration_clients: producers and readers by it
    measured   what a topic holds, for what a migration costs
    reassign   what brokers carry, and moving it
    group      a live consumer group, read; group_assignor: keylane's assignors inside one

What it shares with other systems of messages: `systems.messages`.

The public names are those of `producers`, what an owner of lanes is made of, and what goes through a migration.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keylane.systems.kafka.access import kafka_access
    from keylane.systems.kafka.migration_clients import GatedConsumer, MigratingProducer, spark_offsets
    from keylane.systems.kafka.owner import InputRecord, JsonStep, LaneOwner, LaneStep, OutputRecord, OwnerPlan
    from keylane.systems.kafka.owner_terms import TermFilter
    from keylane.systems.kafka.producers import (
        PRODUCER_SETTINGS,
        KafkaPythonProducer,
        KeyedProducer,
        LanePartitioner,
        kafka_python_partitioner,
        kafka_python_settings,
        producer_settings,
    )

__all__ = [
    "PRODUCER_SETTINGS",
    "GatedConsumer",
    "InputRecord",
    "JsonStep",
    "KafkaPythonProducer",
    "KeyedProducer",
    "LaneOwner",
    "LanePartitioner",
    "LaneStep",
    "MigratingProducer",
    "OutputRecord",
    "OwnerPlan",
    "TermFilter",
    "kafka_access",
    "kafka_python_partitioner",
    "kafka_python_settings",
    "producer_settings",
    "spark_offsets",
]

_HOME = {
    "TermFilter": "owner_terms",
    "kafka_access": "access",
    **dict.fromkeys(("GatedConsumer", "MigratingProducer", "spark_offsets"), "migration_clients"),
    **dict.fromkeys(("InputRecord", "JsonStep", "LaneOwner", "OutputRecord", "OwnerPlan", "LaneStep"), "owner"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"keylane.systems.kafka.{_HOME.get(name, 'producers')}"), name)

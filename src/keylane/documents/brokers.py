"""The documents of `keylane brokers` and `keylane brokers --status`. Made by `cli.brokers`.

The file of a plan is another thing, that is read again: `brokers.plan_file`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Digest, Document, Number, Text

Topic = Annotated[str, Field(min_length=1, max_length=249)]
ClusterAddress = Annotated[str, Field(json_schema_extra={"pattern": "^kafka://"})]
Replicas = Annotated[list[Count], Field(min_length=1, json_schema_extra={"uniqueItems": True})]

_RULES: list[Any] = [
    {
        "if": {"properties": {"ok": {"const": True}}},
        "then": {"properties": {"findings": {"maxItems": 0}}},
        "else": {"properties": {"findings": {"minItems": 1}}},
    },
    {
        "if": {"properties": {"plan": {"type": "null"}}},
        "then": {"properties": {"files": {"type": "null"}, "applied": {"type": "null"}}},
    },
]


class BrokerSpread(Document):
    """How evenly something is divided among brokers."""

    total: Count
    max: Count
    min: Count
    max_over_min: Annotated[Number, Field(ge=1)] | None = Field(description="Null when a broker has none.")
    max_over_mean: AtLeastZero
    even: bool = Field(description="At most the alert, or one apart.")


class BrokerLoad(Document):
    """One broker."""

    broker: Count
    rack: str | None
    replicas: Count
    leaders: Count
    bytes: Count | None
    receives: Count | None
    sends: Count | None
    replicas_after: Count
    leaders_after: Count


class MovedLane(Document):
    """A lane with another replica list."""

    topic: Topic
    partition: Count
    before: Replicas
    replicas: Replicas


class BrokerElection(Document):
    """A lane whose preferred leader is to be elected."""

    topic: Topic
    partition: Count


class BrokersPlan(Document):
    """What is proposed, or was carried out."""

    partitions: list[MovedLane]
    elections: list[BrokerElection]
    moved_replicas: Count
    leader_changes: Count
    moved_bytes: Count | None
    throttle: AtLeastOne | None
    seconds: AtLeastZero | None
    replicas: BrokerSpread = Field(description="Replicas per broker afterwards.")
    leaders: BrokerSpread = Field(description="Leaders per broker afterwards.")


class BrokersFiles(Document):
    """What was written."""

    reassignment: str | None
    rollback: str | None
    plan: str


class AppliedChange(Document):
    """What was done."""

    lanes: Count
    elected: Count
    not_elected: Count
    seconds: AtLeastZero


class BrokersDocument(Document):
    """What each broker of a Kafka cluster carries, and a reassignment that evens it out."""

    model_config = ConfigDict(title="keylane brokers -o json", json_schema_extra={"allOf": _RULES})

    schema_: Literal["keylane.brokers/1"] = "keylane.brokers/1"
    cluster: ClusterAddress
    fingerprint: Digest = Field(description="Of brokers, racks and replica lists: what a plan is bound to.")
    ok: bool = Field(description="Whether there is no finding.")
    alert: Annotated[Number, Field(gt=1)]
    limit: AtLeastOne
    lanes: Count
    replicas: BrokerSpread = Field(description="Replicas per broker.")
    leaders: BrokerSpread = Field(description="Leaders per broker.")
    under_replicated: Count
    offline: Count
    below_min_isr: Count | None = Field(description="Null when no topic says its minimum.")
    rack_violations: Count | None = Field(description="Null when a broker says no rack.")
    not_preferred: Count
    over_limit: list[Count]
    under_way: Count
    brokers: list[BrokerLoad] = Field(min_length=1)
    findings: list[Text]
    plan: BrokersPlan | None
    files: BrokersFiles | None
    applied: AppliedChange | None


class MovingLane(Document):
    """A lane that is being moved."""

    topic: Topic
    partition: Count
    adding: list[Count]
    removing: list[Count]


class ThrottleSetting(Document):
    """A setting."""

    kind: Literal["broker", "topic"]
    name: str
    setting: Annotated[str, Field(pattern=r"^(leader|follower)\.replication\.throttled\.(rate|replicas)$")]
    value: str


class BrokersStatusDocument(Document):
    """Reassignments that a Kafka cluster is busy with, and throttles of replication that are set."""

    model_config = ConfigDict(title="keylane brokers --status -o json")

    schema_: Literal["keylane.brokers-status/1"] = "keylane.brokers-status/1"
    cluster: ClusterAddress
    under_way: list[MovingLane]
    throttles: list[ThrottleSetting]

"""Limits of brokers and services, as data with their names. Whom they are asked for: `sizing`.

A limit that counts replicas is held against lanes times the replication factor. Rules of thumb are what practice
found, not what a broker refuses. Services change their limits: the year stands in `AS_OF`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, Literal, TypeAlias

from keylane.errors import UnknownNameError

__all__ = ["AS_OF", "LIMITS", "Counts", "Limit", "LimitCheck", "Scope", "check", "limits_of", "services"]

AS_OF: Final = 2026

Scope: TypeAlias = Literal["lane", "broker", "cluster"]
Counts: TypeAlias = Literal["replicas", "lanes", "brokers", "MB/s in", "MB/s out", "records/s in"]
Kind: TypeAlias = Literal["rule of thumb", "recommended", "maximum"]


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `most` of what it `counts`, in each lane, on each broker or in the cluster."""

    service: str
    name: str
    scope: Scope
    counts: Counts
    most: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """A limit and what the answer would make of it; `would_be` is None when the brokers are not counted."""

    limit: Limit
    would_be: float | None
    broken: bool
    says: str


def _msk(service: str, name: str, recommended: int, maximum: int) -> list[Limit]:
    return [
        Limit(service, f"{name}, recommended", "broker", "replicas", recommended, "recommended"),
        Limit(service, f"{name}, maximum for updates", "broker", "replicas", maximum, "maximum"),
        Limit(service, "Amazon MSK Standard, brokers (KRaft)", "cluster", "brokers", 60, "maximum"),
    ]


LIMITS: Final[tuple[Limit, ...]] = (
    Limit("kafka", "Kafka, partitions per broker", "broker", "replicas", 4_000, "rule of thumb"),
    Limit("kafka", "Kafka, partitions per cluster", "cluster", "replicas", 200_000, "rule of thumb"),
    Limit("kafka", "Cruise Control's default, replicas per broker", "broker", "replicas", 10_000, "rule of thumb"),
    Limit("kafka", "Linux, 65,535 map areas, two a replica", "broker", "replicas", 32_767, "maximum"),
    *_msk("msk-t3.small", "Amazon MSK Standard t3.small", 300, 300),
    *_msk("msk-large", "Amazon MSK Standard .large", 1_000, 1_500),
    *_msk("msk-xlarge", "Amazon MSK Standard .xlarge", 1_000, 1_500),
    *_msk("msk-2xlarge", "Amazon MSK Standard .2xlarge", 2_000, 3_000),
    *_msk("msk-4xlarge", "Amazon MSK Standard .4xlarge and up", 4_000, 6_000),
    Limit("msk-express-m7g.large", "Amazon MSK Express m7g.large, in", "broker", "MB/s in", 15, "maximum"),
    Limit("msk-express-m7g.large", "Amazon MSK Express m7g.large, out", "broker", "MB/s out", 30, "maximum"),
    Limit("confluent-basic", "Confluent Cloud Basic", "cluster", "lanes", 4_096, "maximum"),
    Limit("confluent-standard", "Confluent Cloud Standard", "cluster", "lanes", 4_096, "maximum"),
    Limit("confluent-enterprise", "Confluent Cloud Enterprise", "cluster", "lanes", 30_000, "maximum"),
    Limit("confluent-dedicated", "Confluent Cloud Dedicated", "cluster", "lanes", 100_000, "maximum"),
    Limit("kinesis", "Kinesis shard, in", "lane", "MB/s in", 1, "maximum"),
    Limit("kinesis", "Kinesis shard, records in", "lane", "records/s in", 1_000, "maximum"),
    Limit("kinesis", "Kinesis shard, out", "lane", "MB/s out", 2, "maximum"),
)


def services() -> tuple[str, ...]:
    """The services whose limits are known.

    >>> services()[:3]
    ('kafka', 'msk-t3.small', 'msk-large')
    """
    return tuple(dict.fromkeys(limit.service for limit in LIMITS))


def limits_of(service: str) -> tuple[Limit, ...]:
    """The limits of one service."""
    found = tuple(limit for limit in LIMITS if limit.service == service)
    if not found:
        raise UnknownNameError.among("service", service, services())
    return found


def check(limit: Limit, whole: float, even_lanes: float, brokers: int | None) -> LimitCheck:
    """Hold a limit against what the whole stream brings; `even_lanes` is the lane count over max/mean.

    >>> check(limits_of("msk-large")[0], 4_608, 512, 3).says
    'Amazon MSK Standard .large, recommended: 1536 of 1000 replicas a broker (recommended): too many'
    """
    if limit.scope == "broker" and brokers is None:
        least = ceil(whole / limit.most)
        return LimitCheck(limit, None, broken=False, says=f"{limit.name}: needs {least} broker(s) or more")
    would_be = whole / {"lane": even_lanes, "broker": brokers or 1, "cluster": 1}[limit.scope]
    broken = would_be > limit.most * (1 + 1e-9)
    text = f"{limit.name}: {would_be:.4g} of {limit.most:g} {limit.counts} a {limit.scope} ({limit.kind})"
    return LimitCheck(limit, would_be, broken, f"{text}{': too many' * broken}")

"""What may be set about a route from or into Kafka. Each option is described in docs/kafka.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from keylane.pipelines.context import Say
    from keylane.pipelines.route.files import Done
    from keylane.systems.folders.folder import Probe

__all__ = ["Delivery", "KafkaOptions", "OnGrowth", "OnPoison", "Running"]

Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]
OnPoison: TypeAlias = Literal["dlq", "stop", "dlq-and-park-key"]
OnGrowth: TypeAlias = Literal["stop", "keep"]


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """How a route reads from Kafka and writes to it.

    `properties` are client properties (`systems.kafka.access`); `state` is the folder of a route into Kafka; `start` is
    where a new route begins to read; `max_records` bounds a batch. `dead_letters` is a topic, `<topic>.dlq` when it is
    not given. `value` says how values are written, where the contract needs a field of them, `value_schema` is the
    file of its schema, and `message` the name in it. `jars` and `packages` say where Spark's connector is.
    """

    properties: tuple[tuple[str, str], ...] = ()
    state: str | None = None
    delivery: Delivery = "exactly-once"
    start: str = "earliest"
    max_records: int = 1_000_000
    writers: int | None = None
    dead_letters: str | None = None
    on_poison: OnPoison = "dlq"
    on_growth: OnGrowth = "stop"
    create: bool = False
    try_seconds: float = 600.0
    value: str | None = None
    value_schema: str | None = None
    message: str | None = None
    jars: str | None = None
    packages: str | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """How a route is run and who is told of it: the arguments of `route.route` that are not about records."""

    follow: bool
    spark: SparkSession | None
    stop_asked: threading.Event | None
    ready: Callable[[], None]
    tell: Callable[[Done], None]
    say: Say
    probe: Probe

"""`route` into Kafka: from a topic or from files, each record in its lane, exactly once for readers at `read_committed`.

    Spark's connector      says which records make a batch, and remembers it (its checkpoint)
    spark.messages         records -> messages with the fields a contract needs -> lanes
    systems.kafka_state    what a batch is, written down before it begins
    systems.kafka_writer   lanes -> one transaction for each writer, with the number of the batch in it

A folder as a target: `route`. One batch: `kafka_batch`. What is promised, and what is not: docs/kafka.md.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.errors import LaneCountError, TargetError, UsageError
from keylane.pipelines.batch import query_id, translated
from keylane.pipelines.kafka_batch import KafkaBatches, Sink
from keylane.pipelines.kafka_sources import KafkaSource
from keylane.router import Router
from keylane.spark.frames import needed
from keylane.spark.stopping import Gate
from keylane.systems.kafka_access import kafka_access
from keylane.systems.kafka_cluster import open_cluster
from keylane.systems.kafka_state import RouteHead, open_state, state_name

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.batch import Done
    from keylane.systems.address import Address
    from keylane.systems.folders import Probe
    from keylane.systems.kafka_access import KafkaAccess
    from keylane.systems.kafka_cluster import Cluster
    from keylane.systems.kafka_state import RouteState

__all__ = ["KafkaOptions"]

LOGIN: Final = "java.security.auth.login.config"
#: Writers for each core: one that waits for its commit leaves the core to another.
WRITERS_A_CORE: Final = 2


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """What may be said about a route from or into Kafka; docs/kafka.md describes each."""

    properties: tuple[tuple[str, str], ...] = ()
    state: str | None = None
    delivery: str = "exactly-once"
    start: str = "earliest"
    max_records: int = 1_000_000
    writers: int | None = None
    dead_letters: str | None = None
    on_poison: str = "dlq"
    on_growth: str = "stop"
    create: bool = False
    try_seconds: float = 600.0


def into_kafka(
    contract: Contract,
    source: Address,
    target: Address,
    given: Any,
    *,
    follow: bool,
    spark: SparkSession | None,
    stop_asked: threading.Event | None,
    ready: Callable[[], None],
    tell: Callable[[Done], None],
    probe: Probe,
) -> Any:
    """Route into a topic; arguments as `route.route`."""
    from keylane.pipelines import route as folders

    said: KafkaOptions = given.kafka
    access = kafka_access(target.place, said.properties)
    _check_addresses(source, target)
    path = Path(said.state or Path("keylane-state") / state_name(contract.metadata.name, str(target))).absolute()
    with open_cluster(access) as cluster:
        router, head = _agreed(contract, source, target, given, cluster, path)
        with open_state(path, head) as state:
            before = state.last()
            _check_checkpoint(state, before.batch, before.query)
            session = folders._private(spark or folders._session(_with_connector(given)))
            state.lock.note_java(folders._java(session))
            with _login(session, access):
                origin = _source(session, router, source, access.at(source.place), given)
                sink = _sink(session, router, target, access, said)
                body = KafkaBatches(router, origin, sink, state, cluster, before, probe, tell, stop_asked)
                ready()
                stopped = folders._run(origin.stream(), Gate(body), state, given, follow, stop_asked)
            after = body.last
            lanes = {
                topic: [now - then for now, then in zip(after.lanes[topic], before.lanes[topic], strict=True)]
                for topic in after.lanes
            }
            counts = (after.total - before.total).checked("this run")
            return folders.Routed(
                str(source), str(target), counts, after.total, lanes, after.batch - before.batch, stopped
            )


def _check_addresses(source: Address, target: Address) -> None:
    if (source.system, source.name) == (target.system, target.name) and source.place == target.place:
        raise UsageError.of("source and target are one topic", got=str(source))


def _agreed(
    contract: Contract, source: Address, target: Address, given: Any, cluster: Cluster, path: Path
) -> tuple[Router, RouteHead]:
    """The lane counts that this route goes by: those it began with, or for a new one those of the topics now."""
    from keylane.systems.kafka_state import read_head

    said: KafkaOptions = given.kafka
    known = read_head(path)
    dead = said.dead_letters or f"{target.name}.dlq"
    tiers = {rule.tier.stream: rule.tier.lanes for rule in contract.spec.hot_keys if rule.tier}
    promised = contract.spec.lanes if contract.spec.lanes != "live" else given.lanes
    if known is not None and contract.spec.lanes == "live":
        promised = known.topics[target.name]
    wanted: dict[str, int | None] = {target.name: promised, **tiers, dead: known.topics[dead] if known else None}
    topics = _topics(cluster, wanted, dead, said, create_lanes={dead: 1})
    lanes = topics[target.name] if contract.spec.lanes == "live" else None
    router = Router(contract, lanes=lanes, stream=given.stream)
    meta = contract.metadata
    head = RouteHead(meta.name, meta.epoch, contract.fingerprint, str(source), str(target), topics)
    return router, head


def _topics(
    cluster: Cluster, wanted: dict[str, int | None], dead: str, said: KafkaOptions, create_lanes: dict[str, int]
) -> dict[str, int]:
    """The lanes of each topic: as promised where something is, else as they are. Missing ones are made if asked for."""
    found = cluster.lanes(list(wanted))
    for topic, promised in wanted.items():
        if not found[topic]:
            found[topic] = _created(cluster, topic, promised or create_lanes.get(topic), said)
        fits = (
            found[topic] >= (promised or 0) if said.on_growth == "keep" or topic == dead else found[topic] == promised
        )
        if promised is not None and not fits:
            raise LaneCountError.of(
                f"{topic} has another lane count than the contract",
                got=found[topic],
                allowed=str(promised),
                hint="a new epoch of the contract; or, where the topic has more, --on-growth keep",
            )
    return {topic: promised or found[topic] for topic, promised in wanted.items()}


def _created(cluster: Cluster, topic: str, lanes: int | None, said: KafkaOptions) -> int:
    if not said.create or lanes is None:
        hint = "--create" if lanes is not None else "--create with --lanes N"
        raise TargetError.of(f"no such topic at {cluster.access.brokers}", got=topic, hint=f"make it first, or {hint}")
    cluster.create(topic, lanes)
    return lanes


def _check_checkpoint(state: RouteState, batch: int, query: str) -> None:
    """A route that has written records needs the checkpoint that says which."""
    found = query_id(state.checkpoint)
    if batch >= 0 and found != query:
        raise TargetError.of(
            "the route has written records, but the Spark checkpoint that says which is not here",
            got=found or f"no checkpoint in {state.checkpoint}",
            allowed=query,
            hint="restore the checkpoint folder; a new route with --start would begin elsewhere",
        )
    if not found and (state.checkpoint / "offsets").exists():
        raise TargetError.of("the Spark checkpoint is damaged: its metadata is gone", got=str(state.checkpoint))


def _with_connector(given: Any) -> Any:
    """The options, with Spark's Kafka connector among its jars."""
    from dataclasses import replace

    if {"spark.jars", "spark.jars.packages"} & set(given.conf):
        return given
    from keylane.systems.jars import connector_settings

    return replace(given, conf={**given.conf, **connector_settings()})


def _source(spark: SparkSession, router: Router, source: Address, access: KafkaAccess, given: Any) -> Any:
    said: KafkaOptions = given.kafka
    fields: dict[str, Column] = {name: F.col(name) for name in needed(router.contract)}
    return KafkaSource(spark, access, source.name, fields, None, said.start, said.max_records)


def _sink(spark: SparkSession, router: Router, target: Address, access: KafkaAccess, said: KafkaOptions) -> Sink:
    tiers = {rule.tier.stream: rule.tier.stream for rule in router.contract.spec.hot_keys if rule.tier}
    writers = said.writers or WRITERS_A_CORE * spark.sparkContext.defaultParallelism
    return Sink(
        access,
        {router.stream: target.name, **tiers},
        said.dead_letters or f"{target.name}.dlq",
        writers,
        said.delivery == "exactly-once",
        said.on_growth,
        said.try_seconds,
    )


@contextmanager
def _login(spark: SparkSession, access: KafkaAccess) -> Iterator[None]:
    """Let Java's clients log in, by a file that only this user can read and that is gone afterwards."""
    text = access.jaas()
    if text is None:
        yield
        return
    java: Any = spark.sparkContext._jvm  # noqa: SLF001
    handle, name = tempfile.mkstemp(prefix="keylane-login-")
    try:
        os.write(handle, text.encode())
        os.close(handle)
        java.java.lang.System.setProperty(LOGIN, name)
        java.javax.security.auth.login.Configuration.setConfiguration(None)
        yield
    finally:
        Path(name).unlink(missing_ok=True)
        java.java.lang.System.clearProperty(LOGIN)


_ = translated

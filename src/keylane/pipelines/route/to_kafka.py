"""A route from or into Kafka, from its addresses to what it came to.

    Spark's connector      says which records make a batch, and remembers it (its checkpoint)
    spark.messages         records -> messages with the fields a contract needs -> lanes
    systems.kafka.state    what a batch is, written down before it begins
    writer                 lanes -> one transaction for each writer, with the number of the batch in it

From files into a folder: `keylane.pipelines.route.run`, which comes here when an address is Kafka's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.errors import CountError, UsageError
from keylane.pipelines.context import fetch_cells, java_process
from keylane.pipelines.route import run as files
from keylane.pipelines.route.files import Reading
from keylane.pipelines.route.kafka_batch import KafkaBatches
from keylane.pipelines.route.kafka_writer import session_with_login
from keylane.pipelines.route.sources import FileSource, KafkaSource, fields_of
from keylane.pipelines.route.to_folder import route_to_folder
from keylane.pipelines.route.topics import Topics, agreed_lanes, check_source, dead_topic
from keylane.router import Router
from keylane.spark.streaming import Gate
from keylane.systems.endpoint import path_of
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.state import RouteHead, open_state, read_head, state_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.route.options import KafkaOptions, Running
    from keylane.pipelines.route.run import Options, Routed
    from keylane.pipelines.route.sources import Source
    from keylane.systems.endpoint import Address
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import Cluster
    from keylane.systems.kafka.state import Done, RouteState

__all__ = ["route_kafka"]

#: Writers for each core: one that waits for its commit leaves the core to another.
WRITERS_A_CORE: Final = 2


def route_kafka(contract: Contract, source: Address, target: Address, given: Options, running: Running) -> Routed:
    """Route between topics, or between files and a topic; arguments as `route.route`."""
    for address in (source, target):
        if address.system == "kinesis":
            path_of(address, "a route")
    if target.system == "files":
        return route_to_folder(contract, source, target, given, running)
    if source == target:
        raise UsageError.of("source and target are one topic", got=str(source))
    access = kafka_access(target.authority, given.kafka.properties)
    if source.system == "kafka":
        check_source(access, source)
    path = _state_path(contract, target, given.kafka)
    with open_cluster(access) as cluster:
        known = read_head(path)
        lanes = agreed_lanes(cluster, contract, target, given.kafka, given.lanes, known)
        live = lanes[target.name] if contract.spec.lanes == "live" else None
        router = Router(contract, lanes=live, stream=given.stream)
        with open_state(path, _head(router, source, target, lanes, given)) as state:
            return _route(router, source, target, given, running, cluster, state)


def _route(
    router: Router,
    source: Address,
    target: Address,
    given: Options,
    running: Running,
    cluster: Cluster,
    state: RouteState,
) -> Routed:
    before = state.last()
    files.check_checkpoint(state.checkpoint, before)
    with session_with_login(given, running, cluster.access) as session:
        state.lock.note_java(java_process(session))
        if router.contract.spec.key.is_place:
            fetch_cells(session, running.say)
        origin = _source(session, router, source, cluster.access, given, state.head)
        topics = _topics(session, router, target, given.kafka, cluster, state.head)
        body = KafkaBatches(router, origin, topics, state, before, running, state.parked())
        running.ready()
        stopped = files.run_query(
            origin.stream(), Gate(body), state.checkpoint, given, running.follow, running.stop_asked
        )
    return _routed(source, target, before, body, stopped=stopped)


def _state_path(contract: Contract, target: Address, said: KafkaOptions) -> Path:
    return Path(said.state or Path("keylane-state") / state_name(contract.metadata.name, str(target))).absolute()


def _head(router: Router, source: Address, target: Address, lanes: dict[str, int], given: Options) -> RouteHead:
    contract, meta = router.contract, router.contract.metadata
    kind, pattern, came_from = "", "", str(source)
    if source.system == "files":
        folder = path_of(source, "the source")
        kind, pattern = files.kind_and_pattern(folder, Path("/nowhere"), given)
        came_from = str(folder)
    how = (kind, pattern, given.kafka.value or "")
    return RouteHead(meta.name, meta.epoch, contract.fingerprint, came_from, str(target), lanes, *how)


def _source(
    spark: SparkSession, router: Router, source: Address, access: KafkaAccess, given: Options, head: RouteHead
) -> Source:
    contract, said = router.contract, given.kafka
    if source.system == "files":
        reading = Reading(spark, head.kind, contract, files.schema_of(given.schema), {})
        return FileSource(files.discovered(spark, head.source, head.pattern, given), Path(head.source), reading)
    fields, unread = fields_of(contract, said)
    return KafkaSource(spark, access.at(source.authority), source.name, fields, unread, said.start, said.max_records)


def _topics(
    spark: SparkSession, router: Router, target: Address, said: KafkaOptions, cluster: Cluster, head: RouteHead
) -> Topics:
    streams = {router.stream: target.name, **{tier: tier for tier in router.contract.tiers}}
    return Topics(
        cluster,
        streams,
        dead_topic(target.name, said),
        head.topics,
        router.contract.spec.lanes,
        _writers(spark, head, said),
        said.delivery == "exactly-once",
        said.on_growth,
        said.on_poison,
        said.try_seconds,
    )


def _writers(spark: SparkSession, head: RouteHead, said: KafkaOptions) -> int:
    """As given; else none for a topic, which is divided by its own partitions, and some for files."""
    return said.writers or (WRITERS_A_CORE * spark.sparkContext.defaultParallelism if head.kind else 0)


def _routed(source: Address, target: Address, before: Done, body: KafkaBatches, *, stopped: bool) -> Routed:
    after, dead = body.last, body.topics.dead
    lanes = {
        topic: [now - then for now, then in zip(records, before.lanes[topic], strict=True)]
        for topic, records in after.lanes.items()
    }
    counts = (after.total - before.total).checked("this run")
    if sum(map(sum, lanes.values())) != counts.out:
        raise CountError.of(
            "the lanes of this run do not add up", got=sum(map(sum, lanes.values())), allowed=f"{counts.out}"
        )
    return files.Routed(
        str(source),
        str(target),
        counts,
        after.total,
        lanes,
        after.batch - before.batch,
        stopped,
        str(body.state.path),
        f"kafka://{target.authority}/{dead}",
        after.repeated - before.repeated,
    )

"""A topic mirrored into another under live producers and a live reader, with migrators killed and the broker away.

100,000 records, a third of them in one lane, with a pause and by producers that write to both topics. Producers go on
for as long as the migration does. In place: `test_migrate_faults.py`; the short version: `test_migrate_mirror.py`.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from tests.integration.cut_path import HOST, far_path
from tests.integration.live_migration import (
    KEYS,
    LiveMigration,
    contract_file,
    ended,
    goes_on,
    hot_keys,
    killed_at,
    migrator,
    wait_for,
)
from tests.integration.topics import create_topic

from keylane.errors import LaneCountError, TargetError
from keylane.pipelines.migrate_run import rollback_migrate, run_migrate
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.systems.broker import librdkafka_settings, running
from keylane.systems.broker.faults import paused
from keylane.systems.messages.headers import EPOCH, SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.systems.broker import Cluster

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("_cache")]

RECORDS = 50_000
PINNED = {"hot_keys": [{"pins": [{"key": f"k{n}", "lane": n % 12} for n in range(40)]}]}
BOTH = pytest.mark.parametrize("dual", [False, True], ids=["with a pause", "both topics written"])


def mirrored(
    cluster: Cluster, folder: Path, topic: str, lanes: tuple[int, int] = (24, 12), spec: Any = None, **more: Any
) -> LiveMigration:
    old = contract_file(folder, topic, lanes[0], 1)
    new = contract_file(folder, f"{topic}.v2", lanes[1], 2, **(spec or {}))
    return LiveMigration(cluster, topic, folder, old, new, new_topic=f"{topic}.v2", slow_lane=3, **more)


def skewed(run: LiveMigration) -> Callable[[int], str]:
    """A third of the records in one old lane."""
    hot = hot_keys(run.old)
    return lambda n: hot[n % len(hot)] if n % 3 == 0 else f"k{n * 7 % KEYS}"


def copying(run: LiveMigration) -> bool:
    """Whether records are in the new topic."""
    assert run.new_topic is not None
    time.sleep(0.05)
    topics = AdminClient({**librdkafka_settings(run.cluster)}).list_topics(timeout=30).topics
    return run.new_topic in topics and run.ends_of(run.new_topic) > 0


def proven(run: LiveMigration, records: int = RECORDS) -> None:
    """Applied once and in order, nothing early; the new topic has all of it; and the certificate says so."""
    assert run.misapplied()[:5] == []
    assert run.early() == 0
    verdict = run.judged_mirror()
    print(verdict.counts, verdict.facts, run.pauses)
    assert verdict.ok, verdict.violations[:5]
    assert verdict.records == len(run.sends) >= 2 * records
    certificate = verify_migrate(run.plan)
    print(certificate.rules)
    assert (certificate.verdict, certificate.violations) == ("certified", 0), certificate.examples


@pytest.mark.parametrize(
    ("lanes", "spec", "dual"),
    [((24, 12), {}, False), ((24, 12), {}, True), ((12, 12), PINNED, False)],
    ids=["24 to 12 with a pause", "24 to 12, both topics written", "pinned"],
)
def test_a_migrator_that_is_killed_three_times_mirrors_every_order(
    lanes: tuple[int, int], spec: Any, dual: bool, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(lanes[0]), lanes, spec)
    run.save_plan(dual=dual)
    with run.running(skewed(run), RECORDS, per_second=500, on=True):
        wait_for(lambda: len(run.applies) > 2 * RECORDS // 5 or bool(run.failures))
        with migrator(run) as process:
            # In the first copy; its Spark is a process of its own, and ends by itself.
            wait_for(lambda: copying(run) or process.poll() is not None)
            process.kill()
        killed_at(run, 3, signal.SIGINT)
        killed_at(run, 4, signal.SIGKILL)
        done = ended(run)
        assert (done["phase"], done["late_writers"]) == ("done", [])
        assert len({one["driver"] for one in done["entries"]}) >= 3, "several drivers took part"
    hot = set(hot_keys(run.old))
    assert sum(key.decode() in hot for *_, key in run.sends) > len(run.sends) // 3
    proven(run)


def test_twin_that_reads_both_topics_without_the_gate_is_caught(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(6), (6, 4), gated=False)
    run.save_plan(groups=[])
    with run.running(lambda n: f"k{n * 7 % 100}", 2_000, per_second=300, on=True):
        assert run_migrate(run.plan, patience=120, say=print).phase == "done"
    assert run.left_out > 0
    assert run.early() > 0, "new records were applied before old ones of their keys"
    assert sorted(run.applied_sources) == sorted(run.sends), "and each was applied once"
    verdict = run.judged_mirror()
    assert verdict.ok, "and the new topic itself is in order"


@BOTH
def test_a_mirror_whose_broker_is_cut_off_in_silence_for_thirty_seconds(dual: bool, tmp_path: Path) -> None:
    """Producers, reader and migrator, with its Spark, all come over the path that is cut."""
    with running(tmp_path / "broker") as cluster, far_path(cluster) as path:
        run = mirrored(cluster, tmp_path, create_topic(cluster, "cut", 24), way=f"{HOST}:{path.port}")
        run.save_plan(dual=dual)
        with run.running(skewed(run), RECORDS, per_second=500, on=True):
            wait_for(lambda: len(run.applies) > 2 * RECORDS // 5 or bool(run.failures))
            with migrator(run) as process:
                wait_for(lambda: copying(run) or process.poll() is not None)
                with path.cut("both ways"):
                    time.sleep(30)
                    assert process.poll() is None
                goes_on(run, process)
        assert [text for _, text in path.log] == ["cut both ways", "healed"]
        proven(run)


@BOTH
def test_a_mirror_whose_broker_is_paused_for_twenty_seconds(dual: bool, tmp_path: Path) -> None:
    """Between the entry that asks producers for something, and the last copy."""
    with running(tmp_path / "broker") as cluster:
        run = mirrored(cluster, tmp_path, create_topic(cluster, "paused", 24))
        run.save_plan(dual=dual)
        with run.running(skewed(run), RECORDS, per_second=500, on=True):
            wait_for(lambda: len(run.applies) > 2 * RECORDS // 5 or bool(run.failures))
            with migrator(run) as process:
                wait_for(lambda: run.entries() >= 3 or process.poll() is not None)
                with paused(cluster):
                    time.sleep(20)
                goes_on(run, process)
        proven(run)


def test_records_of_a_transaction_that_is_open_at_the_fence_are_copied_before_anybody_goes_on(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(2), (2, 1))
    run.save_plan(producers=(), groups=[])
    own = {"transactional.id": run.topic, "transaction.timeout.ms": 600_000}
    writer = Producer({**librdkafka_settings(broker), **own})
    writer.init_transactions(30)
    writer.begin_transaction()
    for lane in range(2):
        writer.produce(run.topic, b"1", b"k", partition=lane)
    assert writer.flush(30) == 0
    waits = run_migrate(run.plan, all_stopped=True, patience=2)
    assert waits.phase == "fenced"
    assert waits.waits_for is not None
    assert waits.waits_for.why == "writes"
    writer.commit_transaction(30)
    assert run_migrate(run.plan, all_stopped=True, patience=200).phase == "done"
    certificate = verify_migrate(run.plan)
    assert [(one.checked, one.broken) for one in certificate.rules if one.rule == "copied"] == [(2, 0)]


def raised(run: LiveMigration, topic: str | None, lanes: int) -> None:
    """Somebody else gives a topic more partitions."""
    assert topic is not None
    client = AdminClient({**librdkafka_settings(run.cluster)})
    client.create_partitions([NewPartitions(topic, lanes)])[topic].result(30)


@pytest.mark.parametrize(
    ("side", "most", "phase", "what"),
    [
        ("old", 2, "copying", "the old stream has another lane count"),
        ("old", 4, "fenced", "the old stream has another lane count"),
        ("new", 2, "copying", "the new stream has other lanes than planned"),
        ("new", 4, "fenced", "the stream has another lane count than planned"),
    ],
)
def test_partitions_of_either_topic_that_somebody_else_made_are_refused_and_nothing_is_lost(
    side: str, most: int, phase: str, what: str, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(6), (6, 4), may_fail=(LaneCountError,))
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % 100}", 2_000, per_second=300, on=True):
        wait_for(lambda: len(run.applies) > 200 or bool(run.failures))
        assert run_migrate(run.plan, most=most, patience=200).phase == phase
        raised(run, run.topic if side == "old" else run.new_topic, 7)
        with pytest.raises(TargetError, match=what):
            run_migrate(run.plan, patience=30)
        assert rollback_migrate(run.plan).phase == "rolled-back"
        run.slow_over.set()
    assert {one[3] for one in run.applies} == {0}
    assert run.misapplied() == []
    verdict = run.judged()
    assert verdict.ok, verdict.violations[:5]
    assert verdict.records == verdict.facts["applies"] == len(run.sends) > 200


def test_partitions_of_the_old_topic_behind_the_fences_do_not_hold_the_migration(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(6), (6, 4))
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % 100}", 1_000, per_second=300, on=True):
        assert run_migrate(run.plan, most=5, patience=200).phase == "open"
        raised(run, run.topic, 7)
        assert run_migrate(run.plan, patience=200).phase == "done"
    proven(run, 1_000)
    strayed(run, 7)
    certificate = verify_migrate(run.plan)
    assert certificate.verdict == "broken", "twin: somebody writes into the lane that was made"
    assert {one.rule for one in certificate.rules if one.broken} >= {"wrong_epoch"}
    assert [(one.writer, one.records, one.lane) for one in certificate.late_writers] == [("cart.1", 3, 6)]


def strayed(run: LiveMigration, lanes: int) -> None:
    """Somebody who does not know of the migration writes behind the fences of the old topic."""
    producer = Producer({**librdkafka_settings(run.cluster)})
    for number in range(3):
        headers: list[tuple[str, str | bytes | None]] = [(SOURCE, b"cart.1/%d" % number), (EPOCH, b"1")]
        producer.produce(run.topic, b"late", b"k1", partition=lanes - 1, headers=headers)
    assert producer.flush(30) == 0


def test_partitions_of_the_new_topic_behind_the_fences_are_refused_and_nothing_is_lost(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(6), (6, 4), may_fail=(LaneCountError,))
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % 100}", 1_000, per_second=300, on=True):
        assert run_migrate(run.plan, most=5, patience=200).phase == "open"
        raised(run, run.new_topic, 5)
        with pytest.raises(TargetError, match=r"another lane count than planned.*got '5'; allowed: 4"):
            run_migrate(run.plan, patience=30)
        run.slow_over.set()
    assert run.misapplied() == []
    assert run.early() == 0
    verdict = run.judged_mirror()
    assert verdict.ok, verdict.violations[:5]
    assert verdict.records == len(run.sends)

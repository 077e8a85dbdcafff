"""A topic migrated in place under live producers and a live reader, with the migrator killed and the broker away.

100,000 records, a third of them in one lane; the migrator is a process that is killed three times after a fifth of the
records, twice hard and once by an interrupt. The short version: `test_migrate_kafka.py`. By a mirror:
`test_migrate_mirror_faults.py`.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
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

from keylane.errors import BrokerError, LaneCountError, TargetError
from keylane.pipelines.migrate_run import rollback_migrate, run_migrate
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.systems.broker import librdkafka_settings, running
from keylane.systems.broker.faults import paused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.systems.broker import Cluster

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("_cache")]

RECORDS = 50_000
PINNED = [f"k{n}" for n in range(40)]


def proven(run: LiveMigration, records: int = RECORDS) -> None:
    verdict = run.judged()
    print(verdict.counts, verdict.facts, run.pauses)
    assert verdict.ok, verdict.violations[:5]
    assert verdict.facts["applies"] == verdict.records == len(run.sends) == 2 * records
    certificate = verify_migrate(run.plan, journal=run.journal)
    assert (certificate.verdict, certificate.violations, certificate.records) == ("certified", 0, 2 * records)


@pytest.mark.parametrize(
    ("lanes", "spec"),
    [
        (24, {}),
        (18, {}),
        (12, {"hot_keys": [{"pins": [{"key": key, "lane": n % 12} for n, key in enumerate(PINNED)]}]}),
    ],
    ids=["12 to 24", "12 to 18", "pinned"],
)
def test_a_migrator_that_is_killed_three_times_keeps_every_order(
    lanes: int, spec: dict[str, Any], broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(12)
    old, new = contract_file(tmp_path, name, 12, 1), contract_file(tmp_path, name, lanes, 2, **spec)
    run = LiveMigration(broker, name, tmp_path, old, new, slow_lane=3)
    run.save_plan()
    hot = hot_keys(old)
    with run.running(lambda n: hot[n % len(hot)] if n % 3 == 0 else f"k{n * 7 % KEYS}", RECORDS, per_second=2_000):
        wait_for(lambda: len(run.applies) > 2 * RECORDS // 5 or bool(run.failures))
        killed_at(run, 2, signal.SIGKILL)
        killed_at(run, 3, signal.SIGINT)
        killed_at(run, 4, signal.SIGKILL)
        done = ended(run)
    assert (done["phase"], done["late_writers"]) == ("done", [])
    assert len({one["driver"] for one in done["entries"]}) >= 3, "several drivers took part"
    proven(run)


def twelve_to_eighteen(cluster: Cluster, folder: Path, name: str, **more: Any) -> LiveMigration:
    old, new = (contract_file(folder, name, count, epoch) for epoch, count in enumerate((12, 18), 1))
    return LiveMigration(cluster, name, folder, old, new, **more)


def test_a_broker_that_is_paused_for_twenty_seconds(tmp_path: Path) -> None:
    with running(tmp_path / "broker") as cluster:
        run = twelve_to_eighteen(cluster, tmp_path, create_topic(cluster, "paused", 12))
        run.save_plan()
        with run.running(lambda n: f"k{n * 7 % KEYS}", RECORDS, per_second=4_000):
            wait_for(lambda: len(run.applies) > 2 * RECORDS // 5 or bool(run.failures))
            with migrator(run) as process:
                wait_for(lambda: run.entries() >= 2)
                with paused(cluster):
                    time.sleep(20)
                goes_on(run, process)
        proven(run)


@pytest.mark.parametrize(
    ("how", "entries", "journal"),
    [("both ways", 2, None), ("from the broker", 4, None), ("from the broker", 1, "journal")],
    ids=["at the hold", "answers lost at the growth", "answers lost of a journal in a topic"],
)
def test_a_broker_that_is_cut_off_in_silence_for_thirty_seconds(
    how: Any, entries: int, journal: str | None, tmp_path: Path
) -> None:
    """Producers, reader and migrator all come over the path that is cut."""
    with running(tmp_path / "broker") as cluster, far_path(cluster) as path:
        name = create_topic(cluster, "cut", 12)
        run = twelve_to_eighteen(cluster, tmp_path, name, way=f"{HOST}:{path.port}", journal_topic=journal)
        run.save_plan()
        with run.running(lambda n: f"k{n * 7 % KEYS}", RECORDS, per_second=2_000):
            wait_for(lambda: len(run.applies) > 2 * RECORDS // 5 or bool(run.failures))
            with migrator(run) as process:
                wait_for(lambda: run.entries() >= entries or process.poll() is not None)
                applied = len(run.applies)
                with path.cut(how):
                    time.sleep(30)
                    assert process.poll() is None
                    assert len(run.applies) < applied + 20_000, "nothing gets through"
                goes_on(run, process)
        assert [text for _, text in path.log] == [f"cut {how}", "healed"]
        proven(run)


def raised(run: LiveMigration, lanes: int, topic: str | None = None) -> None:
    """Somebody else gives a topic more partitions."""
    name = topic or run.topic
    client = AdminClient({**librdkafka_settings(run.cluster)})
    client.create_partitions([NewPartitions(name, lanes)])[name].result(30)


@pytest.mark.parametrize(
    ("phase", "most", "lanes"),
    [("holding", 2, 13), ("fenced", 3, 13), ("fenced", 3, 18), ("fenced", 3, 20)],
)
def test_partitions_that_somebody_else_made_before_the_growth_are_refused_and_nothing_is_lost(
    phase: str, most: int, lanes: int, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = twelve_to_eighteen(broker, tmp_path, topic(12), may_fail=(LaneCountError,))
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % KEYS}", 3_000, per_second=1_000):
        wait_for(lambda: len(run.applies) > 1_000 or bool(run.failures))
        assert run_migrate(run.plan, most=most, patience=200).phase == phase
        raised(run, lanes)
        with pytest.raises(TargetError, match=rf"another lane count than planned; nothing.*got '{lanes}'; allowed: 12"):
            run_migrate(run.plan, patience=30)
        assert rollback_migrate(run.plan).phase == "rolled-back"
        run.slow_over.set()
    whole_by_the_old_contract(run)


def whole_by_the_old_contract(run: LiveMigration) -> None:
    assert {one[3] for one in run.applies} == {0}
    assert run.misapplied() == []
    verdict = run.judged()
    assert verdict.ok, verdict.violations[:5]
    assert verdict.records == verdict.facts["applies"] == len(run.sends) > 1_000


@pytest.mark.parametrize("lanes", [13, 18])
def test_partitions_that_somebody_else_made_on_the_way_to_the_planned_count_are_taken(
    lanes: int, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = twelve_to_eighteen(broker, tmp_path, topic(12))
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % KEYS}", 3_000, per_second=1_000):
        wait_for(lambda: len(run.applies) > 1_000 or bool(run.failures))
        assert run_migrate(run.plan, most=4, patience=200).phase == "growing"
        raised(run, lanes)
        assert run_migrate(run.plan, patience=200).phase == "done"
    proven(run, 3_000)


@pytest.mark.parametrize(("most", "phase"), [(4, "growing"), (5, "open")])
def test_more_partitions_than_planned_are_refused_behind_the_growth_and_nothing_is_lost(
    most: int, phase: str, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = twelve_to_eighteen(broker, tmp_path, topic(12), may_fail=(LaneCountError, BrokerError), held_seconds=20)
    run.save_plan()
    with run.running(lambda n: f"k{n * 7 % KEYS}", 3_000, per_second=1_000):
        wait_for(lambda: len(run.applies) > 1_000 or bool(run.failures))
        assert run_migrate(run.plan, most=most, patience=200).phase == phase
        raised(run, 20)
        with pytest.raises(TargetError, match=r"another lane count than planned.*got '20'; allowed: 12 to 18"):
            run_migrate(run.plan, patience=30)
        run.slow_over.set()
    assert run.misapplied() == []
    assert run.early() == 0
    verdict = run.judged()
    assert verdict.ok, verdict.violations[:5]
    assert verdict.records == verdict.facts["applies"] == len(run.sends) > 1_000

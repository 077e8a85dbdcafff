"""A topic migrated under live producers and a live reader, with the migrator killed and the broker paused.

100,000 records, a third of them in one lane; the migrator is a process that is killed three times after a fifth of the
records, twice hard and once by an interrupt. The short version: `test_migrate_kafka.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.live_migration import LiveMigration, contract_file
from tests.integration.topics import create_topic

from keylane import Router
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.systems.broker import running
from keylane.systems.broker.faults import paused
from keylane.systems.migration_journal import FolderJournal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from keylane.systems.broker import Cluster

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("_cache")]

RECORDS, KEYS = 50_000, 2_000
PINNED = [f"k{n}" for n in range(40)]


@contextmanager
def migrator(run: LiveMigration) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "keylane", "migrate", "run", str(run.plan), "--patience", "120s", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(what: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.002)


def killed_at(run: LiveMigration, entries: int, sign: signal.Signals) -> None:
    """Run the migrator until the journal has so many entries, and end it there."""
    journal = FolderJournal(run.plan.with_name(f"{run.plan.name}.journal"))
    with migrator(run) as process:
        wait_for(lambda: len(journal.entries()) >= entries or process.poll() is not None)
        os.kill(process.pid, sign)
        process.wait(60)
        assert process.returncode != 0


def ended(run: LiveMigration) -> dict[str, Any]:
    """Run the migrator to its end."""
    with migrator(run) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def hot_keys(contract: Path, lane: int = 3) -> list[str]:
    """Keys that are all in one old lane."""
    router = Router(contract)
    return [f"k{n}" for n in range(KEYS) if router.lane(f"k{n}") == lane]


def proven(run: LiveMigration) -> None:
    verdict = run.judged()
    print(verdict.counts, verdict.facts, run.pauses)
    assert verdict.ok, verdict.violations[:5]
    assert verdict.facts["applies"] == verdict.records == len(run.sends) == 2 * RECORDS
    certificate = verify_migrate(run.plan)
    assert (certificate.verdict, certificate.violations, certificate.records) == ("certified", 0, 2 * RECORDS)


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


def test_a_broker_that_is_paused_for_twenty_seconds(tmp_path: Path) -> None:
    with running(tmp_path / "broker") as cluster:
        name = create_topic(cluster, "paused", 12)
        old, new = (contract_file(tmp_path, name, count, epoch) for epoch, count in enumerate((12, 18), 1))
        run = LiveMigration(cluster, name, tmp_path, old, new)
        run.save_plan()
        with run.running(lambda n: f"k{n * 7 % KEYS}", RECORDS, per_second=4_000):
            wait_for(lambda: len(run.applies) > 2 * RECORDS // 5 or bool(run.failures))
            journal = FolderJournal(run.plan.with_name(f"{run.plan.name}.journal"))
            with migrator(run) as process:
                wait_for(lambda: len(journal.entries()) >= 2)
                with paused(cluster):
                    time.sleep(20)
                began = time.monotonic()
                out, err = process.communicate(timeout=120)
                assert process.returncode == 0, err
                assert json.loads(out)["phase"] == "done"
                assert time.monotonic() - began < 60, "it goes on unaided"
        proven(run)

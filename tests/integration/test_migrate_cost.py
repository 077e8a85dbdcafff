"""What `migrate plan` finds out on a real broker: bytes, keys and records that move; and the page of a status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration import commands
from tests.integration.live_migration import LiveMigration, contract_file

from keylane import Router
from keylane.pipelines.migrate import plan_migrate
from keylane.pipelines.migrate_run import run_migrate, status_migrate
from keylane.systems.kafka import measured
from keylane.systems.kafka.producers import KeyedProducer
from keylane.systems.migration_journal import FolderJournal

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.migrate import PlannedCost
    from keylane.systems.broker import Cluster

KEYS = [f"k{number}" for number in range(30)]
VALUE = b"v" * 200


def written(broker: Cluster, topic: str, folder: Path, each: int = 20) -> Path:
    """So many records of each key in a topic of 4 lanes, and its contract."""
    old = contract_file(folder, topic, 4, 1)
    with KeyedProducer(Router(old), broker.bootstrap) as producer:
        for _ in range(each):
            for key in KEYS:
                producer.send({"k": key}, VALUE)
    return old


def cost(
    old: Path, new: Path, source: str, target: str | None = None, producers: tuple[str, ...] = ("api",)
) -> PlannedCost:
    found = plan_migrate(str(old), str(new), source=source, target=target, producers=producers).cost
    assert found is not None
    return found


def movers(old: Path, new: Path) -> list[str]:
    """Keys that change lane, placed one by one."""
    was, now = Router(old), Router(new)
    return [key for key in KEYS if was.lane(key) != now.lane(key)]


def test_keys_records_and_bytes_that_move(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(4)
    old, new = written(broker, name, tmp_path), contract_file(tmp_path, name, 6, 2)
    at, moving = f"kafka://{broker.bootstrap}/{name}", movers(old, new)
    found = cost(old, new, at)
    assert 0 < len(moving) < len(KEYS)
    assert (found.keys.value, found.moved_keys.value, found.moved_keys.known) == (30, len(moving), "measured")
    assert (found.records.value, found.records_read) == (600, 600)
    assert (found.moved_records.value, found.moved_records.known) == (20 * len(moving), "measured")
    stored = found.stored_bytes
    assert stored.known == "measured"
    assert stored.value is not None
    on_disk = sum(file.stat().st_size for lane in range(4) for file in broker.folder.rglob(f"{name}-{lane}/*.log"))
    assert stored.value == on_disk > 0
    assert found.moved_bytes.value == pytest.approx(stored.value * len(moving) / 30, rel=0.02)
    assert (found.copied_bytes.value, found.disk_bytes.value, found.network_bytes.value) == (0, 0, 0)
    assert found.pause_seconds.value == pytest.approx(0.1 + 0.05 + 0.25 + 0.1)
    # The twin: of a part of the records nobody can say how many keys there are.
    monkeypatch.setattr(measured, "MOST_READ", 200)
    part = cost(old, new, at)
    assert part.records_read <= 200
    assert (part.keys.value, part.moved_keys.value, part.moved_records.known) == (None, None, "sampled")
    assert part.moved_records.value == pytest.approx(20 * len(moving), rel=0.2)


def test_a_mirror_needs_disk_and_network_for_every_replica(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(4)
    old = written(broker, name, tmp_path, each=4)
    new = contract_file(tmp_path, f"{name}.v2", 2, 2)
    at = f"kafka://{broker.bootstrap}/{name}"
    found = cost(old, new, at, f"{at}.v2")
    stored = found.stored_bytes.value
    assert stored is not None
    assert (found.disk_bytes.value, found.network_bytes.value) == (stored, 2 * stored)
    assert (found.copied_records.value, found.pause_parts[3].seconds) == (120, 5.0)
    # The twin: into a folder the copies take another form, and no figure is made up.
    folder = cost(old, new, at, str(tmp_path / "copy"), producers=())
    assert (folder.disk_bytes.value, folder.disk_bytes.known) == (None, "unknown")
    assert folder.copied_bytes.value == stored


def test_a_page_of_the_status_while_it_runs(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    name = topic(4)
    old, new = written(broker, name, tmp_path, each=1), contract_file(tmp_path, name, 6, 2)
    run = LiveMigration(broker, name, tmp_path, old, new)
    run.save_plan(producers=["api"], groups=[])
    waits = run_migrate(run.plan, patience=2)
    page = tmp_path / "status.html"
    asked = "migrate", "status", str(run.plan), "--report", str(page)
    assert commands.run(*asked).code == 3
    assert "Producers that have not acknowledged that they stopped: api." in page.read_text()
    assert commands.run(*asked).code == 2, "a file that is there is kept"
    after = status_migrate(run.plan)
    assert after.entries == waits.entries, "a look changes nothing"
    assert after.waits_for == waits.waits_for
    FolderJournal(Path(run.journal)).acknowledge("api", 1)
    done = run_migrate(run.plan, patience=30)
    assert (done.phase, status_migrate(run.plan).waits_for) == ("done", None)

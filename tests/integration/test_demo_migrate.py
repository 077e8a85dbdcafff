"""`demo migrate` on the real broker: orders are broken without the gate and kept with it, and nothing is left there.

What is counted as a broken order, and the page: `tests/unit/report/test_demo_migrate_page.py`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from keylane.pipelines.changes import JOURNAL_ENDING
from keylane.pipelines.demo import migrate as growth
from keylane.pipelines.demo.migrate import GrowthSettings, run_growth
from keylane.systems.broker import librdkafka_settings
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.growing import LiveTopic
from keylane.systems.migration_journal import FolderJournal

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.systems.broker import Cluster

pytestmark = pytest.mark.faults

SETTINGS = GrowthSettings("tested", seconds=3.0, slow_seconds=1.0)


def left_on(broker: Cluster) -> list[str]:
    admin = AdminClient({**librdkafka_settings(broker)})
    groups = [one.group_id for one in admin.list_consumer_groups().result().valid]
    return [name for name in (*admin.list_topics(timeout=30).topics, *groups) if "keylane-migrate" in name]


def test_orders_are_broken_without_the_gate_and_kept_with_it(broker: Cluster, tmp_path: Path) -> None:
    found = run_growth(kafka_access(broker.bootstrap), tmp_path, SETTINGS, lambda _: None, own=False)
    ungated, gated = found.trials
    assert ungated.applied == gated.applied == ungated.records == 1_800
    assert ungated.broken >= ungated.broken_keys > 0
    assert (gated.broken, gated.broken_keys, gated.verdict, gated.violations) == (0, 0, "certified", 0)
    assert 0 < (gated.pause_seconds or 0) < 10
    assert left_on(broker) == []

    entries = FolderJournal(tmp_path / f"plan.json{JOURNAL_ENDING}").entries()
    held, opened = (next(one.at for one in entries if one.phase == phase) for phase in ("holding", "open"))
    assert 0 < opened - held < gated.grown_at < gated.slow_until
    assert json.loads((tmp_path / "plan.json").read_text())["old"]["file"] == str(tmp_path / "old.yaml")


def test_twin_a_reader_that_ignores_the_gate_is_counted(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ungated(LiveTopic):
        def _read(self, journal: str | None) -> None:
            del journal
            super()._read(None)

    monkeypatch.setattr(growth, "LiveTopic", Ungated)
    found = run_growth(kafka_access(broker.bootstrap), tmp_path, SETTINGS, lambda _: None, own=False)
    assert found.trials[1].broken > 0

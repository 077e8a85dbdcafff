"""Clients of a migration, as far as they need no broker: what is refused, and who is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from keylane.errors import TargetError, UsageError
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.migration import TopicJournal
from keylane.systems.kafka.migration_clients import GatedConsumer

if TYPE_CHECKING:
    from pathlib import Path

#: Nobody is there, and nobody is asked.
CLIENT: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}


@pytest.mark.parametrize("given", [{}, {"enable.auto.offset.store": True}, {"enable.auto.commit": False}])
def test_a_consumer_that_stores_offsets_of_held_records_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    """Its next commit would be behind a record that was never handed out."""
    consumer = Consumer({**CLIENT, **given})
    with pytest.raises(UsageError, match=r"enable\.auto\.offset\.store=false"):
        GatedConsumer(consumer, tmp_path / "journal")
    consumer.close()


def test_a_consumer_whose_offsets_are_stored_by_hand_is_taken(tmp_path: Path) -> None:
    gated = GatedConsumer(Consumer({**CLIENT, "enable.auto.offset.store": False}), tmp_path / "journal")
    assert (gated.gate, gated.held) == (None, {})
    gated.close()


def test_a_journal_of_the_same_plan_is_not_taken_from_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening the journal for entries fences whoever drives; that has to wait for the lease."""
    journal, plan, opened = TopicJournal(kafka_access("127.0.0.1:1"), "journal"), {"mode": "in-place"}, list[str]()
    monkeypatch.setattr(journal, "plan", lambda: plan)
    monkeypatch.setattr(journal, "_open_writer", lambda: opened.append("writer"))
    journal.begin(plan)
    assert opened == []
    with pytest.raises(TargetError, match="another plan"):
        journal.begin({"mode": "mirror"})
    assert opened == []

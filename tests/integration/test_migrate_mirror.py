"""`keylane migrate` into another stream on a real broker: live producers, a live reader, and what they applied.

With a pause and by producers that write to both topics; folders as either side. The large runs: `test_migrate_faults`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.integration.live_migration import LiveMigration, contract_file
from tests.integration.topics import create_topic, read_back

from keylane import Router
from keylane.errors import DataError, UsageError
from keylane.migration.cutover import Entry
from keylane.pipelines.migrate_run import run_migrate, status_migrate
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions
from keylane.systems.kafka.migration_clients import MigratingProducer
from keylane.systems.messages.headers import SOURCE
from keylane.systems.migration_journal import FolderJournal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.migration.cutover import Phase
    from keylane.systems.broker import Cluster


def mirrored(cluster: Cluster, folder: Path, topic: str, lanes: tuple[int, int], **spec: Any) -> LiveMigration:
    old = contract_file(folder, topic, lanes[0], 1)
    new = contract_file(folder, f"{topic}.v2", lanes[1], 2, **spec)
    return LiveMigration(cluster, topic, folder, old, new, new_topic=f"{topic}.v2")


@pytest.mark.parametrize("dual", [False, True], ids=["with a pause", "both topics written"])
def test_a_topic_is_mirrored_under_live_producers_and_a_live_reader(
    dual: bool, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(6), (6, 4))
    run.save_plan(dual=dual)
    with run.running(lambda n: f"k{n * 7 % 100}", 2_000, per_second=300, on=True):
        done = run_migrate(run.plan, patience=120, say=print)
    assert (done.phase, done.over, done.late_writers) == ("done", True, [])
    assert [one.drained for one in done.lanes] == [True] * 6
    assert run.misapplied() == []
    verdict = run.judged_mirror()
    assert verdict.ok, verdict.violations[:5]
    assert verdict.records == len(run.sends) >= 4_000, "the new topic has all of it, in order"
    certificate = verify_migrate(run.plan)
    print(certificate.rules, certificate.unproven, certificate.examples)
    assert (certificate.verdict, certificate.violations) == ("certified", 0)
    if not dual:
        # The twin: what a copier that was late would have written.
        copy = next(
            one for one in run.all_of(f"{run.topic}.v2") if sum(name == SOURCE for name, _ in one.headers()) > 1
        )
        writer = Producer({**librdkafka_settings(broker)})
        writer.produce(copy.topic(), copy.value(), copy.key(), copy.partition(), headers=copy.headers())
        writer.flush()
        late = verify_migrate(run.plan)
        assert (late.verdict, [one.rule for one in late.rules if one.broken]) == ("broken", ["copied"])


@pytest.mark.parametrize("done", [False, True], ids=["looks while it is open", "looks when it is done"])
def test_a_producer_that_looks_late_writes_what_it_kept(
    done: bool, broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Readers may have drained, and the driver ended, before a producer that was held up sees the fence."""
    run = mirrored(broker, tmp_path, topic(1), (1, 1))
    create_topic(broker, f"{run.topic}.v2", 1)
    journal = FolderJournal(tmp_path / "j")
    journal.begin(run.save_plan(dual=True))
    phases: tuple[Phase, ...] = ("begun", "copying", "doubling")
    for number, phase in enumerate(phases):
        journal.append(Entry(number, 1, phase))
    old, new = Router(run.old), Router(run.new)
    with MigratingProducer(journal, "p0", old=old, new=new, bootstrap=run.bootstrap, look_seconds=0.5) as producer:
        record = {"k": ""}
        for number in range(4):
            record["k"] = f"k{number}"
            producer.send(record, b"%d" % number)
        while not journal.stopped(2):
            time.sleep(0.05)
        journal.append(Entry(3, 1, "open", (1,), (0,)))
        if done:
            journal.append(Entry(4, 1, "done"))
    found = [(one.key, one.value) for one in read_back(broker, f"{run.topic}.v2")]
    assert found == [(b"k1", b"1"), (b"k2", b"2"), (b"k3", b"3")], (
        "all behind the fence, as they were when they were sent"
    )


def test_another_key_without_a_format_of_values_is_refused_before_anything_is_made(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(2), (2, 3), key={"fields": ["merchant", "card"], "encoding": "utf8"})
    run.save_plan(producers=())
    with pytest.raises(UsageError, match=r"--value json"):
        run_migrate(run.plan, all_stopped=True, patience=5)
    assert status_migrate(run.plan).phase is None
    admin = AdminClient({**librdkafka_settings(broker)})
    assert str(run.new_topic) not in admin.list_topics(timeout=30).topics


def test_a_mirror_stops_at_records_without_a_lane_and_can_go_back_or_on(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    run = mirrored(broker, tmp_path, topic(2), (2, 3), key={"fields": ["merchant"], "encoding": "utf8"})
    run.save_plan(producers=(), groups=())
    writer = Producer({**librdkafka_settings(broker), "partitioner": "murmur2"})
    for number in range(20):
        value = {"merchant": f"m{number}"} if number % 4 else {"shop": f"m{number}"}
        writer.produce(run.topic, json.dumps(value), f"k{number}")
    writer.flush()
    options = StreamOptions(value="json")
    with pytest.raises(DataError, match=r"5 of 20 records have no lane .*--allow-dead-letters"):
        run_migrate(run.plan, all_stopped=True, patience=30, options=options)
    assert status_migrate(run.plan, options=options).phase == "copying"
    done = run_migrate(run.plan, all_stopped=True, allow_dead=True, patience=30, options=options)
    assert done.phase == "done"
    found = verify_migrate(run.plan, options=options)
    assert (found.verdict, found.violations) == ("not proven", 0)
    assert [text for text in found.unproven if text.startswith("5 records are dead letters")]

"""The lesson on the real broker: what it holds is what the contracts say, and the figures are those of its lanes."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.resources import files
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka.admin import AdminClient
from jsonschema import Draft202012Validator
from tests.integration.topics import read_back

from keylane import Router, parse_contract
from keylane.cli.demo_lesson import as_result
from keylane.cli.main import _run
from keylane.cli.output import render
from keylane.documents.lesson import LessonProducer
from keylane.errors import BrokerError, CountError
from keylane.pipelines.demo import lesson as lesson_run
from keylane.pipelines.demo.lesson import (
    RULES,
    LessonSettings,
    Traffic,
    contract_text,
    lane_counts,
    run_lesson,
    updates,
)
from keylane.systems.broker import librdkafka_settings
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.load import MeasuredGroup, following, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.documents.lesson import LessonDocument
    from keylane.systems.broker import Cluster


def java_long_lane(cell: int, lanes: int) -> int:
    """`Math.abs(Long.hashCode(cell)) % lanes`, written out."""
    code = (cell ^ (cell >> 32)) & 0xFFFF_FFFF
    return abs(code - (1 << 32) if code >> 31 else code) % lanes


def murmur2_lane(cell: int, lanes: int) -> int:
    """Another client's murmur2."""
    return int(murmur2(cell.to_bytes(8, "big")) & 0x7FFF_FFFF) % lanes


INDEPENDENT = {"formula": java_long_lane, "murmur2": murmur2_lane}


@pytest.fixture(scope="module")
def lesson(broker: Cluster) -> LessonDocument:
    return run_lesson(kafka_access(broker.bootstrap), LessonSettings("whole"), lambda _: None, own=True)


def validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(files("keylane").joinpath("schemas", "demo-lesson.json").read_text("utf-8")))


def topics_and_groups(broker: Cluster) -> set[str]:
    admin = AdminClient({**librdkafka_settings(broker)})
    groups = admin.list_consumer_groups().result(30).valid
    return {*admin.list_topics(timeout=30).topics, *(group.group_id for group in groups)}


@pytest.mark.parametrize("name", ["formula", "murmur2"])
def test_the_figures_are_those_of_lanes_computed_by_other_means(lesson: LessonDocument, name: str) -> None:
    (found,) = (trial for trial in lesson.trials if trial.name == name)
    cells = updates(np.random.default_rng(2026), Traffic())["cell"].to_pylist()
    wanted = Counter(INDEPENDENT[name](cell, 60) for cell in cells)
    lanes = [wanted[lane] for lane in range(60)]
    assert found.per_lane == lanes
    assert found.active_lanes == len(wanted)
    assert found.cv == pytest.approx(pstdev(lanes) / fmean(lanes))
    assert found.max_over_mean == pytest.approx(max(lanes) / 100)


def test_the_lesson_cannot_be_kept_and_says_why(lesson: LessonDocument) -> None:
    assert [trial.active_lanes for trial in lesson.trials] == [4, 6]
    assert [trial.checks[0].kept for trial in lesson.trials] == [False, False]
    assert lesson.trials[1].cv == pytest.approx(lesson.least_cv)
    assert "6 of 60 lanes" in lesson.why


def test_every_record_was_delivered_batched_and_read(lesson: LessonDocument) -> None:
    for trial in lesson.trials:
        assert (trial.sent, trial.failed, trial.read, trial.end_lag) == (6_000, 0, 6_000, 0)
        assert trial.mean_batch_records == pytest.approx(6_000 / trial.batches)
        assert 100 < (trial.mean_batch_bytes or 0) <= lesson.producer.batch_size
        assert 0 < trial.peak_lag <= max(trial.per_lane)
        assert trial.lag_samples > 1


def test_nothing_is_left_on_the_cluster(lesson: LessonDocument, broker: Cluster) -> None:
    assert [name for name in topics_and_groups(broker) if "keylane-lesson" in name] == []


def test_the_document_is_valid(lesson: LessonDocument) -> None:
    validator().validate(lesson.as_json())
    assert '"cv": 3.00133' in render(as_result(lesson), "json")


@pytest.mark.parametrize(
    "change",
    [
        {"kept": True},
        {"extra": 1},
        {"trials": []},
        {"cells": []},
        {"lanes": 0},
        {"cells": [{"cell": "8928308280fffff", "cities": ["a"], "records": 1, "lanes": {"formula": 0, "murmur2": 0}}]},
    ],
    ids=["kept with something broken", "unknown", "no trials", "no cells", "no lanes", "another resolution"],
)
def test_a_document_with_other_values_is_not_valid(lesson: LessonDocument, change: dict[str, Any]) -> None:
    assert not validator().is_valid({**lesson.as_json(), **change})


def test_each_field_is_required(lesson: LessonDocument) -> None:
    document = lesson.as_json()
    for name in document:
        assert not validator().is_valid({key: value for key, value in document.items() if key != name}), name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_broker_holds_what_the_router_placed(rule: Any, broker: Cluster, topic: Callable[..., str]) -> None:
    settings, table = LessonSettings("held", lanes=60), updates(np.random.default_rng(5), Traffic(20, 10))
    name = topic(60, "lesson")
    text = contract_text(rule, settings).replace(f"keylane-lesson-{rule.name}-held", name)
    router = Router(parse_contract(text))
    with following(kafka_access(broker.bootstrap), name, 60, f"{name}-readers") as group:
        sent = send(kafka_access(broker.bootstrap), router, lesson_run._rounds(table))
        group.wait_for(sent.delivered)
    held = read_back(broker, name)
    assert np.bincount([record.lane for record in held], minlength=60).tolist() == lane_counts(router, table).tolist()
    assert group.read.tolist() == lane_counts(router, table).tolist()
    assert {record.lane for record in held if record.lane != router.lane_of_key(record.key)} == set()
    assert sorted(json.loads(record.value or b"")["driver"] for record in held) == sorted(table["driver"].to_pylist())


@pytest.mark.faults
def test_records_elsewhere_are_an_error(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a producer that takes every driver for one in Chicago is found out."""
    placed = Router.placed
    chicago = {"cell": int("832664fffffffff", 16)}
    monkeypatch.setattr(Router, "placed", lambda self, _record, position=None: placed(self, chicago, position))
    settings = LessonSettings("astray", traffic=Traffic(10, 5))
    with pytest.raises(CountError, match="not hold"):
        run_lesson(kafka_access(broker.bootstrap), settings, lambda _: None, own=True)
    assert [name for name in topics_and_groups(broker) if "keylane-lesson" in name] == []


@pytest.mark.faults
def test_a_group_that_reads_nothing_has_all_of_it_as_lag(
    broker: Cluster, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of a lag of 0 at the end: lag is asked of the broker, not assumed."""
    monkeypatch.setattr(MeasuredGroup, "take", lambda _self, _messages: None)
    name, table = topic(60, "lesson"), updates(np.random.default_rng(5), Traffic(20, 10))
    text = contract_text(RULES[0], LessonSettings("x")).replace("keylane-lesson-formula-x", name)
    access, router = kafka_access(broker.bootstrap), Router(parse_contract(text))
    with following(access, name, 60, f"{name}-readers") as group:
        send(access, router, lesson_run._rounds(table))
    assert group.end.tolist() == lane_counts(router, table).tolist()
    assert int(group.peak.max()) == int(group.end.max())


@pytest.mark.faults
def test_records_that_the_broker_refuses_are_errors(broker: Cluster, topic: Callable[..., str]) -> None:
    """The twin of an error rate of 0: a topic that takes no record of this size."""
    name, table = topic(60, "lesson", max_message_bytes="100"), updates(np.random.default_rng(5), Traffic(20, 2))
    text = contract_text(RULES[1], LessonSettings("x")).replace("keylane-lesson-murmur2-x", name)
    sent = send(kafka_access(broker.bootstrap), Router(parse_contract(text)), lesson_run._rounds(table))
    assert (sent.delivered, sent.failed) == (0, 40)
    assert "too large" in (sent.first_error or "")


def test_a_cluster_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keylane.systems.kafka.cluster.ANSWER_SECONDS", 1.0)
    with pytest.raises(BrokerError, match=r"no broker answers at 127\.0\.0\.1:1"):
        run_lesson(kafka_access("127.0.0.1:1"), LessonSettings("x"), lambda _: None, own=False)


@pytest.mark.faults
def test_the_command_on_a_cluster_that_is_named(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--bootstrap", f"kafka://{broker.bootstrap}", "--lanes", "12", "--to", str(tmp_path / "lesson")]
    monkeypatch.setattr(sys, "argv", ["keylane", "demo", "lesson", *arguments])
    assert _run() == 0
    shown = capsys.readouterr().out
    assert shown.startswith("CV < 5%: broken by both (")
    assert "6 of 12 lanes" in shown.splitlines()[1]
    validator().validate(json.loads((tmp_path / "lesson" / "figures.json").read_text()))
    assert sorted(path.name for path in (tmp_path / "lesson" / "contracts").iterdir()) == [
        "formula.yaml",
        "murmur2.yaml",
    ]


@pytest.mark.faults
def test_a_pace_makes_batches_small(broker: Cluster) -> None:
    settings = LessonSettings("paced", traffic=Traffic(12, 5), producer=LessonProducer(linger_ms=0, every=0.2))
    found = run_lesson(kafka_access(broker.bootstrap), settings, lambda _: None, own=True)
    assert all(trial.seconds >= 0.8 for trial in found.trials)
    assert all((trial.mean_batch_records or 99) <= 12 for trial in found.trials)

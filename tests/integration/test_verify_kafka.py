"""`verify` on topics of a real broker: clean histories are certified, and every planted fault is found."""

from __future__ import annotations

import json
import pickle
import re
import sys
import threading
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from jsonschema import Draft202012Validator
from tests.integration.route_records import contract
from tests.integration.written_topics import LANES, Message, Topics, rows_of

from keylane import Router
from keylane.cli.main import _run
from keylane.errors import DataError, TargetError, UsageError
from keylane.pipelines.verify import verify
from keylane.systems.broker import librdkafka_settings
from keylane.systems.folders.folder import Counts
from keylane.systems.kafka import cluster
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.reader import TopicReader
from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.messages.state import BatchPlan, RouteHead, open_state
from keylane.systems.messages.values import TopicFields
from keylane.testing.history import RULES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane import Contract
    from keylane.systems.broker import Cluster


class Command:
    """Commands as a user has them."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> None:
        self.folder, self.patch, self.captured = folder, patch, captured

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self.captured.readouterr()
        self.patch.setattr(sys, "argv", ["keylane", *map(str, arguments)])
        return _run(), *self.captured.readouterr()

    def json(self, name: str, *arguments: object) -> tuple[int, dict[str, Any]]:
        """Exit code and document, which has to fit the published schema."""
        code, out, err = self(name, *arguments, "-o", "json")
        assert out, err
        document: dict[str, Any] = json.loads(out)
        schema = json.loads(files("keylane").joinpath("schemas", f"{name}.json").read_text("utf-8"))
        Draft202012Validator(schema).validate(document)
        return code, document

    def contract(self, given: Contract) -> Path:
        path = self.folder / f"{given.fingerprint[-8:]}.yaml"
        path.write_text(json.dumps(given.model_dump(mode="json", by_alias=True, exclude_none=True)))
        return path


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, monkeypatch, capsys)


@pytest.fixture
def topics(broker: Cluster, topic: Callable[..., str]) -> Topics:
    return Topics.made(broker, topic)


def test_a_clean_history_is_certified(topics: Topics) -> None:
    topics.write(topics.fill(rows_of(600, nulls=25)))
    found = topics.verify()
    assert found.ok, found.verdict.violations
    assert (found.verdict.facts["ok"], found.verdict.records, found.verdict.facts["dead"]) == (600, 576, 24)
    assert set(RULES) - set(found.rules) == {"two_owners", "early_applies", "offset_gaps", "unsorted"}
    assert (found.remarks, found.unproven, found.verdict.facts["compared"]) == ((), (), 600)
    lanes = found.verdict.lanes
    assert [lane.lane for lane in lanes] == list(range(LANES))
    # Markers and what was aborted stand between the records of a lane, and are nobody's loss.
    assert all(lane.last - lane.first + 1 > 2 * lane.records for lane in lanes)


def test_keys_in_two_partitions_of_the_source_are_counted_and_not_certified(topics: Topics) -> None:
    """Two keys of a second writer with another partitioner; one of them goes back in time in its lane."""
    rows = [(0, b"a", b"1"), (0, b"b", b"2"), (1, b"a", b"3"), (1, b"b", b"4"), (0, b"c", b"5")]
    first, second, *others = topics.fill(rows)
    behind = next(one for one in others if one.key == first.key)
    others.remove(behind)
    topics.write([behind, first, second, *others])
    found = topics.verify()
    assert (found.outcome, found.broken) == ("not proven", False), found.verdict.violations
    (why,) = [one for one in found.unproven if one.rule == "reordered"]
    assert why.records == 4
    assert {"several": 2, "backward": 1}.items() <= dict(found.verdict.facts).items()


def test_an_epoch_that_is_not_the_contracts_is_not_proven(topics: Topics) -> None:
    """None of them is below one before it, so that no order of epochs is broken."""
    topics.write([replace(one, epoch=7) for one in topics.fill(rows_of(60))])
    found = topics.verify()
    assert (found.outcome, [(one.rule, one.records) for one in found.unproven]) == (
        "not proven",
        [("stale_epochs", 60)],
    )


def lost(messages: list[Message]) -> None:
    del messages[100:107]


def lost_letter(messages: list[Message]) -> None:
    messages.remove(next(one for one in messages if one.topic))


def invented(messages: list[Message]) -> None:
    messages.append(replace(messages[11], source=f"{str(messages[11].source).rpartition('/')[0]}/99999"))


def another_key(messages: list[Message]) -> None:
    messages[5] = replace(messages[5], key=b"key-99")


def duplicated(messages: list[Message]) -> None:
    messages += [replace(one) for one in messages[-3:]]


def reordered(messages: list[Message]) -> None:
    """Two records of one key that stand in each other's place."""
    at = [n for n, one in enumerate(messages) if one.key == b"key-3"][4:6]
    messages[at[0]], messages[at[1]] = messages[at[1]], messages[at[0]]


def split_key(messages: list[Message]) -> None:
    """One record of a key is in another lane: misrouted, and its key split."""
    at = next(n for n, one in enumerate(messages) if one.key == b"key-5")
    messages[at] = replace(messages[at], lane=(messages[at].lane + 1) % LANES)


def misrouted(messages: list[Message]) -> None:
    """All records of a key are in another lane: not split."""
    for n, one in enumerate(messages):
        if one.key == b"key-6":
            messages[n] = replace(one, lane=(one.lane + 1) % LANES)


def stale_epoch(messages: list[Message]) -> None:
    """The middle of the log is of a later epoch than what comes after it; of the same placement."""
    for n in range(200, 300):
        messages[n] = replace(messages[n], epoch=2)


def nulled_key(messages: list[Message]) -> None:
    messages[5] = replace(messages[5], key=None)


def every_key_nulled(messages: list[Message]) -> None:
    """All in one lane, in reverse, without their keys: as a copy that lost everything but the positions."""
    lanes = [replace(one, key=None, lane=0) for one in messages if not one.topic]
    messages[:] = [*lanes[::-1], *(one for one in messages if one.topic)]


def changed_value(messages: list[Message]) -> None:
    value = messages[5].value or b""
    messages[5] = replace(messages[5], value=value[:-1] + bytes([value[-1] ^ 1]))


def nulled_value(messages: list[Message]) -> None:
    messages[5] = replace(messages[5], value=None)


def changed_time(messages: list[Message]) -> None:
    messages[5] = replace(messages[5], time=messages[5].time + 1)


def added_header(messages: list[Message]) -> None:
    messages[5] = replace(messages[5], more=(("trace", b"1"),))


def header_behind(messages: list[Message]) -> None:
    messages[5] = replace(messages[5], behind=(("trace", b"1"),))


def changed_letter(messages: list[Message]) -> None:
    at = next(n for n, one in enumerate(messages) if one.topic)
    messages[at] = replace(messages[at], value=b"{}")


def doubled_letter(messages: list[Message]) -> None:
    messages.append(next(one for one in messages if one.topic))


def exchanged_positions(messages: list[Message]) -> None:
    """Two records of one key say that they are each other."""
    one, other = [n for n, message in enumerate(messages) if message.key == b"key-3"][4:6]
    sources = messages[one].source, messages[other].source
    messages[other], messages[one] = (
        replace(messages[n], source=s) for n, s in zip((other, one), sources, strict=True)
    )


FAULTS: dict[Callable[[list[Message]], None], dict[str, int]] = {
    lost: {"lost": 7},
    lost_letter: {"lost": 1},
    invented: {"invented": 1},
    another_key: {"invented": 1, "changed": 1},
    duplicated: {"duplicated": 3},
    reordered: {"reordered": 1},
    split_key: {"split_keys": 1, "misrouted": 1},
    misrouted: {"misrouted": 45},
    stale_epoch: {"stale_epochs": 293},
    nulled_key: {"invented": 1, "changed": 1},
    every_key_nulled: {"invented": 585, "changed": 585},
    changed_value: {"changed": 1},
    nulled_value: {"changed": 1},
    changed_time: {"changed": 1},
    added_header: {"changed": 1},
    header_behind: {"changed": 1},
    changed_letter: {"changed": 1},
    doubled_letter: {"duplicated": 1},
    exchanged_positions: {"changed": 2, "reordered": 1},
}


#: What others are much like; without a broker all of them are held by tests/history.
ALIKE = (
    *(lost_letter, another_key, misrouted, nulled_key, nulled_value, changed_time, added_header, header_behind),
    *(changed_letter, doubled_letter, exchanged_positions),
)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=pytest.mark.faults if fault in ALIKE else (), id=fault.__name__) for fault in FAULTS],
)
def test_a_planted_fault_is_found_and_counted(fault: Callable[[list[Message]], None], topics: Topics) -> None:
    messages = topics.fill(rows_of(600, nulls=40))
    fault(messages)
    topics.write(messages)
    found = topics.verify()
    counts = {rule: count for rule, count in found.verdict.counts.items() if count}
    if fault in {another_key, nulled_key, every_key_nulled}:
        # Where such a key belongs is another matter.
        counts = {rule: count for rule, count in counts.items() if rule in FAULTS[fault]}
    assert counts == FAULTS[fault]
    assert not found.ok


@pytest.mark.faults
@pytest.mark.parametrize("dropped", ["contract", "epoch"])
def test_a_record_without_its_contract_or_epoch_is_not_proven(dropped: str, topics: Topics) -> None:
    messages = topics.fill(rows_of(60))

    class Bare(Message):
        def headers(self) -> list[tuple[str, bytes]]:
            return [one for one in super().headers() if one[0] != f"keylane.{dropped}"]

    messages[7] = Bare(**vars(messages[7]))
    topics.write(messages)
    found = topics.verify()
    assert (found.outcome, [(one.rule, one.records) for one in found.unproven]) == ("not proven", [("stale_epochs", 1)])


def test_a_fault_ends_the_command_with_4_and_what_it_prints_is_valid(topics: Topics, command: Command) -> None:
    messages = topics.fill(rows_of(200))
    topics.write(messages[:150])
    source, target = topics.address(topics.source), topics.address(topics.target)
    said = ["--source", source, "--target", target, "-c", command.contract(topics.agreed)]
    code, document = command.json("verify", *said)
    assert (code, document["ok"], document["lost"], document["records"]) == (4, False, 50, 150)
    assert document["violations"][0]["source"].startswith(f"{topics.source}/")
    topics.write(messages[150:])
    code, document = command.json("verify", *said)
    assert (code, document["ok"], document["sent"], document["records"]) == (0, True, 200, 200)
    assert document["fingerprint"] == topics.agreed.fingerprint
    assert all(0 <= lane["first"] <= lane["last"] for lane in document["lanes"])


def test_what_was_aborted_shows_only_to_those_who_ask_for_it(topics: Topics) -> None:
    topics.write(topics.fill(rows_of(120)))
    assert topics.verify().ok
    found = topics.verify(said={"properties": (("isolation.level", "read_uncommitted"),)})
    assert found.verdict.counts["duplicated"] == 120


def test_records_whose_commit_is_on_its_way_are_waited_for(topics: Topics) -> None:
    """The marker of a commit comes to a lane after the commit was acknowledged. Twin: nobody commits."""
    held = Producer({**librdkafka_settings(topics.broker), "transactional.id": f"{topics.target}-late"})
    held.init_transactions(30)
    held.begin_transaction()
    held.produce(topics.target, b"value", b"key", 0)
    held.flush(30)
    with cluster.open_cluster(kafka_access(topics.broker.bootstrap)) as asked:
        open_still = asked.settled_ranges(topics.target, 1)[0]
        commit = threading.Timer(1, held.commit_transaction)
        commit.start()
        settled = asked.settled_ranges(topics.target, 1)[0]
        commit.join()
    assert (open_still.end, open_still.high) == (0, 1)
    # 1 where the marker came between the two questions: it is no record, and the committed one is below.
    assert settled.end == settled.high >= 1


@pytest.mark.faults
def test_an_open_transaction_is_reported_and_not_waited_for(topics: Topics) -> None:
    messages = topics.fill(rows_of(120))
    topics.write(messages[:100])
    held = Producer({**librdkafka_settings(topics.broker), "transactional.id": f"{topics.target}-held"})
    held.init_transactions(30)
    held.begin_transaction()
    held.produce(topics.target, b"not yet", b"key-1", 2)
    assert held.flush(30) == 0
    try:
        topics.write(messages[100:])
        found = topics.verify()
        assert found.outcome == "not proven", found.verdict.violations
        behind = sum(one.lane == 2 for one in messages[100:])
        assert [(one.rule, one.records) for one in found.unproven] == [("duplicated", None), ("lost", behind)]
        assert all(f"open in 1 lane of {topics.target}" in one.why for one in found.unproven)
    finally:
        held.abort_transaction(30)
    assert topics.verify().outcome == "certified"


@pytest.mark.faults
def test_a_topic_that_grew_is_held_to_the_lanes_of_its_contract(topics: Topics) -> None:
    topics.write(topics.fill(rows_of(200)))
    topics.grow(LANES + 3)
    assert topics.verify().ok
    messages = topics.fill([(0, b"key-0", b"late")])
    topics.write(
        [replace(messages[0], source=f"{topics.source}/0/{topics.size(topics.source, 0) - 1}", lane=LANES + 1)]
    )
    counts = topics.verify().verdict.counts
    assert (counts["misrouted"], counts["split_keys"], counts["lost"]) == (1, 1, 0)


@pytest.mark.faults
def test_a_live_contract_goes_by_the_lanes_that_the_topic_has(topics: Topics) -> None:
    live = contract(topics.target, "live")
    messages = [replace(one, fingerprint=live.fingerprint) for one in topics.fill(rows_of(200))]
    topics.write(messages)
    assert topics.verify(live).ok
    topics.grow(LANES + 3)
    assert topics.verify(live).verdict.counts["misrouted"] > 0
    assert topics.verify(live, lanes=LANES).ok


@pytest.mark.faults
def test_a_new_epoch_may_move_keys_and_an_old_one_may_not_come_back(topics: Topics) -> None:
    """Records of another version of the contract keep the order of their lane; their lanes are not recomputed."""
    messages = topics.fill(rows_of(300))
    moved = [replace(one, lane=(one.lane + 1) % LANES, fingerprint="before") for one in messages[:150]]
    topics.write([*moved, *(replace(one, epoch=2) for one in messages[150:])])
    found = topics.verify()
    assert found.outcome == "not proven"
    assert [(one.rule, one.records) for one in found.unproven] == [("misrouted", 150)]
    topics.write([replace(moved[0])])
    counts = {rule: count for rule, count in topics.verify().verdict.counts.items() if count}
    assert counts == {"duplicated": 1, "stale_epochs": 1}


def test_a_target_of_another_contract_is_refused(topics: Topics, command: Command) -> None:
    messages = topics.fill(rows_of(100, nulls=20))
    topics.write([replace(one, fingerprint="before") for one in messages[:60]])
    with pytest.raises(UsageError, match="made under another contract"):
        topics.verify()
    source, target = topics.address(topics.source), topics.address(topics.target)
    said = ["--source", source, "--target", target, "-c", command.contract(topics.agreed)]
    assert command("verify", *said)[0] == 2
    # One record of the contract's own, and it is a target of several epochs.
    topics.write(messages[60:])
    assert topics.verify().outcome == "not proven"
    assert command("verify", *said)[0] == 4


def test_empty_topics_are_not_certified_and_what_they_lost_is_counted(topics: Topics) -> None:
    found = topics.verify()
    assert (found.ok, found.verdict.records) == (False, 0)
    topics.fill(rows_of(20))
    assert topics.verify().verdict.counts["lost"] == 20


def test_a_full_target_of_an_empty_source_is_invented(
    topics: Topics, topic: Callable[..., str], command: Command
) -> None:
    topics.write(topics.fill(rows_of(60)))
    source, target = topics.address(topic(3, "empty")), topics.address(topics.target)
    code, found = command.json("verify", "--source", source, "--target", target)
    assert (code, found["ok"], found["sent"], found["invented"]) == (4, False, 0, 60)


@pytest.mark.faults
def test_expired_records_of_a_source_are_reported_and_not_invented(topics: Topics) -> None:
    messages = topics.fill(rows_of(300))
    topics.write(messages)
    topics.forget(topics.source, 0, 50)
    found = topics.verify()
    assert found.outcome == "not proven"
    assert {(one.rule, one.records) for one in found.unproven} == {("lost", 50), ("changed", 50)}
    assert (found.verdict.facts["unknown_read"], found.verdict.facts["ok"]) == (50, 250)
    (remark,) = found.remarks
    assert "1 lane of the source" in remark
    # A reader that is on its way to them is told.
    with pytest.raises(DataError, match="while it was read"):
        list(TopicReader(WantedColumns(), kafka_access(topics.broker.bootstrap)).chunks(topics.source, 0, 0, 90))
    # What it still has is held as before.
    topics.write([replace(messages[-1], source=f"{topics.source}/0/99999")])
    assert topics.verify().verdict.counts["invented"] == 1


@pytest.mark.faults
def test_what_a_target_has_forgotten_counts_as_lost(topics: Topics) -> None:
    topics.write(topics.fill(rows_of(300)))
    topics.forget(topics.target, 1, 60)
    found = topics.verify()
    assert found.verdict.counts["lost"] > 0
    assert any("count as lost" in remark for remark in found.remarks)


@pytest.mark.faults
def test_a_compacted_source_vouches_for_what_is_left(broker: Cluster, topic: Callable[..., str]) -> None:
    topics = Topics.made(broker, topic, cleanup_policy="compact")
    messages = topics.fill(rows_of(100))
    topics.write([*messages, replace(messages[3], source=f"{topics.source}/0/99999")])
    found = topics.verify()
    assert found.verdict.counts["invented"] == 0
    assert found.verdict.facts["unknown_read"] == 1
    assert any("compacted" in remark for remark in found.remarks)


@pytest.mark.faults
def test_marked_rewinds_are_allowed_where_records_may_repeat(topics: Topics) -> None:
    messages = topics.fill(rows_of(200))
    again = [replace(one, attempt=2) for one in messages[100:]]
    topics.write([*messages[:180], *again])
    assert not topics.verify().ok
    found = topics.verify(mode="at-least-once")
    assert found.ok, found.verdict.violations
    assert found.verdict.facts["repeats"] == 80
    topics.write([replace(one, attempt=1) for one in again[-20:]])
    assert topics.verify(mode="at-least-once").verdict.counts["duplicated"] == 20


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        (b"null-key", 1),
        pytest.param(b"malformed-key", 1, marks=pytest.mark.faults),
        pytest.param(b"malformed-record", 1, marks=pytest.mark.faults),
        pytest.param(None, 1, marks=pytest.mark.faults),
        (b"parked-key", 0),
    ],
)
def test_a_dead_letter_that_has_a_lane_is_misrouted(reason: bytes | None, found: int, topics: Topics) -> None:
    messages = topics.fill(rows_of(60, nulls=10))
    # Of two reasons the last counts: a dead letter may come from the dead letters of another route.
    told = (("__keylane.errors.reason", b"parked-key"), ("__keylane.errors.reason", reason)) if reason else ()
    messages[7] = replace(messages[7], lane=0, topic=f"{topics.target}.dlq", more=told)
    topics.write(messages)
    counts = {rule: count for rule, count in topics.verify().verdict.counts.items() if count}
    # The first of two reasons is a header that its source would have to have, too.
    assert counts.pop("changed", 0) == (1 if reason else 0)
    assert counts == ({"misrouted": 1} if found else {})
    assert topics.verify(None).verdict.counts["misrouted"] == 0


@pytest.mark.faults
def test_a_dead_letter_whose_value_could_not_be_read_is_not_judged(topics: Topics) -> None:
    agreed = contract(topics.target, LANES, **{"fields: [key]": "fields: [merchant]"})
    letter = (("__keylane.errors.reason", b"malformed-record"),)
    dead: dict[str, Any] = {"lane": 0, "topic": f"{topics.target}.dlq", "fingerprint": agreed.fingerprint}
    messages = [replace(one, **dead, more=letter) for one in topics.fill(rows_of(5))]
    topics.write(messages)
    as_json = {"value": "json"}
    said = topics.verify(agreed, said=as_json)
    assert [(one.rule, one.records) for one in said.unproven] == [("misrouted", 5)]
    found = topics.fill(rows_of(1))[0]
    undeserved = (("__keylane.errors.reason", b"null-key"),)
    topics.write([replace(found, **dead, more=undeserved, source=f"{topics.source}/0/2")])
    assert topics.verify(agreed, said=as_json).verdict.counts["misrouted"] == 1


@pytest.mark.parametrize("blind", [False, True], ids=["", "twin"])
def test_a_value_that_cannot_be_read_has_no_lane(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, *, blind: bool
) -> None:
    """As a null key it would be placed by position, and be certified there; the route sets it aside."""
    by_position = {"fields: [key], on_null: reject": "fields: [merchant], on_null: sticky"}
    agreed = contract(topics.target, LANES, **by_position)
    router = Router(agreed)
    rows = [(0, b"k", b'{"merchant": "m-%d"}' % n) for n in range(5)] + [(0, b"k", b'{"merchant": ')]
    fields = [{"merchant": f"m-{n}"} for n in range(5)] + [{"merchant": None}]
    lanes = [router.lane(record, position=at) or 0 for at, record in enumerate(fields)]
    filled = topics.fill(rows)
    topics.write(
        replace(one, lane=lane, fingerprint=agreed.fingerprint) for one, lane in zip(filled, lanes, strict=True)
    )
    if blind:
        read = TopicFields.read
        monkeypatch.setattr(TopicFields, "read", lambda *given: (read(*given)[0], np.zeros(len(given[1]), bool)))
    found = topics.verify(agreed, said={"value": "json"})
    assert (found.outcome, found.verdict.counts["misrouted"]) == (("certified", 0) if blind else ("broken", 1))


def state_of(topics: Topics, folder: Path, out: int, dead: int, planned: int = 0) -> str:
    """The state of a route that has done batch 0, and planned as far as it is said."""
    agreed, counts = topics.agreed, Counts(out + dead, out, dead, 0)
    source, target = topics.address(topics.source), topics.address(topics.target)
    lanes = {topics.target: LANES}
    head = RouteHead(agreed.metadata.name, agreed.metadata.epoch, agreed.fingerprint, source, target, lanes)
    with open_state(folder, head) as state:
        state.write_done(replace(state.last(), batch=0, counts=counts, total=counts))
        for batch in range(planned + 1):
            state.write_plan(BatchPlan(batch, lanes, 0, 0.0))
    return str(folder)


@pytest.mark.faults
def test_the_account_of_a_state_leaves_repeats_out(topics: Topics, tmp_path: Path) -> None:
    messages = topics.fill(rows_of(200, nulls=20))
    again = [replace(one, attempt=2) for one in messages[100:]]
    topics.write([*messages[:180], *again])
    found = topics.verify(mode="at-least-once", said={"state": state_of(topics, tmp_path / "s", 190, 10)})
    assert (found.ok, found.miscounted) == (True, ())
    found = topics.verify(mode="at-least-once", said={"state": state_of(topics, tmp_path / "t", 191, 9)})
    assert [re.findall(r"out|dead|\d+", text) for text in found.miscounted] == [
        ["out", "191", "190"],
        ["dead", "9", "10"],
    ]
    assert len(topics.verify(said={"state": str(tmp_path / "s")}).miscounted) == 2


def test_a_route_that_is_not_done_is_not_judged_by_its_account(
    topics: Topics, tmp_path: Path, command: Command
) -> None:
    topics.write(topics.fill(rows_of(40)))
    said = ["--source", topics.address(topics.source), "--target", topics.address(topics.target)]
    code, out, err = command("verify", *said, "--state", state_of(topics, tmp_path / "s", 20, 0, planned=1))
    assert (code, out) == (1, "")
    assert "batch 1" in err
    assert "then verify" in err
    assert command("verify", *said, "-c", command.contract(topics.agreed))[0] == 0


@pytest.mark.parametrize("behind", [(), (("own", b"1"),)], ids=["short way", "long way"])
@pytest.mark.faults
def test_a_mark_of_an_earlier_route_is_none_of_this_one(topics: Topics, behind: tuple[tuple[str, bytes], ...]) -> None:
    """What passed a route at least once before keeps its header: before this route's, and no mark of it."""
    told = {"source": b"before/0/1", "contract": b"0", "epoch": b"1", "attempt": b"2"}
    stale = tuple((f"keylane.{name}", value) for name, value in told.items())
    messages = [replace(one, more=stale, behind=behind) for one in topics.fill(rows_of(60))]
    topics.write([*messages, *messages[40:]])
    assert topics.verify(mode="at-least-once").verdict.counts["duplicated"] == 20
    topics.write([replace(one, attempt=3) for one in messages[50:]])
    assert topics.verify(mode="at-least-once").verdict.counts["duplicated"] == 20


@pytest.mark.faults
def test_tiers_are_topics_of_their_own(topics: Topics, topic: Callable[..., str]) -> None:
    tier = topic(2, "tier")
    rule = f"  hot_keys: [{{keys: [key-4], tier: {{stream: {tier}, lanes: 2}}}}]\n"
    agreed = contract(topics.target, LANES, **{"  partitioner:": f"{rule}  partitioner:"})
    router = Router(agreed)
    messages = [replace(one, fingerprint=agreed.fingerprint) for one in topics.fill(rows_of(200))]
    hot = {n: router.placed({"key": one.key}) for n, one in enumerate(messages) if one.key == b"key-4"}
    placed = [replace(one, topic=tier, lane=hot[n].lane or 0) if n in hot else one for n, one in enumerate(messages)]
    topics.write(placed)
    found = topics.verify(agreed)
    assert found.ok, found.verdict.violations
    assert sum(lane.records for lane in found.verdict.lanes if lane.stream == tier) == len(hot)
    topics.write([replace(messages[4], topic=tier, lane=hot[4].lane or 0)])
    assert topics.verify(agreed).verdict.counts["duplicated"] == 1


@pytest.mark.faults
def test_fields_of_values_are_decoded_as_they_are_for_a_route(topics: Topics) -> None:
    agreed = contract(topics.target, LANES, **{"fields: [key]": "fields: [merchant]"})
    router = Router(agreed)
    messages = [
        replace(one, lane=router.lane(json.loads(one.value or b"")) or 0, fingerprint=agreed.fingerprint)
        for one in topics.fill(rows_of(200))
    ]
    topics.write(messages)
    with pytest.raises(UsageError, match="values"):
        topics.verify(agreed)
    as_json = {"value": "json"}
    assert topics.verify(agreed, said=as_json).ok
    topics.write([replace(messages[0], value=b'{"merchant": "m-77"}')])
    assert topics.verify(agreed, said=as_json).verdict.counts["invented"] == 1


def test_a_record_that_does_not_say_where_it_came_from_is_an_error(topics: Topics) -> None:
    messages = topics.fill(rows_of(10))
    topics.write([*messages, replace(messages[0], source=None)])
    with pytest.raises(DataError, match="no position in the source"):
        topics.verify()


@pytest.mark.faults
def test_files_into_a_topic(topics: Topics, tmp_path: Path) -> None:
    """The key of such a record is the routing key; its source is a file and a row."""
    agreed = contract(topics.target, LANES, **{"fields: [key]": "fields: [merchant]"})
    router = Router(agreed)
    table = pa.table({"merchant": [f"m-{n % 13}" for n in range(300)], "n": range(300)})
    pq.write_table(table, tmp_path / "a.parquet")
    messages = [
        Message(
            router.lane(row) or 0,
            row["merchant"].encode(),
            json.dumps(row).encode(),
            f"a.parquet/{n}",
            agreed.fingerprint,
        )
        for n, row in enumerate(table.to_pylist())
    ]
    topics.write(messages[:-1])
    target = topics.address(topics.target)
    assert verify(str(tmp_path), target, agreed).verdict.counts["lost"] == 1
    topics.write(messages[-1:])
    found = verify(str(tmp_path), target, agreed)
    assert found.ok, (found.verdict.violations, found.unproven)
    assert verify(str(tmp_path), target).outcome == "not proven"
    topics.write([replace(messages[0], value=b'{"merchant": "m-0", "n": 7}')])
    assert verify(str(tmp_path), target, agreed).verdict.counts["changed"] == 1
    topics.write([replace(messages[0], lane=(messages[0].lane + 1) % LANES)])
    counts = verify(str(tmp_path), target, agreed).verdict.counts
    assert (counts["duplicated"], counts["misrouted"], counts["split_keys"]) == (2, 1, 1)


@pytest.mark.faults
def test_the_same_verdict_on_spark(topics: Topics, spark: SparkSession) -> None:
    messages = topics.fill(rows_of(600, nulls=40))
    lost(messages)
    reordered(messages)
    topics.write(messages)
    here, there = topics.verify(), topics.verify(engine="spark", spark=spark)
    assert here.verdict == there.verdict
    assert here.verdict.counts["lost"] == 7


def test_what_is_sent_to_workers_holds_no_secret(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "s3cret-canary")
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "app", "sasl.password": "${env:CANARY}"}
    access = kafka_access(topics.broker.bootstrap, {"security.protocol": "SASL_PLAINTEXT", **login}.items())
    reader = TopicReader(WantedColumns(headers=True), access)
    assert "s3cret-canary" in str(access.librdkafka())
    sent = pickle.dumps(reader)
    assert b"s3cret-canary" not in sent
    assert b"${env:CANARY}" in sent
    assert pickle.loads(sent).access == access


def test_a_connection_stays_behind_when_a_reader_is_sent_away(topics: Topics) -> None:
    topics.fill(rows_of(30))
    reader, size = TopicReader(WantedColumns(), kafka_access(topics.broker.bootstrap)), topics.size(topics.source, 0)
    assert sum(map(len, reader.chunks(topics.source, 0, 0, size))) == size
    again = pickle.loads(pickle.dumps(reader))
    assert sum(map(len, again.chunks(topics.source, 0, 3, size))) == size - 3


@pytest.mark.faults
def test_a_range_ends_where_it_was_set_to(topics: Topics) -> None:
    """Also in the middle of what is there, and where its end is in a gap."""
    topics.write(topics.fill(rows_of(200)), at_once=20)
    reader, size = TopicReader(WantedColumns(), kafka_access(topics.broker.bootstrap)), topics.size(topics.target, 1)
    whole = [at for chunk in reader.chunks(topics.target, 1, 0, size) for at in chunk.offsets]
    cuts = [*range(0, size, 7), size]
    pieces = [
        at
        for low, high in pairwise(cuts)
        for chunk in reader.chunks(topics.target, 1, low, high)
        for at in chunk.offsets
    ]
    assert pieces == whole
    assert len(whole) < size / 2


def test_missing_topics_and_brokers_are_reported_in_time(
    topics: Topics, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PAUSES", (0.1,))
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 2.0)
    source, target = topics.address(topics.source), topics.address(topics.target)
    with pytest.raises(DataError, match=r"topic .*got 'none'"):
        verify(topics.address("none"), target)
    with pytest.raises(TargetError, match=r"topic .*got 'none'"):
        verify(source, topics.address("none"))
    with pytest.raises(TargetError, match=r"topic .*got 'nowhere'"):
        topics.verify(said={"dead_letters": "nowhere"})
    code, out, err = command("verify", "--source", "kafka://127.0.0.1:9/t", "--target", "kafka://127.0.0.1:9/u")
    assert (code, out) == (1, "")
    assert "no broker answers at 127.0.0.1:9" in err


def test_identify_and_check_read_topics(topics: Topics, command: Command) -> None:
    topics.write(topics.fill(rows_of(3000, keys=700)))
    target = topics.address(topics.target)
    code, found = command.json("identify", target)
    assert (code, found["verdict"], found["lanes"], found["rows"]) == (0, "one-writer", LANES, 3000)
    assert "kafka-java" in (found["writers"][0]["partitioner"], *found["writers"][0]["also"])
    agreed = command.contract(topics.agreed)
    code, found = command.json("check", agreed, "--data", target)
    assert (code, found["ok"], found["data"]["rows"], found["data"]["misplaced"]) == (0, True, 3000, 0)
    # The only key field of a contract is the record's key, whatever it is called; with --value it is in the value.
    by_field = command.contract(contract(topics.target, "live", **{"fields: [key]": "fields: [merchant]"}))
    assert command.json("check", by_field, "--data", target)[0] == 0
    code, found = command.json("check", by_field, "--data", target, "--value", "json")
    assert (code, found["ok"]) == (4, False)
    topics.write([Message(n % LANES, b"key-%d" % n, b"", "x/0/0", "") for n in range(50)])
    code, found = command.json("check", agreed, "--data", target)
    assert code == 4
    assert found["data"]["misplaced"] > 20


@pytest.mark.faults
def test_check_compares_topics(topics: Topics, command: Command) -> None:
    topics.write(topics.fill(rows_of(3000, keys=700)))
    source, target = topics.address(topics.source), topics.address(topics.target)
    code, found = command.json("check", target, target)
    assert (code, found["shared_keys"], found["disagreeing_keys"]) == (0, 700, 0)
    assert command.json("check", source, target)[0] == 4
    code, _, err = command("check", topics.address("none"), target)
    assert (code, "no such topic" in err) == (1, True)

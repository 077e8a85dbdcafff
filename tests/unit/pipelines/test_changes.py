"""A saved plan as a route follows it: which plans lead where, and what a state makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.worlds import face

from keylane import load_contract
from keylane.errors import KeylaneError, TargetError, UsageError
from keylane.pipelines.changes import change_of, with_change
from keylane.systems.endpoint import ContractChange, StreamOptions, parse_address
from keylane.systems.flow import Origin
from keylane.systems.messages.state import BatchDone, BatchPlan, RouteHead, open_state
from keylane.systems.messages.target import begun_route

if TYPE_CHECKING:
    from pathlib import Path

    from keylane import Contract

OPTIONS = StreamOptions()
SOURCE, TARGET = "kafka://b:9092/raw", parse_address("kafka://b:9092/payments")


def contract(folder: Path, epoch: int, lanes: int) -> Contract:
    path = folder / f"{epoch}.yaml"
    path.write_text(
        f"apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {{name: payments, epoch: {epoch}}}\n"
        f"spec: {{streams: [payments], lanes: {lanes}, key: {{fields: [key]}}, partitioner: kafka-java}}\n"
    )
    return load_contract(path)


def begun(folder: Path, by: Contract, *, half: bool = False) -> StreamOptions:
    """A state that has done batch 0, and begun batch 1 where that is asked for."""
    topics = {"payments": int(by.spec.lanes)}
    head = RouteHead(
        "payments", by.metadata.epoch, by.fingerprint, SOURCE, str(TARGET), topics, topic_ids={"payments": "i"}
    )
    with open_state(folder / "state", head) as state:
        state.write_plan(BatchPlan(0, topics, 0, 1.0, offsets="o"))
        state.write_done(replace(BatchDone.before_all(head), batch=0, offsets="o"))
        if half:
            state.write_plan(BatchPlan(1, topics, 0, 1.0, offsets="p"))
    return replace(OPTIONS, state=str(folder / "state"))


def follow(
    by: Contract, options: StreamOptions, change: ContractChange | None
) -> tuple[ContractChange | None, int | None]:
    found = begun_route(by, Origin(SOURCE), TARGET, replace(options, after=change), lambda _: None)
    return found.followed, found.to_finish


def test_a_route_follows_the_change_from_its_contract_to_the_given_one(tmp_path: Path) -> None:
    old, new = contract(tmp_path, 1, 4), contract(tmp_path, 2, 6)
    options = begun(tmp_path, old)
    change = ContractChange("plan.json", old.fingerprint, new.fingerprint, old_stream="payments", new_stream="payments")
    assert follow(old, options, None) == (None, None)
    with pytest.raises(TargetError, match=r"another version of this contract.*--after PLAN"):
        follow(new, options, None)
    assert follow(new, options, change) == (change, None)
    head = RouteHead("payments", 2, new.fingerprint, SOURCE, str(TARGET), {"payments": 6}, topic_ids={"payments": "i"})
    with open_state(tmp_path / "state", head, change) as state:
        assert (state.head.epoch, state.head.topics, state.last().lanes) == (2, {"payments": 6}, {"payments": [0] * 6})
    assert follow(new, options, change) == (None, None), "it is there already"
    assert follow(new, options, None) == (None, None)
    with pytest.raises(TargetError, match="gone on under a later epoch"):
        follow(old, options, None)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("unfinished", "it is at holding", TargetError),
        ("old", "of another plan", TargetError),
        ("new", "of another plan", TargetError),
        ("new_stream", "another", UsageError),
    ],
)
def test_a_plan_that_does_not_lead_there_is_refused(
    tmp_path: Path, field: str, value: str, error: type[KeylaneError]
) -> None:
    old, new = contract(tmp_path, 1, 4), contract(tmp_path, 2, 6)
    change = ContractChange("plan.json", old.fingerprint, new.fingerprint, old_stream="payments", new_stream="payments")
    with pytest.raises(error):
        follow(new, begun(tmp_path, old), replace(change, **{field: value}))


def test_a_batch_that_is_half_there_is_finished_first(tmp_path: Path) -> None:
    old, new = contract(tmp_path, 1, 4), contract(tmp_path, 2, 6)
    options = begun(tmp_path, old, half=True)
    change = ContractChange("plan.json", old.fingerprint, new.fingerprint, "old.yaml", "payments", "payments")
    with pytest.raises(
        TargetError, match=r"batch 1 .*keylane route old\.yaml .*--after plan\.json finishes that batch"
    ):
        follow(new, options, change)
    assert follow(old, options, change) == (None, 1)


def test_nothing_begun_and_nothing_to_finish(tmp_path: Path) -> None:
    old, new = contract(tmp_path, 1, 4), contract(tmp_path, 2, 6)
    change = ContractChange("plan.json", old.fingerprint, new.fingerprint)
    with pytest.raises(UsageError, match="no route that could go on"):
        follow(new, replace(OPTIONS, state=str(tmp_path / "none")), change)
    with pytest.raises(UsageError, match="no batch is left to finish"):
        follow(old, begun(tmp_path, old), change)


def test_an_applied_plan_is_followed_once_its_contract_is_in_place(tmp_path: Path) -> None:
    keys = [f"m-{n % 300}" if n % 4 else "m-42" for n in range(8_000)]
    pq.write_table(pa.table({"key": keys}), tmp_path / "payments.parquet")
    old = contract(tmp_path, 1, 12)
    words = ["plan", "payments.parquet", "--contract", "1.yaml", "--lanes", "24", "--out", "plan.json"]
    planned = face.run(words, folder=tmp_path)
    assert planned.code == 3, planned.err
    plan = tmp_path / "plan.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        before = change_of(plan, None, OPTIONS)
        assert before.unfinished
        assert face.run(["apply", "plan.json", "--yes"], folder=tmp_path).code == 0
        after = change_of(plan, None, OPTIONS)
    assert (after.unfinished, after.old, after.new) == (
        "",
        old.fingerprint,
        load_contract(tmp_path / "1.yaml").fingerprint,
    )


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(UsageError, match="not a saved plan"):
        with_change(OPTIONS, [str(tmp_path / "other.json")], None)
    with pytest.raises(UsageError, match="--after PLAN"):
        with_change(OPTIONS, [], "journal")
    assert with_change(OPTIONS, [], None) is OPTIONS


def test_several_plans_are_one_change_where_each_begins_where_the_last_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "1.json": ContractChange("1.json", "a", "b", "a.yaml", "t", "t"),
        "2.json": ContractChange("2.json", "b", "c", "b.yaml", "t", "u", unfinished="it is at holding"),
    }
    monkeypatch.setattr("keylane.pipelines.changes.change_of", lambda path, *_: known[str(path)])
    whole = with_change(OPTIONS, ["1.json", "2.json"], None).after
    assert whole is not None
    assert (whole.old, whole.new, whole.old_stream, whole.new_stream, whole.old_file) == ("a", "c", "t", "u", "a.yaml")
    assert whole.unfinished
    with pytest.raises(UsageError, match="does not begin where"):
        with_change(OPTIONS, ["2.json", "1.json"], None)

"""A plan carried out on a small exact stream in memory: order, records, resumption, and every refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keylane.errors import TargetError, UsageError
from keylane.keyspace.layout import ShardLayout, new_layout
from keylane.plan.shards import ShardGoal, ShardLoad, shards_plan
from keylane.systems import resharding
from keylane.systems.resharding import StreamState, Waiting, carry_out, check_plan, layout_after, open_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.documents.shards import ShardsPlanDocument


class KilledError(Exception):
    """Stands for the end of the process: nothing is recorded after it."""


@dataclass
class Model:
    """A stream that is exact: it refuses what the service refuses, is busy after a call, and others may change it."""

    layout: ShardLayout
    id: str = "arn@1"
    refusal: str = ""
    most: int | None = None
    #: Looks after a call at which the stream is still being changed, and at which its list is still the old one.
    busy_looks: int = 0
    stale_looks: int = 0
    refuse_next: int = 0
    #: A call, from 1 on, before or behind which the process ends.
    die_before: int = 0
    die_behind: int = 0
    beside: Callable[[Model], None] | None = None
    calls: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    now: float = 0.0
    _busy: int = 0
    _stale: int = 0
    _old: ShardLayout | None = None

    def state(self) -> StreamState:
        if self._busy:
            self._busy -= 1
            return StreamState("", ShardLayout(()), active=False)
        shown = self.layout
        if self._stale and self._old is not None:
            self._stale -= 1
            shown = self._old
        return StreamState(self.id, shown, True, self.refusal, self.refusal, self.most)

    def split(self, shard: str, at: int) -> bool:
        return self._call("split", lambda: self.layout.split(shard, at))

    def merge(self, lower: str, upper: str) -> bool:
        return self._call("merge", lambda: self.layout.merge(lower, upper))

    def _call(self, name: str, change: Callable[[], ShardLayout]) -> bool:
        if self.refuse_next:
            self.refuse_next -= 1
            return False
        assert not self._busy
        number = len(self.calls) + 1
        if number == self.die_before:
            raise KilledError
        self._old, self.layout = self.layout, change()
        self.calls.append(name)
        self.times.append(self.now)
        self._busy, self._stale = self.busy_looks, self.stale_looks
        if self.beside is not None:
            self.beside(self)
        if number == self.die_behind:
            raise KilledError
        return True

    def pause(self, seconds: float) -> None:
        self.now += seconds

    @property
    def waiting(self) -> Waiting:
        return Waiting(lambda: self.now, self.pause, 60.0)


def planned(layout: ShardLayout, starts: list[int] | int, stream_id: str | None = None) -> ShardsPlanDocument:
    wanted = new_layout(starts) if isinstance(starts, int) else _cut(starts)
    return shards_plan("s", layout, ShardLoad(None, "none", {}), ShardGoal(to=wanted), stream_id)


def _cut(starts: list[int]) -> ShardLayout:
    from keylane.keyspace.layout import Shard, layout_of

    ends = [*(start - 1 for start in starts[1:]), 2**128 - 1]
    return layout_of(Shard(f"x-{n}", *ends) for n, ends in enumerate(zip(starts, ends, strict=True)))


def applied(plan: ShardsPlanDocument, model: Model, path: Path) -> int:
    with open_record(path, json.dumps(plan.as_json()), "stream") as record:
        return carry_out(plan, model, record, model.waiting).now


def test_every_call_is_made_once_and_the_stream_is_as_planned(tmp_path: Path) -> None:
    model = Model(new_layout(4), busy_looks=3, stale_looks=2)
    plan = planned(model.layout, 3)
    assert applied(plan, model, tmp_path / "record") == len(plan.calls) == 5
    assert model.layout.starts == new_layout(3).starts
    assert applied(plan, model, tmp_path / "record") == 0
    assert len(model.calls) == 5


def test_calls_keep_to_the_rate_of_an_account(tmp_path: Path) -> None:
    model = Model(new_layout(1))
    applied(planned(model.layout, 12), model, tmp_path / "record")
    gaps = [after - before for before, after in pairwise(model.times)]
    assert min(gaps) >= resharding.BETWEEN_CALLS - 1e-9


def test_a_service_that_is_busy_is_asked_again_and_not_for_ever(tmp_path: Path) -> None:
    model = Model(new_layout(2), refuse_next=7)
    assert applied(planned(model.layout, 3), model, tmp_path / "record") == 3
    stuck = Model(new_layout(2), refuse_next=10**9)
    with pytest.raises(TargetError, match="not taken"):
        applied(planned(stuck.layout, 3), stuck, tmp_path / "other")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 40), st.booleans(), st.integers(0, 2))
def test_killed_anywhere_it_goes_on_and_makes_no_call_twice(
    tmp_path_factory: pytest.TempPathFactory, old: int, new: int, at: int, behind: bool, looks: int
) -> None:
    path = tmp_path_factory.mktemp("killed") / "record"
    model = Model(new_layout(old), busy_looks=looks, stale_looks=looks)
    plan = planned(model.layout, new)
    model.die_behind, model.die_before = (at, 0) if behind else (0, at)
    for _ in range(3):
        try:
            applied(plan, model, path)
            break
        except KilledError:
            model.die_before = model.die_behind = 0
    assert model.layout.starts == new_layout(new).starts
    assert len(model.calls) == len(plan.calls)


def foreign(model: Model) -> None:
    """Somebody else splits the last shard while we work."""
    if len(model.calls) == 2:
        last = model.layout.open[-1]
        model.layout = model.layout.split(last.id, last.start + 5)


def test_a_change_by_somebody_else_stops_it_at_once(tmp_path: Path) -> None:
    model = Model(new_layout(4), beside=foreign)
    plan = planned(model.layout, 3)
    with pytest.raises(TargetError, match="not as planned"):
        applied(plan, model, tmp_path / "record")
    assert len(model.calls) == 2
    # And it stays refused.
    model.beside = None
    with pytest.raises(TargetError, match="not as planned"):
        applied(plan, model, tmp_path / "record")
    assert len(model.calls) == 2


def test_an_apply_that_does_not_check_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resharding, "position", lambda _plan, record, _state: record.done + record.begun)
    model = Model(new_layout(4), beside=foreign)
    plan = planned(model.layout, 3)
    applied(plan, model, tmp_path / "record")
    assert model.layout.starts != new_layout(3).starts


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"layout": new_layout(5)}, "not as planned"),
        ({"layout": ShardLayout(tuple(replace(one, id=f"{one.id}x") for one in new_layout(4).shards))}, "ids"),
        ({"id": "arn@2"}, "created again"),
        ({"refusal": "AUTO"}, "AUTO"),
        ({"most": 4}, "quota"),
    ],
)
def test_a_stream_that_is_not_that_of_the_plan_is_refused(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    plan = planned(new_layout(4), 3, "arn@1")
    model = Model(**{"layout": new_layout(4), **change})
    with pytest.raises(TargetError, match=part):
        applied(plan, model, tmp_path / "record")
    assert model.calls == []
    # The twin: as it was, it is taken.
    fine = Model(new_layout(4), most=5)
    assert applied(plan, fine, tmp_path / "fine") == 5


def test_a_stream_that_stops_heeding_keys_stops_it(tmp_path: Path) -> None:
    def switch(model: Model) -> None:
        model.refusal = "AUTO"

    model = Model(new_layout(4), beside=switch)
    with pytest.raises(TargetError, match="AUTO"):
        applied(planned(model.layout, 3), model, tmp_path / "record")
    assert len(model.calls) == 1


def test_a_stream_ahead_of_its_record_is_refused(tmp_path: Path) -> None:
    model = Model(new_layout(4), die_before=4)
    plan = planned(model.layout, 3)
    with pytest.raises(KilledError):
        applied(plan, model, tmp_path / "record")
    with pytest.raises(TargetError, match="after 3 calls of the plan"):
        applied(plan, model, tmp_path / "none")


def test_the_record_of_another_plan_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    model, path = Model(new_layout(4)), tmp_path / "record"
    applied(planned(model.layout, 3), model, path)
    other = Model(new_layout(4))
    with pytest.raises(TargetError, match="another plan"):
        applied(planned(other.layout, 2), other, path)
    path.write_text("{")
    with pytest.raises(TargetError, match="damaged"):
        applied(planned(new_layout(4), 3), Model(new_layout(4)), path)


def test_one_process_applies_a_plan(tmp_path: Path) -> None:
    with (
        open_record(tmp_path / "record", "plan", "s"),
        pytest.raises(TargetError, match="another process"),
        open_record(tmp_path / "record", "plan", "s"),
    ):
        pass


def test_layouts_of_a_plan_end_where_it_leads() -> None:
    plan = planned(new_layout(4), 3)
    found = [layout_after(plan, done) for done in range(len(plan.calls) + 1)]
    assert (found[0], found[-1]) == (new_layout(4).starts, new_layout(3).starts)
    assert all(len(set(one) ^ set(two)) == 1 for one, two in pairwise(found))
    check_plan(plan)


def edited(plan: ShardsPlanDocument, how: str) -> ShardsPlanDocument:
    calls, third = list(plan.calls), str(2**128 // 3)
    merges = [n for n, call in enumerate(calls) if call.call == "MergeShards"]
    if how == "a merge where no boundary is":
        calls[merges[0]] = calls[merges[0]].model_copy(update={"at": str(2**90)})
    elif how == "a merge at 0":
        calls[merges[0]] = calls[merges[0]].model_copy(update={"at": "0"})
    elif how == "a split where a boundary is":
        calls.append(next(call for call in calls if call.call == "SplitShard"))
    elif how == "a split one key wide":
        calls.append(calls[0].model_copy(update={"call": "SplitShard", "at": str(int(third) + 1)}))
    elif how == "a call less":
        del calls[len(calls) // 2]
    elif how == "another order":
        calls.sort(key=lambda call: call.call == "MergeShards")
    elif how == "another place in the arguments":
        split = next(n for n, call in enumerate(calls) if call.call == "SplitShard")
        given = {**calls[split].arguments, "NewStartingHashKey": "77"}
        calls[split] = calls[split].model_copy(update={"arguments": given})
    elif how == "another shard":
        calls[0] = calls[0].model_copy(update={"shards": ["nope", *calls[0].shards[1:]]})
    elif how == "another id for a new shard":
        calls[-1] = calls[-1].model_copy(update={"makes": ["nope", *calls[-1].makes[1:]]})
    return plan.model_copy(update={"calls": calls})


@pytest.mark.parametrize(
    "how",
    [
        "a merge where no boundary is",
        "a merge at 0",
        "a split where a boundary is",
        "a split one key wide",
        "a call less",
        "another order",
        "another place in the arguments",
        "another shard",
        "another id for a new shard",
    ],
)
def test_a_plan_that_does_not_agree_with_itself_is_refused(how: str) -> None:
    with pytest.raises(UsageError, match="does not agree with itself"):
        check_plan(edited(planned(new_layout(8), 6), how))


def test_a_plan_that_is_done_needs_no_record(tmp_path: Path) -> None:
    model = Model(new_layout(4))
    plan = planned(model.layout, 3)
    applied(plan, model, tmp_path / "record")
    made = len(model.calls)
    assert (applied(plan, model, tmp_path / "another"), len(model.calls)) == (0, made)


def test_two_records_are_no_way_to_apply_a_plan_twice_at_once(tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("plan")
    with (
        open_record(tmp_path / "record", "plan", "s", tmp_path / "plan"),
        pytest.raises(TargetError, match="another process"),
        open_record(tmp_path / "other", "plan", "s", tmp_path / "plan"),
    ):
        pass

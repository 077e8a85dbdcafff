"""The state of a route into Kafka without a broker: where it is, whose it is, and what is missing from it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keylane.errors import TargetError, UsageError
from keylane.records import Parked
from keylane.systems.checkpoint import offsets_digest
from keylane.systems.folders.folder import Counts
from keylane.systems.kafka.progress import TargetProgress, check_first, known_routes
from keylane.systems.messages.state import (
    BatchDone,
    BatchPlan,
    RouteHead,
    RouteState,
    check_state,
    default_state,
    open_state,
    parked_digest,
    read_begun,
    state_name,
    with_parked,
)

HEAD = RouteHead("orders", 1, "f", "kafka://b:1/raw", "kafka://b:1/t", {"t": 2})
KEY = Parked("key", "6b", 0, 7)


def offsets(batch: int) -> str:
    return json.dumps({"raw": {"0": batch}})


def batch(state: RouteState, number: int, *, done: bool = True, parked: tuple[Parked, ...] = ()) -> None:
    """A batch as a route leaves it, with what Spark has written of it."""
    log = state.checkpoint / "offsets"
    log.mkdir(parents=True, exist_ok=True)
    (state.checkpoint / "metadata").write_text('{"id":"q"}')
    (log / str(number)).write_text(f"v1\n{{}}\n{offsets(number)}")
    state.write_plan(BatchPlan(number, {"t": 2}, 0, 1.0, parked, offsets=offsets(number)))
    if done:
        known = with_parked(state.parked(), parked)
        state.write_parked(known)
        counts, lanes = Counts(1, 1), {"t": [number + 1, 0]}
        state.write_done(
            BatchDone(number, "q", counts, counts, lanes, offsets=offsets(number), parked=parked_digest(known))
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two batches that are done, the first of which parked a key."""
    with open_state(tmp_path / "state", HEAD) as state:
        batch(state, 0, parked=(KEY,))
        batch(state, 1)
    return tmp_path / "state"


def check(path: Path) -> None:
    with open_state(path, HEAD) as state:
        state.check_whole()


def test_a_whole_state(path: Path) -> None:
    check(path)
    with open_state(path, HEAD) as state:
        batch(state, 2, done=False)
        state.check_whole()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("done/0000000001.json", "older than the target|missing|ends"),
        ("plans/0000000001.json", "plans/0000000001.json.*missing"),
        ("head.json", "head.json.*missing"),
        ("parked.json", "parked.json.*not the one of batch 1"),
        ("checkpoint/offsets/1", "checkpoint"),
        ("checkpoint/metadata", "checkpoint"),
    ],
)
def test_what_is_gone_is_missed(path: Path, name: str, words: str) -> None:
    (path / "_keylane" / name).unlink()
    if name == "done/0000000001.json":
        # Repeated by its plan, unless Spark has it as committed.
        check(path)
        (path / "_keylane" / "checkpoint" / "commits").mkdir()
        (path / "_keylane" / "checkpoint" / "commits" / "1").write_text("v1\n{}")
        words = "the target is older than"
    with pytest.raises(TargetError, match=words):
        check(path)


def test_an_older_list_of_parked_keys_is_refused(path: Path, tmp_path: Path) -> None:
    shutil.copy(path / "_keylane" / "parked.json", tmp_path / "older")
    with open_state(path, HEAD) as state:
        batch(state, 2, parked=(replace(KEY, key="6c"),))
        state.check_whole()
    shutil.copy(tmp_path / "older", path / "_keylane" / "parked.json")
    with pytest.raises(TargetError, match=r"parked.json"):
        check(path)


def test_keys_that_were_noted_before_a_kill_are_known(path: Path) -> None:
    with open_state(path, HEAD) as state:
        more = (replace(KEY, key="6c"),)
        batch(state, 2, done=False, parked=more)
        state.check_whole()
        state.write_parked(with_parked(state.parked(), more))
        state.check_whole()


def test_a_state_without_a_batch_is_recreated_and_one_with_a_batch_is_not(tmp_path: Path, path: Path) -> None:
    other = replace(HEAD, fingerprint="g", value="json")
    with open_state(tmp_path / "new", HEAD) as state:
        first = state.head.route
    with open_state(tmp_path / "new", other) as state:
        assert (state.head.fingerprint, state.head.route != first) == ("g", True)
    with pytest.raises(TargetError, match="fingerprint: f here, g given"):
        check_state(path, other)


# Where it is.


def test_the_default_is_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = state_name("orders", "kafka://b:1/t")
    given = {"XDG_STATE_HOME": "/var/lib/me"}
    assert default_state("orders", "kafka://b:1/t", given, tmp_path) == Path("/var/lib/me/keylane/routes") / name
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    home = Path("/home/me/.local/state/keylane/routes") / name
    for environment in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "not/absolute"}):
        assert default_state("orders", "kafka://b:1/t", environment, tmp_path) == home


def test_without_a_home_folder_it_has_to_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(UsageError, match=r"no home folder.*--state DIR, or XDG_STATE_HOME"):
        default_state("orders", "kafka://b:1/t", {}, tmp_path)


def test_a_state_in_the_working_folder_has_to_be_named(tmp_path: Path) -> None:
    old = tmp_path / "keylane-state" / state_name("orders", "kafka://b:1/t")
    old.mkdir(parents=True)
    with pytest.raises(TargetError, match=f"earlier version.*--state {old}"):
        default_state("orders", "kafka://b:1/t", {"XDG_STATE_HOME": "/x"}, tmp_path)


def test_names_that_look_alike_on_disk_are_kept_apart() -> None:
    assert state_name("a", "kafka://b:1/t") != state_name("a", "kafka://b_1/t")
    assert len(state_name("a" * 200, f"kafka://{'b' * 300}:1/t")) <= 255 - len("keylane")


# How far it is, by the cluster.


class Cluster:
    """A cluster that remembers what it is told."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[int, str]] = {}

    def noted(self, group: str, _topic: str, _seconds: float = 1.0) -> tuple[int, str]:
        return self.kept.get(group, (-1, ""))

    def note(self, group: str, _topic: str, offset: int, text: str, _seconds: float = 1.0) -> None:
        assert len(text) <= 4096
        self.kept[group] = (offset, text)


def progress(cluster: Any, route: str = "r1") -> TargetProgress:
    return TargetProgress(cluster, replace(HEAD, route=route), f"/states/{route}")


def done(number: int) -> BatchDone:
    return replace(BatchDone.before_all(HEAD), batch=number, offsets=offsets(number) if number >= 0 else "")


def plan(number: int) -> BatchPlan:
    return BatchPlan(number, {"t": 2}, 0, 1.0, offsets=offsets(number))


def test_a_state_that_is_as_new_as_the_cluster() -> None:
    here = progress(Cluster())
    here.check(done(-1), None, (), lambda _: None)
    here.begin(0, offsets_digest(offsets(0)))
    for last, begun in ((done(-1), plan(0)), (done(0), None), (done(0), plan(1))):
        here.check(last, begun, (), lambda _: None)


@pytest.mark.parametrize(("last", "begun"), [(done(-1), None), (done(0), None), (done(0), plan(1))])
def test_an_older_state_is_refused(last: BatchDone, begun: BatchPlan | None) -> None:
    here = progress(Cluster())
    here.begin(2, offsets_digest(offsets(2)))
    with pytest.raises(TargetError, match=r"older than what it has written.*hint: restore the newest"):
        here.check(last, begun, (), lambda _: None)


def test_other_records_under_the_same_number_are_refused() -> None:
    here = progress(Cluster())
    here.begin(1, offsets_digest(offsets(7)))
    for last, begun in ((done(1), None), (done(0), plan(1))):
        with pytest.raises(TargetError, match="another copy of the state"):
            here.check(last, begun, (), lambda _: None)
    with pytest.raises(TargetError, match="another copy"):
        here.begin(1, offsets_digest(offsets(1)))
    with pytest.raises(TargetError, match="another copy"):
        here.begin(0, offsets_digest(offsets(0)))


def test_a_cluster_that_is_older_than_the_state_is_refused() -> None:
    here = progress(Cluster())
    here.begin(1, offsets_digest(offsets(1)))
    with pytest.raises(TargetError, match="the cluster is older"):
        here.check(done(3), None, (), lambda _: None)


def test_routes_of_the_same_records_are_listed() -> None:
    cluster: Any = Cluster()
    check_first(cluster, HEAD, "/states/r1")
    for number in range(12):
        progress(cluster, f"r{number}").begin(0, "d")
    assert [route.route for route in known_routes(cluster, HEAD)] == [f"r{number}" for number in range(2, 12)]
    with pytest.raises(TargetError, match=r"another state has routed.*--state /states/r11.*--second-route"):
        check_first(cluster, HEAD, "/elsewhere")
    with pytest.raises(TargetError, match="another state"):
        check_first(cluster, replace(HEAD, fingerprint="that of another epoch"), "/elsewhere")
    elsewhere = replace(HEAD, source="kafka://other:9/raw")
    with pytest.raises(TargetError, match="another state"):
        check_first(cluster, elsewhere, "/elsewhere")


def test_the_list_of_routes_stays_within_what_a_cluster_keeps() -> None:
    """Folders beyond ASCII take six bytes a letter."""
    cluster: Any = Cluster()
    for number in range(12):
        here = replace(HEAD, route=f"r{number}")
        TargetProgress(cluster, here, f"/states/{'ü' * 190}/{number}").begin(0, "d")
    assert [route.route for route in known_routes(cluster, HEAD)] == ["r9", "r10", "r11"]


def test_a_state_whose_plans_are_gone_has_begun_all_the_same(tmp_path: Path) -> None:
    """Or its ids would not be compared, and those of a topic that was made anew be taken for its own."""
    with open_state(tmp_path, HEAD) as state:
        assert read_begun(tmp_path) is None
        state.write_done(done(0))
    known = read_begun(tmp_path)
    assert known is not None
    assert not known.differences(HEAD)

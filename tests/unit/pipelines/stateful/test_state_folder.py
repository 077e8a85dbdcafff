"""The state folder of a pipeline: a batch is committed in one step, is moved once, and leaves no other attempt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from keylane.errors import TargetError
from keylane.pipelines.match.follow import MatchHead
from keylane.pipelines.stateful.state_folder import (
    BatchManifest,
    Epoch,
    name_of,
    open_state,
    write_sealed,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.pipelines.stateful.state_folder import StateFolder

HEAD = MatchHead("d", "r", "t", 4, 1000.0, None, None, None)


def staged(state: StateFolder, batch: int) -> BatchManifest:
    """A batch with a folder for the target."""
    token, staging = state.begin(batch)
    done = BatchManifest(batch, token, "q", "o", (Epoch("e", 1, "f", "{}", 3),), moved=(f"matches/batch={batch}",))
    (staging / "matches" / f"batch={batch}").mkdir(parents=True)
    return done


def test_a_batch_that_has_happened_is_in_the_target_and_is_what_the_next_run_finds(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.last() == BatchManifest()
        done = staged(state, 0)
        state.commit(done, tmp_path / "out")
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.last() == state.manifest(0) == done
        assert (tmp_path / "out" / "matches" / "batch=0").is_dir()
        state.move(done, tmp_path / "out")


@pytest.mark.parametrize("name", ["matches/batch=1", "offers/batch=1", "_dead/batch=1", "_metrics/0000000001.json"])
def test_a_state_that_is_older_than_its_target_is_refused(tmp_path: Path, name: str) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        done = staged(state, 0)
        state.commit(done, tmp_path / "out")
        (tmp_path / "out" / "matches" / "batch=mine").mkdir()
        state.check_target(done, tmp_path / "out")
        (tmp_path / "out" / name).mkdir(parents=True)
        with pytest.raises(TargetError, match=r"older than the target.*batch 0.*batch 1"):
            state.check_target(done, tmp_path / "out")


@pytest.mark.parametrize("point", ["committed", "renamed"])
def test_a_kill_after_a_batch_has_happened_leaves_a_move_that_is_finished_later(tmp_path: Path, point: str) -> None:
    def kill(at: str, _batch: int) -> None:
        if at == point:
            raise KeyboardInterrupt

    with open_state(tmp_path / "state", HEAD) as state:
        done = staged(state, 0)
        with pytest.raises(KeyboardInterrupt):
            state.commit(done, tmp_path / "out", kill)
        assert state.last() == done
        state.move(done, tmp_path / "out")
        assert (tmp_path / "out" / "matches" / "batch=0").is_dir()


def test_what_an_attempt_left_that_never_happened_is_not_read_and_goes_with_the_next_commit(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        lost, done = staged(state, 0), staged(state, 0)
        assert state.last() == BatchManifest()
        state.commit(done, tmp_path / "out")
        assert not any((state.path / "staging").iterdir())
        assert name_of(lost) != name_of(done)


def test_damage_and_another_match_are_refused(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        done = staged(state, 0)
        (state.path / "staging" / name_of(done) / "matches" / "batch=0").rmdir()
        with pytest.raises(TargetError, match="damaged"):
            state.move(done, tmp_path / "out")
        manifest = state.path / "batches" / "0000000007.json"
        for text in ("", "{", "{}", '{"epochs": 3}'):
            manifest.write_text(text)
            with pytest.raises(TargetError, match="damaged"):
                state.manifest(7)
    with pytest.raises(TargetError, match="lanes: 4, now 5"), open_state(tmp_path / "state", replace(HEAD, lanes=5)):
        pass


def test_what_was_decided_first_stays_and_the_state_of_another_version_is_refused(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.settled("slots", lambda: 2) == 2
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.settled("slots", lambda: 5) == 2
    known = tmp_path / "state" / "match.json"
    before = json.loads(known.read_text())
    del before["format"], before["seal"]
    known.write_text(json.dumps(before))
    with (
        pytest.raises(TargetError, match=r"another version.*format 1.*allowed: format 3"),
        open_state(known.parent, HEAD),
    ):
        pass
    # An aggregation's has a format of its own, sealed from its first version on.
    write_sealed(known.with_name("aggregation.json"), {**before, "format": 3})
    with (
        pytest.raises(TargetError, match=r"another version.*format 3.*allowed: format 4"),
        open_state(known.parent, HEAD, "aggregation"),
    ):
        pass


def test_a_batch_that_is_given_again_takes_nothing_away_from_the_last_one(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        first = staged(state, 0)
        state.commit(first, tmp_path / "out")
        last = staged(state, 1)
        state.commit(last, tmp_path / "out")
        waiting = state.begin(2)[1]
        state.move(first, tmp_path / "out")
        assert waiting.exists()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace('"slots":2', '"slots":3'), id="a number"),
        pytest.param(lambda text: text.replace('"radius"', '"radiut"'), id="a name"),
        pytest.param(lambda text: text[: len(text) // 2], id="cut"),
        pytest.param(lambda _: "[]", id="no object"),
    ],
)
def test_a_file_of_the_state_that_was_changed_is_named(tmp_path: Path, change: Callable[[str], str]) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        state.settled("slots", lambda: 2)
    known = tmp_path / "state" / "match.json"
    known.write_text(change(known.read_text()))
    with pytest.raises(TargetError, match=r"damaged.*match\.json"), open_state(known.parent, HEAD):
        pass


def test_what_was_decided_is_not_decided_again_and_a_manifest_is_that_of_its_batch(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        for batch in range(2):
            state.commit(staged(state, batch), tmp_path / "out")
        batches = state.path / "batches"
        (batches / "0000000001.json").write_bytes((batches / "0000000000.json").read_bytes())
        with pytest.raises(TargetError, match="manifest of batch 0"):
            state.manifest(1)
    (tmp_path / "state" / "match.json").unlink()
    with pytest.raises(TargetError, match=r"match\.json.*it is missing"), open_state(tmp_path / "state", HEAD):
        pass


def test_slots_that_are_not_of_the_batch_before_are_refused() -> None:
    first = replace(BatchManifest(), batch=0, slots=BatchManifest().after({"homes/0": -1, "lanes/0": -1}, 0))
    second = replace(first, batch=1, slots=first.after({"homes/0": 0}, 1))
    assert second.slots == {"homes/0": (0, 1), "lanes/0": (0, 0)}
    assert second.after({"homes/0": 1, "lanes/0": 0}, 2) == {"homes/0": (1, 2), "lanes/0": (0, 2)}
    second.check_again({"homes/0": 0})
    for found in ({"homes/0": 0}, {"homes/0": -1}, {"lanes/0": -1}, {"homes/1": 1}):
        with pytest.raises(TargetError, match="batch 2 found slots"):
            second.after(found, 2)
    with pytest.raises(TargetError, match=r"homes/0: batch 1.*allowed: homes/0: batch 0"):
        second.check_again({"homes/0": 1})

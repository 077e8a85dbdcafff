"""The state of a running match: a batch happens in one step, is moved once, and leaves nothing of other attempts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from keylane.errors import TargetError
from keylane.pipelines.match.follow_state import Epoch, Happened, MatchHead, load, name_of, open_state, save

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.pipelines.match.follow_state import MatchState

HEAD = MatchHead("d", "r", "t", 4, 1000.0, None, None, None)
TABLE = pa.table({"x": [1, 2]})


def staged(state: MatchState, batch: int) -> Happened:
    """A batch with a file for lane 0 and one for the target."""
    token, staging = state.begin(batch)
    done = Happened(batch, token, "q", 5, epochs=(Epoch("e", 1, "f", "{}", 3),), moved=(f"matches/batch={batch}",))
    (staging / "matches" / f"batch={batch}").mkdir(parents=True)
    save(str(state.path / "lanes"), 0, name_of(done), TABLE)
    return done


def test_a_batch_that_has_happened_is_in_the_target_and_is_what_the_next_run_finds(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.last() == Happened()
        done = staged(state, 0)
        state.commit(done, tmp_path / "out")
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.last() == state.happened(0) == done
        assert (tmp_path / "out" / "matches" / "batch=0").is_dir()
        assert load(str(state.path / "lanes"), 0, name_of(done), TABLE.schema) == TABLE
        state.move(done, tmp_path / "out")


@pytest.mark.parametrize("point", ["happened", "renamed"])
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
        assert state.last() == Happened()
        state.commit(done, tmp_path / "out")
        assert {path.stem for path in (state.path / "lanes" / "0").iterdir()} == {name_of(done)}
        assert name_of(lost) != name_of(done)


def test_damage_and_another_match_are_refused(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        done = staged(state, 0)
        (state.path / "staging" / name_of(done) / "matches" / "batch=0").rmdir()
        with pytest.raises(TargetError, match="damaged"):
            state.move(done, tmp_path / "out")
        with pytest.raises(TargetError, match="missing"):
            load(str(state.path / "lanes"), 1, name_of(done), TABLE.schema)
    with pytest.raises(TargetError, match="lanes: 4, now 5"), open_state(tmp_path / "state", replace(HEAD, lanes=5)):
        pass

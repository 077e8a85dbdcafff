"""The state of a running match: a batch happens in one step, is moved once, and leaves nothing of other attempts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from keylane.errors import TargetError
from keylane.pipelines.match.follow_state import (
    Epoch,
    Happened,
    MatchHead,
    name_of,
    open_state,
    read_table,
    write_table,
)

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.pipelines.match.follow_state import MatchState

HEAD = MatchHead("d", "r", "t", 4, 1000.0, None, None, None)
TABLE = pa.table({"x": [1, 2]})


def staged(state: MatchState, batch: int) -> Happened:
    """A batch with a ledger and a folder for the target."""
    token, staging = state.begin(batch)
    done = Happened(batch, token, "q", "o", (Epoch("e", 1, "f", "{}", 3),), moved=(f"matches/batch={batch}",))
    (staging / "matches" / f"batch={batch}").mkdir(parents=True)
    write_table(state.ledger(done), TABLE)
    return done


def test_a_batch_that_has_happened_is_in_the_target_and_is_what_the_next_run_finds(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.last() == Happened()
        done = staged(state, 0)
        state.commit(done, tmp_path / "out")
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.last() == state.happened(0) == done
        assert (tmp_path / "out" / "matches" / "batch=0").is_dir()
        assert read_table(state.ledger(done)) == TABLE
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
        assert {path.stem for path in (state.path / "ledger").iterdir()} == {name_of(done)}
        assert name_of(lost) != name_of(done)


def test_damage_and_another_match_are_refused(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        done = staged(state, 0)
        (state.path / "staging" / name_of(done) / "matches" / "batch=0").rmdir()
        with pytest.raises(TargetError, match="damaged"):
            state.move(done, tmp_path / "out")
        with pytest.raises(TargetError, match="missing"):
            read_table(state.ledger(replace(done, batch=7)))
        state.ledger(done).write_bytes(b"cut")
        with pytest.raises(TargetError, match=f"damaged.*{name_of(done)}"):
            read_table(state.ledger(done))
        manifest = state.path / "batches" / "0000000007.json"
        for text in ("", "{", "{}", '{"epochs": 3}'):
            manifest.write_text(text)
            with pytest.raises(TargetError, match="damaged"):
                state.happened(7)
    with pytest.raises(TargetError, match="lanes: 4, now 5"), open_state(tmp_path / "state", replace(HEAD, lanes=5)):
        pass


def test_what_was_decided_first_stays_and_the_state_of_an_older_keylane_is_refused(tmp_path: Path) -> None:
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.settled("slots", lambda: 2) == 2
    with open_state(tmp_path / "state", HEAD) as state:
        assert state.settled("slots", lambda: 5) == 2
    known = tmp_path / "state" / "match.json"
    before = json.loads(known.read_text())
    del before["format"]
    known.write_text(json.dumps(before))
    with (
        pytest.raises(TargetError, match=r"older keylane.*format 1.*allowed: format 2"),
        open_state(known.parent, HEAD),
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
        assert read_table(state.ledger(last)) == TABLE

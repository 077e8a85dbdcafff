"""Time is cut where the records are, and what is fitted never sees what it is scored on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from keylane.plan.hashed_keys import ProfiledStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.profile.model import Profile

    Made = Callable[..., Profile]


def test_the_first_fold_is_cut_at_three_quarters_of_the_records_not_of_the_windows(profile: Made) -> None:
    fold = ProfiledStream(profile([[1, 13, 1, 1, 2, 2]])).folds[0]
    assert (fold.fit.first, fold.fit.last, fold.score.first, fold.score.last) == (0, 3, 3, 6)


def test_no_window_is_in_both_parts_of_a_fold(profile: Made) -> None:
    for fold in ProfiledStream(profile(np.ones((3, 8)))).folds:
        assert fold.fit.last == fold.score.first


def test_one_window_leaves_nothing_to_score_on(profile: Made) -> None:
    assert ProfiledStream(profile([[5], [3]])).folds == ()


def test_recent_records_count_more(profile: Made) -> None:
    seen = ProfiledStream(profile([[8, 0, 0, 0], [0, 0, 0, 8]], ["old", "new"])).whole
    weights = dict(zip(seen.head.tolist(), seen.weights(2).tolist(), strict=True))
    assert weights[0][0] == weights[1][0] == pytest.approx(1.0)
    assert {round(weights[0][1], 3), round(weights[1][1], 3)} == {round(2 / 9, 3), round(16 / 9, 3)}


def test_weights_are_mean_lanes(steady: Profile) -> None:
    seen = ProfiledStream(steady).whole
    assert seen.weights(8).sum(axis=0) == pytest.approx([8, 8])


def test_loads_of_lanes_are_mean_lanes_too(steady: Profile) -> None:
    stream = ProfiledStream(steady)
    assert stream.whole.on_lanes(stream.hashed("kafka-java", 8).loads).sum(axis=0) == pytest.approx([8, 8])


def test_a_key_that_is_heavy_only_later_is_in_the_head_of_the_later_part(profile: Made) -> None:
    late = [[0] * 6 + [50] * 2, *[[5] * 8] * 30]
    fold = ProfiledStream(profile(late)).folds[0]
    rank = int(np.flatnonzero(fold.score.by_window[:, -1] == 50)[0])
    assert rank in fold.score.head
    assert rank not in fold.fit.head

"""`verify` on topics of a real broker: clean histories are certified, and every planted fault is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.integration.histories import LANES, Message, Topics, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.systems.broker import Cluster


@pytest.fixture
def topics(broker: Cluster, topic: Callable[..., str]) -> Topics:
    return Topics.made(broker, topic)


def test_a_clean_history_is_certified(topics: Topics) -> None:
    topics.write(topics.fill(rows_of(600, nulls=25)))
    found = topics.verify()
    assert found.ok, found.verdict.violations
    assert (found.verdict.facts["ok"], found.verdict.records, found.verdict.facts["dead"]) == (600, 576, 24)
    assert set(found.verdict.unchecked) == {"two_owners", "early_applies"}
    assert found.remarks == ()
    lanes = found.verdict.lanes
    assert [lane.lane for lane in lanes] == list(range(LANES))
    # Markers and what was aborted stand between the records of a lane, and are nobody's loss.
    assert all(lane.last - lane.first + 1 > 2 * lane.records for lane in lanes)


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


FAULTS: dict[Callable[[list[Message]], None], dict[str, int]] = {
    lost: {"lost": 7},
    lost_letter: {"lost": 1},
    invented: {"invented": 1},
    another_key: {"invented": 1},
    duplicated: {"duplicated": 3},
    reordered: {"reordered": 1},
    split_key: {"split_keys": 1, "misrouted": 1},
    misrouted: {"misrouted": 45},
    stale_epoch: {"stale_epochs": 293},
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_and_counted(fault: Callable[[list[Message]], None], topics: Topics) -> None:
    messages = topics.fill(rows_of(600, nulls=40))
    fault(messages)
    topics.write(messages)
    found = topics.verify()
    counts = {rule: count for rule, count in found.verdict.counts.items() if count}
    if fault is another_key:
        counts.pop("misrouted", None)
    assert counts == FAULTS[fault]
    assert not found.ok

"""What the steps of a running match count, the figures that come of it, and which contracts are still in use."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("h3")

from keylane.errors import CountError
from keylane.pipelines.match.follow_batch import _check_counts
from keylane.pipelines.match.follow_metrics import BatchCounts, added
from keylane.pipelines.match.follow_sources import InUse, after_batch
from keylane.pipelines.stateful.state_folder import BEGINNING, Epoch


def homes(**more: Any) -> str:
    names = ("pings", "late", "reported", "late_requests", "asked", "border", "copies", "tombstones", "stays")
    counts: dict[str, Any] = dict.fromkeys((*names, "drivers", "waiting", "watermark", "kept_from"), 0)
    return json.dumps(
        {"step": "homes", **counts, "newest": BEGINNING, "loads": {}, "ripe": [], "ripe_count": 0, **more}
    )


def test_counts_of_slots_are_summed_and_what_all_know_is_taken_once() -> None:
    rows = [
        homes(
            pings=5,
            loads={"0": 3, "2": 2},
            newest=50,
            oldest=9,
            ahead=1,
            drivers_read=7,
            riders_read=2,
            unread={"1": 4},
        ),
        homes(pings=2, loads={"2": 2}, newest=50, oldest=7, reported=2, waiting=1),
        json.dumps({"step": "lanes", "entries": 4, "changed": 1}),
        json.dumps({"step": "lanes", "entries": 3, "changed": 0}),
        json.dumps({"step": "merge", "pairs": 6, "riders": 2, "ghosts": 1}),
        json.dumps({"step": "state", "of": "homes", "slot": 0, "found": 3, "restored": 1, "state_bytes": 70}),
        json.dumps({"step": "state", "of": "lanes", "slot": 1, "found": -1, "restored": 0, "state_bytes": 5}),
    ]
    found = BatchCounts.of(rows)
    assert (found.pings, found.reported, found.newest, found.oldest) == (7, 2, 50, 7)
    assert (dict(found.loads), found.read) == ({0: 3, 2: 4}, {"drivers": 7, "riders": 2})
    assert found.lag(3) == [{"lane": 0, "records": 0}, {"lane": 1, "records": 4}, {"lane": 2, "records": 0}]
    assert found.slots == {"homes/0": 3, "lanes/1": -1}
    figures = added({}, found, {"drivers": {}, "riders": {}}, 3, 0.0)
    again = added(figures.total, found, {"drivers": {"x": 1}, "riders": {}}, 3, 0.0)
    assert (again.total["pings"], again.total["pairs"], again.total["pending"]) == (14, 12, 1)
    assert again.total["lane_loads"] == [6, 0, 8]
    assert again.total["dead"] == {"drivers": {"x": 1}, "riders": {}}
    assert (again.metrics["state_bytes"], again.metrics["restored"]) == (75, 1)
    assert (again.metrics["entries"], again.metrics["changed"], again.metrics["match_latency_ms"]) == (7, 1, None)
    assert BatchCounts.of([homes(unread=None)]).lag(3) is None


def test_the_times_of_answered_requests_count_for_as_many_as_they_stand_for() -> None:
    found = BatchCounts.of([homes(ripe=[10, 20], ripe_count=200), homes(ripe=[5], ripe_count=1)])
    assert (found.ripe_at(0.5), found.ripe_at(0.001), found.ripe_at(1.0)) == (10, 5, 20)
    assert BatchCounts.of([homes()]).ripe_at(0.5) is None


def used(*newest: int) -> list[InUse]:
    nothing: Any = None
    return [InUse(Epoch("e", number, str(number), "", at), nothing) for number, at in enumerate(newest)]


def test_an_old_contract_is_in_use_while_a_ping_that_it_placed_can_be_seen() -> None:
    assert [one.epoch for one in after_batch(used(100, 200), 250, 100)] == [0, 1]
    assert after_batch(used(100, 200), 250, 101)[-1].newest == 250
    assert [one.epoch for one in after_batch(used(100, 200), 0, 101)] == [1]
    assert [one.epoch for one in after_batch(used(100, 200), 0, None)] == [1]


@pytest.mark.parametrize(
    ("dead", "said"),
    [
        ({"drivers": {"place-zero": 2}, "riders": {"late-request": 1}}, None),
        ({"drivers": {"place-zero": 1}, "riders": {"late-request": 1}}, "drivers .*got '8 good, 1"),
        ({"drivers": {"place-zero": 2}, "riders": {}}, "riders .*got '4 good, 0 dead'; allowed: 5"),
    ],
    ids=["all there", "twin: a ping is lost", "twin: a late request is lost"],
)
def test_good_records_and_dead_letters_of_a_batch_are_all_there_are(dead: dict[str, Any], said: str | None) -> None:
    counts = BatchCounts.of([homes(pings=8, reported=5, late_requests=1, drivers_read=10, riders_read=5)])
    if said is None:
        _check_counts(counts, dead)
        return
    with pytest.raises(CountError, match=said):
        _check_counts(counts, dead)

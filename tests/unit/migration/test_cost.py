"""What a migration costs: measured, sampled, computed, or unknown with the reason; never guessed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from keylane import Router
from keylane.migration.cost import NOT_ASKED, Figure, RunTerms, SampledLane, StreamMeasure, cost_of
from keylane.migration.planner import Streams, plan_migration

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.migration.cost import MigrationCost

TERMS = RunTerms(0.05, 0.25, 5.0, ("api",), gated=True, dual=False, keys_comparable=True, replicas=3)
KEYS = [f"k{number}".encode() for number in range(200)]


@pytest.fixture
def routers(tmp_path: Path) -> tuple[Router, Router, Router]:
    """Of 4 lanes, of 6 on the same stream, and of 2 on another."""
    made = []
    for epoch, (lanes, stream) in enumerate(((4, "tx"), (6, "tx"), (2, "tx.v2")), 1):
        spec = f"{{streams: [{stream}], lanes: {lanes}, key: {{fields: [k]}}, partitioner: kafka-java}}"
        head = f"apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {{name: payments, epoch: {epoch}}}"
        path = tmp_path / f"{epoch}.yaml"
        path.write_text(f"{head}\nspec: {spec}\n")
        made.append(Router(path))
    return made[0], made[1], made[2]


def lanes_of_keys(old: Router, *, there: int = 1) -> tuple[SampledLane, ...]:
    """Ten records of 100 bytes of each key, each read record standing for so many that are there."""
    by_lane: dict[int, dict[bytes, tuple[int, int]]] = {lane: {} for lane in range(old.lane_count)}
    for key in KEYS:
        lane = old.place_of_key(key).lane
        assert lane is not None
        by_lane[lane][key] = 10, 1_000
    return tuple(SampledLane(lane, 10 * len(keys) * there, keys) for lane, keys in by_lane.items())


def cost(old: Router, new: Router, measure: StreamMeasure | None, **terms: Any) -> MigrationCost:
    planned = plan_migration(old, new, Streams(), dual=terms.get("dual", False))
    return cost_of(old, new, planned, measure, replace(TERMS, **terms))


def moving(old: Router, new: Router) -> int:
    return sum(old.place_of_key(key).lane != new.place_of_key(key).lane for key in KEYS)


def test_all_records_read_is_a_measurement(routers: tuple[Router, ...]) -> None:
    old, new, _ = routers
    measure = StreamMeasure(2_000, 100_000, "reported", lanes_of_keys(old), "all records", whole=True, look_seconds=0.1)
    found, many = cost(old, new, measure), moving(old, new)
    assert 0 < many < len(KEYS)
    assert (found.keys.value, found.moved_keys.value) == (200, many)
    assert found.moved_records == Figure(10 * many, "measured", "all records")
    assert (found.moved_bytes.value, found.moved_bytes.known) == (round(100_000 * many / 200), "sampled")
    assert found.records_read == 2_000
    assert (found.pause_seconds.value, found.pause_seconds.known) == (0.5, "computed")
    assert "producers flush, the stream grows" in found.pause_seconds.basis


def test_a_sample_is_scaled_by_lane_and_says_nothing_of_keys(routers: tuple[Router, ...]) -> None:
    old, new, _ = routers
    measure = StreamMeasure(8_000, None, "not allowed to ask", lanes_of_keys(old, there=4), "the newest 1 of 4")
    found, many = cost(old, new, measure), moving(old, new)
    assert found.moved_records == Figure(40 * many, "sampled", "the newest 1 of 4")
    assert (found.keys.value, found.moved_keys.known) == (None, "unknown")
    assert f"200 keys, of which {many} change lane" in found.keys.basis
    assert (found.stored_bytes.value, found.stored_bytes.known) == (800_000, "sampled")
    assert "before compression; not allowed to ask" in found.stored_bytes.basis
    # Lanes that were not read count as those that were.
    half = replace(measure, sample=tuple(lane for lane in measure.sample if lane.lane < 2))
    assert cost(old, new, half).stored_bytes.value == 800_000


def test_a_heavy_lane_counts_for_what_it_holds(routers: tuple[Router, ...]) -> None:
    old, new, _ = routers
    key = next(one for one in KEYS if old.place_of_key(one).lane == 0 != new.place_of_key(one).lane)
    stays = next(one for one in KEYS if old.place_of_key(one).lane == 1 == new.place_of_key(one).lane)
    lanes = SampledLane(0, 900, {key: (10, 100)}), SampledLane(1, 100, {stays: (10, 100)})
    found = cost(old, new, StreamMeasure(1_000, 10_000, "reported", lanes, "ten of each"))
    assert (found.moved_records.value, found.moved_bytes.value) == (900, 9_000)


def test_records_without_a_key_move_nothing(routers: tuple[Router, ...]) -> None:
    old, new, _ = routers
    measure = StreamMeasure(10, 500, "reported", (SampledLane(0, 10, {}, (10, 400)),), "all records", whole=True)
    found = cost(old, new, measure)
    assert (found.keys.value, found.moved_records.value, found.moved_bytes.value) == (0, 0, 0)


def test_an_empty_stream_moves_nothing(routers: tuple[Router, ...]) -> None:
    old, new, _ = routers
    found = cost(old, new, StreamMeasure(0, 0, "reported", (), "the topic holds no record", whole=True))
    assert (found.keys.value, found.moved_records.value, found.moved_bytes.value) == (0, 0, 0)


def test_a_mirror_is_paid_for_every_replica(routers: tuple[Router, ...]) -> None:
    old, _, new = routers
    measure = StreamMeasure(2_000, 100_000, "reported", lanes_of_keys(old), "all records", whole=True, look_seconds=0.1)
    found = cost(old, new, measure)
    assert (found.copied_records.value, found.copied_bytes.value) == (2_000, 100_000)
    assert (found.disk_bytes.value, found.network_bytes.value) == (300_000, 400_000)
    assert found.pause_seconds.value == pytest.approx(5.5)
    assert cost(old, new, measure, dual=True).pause_seconds.value == 0
    # The twin: into another form nobody knows what the copies take.
    other = cost(old, new, measure, replicas=None)
    assert (other.disk_bytes.value, other.network_bytes.known) == (None, "unknown")
    in_place = cost(old, routers[1], measure)
    assert (in_place.copied_bytes.value, in_place.disk_bytes.value, in_place.network_bytes.value) == (0, 0, 0)


def test_what_is_not_known_has_no_figure_and_a_reason(routers: tuple[Router, ...]) -> None:
    old, new, _ = routers
    alone = cost(old, new, None)
    assert {alone.records.basis, alone.keys.basis, alone.moved_bytes.basis} == {NOT_ASKED}
    assert (alone.copied_bytes.value, alone.disk_bytes.known) == (0, "computed")
    measure = StreamMeasure(2_000, 100_000, "reported", lanes_of_keys(old), "all records", whole=True, look_seconds=0.1)
    by_hand = cost(old, new, measure, producers=())
    assert (by_hand.pause_seconds.value, by_hand.pause_parts[0].seconds) == (None, None)
    assert "readers drain" in [one.what for one in cost(old, new, measure, gated=False).pause_parts]
    by_more = cost(old, new, measure, keys_comparable=False)
    assert (by_more.keys.value, by_more.moved_records.known) == (None, "unknown")
    for found in (alone, by_hand, by_more):
        figures = [getattr(found, one.name) for one in fields(found) if one.type == "Figure"]
        assert len(figures) == 11
        assert all((one.value is None) == (one.known == "unknown") and one.basis for one in figures)

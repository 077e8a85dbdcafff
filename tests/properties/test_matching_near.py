"""The tree finds what the definition says: at poles, pentagons and the antimeridian, over any history."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.match_strategies import PLACES, world

from keylane.matching import near as searched
from keylane.matching.brute import brute
from keylane.matching.near import near
from keylane.matching.tables import Kind
from keylane.matching.timeline import empty_entries, merged

seeds = st.integers(0, 2**32 - 1)
radii = st.sampled_from([300.0, 1000.0, 7000.0]) | st.floats(300, 7000)
expiries = st.none() | st.integers(0, 40)


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    place=st.sampled_from(list(PLACES.values())),
    radius=radii,
    expire=expiries,
    nearest=st.none() | st.integers(1, 4),
    spread=st.floats(0.5, 4),
)
def test_near_is_brute_force(
    seed: int, place: tuple[float, float], radius: float, expire: int | None, nearest: int | None, spread: float
) -> None:
    drawn = world(seed, place, km=radius / 1000 * spread)
    found = near(merged(empty_entries(), drawn.pings), drawn.requests, radius, expire, nearest)
    assert found.equals(brute(drawn.pings, drawn.requests, radius, expire, nearest))


@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
def test_no_place_is_without_pairs_of_its_own(place: tuple[float, float]) -> None:
    drawn = world(1, place, km=3)
    found = near(merged(empty_entries(), drawn.pings), drawn.requests, 1000.0)
    assert len(found) > 100
    assert found.equals(brute(drawn.pings, drawn.requests, 1000.0))


@settings(max_examples=25, deadline=None)
@given(seed=seeds, spans=st.integers(1, 50), products=st.integers(1, 2000))
def test_the_spans_of_time_and_the_parts_of_a_search_do_not_show(seed: int, spans: int, products: int) -> None:
    drawn = world(seed, PLACES["London"], km=2)
    known = merged(empty_entries(), drawn.pings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searched, "_LEAST_SPAN", spans)
        patch.setattr(searched, "_MOST_FOUND", products)
        found = near(known, drawn.requests, 1000.0, 20)
    assert found.equals(brute(drawn.pings, drawn.requests, 1000.0, 20))


def test_the_newest_by_arrival_is_another_answer() -> None:
    """The twin: a lane that keeps what came last instead of what is newest by its own time."""
    drawn = world(3, PLACES["London"], km=2)
    arrived = np.arange(len(drawn.pings), dtype=np.int64)
    wrong = drawn.pings.set_column(1, "ts", pa.array(np.zeros(len(arrived), np.int64)))
    wrong = wrong.set_column(2, "offset", pa.array(arrived))
    found = near(merged(empty_entries(), wrong), drawn.requests, 1000.0)
    right = brute(drawn.pings, drawn.requests, 1000.0)
    columns = ["rider", "rider_ts", "driver"]
    assert found.select(columns).to_pylist() != right.select(columns).to_pylist()


def test_a_driver_that_is_not_free_hides_its_older_ping() -> None:
    """The twin: entries that are not available are thrown away before the newest is taken."""
    drawn = world(3, PLACES["London"], km=2)
    free = drawn.pings.filter(pa.array(drawn.pings.column("kind").to_numpy() == Kind.AVAILABLE))
    right = brute(drawn.pings, drawn.requests, 1000.0)
    assert len(near(merged(empty_entries(), free), drawn.requests, 1000.0)) > len(right) > 0

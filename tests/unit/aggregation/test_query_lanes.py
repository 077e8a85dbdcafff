"""The load of lanes when 1.5 % of the queries have 90 % of the events."""

from __future__ import annotations

from keylane.aggregation.lanes import DIVISIONS, WindowLoad, lane_loads, lane_of, max_over_mean, query_hash

LANES, MINUTES, QUERIES, HOT = 64, 60, 1_000, 15


def hot_mix(tasks: int = 4) -> list[WindowLoad]:
    """Fifteen of a thousand queries have nine tenths of the events of each minute."""
    hot, cold = 90_000 // HOT, 10_000 // (QUERIES - HOT)
    volumes = [hot if number < HOT else cold for number in range(QUERIES)]
    return [
        WindowLoad(f"query-{number}", minute, events, min(tasks, events))
        for number, events in enumerate(volumes)
        for minute in range(MINUTES)
    ]


def test_hot_queries_move_from_lane_to_lane() -> None:
    loads = hot_mix()
    by_query = max_over_mean(lane_loads(loads, LANES, "query"))
    by_window = max_over_mean(lane_loads(loads, LANES, "query-window"))
    assert by_query > 2.5
    assert by_window < 1.5


def test_a_hash_of_query_and_window_would_not_be_even_enough() -> None:
    """The twin of the rule: what moves at random is not within the same bound."""
    lanes = [0] * LANES
    for one in hot_mix():
        lanes[query_hash(f"{one.query}/{one.number}") % LANES] += one.events
    assert max_over_mean(lanes) > 1.3 > max_over_mean(lane_loads(hot_mix(), LANES, "query-window"))


def test_a_query_is_in_every_lane_once() -> None:
    assert sorted(lane_of("q", number, LANES, by_window=True) for number in range(LANES)) == list(range(LANES))


def test_partial_sums_divide_the_load() -> None:
    whole, partial = (sum(lane_loads(hot_mix(), LANES, how)) for how in DIVISIONS[1:])
    assert whole > 20 * partial


def test_no_load_is_no_imbalance() -> None:
    assert max_over_mean(lane_loads([], 4, "query")) == 0.0

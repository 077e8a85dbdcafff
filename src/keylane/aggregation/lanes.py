"""The lane of a window, and the load of lanes: three ways to divide the work of queries of very different volume.

    by query            hash(query) mod lanes: a hot query is one lane's work for as long as it runs
    by query and window (hash(query) + number of the window) mod lanes: it moves on with each window
    with partial sums   by query and window, and what a lane gets is one partial aggregate for each task that saw events

A hash of query and window would move a query too, but at random: of 900 hot windows over 64 lanes the fullest lane has
about 1.7 times the average. Counting on from the query's own lane, a query is in each lane once in as many windows as
there are lanes, and 900 windows of 15 queries are within 1.1. Within one window a hot query is one lane's work either
way; what helps there are partial sums. A change of the lane count moves nearly every window; open windows are in the
state of their lanes, so it takes a new run. Not for queries whose order between windows the lane has to keep: delivery
puts windows in order by query id (`Deliver.java`). Equal to `QueryLanes.java`, held by a test.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.hashing.murmur2 import murmur2

if TYPE_CHECKING:
    from collections.abc import Iterable

Division: TypeAlias = Literal["query", "query-window", "query-window-partial"]
DIVISIONS: Final[tuple[Division, ...]] = ("query", "query-window", "query-window-partial")


@dataclass(frozen=True, slots=True)
class WindowLoad:
    """A window of a query: its number on the query's own time line, its events, and the partial aggregates of them."""

    query: str
    number: int
    events: int
    partials: int


def query_hash(query: str) -> int:
    """The hash of a query's id: Kafka's murmur2, without its sign."""
    return murmur2(query.encode()) & 0x7FFF_FFFF


def lane_of(query: str, number: int, lanes: int, *, by_window: bool) -> int:
    """The lane of a window, by its number: its start divided by the slide.

    >>> [lane_of("q1", number, 4, by_window=True) for number in range(4)]
    [2, 3, 0, 1]
    >>> {lane_of("q1", number, 4, by_window=False) for number in range(4)}
    {2}
    """
    return (query_hash(query) + (number if by_window else 0)) % lanes


def lane_loads(windows: Iterable[WindowLoad], lanes: int, division: Division) -> list[int]:
    """What each lane receives: events, or partial aggregates where these are made first."""
    loads: Counter[int] = Counter()
    for one in windows:
        lane = lane_of(one.query, one.number, lanes, by_window=division != "query")
        loads[lane] += one.partials if division == "query-window-partial" else one.events
    return [loads[lane] for lane in range(lanes)]


def max_over_mean(loads: list[int]) -> float:
    """The fullest lane over the mean lane; 0 where there is no load. As `measure.balance`, which stands on arrays."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else 0.0

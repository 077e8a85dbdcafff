"""A seeded, realistic day of three streams, as Arrow tables in the order of time. No file and no Spark here.

payments       two records an order (authorised, captured); few merchants are heavy, many are light, some have bursts,
               and one has a flash sale in the evening that nothing in the morning foretells
rides          three records a ride (requested, picked up, dropped off); by the people of a city and its own clock
query_events   standing queries: 1.5 % of them cause 90 % of the events, and a few of those begin in the afternoon

All chance comes from the generator passed in: the same seed gives the same day. Who writes them down: `run`. The hour
of events that standing queries watch: `standing`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The cities that the demo's rides are in: data only. Used by `traffic`, and by `choose` for the lanes a city needs.


class City(NamedTuple):
    """A city, its people in millions, and its clock's distance from UTC in hours."""

    name: str
    millions: float
    utc: float


#: Urban areas, rounded; lists differ by how they draw borders. Only the proportions and the clocks matter here.
CITIES: Final = (
    City("Tokyo", 37.4, 9),
    City("Delhi", 30.3, 5.5),
    City("Shanghai", 27.1, 8),
    City("São Paulo", 22.0, -3),
    City("Mexico City", 21.8, -6),
    City("Dhaka", 21.0, 6),
    City("Cairo", 20.9, 2),
    City("Beijing", 20.5, 8),
    City("Mumbai", 20.4, 5.5),
    City("Osaka", 19.2, 9),
    City("New York", 18.8, -5),
    City("Karachi", 16.1, 5),
    City("Chongqing", 15.9, 8),
    City("Istanbul", 15.2, 3),
    City("Buenos Aires", 15.2, -3),
    City("Kolkata", 14.9, 5.5),
    City("Lagos", 14.4, 1),
    City("Kinshasa", 14.3, 1),
    City("Manila", 13.9, 8),
    City("Rio de Janeiro", 13.5, -3),
    City("Guangzhou", 13.3, 8),
    City("Lahore", 12.6, 5),
    City("Moscow", 12.5, 3),
    City("Los Angeles", 12.4, -8),
    City("Shenzhen", 12.4, 8),
    City("Bengaluru", 12.3, 5.5),
    City("Paris", 11.0, 1),
    City("Bogotá", 11.0, -5),
    City("Chennai", 11.0, 5.5),
    City("Jakarta", 10.8, 7),
    City("Lima", 10.7, -5),
    City("Bangkok", 10.5, 7),
    City("Seoul", 10.0, 9),
    City("London", 9.3, 0),
    City("Tehran", 9.1, 3.5),
    City("Chicago", 8.9, -6),
    City("Ho Chi Minh City", 8.6, 7),
    City("Madrid", 6.6, 1),
    City("Toronto", 6.2, -5),
    City("Johannesburg", 5.8, 2),
)
DAY: Final = datetime(2026, 3, 12, tzinfo=UTC)
#: Times are microseconds, as Spark counts them.
MINUTE: Final = 60_000_000
HOUR: Final = 60 * MINUTE
LENGTH: Final = 24 * HOUR

FLASH_SALE: Final = 20 * HOUR
HOT_QUERIES, HOT_EVENTS = 0.015, 0.9
#: The hour in which the late ones of the hot queries begin.
LATE: Final = 15

#: How busy each hour is, from midnight, relative to the others. Shops at lunch and in the evening; commuters; offices.
SHOPPING: Final = (22, 14, 10, 8, 8, 12, 22, 38, 52, 62, 72, 84, 92, 86, 78, 76, 80, 90, 102, 110, 104, 84, 58, 36)
RIDING: Final = (30, 20, 14, 10, 10, 16, 36, 78, 96, 62, 46, 48, 56, 52, 50, 58, 76, 104, 112, 90, 72, 64, 58, 44)
OFFICE: Final = (34, 32, 30, 30, 32, 36, 44, 58, 78, 96, 104, 102, 92, 98, 106, 104, 96, 82, 66, 56, 50, 46, 42, 38)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each there is in the day."""

    merchants: int = 200_000
    orders: int = 220_000
    rides: int = 50_000
    queries: int = 8_000
    query_events: int = 400_000
    standing: int = 1_000
    standing_events: int = 150_000
    scale: float = 1.0

    def scaled(self, by: float) -> Sizes:
        """As many keys, but fewer or more records."""
        return replace(
            self,
            orders=max(1, round(self.orders * by)),
            rides=max(1, round(self.rides * by)),
            query_events=max(1, round(self.query_events * by)),
            standing_events=max(1, round(self.standing_events * by)),
            scale=self.scale * by,
        )


def payments(rng: np.random.Generator, sizes: Sizes) -> pa.Table:
    """Columns ts, event, merchant_id, order_id, cents."""
    merchant, start = _orders(rng, sizes)
    captured = start + (rng.exponential(12, sizes.orders) * MINUTE).astype(np.int64)
    columns = {
        "merchant_id": merchant_names(rng, sizes.merchants).take(pa.array(merchant)),
        "order_id": _ids("order_", np.arange(sizes.orders), 9),
        "cents": pa.array(np.exp(rng.normal(7.8, 1.1, sizes.orders)).astype(np.int64)),
    }
    return _day({"authorised": start, "captured": captured}, columns)


def _orders(rng: np.random.Generator, sizes: Sizes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Merchant (by rank) and time of every order: everyday ones, some of which then become bursts."""
    merchant = draw(rng, merchant_weights(sizes.merchants), sizes.orders)
    start = _times(rng, SHOPPING, sizes.orders)
    for rank, begin, length, share in _bursts(rng, sizes.merchants):
        rows = rng.integers(0, sizes.orders, round(share * sizes.orders))
        merchant[rows] = rank
        start[rows] = begin + (rng.random(len(rows)) * length).astype(np.int64)
    return merchant, start


def merchant_weights(merchants: int) -> NDArray[np.float64]:
    """Zipf-like: the weight of rank r, from 0, is 1 / (r + 2), so the heaviest of 200,000 has 4.2 % of the orders."""
    weights = 1 / (np.arange(merchants) + 2.0)
    return weights / weights.sum()


def _bursts(rng: np.random.Generator, merchants: int) -> list[tuple[int, int, int, float]]:
    """Merchant, begin, length and share of all orders: thirty short ones of middling merchants, then the flash sale."""
    middling = max(1, merchants // 40)
    ranks = rng.integers(0, middling, 30)
    begins = rng.integers(0, 23 * HOUR, 30)
    lengths = rng.integers(15, 45, 30) * MINUTE
    short = [(int(r), int(b), int(m), 0.0006) for r, b, m in zip(ranks, begins, lengths, strict=True)]
    return [*short, (middling // 4, FLASH_SALE, HOUR, 0.003)]


def merchant_names(rng: np.random.Generator, merchants: int) -> pa.Array:
    """Names by rank, in no order: the heaviest merchant is not merchant_000000."""
    return all_merchants(merchants).take(pa.array(rng.permutation(merchants)))


def all_merchants(merchants: int) -> pa.Array:
    """merchant_000000 and on."""
    return _ids("merchant_", np.arange(merchants), 6)


def rides(rng: np.random.Generator, sizes: Sizes) -> pa.Table:
    """Columns ts, event, city, ride_id."""
    city = draw(rng, np.array([one.millions for one in CITIES]), sizes.rides)
    clock = np.array([int(one.utc * HOUR) for one in CITIES])[city]
    requested = (_times(rng, RIDING, sizes.rides) - clock) % LENGTH
    picked_up = requested + (rng.gamma(3, 1.6, sizes.rides) * MINUTE).astype(np.int64)
    dropped_off = picked_up + (rng.gamma(3, 6, sizes.rides) * MINUTE).astype(np.int64)
    names = pa.array([one.name for one in CITIES])
    columns = {"city": names.take(pa.array(city)), "ride_id": _ids("ride_", np.arange(sizes.rides), 9)}
    return _day({"requested": requested, "picked_up": picked_up, "dropped_off": dropped_off}, columns)


def query_events(rng: np.random.Generator, sizes: Sizes) -> pa.Table:
    """Columns ts, event, query_id, value."""
    weights = query_weights(rng, sizes.queries)
    query = draw(rng, weights, sizes.query_events)
    time = _times(rng, OFFICE, sizes.query_events)
    late = np.isin(query, late_queries(sizes.queries))
    time[late] = _times(rng, OFFICE, int(late.sum()), begin=LATE)
    columns = {
        "query_id": _ids("query_", rng.permutation(sizes.queries), 5).take(pa.array(query)),
        "value": pa.array(rng.normal(100, 15, sizes.query_events)),
    }
    return _day({"match": time}, columns)


def query_weights(rng: np.random.Generator, queries: int) -> NDArray[np.float64]:
    """The first 1.5 % of the queries share 90 % of the events, the heaviest of them three times the lightest."""
    hot = hot_queries(queries)
    weights = rng.uniform(0.5, 1.5, queries)
    weights[late_queries(queries)] /= 2  # they have half the day
    weights[:hot] *= HOT_EVENTS / weights[:hot].sum()
    weights[hot:] *= (1 - HOT_EVENTS) / weights[hot:].sum()
    return weights


def hot_queries(queries: int) -> int:
    """How many queries cause nearly everything."""
    return max(1, round(HOT_QUERIES * queries))


def late_queries(queries: int) -> range:
    """The hot queries that begin in the afternoon: one in forty."""
    return range(hot_queries(queries) // 40)


def draw(rng: np.random.Generator, weights: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Indices by weight; much quicker than `choice` with weights."""
    steps = np.cumsum(weights)
    return np.searchsorted(steps, rng.random(size) * steps[-1], side="right")


def _times(rng: np.random.Generator, curve: tuple[int, ...], size: int, begin: int = 0) -> NDArray[np.int64]:
    """Microseconds of the day, from the hour `begin` on; an hour's weight passes smoothly into the next one's."""
    minutes = np.interp(np.arange(1440) / 60, np.arange(-1, 25) + 0.5, (curve[-1], *curve, curve[0]))
    minutes[: begin * 60] = 0
    return draw(rng, minutes, size) * MINUTE + rng.integers(0, MINUTE, size)


def _ids(prefix: str, numbers: NDArray[np.int64], width: int) -> pa.Array:
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")
    return pc.binary_join_element_wise(prefix, digits, "")


def _day(steps: dict[str, NDArray[np.int64]], columns: dict[str, pa.Array]) -> pa.Table:
    """One record for each step of each row, in the order of time; what falls after midnight is the next day's."""
    times = np.concatenate(list(steps.values()))
    order = np.argsort(times, kind="stable")
    order = order[times[order] < LENGTH]
    start = int(DAY.timestamp()) * 1_000_000
    rows = len(times) // len(steps)
    names = pa.array(list(steps))
    return pa.table(
        {
            "ts": pa.array(start + times[order], pa.timestamp("us", "UTC")),
            "event": names.take(pa.array(order // rows)),
            **{name: column.take(pa.array(order % rows)) for name, column in columns.items()},
        }
    )

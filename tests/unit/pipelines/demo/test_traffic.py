"""The demo's day: seeded, in the order of time, with the shares that it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from keylane.pipelines.demo import traffic
from keylane.pipelines.demo.traffic import CITIES

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = traffic.Sizes().scaled(0.2)
MAKERS = (traffic.payments, traffic.rides, traffic.query_events)


def made(make: Callable[..., pa.Table], seed: int = 1) -> pa.Table:
    return make(np.random.default_rng(seed), SIZES)


def shares(column: Any) -> dict[str, float]:
    counted = column.value_counts()
    total = len(column)
    return dict(zip(counted.field(0).to_pylist(), (counted.field(1).to_numpy() / total).tolist(), strict=True))


def hours(table: pa.Table) -> Any:
    return pc.hour(table["ts"]).to_numpy()


@pytest.fixture(scope="module")
def payments() -> pa.Table:
    return made(traffic.payments)


@pytest.fixture(scope="module")
def rides() -> pa.Table:
    # The whole day: the smallest city has one ride in a hundred.
    return traffic.rides(np.random.default_rng(1), traffic.Sizes())


@pytest.fixture(scope="module")
def queries() -> pa.Table:
    return made(traffic.query_events)


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_day_and_another_gives_another(make: Callable[..., pa.Table]) -> None:
    assert made(make).equals(made(make))
    assert not made(make).equals(made(make, seed=2))


@pytest.mark.parametrize("make", MAKERS)
def test_a_day_is_in_the_order_of_time_and_within_the_day(make: Callable[..., pa.Table]) -> None:
    times = made(make)["ts"].cast(pa.int64()).to_numpy()
    start = int(traffic.DAY.timestamp()) * 1_000_000
    assert (np.diff(times) >= 0).all()
    assert start <= times[0] < times[-1] < start + 24 * 60 * traffic.MINUTE


def test_few_merchants_are_heavy_and_most_are_light(payments: pa.Table) -> None:
    of = sorted(shares(payments["merchant_id"]).values(), reverse=True)
    assert 0.035 < of[0] < 0.05
    assert 0.2 < sum(of[:20]) < 0.3
    assert len(of) > 15_000


def test_merchant_weights_are_the_zipf_like_ones_of_their_docstring() -> None:
    weights = traffic.merchant_weights(200_000)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] == pytest.approx(0.042, abs=0.001)
    assert weights[8] / weights[18] == pytest.approx(2)


def test_shops_are_busy_in_the_evening_and_quiet_at_night(payments: pa.Table) -> None:
    per_hour = np.bincount(hours(payments), minlength=24)
    assert per_hour[18:21].min() > 8 * per_hour[3:5].max()


def test_the_flash_sale_is_in_its_hour_and_nothing_foretells_it(payments: pa.Table) -> None:
    evening = payments.filter(pa.array(np.isin(hours(payments), (20,))))
    morning = shares(payments.filter(pa.array(hours(payments) < 12))["merchant_id"])
    heavy_by_night = {key for key, share in shares(evening["merchant_id"]).items() if share > 0.02}
    assert [key for key in heavy_by_night if morning.get(key, 0) < 0.001]


def test_both_records_of_an_order_are_of_one_merchant_and_in_order(payments: pa.Table) -> None:
    by_order = payments.group_by("order_id").aggregate([("merchant_id", "count_distinct"), ("event", "list")])
    assert pc.max(by_order["merchant_id_count_distinct"]).as_py() == 1
    assert set(map(tuple, by_order["event_list"].to_pylist())) == {("authorised", "captured"), ("authorised",)}


def test_rides_follow_the_population(rides: pa.Table) -> None:
    of, people = shares(rides["city"]), sum(city.millions for city in CITIES)
    assert len(of) == len(CITIES) == 40
    assert all(of[city.name] == pytest.approx(city.millions / people, rel=0.12) for city in CITIES)


@pytest.mark.parametrize(("name", "utc"), [("Tokyo", 9), ("New York", -5), ("London", 0)])
def test_each_city_keeps_its_own_clock(rides: pa.Table, name: str, utc: int) -> None:
    city = rides.filter(pc.equal(rides["city"], name))
    local = np.bincount((hours(city) + utc) % 24, minlength=24)
    assert local[17:19].min() > 4 * local[3:5].max()


def test_one_and_a_half_percent_of_the_queries_cause_nine_tenths_of_the_events(queries: pa.Table) -> None:
    of = sorted(shares(queries["query_id"]).values(), reverse=True)
    hot = round(0.015 * SIZES.queries)
    assert sum(of[:hot]) == pytest.approx(0.9, abs=0.005)
    assert of[hot - 1] > 20 * of[hot]


def test_some_heavy_queries_begin_in_the_afternoon(queries: pa.Table) -> None:
    of = shares(queries["query_id"])
    heavy = {key for key, share in of.items() if share > 0.001}
    early = set(queries.filter(pa.array(hours(queries) < 15))["query_id"].to_pylist())
    assert len(heavy - early) == len(traffic.late_queries(SIZES.queries)) == 3


def test_names_of_the_heavy_say_nothing_of_their_rank(payments: pa.Table) -> None:
    of = shares(payments["merchant_id"])
    assert max(of, key=lambda key: of[key]) != "merchant_000000"


def test_a_scaled_day_has_as_many_keys_and_fewer_records() -> None:
    small = traffic.Sizes().scaled(0.1)
    assert (small.merchants, small.queries) == (200_000, 8_000)
    assert small.orders == traffic.Sizes().orders // 10

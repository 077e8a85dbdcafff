"""Where a reader looks first: around the most records, also at the ends of the map."""

from __future__ import annotations

from keylane.report.land import Box
from keylane.report.map import CITY, COUNTRY, Spot, around, heaviest

TOKYO = [Spot(35.6 + i / 50, 139.7 + j / 50, 10) for i in range(5) for j in range(5)]
PARIS = [Spot(48.8 + i / 50, 2.3 + j / 50, 6) for i in range(5) for j in range(5)]


def test_the_heaviest_window_is_around_the_most_records() -> None:
    (city,) = heaviest([*PARIS, *TOKYO], CITY)
    assert all(city.holds(spot.lat, spot.lng) for spot in TOKYO)
    assert not any(city.holds(spot.lat, spot.lng) for spot in PARIS)


def test_the_next_one_is_another_place() -> None:
    first, second = heaviest([*PARIS, *TOKYO], CITY, 2)
    assert first.holds(35.65, 139.75)
    assert second.holds(48.85, 2.35)


def test_many_small_places_are_heavier_as_a_country_than_one_town() -> None:
    town, country = [Spot(-33.9, 151.2, 90)], [Spot(50.0 + i, 5.0 + j, 10) for i in range(4) for j in range(4)]
    assert heaviest([*town, *country], CITY)[0].holds(-33.9, 151.2)
    assert heaviest([*town, *country], COUNTRY)[0].holds(51.5, 6.5)


def test_without_places_there_is_nowhere_to_look() -> None:
    assert heaviest([], CITY) == []
    assert around([]) is None


def test_places_without_records_count_as_one_each() -> None:
    assert heaviest([Spot(10.0, 10.0, 0)], CITY)[0].holds(10.0, 10.0)


def test_a_box_over_the_180th_meridian_holds_both_sides() -> None:
    box = Box(-20.0, 175.0, -15.0, 185.0)
    assert box.holds(-18.0, 178.0)
    assert box.holds(-18.0, -178.0)
    assert not box.holds(-18.0, 170.0)
    assert around([Spot(1.0, 2.0, 3)]) == Box(1.0, 2.0, 1.0, 2.0)

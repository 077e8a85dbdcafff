"""The cities that the demo's rides are in: data only. Used by `traffic`, and by `choose` for the lanes a city needs."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CITIES", "City"]


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

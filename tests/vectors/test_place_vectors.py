"""Cities and their lanes, worked out apart from keylane: H3's own parent of a cell, and kafka-python's murmur2.

The table was made once by these two, over 60 lanes; the test makes it again, and holds both against the router.
"""

from __future__ import annotations

import h3
import pytest
from tests.parity.cases.case import Case
from tests.parity.cases.places import place

from keylane.router import Router

#: City, latitude, longitude, home cell, lane of 60. At resolution 3, London's cell is not its home cell's ancestor.
CITIES: list[tuple[str, float, float, str, int]] = [
    ("Phoenix", 33.44838, -112.07404, "8929b6d357bffff", 53),
    ("London", 51.50853, -0.12574, "89195da49b7ffff", 57),
    ("Paris", 48.85341, 2.3488, "891fb46625bffff", 7),
    ("Singapore", 1.28967, 103.85007, "896520db323ffff", 41),
    ("Hong Kong", 22.27832, 114.17469, "89410349a17ffff", 15),
    ("Sydney", -33.86785, 151.20732, "89be0e35ca3ffff", 14),
    ("Suva", -18.14161, 178.44149, "899b41b2b03ffff", 34),
    ("Longyearbyen", 78.22334, 15.64689, "890153a1653ffff", 44),
    ("Ushuaia", -54.8, -68.3, "89df4517547ffff", 38),
]


def derived(lat: float, lng: float) -> tuple[str, int]:
    from kafka.partitioner.default import murmur2

    home = h3.latlng_to_cell(lat, lng, 9)
    key = int(h3.cell_to_parent(home, 3), 16).to_bytes(8, "big")
    return home, (murmur2(key) & 0x7FFFFFFF) % 60


# kafka-python reads its protocol by functions that the standard library has deprecated.
@pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("lat", "lng", "cell", "lane"), [city[1:] for city in CITIES], ids=[city[0] for city in CITIES]
)
def test_a_city_has_its_lane(lat: float, lng: float, cell: str, lane: int) -> None:
    router = Router(Case({"lanes": 60, **place()}, {}).contract)
    placed = router.place({"lat": lat, "lng": lng})
    assert (placed.why[1], placed.lane) == (f"cell: {cell}", lane)
    assert derived(lat, lng) == (cell, lane)


def test_the_table_distinguishes_ancestors_from_coarse_cells() -> None:
    differ = [
        city for city, lat, lng, cell, _ in CITIES if h3.latlng_to_cell(lat, lng, 3) != h3.cell_to_parent(cell, 3)
    ]
    assert differ == ["London", "Singapore", "Hong Kong"]

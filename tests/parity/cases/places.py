"""Lanes by place: places of every kind of number, cells, and other bytes; with and without a lane table.

Borders of the earth and of regions, and every way in which two numbers are no place.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.parity.cases.case import Case, Columns, Spec, key, of

PHOENIX, PARIS = (33.4484, -112.0740), (48.8566, 2.3522)
NAN, INFINITE = float("nan"), float("inf")
PLACES: list[tuple[Any, Any]] = [
    PHOENIX,
    PARIS,
    (37.7749, -122.4194),
    (-33.8688, 151.2093),
    # the ends of the earth
    *((90.0, 0.0), (-90.0, 0.0), (90.0, 180.0), (-90.0, -180.0)),
    *((-16.8, 180.0), (-16.8, -180.0), (-16.8, 179.9999999), (-16.8, -179.9999999)),
    *((0.0, 10.0), (10.0, 0.0), (0.0, 180.0), (5e-324, 0.0)),
    # no places
    *((None, 1.0), (1.0, None), (None, None), (None, NAN)),
    *((NAN, 1.0), (1.0, NAN), (INFINITE, 1.0), (1.0, -INFINITE), (91.0, NAN)),
    *((-112.0740, 33.4484), (151.2, -33.9), (90.0000001, 10.0)),
    *((91.0, 200.0), (-91.0, -181.0), (45.0, 180.0000001), (1e308, -1e308)),
    *((0.0, 0.0), (-0.0, 0.0), (0.0, -0.0)),
]
WHOLE = [(33, -112), (90, 180), (-90, -180), (91, 10), (0, 0), (None, 5), (120, 30), (0, 7), (2**62, 2**62)]
DECIMALS = [
    *((Decimal("33.448400"), Decimal("-112.074000")), (Decimal("0.000000"), Decimal("0.000000"))),
    *((Decimal("90.000001"), Decimal("10.000000")), (None, Decimal("1.000000"))),
    *((Decimal("12.345678"), Decimal("98.765432")), (Decimal("-112.074000"), Decimal("33.448400"))),
]
#: Leaves of three resolutions over Phoenix, San Francisco, Fiji and the pole; Paris and Sydney are in none.
LEAVES = ["8329b6", "8428309", "", "899b436d593 830326"]
US = [24.0, -125.0, 50.0, -66.0]
DATE_LINE = [-20.0, 175.0, -10.0, -175.0]

#: The home cells of the first places, coarser ones, and numbers that only look like cells.
CELLS = [
    *(0x8929B6D357BFFFF, 0x891FB46624BFFFF, 0x8329B6FFFFFFFFF, 0x8029FFFFFFFFFFF, 0x8F29B6D357AD0C9),
    *(0x8929B6D357BFFF0, 0x89F5FFFFFFFFFFF, 0x08FFFFFFFFFFFFFF, 0, -1, 7, 2**63 - 1, None),
]
KEYS = [
    *((cell & (2**64 - 1)).to_bytes(8, "big") for cell in CELLS if cell is not None),
    *(b"", None, b"TT0124", b"12345678", b"\x00" * 7, b"\xff" * 9, bytes(range(256))),
]


#: Ten millionths of a degree, as many feeds have them: the places above, and what is no place in them.
SEVEN = 10_000_000
E7: list[tuple[Any, Any]] = [
    *((334_484_000, -1_120_740_000), (488_566_000, 23_522_000), (377_749_001, -1_224_194_001)),
    *((900_000_000, 1_800_000_000), (-900_000_000, -1_800_000_000), (900_000_001, 0), (-168_000_000, 1_799_999_999)),
    # swapped, too small a unit, degrees that were never scaled, and no fix
    *((-1_120_740_000, 334_484_000), (33_448_400_000, -112_074_000_000), (33, -112), (181, 1), (-120, 35), (0, 0)),
    *((None, 5), (2**62, -(2**62))),
]
#: Semicircles, of which a degree has no whole number.
SEMICIRCLES = 2**31 / 180


def geo(
    resolution: int = 3,
    leaves: list[str] | None = None,
    region: list[float] | None = None,
    scale: float | None = None,
) -> Spec:
    """Lanes by place; what is not given is left out."""
    all_given = {"leaves": leaves, "region": region, "scale": scale}
    more = {name: given for name, given in all_given.items() if given is not None}
    return {"geo": {"resolution": resolution, **more}}


def place(**given: Any) -> Spec:
    return {**key("place", ("lat", "lng"), on_null="sticky"), **geo(**given)}


def columns(places: list[tuple[Any, Any]], kind: Any = None) -> Columns:
    return {**of([lat for lat, _ in places], kind, "lat"), **of([lng for _, lng in places], kind, "lng")}


EVERY = columns(PLACES, pa.float64())
OTHERS = [
    "librdkafka-fnv1a",
    "kafkajs-1",
    "spark-hash",
    "abs-long-hashcode",
    "murmur2-big-endian",
    "librdkafka-murmur2",
]
CASES = {
    "places": Case(place(), EVERY),
    "places with leaves": Case(place(leaves=LEAVES), EVERY),
    "places at resolution 0": Case(place(resolution=0), EVERY),
    "places at resolution 9": Case(place(resolution=9), EVERY),
    "places of a country": Case(place(region=US, leaves=LEAVES), EVERY),
    "places across the date line": Case(place(region=DATE_LINE), EVERY),
    "places without positions": Case(place(), EVERY, positions=False),
    "places, lanes asked for": Case({**place(leaves=LEAVES), "lanes": "live"}, EVERY, lanes=60),
    **{f"places under {name}": Case({**place(leaves=LEAVES), "partitioner": name}, EVERY) for name in OTHERS},
    "places of single precision": Case(place(), columns(PLACES[:26], pa.float32())),
    "places of whole numbers": Case(place(), columns(WHOLE, pa.int64())),
    "places of small numbers": Case(place(), columns([(33, -112), (None, 5), (0, 0), (120, 30)], pa.int8())),
    "places of decimals": Case(place(leaves=LEAVES), columns(DECIMALS, pa.decimal128(12, 6))),
    "places in ten millionths": Case(place(leaves=LEAVES, scale=SEVEN), columns(E7, pa.int64())),
    "places in ten millionths, as floats": Case(place(leaves=LEAVES, scale=SEVEN), columns(E7[:14], pa.float64())),
    "places in ten millionths, as decimals": Case(
        place(scale=SEVEN),
        columns([(lat and Decimal(lat), lng and Decimal(lng)) for lat, lng in E7[:13]], pa.decimal128(20, 2)),
    ),
    "places in ten thousandths of a country": Case(
        place(scale=10_000, region=US),
        columns([(334_484, -1_120_740), (-1_120_740, 334_484), (488_566, 23_522), (33, -112)], pa.int32()),
    ),
    "places in semicircles": Case(
        place(leaves=LEAVES, scale=SEMICIRCLES), columns([(399_052_434, -1_337_080_461), (2**31 - 1, 5)], pa.int64())
    ),
    "places of two kinds": Case(
        place(), {**of([33.5, None, 0.0, 91.0], pa.float64(), "lat"), **of([-112, 1, 0, 5], pa.int32(), "lng")}
    ),
    "places without latitudes": Case(
        place(), {**of([None] * 3, pa.null(), "lat"), **of([1.0, None, 0.0], None, "lng")}
    ),
    "cells under geo": Case({**key("h3"), **geo()}, of(CELLS, pa.int64())),
    "cells under geo, with leaves": Case({**key("h3"), **geo(leaves=["8329b6", "8428309"])}, of(CELLS, pa.int64())),
    "cells under geo, as text": Case(
        {**key("h3"), **geo(leaves=["8329b6"])},
        of(["8929b6d357bffff", "891FB46624BFFFF", "08929b6d357bffff", "8029fffffffffff", "8929b6d357bfff0", "x", None]),
    ),
    "cells under geo, null by position": Case({**key("h3", on_null="random"), **geo()}, of(CELLS, pa.int64())),
    "bytes under geo": Case({**key("raw"), **geo()}, of(KEYS, pa.binary())),
    "bytes under geo, with leaves": Case({**key("raw"), **geo(leaves=["8329b6", "8428309"])}, of(KEYS, pa.binary())),
    "bytes under geo, spark-hash": Case({**key("raw"), **geo(), "partitioner": "spark-hash"}, of(KEYS, pa.binary())),
    "bytes under geo, empty refused": Case({**key("raw", on_empty="reject"), **geo()}, of(KEYS, pa.binary())),
    "bytes under geo, a header to strip": Case(
        {**key("raw", registry_header="strip"), **geo(leaves=["8329b6"])},
        of([b"\x00\x00\x00\x00\x07" + each for each in KEYS if each is not None] + [b"x", None], pa.binary()),
    ),
}

"""Latitude and longitude as a key: what is one, what has which reason, and that one bad row stops no other."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.model import Geo, Key
from keylane.errors import DataError, UnplacedError
from keylane.geo.coordinates import PLACE_REASONS, Region, place_problem, place_problems
from keylane.keys.cells import cell_in, cells_in
from keylane.keys.encode import degrees, encode
from keylane.keys.read import read_batch, record_reader
from keylane.records import REASON_CODES, Reason

PLACE = Key.model_validate({"fields": ["lat", "lng"], "encoding": "place"})
GEO = Geo.model_validate({"resolution": 3})
PHOENIX = bytes.fromhex("08929b6d357bffff")
ANCESTOR = bytes.fromhex("08329b6fffffffff")


def reason(lat: Any, lng: Any, geo: Geo | None = GEO) -> Reason | None:
    try:
        record_reader(PLACE, geo)({"lat": lat, "lng": lng})
    except UnplacedError as error:
        return error.reason
    return None


@pytest.mark.parametrize(
    "number",
    [33.4484, np.float64(33.4484), Decimal("33.4484"), Fraction(334484, 10000)],
    ids=["float", "NumPy", "decimal", "fraction"],
)
def test_every_kind_of_number_is_a_latitude(number: Any) -> None:
    assert record_reader(PLACE, GEO)({"lat": number, "lng": -112.0740}) == (PHOENIX, ANCESTOR)


@pytest.mark.parametrize("value", [True, np.bool_(True), "33.4", b"33.4", [33.4], 1j], ids=repr)
def test_what_is_no_number_is_malformed(value: Any) -> None:
    assert reason(value, 5.0) == reason(5.0, value) == Reason.MALFORMED_KEY


def test_a_misfit_is_malformed_although_the_other_is_null() -> None:
    assert reason(None, "x") == reason("x", None) == Reason.MALFORMED_KEY


def test_a_number_beyond_floats_is_out_of_range() -> None:
    assert reason(10**400, 5) == reason(5, -(10**400)) == Reason.PLACE_OUT_OF_RANGE


def test_a_decimal_that_is_no_number_is_not_finite() -> None:
    assert reason(Decimal("NaN"), 5) == reason(5, Decimal("sNaN")) == Reason.PLACE_NOT_FINITE
    assert degrees(Decimal("-Infinity")) == -float("inf")


def test_a_field_that_is_not_there_is_missing() -> None:
    with pytest.raises(UnplacedError, match="no field 'lng'") as error:
        record_reader(PLACE, GEO)({"lat": 1.0})
    assert error.value.reason is Reason.MISSING_FIELD


def test_null_is_its_own_reason_whatever_null_keys_do() -> None:
    for rule in ("hash", "sticky", "reject"):
        key = PLACE.model_copy(update={"on_null": rule})
        with pytest.raises(UnplacedError) as error:
            record_reader(key, GEO)({"lat": None, "lng": 1.0})
        assert error.value.reason is Reason.NULL_PLACE


def test_a_message_says_what_was_got_and_where_places_are() -> None:
    geo = Geo.model_validate({"resolution": 3, "region": [24, -125, 50, -66]})
    with pytest.raises(UnplacedError, match=r"got \(48.85, 2.35\); allowed: .* from 24.0, -125.0 to 50.0, -66.0"):
        record_reader(PLACE, geo)({"lat": 48.85, "lng": 2.35})


def test_a_scale_gives_the_location_that_degrees_give_to_the_last_bit() -> None:
    whole = record_reader(PLACE, GEO.model_copy(update={"scale": 1e7}))
    plain = record_reader(PLACE, GEO)
    rng = np.random.default_rng(5)
    for lat, lng in (rng.uniform(-1, 1, (300, 2)) * (90e7, 180e7)).round().astype(int).tolist():
        # Ten millionths written out are the degrees that a person would write.
        written = {"lat": float(f"{lat}e-7"), "lng": float(f"{lng}e-7")}
        assert whole({"lat": lat, "lng": lng}) == plain(written)
    with pytest.raises(UnplacedError, match="these numbers are degrees already") as error:
        whole({"lat": 33.4484, "lng": -112.0740})
    assert error.value.reason is Reason.PLACE_UNSCALED


def test_whole_numbers_without_a_scale_name_the_one_that_fits() -> None:
    with pytest.raises(UnplacedError, match=r"a scale of 10000 makes it 40.7637, -73.98; 100000 makes it") as error:
        record_reader(PLACE, GEO)({"lat": 407_637, "lng": -739_800})
    assert error.value.reason is Reason.PLACE_OUT_OF_RANGE
    for odd in ((91.5, 200.5), (1e300, 2e300)):
        with pytest.raises(UnplacedError) as twin:
            record_reader(PLACE, GEO)({"lat": odd[0], "lng": odd[1]})
        assert "scale" not in str(twin.value)


def test_one_place_and_many_have_the_same_problems() -> None:
    ends = [None, 0.0, -0.0, 5e-324, 45.0, 89.9, 90.0, 90.1, -90.0, 120.0, 180.0, -180.0, 180.1, 1e300]
    ends += [float("nan"), float("inf"), -float("inf"), 1.8e-5, -1.8e-5, 1.9e-5]
    pairs = [(lat, lng) for lat in ends for lng in ends]
    for region in (Region(), Region(24, -125, 50, -66), Region(-20, 175, 60, -175), Region(scale=1e7)):
        lat, lng = (
            np.ma.array([value or 0.0 for value in side], mask=[value is None for value in side])
            for side in zip(*pairs, strict=True)
        )
        many = [int(code) for code in place_problems(lat, lng, region)]
        order = (None, *PLACE_REASONS)
        assert [order.index(place_problem(lat, lng, region)) - 1 for lat, lng in pairs] == many


def test_one_bad_row_stops_no_other() -> None:
    lats = pa.array([33.4484, None, float("nan"), -112.0, 91.0, 0.0, 33.4484])
    lngs = pa.array([-112.0740, 1.0, 1.0, 33.4, 200.0, 0.0, -112.0740])
    keys = read_batch(pa.table({"lat": lats, "lng": lngs}), PLACE, GEO)
    assert keys.base.to_pylist() == [PHOENIX, *[None] * 5, PHOENIX]
    assert keys.routing.to_pylist() == [ANCESTOR, *[None] * 5, ANCESTOR]
    assert keys.malformed.tolist() == [False, *[True] * 5, False]
    wanted = ["NULL_PLACE", "PLACE_NOT_FINITE", "PLACE_SWAPPED", "PLACE_OUT_OF_RANGE", "PLACE_ZERO"]
    assert keys.reason is not None
    assert keys.reason.tolist() == [-1, *(REASON_CODES[Reason[name]] for name in wanted), -1]


@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.binary(), pa.timestamp("us")], ids=str)
def test_a_column_that_can_hold_no_place_is_a_wrong_file(kind: pa.DataType) -> None:
    batch = pa.table({"lat": pa.nulls(2, kind), "lng": pa.array([1.0, 2.0])})
    with pytest.raises(DataError, match=r"column 'lat' .*allowed: integer, floating, decimal"):
        read_batch(batch, PLACE, GEO)


def test_an_empty_batch_of_places_has_no_keys() -> None:
    empty = pa.table({"lat": pa.array([], pa.float64()), "lng": pa.array([], pa.float64())})
    assert len(read_batch(empty, PLACE, GEO).routing) == 0


def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(DataError, match="no column 'lng'"):
        read_batch(pa.table({"lat": pa.array([1.0])}), PLACE, GEO)


def test_without_geo_the_cell_itself_is_the_key() -> None:
    record = {"lat": 33.4484, "lng": -112.0740}
    assert record_reader(PLACE)(record) == (PHOENIX, PHOENIX)
    assert read_batch(pa.table({k: [v] for k, v in record.items()}), PLACE).routing.to_pylist() == [PHOENIX]


def test_a_place_in_a_contract_is_a_cell_or_a_pair() -> None:
    assert encode("8929b6d357bffff", "place") == encode((33.4484, -112.0740), "place") == PHOENIX
    for value in ("8929b6d357bfff0", 7, "x", (1.0, 2.0, 3.0)):
        with pytest.raises(UnplacedError):
            encode(value, "place")


def test_a_cell_is_found_among_other_keys() -> None:
    others = [b"", b"12345678", PHOENIX[:7], PHOENIX + b"\0", b"\xff" * 8, b"\x88" + PHOENIX[1:]]
    assert [cell_in(key) for key in (PHOENIX, *others)] == [0x8929B6D357BFFFF, *[None] * len(others)]
    assert cells_in(pa.array([PHOENIX, None, *others])).tolist() == [0x8929B6D357BFFFF, -1, *[-1] * len(others)]


def test_without_h3_the_extra_is_named_and_cells_need_none() -> None:
    """A place needs the library, and says so; a cell is read by its bits."""
    code = """
import sys
sys.modules["h3"] = sys.modules["h3.api"] = None
from keylane import Router, parse_contract
head = "apiVersion: keylane/v1\\nkind: RoutingContract\\nmetadata: {name: t}\\nspec:\\n  streams: [t]\\n  lanes: 60\\n"
rest = "  partitioner: kafka-java\\n  geo: {resolution: 3}\\n"
cells = Router(parse_contract(head + "  key: {fields: [c], encoding: h3}\\n" + rest))
print(cells.lane({"c": "8929b6d357bffff"}))
places = Router(parse_contract(head + "  key: {fields: [lat, lng], encoding: place}\\n" + rest))
try:
    places.lane({"lat": 1.0, "lng": 2.0})
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lane, said = done.stdout.splitlines()
    assert int(lane) in range(60)
    assert said.startswith("MissingExtraError h3 ")
    assert "[geo]" in said

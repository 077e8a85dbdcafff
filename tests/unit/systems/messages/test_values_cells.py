"""Latitude and longitude out of a topic's values: numbers stay numbers, in one text for Arrow and line by line."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.parity.cases.case import Case
from tests.parity.cases.places import place

from keylane.contract.fields import FieldSpec
from keylane.errors import UsageError
from keylane.systems.endpoint import StreamOptions
from keylane.systems.messages.values import fields_for

CONTRACT = Case(place(), {}).contract
GOOD = [b'{"lat": 33.4484, "lng": -112}', b'{"lat": null, "lng": 2.5e0}', b'{"lng": 1.0}']
#: What only the slow way reads, or finds unreadable: then all fields of the value are null.
ODD = [
    b'{"lat": 1.5,\n"lng": 2}',
    b'{"lat": "1.5", "lng": 2}',
    b'{"lat": true, "lng": 2}',
    b"[]",
    b'{"lat": NaN, "lng": 2}',
]


def read(values: list[bytes]) -> list[list[float | None]]:
    fields = fields_for(FieldSpec.of(CONTRACT), StreamOptions(value="json"))
    columns = fields.columns(pa.nulls(len(values), pa.binary()), pa.array(values, pa.binary()), None)
    assert [column.type for column in columns] == [pa.float64(), pa.float64()]
    return [list(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def test_numbers_of_json_are_degrees() -> None:
    expected = [[33.4484, -112.0], [None, 2.5], [None, 1.0]]
    assert read(GOOD) == expected
    assert read([*GOOD, ODD[0]])[:3] == expected


def test_text_and_truth_values_are_not_read_as_degrees() -> None:
    # JSON has no NaN: the last is no JSON.
    assert read(ODD) == [[1.5, 2.0], *[[None, None]] * 4]


def test_a_place_is_not_read_out_of_a_key() -> None:
    with pytest.raises(UsageError, match=r"lat, lng .*value"):
        fields_for(FieldSpec.of(CONTRACT), StreamOptions())

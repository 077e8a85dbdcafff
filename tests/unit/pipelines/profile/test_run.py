"""A profile counts the home cells of places, and says at once that it does not count places one by one."""

from __future__ import annotations

import pytest
from tests.parity.cases.case import Case, key
from tests.parity.cases.places import geo, place

from keylane.errors import UsageError
from keylane.pipelines.profile import key_of
from keylane.systems.endpoint import open_endpoint

FILES = open_endpoint("pings")


def test_places_are_refused_and_cells_are_named_instead() -> None:
    wanted = (
        "coordinates cannot be counted as keys: got 'lat, lng'; allowed: cells; hint: their home cells: --place LAT,LNG"
    )
    with pytest.raises(UsageError, match=wanted):
        key_of((), "utf8", Case(place(), {}).contract, FILES)
    with pytest.raises(UsageError, match=wanted):
        key_of(("lat", "lng"), "place", None, FILES)


def test_cells_are_counted() -> None:
    assert key_of((), "utf8", Case({**key("h3"), **geo()}, {}).contract, FILES).encodings == ("h3",)

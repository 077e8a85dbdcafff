"""Places become cells as H3 has them, what is no place is refused, and a missing library is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from keylane.errors import DataError
from keylane.geo.bits import cell_name
from keylane.geo.cells import cell_of
from keylane.keys.encode import encode


def test_a_cell_is_a_number_that_a_key_can_be_made_of() -> None:
    cell = cell_of(37.7749, -122.4194, 3)
    assert cell_name(cell) == "832830fffffffff"
    assert encode(cell, "h3") == encode("832830fffffffff", "h3") == cell.to_bytes(8, "big")


def test_swapped_places_are_other_cells() -> None:
    assert cell_of(40.0, -74.0, 3) != cell_of(-74.0, 40.0, 3)


@pytest.mark.parametrize(
    ("latitude", "longitude"),
    [(91, 0), (-90.1, 0), (0, 181), (0, -180.1), (float("nan"), 0), (0, float("inf"))],
    ids=str,
)
def test_what_is_no_place_is_refused(latitude: float, longitude: float) -> None:
    with pytest.raises(DataError, match="on the earth"):
        cell_of(latitude, longitude, 3)


@pytest.mark.parametrize("resolution", [-1, 16])
def test_no_such_resolution(resolution: int) -> None:
    with pytest.raises(DataError, match="0 to 15"):
        cell_of(0, 0, resolution)


def test_the_edges_are_places() -> None:
    assert {len(cell_name(cell_of(*place, 3))) for place in ((90, 0), (-90, 180), (0, -180))} == {15}


def test_without_the_library_the_extra_is_named() -> None:
    code = "import sys; sys.modules['h3'] = None\nfrom keylane.geo.cells import cell_of"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "[geo]" in done.stderr

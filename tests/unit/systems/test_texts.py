"""Lines of CSV as verify reads them: the cells that Spark's parser made of them, or none that are sure."""

from __future__ import annotations

import pytest

from keylane.systems.texts import cells_of


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b"a,b", ["a", "b"]),
        (b'"a,b",c', ["a,b", "c"]),
        (b'"key-6"5,163[', ['"key-6"5', "163["]),
        (b'"e"y-52\\ud800,52', ['"e"y-52\\ud800', "52"]),
        (b'"open,b', None),
        (b"\xff,b", None),
    ],
)
def test_cells_of_a_line(line: bytes, cells: list[str] | None) -> None:
    assert cells_of(line) == cells

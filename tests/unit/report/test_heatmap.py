"""The heat map as a picture: every cell in its colour, and the hottest lane never lost."""

from __future__ import annotations

import re
import zlib
from itertools import pairwise
from struct import unpack

import pytest

from keylane.report.heatmap import EMPTY, HEAT, _rows, png, scale_ticks, shade
from keylane.report.html import asset
from keylane.report.svg_charts import STOPS


def pixels(picture: bytes) -> list[list[tuple[int, ...]]]:
    """A picture read back, chunk by chunk, its checksums too."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(picture):
        (length,) = unpack(">I", picture[at : at + 4])
        name, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        assert unpack(">I", picture[at + 8 + length : at + 12 + length]) == (zlib.crc32(name + data),)
        chunks[name], at = data, at + 12 + length
    width, height = unpack(">II", chunks[b"IHDR"][:8])
    lines, palette = zlib.decompress(chunks[b"IDAT"]), chunks[b"PLTE"]
    rows = [lines[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(height)]
    return [[tuple(palette[3 * n : 3 * n + 3]) for n in row] for row in rows]


def test_every_cell_is_a_pixel_in_its_colour() -> None:
    found = pixels(png([[0, 1, 100], [50, 0, 0]], 100))
    assert (len(found), len(found[0])) == (2, 3)
    assert found[0][0] == found[1][1] == EMPTY
    assert found[0][2] == shade(1.0)
    assert found[0][1] not in (EMPTY, found[0][2])


def test_the_colours_darken_all_the_way() -> None:
    lights = [sum(shade(i / 100)) for i in range(101)]
    assert lights == sorted(lights, reverse=True)


def test_the_palette_is_that_of_the_style_sheet() -> None:
    light = asset("charts.css").partition("@media")[0]
    assert tuple(re.findall(r"--h\d: #([0-9a-f]{6})", light)) == HEAT
    assert len(HEAT) == STOPS
    assert re.findall(r"--empty: #([0-9a-f]{6})", light) == [bytes(EMPTY).hex()]


def test_lanes_that_share_a_row_never_hide_the_hottest() -> None:
    cells = [[1, 1] for _ in range(1_000)]
    cells[501] = [9, 1]
    shared = _rows(cells)
    assert len(shared) <= 400
    assert max(row[0] for row in shared) == 9
    assert _rows([[1], [2]]) == [[1], [2]]


@pytest.mark.parametrize("most", [1, 7, 792, 2_590, 12_345_678])
def test_the_scale_goes_from_nothing_to_the_fullest_cell_and_its_labels_do_not_touch(most: int) -> None:
    places = [at for at, _ in scale_ticks(most)]
    assert (places[0], places[-1]) == (0.0, 1.0)
    assert all(b - a >= 0.06 for a, b in pairwise(places))

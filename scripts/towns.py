"""Make the names of towns that the maps of the pages show: `src/keylane/report/assets/towns.txt`.

    python scripts/towns.py ne_10m_populated_places_simple.dbf

The file is Natural Earth's populated places (public domain) at 1:10 million, as the Debian package `libmagics++-data`
has it. Of each place its name, its degrees and its rank are kept, 0 the largest. `keylane.report.land` reads them.
"""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = Path(__file__).parent.parent / "src/keylane/report/assets/towns.txt"
HEADER = """\
# Names of towns for the maps of keylane's pages. Made by scripts/towns.py; do not edit.
# Source: Natural Earth (naturalearthdata.com), populated places at 1:10 million, version 2.0. Public domain.
# Taken from the Debian package libmagics++-data 4.13.0-1.
# One line: base85 of zlib of lines of text, each a rank, thousandths of degrees of latitude and longitude, a name.
"""


def main(file: str) -> None:
    """Write the asset."""
    lines = sorted(set(towns(Path(file).read_bytes())))
    packed = base64.b85encode(zlib.compress("\n".join(text for *_, text in lines).encode(), 9)).decode("ascii")
    TARGET.write_text(f"{HEADER}{packed}\n", encoding="ascii")


def towns(table: bytes) -> Iterator[tuple[int, int, str]]:
    """Of each town of a table in dBase's form the rank, what sorts the largest first, and the line."""
    count, head, size = struct.unpack("<IHH", table[4:12])
    fields = dict(columns(table))
    for row in range(count):
        record = table[head + row * size : head + (row + 1) * size]
        found = {
            name: record[at : at + width].decode("cp1252", "replace").strip() for name, (at, width) in fields.items()
        }
        lat, lng = (round(float(found[name]) * 1000) for name in ("latitude", "longitude"))
        rank = int(found["scalerank"])
        yield rank, -int(found["pop_max"]), f"{rank} {lat} {lng} {found['name']}"


def columns(table: bytes) -> Iterator[tuple[str, tuple[int, int]]]:
    """The columns of the table: name, first byte and width."""
    at = 1
    for start in range(32, len(table), 32):
        if table[start] == 0x0D:
            return
        width = table[start + 16]
        yield table[start : start + 11].split(b"\0")[0].decode("ascii"), (at, width)
        at += width


if __name__ == "__main__":
    main(sys.argv[1])

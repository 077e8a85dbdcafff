"""Names that people and other programs give: what a spreadsheet runs, what CSV and YAML take for something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

BEGINNINGS = (
    "",
    "",
    "=",
    "+",
    "-",
    "@",
    "'",
    "'@",
    "''=",
    "\t",
    "\r",
    "\n",
    " ",
    " =",
    "\uff1d",
    "#",
    '"',
    "'-5",
    "0x",
    "{",
)
MIDDLES = (
    "acme",
    "a,b",
    'a"b',
    "a\nb",
    "a;b",
    "no",
    "null",
    "~",
    "1e5",
    "5",
    "é",
    "e\u0301",
    "😀",
    "İ",
    "a: b",
    "a#b",
    "%s",
)
ENDS = ("", "", "'", '"', " ", ",", "\n", "\r\n", "\u2028")


def names(random: Random, many: int) -> list[str]:
    """Distinct names, hostile most of them."""
    found: dict[str, None] = {}
    while len(found) < many:
        parts = (random.choice(BEGINNINGS), random.choice(MIDDLES), str(random.randrange(99)), random.choice(ENDS))
        found["".join(parts)] = None
    return list(found)

"""What lanes by place promise about the key, the lanes and its leaves. Part of `cross`, which says how it is read.

A place is the whole key: two fields, one encoding. `geo` says the lane of every cell, so nothing else may: no table, no
window, no hot keys. A cell that is hot gets a leaf of its own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.cross import Promised, as_dict, as_list
from keylane.contract.leaves import leaves_checksum
from keylane.geo.bits import HOME_RESOLUTION, cell_name, cell_named, curve_end, curve_start, resolution

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.cross import Problem
    from keylane.contract.yaml_tree import Path

__all__ = ["geo_problems"]

GEO: Final[Path] = ("spec", "geo")
KEY: Final[Path] = ("spec", "key")
#: What else may not decide a lane, and what to do instead.
RIVALS: Final = {
    "table": "a table and geo both say the lane; hint: leave one of them out",
    "hot_keys": "geo says the lane of every cell, a hot one too; hint: give it a leaf of its own in geo.leaves",
}


def geo_problems(spec: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    """Every contradiction of a key that is a place, and of lanes by place."""
    key = as_dict(spec.get("key"))
    if "place" in promised.encodings:
        yield from _place(key, promised, there=spec.get("geo") is not None)
    if isinstance(spec.get("geo"), dict):
        yield from _key(key, promised)
        yield from ((("spec", name), text) for name, text in RIVALS.items() if spec.get(name))
        if promised.keyless:
            yield GEO, "the named client ignores keys, so no place can have a lane; hint: another partitioner"
        yield from _leaves(spec["geo"], promised)
        yield from _region(as_list(spec["geo"].get("region")))


def _place(key: dict[Any, Any], promised: Promised, *, there: bool) -> Iterator[Problem]:
    if set(promised.encodings) != {"place"}:
        yield (*KEY, "encoding"), f"a place is the whole key: got {promised.encodings}; allowed: encoding: place"
    elif len(promised.fields) != 2:
        yield (*KEY, "fields"), f"a place has two fields: got {promised.fields}; allowed: [latitude, longitude]"
    if key.get("join") is not None:
        yield (*KEY, "join"), f"a place is one cell, so there is nothing to join: got {key['join']!r}; allowed: none"
    if not there:
        yield (*KEY, "encoding"), "a place needs geo, which says its lane: got none; hint: geo: {resolution: 3}"


def _key(key: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    others = [encoding for encoding in promised.encodings if encoding not in ("place", "h3", "raw")]
    place = "place" in promised.encodings
    if others and not place:
        allowed = "place for two fields, h3 or raw for one"
        yield (*KEY, "encoding"), f"lanes by place need cells: got {others[0]!r}; allowed: {allowed}"
    elif not place and len(promised.fields) > 1:
        yield (*KEY, "fields"), f"one field holds the cell: got {promised.fields}; allowed: one, or encoding: place"
    if key.get("window"):
        hint = "hint: leave the window to the readers"
        yield (*KEY, "window"), f"a cell has one lane at all times, so geo goes with no window: got one; {hint}"


def _leaves(geo: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    path: Path = (*GEO, "leaves")
    given_leaves = as_list(geo.get("leaves"))
    for lane, text in enumerate(given_leaves):
        if isinstance(text, int | float):
            yield (*path, lane), f"cells that read as a number: got {text}; hint: put them in quotes, as 838e06 needs"
    texts = [text if isinstance(text, str) else "" for text in given_leaves]
    if promised.lanes is not None and len(texts) > promised.lanes:
        allowed = f"up to {promised.lanes}, one text for each lane"
        yield (*path, promised.lanes), f"leaves of lanes that there are not: got {len(texts)} texts; allowed: {allowed}"
    found = [(cell_named(word), lane, word) for lane, text in enumerate(texts) for word in text.split()]
    yield from _each_leaf(path, found, geo.get("resolution"))
    yield from _nested(path, [(cell, lane) for cell, lane, _ in found if cell is not None])
    given = geo.get("checksum")
    if isinstance(given, str) and given != (real := leaves_checksum(texts)):
        hint = "hint: the leaves were changed by hand, or cut; write the table again with keylane geo table"
        yield (*GEO, "checksum"), f"not that of the leaves: got {given[:16]}…; allowed: {real}; {hint}"


def _each_leaf(path: Path, found: list[tuple[int | None, int, str]], coarsest: Any) -> Iterator[Problem]:
    """The first leaf of each lane that is none, or too coarse or too fine; one is enough to find the others."""
    least = coarsest if isinstance(coarsest, int) and 0 <= coarsest <= HOME_RESOLUTION else 0
    told: set[tuple[int, bool]] = set()
    for cell, lane, word in found:
        if (cell is not None and least <= resolution(cell) <= HOME_RESOLUTION) or (lane, cell is None) in told:
            continue
        told.add((lane, cell is None))
        if cell is None:
            yield (*path, lane), f"no cell: got {word[:20]!r}; allowed: H3 cells in hexadecimal, trailing f left out"
        else:
            allowed = f"geo.resolution, {least}, to {HOME_RESOLUTION}"
            yield (*path, lane), f"a leaf of resolution {resolution(cell)}: got {word!r}; allowed: {allowed}"


def _nested(path: Path, leaves: list[tuple[int, int]]) -> Iterator[Problem]:
    """Sorted along the curve, leaves meet only if neighbours do; a coarser one begins first."""
    ordered = sorted(leaves, key=lambda leaf: (curve_start(leaf[0]), -curve_end(leaf[0])))
    for (before, first), (after, second) in pairwise(ordered):
        if curve_start(after) <= curve_end(before):
            what = "is given twice" if before == after else f"lies in {_short(before)}, which is a leaf too"
            allowed = "leaves of which none holds another"
            yield (
                (*path, second),
                f"one lane a cell: got {_short(after)}, which {what} (lane {first}); allowed: {allowed}",
            )
            return


def _short(cell: int) -> str:
    return cell_name(cell).rstrip("f")


def _region(region: list[Any]) -> Iterator[Problem]:
    if len(region) != 4 or any(isinstance(end, bool) or not isinstance(end, int | float) for end in region):
        return
    south, west, north, east = region
    if not -90 <= south < north <= 90:
        yield (*GEO, "region"), f"no latitudes: got {south} to {north}; allowed: south below north, from -90 to 90"
    if not (-180 <= west <= 180 and -180 <= east <= 180 and west != east):
        yield (*GEO, "region"), f"no longitudes: got {west} to {east}; allowed: two different ones, from -180 to 180"

"""What a table promises about lanes, keys and its own ranges. Part of `cross`, which says how to read it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from keylane.contract.cross import Promised, as_dict, as_list, in_range, known_key, sub_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.cross import Problem
    from keylane.contract.yaml_tree import Path

__all__ = ["table_problems"]

#: Which keys have an order that ranges can use, and how a bound is written.
ORDERED: dict[str, type] = {"utf8": str, "int32be": int, "int64be": int, "h3": int}


def table_problems(table: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    """Every contradiction of a table."""
    path: Path = ("spec", "table")
    if not table:
        return
    if promised.keyless:
        yield path, "the named client ignores keys, so none can be looked up; hint: another partitioner"
    if not table.get("values") and not table.get("ranges"):
        yield path, "one of values, ranges is needed: got none"
    if len(promised.fields) > 1:
        yield path, f"a table looks at one field: got {promised.fields}"
    yield from _values((*path, "values"), table, promised)
    yield from sub_key((*path, "by"), table.get("by"), promised)
    yield from _ranges((*path, "ranges"), [as_dict(r) for r in as_list(table.get("ranges"))], promised)


def _values(path: Path, table: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    seen: dict[str, Any] = {}
    for key, lanes in as_dict(table.get("values")).items():
        yield from known_key((*path, key), key, promised)
        yield from _value_lanes((*path, key), lanes, table, promised)
        if promised.encodings[:1] == ["utf8"] and seen.setdefault(str(key), key) is not key:
            yield (*path, key), f"given twice: got {key!r} and {seen[str(key)]!r}, which are the same text"


def _value_lanes(path: Path, lanes: Any, table: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    if not isinstance(lanes, list):
        yield from in_range(path, lanes, promised.lanes)
        return
    for i, lane in enumerate(lanes):
        yield from in_range((*path, i), lane, promised.lanes)
    if len({repr(lane) for lane in lanes}) < len(lanes):
        yield path, f"a lane is given twice: got {lanes}"
    if len(lanes) > 1 and not table.get("by"):
        yield path, "several lanes need a sub-key; hint: by: FIELD"


def _ranges(path: Path, ranges: list[dict[Any, Any]], promised: Promised) -> Iterator[Problem]:
    if not promised.encodings or not ranges:
        return
    encoding = promised.encodings[0]
    kind = ORDERED.get(encoding)
    if kind is None:
        yield path, f"these keys have no order a table could use: got {encoding!r}; allowed: {', '.join(ORDERED)}"
        return
    sound = []
    for i, one in enumerate(ranges):
        yield from in_range((*path, i, "lane"), one.get("lane"), promised.lanes)
        problem = _ends(one, kind, encoding)
        if problem:
            yield (*path, i), problem
        else:
            sound.append(i)
    yield from _overlaps(path, ranges, sound)


def _ends(one: dict[Any, Any], kind: type, encoding: str) -> str:
    ends = [end for end in (one.get("from"), one.get("below")) if end is not None]
    if any(not isinstance(end, kind) or isinstance(end, bool) for end in ends):
        return f"{encoding} keys are compared as {kind.__name__}: got {ends}"
    if len(ends) == 2 and not ends[0] < ends[1]:
        return f"empty: from {ends[0]!r} is not below {ends[1]!r}"
    return ""


def _overlaps(path: Path, ranges: list[dict[Any, Any]], sound: list[int]) -> Iterator[Problem]:
    """Sorted by where they begin, half-open ranges meet only if neighbours do."""
    opened = [i for i in sound if ranges[i].get("from") is None]
    begun = sorted((i for i in sound if ranges[i].get("from") is not None), key=lambda i: ranges[i]["from"])
    for before, after in pairwise([*opened, *begun]):
        end, start = ranges[before].get("below"), ranges[after].get("from")
        if end is None or start is None or start < end:
            later, earlier = max(before, after), min(before, after)
            yield (*path, later), f"overlaps ranges[{earlier}]"

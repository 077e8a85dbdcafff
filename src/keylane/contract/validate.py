"""What one field of a contract requires of another, read from the plain data of a file.

It works on data rather than models so that a file with a typo still gets its other problems reported in the same
run; so every step here tolerates what is missing or of the wrong type, and leaves that to `model`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.allowed import shown
from keylane.contract.lane_table import leaves_checksum
from keylane.contract.names import ENCODINGS, MAX_LANES
from keylane.contract.partitioners import FACTS, PartitionerFacts
from keylane.contract.shards import shard_problems
from keylane.geo.bits import HOME_RESOLUTION, cell_name, cell_named, curve_end, curve_start, resolution
from keylane.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.yaml_tree import Path

    Problem = tuple[Path, str]

    from keylane.contract.yaml_tree import Path


@dataclass(frozen=True, slots=True)
class Promised:
    """What the rest of a spec is compared with; None or empty where the file is wrong."""

    lanes: int | None = None
    live: bool = False
    fields: list[Any] = field(default_factory=list)
    encodings: list[Any] = field(default_factory=list)
    partitioner: PartitionerFacts | None = None
    streams: list[Any] = field(default_factory=list)

    @property
    def values(self) -> int:
        """How many values a key written in a contract has: a location is written as one cell."""
        return 1 if "place" in self.encodings else len(self.fields)

    @property
    def keyless(self) -> bool:
        """Whether the named client ignores keys."""
        return self.partitioner is not None and self.partitioner.fold == "keyless"


def cross_problems(data: Any) -> Iterator[Problem]:
    """Every contradiction between fields, as (path, message)."""
    spec = as_dict(as_dict(data).get("spec"))
    promised = _promised(spec)
    yield from _twice(("spec", "streams"), promised.streams)
    yield from _key(as_dict(spec.get("key")), promised)
    yield from _hot_keys(spec, promised)
    yield from table_problems(as_dict(spec.get("table")), promised)
    yield from geo_problems(spec, promised)
    facts = promised.partitioner
    ranges = None if facts is None else facts.fold == "ranges"
    yield from shard_problems(spec, promised.lanes, live=promised.live, ranges=ranges)
    yield from _golden(spec, promised)


def as_dict(value: Any) -> dict[Any, Any]:
    """A mapping, or an empty one instead of any other type."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A list, or an empty one instead of any other type."""
    return value if isinstance(value, list) else []


def _promised(spec: dict[Any, Any]) -> Promised:
    key, name = as_dict(spec.get("key")), spec.get("partitioner")
    fields, encoding = as_list(key.get("fields")), key.get("encoding", "utf8")
    encodings = encoding if isinstance(encoding, list) else [encoding] * max(1, len(fields))
    known = all(isinstance(one, str) and one in ENCODINGS for one in encodings)
    return Promised(
        _count(spec.get("lanes")),
        spec.get("lanes") == "live",
        fields,
        encodings if known else [],
        FACTS.get(name) if isinstance(name, str) else None,
        as_list(spec.get("streams")),
    )


def _count(value: Any) -> int | None:
    """A lane count that others may be compared with."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 1 <= value <= MAX_LANES else None


def _listed(values: list[Any]) -> str:
    """Names as a person writes them, not as Python does."""
    return ", ".join(value if isinstance(value, str) else shown(value) for value in values)


def _twice(path: Path, values: list[Any]) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, value in enumerate(values):
        if repr(value) in seen:
            yield (*path, i), f"given twice: got {shown(value)}"
        seen.add(repr(value))


def _key(key: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    path: Path = ("spec", "key")
    encoding, fields = key.get("encoding"), promised.fields
    if isinstance(encoding, list) and len(encoding) != len(fields):
        yield (*path, "encoding"), f"got {len(encoding)} encodings; allowed: one, or {len(fields)}, one a field"
    if key.get("registry_header") == "strip" and promised.encodings not in ([], ["raw"]):
        yield (*path, "registry_header"), "only a raw key can have a registry header; hint: encoding: raw"
    yield from _twice((*path, "fields"), fields)
    if promised.partitioner is not None:
        yield from _key_bytes(promised.partitioner, key, promised)
        yield from _key_rules(promised.partitioner, key)


def _key_bytes(facts: PartitionerFacts, key: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    """Refuse key bytes that the named client could not hold."""
    allowed = ", ".join(facts.encodings)
    for encoding in dict.fromkeys(promised.encodings):
        if encoding not in facts.encodings:
            yield (
                ("spec", "key", "encoding"),
                f"{facts.name} does not support this encoding: got {shown(encoding)}; allowed: {allowed}",
            )
    if facts.hash == "java-long" and (promised.values > 1 or key.get("window")):
        yield ("spec", "key", "fields"), f"{facts.name} hashes one 8-byte number; hint: one field and no window"


def _key_rules(facts: PartitionerFacts, key: dict[Any, Any]) -> Iterator[Problem]:
    """A null or empty key can be hashed only where there is a hash that takes it."""
    if facts.hash is None or facts.hash == "java-long":
        for rule in ("on_null", "on_empty"):
            if key.get(rule) == "hash":
                yield ("spec", "key", rule), f"{facts.name} does not hash such keys; hint: reject, or a keyless rule"


def _hot_keys(spec: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    tiers: dict[str, Any] = {}
    for i, rule in enumerate(map(as_dict, as_list(spec.get("hot_keys")))):
        path: Path = ("spec", "hot_keys", i)
        if promised.keyless:
            yield path, "the partitioner ignores keys, so no key can be hot; hint: another partitioner"
        yield from _one_of(path, rule, ("pins", "pin", "spread", "tier"))
        yield from _hot_values(list(_named_keys(path, rule)), promised, seen, i)
        yield from _keys_or_pins(path, rule)
        yield from _pin(path, rule, promised)
        yield from _spread((*path, "spread"), rule.get("spread"), promised, promised.lanes)
        yield from _tier((*path, "tier"), as_dict(rule.get("tier")), promised, tiers)


def _named_keys(path: Path, rule: dict[Any, Any]) -> Iterator[tuple[Path, Any]]:
    """The keys of a rule, each with its path: those of `keys`, and those of `pins`."""
    yield from (((*path, "keys", j), key) for j, key in enumerate(as_list(rule.get("keys"))))
    for j, one in enumerate(map(as_dict, as_list(rule.get("pins")))):
        if "key" in one:
            yield (*path, "pins", j, "key"), one["key"]


def _keys_or_pins(path: Path, rule: dict[Any, Any]) -> Iterator[Problem]:
    if rule.get("pins") and rule.get("keys"):
        yield (*path, "keys"), "pins names its own keys; hint: leave keys out, or write pin: {lanes: [...]}"
    elif not rule.get("pins") and not rule.get("keys"):
        yield (*path, "keys"), "required, but missing"


def _hot_values(keys: list[tuple[Path, Any]], promised: Promised, seen: dict[str, int], rule: int) -> Iterator[Problem]:
    for path, key in keys:
        yield from _key_width(path, key, promised)
        yield from known_key(path, key, promised)
        name = _as_bytes(key, promised)
        if name in seen:
            yield path, f"given twice: got {shown(key)}; first in hot_keys[{seen[name]}]"
        seen.setdefault(name, rule)


def _as_bytes(key: Any, promised: Promised) -> str:
    """What distinguishes two keys: as text, 7 and '7' are one key."""
    parts = key if isinstance(key, list) else [key]
    text = [str(p) if e == "utf8" else repr(p) for p, e in zip(parts, promised.encodings, strict=False)]
    return repr(text or parts)


def known_key(path: Path, key: Any, promised: Promised) -> Iterator[Problem]:
    """Refuse a key that its encoding cannot hold."""
    parts = key if isinstance(key, list) else [key]
    for part, encoding in zip(parts, promised.encodings, strict=False):
        if wants := misfit(part, encoding):
            yield path, f"not a {encoding} key: got {shown(part)}; allowed: {wants}"


def misfit(value: Any, encoding: str) -> str:
    """What an encoding wants instead of this value; empty when it fits. A contract cannot spell raw bytes."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not isinstance(value, str):
        return ""
    text = value if isinstance(value, str) else ""
    fits = {
        "utf8": True,
        "int32be": number and -(2**31) <= value < 2**31,
        "int64be": number and -(2**63) <= value < 2**63,
        "uuid": bool(re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text)),
        "h3": (number and value >> 59 == 1) or bool(re.fullmatch(r"0?[89a-fA-F][0-9a-fA-F]{14}", text)),
        "place": False,
        "raw": False,
    }
    return "" if fits[encoding] else _WANTS[encoding]


_WANTS = {
    "int32be": "whole numbers of 32 bits",
    "int64be": "whole numbers of 64 bits",
    "uuid": "32 hex digits as 8-4-4-4-12",
    "h3": "an H3 cell as a number or 15 hex digits",
    "place": "none: geo.leaves decides the lane of a cell",
    "raw": "none: a contract cannot spell raw bytes",
}


def _one_of(path: Path, rule: dict[Any, Any], names: tuple[str, ...]) -> Iterator[Problem]:
    present = [name for name in names if rule.get(name)]
    if len(present) != 1:
        got = f": got {', '.join(present)}" if present else ""
        yield path, f"exactly one of {', '.join(names)} is required{got}"


def _key_width(path: Path, key: Any, promised: Promised) -> Iterator[Problem]:
    width = len(key) if isinstance(key, list) else 1
    if promised.fields and width != promised.values:
        wants = f"{promised.values}, one for each of {_listed(promised.fields)}" if promised.values > 1 else "1"
        yield path, f"got {plural(width, 'value')}; allowed: {wants}"


def _pin(path: Path, rule: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    lanes, keys = as_list(as_dict(rule.get("pin")).get("lanes")), as_list(rule.get("keys"))
    if lanes and keys and len(lanes) != len(keys):
        yield (*path, "pin", "lanes"), f"got {len(lanes)} lanes for {len(keys)} keys; allowed: as many lanes as keys"
    for i, lane in enumerate(lanes):
        yield from in_range((*path, "pin", "lanes", i), lane, promised.lanes)
    for i, one in enumerate(map(as_dict, as_list(rule.get("pins")))):
        yield from in_range((*path, "pins", i, "lane"), one.get("lane"), promised.lanes)


def in_range(path: Path, lane: Any, count: Any) -> Iterator[Problem]:
    """Refuse a lane that the count does not have."""
    if isinstance(lane, int) and isinstance(count, int) and lane >= count:
        yield path, f"no such lane: got {lane}; allowed: 0 to {count - 1}"


def _tier(path: Path, tier: dict[Any, Any], promised: Promised, tiers: dict[str, Any]) -> Iterator[Problem]:
    if not tier:
        return
    stream, lanes = tier.get("stream"), tier.get("lanes")
    yield from _spread((*path, "spread"), tier.get("spread"), promised, _count(lanes))
    if stream is not None and stream in promised.streams:
        yield (*path, "stream"), f"a tier must be a stream outside `streams`: got {shown(stream)}"
    if tiers.setdefault(repr(stream), lanes) != lanes:
        yield (*path, "lanes"), f"a stream has one lane count: got {lanes}, earlier {tiers[repr(stream)]}"


def _spread(path: Path, value: Any, promised: Promised, count: int | None) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    yield from _one_of(path, value, ("over", "lanes"))
    yield from _one_of(path, value, ("by", "by_position"))
    over, lanes = value.get("over"), as_list(value.get("lanes"))
    if isinstance(over, int) and count is not None and over > count:
        yield (*path, "over"), f"more lanes than the stream has: got {over}; allowed: 2 to {count}"
    for i, lane in enumerate(lanes):
        yield from in_range((*path, "lanes", i), lane, count)
    if len({repr(lane) for lane in lanes}) < len(lanes):
        yield (*path, "lanes"), f"a lane is given twice: got {shown(lanes)}"
    yield from sub_key((*path, "by"), value.get("by"), promised)


def sub_key(path: Path, by: Any, promised: Promised) -> Iterator[Problem]:
    """Refuse a sub-key that is part of the key: it is the same for all records of one key."""
    if by is not None and by in promised.fields:
        yield path, f"a field of the key cannot spread it: got {shown(by)}; hint: a field that differs within one key"


def _golden(spec: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    tiers = [as_dict(as_dict(rule).get("tier")) for rule in as_list(spec.get("hot_keys"))]
    counts = {str(tier.get("stream")): _count(tier.get("lanes")) for tier in tiers if tier}
    for i, golden in enumerate(map(as_dict, as_list(spec.get("golden")))):
        path: Path = ("spec", "golden", i)
        yield from _one_of(path, {k: [v] for k, v in golden.items() if v is not None}, ("key", "record"))
        if golden.get("key") is not None:
            yield from _key_width((*path, "key"), golden["key"], promised)
        yield from _golden_degrees((*path, "record"), as_dict(golden.get("record")), promised)
        yield from _golden_lane(path, golden, promised, counts)


def _golden_degrees(path: Path, record: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    """A number with a fraction is a latitude or a longitude, and no key of any other kind."""
    for name, value in record.items():
        if isinstance(value, float) and not ("place" in promised.encodings and name in promised.fields):
            yield (*path, name), f"got {value}; allowed: text or a whole number; hint: quote it if you mean the text"


def _golden_lane(
    path: Path, golden: dict[Any, Any], promised: Promised, tiers: dict[str, int | None]
) -> Iterator[Problem]:
    stream = golden.get("stream")
    if stream is not None and stream not in promised.streams and str(stream) not in tiers:
        yield (*path, "stream"), f"no such stream: got {shown(stream)}; allowed: {_listed([*promised.streams, *tiers])}"
    elif str(stream) in tiers:
        yield from in_range((*path, "lane"), golden.get("lane"), tiers[str(stream)])
        return
    yield from in_range((*path, "lane"), golden.get("lane"), golden.get("lanes", promised.lanes))
    if golden.get("lanes") is None and promised.live:
        yield path, "the lane count is missing; hint: lanes: N"


# The `table` section: lanes, keys and its own ranges.

#: Which keys have an order that ranges can use, and how a bound is written.
ORDERED: dict[str, type] = {"utf8": str, "int32be": int, "int64be": int, "h3": int}


def table_problems(table: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    """Every contradiction of a table."""
    path: Path = ("spec", "table")
    if not table:
        return
    if promised.keyless:
        yield path, "the partitioner ignores keys, so no key can be looked up; hint: another partitioner"
    if not table.get("values") and not table.get("ranges"):
        yield path, "values or ranges is required"
    if len(promised.fields) > 1:
        yield path, f"a table needs a key of one field: got {_listed(promised.fields)}"
    yield from _values((*path, "values"), table, promised)
    yield from sub_key((*path, "by"), table.get("by"), promised)
    yield from _ranges((*path, "ranges"), [as_dict(r) for r in as_list(table.get("ranges"))], promised)


def _values(path: Path, table: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    seen: dict[str, Any] = {}
    for key, lanes in as_dict(table.get("values")).items():
        yield from known_key((*path, key), key, promised)
        yield from _value_lanes((*path, key), lanes, table, promised)
        if promised.encodings[:1] == ["utf8"] and seen.setdefault(str(key), key) is not key:
            yield (*path, key), f"given twice: got {shown(key)} and {seen[str(key)]!r}, which are the same text"


def _value_lanes(path: Path, lanes: Any, table: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    if not isinstance(lanes, list):
        yield from in_range(path, lanes, promised.lanes)
        return
    for i, lane in enumerate(lanes):
        yield from in_range((*path, i), lane, promised.lanes)
    if len({repr(lane) for lane in lanes}) < len(lanes):
        yield path, f"a lane is given twice: got {shown(lanes)}"
    if len(lanes) > 1 and not table.get("by"):
        yield path, "several lanes need a sub-key; hint: by: FIELD"


def _ranges(path: Path, ranges: list[dict[Any, Any]], promised: Promised) -> Iterator[Problem]:
    if not promised.encodings or not ranges:
        return
    encoding = promised.encodings[0]
    kind = ORDERED.get(encoding)
    if kind is None:
        yield path, f"ranges need keys with an order: got {shown(encoding)}; allowed: {', '.join(ORDERED)}"
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
        wants = "text" if kind is str else "whole numbers"
        return f"the ends of a range of {encoding} keys are {wants}: got {' to '.join(map(shown, ends))}"
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


# The `geo` section: the key, the lanes and the leaves.

GEO: Final[Path] = ("spec", "geo")
KEY: Final[Path] = ("spec", "key")
#: What must not decide a lane too, and what to do instead.
RIVALS: Final = {
    "table": "table and geo both decide the lane; hint: leave one of them out",
    "hot_keys": "geo decides the lane of every cell, hot ones included; hint: give it its own leaf in geo.leaves",
}


def geo_problems(spec: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    """Every contradiction of a key that is a location, and of lanes by location."""
    key = as_dict(spec.get("key"))
    if "place" in promised.encodings:
        yield from _place(key, promised, there=spec.get("geo") is not None)
    if isinstance(spec.get("geo"), dict):
        yield from _geo_key(key, promised)
        yield from ((("spec", name), text) for name, text in RIVALS.items() if spec.get(name))
        if promised.keyless:
            yield GEO, "the partitioner ignores keys, so a location cannot decide the lane; hint: another partitioner"
        yield from _leaves(spec["geo"], promised)
        yield from _region(as_list(spec["geo"].get("region")))
        if spec["geo"].get("scale") is not None and promised.encodings and "place" not in promised.encodings:
            hint = "hint: leave it out, or encoding: place"
            yield (*GEO, "scale"), f"a scale is of latitudes and longitudes, and the key has none; {hint}"


def _place(key: dict[Any, Any], promised: Promised, *, there: bool) -> Iterator[Problem]:
    if set(promised.encodings) != {"place"}:
        yield (
            (*KEY, "encoding"),
            f"a location must be the whole key: got {_listed(promised.encodings)}; allowed: encoding: place",
        )
    elif len(promised.fields) != 2:
        yield (
            (*KEY, "fields"),
            f"a location has two fields: got {_listed(promised.fields)}; allowed: [latitude, longitude]",
        )
    if key.get("join") is not None:
        yield (*KEY, "join"), f"a location is one cell, so `join` does not apply: got {shown(key['join'])}"
    if not there:
        yield (*KEY, "encoding"), "a location needs `geo`, which decides its lane; hint: geo: {resolution: 3}"


def _geo_key(key: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    others = [encoding for encoding in promised.encodings if encoding not in ("place", "h3", "raw")]
    place = "place" in promised.encodings
    if others and not place:
        allowed = "place for two fields, h3 or raw for one"
        yield (*KEY, "encoding"), f"lanes by location need cells: got {shown(others[0])}; allowed: {allowed}"
    elif not place and len(promised.fields) > 1:
        yield (
            (*KEY, "fields"),
            f"one field holds the cell: got {_listed(promised.fields)}; allowed: one, or encoding: place",
        )
    if key.get("window"):
        hint = "hint: apply the window in the readers"
        yield (*KEY, "window"), f"a cell has one lane at all times, so geo excludes a window; {hint}"


def _leaves(geo: dict[Any, Any], promised: Promised) -> Iterator[Problem]:
    path: Path = (*GEO, "leaves")
    given_leaves = as_list(geo.get("leaves"))
    for lane, text in enumerate(given_leaves):
        if isinstance(text, int | float):
            yield (
                (*path, lane),
                f"cells that YAML reads as a number: got {shown(text)}; hint: put them in quotes, as 838e06 needs",
            )
    texts = [text if isinstance(text, str) else "" for text in given_leaves]
    if promised.lanes is not None and len(texts) > promised.lanes:
        allowed = f"up to {promised.lanes}, one text for each lane"
        yield (
            (*path, promised.lanes),
            f"leaves for more lanes than there are: got {len(texts)} texts; allowed: {allowed}",
        )
    found = [(cell_named(word), lane, word) for lane, text in enumerate(texts) for word in text.split()]
    yield from _each_leaf(path, found, geo.get("resolution"))
    yield from _nested(path, [(cell, lane) for cell, lane, _ in found if cell is not None])
    given = geo.get("checksum")
    if isinstance(given, str) and given != (real := leaves_checksum(texts)):
        hint = "hint: the leaves were edited or truncated; write the table again with keylane geo table"
        yield (*GEO, "checksum"), f"not the checksum of the leaves: got {given[:16]}…; allowed: {real}; {hint}"


def _each_leaf(path: Path, found: list[tuple[int | None, int, str]], coarsest: Any) -> Iterator[Problem]:
    """The first leaf of each lane that is not a cell, or too coarse or too fine; one is enough to find the others."""
    least = coarsest if isinstance(coarsest, int) and 0 <= coarsest <= HOME_RESOLUTION else 0
    reported: set[tuple[int, bool]] = set()
    for cell, lane, word in found:
        if (cell is not None and least <= resolution(cell) <= HOME_RESOLUTION) or (lane, cell is None) in reported:
            continue
        reported.add((lane, cell is None))
        if cell is None:
            yield (
                (*path, lane),
                f"not a cell: got {shown(word[:20])}; allowed: H3 cells in hexadecimal, trailing f left out",
            )
        else:
            allowed = f"geo.resolution, {least}, to {HOME_RESOLUTION}"
            yield (*path, lane), f"a leaf of resolution {resolution(cell)}: got {shown(word)}; allowed: {allowed}"


def _nested(path: Path, leaves: list[tuple[int, int]]) -> Iterator[Problem]:
    """Sorted along the curve, leaves meet only if neighbours do; a coarser one begins first."""
    ordered = sorted(leaves, key=lambda leaf: (curve_start(leaf[0]), -curve_end(leaf[0])))
    for (before, first), (after, second) in pairwise(ordered):
        if curve_start(after) <= curve_end(before):
            what = "is given twice" if before == after else f"lies in {_short(before)}, which is a leaf too"
            allowed = "leaves of which none holds another"
            yield (
                (*path, second),
                f"a cell has one lane: got {_short(after)}, which {what} (lane {first}); allowed: {allowed}",
            )
            return


def _short(cell: int) -> str:
    return cell_name(cell).rstrip("f")


def _region(region: list[Any]) -> Iterator[Problem]:
    if len(region) != 4 or any(isinstance(end, bool) or not isinstance(end, int | float) for end in region):
        return
    south, west, north, east = region
    if not -90 <= south < north <= 90:
        yield (
            (*GEO, "region"),
            f"not a range of latitudes: got {south} to {north}; allowed: south below north, from -90 to 90",
        )
    if not (-180 <= west <= 180 and -180 <= east <= 180 and west != east):
        yield (
            (*GEO, "region"),
            f"not a range of longitudes: got {west} to {east}; allowed: two different ones, from -180 to 180",
        )

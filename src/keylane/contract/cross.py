"""What one field of a contract promises about another, read from the plain data of a file.

It works on data rather than models so that a file with a typo still gets its other problems reported in the same
run; so every step here tolerates what is missing or of the wrong type, and leaves that to `model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.contract.partitioners import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.yaml_tree import Path

__all__ = ["cross_problems"]

Problem = tuple["Path", str]


def cross_problems(data: Any) -> Iterator[Problem]:
    """Every contradiction between fields, as (path, message)."""
    spec = _dict(_dict(data).get("spec"))
    lanes = spec.get("lanes")
    count = lanes if isinstance(lanes, int) and not isinstance(lanes, bool) else None
    yield from _streams(spec)
    yield from _key(_dict(spec.get("key")), spec.get("partitioner"))
    yield from _hot_keys(spec, count)
    yield from _table(spec, count)
    yield from _golden(spec, count)


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _fields(spec: dict[Any, Any]) -> list[Any]:
    return _list(_dict(spec.get("key")).get("fields"))


def _streams(spec: dict[Any, Any]) -> Iterator[Problem]:
    streams = _list(spec.get("streams"))
    for i, stream in enumerate(streams):
        if stream in streams[:i]:
            yield ("spec", "streams", i), f"given twice: got {stream!r}"


def _key(key: dict[Any, Any], partitioner: Any) -> Iterator[Problem]:
    fields, encoding = _list(key.get("fields")), key.get("encoding", "utf8")
    encodings = encoding if isinstance(encoding, list) else [encoding]
    if isinstance(encoding, list) and len(encoding) != len(fields):
        yield (
            ("spec", "key", "encoding"),
            f"got {len(encoding)} encodings; allowed: one, or {len(fields)}, one a field",
        )
    if key.get("registry_header") == "strip" and encodings != ["raw"]:
        yield (
            ("spec", "key", "registry_header"),
            "only a raw key can have a registry header; hint: encoding: raw",
        )
    for i, name in enumerate(fields):
        if name in fields[:i]:
            yield ("spec", "key", "fields", i), f"given twice: got {name!r}"
    yield from _key_bytes(fields, encodings, key, partitioner)


def _key_bytes(fields: list[Any], encodings: list[Any], key: dict[Any, Any], partitioner: Any) -> Iterator[Problem]:
    """Refuse key bytes that the named client could not hold."""
    facts = FACTS.get(partitioner) if isinstance(partitioner, str) else None
    if facts is None:
        return
    allowed = ", ".join(facts.encodings)
    for encoding in encodings:
        if isinstance(encoding, str) and encoding not in facts.encodings:
            yield (
                ("spec", "key", "encoding"),
                f"{facts.name} cannot hold it: got {encoding!r}; allowed: {allowed}",
            )
    if facts.hash == "java-long" and (len(fields) > 1 or key.get("window")):
        yield (
            ("spec", "key", "fields"),
            f"{facts.name} hashes one 8-byte number; hint: one field and no window",
        )


def _hot_keys(spec: dict[Any, Any], count: int | None) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for i, rule in enumerate(map(_dict, _list(spec.get("hot_keys")))):
        path: Path = ("spec", "hot_keys", i)
        yield from _one_of(path, rule, ("pin", "spread", "tier"))
        for j, key in enumerate(_list(rule.get("keys"))):
            yield from _key_width((*path, "keys", j), key, spec)
            if (first := seen.setdefault(repr(key), i)) != i or key in rule["keys"][:j]:
                yield (*path, "keys", j), f"given twice: got {key!r}; first in hot_keys[{first}]"
        yield from _pin(path, rule, count)
        yield from _spread((*path, "spread"), rule.get("spread"), spec, count)
        tier = _dict(rule.get("tier"))
        yield from _spread((*path, "tier", "spread"), tier.get("spread"), spec, tier.get("lanes"))
        if tier.get("stream") in _list(spec.get("streams")):
            yield (
                (*path, "tier", "stream"),
                f"a tier is another stream: got {tier['stream']!r}, which is in streams",
            )


def _one_of(path: Path, rule: dict[Any, Any], names: tuple[str, ...]) -> Iterator[Problem]:
    given = [name for name in names if rule.get(name)]
    if len(given) != 1:
        yield path, f"one of {', '.join(names)} is needed: got {', '.join(given) or 'none'}"


def _key_width(path: Path, key: Any, spec: dict[Any, Any]) -> Iterator[Problem]:
    width = len(key) if isinstance(key, list) else 1
    fields = _fields(spec)
    if fields and width != len(fields):
        yield path, f"got {width} value(s); allowed: {len(fields)}, one for each of {fields}"


def _pin(path: Path, rule: dict[Any, Any], count: int | None) -> Iterator[Problem]:
    pin = _dict(rule.get("pin"))
    lanes, keys = _list(pin.get("lanes")), _list(rule.get("keys"))
    if lanes and keys and len(lanes) != len(keys):
        yield (
            (*path, "pin", "lanes"),
            f"got {len(lanes)} lanes for {len(keys)} keys; allowed: as many lanes as keys",
        )
    yield from _in_range((*path, "pin", "lanes"), lanes, count)


def _in_range(path: Path, lanes: list[Any], count: Any) -> Iterator[Problem]:
    for i, lane in enumerate(lanes):
        if isinstance(lane, int) and isinstance(count, int) and lane >= count:
            yield (*path, i), f"no such lane: got {lane}; allowed: 0 to {count - 1}"


def _spread(path: Path, value: Any, spec: dict[Any, Any], count: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    yield from _one_of(path, value, ("over", "lanes"))
    yield from _one_of(path, value, ("by", "by_position"))
    over = value.get("over")
    if isinstance(over, int) and isinstance(count, int) and over > count:
        yield (*path, "over"), f"more lanes than there are: got {over}; allowed: 2 to {count}"
    lanes = _list(value.get("lanes"))
    yield from _in_range((*path, "lanes"), lanes, count)
    if len({repr(lane) for lane in lanes}) < len(lanes):
        yield (*path, "lanes"), f"a lane is given twice: got {lanes}"
    yield from _sub_key((*path, "by"), value.get("by"), spec)


def _sub_key(path: Path, by: Any, spec: dict[Any, Any]) -> Iterator[Problem]:
    if by is not None and _fields(spec) == [by]:
        yield path, f"the key itself spreads nothing: got {by!r}; hint: a field that differs within one key"


def _table(spec: dict[Any, Any], count: int | None) -> Iterator[Problem]:
    table = _dict(spec.get("table"))
    path: Path = ("spec", "table")
    if table and not table.get("values") and not table.get("ranges"):
        yield path, "one of values, ranges is needed: got none"
    if table and len(_fields(spec)) > 1:
        yield path, f"a table looks at one field: got {_fields(spec)}"
    for key, lanes in _dict(table.get("values")).items():
        listed = lanes if isinstance(lanes, list) else [lanes]
        yield from _in_range((*path, "values", key), listed, count)
        if len(listed) > 1 and not table.get("by"):
            yield (*path, "values", key), "several lanes need a sub-key; hint: by: FIELD"
    yield from _sub_key((*path, "by"), table.get("by"), spec)
    yield from _ranges((*path, "ranges"), [_dict(r) for r in _list(table.get("ranges"))], spec, count)


def _ranges(path: Path, ranges: list[dict[Any, Any]], spec: dict[Any, Any], count: int | None) -> Iterator[Problem]:
    encoding = _dict(spec.get("key")).get("encoding", "utf8")
    encoding = encoding[0] if isinstance(encoding, list) and encoding else encoding
    kind: type = str if encoding == "utf8" else int
    if ranges and encoding in ("uuid", "raw"):
        yield (
            path,
            f"these keys have no order a table could use: got {encoding!r}; allowed: utf8, int32be, int64be, h3",
        )
    for i, one in enumerate(ranges):
        yield from ((((*path, i, "lane")), m) for _, m in _in_range((), [one.get("lane")], count))
        ends = [end for end in (one.get("from"), one.get("below")) if end is not None]
        if any(not isinstance(end, kind) for end in ends):
            yield (*path, i), f"{encoding} keys are compared as {kind.__name__}: got {ends}"
        elif len(ends) == 2 and not ends[0] < ends[1]:
            yield (*path, i), f"empty: from {ends[0]!r} is not below {ends[1]!r}"
        else:
            yield from _overlap(path, i, ranges)


def _overlap(path: Path, i: int, ranges: list[dict[Any, Any]]) -> Iterator[Problem]:
    """Two half-open ranges meet when each begins before the other ends."""
    mine = ranges[i]
    for j, other in enumerate(ranges[:i]):
        if _before(mine.get("from"), other.get("below")) and _before(other.get("from"), mine.get("below")):
            yield (*path, i), f"overlaps ranges[{j}]"
            return


def _before(start: Any, end: Any) -> bool:
    return start is None or end is None or (type(start) is type(end) and start < end)


def _golden(spec: dict[Any, Any], count: int | None) -> Iterator[Problem]:
    for i, golden in enumerate(map(_dict, _list(spec.get("golden")))):
        path: Path = ("spec", "golden", i)
        yield from _one_of(path, {k: [v] for k, v in golden.items() if v is not None}, ("key", "record"))
        if "key" in golden:
            yield from _key_width((*path, "key"), golden["key"], spec)
        if golden.get("stream") is None:
            lanes = golden.get("lanes", count)
            yield from ((((*path, "lane")), m) for _, m in _in_range((), [golden.get("lane")], lanes))
        if golden.get("lanes") is None and spec.get("lanes") == "live":
            yield path, "which lane count does it hold for? hint: lanes: N"

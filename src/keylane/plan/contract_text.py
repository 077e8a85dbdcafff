"""Contracts as YAML text, ready for review and for `route`: of a candidate of a plan, and of a lane table.

The text is made by hand, for a person to read in a review: one key a line with its lane beside it, and its share of
the records as a comment, grouped by lane. What it promises is then asked of the parsed contract (`contract.answers`);
nothing here has an opinion of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from keylane import numbers
from keylane.contract.fingerprint import placement_fingerprint
from keylane.contract.lane_table import leaves_checksum, leaves_text
from keylane.contract.model import Key, Window
from keylane.contract.parse import parse_contract
from keylane.contract.partitioners import FACTS
from keylane.contract.validate import misfit
from keylane.plan.geo_work import leaves_of
from keylane.plan.hashed_keys import fields_of_place, scale_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from keylane.contract.model import Contract
    from keylane.placement.cell_lanes import CellLanes
    from keylane.plan.candidates import Candidate
    from keylane.plan.hashed_keys import Moves
    from keylane.plan.lane_tables import Wish
    from keylane.profile.model import Profile

    #: Keys that go elsewhere: as a contract names them, their lanes, and their share of the records.
    Named = list[tuple[Any, tuple[int, ...], float]]

# Lane tables: the cells of each lane, wrapped.

NAME: Final = "places"
STREAMS: Final = ("driver-locations", "rider-requests")
#: As wide as a line of cells gets.
LEAF_WIDTH: Final = 110


def next_epoch(before: Contract | None) -> int:
    """The epoch of the contract that is written."""
    return 1 if before is None else before.metadata.epoch + 1


def geo_contract_text(
    leaves: Sequence[str],
    wish: Wish,
    fields: Sequence[str],
    before: Contract | None = None,
    name: str = NAME,
    streams: Sequence[str] = STREAMS,
    scale: float | None = None,
) -> str:
    """The contract as YAML; it is parsed once here, so that no text leaves that cannot be read back.

    `scale` is of the fields of a new contract; the one before keeps its own. Without leaves it checks, before anything
    is counted, whether there can be a table for the contract before.
    """
    metadata, spec = _new(fields, name, streams, wish) if before is None else _kept(before, wish)
    lines = [
        "apiVersion: keylane/v1",
        "kind: RoutingContract",
        f"metadata: {_json({**metadata, 'epoch': next_epoch(before)})}",
        "spec:",
        *(f"  {key}: {_json(value)}" for key, value in spec.items()),
        *geo_lines(leaves, wish.resolution, before, scale),
    ]
    text = "\n".join(lines) + "\n"
    parse_contract(text, f"{metadata['name']} with lanes by location")
    return text


def _new(fields: Sequence[str], name: str, streams: Sequence[str], wish: Wish) -> tuple[dict[str, Any], ...]:
    key = {"fields": list(fields), "encoding": "place"}
    spec = {"streams": list(streams), "lanes": wish.lanes, "key": key, "partitioner": wish.partitioner}
    return {"name": name}, spec


def _kept(before: Contract, wish: Wish) -> tuple[dict[str, Any], ...]:
    metadata = before.metadata.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    spec = before.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    for gone in ("geo", "golden"):
        spec.pop(gone, None)
    return metadata, {**spec, "lanes": wish.lanes}


def geo_lines(
    leaves: Sequence[str], resolution: int, before: Contract | None, scale: float | None = None
) -> Iterator[str]:
    """The `geo` part of a contract; without leaves, cells are hashed. Region and scale are the contract's before."""
    known = before.spec.geo if before else None
    unit = scale if before is None else known and known.scale
    yield "  geo:"
    yield f"    resolution: {resolution}"
    if unit not in (None, 1):
        yield f"    scale: {unit:.17g}"
    if known is not None and known.region is not None:
        yield f"    region: {_json(list(known.region))}"
    if not any(leaves):
        return
    yield f"    checksum: {leaves_checksum(leaves)}"
    yield "    leaves:"
    for cells in leaves:
        yield from _lane(cells)


def _lane(cells: str) -> Iterator[str]:
    """The cells of a lane between quotes, as many on a line as fit; YAML reads a line's end there as a space."""
    lines, line = [], ""
    for word in cells.split():
        if line and len(line) + len(word) >= LEAF_WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {word}".lstrip()
    first, *more = [*lines, line]
    yield f'      - "{first}' + ("" if more else '"')
    yield from (f"        {one}" + ('"' if n == len(more) else "") for n, one in enumerate(more, 1))


#: Comments stand in one column, up to this width.
COMMENTS: Final = 60
#: As long as a key of a YAML mapping may be that is not marked as one.
LONG: Final = 1_000
NAMING: Final = ("pin", "table", "spread", "spread-by-position", "tier", "tier-spread", "concentrate")
LISTING: Final = ("table", "concentrate")
BY_PLACE: Final = ("geo-hash", "geo-table", "geo-curve", "geo-regions")


@dataclass(frozen=True, slots=True)
class Means:
    """What a contract may be written with: a name and streams, a sub-key, a window; and today's, if there is one.

    `today_text` is how today's is written; the new one is then the same text, changed.
    """

    name: str
    streams: tuple[str, ...]
    sub_key: str | None = None
    window: Window | None = None
    today: Contract | None = None
    today_text: str = ""


#: How the reason begins why keys that are bytes cannot be named.
NOT_NAMED: Final = "a contract names keys as text or whole numbers"


def unable(strategy: str, profile: Profile, means: Means) -> str | None:
    """Why a strategy cannot be written down here; None when it can."""
    if strategy not in BY_PLACE and profile.key.is_place:
        return "`geo` decides the lane of a location"
    if strategy in NAMING and (wants := _unspellable(profile)):
        return wants
    if strategy in LISTING and len(profile.key.fields) > 1:
        return "a table lists keys of one field only"
    if strategy in ("spread", "concentrate") and means.sub_key is None:
        return "no sub-key was given; hint: --sub-key FIELD"
    if strategy == "window" and means.window is None:
        whole = "a contract has no windows of whole nanoseconds; hint: a field of timestamps, or of microseconds"
        none = "no time field was given; hint: profile with --time FIELD"
        return whole if profile.known.get("unit") == "ns" else none
    return None


def key_value(profile: Profile, rank: int) -> Any:
    """A key as a contract names it."""
    values = [_plain(profile.keys.column(name)[rank].as_py()) for name in profile.key.fields]
    return values[0] if len(values) == 1 else values


def contract_text(candidate: Candidate, profile: Profile, means: Means, moves: Moves | None = None) -> str:
    """The contract as YAML; `moves` instead of all that the candidate moves."""
    moved = candidate.fitted.moves if moves is None else moves
    lines = [
        "apiVersion: keylane/v1",
        "kind: RoutingContract",
        f"metadata: {_flow(_metadata(means))}",
        "spec:",
        f"  streams: {_flow(list(means.streams))}",
        *_lanes_of(candidate, profile, means),
        f"  key: {_flow(_key(candidate, profile, means))}",
        f"  partitioner: {candidate.partitioner}",
        *_rules(candidate, moved, profile, means),
        *_expected(means),
    ]
    return "\n".join(lines) + "\n"


def _lanes_of(candidate: Candidate, profile: Profile, means: Means) -> Iterator[str]:
    """The lane count; with the ranges of the source, where the candidate keeps those and they are not equal."""
    space, today = profile.key_space, means.today
    by_ranges = FACTS[candidate.partitioner].fold == "ranges"
    if space is None or space.is_equal or candidate.lanes != len(space) or not by_ranges:
        yield f"  lanes: {candidate.lanes}"
    elif today is not None and today.spec.lanes == "live":
        yield "  lanes: live"
    else:
        yield f"  lanes: {candidate.lanes}"
        yield "  shards:"
        yield "    layout:"
        for lane, id_ in enumerate(space.ids):
            start, end = map(str, space.range_of(lane))
            yield f"      - {_flow({'id': id_, 'start': start, 'end': end})}"


def parsed(text: str, means: Means) -> Contract:
    """The contract that a text is; where it places as today's does, today's."""
    made = parse_contract(text, means.name)
    today = means.today
    same = today is not None and placement_fingerprint(made) == placement_fingerprint(today)
    return today if same and today is not None else made


def could_be(candidate: Candidate, profile: Profile, means: Means) -> Contract | None:
    """The contract with one key, the most widely spread: it answers as the whole does, and is quick to make.

    A sub-key or a time that was not given is made up, to know what the strategy would keep in order; None where the
    keys themselves cannot be named.
    """
    assumed = replace(means, sub_key=means.sub_key or "sub_key", window=means.window or Window(field="time", size="1h"))
    if unable(candidate.strategy, profile, assumed):
        return None
    if candidate.by_place is not None:
        return parse_contract(contract_text(_with_one_leaf(candidate, candidate.by_place), profile, means), means.name)
    moves = candidate.fitted.moves
    widest = max(moves, key=lambda rank: len(moves[rank]), default=None)
    some = {} if widest is None else {widest: moves[widest]}
    named = means if candidate.strategy == "tier-spread" else assumed
    return parse_contract(contract_text(candidate, profile, named, some), means.name)


def _with_one_leaf(candidate: Candidate, rule: CellLanes) -> Candidate:
    few = replace(rule, starts=rule.starts[:1], ends=rule.ends[:1], leaf_lane=rule.leaf_lane[:1])
    return replace(candidate, by_place=few)


def _metadata(means: Means) -> dict[str, Any]:
    if means.today is None:
        return {"name": means.name, "epoch": 1}
    known = means.today.metadata.model_dump(mode="json", exclude_defaults=True)
    return {**known, "epoch": means.today.metadata.epoch + 1}


def _key(candidate: Candidate, profile: Profile, means: Means) -> dict[str, Any]:
    known = means.today.spec.key if means.today else _named_key(profile)
    key = known.model_copy(update={"window": means.window if candidate.strategy == "window" else None})
    return key.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)


def _named_key(profile: Profile) -> Key:
    """The profile's key; of cells that were made from locations, the location."""
    fields = fields_of_place(profile)
    return profile.key if fields is None else Key(fields=fields, encoding="place")


def _expected(means: Means) -> list[str]:
    known = means.today.spec.expect.model_dump(mode="json", exclude_none=True) if means.today else {}
    return [f"  expect: {_flow(known)}"] if known else []


def _rules(candidate: Candidate, moves: Moves, profile: Profile, means: Means) -> list[str]:
    if candidate.by_place is not None:
        leaves, scale = _leaves(candidate.by_place), scale_of(profile)
        return list(geo_lines(leaves, candidate.by_place.resolution, means.today, scale))
    total = max(1, int(profile.records.sum()))
    named = [(key_value(profile, rank), to, int(profile.records[rank]) / total) for rank, to in sorted(moves.items())]
    if not named:
        return []
    if candidate.strategy in LISTING:
        return _table(named, means)
    rules = _tiered if candidate.fitted.tier_lanes else _hot
    return ["  hot_keys:", *rules(candidate, named, means)]


def _leaves(rule: CellLanes) -> tuple[str, ...]:
    lane_of = dict(zip(leaves_of(rule).tolist(), rule.leaf_lane.tolist(), strict=True))
    return leaves_text(lane_of, rule.count)


def _table(named: Named, means: Means) -> list[str]:
    several = any(len(lanes) > 1 for _, lanes, _ in named)
    rows = _by_lanes(
        named,
        "      ",
        lambda key, lanes: f"{_entry(_flow(key))}: {_flow(list(lanes) if len(lanes) > 1 else lanes[0])}",
    )
    return ["  table:", *([f"    by: {_flow(means.sub_key)}"] if several else []), "    values:", *rows]


def _entry(key: str) -> str:
    """The key of an entry: YAML reads a long one only where it is marked as such."""
    return key if len(key) <= LONG else f"? {key}\n      "


def _hot(candidate: Candidate, named: Named, means: Means) -> Iterator[str]:
    """Pinned keys side by side with their lanes; a rule for each set of lanes that keys are spread over."""
    whole = [one for one in named if len(one[1]) == 1]
    if whole:
        yield "    - pins:"
        yield from _by_lanes(whole, "        ", lambda key, lanes: f"- {{key: {_flow(key)}, lane: {lanes[0]}}}")
    several = sorted((one for one in named if len(one[1]) > 1), key=lambda one: one[1])
    for lanes, group in groupby(several, key=lambda one: one[1]):
        yield f"    - spread: {_flow({'lanes': list(lanes), **_divided(candidate, means)})}"
        yield from _keys(list(group))


def _tiered(candidate: Candidate, named: Named, means: Means) -> Iterator[str]:
    tier: dict[str, Any] = {"stream": f"{means.streams[0]}.hot", "lanes": candidate.fitted.tier_lanes}
    if candidate.strategy == "tier-spread":
        tier["spread"] = {"over": candidate.fitted.tier_lanes, **_divided(candidate, means)}
    yield f"    - tier: {_flow(tier)}"
    yield from _keys(named)


def _keys(named: Named) -> Iterator[str]:
    """The keys of a rule, one a line."""
    yield "      keys:"
    yield from _commented([(f"        - {_flow(key)}", share) for key, _, share in named])


def _by_lanes(named: Named, indent: str, line: Callable[[Any, tuple[int, ...]], str]) -> Iterator[str]:
    """Keys under the lanes that they share, the heaviest first."""
    for lanes, found in groupby(sorted(named, key=lambda one: one[1]), key=lambda one: one[1]):
        group = list(found)
        count = f"{len(group)} key{'s' * (len(group) != 1)}"
        where = f"lane{'s' * (len(lanes) != 1)} {', '.join(map(str, lanes))}"
        yield f"{indent}# {where}: {count}, {numbers.share(sum(share for *_, share in group))} of the records"
        yield from _commented([(f"{indent}{line(key, lanes)}", share) for key, _, share in group])


def _commented(lines: list[tuple[str, float]]) -> Iterator[str]:
    width = max((len(text) for text, _ in lines if len(text) <= COMMENTS), default=0)
    yield from (f"{text.ljust(width)}  # {numbers.share(share)}" for text, share in lines)


def _divided(candidate: Candidate, means: Means) -> dict[str, Any]:
    by_position = candidate.strategy == "spread-by-position" or means.sub_key is None
    return {"by_position": True} if by_position else {"by": means.sub_key}


def _json(value: Any) -> str:
    """JSON is YAML too; what does not print is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)


def _flow(value: Any) -> str:
    """JSON is YAML too, and quotes whatever a key may hold; the names of fields need no quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return "".join(map(_escaped, json.dumps(value, ensure_ascii=False)))


def _escaped(one: str) -> str:
    """A character as YAML's quotes take it: what does not print would end a line, or be refused."""
    return one if one.isprintable() else f"\\U{ord(one):08x}"


def _plain(value: Any) -> Any:
    """Numbers beyond 64 bits as text: their digits are the same bytes."""
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _unspellable(profile: Profile) -> str | None:
    """Why the heaviest key cannot be named in a contract: its type or its encoding."""
    if not profile.keys.num_rows:
        return "the profile has no keys"
    value = key_value(profile, 0)
    for part, encoding in zip(value if isinstance(value, list) else [value], profile.key.encodings, strict=True):
        if not isinstance(part, int | str) or isinstance(part, bool):
            hint = (
                "; hint: where keys are text, encoding: utf8 in the contract, or --encoding utf8"
                if encoding == "raw"
                else ""
            )
            return f"{NOT_NAMED}, not as {type(part).__name__}{hint}"
        if wants := misfit(part, encoding):
            return f"a contract cannot name a {encoding} key; allowed: {wants}"
    return None

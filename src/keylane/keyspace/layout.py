"""Shards with inclusive ranges, their parents and children; what is wrong with a layout; splits and merges of one.

Rule: the open shards of a stream cover 0 to 2**128 - 1 without holes and overlaps, and each is at least two keys wide.
A split closes one shard and opens two, the upper of which begins at the given key: from two keys behind the start to
one before the end. A merge closes two shards that meet, the lower one named first, and opens one. A new id is the
largest number so far and one; none is used twice.

Worked example: of the shards 0 to 9 and 10 to 2**128 - 1 the first can be split at 2 to 8; at 1 a shard of one key
would be left. Split at 4 its children are 0 to 3 and 4 to 9, with the ids 2 and 3; their parent is 0.

Records stay where they were written: a reader that reads parents to their end before their children keeps the order of
every key over any splits and merges. When not to use it: for placing records, which is `KeySpace` (`key_space`).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.shards import HASH_KEY_FORM, NARROWEST, gaps, hash_key_problem
from keylane.errors import UnknownNameError, UsageError, shorten
from keylane.placement.ranges import KeySpace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_NAMED: Final = 10
#: Characters of an id, as the service has them at most.
LONGEST_ID: Final = 128
_NUMBERED: Final = re.compile(r"(.*?)([0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of the key space, both ends included. `load` is what it carries, in any unit; None when not known."""

    id: str
    start: int
    end: int
    load: float | None = None
    parents: tuple[str, ...] = ()
    closed: bool = False

    @property
    def width(self) -> int:
        """How many hash keys it has."""
        return self.end - self.start + 1


@dataclass(frozen=True)
class ShardLayout:
    """Shards of one stream: the open ones in the order of their ranges, then the closed ones. `layout_of` checks them.

    >>> two = new_layout(2)
    >>> [shard.id for shard in two.split("shardId-000000000001", 3 * 2**126).open]
    ['shardId-000000000000', 'shardId-000000000002', 'shardId-000000000003']
    """

    shards: tuple[Shard, ...]

    @cached_property
    def open(self) -> tuple[Shard, ...]:
        """Shards that take records."""
        return tuple(shard for shard in self.shards if not shard.closed)

    @cached_property
    def starts(self) -> list[int]:
        """Where the open shards begin."""
        return [shard.start for shard in self.open]

    @property
    def boundaries(self) -> list[int]:
        """The starts of the open shards without the first, which is 0: what splits add and merges remove."""
        return self.starts[1:]

    @property
    def loads(self) -> list[float] | None:
        """What each open shard carries; None when that of any is not known."""
        found = [shard.load for shard in self.open]
        return None if None in found else [float(load or 0) for load in found]

    @property
    def key_space(self) -> KeySpace:
        """The same for placing records."""
        return KeySpace.from_ranges((shard.id, shard.start, shard.end) for shard in self.open)

    def named(self, id_: str) -> Shard:
        """A shard by its id."""
        for shard in self.shards:
            if shard.id == id_:
                return shard
        raise UnknownNameError.among("shard", id_, [shard.id for shard in self.open[:20]])

    def split(self, id_: str, at: int) -> ShardLayout:
        """Close a shard and open two, the upper one from `at` on. The load is not known to either."""
        shard = self._open_shard(id_)
        if not shard.start + NARROWEST <= at <= shard.end + 1 - NARROWEST:
            allowed = f"{shard.start + NARROWEST} to {shard.end + 1 - NARROWEST}"
            raise UsageError.of(f"{id_!r} cannot be split there", got=at, allowed=allowed)
        low, high = self.next_ids(2)
        made = [Shard(low, shard.start, at - 1, None, (id_,)), Shard(high, at, shard.end, None, (id_,))]
        return self._changed({id_}, made)

    def merge(self, lower: str, upper: str) -> ShardLayout:
        """Close two shards that meet and open one over both. The load is the sum, where both are known."""
        first, second = self._open_shard(lower), self._open_shard(upper)
        if first.end + 1 != second.start:
            got = f"{lower!r} ends at {first.end}, {upper!r} begins at {second.start}"
            raise UsageError.of("only shards that meet can be merged, the lower one first", got=got)
        load = None if first.load is None or second.load is None else first.load + second.load
        made = Shard(self.next_ids(1)[0], first.start, second.end, load, (lower, upper))
        return self._changed({lower, upper}, [made])

    def next_ids(self, count: int) -> list[str]:
        """Ids of the next shards: the largest number in use and one, in the form of the id that has it."""
        found = [
            (int(match[2]), match[1], len(match[2])) for one in self.shards if (match := _NUMBERED.fullmatch(one.id))
        ]
        largest, prefix, digits = max(found, default=(-1, "shardId-", 12))
        return [f"{prefix}{largest + 1 + n:0{digits}d}" for n in range(count)]

    def _open_shard(self, id_: str) -> Shard:
        shard = self.named(id_)
        if shard.closed:
            raise UsageError.of("the shard is closed: it was split or merged already", got=id_)
        return shard

    def _changed(self, closed: set[str], made: list[Shard]) -> ShardLayout:
        shards = [replace(shard, closed=True) if shard.id in closed else shard for shard in self.shards]
        return ShardLayout(_in_order([*shards, *made]))


def layout_of(shards: Iterable[Shard]) -> ShardLayout:
    """A checked layout; UsageError with every problem that it has."""
    layout = ShardLayout(_in_order(shards))
    _refuse(list(layout_problems(layout)))
    return layout


def new_layout(count: int) -> ShardLayout:
    """The shards of a new stream: each floor(2**128 / count) wide, the last takes the rest."""
    space = KeySpace.equal(count)
    ranges = [space.range_of(lane) for lane in range(count)]
    return ShardLayout(tuple(Shard(f"shardId-{n:012d}", start, end) for n, (start, end) in enumerate(ranges)))


def layout_problems(layout: ShardLayout) -> Iterator[str]:
    """What is wrong: holes, overlaps, shards that are too narrow, ids of several shards, closed shards in use."""
    counted = Counter(shard.id for shard in layout.shards)
    yield from (f"{count} shards have the id {id_!r}" for id_, count in counted.items() if count > 1)
    if not layout.open:
        yield "no open shard"
        return
    opened = {shard.id for shard in layout.open}
    for shard in layout.shards:
        if shard.end < shard.start:
            yield f"{shard.id!r} ends before it begins: {shard.start} to {shard.end}"
        elif shard.width < NARROWEST:
            yield f"{shard.id!r} is one key wide, {shard.start}: a shard has at least {NARROWEST} keys"
        yield from (
            f"{parent!r} is open and has the child {shard.id!r}" for parent in shard.parents if parent in opened
        )
    yield from gaps((shard.id, shard.start, shard.end) for shard in layout.open)


def layout_from_json(text: str, source: str = "the layout") -> ShardLayout:
    """A layout from JSON: `{"shards": [{"id", "start", "end", "load"}]}`, and `parents` and `closed` where known."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UsageError.of(f"{source} is not JSON: {error}") from None
    rows = document.get("shards") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        form = '{"shards": [{"id": "a", "start": "0", "end": "340…455", "load": 1.0}, …]}'
        raise UsageError.of(f"{source} has no list of shards", allowed=form)
    problems: list[str] = []
    shards = [_shard(row, f"shard {n}", problems) for n, row in enumerate(rows)]
    if not problems and not math.isfinite(sum(shard.load or 0.0 for shard in shards if shard is not None)):
        problems.append("the loads add up to more than a number holds")
    _refuse(problems)
    return layout_of(shard for shard in shards if shard is not None)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. A name that comes twice is refused: `json` keeps the last, and the other shards would be gone."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for n, (name, _) in enumerate(pairs) if any(name == other for other, _ in pairs[:n]))
        raise ValueError(f"the name {shorten(twice)} is there twice in one object")
    return found


def layout_to_json(layout: ShardLayout) -> dict[str, Any]:
    """The same the other way round."""
    return {
        "shards": [
            {"id": one.id, "start": str(one.start), "end": str(one.end)}
            | ({} if one.load is None else {"load": one.load})
            | ({"parents": list(one.parents)} if one.parents else {})
            | ({"closed": True} if one.closed else {})
            for one in layout.shards
        ]
    }


def _shard(row: Any, where: str, problems: list[str]) -> Shard | None:
    """One shard of the JSON; what is wrong with it is added to `problems`."""
    if not isinstance(row, dict):
        problems.append(f"{where} is no object: got {shorten(row)}")
        return None
    before = len(problems)
    id_ = row.get("id")
    if not _is_id(id_):
        problems.append(f"{where}: id: got {shorten(id_)}; allowed: 1 to {LONGEST_ID} printable characters")
    where = f"{where} ({shorten(id_)})"
    problems += [
        f"{where}: {name}: {problem}: got {shorten(row.get(name))}; allowed: {HASH_KEY_FORM}"
        for name in ("start", "end")
        if (problem := hash_key_problem(row.get(name)))
    ]
    load = row.get("load")
    if load is not None and (isinstance(load, bool) or not isinstance(load, int | float) or not _is_load(load)):
        problems.append(f"{where}: load: got {shorten(load)}; allowed: a number from 0 on")
    parents, closed = row.get("parents", []), row.get("closed", False)
    if not isinstance(parents, list) or not all(map(_is_id, parents)):
        problems.append(f"{where}: parents: got {shorten(parents)}; allowed: a list of ids")
    if not isinstance(closed, bool):
        problems.append(f"{where}: closed: got {shorten(closed)}; allowed: true, false")
    if len(problems) > before:
        return None
    known = None if load is None else float(load)
    return Shard(str(id_), int(row["start"]), int(row["end"]), known, tuple(parents), closed)


def _is_id(given: Any) -> bool:
    """Text that can be written, and is no longer than an id of the service."""
    return isinstance(given, str) and 0 < len(given) <= LONGEST_ID and given.isprintable()


def _is_load(load: float) -> bool:
    try:
        return math.isfinite(load) and 0 <= float(load) < math.inf
    except OverflowError:
        return False


def _in_order(shards: Iterable[Shard]) -> tuple[Shard, ...]:
    return tuple(sorted(shards, key=lambda one: (one.closed, one.start, one.end)))


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        more = f"; and {len(problems) - MOST_NAMED} more" if problems[MOST_NAMED:] else ""
        shown = "; ".join(problems[:MOST_NAMED]) + more
        raise UsageError.of(f"not a layout of shards: {shown}")

"""Which old lanes each new lane waits for, from two contracts alone.

Rule: a key that was on old lane i and is on new lane j makes i a parent of j. Records of the new epoch in lane j may be
applied when all parents of j are drained to their fence, and not before: until then a record of the same key may still
be waiting in a parent. A lane is its own parent where keys stay on it.

    hash modulo n -> hash modulo m   i is a parent of j where i = j mod gcd(n, m): n / gcd(n, m) parents
    ranges -> ranges                 i is a parent of j where their ranges overlap
    another hash, other key bytes    every old lane is a parent of every new one
    keys that a rule names           exactly the lanes of both rules (pins, spreads, tiers, tables, hash keys)
    lane tables of cells             the lanes of leaves that share a cell; hashed cells: every old lane

Worked example: 12 -> 18 lanes under one hash gives every new lane two parents, 0 and 6 for lane 0; a key pinned from
its lane 3 to lane 0 adds 3 to them. Twice the lanes give each lane one parent; one lane more gives each of them all.

When not to use it: where the keys are known, `plan.cost.drain_by_keys` counts the parents that really have keys, which
may be fewer; and never for lanes by position, which keep no order to begin with: they have no parents here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from math import gcd
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.contract.evolve import leaf_overlaps
from keylane.contract.fingerprint import key_bytes_form, placement_form
from keylane.contract.shards import SPACE
from keylane.placement.spread import lane_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from keylane.placement.overrides import HotRule
    from keylane.router import Router

#: How the lanes of hashed keys correspond; none: no hashed key has a lane on both sides, or none is kept in order.
HashedRule: TypeAlias = Literal["same", "gcd", "ranges", "every-lane", "none"]
#: A lane as plans name it: its number, or `stream/number` in a tier.
LaneName: TypeAlias = str
#: The lanes that keys could be on before, and after.
Moved: TypeAlias = tuple[frozenset[LaneName], frozenset[LaneName]]
#: More parents than this are not listed lane by lane.
MOST_LISTED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class DrainGraph:
    """The parents of every new lane. `rule` is that of hashed keys; `named` keys have rules of their own."""

    rule: HashedRule
    old_lanes: int
    new_lanes: int
    #: Parents beside those of the rule, by new lane.
    more: Mapping[LaneName, frozenset[LaneName]]
    #: For ranges: the first and the last overlapping old range of every new one.
    overlaps: tuple[tuple[int, int], ...] = ()
    #: Keys that a rule of either contract names, and those of them that change lane.
    named: int = 0
    named_moved: int = 0

    def parents(self, lane: LaneName) -> tuple[LaneName, ...]:
        """The old lanes that a new lane waits for, numbers first."""
        hashed = map(str, self._hashed(int(lane))) if lane.isdecimal() else ()
        return tuple(sorted({*hashed, *self.more.get(lane, ())}, key=_order))

    def _hashed(self, lane: int) -> Iterable[int]:
        if self.rule == "same":
            return (lane,) if lane < self.old_lanes else ()
        if self.rule == "gcd":
            step = gcd(self.old_lanes, self.new_lanes)
            return range(lane % step, self.old_lanes, step)
        if self.rule == "ranges":
            first, last = self.overlaps[lane]
            return range(first, last + 1)
        return range(self.old_lanes) if self.rule == "every-lane" else ()

    @property
    def lanes(self) -> tuple[LaneName, ...]:
        """The new lanes, those of tiers behind."""
        tiers = sorted((lane for lane in self.more if not lane.isdecimal()), key=_order)
        return (*map(str, range(self.new_lanes)), *tiers)

    @property
    def most_edges(self) -> int:
        """At least as many as the graph has edges."""
        each = {"same": 1, "none": 0, "every-lane": self.old_lanes}
        widest = self.old_lanes // gcd(self.old_lanes, self.new_lanes)
        hashed = (
            sum(last - first + 1 for first, last in self.overlaps)
            if self.rule == "ranges"
            else each.get(self.rule, widest) * self.new_lanes
        )
        return hashed + sum(map(len, self.more.values()))

    @property
    def listed(self) -> dict[LaneName, tuple[LaneName, ...]] | None:
        """The parents of every new lane; None where they are too many to list."""
        return {lane: self.parents(lane) for lane in self.lanes} if self.most_edges <= MOST_LISTED else None

    @property
    def fan_in(self) -> int:
        """The most parents of a lane."""
        return max((len(self.parents(lane)) for lane in self._representatives()), default=0)

    def _representatives(self) -> Iterable[LaneName]:
        """Lanes among which is one with the most parents: under one rule, lanes without parents of their own agree."""
        if self.rule == "ranges":
            widest = max(range(self.new_lanes), key=lambda lane: self.overlaps[lane][1] - self.overlaps[lane][0])
            return chain((str(widest),), self.more)
        return chain(("0",), self.more)


def drain_graph(old: Router, new: Router) -> DrainGraph:
    """The parents of every lane of `new`, for records that `old` placed. Lane counts are those of the routers."""
    rule = _hashed_rule(old, new)
    comparable = _key(old) == _key(new)
    named = list(_named(old, new)) if comparable else []
    more: dict[LaneName, set[LaneName]] = {}
    for was, now in chain(named, _unnamed(old, new) if comparable else _other_bytes(old, new)):
        for lane in now:
            more.setdefault(lane, set()).update(was)
    return DrainGraph(
        rule,
        old.lane_count,
        new.lane_count,
        {lane: frozenset(parents) for lane, parents in more.items() if parents},
        tuple(_overlaps(old, new)) if rule == "ranges" else (),
        len(named),
        sum(was != now for was, now in named),
    )


def _hashed_rule(old: Router, new: Router) -> HashedRule:
    if "keyless" in (old.facts.fold, new.facts.fold):
        return "none"
    if _key(old) == _key(new) and (old.overrides.table_rejects or new.overrides.table_rejects):
        return "none"
    if not hashes_alike(old, new):
        return "every-lane"
    if old.facts.fold == "ranges":
        return "same" if tuple(old.key_space.starts) == tuple(new.key_space.starts) else "ranges"
    return "same" if old.lane_count == new.lane_count else "gcd"


def hashes_alike(old: Router, new: Router) -> bool:
    """Whether a key that no rule names has the same bytes, hash and fold in both."""
    before, after = ((placement_form(one.contract)["family"], _key(one), _resolution(one)) for one in (old, new))
    return before == after


def _key(router: Router) -> tuple[object, object]:
    """What a key is: other fields, or numbers in another unit, are another key, even where they have the same form."""
    key, geo = router.contract.spec.key, router.contract.spec.geo
    scale = None if geo is None or geo.scale is None else float(geo.scale)
    return (*key.fields, scale), key_bytes_form(router.contract)


def _resolution(router: Router) -> int | None:
    """At which resolution a cell in no leaf is hashed; None where lanes are not by location."""
    geo = router.contract.spec.geo
    return geo.resolution if geo else None


def _overlaps(old: Router, new: Router) -> Iterator[tuple[int, int]]:
    """For every new range the first and the last old one that it shares a hash key with."""
    for first, after in pairwise((*new.key_space.starts, SPACE)):
        yield old.key_space.lane_of(first), old.key_space.lane_of(after - 1)


def _named(old: Router, new: Router) -> Iterator[Moved]:
    """The lanes before and after of every key that a rule of either contract names."""
    keys = {*old.overrides.hot, *new.overrides.hot, *_in_table(old), *_in_table(new)}
    for key in sorted(keys):
        yield lanes_of(old, key), lanes_of(new, key)


def _in_table(router: Router) -> Iterable[bytes]:
    table = router.overrides.table
    return table.values if table is not None else ()


def lanes_of(router: Router, key: bytes) -> frozenset[LaneName]:
    """Every lane that records of a base key can be on."""
    rule = router.overrides.hot.get(key)
    if rule is not None:
        return frozenset(_of_rule(router, rule, key))
    table = router.overrides.table
    listed = table.lanes_of(key) if table is not None else None
    if listed is not None:
        return frozenset(map(str, listed))
    if router.contract.spec.key.window is not None:
        return _every(router)
    placed = router.place_of_key(key, position=0)
    return frozenset() if placed.lane is None else frozenset({str(placed.lane)})


def _of_rule(router: Router, rule: HotRule, key: bytes) -> Iterator[LaneName]:
    prefix = f"{rule.stream}/" if rule.stream else ""
    lanes = rule.lanes or router.lane_count
    if rule.pin is not None:
        yield str(rule.pin)
    elif router.contract.spec.key.window is not None:
        # Where it is depends on the window too.
        yield from (f"{prefix}{lane}" for lane in range(lanes))
    else:
        home = router.home_of_key(key, rule.lanes)
        among = lane_set(rule.spread, home, lanes) if rule.spread else (home,)
        yield from (f"{prefix}{lane}" for lane in among)


def _every(router: Router) -> frozenset[LaneName]:
    return frozenset(map(str, range(router.lane_count)))


def _with_tiers(router: Router) -> frozenset[LaneName]:
    """All lanes, those of tiers too."""
    tiers = {rule.stream: rule.lanes or 0 for rule in router.overrides.hot.values() if rule.stream}
    return _every(router) | {f"{stream}/{lane}" for stream, lanes in tiers.items() for lane in range(lanes)}


def _other_bytes(old: Router, new: Router) -> Iterator[Moved]:
    """A key that is written in other bytes cannot be recognised: every lane waits for all, those of tiers too."""
    before, after = _with_tiers(old), _with_tiers(new)
    yield before - _every(old), after
    yield before, after - _every(new)


def _unnamed(old: Router, new: Router) -> Iterator[Moved]:
    """Lanes before and after of keys that are placed by rule and not one by one: ranges of a table, cells of leaves."""
    was, now = old.contract.spec.table, new.contract.spec.table
    before, after = (frozenset(str(one.lane) for one in table.ranges) if table else frozenset() for table in (was, now))
    if before and was == now:
        yield from ((frozenset({lane}), frozenset({lane})) for lane in after)
    elif before or after:
        # A key of a range may have come from any lane, and one that has left its range may go to any.
        yield _every(old), after
        yield before, _every(new)
    yield from _without_key(old, new)
    yield from _cells(old, new)


def _without_key(old: Router, new: Router) -> Iterator[Moved]:
    """Null and empty keys that get a lane of their own by the change, and were on any lane before."""
    for key, was, now in ((None, old.on_null, new.on_null), (b"", old.on_empty, new.on_empty)):
        if was != now == "hash":
            lane = new.place_of_key(key).lane
            yield _every(old), frozenset() if lane is None else frozenset({str(lane)})


def _cells(old: Router, new: Router) -> Iterator[Moved]:
    was, now = old.contract.spec.geo, new.contract.spec.geo
    if was is None and now is None:
        return
    overlaps = leaf_overlaps(was.leaves if was else (), now.leaves if now else ())
    for before, after in overlaps.shared:
        yield frozenset({str(before)}), frozenset({str(after)})
    # Cells of a leaf on one side only are hashed on the other, to any lane.
    yield _every(old), frozenset(map(str, overlaps.only_new))
    yield frozenset(map(str, overlaps.only_old)), _every(new)


def _order(lane: LaneName) -> tuple[str, int]:
    stream, _, number = lane.rpartition("/")
    return stream, int(number)

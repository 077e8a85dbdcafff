"""Old + new contract -> what the change does, before anything runs.

Five kinds: safe, moves keys, changes the order scope, breaks co-partitioning, impossible. Which share of keys moves is
`contract.moved`'s to say; what a change would cost on real traffic comes from `plan`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from keylane import numbers
from keylane.contract.answers import answers, check_contract, weakest
from keylane.contract.fingerprint import fingerprint, key_bytes_form, placement_form
from keylane.contract.lane_table import leaf_lanes
from keylane.contract.moved import MovedKeys, moved_keys
from keylane.contract.partitioners import FACTS
from keylane.contract.shards import SPACE
from keylane.geo.bits import curve_end, curve_start, homes_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.model import Contract, Geo
    from keylane.contract.moved import Lanes


# Changes of the `geo` section: another lane table, resolution or region.


class LeafRange(NamedTuple):
    """A leaf as its range of the curve, its lane, and the home cells in it."""

    start: int
    end: int
    lane: int
    homes: int


class MovedLeaves(NamedTuple):
    """The leaves of a new table: how many there are, were elsewhere, were hashed; and those of the old, hashed now.

    Elsewhere or hashed are those of which a part is.
    """

    leaves: int
    moved: int
    joined: int
    left: int

    @property
    def share(self) -> float:
        """The share of the new table's leaves that were on another lane."""
        return self.moved / self.leaves if self.leaves else 0.0

    def __str__(self) -> str:
        parts = [f"{self.moved} of {self.leaves} leaves change lane ({numbers.share(self.share)})"]
        parts += [f"{self.joined} were hashed"] if self.joined else []
        return "; ".join([*parts, f"{self.left} are hashed now"] if self.left else parts)


def moved_leaves(old: Sequence[str], new: Sequence[str]) -> MovedLeaves:
    """Compare two lane tables.

    Split leaves whose parts stay on their lane have not moved.

    >>> moved_leaves(["8329b6 8329b0"], ["8429b61 8329b0", "8429b63"])
    MovedLeaves(leaves=3, moved=1, joined=0, left=1)

    The old 8329b6 is left in part: five of its seven children are in no leaf any more, and hashed.
    """
    was, now = _stretches(old), _stretches(new)
    moved = sum(any(one.lane != leaf.lane for one in _meeting(was, leaf)) for leaf in now)
    joined, left = (sum(not _covered(leaf, by) for leaf in leaves) for leaves, by in ((now, was), (was, now)))
    return MovedLeaves(len(now), moved, joined, left)


class LeafOverlaps(NamedTuple):
    """Two lane tables laid over each other: lanes that share cells, and lanes with cells that the other table lacks."""

    shared: frozenset[tuple[int, int]]
    only_old: frozenset[int]
    only_new: frozenset[int]


def leaf_overlaps(old: Sequence[str], new: Sequence[str]) -> LeafOverlaps:
    """Which lanes of two lane tables have cells in common, as pairs of the old lane and the new.

    >>> leaf_overlaps(["8329b6 8329b0"], ["8429b61 8329b0", "8429b63"])
    LeafOverlaps(shared=frozenset({(0, 1), (0, 0)}), only_old=frozenset({0}), only_new=frozenset())
    """
    was, now = _stretches(old), _stretches(new)
    return LeafOverlaps(
        frozenset((one.lane, leaf.lane) for leaf in now for one in _meeting(was, leaf)),
        frozenset(leaf.lane for leaf in was if not _covered(leaf, now)),
        frozenset(leaf.lane for leaf in now if not _covered(leaf, was)),
    )


def _covered(leaf: LeafRange, table: list[LeafRange]) -> bool:
    """Whether all of a leaf is in leaves of a table: in a coarser one, or in finer ones that make it up."""
    return sum(one.homes for one in _meeting(table, leaf)) >= leaf.homes


def _stretches(leaves: Sequence[str]) -> list[LeafRange]:
    known = ((cell, lane) for cell, lane in leaf_lanes(leaves) if cell is not None)
    return sorted(LeafRange(curve_start(cell), curve_end(cell), lane, homes_in(cell)) for cell, lane in known)


def _meeting(table: list[LeafRange], leaf: LeafRange) -> list[LeafRange]:
    """The leaves of a table that share a cell with this one; those of one table lie apart."""
    end = bisect_right(table, leaf.end, key=lambda one: one.start)
    start = bisect_right(table, leaf.start - 1, hi=end, key=lambda one: one.end)
    return table[start:end]


def geo_changes(old: Contract, new: Contract, moved: MovedKeys) -> Iterator[tuple[str, str]]:
    """Where, and what; `moved` are the cells in no leaf that change lane."""
    was, now = old.spec.geo, new.spec.geo
    if was is None and now is None:
        return
    if was is None or now is None:
        text = "lanes are now by location" if was is None else "lanes are no longer by location"
        yield "spec.geo", f"{text}: {moved.text} of hashed keys change lane"
    else:
        yield from _both(was, now, moved)


def _both(was: Geo, now: Geo, moved: MovedKeys) -> Iterator[tuple[str, str]]:
    found = moved_leaves(was.leaves, now.leaves)
    if was.resolution != now.resolution:
        text = f"{was.resolution} became {now.resolution}: {moved.text} of cells in no leaf change lane"
        yield "spec.geo.resolution", text
    if found.moved or found.joined or found.left:
        yield "spec.geo.leaves", f"a different lane table: {found}"
    if (was.region and tuple(map(float, was.region))) != (now.region and tuple(map(float, now.region))):
        yield "spec.geo.region", f"{_shown(was)} became {_shown(now)}: locations outside lose their lane"
    if was.scale != now.scale:
        yield "spec.geo.scale", f"{_unit(was)} became {_unit(now)}: the same numbers are other locations"


def _unit(geo: Geo) -> str:
    return "degrees" if geo.scale is None else f"{geo.scale:.17g} to a degree"


def _shown(geo: Geo) -> str:
    return "the earth" if geo.region is None else str(list(geo.region))


# Changes of the `shards` section: other boundaries, other hash keys.


def shard_changes(before: Form, after: Form, moved: MovedKeys) -> Iterator[tuple[str, str]]:
    """Where, and what; `moved` are the keys on a lane of another number, which a split gives to all lanes behind it.

    Moving a boundary keeps the order of every key for readers that read parents before their children; another hash key
    for an account does not, and needs a fence.
    """
    was, now = (form.get("shards") or {"starts": None, "hash_keys": {}} for form in (before, after))
    if was["starts"] != now["starts"]:
        share = _moved_space(was["starts"], now["starts"])
        space = "" if share is None else f": {numbers.share(share)} of the key space is on other shards"
        numbered = "" if moved.share is None else f", {moved.text} on a lane of another number"
        order = "readers that read parents before children keep the order of every key"
        yield "spec.shards.layout", f"other boundaries{space}{numbered}; {order}"
    old, new = was["hash_keys"], now["hash_keys"]
    changed = sorted(account for account in old.keys() | new.keys() if old.get(account) != new.get(account))
    if changed:
        named = ", ".join(changed[:3]) + (", …" if len(changed) > 3 else "")
        accounts = numbers.plural(len(changed), "account")
        text = f"another hash key for {accounts}: {named}; without a fence their order breaks at the change"
        yield "spec.shards.hash_keys", text


def _moved_space(old: Sequence[str] | None, new: Sequence[str] | None) -> float | None:
    """The share of the key space that is in no range of both; None where one of them is not known here."""
    if not old or not new:
        return None
    was, now = ({*zip(starts, [*starts[1:], str(SPACE)], strict=True)} for starts in (old, new))
    return 1 - sum(int(end) - int(start) for start, end in was & now) / SPACE


Form: TypeAlias = dict[str, Any]
ChangeKind: TypeAlias = Literal["safe", "moves-keys", "changes-order-scope", "breaks-co-partitioning", "impossible"]


@dataclass(frozen=True, slots=True)
class Change:
    """One consequence.

    `moved_share` is that of the whole change, where this one is of keys that no rule names; 0 where it is of null and
    empty keys only; None where it is of keys that a rule names, of none, or not known.
    """

    kind: ChangeKind
    where: str
    message: str
    moved_share: float | None = None


UNKNOWN: Final = MovedKeys(None, "not asked")


@dataclass(frozen=True, slots=True)
class Evolution:
    """Everything a change does."""

    old: str
    new: str
    changes: tuple[Change, ...]
    #: The epoch the new contract has to carry, where it does not yet: a change of placement is a new epoch.
    epoch_to_raise: int | None = None
    #: Which share of the keys that no rule names changes lane, by all changes together.
    moved: MovedKeys = UNKNOWN

    @property
    def safe(self) -> bool:
        """No record goes elsewhere and nothing is given up."""
        return all(change.kind == "safe" for change in self.changes)

    def of(self, kind: ChangeKind) -> tuple[Change, ...]:
        """The changes of one kind."""
        return tuple(change for change in self.changes if change.kind == kind)


def evolve(old: Contract, new: Contract, others: Sequence[Contract] = ()) -> Evolution:
    """List what going from `old` to `new` does; `others` are contracts whose streams are joined with these.

    Worked example: 12 lanes to 24 under kafka-java moves half of the keys; to 18, two thirds; to 6 is impossible
    in place, because a topic cannot lose partitions, and needs a new stream.
    """
    return evolve_on(old, new, (None, None), others)


def evolve_on(old: Contract, new: Contract, at: tuple[Lanes, Lanes], others: Sequence[Contract] = ()) -> Evolution:
    """The same where the lanes of the streams are known: counts, or the ranges of their shards."""
    for one in (old, new, *others):
        check_contract(one)
    placed = placement_form(old) != placement_form(new)
    due = old.metadata.epoch + 1 if placed and new.metadata.epoch == old.metadata.epoch else None
    moved = moved_keys(old, new, at)
    changes = tuple(_changes(old, new, others, moved))
    return Evolution(fingerprint(old), fingerprint(new), changes, due, moved)


def _changes(old: Contract, new: Contract, others: Sequence[Contract], moved: MovedKeys) -> Iterator[Change]:
    before, after = _form(old), _form(new)
    yield from _identity(old, new)
    yield from _lanes(new, before, after, moved)
    if before["key"] == after["key"]:
        yield from _fields(old, new)
    yield from _hashing(old, new, before, after, moved)
    yield from _key_rules(before, after)
    yield from _overrides(before, after)
    for where, text in geo_changes(old, new, moved):
        yield Change("moves-keys", where, text, None if where in _NAMED else moved.share)
    for where, text in shard_changes(before, after, moved):
        yield Change("moves-keys", where, text, None if where in _NAMED else moved.share)
    yield from _tiers(before, after)
    yield from _order(old, new)
    yield from _streams(old, new)
    yield from _left_behind(before, after, others)
    yield from _words(old, new)


#: Changes of what a rule names: its keys are no part of the share.
_NAMED: Final = frozenset({"spec.geo.leaves", "spec.geo.region", "spec.shards.hash_keys"})


def _form(contract: Contract) -> Form:
    """The placement, with the key as its bytes."""
    return {**placement_form(contract), "key": key_bytes_form(contract)}


def _fields(old: Contract, new: Contract) -> Iterator[Change]:
    was, now = old.spec.key, new.spec.key
    if was.fields != now.fields:
        text = f"{list(was.fields)} became {list(now.fields)}: safe only if they hold the same values"
        yield Change("moves-keys", "spec.key.fields", text)
    if was.window and now.window and (was.window.field, was.window.unit) != (now.window.field, now.window.unit):
        yield Change(
            "moves-keys", "spec.key.window", "a different time field or unit: safe only if it gives the same times"
        )


def _identity(old: Contract, new: Contract) -> Iterator[Change]:
    was, now = old.metadata, new.metadata
    if was.name != now.name:
        text = f"the name of a contract must not change: {was.name!r} became {now.name!r}; hint: a new contract"
        yield Change("impossible", "metadata.name", text)
    if now.epoch < was.epoch:
        yield Change("impossible", "metadata.epoch", f"an epoch must not decrease: {was.epoch} became {now.epoch}")


def _lanes(new: Contract, before: Form, after: Form, moved: MovedKeys) -> Iterator[Change]:
    was, now = before["lanes"], after["lanes"]
    if was == now:
        return
    if "live" in (was, now):
        yield Change("moves-keys", "spec.lanes", f"{was} became {now}: safe only while the live count is the same")
        return
    counts = f"{was} lanes became {now}"
    if any((form.get("shards") or {}).get("starts") for form in (before, after)):
        yield Change("moves-keys", "spec.lanes", f"{counts}: by the boundaries of spec.shards.layout")
        return
    if FACTS[new.spec.partitioner].fold == "keyless":
        yield Change("safe", "spec.lanes", f"{counts}: keys do not decide the lane, so no key moves")
    elif _same_hash(before, after):
        unknown = f": {moved.basis}" if moved.share is None else ""
        yield Change(
            "moves-keys", "spec.lanes", f"{counts}: {moved.text} of hashed keys change lane{unknown}", moved.share
        )
    if now < was and FACTS[new.spec.partitioner].fold != "ranges":
        yield _shrunk("spec.lanes", was, now)


def _shrunk(where: str, was: int, now: int) -> Change:
    return Change("impossible", where, f"a topic cannot lose partitions ({was} to {now}); hint: migrate to a new one")


def _same_hash(before: Form, after: Form) -> bool:
    return all(before[part] == after[part] for part in ("family", "key"))


def _hashing(old: Contract, new: Contract, before: Form, after: Form, moved: MovedKeys) -> Iterator[Change]:
    share = f"about {moved.text} of keys change lane" if moved.share is not None else moved.basis
    names = f"{old.spec.partitioner} became {new.spec.partitioner}"
    if before["key"] != after["key"]:
        yield Change("moves-keys", "spec.key", f"the key bytes change: {share}", moved.share)
    elif before["family"] != after["family"]:
        yield Change("moves-keys", "spec.partitioner", f"{names}: {share}", moved.share)
    elif old.spec.partitioner != new.spec.partitioner and before == after:
        yield Change("safe", "spec.partitioner", f"{names}: the same placement under a different name")


def _key_rules(before: Form, after: Form) -> Iterator[Change]:
    for kind in ("on_null", "on_empty"):
        was, now = before[kind], after[kind]
        if was != now:
            yield Change("moves-keys", f"spec.key.{kind}", f"{was} became {now}: {kind[3:]} keys only", 0.0)


def _overrides(before: Form, after: Form) -> Iterator[Change]:
    was, now = before["hot_keys"], after["hot_keys"]
    moved = sorted(key for key in was.keys() | now.keys() if was.get(key) != now.get(key))
    if moved:
        named = ", ".join(key.strip('[]"') for key in moved[:3]) + (", …" if len(moved) > 3 else "")
        yield Change(
            "moves-keys", "spec.hot_keys", f"another rule for {numbers.plural(len(moved), 'hot key')}: {named}"
        )
    if before["table"] != after["table"]:
        yield Change("moves-keys", "spec.table", "the keys of the table whose rows changed")
    if _rejects(after) and not _rejects(before):
        yield Change("moves-keys", "spec.table.otherwise", "every key that the table does not list loses its lane")


def _rejects(form: Form) -> bool:
    return bool(form["table"]) and form["table"]["otherwise"] == "reject"


def _tiers(before: Form, after: Form) -> Iterator[Change]:
    was, now = _tier_lanes(before), _tier_lanes(after)
    for stream in sorted(was.keys() & now.keys()):
        if now[stream] < was[stream]:
            yield _shrunk(f"spec.hot_keys: tier {stream}", was[stream], now[stream])


def _tier_lanes(form: Form) -> dict[str, int]:
    return {rule["tier"]["stream"]: rule["tier"]["lanes"] for rule in form["hot_keys"].values() if rule["tier"]}


def _order(old: Contract, new: Contract) -> Iterator[Change]:
    before, after = weakest(answers(old)), weakest(answers(new))
    if before != after:
        yield Change("changes-order-scope", "spec", f"order was kept {before}; it would be kept {after}")


def _streams(old: Contract, new: Contract) -> Iterator[Change]:
    left = sorted(set(old.spec.streams) - set(new.spec.streams))
    stayed = sorted(set(old.spec.streams) & set(new.spec.streams))
    if left and len(old.spec.streams) > 1:
        follows = f"no longer follows {', '.join(stayed)}" if stayed else "nothing keeps them co-partitioned"
        yield Change("breaks-co-partitioning", "spec.streams", f"{', '.join(left)} left the contract and {follows}")
    if joined := sorted(set(new.spec.streams) - set(old.spec.streams)):
        yield Change("safe", "spec.streams", f"{', '.join(joined)} joined the contract")


def _left_behind(before: Form, after: Form, others: Sequence[Contract]) -> Iterator[Change]:
    for other in others:
        if _form(other) == before != after:
            text = f"{', '.join(other.spec.streams)} (contract {other.metadata.name}) would stay behind"
            yield Change("breaks-co-partitioning", "spec", text)


def _words(old: Contract, new: Contract) -> Iterator[Change]:
    for name in ("expect", "golden"):
        if getattr(old.spec, name) != getattr(new.spec, name):
            yield Change("safe", f"spec.{name}", "does not affect where a record goes")
    if (old.metadata.owner, old.metadata.labels) != (new.metadata.owner, new.metadata.labels):
        yield Change("safe", "metadata", "owner or labels")

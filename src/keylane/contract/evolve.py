"""Old + new contract -> what the change does, before anything runs.

Five kinds: safe, moves keys, changes the order scope, breaks co-partitioning, impossible. What a change would cost on
real traffic is `plan`'s to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from keylane.contract.answers import KEY_KINDS, answers, key_rule_of, moved_share, weakest
from keylane.contract.fingerprint import fingerprint, placement_fingerprint
from keylane.contract.partitioners import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.model import Contract

__all__ = ["Change", "ChangeKind", "Evolution", "evolve"]

ChangeKind: TypeAlias = Literal["safe", "moves-keys", "changes-order-scope", "breaks-co-partitioning", "impossible"]


@dataclass(frozen=True, slots=True)
class Change:
    """One consequence. `moved_share` is the expected share of all keys that change lane, where that is known."""

    kind: ChangeKind
    where: str
    message: str
    moved_share: float | None = None


@dataclass(frozen=True, slots=True)
class Evolution:
    """Everything a change does."""

    old: str
    new: str
    changes: tuple[Change, ...]
    #: The epoch the new contract has to carry, where it does not yet: a change of placement is a new epoch.
    epoch_to_raise: int | None = None

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
    moved = placement_fingerprint(old) != placement_fingerprint(new)
    due = old.metadata.epoch + 1 if moved and new.metadata.epoch == old.metadata.epoch else None
    return Evolution(fingerprint(old), fingerprint(new), tuple(_changes(old, new, others)), due)


def _changes(old: Contract, new: Contract, others: Sequence[Contract]) -> Iterator[Change]:
    yield from _identity(old, new)
    yield from _lanes(old, new)
    yield from _hashing(old, new)
    yield from _overrides(old, new)
    yield from _order(old, new)
    yield from _streams(old, new, others)
    yield from _words(old, new)


def _identity(old: Contract, new: Contract) -> Iterator[Change]:
    if old.metadata.name != new.metadata.name:
        yield Change(
            "impossible",
            "metadata.name",
            f"a contract keeps its name: {old.metadata.name!r} became {new.metadata.name!r}; hint: a new contract",
        )
    if new.metadata.epoch < old.metadata.epoch:
        yield Change(
            "impossible",
            "metadata.epoch",
            f"an epoch never falls: {old.metadata.epoch} became {new.metadata.epoch}",
        )


def _lanes(old: Contract, new: Contract) -> Iterator[Change]:
    before, after = old.spec.lanes, new.spec.lanes
    if before == after:
        return
    if before == "live" or after == "live":
        yield Change("moves-keys", "spec.lanes", f"{before} became {after}: safe only while the live count is the same")
        return
    share = moved_share(new.spec.partitioner, before, after)
    if _same_hash(old, new) and share is not None:
        text = f"{before} lanes became {after}: {float(share):.1%} of hashed keys change lane"
        yield Change("moves-keys", "spec.lanes", text, float(share))
    if after < before and FACTS[new.spec.partitioner].fold != "ranges":
        yield Change(
            "impossible",
            "spec.lanes",
            f"a topic cannot lose partitions ({before} to {after}); hint: migrate to a new one",
        )


def _same_hash(old: Contract, new: Contract) -> bool:
    families = FACTS[old.spec.partitioner].family, FACTS[new.spec.partitioner].family
    return families[0] == families[1] and _key_bytes(old) == _key_bytes(new)


def _key_bytes(contract: Contract) -> dict[str, Any]:
    key = contract.spec.key
    return {**key.model_dump(exclude={"on_null", "on_empty"}), "encoding": key.encodings}


def _hashing(old: Contract, new: Contract) -> Iterator[Change]:
    if _key_bytes(old) != _key_bytes(new):
        share = _strangers(old, new)
        yield Change("moves-keys", "spec.key", f"the key has other bytes: about {share:.1%} of keys change lane", share)
    elif not _same_hash(old, new):
        share = _refolded(old, new)
        names = f"{old.spec.partitioner} became {new.spec.partitioner}"
        yield Change("moves-keys", "spec.partitioner", f"{names}: about {share:.1%} of keys change lane", share)
    yield from _key_rules(old, new)


def _strangers(old: Contract, new: Contract) -> float:
    """Two hashes that know nothing of each other agree on one key in max(n, m)."""
    counts = [lanes for lanes in (old.spec.lanes, new.spec.lanes) if lanes != "live"]
    return 1 - 1 / max(counts) if counts else 1.0


def _refolded(old: Contract, new: Contract) -> float:
    """FNV-1a by abs() and by mask agree on every hash below 2**31, and above it on 1 or 2 residues of n."""
    one, other, lanes = FACTS[old.spec.partitioner], FACTS[new.spec.partitioner], new.spec.lanes
    if one.hash != other.hash or lanes == "live" or old.spec.lanes != lanes:
        return _strangers(old, new)
    return max(0.0, 0.5 - (1 if lanes % 2 else 2) / (2 * lanes))


def _key_rules(old: Contract, new: Contract) -> Iterator[Change]:
    for kind in KEY_KINDS:
        before, after = key_rule_of(old, kind), key_rule_of(new, kind)
        if before != after:
            yield Change("moves-keys", f"spec.key.{kind}", f"{before} became {after}: {kind[3:]} keys only", 0.0)


def _overrides(old: Contract, new: Contract) -> Iterator[Change]:
    before, after = _by_key(old), _by_key(new)
    moved = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    if moved:
        named = ", ".join(moved[:3]) + (", …" if len(moved) > 3 else "")
        yield Change("moves-keys", "spec.hot_keys", f"{len(moved)} hot key(s) change their rule: {named}", 0.0)
    if old.spec.table != new.spec.table:
        yield Change("moves-keys", "spec.table", "the keys of the table whose rows changed")


def _by_key(contract: Contract) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for rule in contract.spec.hot_keys:
        for i, key in enumerate(rule.keys):
            out[str(key)] = rule.pin.lanes[i] if rule.pin else (rule.spread, rule.tier)
    return out


def _order(old: Contract, new: Contract) -> Iterator[Change]:
    before, after = weakest(answers(old)), weakest(answers(new))
    if before != after:
        yield Change("changes-order-scope", "spec", f"order was kept {before}; it would be kept {after}")


def _streams(old: Contract, new: Contract, others: Sequence[Contract]) -> Iterator[Change]:
    left = sorted(set(old.spec.streams) - set(new.spec.streams))
    stayed = sorted(set(old.spec.streams) & set(new.spec.streams))
    if left and stayed:
        text = f"{', '.join(left)} left the contract and no longer follows {', '.join(stayed)}"
        yield Change("breaks-co-partitioning", "spec.streams", text)
    if joined := sorted(set(new.spec.streams) - set(old.spec.streams)):
        yield Change("safe", "spec.streams", f"{', '.join(joined)} joined the contract")
    for other in others:
        if placement_fingerprint(other) == placement_fingerprint(old) != placement_fingerprint(new):
            text = f"{', '.join(other.spec.streams)} (contract {other.metadata.name}) would stay behind"
            yield Change("breaks-co-partitioning", "spec", text)


def _words(old: Contract, new: Contract) -> Iterator[Change]:
    for name in ("expect", "golden"):
        if getattr(old.spec, name) != getattr(new.spec, name):
            yield Change("safe", f"spec.{name}", "says nothing about where a record goes")
    if (old.metadata.owner, old.metadata.labels) != (new.metadata.owner, new.metadata.labels):
        yield Change("safe", "metadata", "owner or labels")

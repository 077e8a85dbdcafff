"""`explain`: where a key goes, under every client that might write it, and under a contract.

    by_client      a key's bytes -> the lane that each partitioner gives, who agrees, and the settings that would
    explained_by   a record -> the contract's decision, and its key under every client

Without a contract this imports neither NumPy nor pydantic. What is typed and what is shown: `cli.explain`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.names import PARTITIONERS
from keylane.documents.explain import (
    ClientFix,
    ClientPlacement,
    ContractPlacement,
    ExplainedByClient,
    ExplainedByContract,
    ExplainedUnplaced,
    LaneGroup,
    ShardOfKey,
    ShardPlacement,
)
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.contract.model import Contract
    from keylane.documents.explain import Explained
    from keylane.placement.partitioners import Partitioner
    from keylane.placement.ranges import KeySpace, Lanes
    from keylane.records import Placement
    from keylane.router import Router


#: Boundaries that a drawing may have.
MOST_BOUNDARIES: Final = 1_000


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """The answer for one key.

    `needs` are the fields that the contract's rule lacks. `rule` is what of the contract decides in place of the
    hash: no setting of a client leads there. `ranges`: the lanes are shards, which clients of Kafka do not write to.
    """

    document: Explained
    needs: tuple[str, ...] = ()
    rule: str | None = None
    ranges: bool = False


def by_client(
    key: bytes | None, lanes: int, encoding: str, like: str, *, typed: str | None, space: KeySpace | None = None
) -> ExplainedByClient:
    """The key under every partitioner; `typed` is the key as it was given, `space` the shards where they are known."""
    from keylane.placement.fold import lane_count
    from keylane.placement.partitioners import partitioner

    lane_count(lanes)
    rows = [_row(partitioner(name, encoding), key, space or lanes, encoding) for name in PARTITIONERS]  # type: ignore[arg-type]  # checked where it is used
    groups = _groups(rows)
    return ExplainedByClient(
        key=typed,
        routing_key=None if key is None else key.hex(),
        lanes=lanes,
        placements=rows,
        like=like,
        agree=len(groups) <= 1,
        groups=groups,
        fixes=_fixes(rows, like),
    )


def _row(one: Partitioner, key: bytes | None, lanes: Lanes, encoding: str) -> ClientPlacement:
    asked, note = _askable(one, key, encoding)
    lane = one.lane(asked, lanes) if note is None or asked != key else None
    hashed = one.hash and lane is not None and f"0x{one.hash.of(asked):0{one.hash.bits // 4}x}"
    note = note or (_without(one, key) if lane is None else None) or one.facts.note.partition(":")[0] or None
    return ClientPlacement(partitioner=one.name, lane=lane, hash=hashed or None, client=one.facts.client, note=note)


def _askable(one: Partitioner, key: bytes | None, encoding: str) -> tuple[bytes | None, str | None]:
    """The key as this client would hold it, with a note where that is not as given."""
    from keylane.keys.encode import h3_number

    if key is None or encoding in one.facts.encodings:
        return key, None
    if one.facts.hash != "java-long":
        return key, f"takes {', '.join(one.facts.encodings)} keys only"
    text = key.decode("utf-8", "replace")
    number = h3_number(text) or (int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None)
    if number is None or not -(2**63) <= number < 2**63:
        return key, "takes an 8-byte number: an H3 cell, or a whole number"
    return number.to_bytes(8, "big", signed=True), f"read as the number {number}; {one.facts.note.partition(':')[0]}"


def _without(one: Partitioner, key: bytes | None) -> str:
    if one.hash is None:
        return "ignores the key"
    rule = one.facts.on_null if key is None else one.facts.on_empty
    kind = "null" if key is None else "empty"
    return f"refuses {kind} keys" if rule == "reject" else f"places {kind} keys without the key: {rule}"


def _groups(rows: list[ClientPlacement]) -> list[LaneGroup]:
    """Partitioners by the lane they give, largest group first."""
    lanes: dict[int, list[str]] = {}
    for row in rows:
        if row.lane is not None:
            lanes.setdefault(row.lane, []).append(row.partitioner)
    return [
        LaneGroup(lane=lane, partitioners=names)
        for lane, names in sorted(lanes.items(), key=lambda g: (-len(g[1]), g[0]))
    ]


def _fixes(rows: list[ClientPlacement], like: str) -> list[ClientFix]:
    """For each writer that differs from `like`, the setting that would make it agree, where its client has one."""
    from keylane.contract.partitioners import FACTS, setting_for

    wanted = next(row.lane for row in rows if row.partitioner == like)
    fixes = []
    for row in rows:
        facts = FACTS[row.partitioner]
        if row.lane != wanted and wanted is not None:
            # Within a family only null and empty keys differ, and only the client's own other setting fixes that.
            apart = facts.family != FACTS[like].family or facts.client == FACTS[like].client
            setting = setting_for(facts, FACTS[like]) if apart else None
            fixes.append(ClientFix(partitioner=row.partitioner, lane=row.lane, set=setting))
    return fixes


def explained_by(
    router: Router, record: Mapping[str, object], position: int | None, like: str | None, *, typed: str | None
) -> KeyAnswer:
    """A record under a contract, then its key under every client; `typed` is the key as it was given."""
    contract = router.contract
    placement = router.place(record, position)
    shard = _shard(router, record, placement)
    named: dict[str, Any] = {
        "name": contract.metadata.name,
        "fingerprint": contract.fingerprint,
        "stream": placement.stream,
    }
    decided: dict[str, Any] = {"lane": placement.lane, "reason": placement.reason, "why": list(placement.why)}
    mine = ShardPlacement(**named, **decided, shard=shard) if shard else ContractPlacement(**named, **decided)
    needs, ranges = _lacking(contract, record, placement), router.facts.fold == "ranges"
    if placement.routing_key is None and placement.reason not in (None, Reason.NULL_KEY, Reason.NO_POSITION):
        unplaced = ExplainedUnplaced(key=typed, lanes=router.lane_count, placements=[], contract=mine)
        return KeyAnswer(unplaced, needs, ranges=ranges)
    to_agree_with = like or contract.spec.partitioner
    over, held = router.key_space, _held_as(contract)
    shown = by_client(placement.routing_key, router.lane_count, held, to_agree_with, typed=typed, space=over)
    rule = "the lane table" if _is_by_table(router, placement, shown) else router.rule_of(record)
    values = {one.name: getattr(shown, one.name) for one in fields(shown)}
    if rule is not None and like is None:
        values["fixes"] = []
    return KeyAnswer(ExplainedByContract(**values, contract=mine), needs, rule, ranges)


def _shard(router: Router, record: Mapping[str, object], placement: Placement) -> ShardOfKey | None:
    """Where the key lies in the key space; None where lanes are no ranges, or another rule decides."""
    if router.facts.fold != "ranges" or placement.lane is None or not placement.routing_key:
        return None
    from keylane.hashing.md5 import md5_128
    from keylane.keyspace.hash_keys import at_share, small

    digest, explicit = md5_128(placement.routing_key), router.explicit_hash_key(record)
    space = router.key_space_in(placement.stream)
    number = digest if explicit is None else explicit
    if space.lane_of(number) != placement.lane:
        return None
    start, end = space.range_of(placement.lane)
    few = small(router.explicit_hash_keys.values())
    warning = (
        f"explicit hash keys below 2**96: {len(few)}. They look like plain numbers, and all lie on the first shard"
    )
    return ShardOfKey(
        md5=f"0x{digest:032x}",
        hash_key=str(number),
        explicit=explicit is not None,
        id=space.ids[placement.lane],
        start=str(start),
        end=str(end),
        at=at_share(number),
        boundaries=[at_share(one) for one in space.starts[:MOST_BOUNDARIES]],
        warning=warning if few else None,
    )


def _lacking(contract: Contract, record: Mapping[str, object], placement: Placement) -> tuple[str, ...]:
    """Fields that this record's own rule needs, and that were not given."""
    if placement.lane is not None or placement.reason != Reason.MISSING_FIELD:
        return ()
    from keylane.contract.fields import fields_of

    return tuple(name for name in fields_of(contract) if name not in record)


def _is_by_table(router: Router, placement: Placement, document: ExplainedByClient) -> bool:
    """A leaf's lane is no hash of the key, so no setting of a client gives it, except by chance."""
    named = router.contract.spec.partitioner
    hashed = next(row.lane for row in document.placements if row.partitioner == named)
    return router.cells is not None and placement.lane not in (None, hashed)


def _held_as(contract: Contract) -> str:
    """How the whole routing key reads to a client: as its one field, as text, or as bytes."""
    key = contract.spec.key
    if key.is_place:
        return "place"
    if len(key.fields) == 1 and key.window is None:
        return key.encodings[0]
    return "utf8" if set(key.encodings) == {"utf8"} else "raw"

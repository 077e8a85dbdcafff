"""One number for the promise, whatever its layout: field order, comments, defaults written out or left out.

`placement_form` is the promise in one way of writing: what two contracts that place alike have in common.
`fingerprint` is of the contract: its name, epoch, streams, partitioner and placement. It travels in headers and
checkpoints. `placement_fingerprint` is of the placement alone: streams with the same one are co-partitioned.
Labels, owner, expectations and golden examples are in none of them: they do not affect where a record goes.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from keylane.contract.lane_table import leaves_checksum
from keylane.contract.partitioners import facts_of, key_rule

if TYPE_CHECKING:
    from keylane.contract.model import Contract, Geo, HotKeys, Key, Shards, Spread, Table


def fingerprint(contract: Contract) -> str:
    """The contract's own number: 64 hex digits.

    A change of lane count, of one hot key or of the epoch gives another; moving fields about does not.
    """
    meta, spec = contract.metadata, contract.spec
    identity = {"name": meta.name, "epoch": meta.epoch, "streams": sorted(spec.streams)}
    return _digest({**identity, "partitioner": spec.partitioner, "placement": placement_form(contract)})


def abbreviated(whole: str) -> str:
    """A fingerprint as every single record carries it: its first 16 digits, which distinguish contracts as well."""
    return whole[:16]


def placement_fingerprint(contract: Contract) -> str:
    """The number of what is done with a key, in any system."""
    return _digest(placement_form(contract))


def placement_form(contract: Contract) -> dict[str, Any]:
    """The placement in one way of writing: contracts of the same form place the same fields alike."""
    spec = contract.spec
    return {
        "lanes": spec.lanes,
        "family": facts_of(spec.partitioner).family,
        "key": _key(spec.key),
        "on_null": "reject" if spec.key.is_place else key_rule(spec.partitioner, spec.key.on_null, "on_null"),
        "on_empty": "reject" if spec.key.is_place else key_rule(spec.partitioner, spec.key.on_empty, "on_empty"),
        "hot_keys": {name: rule for one in spec.hot_keys for name, rule in _hot(one).items()},
        "table": _table(spec.table) if spec.table else None,
        # Left out where it is missing: contracts from before it was known keep their fingerprints.
        **({"geo": _geo(spec.geo)} if spec.geo else {}),
        **({"shards": _shards(spec.shards)} if spec.shards else {}),
    }


def _shards(shards: Shards) -> dict[str, Any]:
    # Ids are each stream's own, and an end is where the next one starts.
    starts = [one.start for one in shards.ranges or ()]
    return {"starts": starts or None, "hash_keys": dict(sorted(shards.accounts.items()))}


def _geo(geo: Geo) -> dict[str, Any]:
    last = max((lane for lane, cells in enumerate(geo.leaves) if cells.strip()), default=-1)
    region = [float(end) for end in geo.region] if geo.region else None
    form = {"resolution": geo.resolution, "leaves": leaves_checksum(geo.leaves[: last + 1]), "region": region}
    # Left out where it is missing, for the same reason.
    return form if geo.scale is None else {**form, "scale": float(geo.scale)}


def _key(key: Key) -> dict[str, Any]:
    parts = (1 if key.is_place else len(key.fields)) + (key.window is not None)
    return {
        "fields": list(key.fields),
        "encodings": list(key.encodings),
        "joined_by": key.joined_by.decode() if parts > 1 else None,
        "window": {**key.window.model_dump(mode="json"), "size": key.window.micros} if key.window else None,
        "registry_header": key.registry_header,
    }


def key_bytes_form(contract: Contract) -> dict[str, Any]:
    """What makes the bytes of a key. What its fields are called, and in what a time is counted, does not."""
    form = _key(contract.spec.key)
    window = form["window"] and {name: form["window"][name] for name in ("size", "as_")}
    # An H3 cell is its number: the same eight bytes. A location is the cell it is in.
    cells = ["h3"] if contract.spec.key.is_place else form["encodings"]
    encodings = ["int64be" if encoding == "h3" else encoding for encoding in cells]
    return {**{k: v for k, v in form.items() if k != "fields"}, "encodings": encodings, "window": window}


def _key_name(value: Any) -> str:
    """A key as its bytes distinguish it: as text, 7 and '7' are one."""
    parts = value if isinstance(value, tuple) else (value,)
    return json.dumps([str(part) for part in parts])


def _hot(rule: HotKeys) -> dict[str, Any]:
    """A rule for several keys as one for each, so that grouping, order and the form of pins do not matter."""
    lanes = rule.pinned or [None] * len(rule.named)
    tier = rule.tier and {"stream": rule.tier.stream, "lanes": rule.tier.lanes, "spread": _spread(rule.tier.spread)}
    rest = {"spread": _spread(rule.spread), "tier": tier}
    return {_key_name(one): {"pin": lane, **rest} for one, lane in zip(rule.named, lanes, strict=True)}


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {**spread.model_dump(mode="json"), "lanes": sorted(spread.lanes) if spread.lanes else None}


def _table(table: Table) -> dict[str, Any]:
    lanes = {k: v if isinstance(v, tuple) else (v,) for k, v in table.values.items()}
    return {
        "values": {_key_name(k): sorted(v) for k, v in lanes.items()},
        "ranges": sorted((r.model_dump(mode="json", by_alias=True) for r in table.ranges), key=json.dumps),
        "by": table.by if any(len(v) > 1 for v in lanes.values()) else None,
        "otherwise": table.otherwise,
    }


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()

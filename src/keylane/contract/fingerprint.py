"""One number for the promise, whatever its layout: field order, comments, defaults written out or left out.

`fingerprint` is of the contract: name, epoch, streams and placement. It travels in headers and checkpoints.
`placement_fingerprint` is of the placement alone: two streams with the same one are co-partitioned.
Labels, owner, expectations and golden examples are in neither: they say nothing about where a record goes.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keylane.contract.model import Contract

__all__ = ["fingerprint", "placement_fingerprint"]


def fingerprint(contract: Contract) -> str:
    """The contract's own number: 64 hex digits.

    A change of lane count, of one hot key or of the epoch gives another; moving fields about does not.
    """
    meta = contract.metadata
    identity = {"name": meta.name, "epoch": meta.epoch, "streams": sorted(contract.spec.streams)}
    return _digest({**identity, "placement": _placement(contract)})


def placement_fingerprint(contract: Contract) -> str:
    """The number of what is done with a key, whoever does it."""
    return _digest(_placement(contract))


def _placement(contract: Contract) -> dict[str, Any]:
    spec = contract.spec.model_dump(mode="json", by_alias=True, exclude={"streams", "expect", "golden"})
    key = spec["key"]
    key["encoding"] = list(contract.spec.key.encodings)
    spec["hot_keys"] = sorted((one for rule in spec["hot_keys"] for one in _one_key_each(rule)), key=json.dumps)
    if spec["table"]:
        spec["table"]["values"] = {
            str(k): v if isinstance(v, list) else [v] for k, v in spec["table"]["values"].items()
        }
        spec["table"]["ranges"] = sorted(spec["table"]["ranges"], key=json.dumps)
    return spec


def _one_key_each(rule: dict[str, Any]) -> list[dict[str, Any]]:
    """Write a rule for several keys as several rules, so that grouping and order do not matter."""
    lanes = rule["pin"]["lanes"] if rule["pin"] else [None] * len(rule["keys"])
    rest = {name: _lanes_sorted(rule[name]) for name in ("spread", "tier")}
    return [{"key": key, "pin": lane, **rest} for key, lane in zip(rule["keys"], lanes, strict=True)]


def _lanes_sorted(rule: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**rule, "lanes": sorted(rule["lanes"])} if rule and isinstance(rule.get("lanes"), list) else rule


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()

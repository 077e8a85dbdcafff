"""Self-test of a contract, without data: golden examples, and keys chosen by hand.

A key chosen to land on a lane of its own often does not: three short keys on two lanes share one for certain. `check`
reports it before the stream exists. With data: `conformance`.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Any

from keylane.errors import KeylaneError
from keylane.keys.read import encode_key_value
from keylane.measure.chance import log_occupancy
from keylane.numbers import count
from keylane.records import Finding, Placement
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from keylane.contract.model import Contract, Golden

#: Fewer lanes than chance would leave less often than this: the keys collapse.
COLLAPSE = 1e-3


def contract_findings(contract: Contract) -> Iterator[Finding]:
    """Everything wrong with a valid contract that can be known without data."""
    yield from _golden(contract)
    yield from _chosen(contract)
    yield from _pins(contract)


def _golden(contract: Contract) -> Iterator[Finding]:
    for i, golden in enumerate(contract.spec.golden):
        message = _mismatch(contract, golden)
        if message:
            yield Finding("error", f"spec.golden[{i}]", message)


def still_golden(examples: Iterable[Golden], contract: Contract) -> list[Golden]:
    """Those golden examples of another contract that this one keeps as well."""
    return [one for one in examples if _mismatch(contract, one) is None]


def _mismatch(contract: Contract, golden: Golden) -> str | None:
    """Why a golden example does not hold, or None."""
    try:
        placement = _placement(_router_for(contract, golden.lanes), golden)
    except KeylaneError as error:
        return str(error)
    wanted = (golden.stream or contract.spec.streams[0], golden.lane)
    if (placement.stream, placement.lane) == wanted:
        return None
    return f"promised {_shown(*wanted)}, but {_landed(placement)}"


def _router_for(contract: Contract, lanes: int | None) -> Router:
    """The contract with its lane count alone replaced."""
    if lanes is None or lanes == contract.spec.lanes:
        return Router(contract)
    spec = contract.spec.model_copy(update={"lanes": lanes})
    return Router(contract.model_copy(update={"spec": spec}))


def _placement(router: Router, golden: Golden) -> Placement:
    """A location is written as its cell, or as a record; any other key as its fields."""
    if golden.record is None and router.contract.spec.key.is_place:
        return router.place_of_key(encode_key_value(golden.key, router.contract.spec.key))
    return router.place(_record(router.contract, golden))


def _record(contract: Contract, golden: Golden) -> dict[str, Any]:
    if golden.record is not None:
        return dict(golden.record)
    values = golden.key if isinstance(golden.key, tuple) else (golden.key,)
    return dict(zip(contract.spec.key.fields, values, strict=True))


def _shown(stream: str, lane: int | None) -> str:
    return f"lane {lane} of {stream}"


def _landed(placement: Placement) -> str:
    if placement.reason is not None:
        return f"it has no lane: {placement.why[-1]}"
    return f"it lands on {_shown(placement.stream, placement.lane)} ({'; '.join(placement.why[1:])})"


def _chosen(contract: Contract) -> Iterator[Finding]:
    """Keys of a tier are hashed into its few lanes; see whether they share them."""
    for i, rule in enumerate(contract.spec.hot_keys):
        if rule.tier is None or rule.tier.spread is not None or rule.tier.lanes < 2 or len(rule.keys) < 2:
            continue
        router = Router(contract, lanes=1 if contract.spec.lanes == "live" else None)
        fold, hash_ = router.partitioner.fold, router.partitioner.hash
        if hash_ is None or contract.spec.key.window is not None:
            continue
        keys = [encode_key_value(key, contract.spec.key) for key in rule.keys]
        used = len({fold(hash_.one(key), rule.tier.lanes) for key in keys})
        yield from collapse(f"spec.hot_keys[{i}]", used, len(keys), rule.tier.lanes)


def collapse(where: str, used: int, keys: int, lanes: int) -> Iterator[Finding]:
    """Report when keys share far fewer lanes than chance would give them, or all share one."""
    chance = log_occupancy(used, keys, lanes)
    if used == 1 and keys > 2 and lanes > 1:
        yield Finding(
            "error", where, f"{keys} keys collapse onto one lane of {lanes}; hint: pin them, or hash other keys"
        )
    elif chance < log(COLLAPSE) and used < min(keys, lanes):
        rarely = f"{count(1 / exp(max(chance, -50)))}"
        text = f"{keys} keys use {used} of {lanes} lanes, which a fair hash does less than once in {rarely}"
        yield Finding("warning", where, f"{text}; hint: another partitioner or key")


def _pins(contract: Contract) -> Iterator[Finding]:
    """Lanes that two rules share. A rule whose keys all have one lane means it; so do `pins`, which show the lane."""
    lanes: dict[int, str] = {}
    for i, rule in enumerate(contract.spec.hot_keys):
        pinned = rule.pinned or ()
        listed = tuple(dict.fromkeys(pinned)) if rule.pins or len(set(pinned)) == 1 else pinned
        for j, lane in enumerate(listed):
            where = (
                f"spec.hot_keys[{i}].pins[{pinned.index(lane)}]" if rule.pins else f"spec.hot_keys[{i}].pin.lanes[{j}]"
            )
            if lane in lanes:
                yield Finding("warning", where, f"lane {lane} is pinned twice: also {lanes[lane]}")
            lanes.setdefault(lane, where)

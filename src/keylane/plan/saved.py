"""A plan that is saved, bound to what it was made from, and what carrying it out needs of people.

    saved_plan      a plan document and its contract -> the file of `plan --out`
    read_saved      the file -> the plan, refused where it was edited
    by_hand         producers, consumers and joined streams: what no command can do for them

Looking at files and clusters, and writing: `cli.apply`.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.partitioners import FACTS
from keylane.documents.apply import AppliedStream, SavedPlan
from keylane.documents.plan import ByHand
from keylane.errors import DataError
from keylane.numbers import share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract
    from keylane.documents.apply import Bound, PlannedContract
    from keylane.documents.plan import PlanDocument

_NONE: Final = "0" * 64
_SEE_LANES: Final = (
    "producers see new lanes by themselves, some minutes apart: start all of them together, after the drain above"
)


def saved_plan(plan: PlanDocument, bound: Bound, contract: PlannedContract | None) -> SavedPlan:
    """The plan with what it is bound to, under one fingerprint."""
    made = SavedPlan(plan=plan, bound=bound, contract=contract, fingerprint=_NONE)
    return made.model_copy(update={"fingerprint": _fingerprint(made.as_json())})


def read_saved(text: str, name: str) -> SavedPlan:
    """A plan that was saved; one of another kind, of an older form or edited since is refused."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        got = "a contract" if "kind: RoutingContract" in text else "a file that is not JSON"
        raise DataError.of(f"{name} is not a saved plan", got=got, hint=_AGAIN) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != "keylane.saved-plan/1":
        raise DataError.of(f"{name} is not a saved plan", got=schema, allowed="keylane.saved-plan/1", hint=_AGAIN)
    saved = SavedPlan.from_json(document)
    # Over what the file holds: a later keylane would add fields of its own, and take every plan for edited.
    if _fingerprint(document) != saved.fingerprint:
        what = f"{name} was edited after it was saved; nothing was done"
        raise DataError.of(what, got=saved.fingerprint[:16], hint=_AGAIN)
    return saved


_AGAIN: Final = "keylane plan ... --out FILE saves one"


def _fingerprint(plain: dict[str, Any]) -> str:
    """Over the document in one way of writing."""
    rest = {name: value for name, value in plain.items() if name != "fingerprint"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def by_hand(
    plan: PlanDocument,
    contract: Contract,
    path: str,
    streams: list[AppliedStream],
    commands: dict[str, str] | None = None,
    later: list[str] | None = None,
) -> list[ByHand]:
    """What only people can do, in the order in which to do it; `path` is the file of the contract.

    `commands` are those of the system that the streams are in, by what they do: `lag`, and `grow STREAM`; `at STREAM`
    is its address, and `brokers` what producers connect to. `later` are the streams as `keylane check` reads what comes
    into them afterwards; None where nobody knows where they are.
    """
    known = commands or {}
    return [
        *_consumers(plan, known),
        *_grow(plan, streams, known),
        *_owned(plan, path, streams, known),
        *_producers(plan, contract, path, known.get("brokers")),
        *_joined(plan),
        *_after(plan, path, later),
    ]


def streams_of(contract: Contract, there: dict[str, int] | None = None) -> list[AppliedStream]:
    """Every stream of the contract and of its tiers: there, to be created, for people to change, or not looked at."""
    lanes = None if contract.spec.lanes == "live" else contract.spec.lanes
    wanted: dict[str, int | None] = {**dict.fromkeys(contract.spec.streams, lanes), **contract.tiers}
    out = []
    for name, count in wanted.items():
        has = (there or {}).get(name)
        action: Any = "not-checked" if has is None else "in-place" if has == count or count is None else "by-hand"
        if has == 0 and count is not None:
            action = "create"
        out.append(AppliedStream(stream=name, lanes=count, there=has, action=action))
    return out


def _grow(plan: PlanDocument, streams: list[AppliedStream], commands: dict[str, str]) -> Iterator[ByHand]:
    """Streams with another lane count than the contract's: as they are; where none was looked at, as today's has it."""
    for one, has in _to_change(plan, streams):
        what = (
            f"{one.stream} has {has} lanes (partitions) and needs {one.lanes}. Keys change lane with it, so only once "
            f"the producers are stopped and the consumers have read everything; or copy it with keylane route"
        )
        shown = commands.get(f"grow {one.stream}")
        yield ByHand(who="streams", what=what, commands=[shown] if shown and has < (one.lanes or 0) else [])


def _to_change(plan: PlanDocument, streams: list[AppliedStream]) -> Iterator[tuple[AppliedStream, int]]:
    """Streams with another lane count than the contract's, and the count that they have."""
    before = plan.today.lanes if plan.today and plan.today.lanes != plan.chosen.lanes else None
    for one in streams:
        unseen = one.action == "not-checked" and one.lanes == plan.chosen.lanes
        has = one.there if one.action == "by-hand" else before if unseen else None
        if has is not None:
            yield one, has


def _owned(plan: PlanDocument, path: str, streams: list[AppliedStream], commands: dict[str, str]) -> Iterator[ByHand]:
    """Between more lanes and the first record in them: a reader that has not seen a lane may begin behind it."""
    for one, has in _to_change(plan, streams):
        if has >= (one.lanes or 0):
            continue
        what = (
            f"wait until every reader group has all {one.lanes} lanes of {one.stream}, before a producer starts: by "
            "auto.offset.reset=latest a group misses what is written to a lane before it sees the lane, up to "
            "metadata.max.age.ms later. Or set earliest or by_duration first"
        )
        at = commands.get(f"at {one.stream}")
        check = [f"keylane check {shlex.quote(path)} --data {shlex.quote(at)} --group NAME"] if at else []
        yield ByHand(who="readers", what=what, commands=check)


def _producers(plan: PlanDocument, contract: Contract, path: str, brokers: str | None) -> Iterator[ByHand]:
    spec, today = contract.spec, plan.today
    facts = FACTS[spec.partitioner]
    if spec.hot_keys or spec.table or spec.geo or spec.key.window:
        # Without a contract of today nothing moves, so there is nothing to drain.
        what = (
            "every producer has to place records by the contract: a client's own partitioner does not know the keys "
            f"that it names. Deploy them together{', after the drain above' if plan.change is not None else ''}"
        )
        yield ByHand(
            who="producers",
            what=what,
            commands=[
                "python: from keylane import Router",
                "python: from keylane.systems.kafka import KeyedProducer",
                f"python: KeyedProducer(Router({path!r}), {repr(brokers) if brokers else 'BROKERS'})",
            ],
        )
    elif today is None or today.partitioner != spec.partitioner or today.overrides:
        yield ByHand(
            who="producers",
            what=f"set every producer to the placement of {spec.partitioner}",
            commands=[f"{facts.client}: {facts.setting}"],
        )
    elif today.lanes != plan.chosen.lanes:
        yield ByHand(
            who="producers",
            what=_SEE_LANES,
            commands=[],
        )


def _consumers(plan: PlanDocument, commands: dict[str, str]) -> Iterator[ByHand]:
    change = plan.change
    if change is None:
        return
    merged = f"a lane of the new contract can hold keys that were in {change.fan_in} of today's lanes"
    waits = f" ({merged})" if change.fan_in and change.fan_in > 1 else ""
    moved = f"{share(change.moved_traffic or 0)} of the records change lane"
    what = f"drain: {moved}, so stop the producers, and wait until no consumer group lags{waits}; new ones start last"
    yield ByHand(who="consumers", what=what, commands=[commands["lag"]] if "lag" in commands else [])
    if plan.chosen.tier_lanes:
        yield ByHand(who="consumers", what="consumers have to read the stream of the tier as well", commands=[])
    yield from (ByHand(who="consumers", what=text, commands=[]) for text in change.says)


def _joined(plan: PlanDocument) -> Iterator[ByHand]:
    for one in plan.change.kinds if plan.change else []:
        if one.kind == "breaks-co-partitioning":
            yield ByHand(who="joined streams", what=one.message, commands=[])


def _after(plan: PlanDocument, path: str, later: list[str] | None) -> Iterator[ByHand]:
    """What was counted has the old placement for ever: only what is written from now on can keep the new contract."""
    again = plan.holding.plan_again if plan.holding else None
    soon = f"; plan again after {again}" if again else ""
    what = "ten minutes after the producers have started, check that new records are where the contract puts them"
    data = later or ["NEW_EXPORT --lane COLUMN"]
    yield ByHand(
        who="afterwards",
        what=f"{what}{soon}",
        commands=[f"keylane check {shlex.quote(path)} --data {one}" for one in data],
    )

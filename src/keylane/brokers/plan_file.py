"""A reassignment as a file, and whether it still fits the cluster it was made for.

The file is keylane's own: beside the lists that Kafka's tool takes it holds where everything was, so that a plan can be
refused when the cluster has changed since, and finished when it was cut short. Making a plan: `reassign`. Carrying one
out: `systems.kafka.reassign`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from keylane.brokers.layout import Broker, fingerprint
from keylane.brokers.rebalance import Move, Reassignment
from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.brokers.layout import Layout

SCHEMA: Final = "keylane.brokers-plan/1"


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A lane that a cluster is moving: its copies when that is done, and the brokers that get one and lose one."""

    target: frozenset[int]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def document_of(change: Reassignment, cluster: str) -> dict[str, Any]:
    """The file of a change; `read_plan` is the inverse."""
    return {
        "schema": SCHEMA,
        "cluster": cluster,
        "fingerprint": change.fingerprint,
        "brokers": [{"broker": broker.id, "rack": broker.rack} for broker in change.brokers],
        "moves": [
            {
                "topic": move.topic,
                "partition": move.partition,
                "before": list(move.before),
                "replicas": list(move.replicas),
                "source": move.source,
                "size": move.size,
            }
            for move in change.moves
        ],
        "elections": [{"topic": topic, "partition": partition} for topic, partition in change.elections],
    }


def read_plan(document: Any) -> Reassignment:
    """A change from its file, without the lanes afterwards. What is not such a file is refused."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        got = document.get("schema") if isinstance(document, dict) else type(document).__name__
        hint = "--out writes it as NAME.plan.json, beside the file for Kafka's own tool"
        raise UsageError.of("not a plan of keylane brokers", got=got, allowed=SCHEMA, hint=hint)
    try:
        brokers = tuple(Broker(int(one["broker"]), one["rack"]) for one in document["brokers"])
        elections = tuple((str(one["topic"]), int(one["partition"])) for one in document["elections"])
        moves = tuple(map(_move, document["moves"]))
        return Reassignment(str(document["fingerprint"]), brokers, moves, elections, ())
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError.of("a plan of keylane brokers that is damaged", got=str(error)) from None


def completed(change: Reassignment, layout: Layout) -> Reassignment:
    """A change with the lanes that a layout has when it is done."""
    to = {move.place: move.replicas for move in change.moves}
    chosen = {*to, *change.elections}
    lists = [(lane, to.get(lane.place, lane.replicas)) for lane in layout.lanes]
    after = [
        replace(lane, replicas=new, leader=new[0], isr=new) if lane.place in chosen else lane for lane, new in lists
    ]
    return replace(change, after=tuple(after))


def _move(one: Mapping[str, Any]) -> Move:
    before, after = (tuple(int(broker) for broker in one[name]) for name in ("before", "replicas"))
    if not after or len(set(after)) != len(after):
        raise ValueError(f"replicas {list(after)}")
    size = None if one["size"] is None else int(one["size"])
    return Move(str(one["topic"]), int(one["partition"]), before, after, int(one["source"]), size)


def obstacle(change: Reassignment, layout: Layout, under_way: Mapping[tuple[str, int], UnderWay]) -> str | None:
    """Why a change must not be carried out now; None when it may, also when a part of it has been already."""
    known = {broker.id for broker in layout.brokers}
    unknown = sorted({broker for move in change.moves for broker in move.replicas if broker not in known})
    if unknown:
        return f"the plan names brokers that do not answer: {', '.join(map(str, unknown))}"
    targets = {move.place: frozenset(move.replicas) for move in change.moves}
    others = [place for place, moving in under_way.items() if targets.get(place) != moving.target]
    if others:
        return f"another reassignment is under way: {_named(others)}"
    if _before(change, layout, under_way) != change.fingerprint:
        return "the cluster has changed since the plan was made"
    return None


def _before(change: Reassignment, layout: Layout, under_way: Mapping[tuple[str, int], UnderWay]) -> str:
    """The fingerprint with every lane that the change has moved, or is moving, put back to where it was."""
    moves = {move.place: move for move in change.moves}
    lists = {lane.place: lane.replicas for lane in layout.lanes}
    begun = [place for place in moves if place in under_way or lists.get(place) == moves[place].replicas]
    return fingerprint(layout.brokers, {**lists, **{place: moves[place].before for place in begun}})


def still_to_start(change: Reassignment, layout: Layout, under_way: Mapping[tuple[str, int], UnderWay]) -> list[Move]:
    """Moves that are neither done nor under way."""
    lists = {lane.place: lane.replicas for lane in layout.lanes}
    return [move for move in change.moves if move.place not in under_way and lists[move.place] != move.replicas]


def _named(places: list[tuple[str, int]], most: int = 3) -> str:
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(places)[:most])
    return f"{shown} and {len(places) - most} more" if len(places) > most else shown

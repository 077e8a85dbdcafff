"""A reassignment carried out on a real cluster: throttled, waited for, leaders elected, and the throttle gone again.

The only room that changes where a cluster has its copies. A change is refused when the cluster is no longer the one it
was made for (`plan.order.obstacle`). Whatever happens on the way, an interrupt too, the throttles that were set here
are taken back, and those that were there before are there again. What is under way goes on without us, for Kafka does
it; the same change again finishes it. What the cluster says of itself: `kafka_budget`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.errors import BrokerError
from keylane.plan.order import obstacle, still_to_start
from keylane.systems.kafka_budget import COPIES, RATES, observed, settings_of, under_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from keylane.plan.budget import Lane
    from keylane.plan.reassign import Change, Move

    Tell: TypeAlias = Callable[[str], None]
    Settings: TypeAlias = Mapping[tuple[str, str], Mapping[str, str]]

__all__ = ["Applied", "applied", "throttle_of"]

POLL_SECONDS: Final = 0.5
#: How long leaders may take to change once their copies are there.
ELECTION_SECONDS: Final = 20.0
PREFERRED: Final = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done: lanes whose replica list is another now, leaders that changed, and leaders that did not."""

    lanes: int
    elected: int
    not_elected: int
    seconds: float


def applied(client: Any, change: Change, rate: int | None, tell: Tell, *, poll: float = POLL_SECONDS) -> Applied:
    """Carry a change out and wait until it is done. `rate`: bytes a second that a broker sends or receives for it."""
    began, layout, busy = time.monotonic(), observed(client), under_way(client)
    if reason := obstacle(change, layout, busy):
        hint = "make the plan anew; Kafka's own tool can cancel what is under way"
        raise BrokerError.of(f"{reason}; nothing was changed", hint=hint)
    with _throttled(client, throttle_of(change.moves, rate)):
        _start(client, still_to_start(change, layout, busy))
        _wait(client, change, tell, poll)
    elected, not_elected = _elect(client, change, poll)
    return Applied(len(change.moves), elected, not_elected, time.monotonic() - began)


def throttle_of(moves: Iterable[Move], rate: int | None) -> dict[tuple[str, str], dict[str, str]]:
    """The settings that hold moves back: a rate on every broker concerned, and on the topics the copies it is for."""
    copied = [move for move in moves if move.added]
    if rate is None or not copied:
        return {}
    brokers = sorted({broker for move in copied for broker in (*move.before, *move.replicas)})
    found = {("broker", str(broker)): dict.fromkeys(RATES, str(rate)) for broker in brokers}
    for topic in dict.fromkeys(move.topic for move in copied):
        own = [move for move in copied if move.topic == topic]
        leaders = [f"{move.partition}:{broker}" for move in own for broker in move.before]
        followers = [f"{move.partition}:{broker}" for move in own for broker in move.added]
        found["topic", topic] = dict(zip(COPIES, (",".join(leaders), ",".join(followers)), strict=True))
    return found


@contextmanager
def _throttled(client: Any, wanted: Settings) -> Iterator[None]:
    before = _present(client, wanted)
    try:
        _set(client, wanted)
        yield
    finally:
        _set(client, {who: {name: before.get(who, {}).get(name) for name in wanted[who]} for who in wanted})


def _present(client: Any, wanted: Settings) -> Settings:
    """What was there before. Nothing, when it is our own, left by a run that was killed: the copies it names say so."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for kind, settings in (("broker", RATES), ("topic", COPIES)):
        names = [name for of, name in wanted if of == kind]
        found |= {(kind, name): told for name, told in settings_of(client, kind, names, settings).items()}
    is_ours = any(found.get(who) == settings for who, settings in wanted.items() if who[0] == "topic")
    return {} if is_ours else found


def _set(client: Any, settings: Mapping[tuple[str, str], Mapping[str, str | None]]) -> None:
    """Set settings, or remove those without a value. All are tried before a failure is told."""
    from kafka.admin import ConfigResource
    from kafka.errors import KafkaError

    failed: list[str] = []
    for (kind, name), values in settings.items():
        operations = {key: ("DELETE", None) if value is None else ("SET", value) for key, value in values.items()}
        try:
            told = client.alter_configs(
                [ConfigResource(kind, name, operations)], raise_on_unknown=False, incremental=True
            )
            failed += [f"{kind} {name}: {said}" for said in told.get(kind, {}).values() if said != "OK"]
        except KafkaError as error:
            failed.append(f"{kind} {name}: {type(error).__name__}")
    if failed:
        hint = "keylane budget ADDRESS --status says which are set"
        raise BrokerError.of("a throttle cannot be set or removed", got="; ".join(failed), hint=hint)


def _start(client: Any, moves: list[Move]) -> None:
    from kafka import TopicPartition

    if not moves:
        return
    told = client.alter_partition_reassignments({TopicPartition(*move.place): list(move.replicas) for move in moves})
    failed = [f"{place.topic}-{place.partition}: {error.__name__}" for place, error in told.items() if error]
    if failed:
        hint = "the others are under way: keylane budget ADDRESS --status"
        raise BrokerError.of("the cluster refused to move lanes", got="; ".join(failed), hint=hint)


def _wait(client: Any, change: Change, tell: Tell, poll: float) -> None:
    """Until no lane of the change is under way, with a word on how far it is."""
    ours = {move.place: move for move in change.moves}
    while left := [ours[place] for place in under_way(client) if place in ours]:
        tell(_progress(change, left))
        time.sleep(poll)


def _progress(change: Change, left: list[Move]) -> str:
    lanes = f"{len(change.moves) - len(left):,} of {len(change.moves):,} lanes moved"
    if change.bytes is None:
        return lanes
    open_bytes = sum((move.size or 0) * len(move.added) for move in left)
    return f"{lanes}, {(change.bytes - open_bytes) / 1e6:,.1f} of {change.bytes / 1e6:,.1f} MB"


def _elect(client: Any, change: Change, poll: float) -> tuple[int, int]:
    """Have the preferred leaders lead; how many do now, and how many do not. A copy that is new may need a while."""
    until, first = time.monotonic() + ELECTION_SECONDS, len(wrong := _wrongly_led(client, change))
    while wrong and time.monotonic() < until:
        asked: dict[str, list[int]] = {}
        for lane in wrong:
            asked.setdefault(lane.topic, []).append(lane.partition)
        client.elect_leaders(PREFERRED, asked, raise_errors=False)
        if wrong := _wrongly_led(client, change):
            time.sleep(poll)
    return first - len(wrong), len(wrong)


def _wrongly_led(client: Any, change: Change) -> list[Lane]:
    meant = {move.place for move in change.moves} | set(change.elections)
    return [lane for lane in observed(client).lanes if lane.place in meant and lane.leader != lane.replicas[0]]

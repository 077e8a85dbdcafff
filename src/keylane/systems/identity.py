"""Whether a stream is still the one that a route began with: by the id its system gives it, where it gives one.

A name can be deleted and recreated, and then offsets that were read mean other records, and what was written is gone.
What a system knows a stream by: `Endpoint.identity`. Where it is kept: the head of a target (`folders.folder`) or of a
state (`messages.state`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from keylane.errors import DataError, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keylane.systems.flow import Origin


def same_stream(known: str, now: str, known_id: str | None, now_id: str | None) -> bool:
    """Whether two addresses are of one stream: the same text, or one name and one id behind other brokers.

    >>> same_stream("kafka://b1:9092/t", "kafka://b2:9092/t", "x1", "x1")
    True
    >>> same_stream("kafka://b1:9092/t", "kafka://b2:9092/t", "", "")
    False
    """
    if known == now:
        return True
    systems = {one.partition("://")[0] for one in (known, now)}
    return bool(known_id) and known_id == now_id and len(systems) == 1 and stream_in(known) == stream_in(now)


def stream_in(address: str) -> str:
    """The stream that an address names.

    >>> stream_in("kafka://b1:9092,b2:9092/payments"), stream_in("kinesis://eu/s?endpoint=http://127.0.0.1:4567")
    ('payments', 's')
    """
    return address.partition("?")[0].rpartition("/")[2]


def agreed_source(now: Origin, known: Origin | None, say: Callable[[str], None]) -> Origin:
    """A source by the id that its route goes on with; refused where it was recreated, reported where that is not known.

    `known` is the source that the target remembers, None for a new route.
    """
    before = now.id if now.id is None or known is None or known.address != now.address else known.id or ""
    if now.id == "":
        say(f"the cluster reports no id of {now.address}, so a recreated one would not be noticed")
    elif before == "":
        say(f"the id of {now.address} was not known when the route began: from now on it is {now.id}")
    elif now.id != before:
        raise recreated_source(now.address, before or "", now.id or "")
    return replace(now, id=before or now.id)


def recreated_source(source: str, known: str, now: str) -> DataError:
    """What a source is refused with that has another id than the route began with."""
    return DataError.of(
        f"{source} was deleted and recreated since the route began: its offsets are those of other records",
        got=now or "no such stream",
        allowed=known,
        hint="start a new route for it: another target folder, or another --state; --start says where it begins",
    )


def agreed_topic_ids(known: Mapping[str, str], now: Mapping[str, str], say: Callable[[str], None]) -> dict[str, str]:
    """The ids of a route's topics to go on with; refused where one was recreated, reported where that is not known."""
    for topic, id_ in now.items():
        before = known.get(topic, id_)
        if not id_:
            say(f"the cluster reports no id of topic {topic}, so a recreated one would not be noticed")
        elif not before:
            say(f"the id of topic {topic} was not known when the route began: from now on it is {id_}")
        elif before != id_:
            raise recreated_topic(topic, before, id_)
    return {**now, **{topic: id_ for topic, id_ in known.items() if id_}}


def recreated_topic(topic: str, known: str, now: str) -> TargetError:
    """What a topic is refused with that has another id than when the route began, or is gone."""
    what = "was deleted and recreated" if now else "was deleted"
    return TargetError.of(
        f"topic {topic} {what} since the route began: what the route wrote there is gone, and which batches it has",
        got=now or "no such topic",
        allowed=known,
        hint="start a new route with another --state; --start says where it begins to read",
    )

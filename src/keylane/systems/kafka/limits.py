"""What a topic takes of a record: bytes, times and keys, by its settings and those of the producer.

A record beyond them would be refused by the client or the broker, each time and with all that is beside it. So a
batch's plan has the limits that its topics had when it was made, and Spark decides by them (`spark.writable`): a batch
that is run again decides the same. Bytes are compared as they are before compression, because how well a record is
compressed is known only to whoever has written it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keylane.errors import TargetError
from keylane.records import RecordLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What Java's producer sends at most, unless it is set, and what it holds at most (`spark.kafka_writer.PRODUCER`).
REQUEST_BYTES: Final = 1 << 20
BUFFER_BYTES: Final = 64 << 20
#: Every dead letter fits in this without its key, value and headers: a reason, a message and a position.
LEAST_FOR_LETTERS: Final = 16 << 10
_FOREVER: Final = 2**62


def limits_of(settings: Mapping[str, str], producer: Mapping[str, str], now_ms: int) -> RecordLimits:
    """The limits of a topic with these settings at a time; those that a cluster does not report are the client's.

    >>> limits_of({"max.message.bytes": "2000", "message.timestamp.after.max.ms": "50"}, {}, now_ms=100)
    RecordLimits(largest=2000, earliest=0, latest=150, keyed=False)
    """
    sent = min(int(producer.get("max.request.size", REQUEST_BYTES)), BUFFER_BYTES)
    taken = int(settings.get("max.message.bytes", sent))
    if producer.get("compression.type", "none") != "none":
        # What cannot be compressed becomes a little larger.
        taken -= 512 + taken // 512
    before, after = (_span(settings, name) for name in ("before", "after"))
    by_broker = settings.get("message.timestamp.type") == "LogAppendTime"
    return RecordLimits(
        max(0, min(sent, taken)),
        0 if by_broker else max(0, now_ms - before),
        _FOREVER if by_broker else min(_FOREVER, now_ms + after),
        keyed="compact" in settings.get("cleanup.policy", ""),
    )


def _span(settings: Mapping[str, str], end: str) -> int:
    return int(settings.get(f"message.timestamp.{end}.max.ms", _FOREVER))


def check_for_letters(topic: str, limits: RecordLimits) -> None:
    """Refuse a topic of dead letters that would not take one, or would delete it for another."""
    if limits.keyed:
        raise TargetError.of(
            "the topic of the dead letters is compacted: it takes none without a key, and keeps one of each key",
            got=topic,
            hint="cleanup.policy=delete, or another topic: --dead-letters",
        )
    if limits.largest < LEAST_FOR_LETTERS:
        raise TargetError.of(
            "the topic of the dead letters takes only small records: the position and reason of one might not fit",
            got=f"{topic}: {limits.largest} bytes",
            allowed=f"at least {LEAST_FOR_LETTERS}",
            hint="raise max.message.bytes of the topic, and message.max.bytes of the client where it is set",
        )

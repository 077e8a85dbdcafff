"""Which offsets of a topic a scan reads, and which fields of its records: the same for both engines.

    scanned_ranges   all that there is now, a part of it, or what arrives in some seconds
    scanned_spec     fields of the key and the time, out of the record's own key or out of its value

Who reads them: `frames` on Spark, `local_scan` in this process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import TIME, FieldSpec
from keylane.errors import DataError, UsageError
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.read_range import newest, stated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.profile.scan import ScanRequest
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.read_range import ReadRange

    #: From one offset up to another, for each lane.
    Ranges = Sequence[tuple[int, int]]

#: Offsets at each end of a lane that are read for its first and last time; some of them are marks, not records.
_LOOK: Final = 100


@dataclass(frozen=True, slots=True)
class ScannedRanges:
    """The offsets of each lane that are read, what they are of all there are in words, and the topic's id."""

    ranges: Ranges
    sampled: str
    id: str

    @property
    def heads(self) -> Ranges:
        """The first offsets of each lane."""
        return [(start, min(end, start + _LOOK)) for start, end in self.ranges]

    @property
    def tails(self) -> Ranges:
        """The last offsets of each lane."""
        return [(max(start, end - _LOOK), end) for start, end in self.ranges]

    @property
    def facts(self) -> dict[str, str]:
        """What a profile keeps of them."""
        return {name: text for name, text in {"sampled": self.sampled, "id": self.id}.items() if text}


def scanned_ranges(
    access: KafkaAccess, topic: str, asked: ReadRange | None, wanted: ScanRequest, say: Callable[[str], None]
) -> ScannedRanges:
    """What a scan reads; refused where that is nothing, or where a topic cannot be asked for it."""
    if wanted.size is not None:
        raise UsageError.of("records of a topic have their own size", got=wanted.size, hint="leave --bytes out")
    if wanted.seconds is not None and asked is not None:
        raise UsageError.of(
            "a topic is listened to, or read in part",
            hint="leave out --for, or the range: --last, --since and the like",
        )
    ranges, sampled = ranges_of(access, topic, wanted.seconds, say), ""
    if asked is not None:
        ranges, sampled = within(access, topic, ranges, asked)
    if not any(end > start for start, end in ranges):
        empty = "the topic is empty" if asked is None else "the range that was asked for is empty"
        hint = "nothing arrived in this time" if wanted.seconds else empty
        raise DataError.of("no records", got=f"kafka://{access.brokers}/{topic}", hint=hint)
    return ScannedRanges(ranges, sampled, id_of(access, topic))


def scanned_spec(wanted: ScanRequest, options: StreamOptions) -> FieldSpec:
    """The fields of the key and the time; without a form of values, a contract's one key field is the record's key."""
    names = [*wanted.key.fields, *([wanted.time] if wanted.time not in {None, TIME} else [])]
    spec = FieldSpec.of_scan(wanted.key, [str(name) for name in names], wanted.written)
    return spec.keyed_by(wanted.key) if wanted.of_contract and options.value is None else spec


def ranges_of(access: KafkaAccess, topic: str, seconds: float | None, say: Callable[[str], None]) -> Ranges:
    """From where to where each lane is read. What is not committed by then is not there."""
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([topic])[topic]
        if not lanes:
            raise DataError.of(f"no such topic at {access.brokers}", got=topic)
        before = cluster.offset_ranges(topic, lanes, committed=True)
        if seconds is None:
            return [(one.start, one.end) for one in before]
        say(f"listening to {topic} for {seconds:g} s")
        time.sleep(seconds)
        after = cluster.offset_ranges(topic, lanes, committed=True)
        # A lane that has forgotten records meanwhile begins where it now begins.
        return [(max(then.end, now.start), now.end) for then, now in zip(before, after, strict=True)]


def id_of(access: KafkaAccess, topic: str) -> str:
    """The topic's id: one that is created again has another. Empty where the cluster reports none."""
    with open_cluster(access) as cluster:
        return cluster.topic_ids([topic]).get(topic, "")


def within(access: KafkaAccess, topic: str, there: Ranges, asked: ReadRange) -> tuple[Ranges, str]:
    """What is read, and that in words. Without gaps: what is counted by windows of time takes a gap for silence."""
    with open_cluster(access) as cluster:
        inside = cluster.within(topic, there, asked)
    taken = newest(inside, asked.most)
    return taken, stated(there, inside, sum(end - start for start, end in taken), asked, spread=False)

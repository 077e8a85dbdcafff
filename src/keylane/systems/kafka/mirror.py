"""A topic as one side of a mirror: how far a copy has read it, and where reader groups begin in the new one.

The copy itself is a route (`keylane.pipelines.migrate_mirror`); a topic changed in place: `migration`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from keylane.systems.checkpoint import batch_offsets, log_numbers, unreadable
from keylane.systems.kafka.cluster import error_name, explained, is_permanent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from keylane.systems.kafka.cluster import KafkaCluster

#: What a broker answers to offsets from outside of a group that has members.
ACTIVE: Final = frozenset({"UNKNOWN_MEMBER_ID", "GROUP_SUBSCRIBED_TO_TOPIC", "NON_EMPTY_GROUP", "ILLEGAL_GENERATION"})
#: How long a coordinator is asked.
COMMIT_SECONDS: Final = 20.0


def committed_offsets(checkpoint: Path, topic: str, begins: Sequence[int]) -> tuple[int, ...]:
    """The offset of each lane up to which the batches of a checkpoint are committed; `begins` before the first one."""
    batch = max(log_numbers(checkpoint / "commits"), default=-1)
    if batch < 0:
        return tuple(begins)
    line = batch_offsets(checkpoint, batch).partition("\n")[0]
    try:
        known = {int(lane): int(offset) for lane, offset in json.loads(line)[topic].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(checkpoint / "offsets" / str(batch), f"no offsets of {topic}: {error}") from None
    return tuple(known.get(lane, begin) for lane, begin in enumerate(begins))


def start_group(cluster: KafkaCluster, group: str, topic: str, starts: Sequence[int]) -> bool:
    """Commit where a group begins, in lanes of which it has committed nothing; False where it has members.

    Only a group without members takes offsets from outside. A member that honours the gate begins there by itself.
    """
    from confluent_kafka import TopicPartition

    there = cluster.committed(group, topic, len(starts))
    wanted = [TopicPartition(topic, lane, start) for lane, start in enumerate(starts) if there[lane] < 0]
    until = time.monotonic() + COMMIT_SECONDS
    while wanted:
        failed = cluster.commit_for(group, wanted)
        if failed is None:
            return True
        if error_name(failed) in ACTIVE:
            return False
        if is_permanent(failed) or time.monotonic() > until:
            raise explained(failed, cluster.access.brokers, cluster.listener)
        time.sleep(0.2)
    return True

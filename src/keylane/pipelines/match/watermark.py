"""How far time has gone in the sources: the watermark, and from when on lanes have to remember.

Rule: the watermark is `late` behind the newest ping; but where a batch could not take all there was, a lane of a topic
that has records still unread holds it at the newest of its own, for what comes next there may be no newer. So a backlog
that is read lane by lane, one faster than another, is answered as if it had been read in order of time. A lane that is
read to its end holds nothing: it may be one without drivers. Nor does any lane after a batch that took all there
was: what is unread then has come since, and a lane of bad records or wrong clocks would
otherwise hold the watermark back for ever.

Lanes remember from the watermark back by `late`, and while requests are still unread, back to the newest request that
was read; but never by more than `keep`. Requests that wait for the end of their window, where drivers are assigned,
are never forgotten. What is read of a batch, and what there is: Spark's log of offsets, and the
cluster.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from keylane.pipelines.match.sources import LANE_BITS
from keylane.pipelines.watermark import BEGINNING, Watermark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Column

    from keylane.pipelines.match.follow_state import Happened
    from keylane.pipelines.match.sources import MatchSource
    from keylane.systems.kafka.cluster import KafkaCluster, OffsetRange

    #: The ts of the newest record of each lane of a source, by the lane's number as text.
    Newest = dict[str, int]


def lane_read(side: MatchSource) -> Column:
    """The lane of a topic that a record was read from; files count as one lane."""
    mask = (1 << LANE_BITS) - 1
    lane = F.col("offset").bitwiseAND(F.lit(mask)) if side.messages else F.lit(0)
    return lane.cast("string").alias("part")


@dataclass(frozen=True, slots=True)
class Unread:
    """Records of each lane that are there and not yet read, by source; None for files, where they are not known.

    `cut` is whether the batch may have left pings that were there when it began.
    """

    drivers: tuple[int, ...] | None = None
    riders: tuple[int, ...] | None = None
    cut: bool = True

    def by_lane(self) -> list[dict[str, int]] | None:
        """Of both sources together."""
        known = [side for side in (self.drivers, self.riders) if side is not None]
        return [{"lane": lane, "records": sum(each)} for lane, each in enumerate(zip(*known, strict=True))] or None


@dataclass(frozen=True, slots=True)
class Lags:
    """Asks the cluster of each source that is a topic. `most` is how many records of a topic a batch takes."""

    sides: tuple[MatchSource, MatchSource]
    clusters: tuple[KafkaCluster | None, KafkaCluster | None]
    most: int

    def of(self, checkpoint: Path, batch: int) -> Unread:
        """What a batch leaves unread."""
        logs = checkpoint / "offsets"
        read, before = _read_to(logs / str(batch)), _read_to(logs / str(batch - 1)) if batch else {}
        there = [self._there(*one) for one in zip(self.sides, self.clusters, strict=True)]
        topics = [side.address.name for side in self.sides]
        drivers, riders = (_left(ends, read.get(topic, {})) for ends, topic in zip(there, topics, strict=True))
        cut = _cut(there[0], read.get(topics[0], {}), before.get(topics[0], {}), self.most)
        return Unread(drivers, riders, cut)

    def _there(self, side: MatchSource, cluster: KafkaCluster | None) -> list[OffsetRange] | None:
        return None if cluster is None else cluster.offset_ranges(side.address.name, side.lanes or 0, committed=True)


def _left(there: Sequence[OffsetRange] | None, read: Newest) -> tuple[int, ...] | None:
    if there is None:
        return None
    return tuple(max(0, one.end - read.get(str(lane), 0)) for lane, one in enumerate(there))


def _cut(there: Sequence[OffsetRange] | None, read: Newest, before: Newest, most: int) -> bool:
    """Whether a batch took as much of a topic as it may. Spark shares that out by lane, and rounds each share."""
    if there is None:
        return False
    taken = (read.get(str(lane), 0) - before.get(str(lane), one.start) for lane, one in enumerate(there))
    return sum(taken) >= most - len(there)


def _read_to(log: Path) -> dict[str, Newest]:
    """The offsets of topics in an entry of Spark's log: a line for each source, after two of its own."""
    found: dict[str, Newest] = {}
    for line in log.read_text(encoding="utf-8").splitlines()[2:]:
        entry = json.loads(line) if line.startswith("{") else {}
        found |= {topic: offsets for topic, offsets in entry.items() if isinstance(offsets, dict)}
    return found


def ripe_before(watermark: int, window: int) -> int:
    """Requests before this are answered: those of whole windows, from 1970 on.

    >>> ripe_before(14, 1), ripe_before(14, 5)
    (14, 10)
    """
    return max(watermark // window * window, BEGINNING)


def passed(
    last: Happened, drivers: Newest, riders: Newest, unread: Unread, late: int, keep: int, window: int = 1
) -> Happened:
    """Where time stands after a batch with these newest records."""
    times = Watermark(last.seen).advanced({"drivers": drivers, "riders": riders})
    watermark = max(last.watermark, times.held("drivers", unread.drivers if unread.cut else None) - late)
    asked = times.newest("riders") if unread.riders is None else watermark
    if unread.riders and any(unread.riders):
        asked = times.held("riders", unread.riders)
    kept = max(min(watermark, asked) - late, watermark - max(keep, late))
    # What waits for the end of its window has to find its drivers then, however long windows are.
    kept = max(last.kept_from, min(kept, ripe_before(watermark, window)))
    seen = {name: dict(lanes) for name, lanes in times.sources.items()}
    return replace(last, watermark=max(watermark, BEGINNING), kept_from=kept, seen=seen)

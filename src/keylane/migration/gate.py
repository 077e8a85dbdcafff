"""What a reader may apply while a stream changes its contract: each new lane after its parents, and nothing later.

The rule. A record in lane j at or behind the lane's start is of the new contract. It may be applied when every parent
of j has been applied up to its fence, where applied means committed: what is applied and not committed is applied
again after a crash, and would then come behind. Everything below a start is of the old contract, and needs no leave.

Worked example: 12 -> 18 lanes, lane 15 has the parents 3 and 9, whose fences are 40 and 37. With 3 committed up to 40
and 9 up to 36 nothing of lane 15 may be applied; once 9 is committed up to 37 all of it may. Lane 3 itself goes on
beyond 40 under the same condition.

    >>> gate = LaneGate(fences=(2, 1), starts=(2, 1, 0), parents=((0, 1), (0, 1), (0, 1)))
    >>> gate.allows(0, 1, applied=(0, 0)), gate.allows(2, 0, applied=(2, 0)), gate.allows(2, 0, applied=(2, 1))
    (True, False, True)
    >>> gate.readable({0: 0, 1: 0, 2: 0}, {0: 5, 1: 5, 2: 5})
    {0: (0, 2), 1: (0, 1), 2: (0, 0)}
    >>> gate.readable({0: 2, 1: 1, 2: 0}, {0: 5, 1: 5, 2: 5})
    {0: (2, 5), 1: (1, 5), 2: (0, 5)}

By a mirror there are two streams, and `MirrorGate` says of each record whether it is applied, held back or skipped. Of
the old stream everything is applied up to the fences; of the new one nothing before `open`, then the copies below the
starts are skipped, and what is behind them waits for its parents. A producer that writes to both streams marks what it
writes to the old one as kept. Before `open` nobody knows on which side of the fence such a record is, so it is held
back; afterwards it is applied if it is below, and skipped if not: then it comes by the new stream.

    >>> doubling = MirrorGate(None)
    >>> doubling.old_allows(0, 1, kept=False), doubling.old_allows(0, 2, kept=True), doubling.new_allows(0, 7, (1, 1))
    ('apply', 'hold', 'hold')
    >>> mirror = MirrorGate(LaneGate(fences=(3, 1), starts=(4,), parents=((0, 1),)))
    >>> mirror.old_allows(0, 2, kept=True), mirror.old_allows(0, 3, kept=True), mirror.old_allows(0, 3, kept=False)
    ('apply', 'skip', 'hold')
    >>> mirror.new_allows(0, 3, (0, 0)), mirror.new_allows(0, 4, (3, 0)), mirror.new_allows(0, 4, (3, 1))
    ('skip', 'hold', 'apply')

When not to use it: for readers that keep no state by key. As a protocol for any client: docs/migrate-protocol.md. Which
lanes are parents: `drain`. For confluent-kafka: `keylane.systems.kafka.migration_clients`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from keylane.migration.cutover import opened, phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.migration.cutover import Entry

__all__ = ["LaneGate", "Leave", "MirrorGate"]

#: Of a record: apply it now; look again later, and let nothing of its lane past it; or pass it, and commit that.
Leave: TypeAlias = Literal["apply", "hold", "skip"]


@dataclass(frozen=True, slots=True)
class LaneGate:
    """Fences of the old lanes, where each new lane begins, and the parents of each new lane."""

    fences: tuple[int, ...]
    starts: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, entry: Entry, parents: Sequence[Sequence[int]]) -> LaneGate:
        """The gate of an entry `open`."""
        return cls(entry.fences, entry.starts, tuple(map(tuple, parents)))

    def start(self, lane: int) -> int:
        """The first offset of the new contract; a lane that nobody planned has nothing else."""
        return self.starts[lane] if lane < len(self.starts) else 0

    def is_new(self, lane: int, offset: int) -> bool:
        """Whether a record of the new stream is of the new contract."""
        return offset >= self.start(lane)

    def parents_of(self, lane: int) -> tuple[int, ...]:
        """The old lanes that a lane waits for: all of them, for one that nobody planned."""
        return self.parents[lane] if lane < len(self.parents) else tuple(range(len(self.fences)))

    def waits_for(self, lane: int, applied: Mapping[int, int] | Sequence[int]) -> tuple[int, ...]:
        """The parents of a lane that are not applied up to their fences, by what is committed of the old lanes."""
        return tuple(old for old in self.parents_of(lane) if applied[old] < self.fences[old])

    def allows(self, lane: int, offset: int, applied: Mapping[int, int] | Sequence[int]) -> bool:
        """Whether the record at this offset may be applied."""
        return not self.is_new(lane, offset) or not self.waits_for(lane, applied)

    def readable(self, positions: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Of each lane the offsets that may be read and applied now, in any order among the lanes.

        `positions` is how far each lane is applied and committed, `ends` where it ends. For readers in batches, as
        Spark's: what comes behind a fence is never in the batch that goes up to it.
        """
        applied = {lane: positions.get(lane, 0) for lane in range(len(self.fences))}
        found = {}
        for lane, end in ends.items():
            start = positions.get(lane, 0)
            limit = end if not self.waits_for(lane, applied) else min(end, self.start(lane))
            found[lane] = (start, max(start, limit))
        return found


@dataclass(frozen=True, slots=True)
class MirrorGate:
    """The gate of a mirror's two streams: `lanes` are those of the entry `open`, None as long as there is none.

    The journal is looked at behind the fetch of a record that is kept, or of the new stream; of all others there is no
    need to.
    """

    lanes: LaneGate | None
    rolled_back: bool = False

    @classmethod
    def of(cls, entries: Sequence[Entry], parents: Sequence[Sequence[int]]) -> MirrorGate:
        """The gate by a journal as it is now."""
        entry = opened(entries)
        return cls(
            None if entry is None else LaneGate.of(entry, parents), rolled_back=phase_of(entries) == "rolled-back"
        )

    def old_allows(self, lane: int, offset: int, *, kept: bool) -> Leave:
        """What is done with a record of the old stream; `kept` is whether its producer keeps it for the new one too.

        A record behind the fence that nobody keeps is of a producer that did not stop. It is nowhere else, and where it
        belongs in its key's order nobody knows: it is neither applied nor passed.
        """
        if self.lanes is None:
            return "hold" if kept and not self.rolled_back else "apply"
        if lane < len(self.lanes.fences) and offset < self.lanes.fences[lane]:
            return "apply"
        return "skip" if kept else "hold"

    def new_allows(self, lane: int, offset: int, applied: Mapping[int, int] | Sequence[int]) -> Leave:
        """What is done with a record of the new stream; `applied` is what is committed of the old lanes."""
        if self.lanes is None:
            return "hold"
        if not self.lanes.is_new(lane, offset):
            return "skip"
        return "hold" if self.lanes.waits_for(lane, applied) else "apply"

"""How far event time has gone in the sources of a running pipeline, each known by its name.

Rule: a source stands at its newest record; where lanes of it have records that are still unread, at the newest record
of the lane that is farthest behind, for what comes next there may be no newer. So a backlog that is read lane by lane,
one faster than another, counts as if it had been read in order of time. A lane that is read to its end holds nothing.

Worked example: lanes 0 and 1 have come to 500 and 300. With unread records in lane 1 the source stands at 300; once
lane 1 is read to its end, at 500. A lane that appears later, with nothing read of it yet, holds the source at its
beginning. Do not use it for records whose times need not rise along a lane: its newest means nothing there.

What a pipeline makes of it (how much lateness, how long to remember): `match.watermark`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    #: The time of the newest record of each lane of a source, by the lane's number as text.
    LaneTimes = Mapping[str, int]

#: Before the first record.
BEGINNING: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The newest record of every lane that was read, by source. Times only rise."""

    sources: Mapping[str, LaneTimes] = field(default_factory=dict)

    def advanced(self, newest: Mapping[str, LaneTimes]) -> Watermark:
        """After a batch with these newest records.

        >>> Watermark({"a": {"0": 5}}).advanced({"a": {"0": 3, "1": 4}}).sources
        {'a': {'0': 5, '1': 4}}
        """
        sources = {}
        for name in dict.fromkeys((*self.sources, *newest)):
            before, now = self.sources.get(name, {}), newest.get(name, {})
            lanes = dict.fromkeys((*before, *now))
            sources[name] = {lane: max(before.get(lane, BEGINNING), now.get(lane, BEGINNING)) for lane in lanes}
        return Watermark(sources)

    def newest(self, name: str) -> int:
        """The newest record of a source."""
        return max(self.sources.get(name, {}).values(), default=BEGINNING)

    def held(self, name: str, unread: tuple[int, ...] | None) -> int:
        """Where a source stands, by the unread records of each lane; None: not known, and no lane holds it back.

        >>> Watermark({"a": {"0": 500, "1": 300}}).held("a", (0, 7))
        300
        """
        lanes = self.sources.get(name, {})
        behind = [lanes.get(str(lane), BEGINNING) for lane, records in enumerate(unread or ()) if records]
        return min([self.newest(name), *behind])

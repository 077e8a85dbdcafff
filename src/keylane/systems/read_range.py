"""Which part of a topic is read: a range of time, some of its partitions, so many records at most. Pure.

    ReadRange       what was asked for
    clipped         offsets of each lane -> those in the range, given what the broker answers for its two times
    stretches       so many records, spread over the range: some of each lane, in equal parts
    newest          so many records, the last of each lane: for what looks at rates and needs them without gaps
    stated          what was read of what there was, in words

Offsets by time come from the broker (`kafka.cluster`). The options: `cli.options`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from keylane.errors import UsageError
from keylane.numbers import count, lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    #: From one offset up to another, for each lane.
    Offsets = Sequence[tuple[int, int]]

#: Stretches of each lane at most, and of all lanes: each costs a request to the broker.
EACH: Final = 8
ALL: Final = 512
#: The fraction whose multiples are spread evenly between 0 and 1.
GOLDEN: Final = 0.618034


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What is read of a topic; times in milliseconds since 1970. No partition means all of them."""

    since: int | None = None
    until: int | None = None
    most: int | None = None
    partitions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise UsageError.of("the range of time ends before it begins", hint="--since comes before --until")


class Stretch(NamedTuple):
    """Records of a lane from one offset up to another."""

    lane: int
    start: int
    end: int


def clipped(
    there: Offsets, wanted: ReadRange, since: Sequence[int] | None = None, until: Sequence[int] | None = None
) -> list[tuple[int, int]]:
    """The offsets of each lane that are in a range; a lane that is not asked for has none.

    `since` and `until` are the first offsets of each lane at or after the range's times; -1 where none is that late.

    >>> clipped([(0, 100), (50, 80)], ReadRange(partitions=(1,)))
    [(0, 0), (50, 80)]
    >>> clipped([(0, 100), (50, 80)], ReadRange(), since=[90, -1], until=[-1, 60])
    [(90, 100), (80, 80)]
    """
    beyond = [lane for lane in wanted.partitions if not 0 <= lane < len(there)]
    if beyond:
        raise UsageError.of("the topic has no such partition", got=beyond[0], allowed=f"0 to {len(there) - 1}")
    found = []
    for lane, (start, end) in enumerate(there):
        first, last = start, end
        if wanted.partitions and lane not in wanted.partitions:
            last = start
        if since is not None:
            first = end if since[lane] < 0 else min(max(start, since[lane]), end)
        if until is not None and until[lane] >= 0:
            last = min(last, until[lane])
        found.append((first, max(first, last)))
    return found


def _quotas(ranges: Offsets, most: int) -> list[int]:
    """How many records of each lane, by how many it has: at most `most` together, where one a lane is not more."""
    total = sum(end - start for start, end in ranges)
    return [min(end - start, max(1, most * (end - start) // total)) if end > start else 0 for start, end in ranges]


def newest(ranges: Offsets, most: int | None) -> list[tuple[int, int]]:
    """The last records of each lane.

    >>> newest([(0, 100), (0, 300)], 40)
    [(90, 100), (270, 300)]
    """
    if most is None or sum(end - start for start, end in ranges) <= most:
        return list(ranges)
    return [(end - some, end) for (_, end), some in zip(ranges, _quotas(ranges, most), strict=True)]


def stretches(ranges: Offsets, most: int | None) -> list[Stretch]:
    """One stretch in each of equal parts of a lane, in each lane at another place of its parts.

    So old and new records weigh alike: with the same few places in all lanes, a writer that began of late would look
    larger, or smaller, than it is. Those of one part stand together, so that a reader of the first few sees all lanes.

    >>> stretches([(0, 100)], None), stretches([(0, 10), (5, 5)], 40)
    ([Stretch(lane=0, start=0, end=100)], [Stretch(lane=0, start=0, end=10)])
    """
    if most is None or sum(end - start for start, end in ranges) <= most:
        return [Stretch(lane, start, end) for lane, (start, end) in enumerate(ranges) if end > start]
    pieces = max(1, min(EACH, ALL // len(ranges)))
    found: list[tuple[int, Stretch]] = []
    for lane, ((start, end), some) in enumerate(zip(ranges, _quotas(ranges, most), strict=True)):
        cut = min(pieces, some)
        place = (0.5 + lane * GOLDEN) % 1
        # Which parts get the records that do not divide is another matter in each lane too.
        shift = int(place * cut)
        for piece in range(cut):
            first, last = (start + (end - start) * edge // cut for edge in (piece, piece + 1))
            size = min(last - first, (some * (piece + 1) + shift) // cut - (some * piece + shift) // cut)
            at = first + int((last - first - size) * place)
            found.append((piece, Stretch(lane, at, at + size)))
    return [one for _, one in sorted(found)]


def stated(there: Offsets, ranges: Offsets, read: int, wanted: ReadRange, *, spread: bool) -> str:
    """What was read, in words; nothing where it is all that there is.

    >>> stated([(0, 100)], [(0, 100)], 100, ReadRange(), spread=True)
    ''
    >>> stated([(0, 900)], [(0, 900)], 90, ReadRange(most=90), spread=True)
    'a sample: 90 of 900 offsets, in stretches over each lane; --max-records N takes more'
    """
    total, inside = (sum(end - start for start, end in some) for some in (there, ranges))
    if read == total:
        return ""
    of = f"{count(read)} of {count(total)} offsets"
    where = f", partitions {lanes(list(wanted.partitions))}" if wanted.partitions else ""
    timed = ", by time" if wanted.since is not None or wanted.until is not None else ""
    if read == inside:
        return f"a part: {of}{where}{timed}"
    how = "in stretches over each lane" if spread else "the newest of each lane"
    return f"a sample: {of}{where}{timed}, {how}; --max-records N takes more"

"""What is known of a stream's keys: the profile, as values. `plan` and the reports read only this.

Making one from a stream: `pipelines.profile`. As a folder on the disk: `systems.profiles`. Keys that look alike:
`lookalikes`. Why a lane is hot: `measure.hot_lanes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast

import numpy as np

from keylane.errors import DataError, UsageError
from keylane.placement.ranges import KeySpace

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.model import Key

#: What windows are cut from: the records' time, or their position in the source.
Kind: TypeAlias = Literal["time", "position"]


@dataclass(frozen=True, slots=True)
class Windows:
    """Where the windows lie: their edges, in microseconds since 1970 (UTC) or in positions; one more than windows."""

    kind: Kind
    edges: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.edges) - 1


@dataclass(frozen=True, slots=True)
class WithoutKey:
    """Records that no key decides: null keys, empty keys, and records whose key could not be read."""

    null: int = 0
    empty: int = 0
    malformed: int = 0

    @property
    def records(self) -> int:
        """All of them."""
        return self.null + self.empty + self.malformed


@dataclass(frozen=True, slots=True)
class Approximation:
    """What sketches leave open: a key's records may be over or under by this many, and distinct keys off by this share.

    Keys that the sketch did not keep are not in the profile; `untracked` are their records.
    """

    most_over: int
    distinct_keys: int
    distinct_error: float
    untracked: int
    most_under: int = 0


@dataclass(frozen=True, slots=True)
class ObservedLanes:
    """Records of each lane in each window, where the source has lanes: a topic, a folder of lanes."""

    by_window: NDArray[np.int64]
    #: Records that lie on another lane than the contract gives their key; None without a contract.
    misplaced: int | None = None


class ProfileFacts(TypedDict, total=False):
    """What else is known of how a profile was made; each source has some of it."""

    kind: str
    files: int
    offsets: list[tuple[int, int]]
    seconds: float
    time: str
    unit: str
    unit_by_size: bool
    #: Numbers that have the size of another unit, and are read by it.
    other_units: int
    #: Whether some times are text with a date.
    written_times: bool
    time_format: str
    #: How many times lie far before and far after all others, and the first and the last of those.
    strays: list[int]
    sampled: str
    partitions: list[int]
    writers: dict[str, Any]
    without_time: int
    bytes: str
    place: list[str]
    scale: float
    shards: list[list[str]]
    no_place: dict[str, int]
    window_records: list[int]
    window_keys: list[int]
    window_new_keys: list[int]


@dataclass(frozen=True, slots=True)
class Profile:
    """Every key of a stream with its records, heaviest first: a key's row is its rank.

    `keys` has the key's fields as columns, by value: a contract names keys so, and a router places them so. Null and
    empty keys are in `without_key`. `size` is None where the source does not report the size of a record.
    """

    source: str
    key: Key
    windows: Windows
    keys: pa.Table
    by_window: NDArray[np.int32]
    size: NDArray[np.int64] | None = None
    without_key: WithoutKey = WithoutKey()
    bytes_total: int | None = None
    approximate: Approximation | None = None
    lanes: ObservedLanes | None = None
    facts: tuple[tuple[str, Any], ...] = ()
    fingerprint: str = ""

    def __post_init__(self) -> None:
        rows, windows = self.by_window.shape
        if rows != self.keys.num_rows or windows != len(self.windows):
            got = f"{self.keys.num_rows} keys and {len(self.windows)} windows for counts of {rows} x {windows}"
            raise DataError.of("the counts do not match the keys", got=got)

    @property
    def records(self) -> NDArray[np.int64]:
        """The records of each key."""
        total: NDArray[np.int64] = self.by_window.sum(axis=1, dtype=np.int64)
        return total

    @property
    def known(self) -> ProfileFacts:
        """The facts, by name."""
        return cast("ProfileFacts", dict(self.facts))

    @property
    def key_space(self) -> KeySpace | None:
        """The lanes as ranges, where the source has such: the id and the first hash key of each were noted."""
        shards = self.known.get("shards")
        return KeySpace.of_starts((id_, int(start)) for id_, start in shards) if shards else None

    @property
    def total(self) -> int:
        """All records, those without a key too, and those of keys that a sketch did not keep."""
        untracked = 0 if self.approximate is None else self.approximate.untracked
        return int(self.by_window.sum(dtype=np.int64)) + self.without_key.records + untracked


# Windows: of one length in time, or of equal numbers of records.

#: As many windows as a day has hours, by default; fewer where each costs more.
USUAL: Final = 24
FEW: Final = 8
MANY_RECORDS: Final = 20_000_000
MOST: Final = 48
#: Lengths of time that people count in, in microseconds.
_UNITS: Final = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)


def windows_for(given: int | None, records: int | None) -> int:
    """How many windows a profile has: as given, otherwise 24, and 8 where it is known to have more than 20 M records.

    >>> windows_for(None, 1000), windows_for(None, 50_000_000), windows_for(12, None)
    (24, 8, 12)
    """
    if given is None:
        return FEW if records is not None and records > MANY_RECORDS else USUAL
    if not 1 <= given <= MOST:
        raise UsageError.of("number of windows is out of range", got=given, allowed=f"1 to {MOST}")
    return given


def time_windows(first: int, last: int, count: int, tick: int = 1) -> Windows:
    """At most this many windows of one length, a multiple of `tick`, that hold both ends.

    Edges lie on whole days, hours, minutes, seconds or milliseconds, as far as that lengthens a window by no more than
    a hundredth. Ten days in four windows are windows of three days, and the last one is not full:

    >>> day = 86_400_000_000
    >>> [edge // day for edge in time_windows(0, 9 * day, 4, tick=day).edges]
    [0, 3, 6, 9, 12]
    >>> [edge // 3_600_000_000 for edge in time_windows(1_234_567, 4 * day - 7_654_321, 4).edges]
    [0, 24, 48, 72, 96]
    """
    least = -(-(last - first + tick) // count)
    unit = max(tick, next(unit for unit in _UNITS if unit * 100 <= least or unit == 1))
    start = first // unit * unit
    span = last - start + tick
    length = -(-span // (count * unit)) * unit
    return Windows("time", tuple(start + i * length for i in range(-(-span // length) + 1)))


def position_windows(positions: int, count: int) -> Windows:
    """At most this many windows of equal numbers of positions, to within one.

    >>> position_windows(10, 4).edges
    (0, 3, 5, 8, 10)
    """
    count = max(1, min(count, positions))
    return Windows("position", tuple(-(-i * positions // count) for i in range(count + 1)))

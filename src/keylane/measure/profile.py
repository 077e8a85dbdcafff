"""What is known of a stream's keys: the profile, as values. `plan` and the reports read nothing else.

Making one from a stream: `pipelines.profile`. As a folder on the disk: `systems.profiles`. Keys that look alike:
`lookalikes`. Why a lane is hot: `hot`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from keylane.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.model import Key

__all__ = ["Approximation", "Kind", "ObservedLanes", "Profile", "Windows", "WithoutKey"]

#: What windows are cut from: the records' time, or their place in the source.
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
    """What sketches leave open: a key's records may be over or under by so many, and distinct keys off by this share.

    Keys that the sketch did not keep are not in the profile; `untold` are their records.
    """

    most_over: int
    distinct_keys: int
    distinct_error: float
    untold: int
    most_under: int = 0


@dataclass(frozen=True, slots=True)
class ObservedLanes:
    """Records of each lane in each window, where the source has lanes: a topic, a folder of lanes."""

    by_window: NDArray[np.int64]
    #: Records that lie on another lane than the contract gives their key; None without a contract.
    misplaced: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Every key of a stream with its records, heaviest first: a key's row is its rank.

    `keys` has the key's fields as columns, by value: a contract names keys so, and a router places them so. Null and
    empty keys are in `without_key`. `size` is None where the source does not tell how long a record is.
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
            raise DataError.of("a profile's counts are of other keys", got=got)

    @property
    def records(self) -> NDArray[np.int64]:
        """The records of each key."""
        total: NDArray[np.int64] = self.by_window.sum(axis=1, dtype=np.int64)
        return total

    @property
    def total(self) -> int:
        """All records, those without a key too, and those of keys that a sketch did not keep."""
        untold = 0 if self.approximate is None else self.approximate.untold
        return int(self.by_window.sum(dtype=np.int64)) + self.without_key.records + untold

"""What is counted of a day: the values between `counts` (Spark) and `figures` (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BUCKETS", "NOON", "KeyCounts", "LaneCounts", "Parted"]

#: Half hours of the day, and the first of those that a contract made from the morning has not seen.
BUCKETS: Final = 48
NOON: Final = 24


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Every key, its records in the day, and those of them before noon."""

    keys: list[str]
    day: NDArray[np.int64]
    morning: NDArray[np.int64]

    @property
    def of_day(self) -> dict[str, int]:
        """The records of each key."""
        return dict(zip(self.keys, self.day.tolist(), strict=True))

    @property
    def of_morning(self) -> dict[str, int]:
        """The records before noon of each key that had any."""
        pairs = zip(self.keys, self.morning.tolist(), strict=True)
        return {key: records for key, records in pairs if records}

    def heaviest(self, most: int) -> list[str]:
        """The keys with the most records, first the heaviest; ties by name, so that a day has one answer."""
        of_day = self.of_day
        return sorted(self.keys, key=lambda key: (-of_day[key], key))[:most]


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """Records of each lane (rows) in each half hour (columns); those without a lane; those whose lane is a new one."""

    cells: NDArray[np.int64]
    unplaced: int
    moved: int


@dataclass(frozen=True, slots=True)
class Parted:
    """How many groups there are, and how many of them have records on more than one lane."""

    groups: int
    parted: int

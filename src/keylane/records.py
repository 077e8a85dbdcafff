"""The values that every other package uses. Imports nothing of keylane and no library.

Where a placement is decided: `router`. Where findings come from: `contract.parse` and `measure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "info"]
#: Where a record stood in its source (an offset). What keyless rules and position spreads read.
Position: TypeAlias = int


class Reason(StrEnum):
    """Why a record could not be placed: the closed list that dead letters carry."""

    NULL_KEY = "null-key"
    EMPTY_KEY = "empty-key"
    MALFORMED_KEY = "malformed-key"
    MISSING_FIELD = "missing-field"
    NOT_IN_TABLE = "not-in-table"
    NO_POSITION = "no-position"
    MALFORMED_RECORD = "malformed-record"
    PARKED_KEY = "parked-key"
    NULL_PLACE = "null-place"
    PLACE_NOT_FINITE = "place-not-finite"
    PLACE_SWAPPED = "place-swapped"
    PLACE_OUT_OF_RANGE = "place-out-of-range"
    PLACE_ZERO = "place-zero"
    LATE_REQUEST = "late-request"
    TOO_LARGE = "too-large"
    UNWRITABLE_TIME = "unwritable-time"
    UNWRITABLE_KEY = "unwritable-key"
    MALFORMED_HEADER = "malformed-header"
    PLACE_UNSCALED = "place-unscaled"
    TIME_AHEAD = "time-ahead"


#: Of records that have a lane: its topic does not take them, or the route keeps them back.
NOT_OF_CONTRACT: Final = frozenset(
    {
        Reason.PARKED_KEY,
        Reason.TOO_LARGE,
        Reason.UNWRITABLE_TIME,
        Reason.UNWRITABLE_KEY,
        Reason.MALFORMED_HEADER,
    }
)
#: Each reason as a small number, for columns of them.
REASON_CODES: Final = {reason: code for code, reason in enumerate(Reason)}


@dataclass(frozen=True, slots=True)
class Placement:
    """What a strategy did with one record, and why.

    `lane` is None in two cases, distinguished by `reason`: the record cannot be placed (a reason of the closed
    list), or the key does not decide the lane and no source position was given (`no-position`).
    """

    stream: str
    lane: int | None
    routing_key: bytes | None
    reason: Reason | None = None
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a check, and where."""

    severity: Severity
    where: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}: {self.where}" if self.line else self.where
        return f"{self.severity}: {place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A record that a producer took and could not deliver: where it was to go, and the client's own error.

    `number` is its index among the records that were given at once, None where they were given one by one.
    """

    stream: str
    lane: int | None
    key: bytes | None
    error: str
    number: int | None = None

    def __str__(self) -> str:
        where = self.stream if self.lane is None else f"{self.stream} lane {self.lane}"
        which = "" if self.number is None else f"record {self.number}, "
        return f"{which}{where}, key {self.key!r}: {self.error}"


@dataclass(frozen=True, slots=True)
class Parked:
    """A key that is set aside from a position on. `kind` is whether `key` is a routing key or a record's own."""

    kind: str
    key: str
    part: int
    place: int


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """What a topic takes of a record: its bytes at most, its time in milliseconds, and whether it must have a key."""

    largest: int
    earliest: int = 0
    latest: int = 2**62
    keyed: bool = False

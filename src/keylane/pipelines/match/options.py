"""What may be said of a match beside its two sources. Each option is described in docs/commands/match.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.contract.names import MAX_LANES
from keylane.errors import UsageError
from keylane.matching.sphere import checked_radius
from keylane.pipelines.kafka.options import KafkaOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ASSIGNMENTS", "Assignment", "Columns", "Options", "Unit"]

Unit: TypeAlias = Literal["s", "ms", "us"]
Assignment: TypeAlias = Literal["greedy", "optimal"]
ASSIGNMENTS: Final = ("greedy", "optimal")
#: Times are whole microseconds.
MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a source are called. `available` is looked for under its own name when it is not given."""

    id: str = "id"
    time: str = "ts"
    lat: str = "lat"
    lng: str = "lng"
    available: str | None = None
    unit: Unit = "ms"

    @property
    def needed(self) -> tuple[str, ...]:
        """Those that every record has to have."""
        return (self.id, self.time, self.lat, self.lng)


@dataclass(frozen=True, slots=True)
class Options:
    """How near, how many, how old; and how the sources are read.

    `radius` is in metres, `expire` the age in seconds after which a ping counts no more, `nearest` how many drivers a
    rider gets at most. `assign` gives each driver to one rider at most: over windows of `window` seconds, with offers
    that hold for `offer_for` seconds. `co_partitioned` demands what is else only used where it is there.
    """

    radius: float
    nearest: int | None = None
    expire: float | None = None
    drivers: Columns = field(default_factory=Columns)
    riders: Columns = field(default_factory=Columns)
    kind: str | None = None
    lanes: int | None = None
    verify: bool = False
    picture: bool = False
    co_partitioned: bool = False
    assign: Assignment | None = None
    window: float = 5.0
    offer_for: float = 15.0
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    kafka: KafkaOptions = field(default_factory=lambda: KafkaOptions(value="json"))

    def checked(self) -> Options:
        """The options themselves, when each makes sense."""
        checked_radius(self.radius)
        for name, value in (("expire", self.expire), ("window", self.window), ("offer-for", self.offer_for)):
            if value is not None and not (isfinite(value) and round(value * MICROS) > 0):
                what, allowed = f"--{name} is no length of time", "seconds, a millionth of one or more"
                raise UsageError.of(what, got=value, allowed=allowed)
        if self.lanes is not None and not 1 <= self.lanes <= MAX_LANES:
            raise UsageError.of("--lanes is no lane count", got=self.lanes, allowed=f"1 to {MAX_LANES:,}")
        if self.nearest is not None and self.nearest < 1:
            raise UsageError.of("--nearest keeps too few", got=self.nearest, allowed="1 or more")
        if self.assign is not None and self.assign not in ASSIGNMENTS:
            raise UsageError.of("no such assignment", got=self.assign, allowed=", ".join(ASSIGNMENTS))
        return self

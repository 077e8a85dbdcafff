"""What may be set about a match beside its two sources, and what is refused before it starts.

Each option is described in docs/commands/match.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from keylane.contract.model import Contract, Geo, Key, Metadata, Spec
from keylane.contract.names import MAX_LANES
from keylane.errors import DataError, LaneCountError, UsageError
from keylane.geo.coordinates import checked_scale
from keylane.keys.cells import region_of
from keylane.keys.times import TimeField
from keylane.matching.sphere import checked_radius
from keylane.numbers import count
from keylane.pipelines.match.own_table import PLAIN_RESOLUTION, plain_lanes, table_command
from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.geo.coordinates import Region
    from keylane.pipelines.match.sources import MatchSource

Assignment: TypeAlias = Literal["greedy", "optimal"]
ASSIGNMENTS: Final = ("greedy", "optimal")
#: Times are whole microseconds.
MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a source are called. `available` is the column of that name, if any, when it is not given.

    `time` may say how it is written (`keys.times.TimeField`). `scale` is how many of its numbers make a degree;
    None: as the contract has it for these columns, otherwise 1.
    """

    id: str = "id"
    time: str = "ts"
    lat: str = "lat"
    lng: str = "lng"
    available: str | None = None
    scale: float | None = None

    @property
    def moment(self) -> TimeField:
        """The column of times, and how it is written."""
        return TimeField.of(self.time)

    @property
    def needed(self) -> tuple[str, ...]:
        """Those that every record has to have."""
        return (self.id, self.moment.name, self.lat, self.lng)


def location_columns(contract: Contract | None) -> dict[str, str]:
    """What the columns of a location are called where nothing was given: the fields of a contract that routes by one.

    >>> location_columns(None)
    {'lat': 'lat', 'lng': 'lng'}
    """
    key = contract.spec.key if contract is not None else None
    lat, lng = key.fields if key is not None and key.is_place else ("lat", "lng")
    return {"lat": lat, "lng": lng}


@dataclass(frozen=True, slots=True)
class Options:
    """How near, how many, how old; and how the sources are read.

    `radius` is in metres, `expire` the age in seconds after which a ping counts no more, `nearest` how many drivers a
    rider gets at most. `assign` gives each driver to one rider at most: over windows of `window` seconds, with offers
    that hold for `offer_for` seconds. `co_partitioned` requires what is otherwise only used where it exists.
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
    kafka: StreamOptions = field(default_factory=lambda: StreamOptions(value="json"))

    def checked(self, *, follow: bool = False) -> Options:
        """The options themselves, when each makes sense; some make none for a match that follows its sources."""
        checked_radius(self.radius)
        if follow and self.verify:
            hint = "match what was followed once more, without --follow"
            raise UsageError.of("--verify is of a batch", got="--follow", hint=hint)
        if follow and self.kafka.read_range is not None:
            what, hint = (
                "a match that follows its sources reads all that arrives",
                "leave out --last, --since, --until,",
            )
            raise UsageError.of(what, hint=f"{hint} --max-records and --partitions")
        for columns in (self.drivers, self.riders):
            if columns.scale is not None:
                checked_scale(columns.scale)
        for name, value in (("expire", self.expire), ("window", self.window), ("offer-for", self.offer_for)):
            if value is not None and not (isfinite(value) and round(value * MICROS) > 0):
                what, allowed = f"--{name} is not a duration", "at least 0.000001 seconds"
                raise UsageError.of(what, got=value, allowed=allowed)
        if self.lanes is not None and not 1 <= self.lanes <= MAX_LANES:
            raise UsageError.of("--lanes is not a lane count", got=self.lanes, allowed=f"1 to {count(MAX_LANES)}")
        if self.nearest is not None and self.nearest < 1:
            raise UsageError.of("--nearest is too small", got=self.nearest, allowed="1 or more")
        if self.assign is not None and self.assign not in ASSIGNMENTS:
            raise UsageError.of("no such assignment", got=self.assign, allowed=", ".join(ASSIGNMENTS))
        return self


def check_following(asked: Mapping[str, Any], *, follow: bool) -> dict[str, Any]:
    """What was given of the options of following; for a batch none of them may be."""
    given = {name: value for name, value in asked.items() if value is not None}
    known = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in given.items()}
    if known and not follow:
        name = next(iter(known)).replace("_", "-")
        raise UsageError.of(f"--{name} is of a match that follows its sources", hint="--follow, or leave it out")
    return known


# What is refused before a match starts: lane counts that differ, and records that another contract has placed.

PLAIN_LANES: Final = 12

#: The contract, the lane count, and notes on them.
Agreed = tuple[Contract, int, list[str]]


def agreed(drivers: MatchSource, riders: MatchSource, contract: Contract | None, given: Options) -> Agreed:
    """The contract and the lane count that both sources keep; otherwise the error names the one that does not."""
    both = (drivers, riders)
    if given.co_partitioned:
        _demand_lanes(both)
    if contract is None:
        return _without_contract(both, given)
    _check_geo(contract)
    lanes = _lane_count(contract, both, given)
    for one in both:
        _check_side(one, contract, lanes)
    return contract, lanes, _notes_on_drivers(drivers, contract, given)


def lie_by_place(one: MatchSource, contract: Contract) -> bool:
    """Whether the lanes of a routed folder are those of the locations that are matched: their columns are its key."""
    key, columns, own = contract.spec.key, one.columns, region_of(contract.spec.geo)
    return key.is_place and key.fields == (columns.lat, columns.lng) and region_for(columns, contract) == own


def region_for(columns: Columns, contract: Contract) -> Region:
    """Where the locations of one side may be, and in which unit they are: the contract's is that of its own columns."""
    region, known = region_of(contract.spec.geo), contract.spec.key.fields == (columns.lat, columns.lng)
    return replace(region, scale=columns.scale or (region.scale if known else 1.0))


def _notes_on_drivers(drivers: MatchSource, contract: Contract, given: Options) -> list[str]:
    """Riders go to the lanes of locations, so drivers in lanes by another key must be routed again."""
    if drivers.fingerprint is None or lie_by_place(drivers, contract):
        return []
    fields, places = (", ".join(names) for names in (contract.spec.key.fields, drivers.columns.needed[2:]))
    if given.co_partitioned:
        what = f"the drivers are in lanes by {fields}, but are matched by {places}"
        hint = f"route them by a key of the fields [{places}] and the encoding place; or --drivers and --riders"
        raise UsageError.of(what, got=str(drivers), allowed="lanes by the location that is matched", hint=hint)
    return [f"the drivers are in lanes by {fields}, but are matched by {places}: they are routed again"]


def plain_contract(lanes: int) -> Contract:
    """The default: the hash of a location's cell of resolution 4."""
    key = Key(fields=("cell",), encoding="h3")
    geo = Geo(resolution=PLAIN_RESOLUTION, leaves=(), checksum=None, region=None)
    spec = Spec(streams=("drivers", "riders"), lanes=lanes, key=key, partitioner="kafka-java", geo=geo)
    metadata = Metadata(name="match-by-cell", epoch=1, owner=None)
    return Contract(apiVersion="keylane/v1", kind="RoutingContract", metadata=metadata, spec=spec)


def _demand_lanes(both: tuple[MatchSource, MatchSource]) -> None:
    for one in both:
        if one.lanes is None:
            raise UsageError.of(
                f"the {one.side} are not in lanes, so nothing is co-partitioned",
                got=str(one),
                allowed="a folder that `keylane route` made, or a topic",
                hint="keylane route CONTRACT --from it --to lanes/; or --drivers and --riders, which route it",
            )


def _without_contract(both: tuple[MatchSource, MatchSource], given: Options) -> Agreed:
    for one in both:
        if one.fingerprint is not None:
            what = f"the {one.side} were routed by the contract {one.contract!r}, which was not given"
            raise UsageError.of(what, got=str(one), hint="--contract FILE")
    known = {one.lanes for one in both if one.lanes is not None}
    if len(known) > 1:
        raise _differ(both)
    known_count = known.pop() if known else None
    if None not in {known_count, given.lanes} and known_count != given.lanes:
        odd = next(one for one in both if one.lanes is not None)
        raise _odd(odd, f"{given.lanes} lanes, as in --lanes")
    lanes = given.lanes or known_count or PLAIN_LANES
    better = f"{table_command(both[0], lanes, given)} makes a contract for this radius"
    return plain_contract(lanes), lanes, [f"{plain_lanes(lanes)}; {better}"]


def _lane_count(contract: Contract, both: tuple[MatchSource, MatchSource], given: Options) -> int:
    promised = contract.spec.lanes
    if promised == "live":
        known = [one.lanes for one in both if one.lanes is not None]
        found = given.lanes or next(iter(known), None)
        if found is None:
            raise LaneCountError.of(
                "the contract takes its lane count from the cluster, and there is no cluster", hint="--lanes N"
            )
        return found
    if given.lanes not in {None, promised}:
        raise LaneCountError.of("the contract has another lane count", got=given.lanes, allowed=str(promised))
    return promised


def _check_geo(contract: Contract) -> None:
    if contract.spec.geo is None:
        what = f"the contract {contract.metadata.name!r} has no `geo` section, so it does not route by location"
        raise UsageError.of(what, allowed="a contract with a `geo` section", hint="keylane geo table makes one")
    if contract.spec.hot_keys:
        what = f"the contract {contract.metadata.name!r} has hot keys, which may leave the lane of their location"
        raise UsageError.of(what, hint="split the heavy cells instead: keylane geo table")


def _check_side(one: MatchSource, contract: Contract, lanes: int) -> None:
    if one.lanes not in {None, lanes}:
        raise _odd(one, f"{lanes} lanes, as in the contract {contract.metadata.name!r}")
    if one.fingerprint not in {None, contract.fingerprint}:
        raise DataError.of(
            f"the {one.side} are not co-partitioned: another contract placed them",
            got=f"{one}: {one.contract}, fingerprint {str(one.fingerprint)[:12]}",
            allowed=f"{contract.metadata.name}, fingerprint {contract.fingerprint[:12]}",
            hint="route them again by this contract, or pass the contract they were routed by",
        )


def _odd(one: MatchSource, allowed: str) -> DataError:
    what = f"the {one.side} are not co-partitioned: their lane count differs"
    return DataError.of(what, got=f"{one}: {one.lanes} lanes", allowed=allowed)


def _differ(both: tuple[MatchSource, MatchSource]) -> DataError:
    got = "; ".join(f"{one.side} {one}: {one.lanes} lanes" for one in both)
    return DataError.of("drivers and riders are not co-partitioned: their lane counts differ", got=got)

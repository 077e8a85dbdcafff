"""Lane count from throughput: peak, readers, headroom and growth, with the skew counted in and limits of the service.

The rule: the fullest lane carries peak * growth * (max/mean) / lanes, and that must not exceed what one lane takes,
or its reader, less the headroom. Calculators that leave max/mean out promise lanes that the hottest key overruns.

Worked example: 96 MB/s at the peak, 10 MB/s for a lane, 30 % headroom: 96 / 7 = 13.7, so 14 lanes, or 16 as a
power of two. With a fullest lane of twice the mean it is 28, or 32; with a key of a tenth of all records, none at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.contract.names import MAX_LANES
from keylane.errors import UnknownNameError, UsageError
from keylane.measure.balance import useful_lanes
from keylane.numbers import count, percent, plural, throughput

if TYPE_CHECKING:
    from collections.abc import Callable

# Limits of brokers and services as of 2026, as data with their names.

Scope: TypeAlias = Literal["lane", "broker", "cluster"]
Counts: TypeAlias = Literal["replicas", "lanes", "brokers", "MB/s in", "MB/s out", "records/s in"]
Kind: TypeAlias = Literal["rule of thumb", "recommended", "maximum"]


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `most` of what it `counts`, in each lane, on each broker or in the cluster."""

    service: str
    name: str
    scope: Scope
    counts: Counts
    most: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """A limit and what the answer would make of it; `would_be` is None when the brokers are not counted."""

    limit: Limit
    would_be: float | None
    broken: bool
    says: str


def _msk(service: str, name: str, recommended: int, maximum: int) -> list[Limit]:
    return [
        Limit(service, f"{name}, recommended", "broker", "replicas", recommended, "recommended"),
        Limit(service, f"{name}, maximum for updates", "broker", "replicas", maximum, "maximum"),
        Limit(service, "Amazon MSK Standard, brokers (KRaft)", "cluster", "brokers", 60, "maximum"),
    ]


LIMITS: Final[tuple[Limit, ...]] = (
    Limit("kafka", "Kafka, partitions per broker", "broker", "replicas", 4_000, "rule of thumb"),
    Limit("kafka", "Kafka, partitions per cluster", "cluster", "replicas", 200_000, "rule of thumb"),
    Limit("kafka", "Cruise Control's default, replicas per broker", "broker", "replicas", 10_000, "rule of thumb"),
    Limit("kafka", "Linux, 65,535 map areas, two a replica", "broker", "replicas", 32_767, "maximum"),
    *_msk("msk-t3.small", "Amazon MSK Standard t3.small", 300, 300),
    *_msk("msk-large", "Amazon MSK Standard .large", 1_000, 1_500),
    *_msk("msk-xlarge", "Amazon MSK Standard .xlarge", 1_000, 1_500),
    *_msk("msk-2xlarge", "Amazon MSK Standard .2xlarge", 2_000, 3_000),
    *_msk("msk-4xlarge", "Amazon MSK Standard .4xlarge and up", 4_000, 6_000),
    Limit("msk-express-m7g.large", "Amazon MSK Express m7g.large, in", "broker", "MB/s in", 15, "maximum"),
    Limit("msk-express-m7g.large", "Amazon MSK Express m7g.large, out", "broker", "MB/s out", 30, "maximum"),
    Limit("confluent-basic", "Confluent Cloud Basic", "cluster", "lanes", 4_096, "maximum"),
    Limit("confluent-standard", "Confluent Cloud Standard", "cluster", "lanes", 4_096, "maximum"),
    Limit("confluent-enterprise", "Confluent Cloud Enterprise", "cluster", "lanes", 30_000, "maximum"),
    Limit("confluent-dedicated", "Confluent Cloud Dedicated", "cluster", "lanes", 100_000, "maximum"),
    Limit("kinesis", "Kinesis shard, in", "lane", "MB/s in", 1, "maximum"),
    Limit("kinesis", "Kinesis shard, records in", "lane", "records/s in", 1_000, "maximum"),
    Limit("kinesis", "Kinesis shard, out", "lane", "MB/s out", 2, "maximum"),
)


def services() -> tuple[str, ...]:
    """The services whose limits are known.

    >>> services()[:3]
    ('kafka', 'msk-t3.small', 'msk-large')
    """
    return tuple(dict.fromkeys(limit.service for limit in LIMITS))


def limits_of(service: str) -> tuple[Limit, ...]:
    """The limits of one service."""
    found = tuple(limit for limit in LIMITS if limit.service == service)
    if not found:
        raise UnknownNameError.among("service", service, services())
    return found


def check(limit: Limit, whole: float, even_lanes: float, brokers: int | None) -> LimitCheck:
    """Hold a limit against what the whole stream brings; `even_lanes` is the lane count over max/mean.

    >>> check(limits_of("msk-large")[0], 4_608, 512, 3).says
    'Amazon MSK Standard .large, recommended: 1536 of 1000 replicas a broker (recommended): too many'
    """
    if limit.scope == "broker" and brokers is None:
        least = ceil(whole / limit.most)
        return LimitCheck(limit, None, broken=False, says=f"{limit.name}: needs {plural(least, 'broker')} or more")
    would_be = whole / {"lane": even_lanes, "broker": brokers or 1, "cluster": 1}[limit.scope]
    broken = would_be > limit.most * (1 + 1e-9)
    text = f"{limit.name}: {would_be:.4g} of {limit.most:g} {limit.counts} a {limit.scope} ({limit.kind})"
    return LimitCheck(limit, would_be, broken, f"{text}{': too many' * broken}")


#: What one lane carries, where it was not measured: an assumption, and reported as one.
LANE_MB_S: Final = 10.0
#: Lane counts that are tried before giving up.
TRIES: Final = 64

Reason: TypeAlias = Literal["writing", "writing-records", "reading", "reading-records", "service-records", "readers"]
Skew: TypeAlias = "Callable[[int], float] | Mapping[int, float]"


@dataclass(frozen=True, slots=True)
class Demand:
    """What the stream has to carry. MB are millions of bytes; rates are of the peak window.

    `peak_mb_s` is None where bytes were not counted. `headroom` 0.3 uses 70 % of a lane. `growth` 2 plans for twice
    the peak. `readers` are wanted side by side.
    `lanes_elsewhere` are the lanes that other streams have on the same brokers.
    """

    peak_mb_s: float | None
    peak_records_s: float | None = None
    lane_mb_s: float = LANE_MB_S
    lane_records_s: float | None = None
    reader_mb_s: float | None = None
    reader_records_s: float | None = None
    headroom: float = 0.3
    growth: float = 1.0
    replication: int = 3
    readers: int = 1
    service: str | None = None
    brokers: int | None = None
    lanes_elsewhere: int = 0

    @property
    def peak(self) -> float:
        """MB/s that come at the peak that is planned for; none where bytes were not counted."""
        return (self.peak_mb_s or 0.0) * self.growth

    def __post_init__(self) -> None:
        """Refuse rates that are zero or negative."""
        rates = (
            "lane_mb_s",
            "lane_records_s",
            "reader_mb_s",
            "reader_records_s",
            "growth",
            "replication",
            "readers",
            "brokers",
        )
        for name in rates:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError.of(f"{name} must be greater than 0", got=value, allowed="above 0")
        for name in ("peak_mb_s", "peak_records_s", "lanes_elsewhere"):
            if (getattr(self, name) or 0) < 0:
                raise UsageError.of(f"{name} must not be negative", got=getattr(self, name), allowed="0 or more")
        if not 0 <= self.headroom < 1:
            raise UsageError.of("headroom is out of range", got=self.headroom, allowed="0 up to, not including, 1")
        for name in ("reader_records_s", "lane_records_s"):
            if getattr(self, name) is not None and self.peak_records_s is None:
                raise UsageError.of(f"{name} needs peak_records_s", hint="give peak_records_s")


@dataclass(frozen=True, slots=True)
class Need:
    """The fewest lanes for one reason; None when no lane count that was tried is enough."""

    reason: Reason
    lanes: int | None
    says: str


@dataclass(frozen=True, slots=True)
class Sizing:
    """The answer. `lanes` is the fewest that do; `suggested` a power of two, so that doublings move the fewest keys.

    `useful_readers` have something to read; `parallelism` is how many times faster than one reader they are together,
    as the fullest lane holds them up.
    """

    needs: tuple[Need, ...]
    binding: Reason
    lanes: int | None
    suggested: int | None
    max_over_mean: float | None
    fullest_lane_mb_s: float | None
    useful_lanes: int | None
    useful_readers: int | None
    parallelism: float | None
    limits: tuple[LimitCheck, ...]
    assumptions: tuple[str, ...]
    says: str

    @property
    def broken(self) -> tuple[LimitCheck, ...]:
        """The limits that the answer would break."""
        return tuple(check for check in self.limits if check.broken)


def lanes_for(
    demand: Demand,
    max_over_mean_of: Skew,
    *,
    hottest_share: float | None = None,
    loaded_of: Callable[[int], int] | Mapping[int, int] | None = None,
) -> Sizing:
    """Size a stream. `max_over_mean_of` gives the skew at a lane count, or lists it for the counts to choose from.

    With a function, counts are tried upwards, each at least what the skew of the one before asks for. `loaded_of` gives
    how many lanes get anything. A key of `hottest_share` that alone overruns a lane ends the search at once.

    >>> lanes_for(Demand(96), lambda lanes: 1.0).suggested, lanes_for(Demand(96), lambda lanes: 2.0).suggested
    (16, 32)
    """
    skew = max_over_mean_of if isinstance(max_over_mean_of, Mapping) else cache(max_over_mean_of)
    wants = _wants(demand)
    needs = tuple(_need(want, skew, hottest_share) for want in wants)
    binding = next((need for need in needs if need.lanes is None), None) or max(needs, key=_lanes_of_need)
    # The counts of each reason alone may not do for all: skew need not fall with every lane.
    lanes = None if binding.lanes is None else _fewest(binding.lanes, wants, skew)
    return _sizing(demand, needs, binding, lanes, _suggested(lanes, wants, skew), skew, hottest_share, loaded_of)


def carried(demand: Demand, lanes: int, over: float) -> bool:
    """Whether this many lanes, the fullest with `over` times the mean, are enough.

    >>> carried(Demand(96), 16, 1.0), carried(Demand(96), 16, 2.0)
    (True, False)
    """
    return _asked(lanes, _wants(demand), {lanes: over}) <= lanes


def carried_text(demand: Demand, lanes: int, over: float) -> str:
    """What decides whether that many lanes are enough, with the figures of the fullest one.

    >>> carried_text(Demand(96), 16, 1.0), carried_text(Demand(None, readers=20), 24, 1.2)
    ('the fullest gets 6 of the 7 MB/s that it may take', '20 parallel readers, a lane each')
    """
    tightest = max(_wants(demand), key=lambda want: want.lanes(over))
    if tightest.reason == "readers":
        return f"{plural(demand.readers, 'parallel reader')}, a lane each"
    grown = "" if demand.growth == 1 else f", at {demand.growth:g} times the peak"
    comes = tightest.peak * over / lanes
    return f"the fullest gets {comes:.4g} of the {tightest.carries:.4g} {tightest.unit} that it may take{grown}"


def _lanes_of_need(need: Need) -> int:
    return need.lanes or 0


@dataclass(frozen=True, slots=True)
class _Want:
    """What comes at the peak, and what one lane may carry of it."""

    reason: Reason
    peak: float
    carries: float
    unit: str

    def lanes(self, over: float) -> float:
        """How many lanes it asks for when the fullest has `over` times the mean."""
        return self.peak / self.carries * (1.0 if self.reason == "readers" else over)


def _wants(demand: Demand) -> list[_Want]:
    """Every reason to have lanes."""
    used, grown = 1 - demand.headroom, demand.growth
    peak, records = demand.peak, (demand.peak_records_s or 0) * grown
    out = []
    if demand.peak_mb_s is not None:
        out.append(_Want("writing", peak, _least(demand, "MB/s in", demand.lane_mb_s) * used, "MB/s"))
    if demand.lane_records_s is not None:
        out.append(_Want("writing-records", records, demand.lane_records_s * used, "records/s"))
    if (reader := _least(demand, "MB/s out", demand.reader_mb_s)) < float("inf"):
        out.append(_Want("reading", peak, reader * used, "MB/s"))
    if demand.reader_records_s is not None:
        out.append(_Want("reading-records", records, demand.reader_records_s * used, "records/s"))
    if records and (shard := _least(demand, "records/s in", None)) < float("inf"):
        out.append(_Want("service-records", records, shard * used, "records/s"))
    return [*out, _Want("readers", float(demand.readers), 1.0, "readers")]


def _least(demand: Demand, counts: str, own: float | None) -> float:
    """What a lane takes: what was measured or assumed, and no more than the service lets it."""
    limits = limits_of(demand.service) if demand.service else ()
    stated = [limit.most for limit in limits if limit.scope == "lane" and limit.counts == counts]
    return min([*stated, own if own is not None else float("inf")])


def _need(want: _Want, skew: Skew, hottest: float | None) -> Need:
    peak, carries, unit = want.peak, want.carries, want.unit
    if want.reason != "readers" and hottest is not None and peak * hottest > carries:
        text = f"the hottest key alone brings {peak * hottest:.4g} {unit} to its lane, which may carry {carries:.4g}"
        return Need(want.reason, None, f"{text}: no lane count is enough; spread that key, or give it a tier")
    found = _fewest(1, [want], skew)
    if found is None:
        return Need(want.reason, None, f"no lane count that was tried keeps every lane at {carries:.4g} {unit}")
    if want.reason == "readers":
        return Need(want.reason, found, f"one lane for each parallel reader: {count(round(peak))}")
    fullest = peak * _at(skew, found) / found
    return Need(want.reason, found, f"the fullest of {found} lanes carries {fullest:.4g} of {carries:.4g} {unit}")


def _at(skew: Skew, lanes: int) -> float:
    return max(1.0, skew[lanes] if isinstance(skew, Mapping) else skew(lanes))


def _asked(lanes: int, wants: list[_Want], skew: Skew) -> int:
    """How many lanes the skew at this count asks for; whole, and not one more for a rounding."""
    over = _at(skew, lanes)
    return max(1, *(ceil(round(want.lanes(over), 9)) for want in wants))


def _fewest(lanes: int, wants: list[_Want], skew: Skew) -> int | None:
    """The first lane count, going up, that is as many as its own skew asks for."""
    if isinstance(skew, Mapping):
        return next((count for count in sorted(skew) if count >= lanes and _asked(count, wants, skew) <= count), None)
    lanes = max([lanes, *(ceil(round(want.lanes(1.0), 9)) for want in wants)])
    for _ in range(TRIES):
        if lanes > MAX_LANES:
            break
        asked = _asked(lanes, wants, skew)
        if asked <= lanes:
            return lanes
        lanes = asked
    return None


def _suggested(least: int | None, wants: list[_Want], skew: Skew) -> int | None:
    """The first power of two that does for every reason; the fewest itself when none is at hand."""
    if least is None:
        return None
    powers = [1 << power for power in range(MAX_LANES.bit_length()) if least <= 1 << power <= MAX_LANES]
    known = [lanes for lanes in powers if lanes in skew] if isinstance(skew, Mapping) else powers
    return next((lanes for lanes in known if _asked(lanes, wants, skew) <= lanes), least)


def _sizing(
    demand: Demand,
    needs: tuple[Need, ...],
    binding: Need,
    lanes: int | None,
    suggested: int | None,
    skew: Skew,
    hottest: float | None,
    loaded_of: Callable[[int], int] | Mapping[int, int] | None,
) -> Sizing:
    over = None if suggested is None else _at(skew, suggested)
    return Sizing(
        needs,
        binding.reason,
        lanes,
        suggested,
        over,
        None if not suggested or over is None or demand.peak_mb_s is None else demand.peak * over / suggested,
        None if hottest is None else useful_lanes(hottest),
        None if suggested is None else min(suggested, _loaded(loaded_of, suggested)),
        None if not suggested or over is None else suggested / over,
        () if suggested is None else _checks(demand, suggested, over or 1.0),
        _assumptions(demand),
        _says(binding, lanes, suggested),
    )


def _loaded(loaded_of: Callable[[int], int] | Mapping[int, int] | None, lanes: int) -> int:
    if loaded_of is None:
        return lanes
    return loaded_of[lanes] if isinstance(loaded_of, Mapping) else loaded_of(lanes)


def _says(binding: Need, lanes: int | None, suggested: int | None) -> str:
    if lanes is None:
        return f"No lane count is enough, and {binding.reason} decides: {binding.says}."
    return f"{plural(lanes, 'lane')} needed, and {binding.reason} decides: {binding.says}; suggested: {suggested}."


def _assumptions(demand: Demand) -> tuple[str, ...]:
    assumed = demand.peak_mb_s is not None and _least(demand, "MB/s in", demand.lane_mb_s) == LANE_MB_S
    lane = f"one lane carries {throughput(LANE_MB_S)}; measure it on your brokers" if assumed else ""
    used = f"a lane is used up to {percent(1 - demand.headroom, 0)}, for {demand.growth:g} times the peak"
    return tuple(text for text in (lane, used) if text)


def _checks(demand: Demand, lanes: int, over: float) -> tuple[LimitCheck, ...]:
    """Hold what the stream brings, with its neighbours, against the limits of the service that was named."""
    peak, all_lanes = demand.peak, lanes + demand.lanes_elsewhere
    whole: dict[Counts, float] = {
        "replicas": all_lanes * demand.replication,
        "lanes": all_lanes,
        "brokers": demand.brokers or 0,
        "MB/s in": peak,
        "MB/s out": peak,
        "records/s in": (demand.peak_records_s or 0) * demand.growth,
    }
    limits = limits_of(demand.service) if demand.service else ()
    return tuple(check(limit, whole[limit.counts], lanes / over, demand.brokers) for limit in limits)

"""`demo lesson`: H3 cells as Kafka keys on a real broker with two hashes; each figure beside what is expected of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import floor
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keylane import __version__
from keylane.batch_router import decide
from keylane.contract.parse import parse_contract
from keylane.documents.lesson import LessonCell, LessonCheck, LessonDocument, LessonLanes, LessonProducer, LessonTrial
from keylane.errors import CountError
from keylane.geo.bits import cell_name
from keylane.geo.cells import cell_of
from keylane.measure.balance import cv, least_cv, max_over_mean, noise_floor
from keylane.numbers import count, percent
from keylane.router import Router
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.load import following, send

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.load import MeasuredGroup, Row, Sent


class Centre(NamedTuple):
    """The middle of a city, in degrees."""

    name: str
    latitude: float
    longitude: float


CENTRES: Final = (
    Centre("San Francisco", 37.7749, -122.4194),
    Centre("Los Angeles", 34.0522, -118.2437),
    Centre("New York", 40.7128, -74.0060),
    Centre("Chicago", 41.8781, -87.6298),
    Centre("Houston", 29.7604, -95.3698),
    Centre("Phoenix", 33.4484, -112.0740),
)
RESOLUTION: Final = 3
KM_OF_A_DEGREE: Final = 111.2
#: How far a driver comes from one update to the next, as the deviation in each direction.
STEP_KM: Final = 0.1


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many drivers, how often each reports, and how far from the middle of the city they go."""

    drivers: int = 100
    updates: int = 60
    radius_km: float = 2.0


def updates(rng: np.random.Generator, traffic: Traffic) -> pa.Table:
    """Every update in the order of time: each driver's first, then each driver's second, and so on."""
    city = np.arange(traffic.drivers) % len(CENTRES)
    walks = _walks(rng, traffic)
    middle = np.array([(centre.latitude, centre.longitude) for centre in CENTRES])[city]
    # A degree of longitude is shorter the farther from the equator.
    degrees = walks / KM_OF_A_DEGREE / np.stack([np.ones(len(city)), np.cos(np.radians(middle[:, 0]))], axis=1)
    places = (middle + degrees).reshape(-1, 2)
    return pa.table(
        {
            "driver": np.tile([f"driver-{number:03}" for number in range(traffic.drivers)], traffic.updates),
            "city": np.tile([CENTRES[one].name for one in city], traffic.updates),
            "update": np.repeat(np.arange(traffic.updates), traffic.drivers),
            "latitude": places[:, 0],
            "longitude": places[:, 1],
            "cell": pa.array([cell_of(north, east, RESOLUTION) for north, east in places.tolist()], pa.int64()),
        }
    )


def _walks(rng: np.random.Generator, traffic: Traffic) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """North and east of the middle in km, by update and driver: begun anywhere in the disc, and kept in it."""
    turn, out = rng.uniform(0, 2 * np.pi, traffic.drivers), np.sqrt(rng.uniform(0, 1, traffic.drivers))
    at = traffic.radius_km * out[:, None] * np.stack([np.sin(turn), np.cos(turn)], axis=1)
    walks = []
    for _ in range(traffic.updates):
        walks.append(at)
        at = at + rng.normal(0, STEP_KM, at.shape)
        away = np.hypot(at[:, 0], at[:, 1])
        at = at * np.minimum(1, traffic.radius_km / np.maximum(away, 1e-9))[:, None]
    return np.array(walks)


# What was counted -> each figure beside what the lesson asks of it, kept or broken; and why CV < 5% is impossible.

#: What the lesson asks: all of CV, errors and lag below, batches above.
MOST_CV: Final = 0.05
MOST_ERRORS: Final = 0.0
LEAST_BATCH: Final = 16_384
MOST_LAG: Final = 500


@dataclass(frozen=True, slots=True)
class LessonRule:
    """One of the two: its name here, the contract's name of it, and as one would write it."""

    name: Literal["formula", "murmur2"]
    partitioner: Literal["abs-long-hashcode", "kafka-java"]
    formula: str


def trial(rule: LessonRule, sent: Sent, group: MeasuredGroup) -> LessonTrial:
    """The figures of one rule."""
    records, failed = sent.delivered + sent.failed, sent.failed
    complete = bool(sent.batches) and sent.batch_records >= sent.delivered
    batch = sent.batch_bytes / sent.batches if complete else None
    spread, errors = cv(group.read), failed / records if records else 0.0
    lag, end = int(group.peak.max()), int(group.end.max())
    return LessonTrial(
        name=rule.name,
        partitioner=rule.partitioner,
        formula=rule.formula,
        topic=sent.topic,
        active_lanes=int(np.count_nonzero(group.read)),
        cv=spread,
        max_over_mean=max_over_mean(group.read),
        fullest_lane=int(group.read.argmax()),
        sent=records,
        failed=failed,
        first_error=sent.first_error,
        error_rate=errors,
        seconds=sent.seconds,
        batches=sent.batches,
        mean_batch_bytes=batch,
        mean_batch_records=sent.batch_records / sent.batches if complete else None,
        read=int(group.read.sum()),
        peak_lag=lag,
        peak_lag_lane=int(group.peak.argmax()),
        end_lag=end,
        lag_samples=group.samples,
        per_lane=group.read.tolist(),
        checks=checks(spread, errors, batch, lag, end),
    )


def checks(spread: float, errors: float, batch: float | None, lag: int, end: int) -> list[LessonCheck]:
    """Each figure compared with the lesson's threshold."""
    return [
        LessonCheck(measure="cv", asked="< 5%", got=spread, kept=spread < MOST_CV),
        LessonCheck(measure="error_rate", asked="0", got=errors, kept=errors <= MOST_ERRORS),
        LessonCheck(
            measure="mean_batch_bytes", asked="> 16 KiB", got=batch, kept=batch is not None and batch > LEAST_BATCH
        ),
        LessonCheck(measure="peak_lag", asked="< 500", got=lag, kept=lag < MOST_LAG),
        LessonCheck(measure="end_lag", asked="< 500", got=end, kept=end < MOST_LAG),
    ]


def why(keys: Sequence[int], lanes: int) -> str:
    """In one line, why CV < 5% is impossible with these keys on that many lanes; or that it is possible."""
    least, cells = least_cv(keys, lanes), len(keys)
    if least < MOST_CV:
        return (
            f"The sizes of the {cells} cells do not rule out CV < 5% on {lanes} lanes; but a hash does not look at "
            "sizes, so that would be luck."
        )
    heaviest = max(keys) * lanes / sum(keys)
    reason = (
        f"{cells} cells fill at most {cells} of {lanes} lanes"
        if cells < lanes
        else f"the lane of the heaviest cell holds at least {heaviest:.1f} times the mean"
    )
    return (
        f"No hash can keep CV < 5% here: a cell is one key and a key has one lane, so {reason}, "
        f"and CV is at least {percent(least, 0)}."
    )


def records_for_cv(lanes: int) -> int:
    """How many records it takes until chance alone leaves CV below the threshold."""
    return floor((lanes - 1) / MOST_CV**2 + 1e-9) + 1


# The lesson's steps in a row: for each rule a topic, a group that reads along, a producer, and what the broker holds.

RULES: Final = (
    LessonRule("formula", "abs-long-hashcode", "abs(Long.hashCode(cell)) % lanes"),
    LessonRule("murmur2", "kafka-java", "murmur2(8 big-endian bytes of the cell) & 0x7fffffff, % lanes"),
)
CONTRACT: Final = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: lesson-{name}}}
spec:
  streams: [{topic}]
  lanes: {lanes}
  key: {{fields: [cell], encoding: h3}}
  partitioner: {partitioner}
"""


@dataclass(frozen=True, slots=True)
class LessonSettings:
    """What may be chosen. `mark` makes the names of topics and groups unique."""

    mark: str
    seed: int = 2026
    lanes: int = 60
    traffic: Traffic = field(default_factory=Traffic)
    producer: LessonProducer = field(default_factory=LessonProducer)


def run_lesson(
    access: KafkaAccess, settings: LessonSettings, say: Callable[[str], None], *, own: bool
) -> LessonDocument:
    """Run every step against this cluster; `own` is whether it was started for this."""
    table = updates(np.random.default_rng(settings.seed), settings.traffic)
    # One goes before the two, so that neither has a broker that has done nothing yet.
    warm_up = Router(parse_contract(_contract("warm-up", "kafka-java", settings)))
    routers = [Router(parse_contract(contract_text(rule, settings))) for rule in RULES]
    _sent(access, settings.producer.model_copy(update={"every": 0.0}), warm_up, table)
    trials = [_tried(access, settings, rule, router, table, say) for rule, router in zip(RULES, routers, strict=True)]
    cells = _cells(table, routers)
    keys = [cell.records for cell in cells]
    return LessonDocument(
        version=__version__,
        seed=settings.seed,
        drivers=settings.traffic.drivers,
        updates=settings.traffic.updates,
        radius_km=settings.traffic.radius_km,
        records=len(table),
        lanes=settings.lanes,
        resolution=RESOLUTION,
        broker=access.brokers,
        own_broker=own,
        producer=settings.producer,
        kept=all(check.kept for trial in trials for check in trial.checks),
        why=why(keys, settings.lanes),
        least_cv=least_cv(keys, settings.lanes),
        noise_floor=noise_floor(settings.lanes, len(table)),
        records_for_cv=records_for_cv(settings.lanes),
        cells=cells,
        trials=trials,
    )


def write(to: Path, settings: LessonSettings) -> None:
    """The updates as Parquet and the contracts as YAML, for `keylane check` and `keylane route`."""
    pq.write_table(updates(np.random.default_rng(settings.seed), settings.traffic), to / "updates.parquet")
    (to / "contracts").mkdir(exist_ok=True)
    for rule in RULES:
        (to / "contracts" / f"{rule.name}.yaml").write_text(contract_text(rule, settings), encoding="utf-8")


def contract_text(rule: LessonRule, settings: LessonSettings) -> str:
    """A rule as a contract: the same key, the same lanes, another partitioner."""
    return _contract(rule.name, rule.partitioner, settings)


def _contract(name: str, partitioner: str, settings: LessonSettings) -> str:
    topic = f"keylane-lesson-{name}-{settings.mark}"
    return CONTRACT.format(name=name, topic=topic, lanes=settings.lanes, partitioner=partitioner)


def lane_counts(router: Router, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many records the contract puts on each lane: what the broker must hold."""
    (batch,) = table.combine_chunks().to_batches()
    return np.bincount(decide(router, batch).lane, minlength=router.lane_count)


def _tried(
    access: KafkaAccess,
    settings: LessonSettings,
    rule: LessonRule,
    router: Router,
    table: pa.Table,
    say: Callable[[str], None],
) -> LessonTrial:
    sent, read = _sent(access, settings.producer, router, table)
    say(f"{rule.name}: {count(sent.delivered)} records sent in {sent.seconds:.2f} s, and read by a group")
    _check(router, table, sent, read)
    return trial(rule, sent, read)


def _sent(access: KafkaAccess, producer: LessonProducer, router: Router, table: pa.Table) -> tuple[Sent, MeasuredGroup]:
    """Fill a topic while a group reads it, and take both away again."""
    topic, group, lanes = router.stream, f"{router.stream}-readers", router.lane_count
    with open_cluster(access) as cluster:
        cluster.create(topic, lanes)
        try:
            with following(access, topic, lanes, group) as read:
                sent = send(access, router, _rounds(table), producer.every, **_told(producer))
                read.wait_for(sent.delivered)
        finally:
            cluster.remove([topic], [group])
    return sent, read


def _told(producer: LessonProducer) -> dict[str, object]:
    """The settings as librdkafka spells them."""
    return {
        "linger.ms": producer.linger_ms,
        "batch.size": producer.batch_size,
        "compression.type": producer.compression,
        "acks": producer.acks,
    }


def _rounds(table: pa.Table) -> list[Sequence[Row]]:
    """What each driver reports, one round for each update: the record that is routed, and the value that is sent."""
    rounds: dict[int, list[Row]] = {}
    for row in table.to_pylist():
        value = json.dumps({**row, "cell": cell_name(row["cell"])}).encode()
        rounds.setdefault(row["update"], []).append(({"cell": row["cell"]}, value))
    return list(rounds.values())


def _check(router: Router, table: pa.Table, sent: Sent, read: MeasuredGroup) -> None:
    """Every record is in its lane by the contract; otherwise the figures measure something else."""
    wanted = lane_counts(router, table)
    if sent.failed == 0 and not np.array_equal(wanted, read.read):
        lane = int(np.flatnonzero(wanted != read.read)[0])
        got = f"lane {lane} holds {count(read.read[lane])}"
        raise CountError.of("the broker does not hold what was placed", got=got, allowed=f"{count(wanted[lane])}")


def _cells(table: pa.Table, routers: Sequence[Router]) -> list[LessonCell]:
    """Each cell with its cities, its records and its lanes; the heaviest first."""
    grouped = table.group_by("cell").aggregate([("city", "distinct"), ("cell", "count")]).to_pylist()
    grouped.sort(key=lambda row: (-row["cell_count"], row["cell"]))
    return [
        LessonCell(
            cell=cell_name(row["cell"]),
            cities=sorted(row["city_distinct"]),
            records=row["cell_count"],
            lanes=LessonLanes.model_validate(
                {rule.name: int(router.lane(row) or 0) for rule, router in zip(RULES, routers, strict=True)}
            ),
        )
        for row in grouped
    ]

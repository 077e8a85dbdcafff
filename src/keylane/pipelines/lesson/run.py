"""The lesson's steps in a row: for each rule a topic, a group that reads along, a producer, and what the broker holds.

The two topics are filled one after the other, so that neither run slows the other. Topics and groups have names that
nobody else has, and are gone afterwards. What is measured, and how: `keylane.systems.kafka_measured`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keylane import __version__
from keylane.batches import decide
from keylane.contract.parse import parse_contract
from keylane.errors import CountError
from keylane.geo.cells import cell_name
from keylane.measure.balance import least_cv, noise_floor
from keylane.pipelines.lesson import figures
from keylane.pipelines.lesson.drivers import RESOLUTION, Traffic, updates
from keylane.pipelines.lesson.figures import Cell, Lesson, Producer, Rule, Trial
from keylane.router import Router
from keylane.systems.kafka_cluster import open_cluster
from keylane.systems.kafka_measured import following, send

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from keylane.systems.kafka_access import KafkaAccess
    from keylane.systems.kafka_measured import Following, Row, Sent

__all__ = ["RULES", "Settings", "contract_text", "lane_counts", "run_lesson", "write"]

#: What goes before the two, so that neither has a broker that has done nothing yet.
WARM_UP: Final = Rule("warm-up", "kafka-java", "")
RULES: Final = (
    Rule("formula", "abs-long-hashcode", "abs(Long.hashCode(cell)) % lanes"),
    Rule("murmur2", "kafka-java", "murmur2(8 big-endian bytes of the cell) & 0x7fffffff, % lanes"),
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
class Settings:
    """What may be chosen. `mark` makes the names of topics and groups nobody else's."""

    mark: str
    seed: int = 2026
    lanes: int = 60
    traffic: Traffic = field(default_factory=Traffic)
    producer: Producer = field(default_factory=Producer)


def run_lesson(access: KafkaAccess, settings: Settings, say: Callable[[str], None], *, own: bool) -> Lesson:
    """Run every step against this cluster; `own` is whether it was started for this."""
    table = updates(np.random.default_rng(settings.seed), settings.traffic)
    warm_up, *routers = (Router(parse_contract(contract_text(rule, settings))) for rule in (WARM_UP, *RULES))
    _sent(access, replace(settings.producer, every=0.0), warm_up, table)
    trials = [_tried(access, settings, rule, router, table, say) for rule, router in zip(RULES, routers, strict=True)]
    cells = _cells(table, routers)
    keys = [cell.records for cell in cells]
    return Lesson(
        schema=figures.SCHEMA,
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
        why=figures.why(keys, settings.lanes),
        least_cv=least_cv(keys, settings.lanes),
        noise_floor=noise_floor(settings.lanes, len(table)),
        records_for_cv=figures.records_for_cv(settings.lanes),
        cells=cells,
        trials=trials,
    )


def write(to: Path, settings: Settings) -> None:
    """The updates as Parquet and the contracts as YAML, for `keylane check` and `keylane route`."""
    pq.write_table(updates(np.random.default_rng(settings.seed), settings.traffic), to / "updates.parquet")
    (to / "contracts").mkdir(exist_ok=True)
    for rule in RULES:
        (to / "contracts" / f"{rule.name}.yaml").write_text(contract_text(rule, settings), encoding="utf-8")


def contract_text(rule: Rule, settings: Settings) -> str:
    """A rule as a contract: the same key, the same lanes, another partitioner."""
    topic = f"keylane-lesson-{rule.name}-{settings.mark}"
    return CONTRACT.format(name=rule.name, topic=topic, lanes=settings.lanes, partitioner=rule.partitioner)


def lane_counts(router: Router, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many records the contract puts on each lane: what the broker must hold."""
    (batch,) = table.combine_chunks().to_batches()
    return np.bincount(decide(router, batch).lane, minlength=router.lane_count)


def _tried(
    access: KafkaAccess, settings: Settings, rule: Rule, router: Router, table: pa.Table, say: Callable[[str], None]
) -> Trial:
    sent, read = _sent(access, settings.producer, router, table)
    say(f"{rule.name}: {sent.delivered:,} records sent in {sent.seconds:.2f} s, and read by a group")
    _check(router, table, sent, read)
    return figures.trial(rule, sent, read)


def _sent(access: KafkaAccess, producer: Producer, router: Router, table: pa.Table) -> tuple[Sent, Following]:
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


def _told(producer: Producer) -> dict[str, object]:
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


def _check(router: Router, table: pa.Table, sent: Sent, read: Following) -> None:
    """Every record is where the contract says, or the figures are of something else."""
    wanted = lane_counts(router, table)
    if sent.failed == 0 and not np.array_equal(wanted, read.read):
        lane = int(np.flatnonzero(wanted != read.read)[0])
        got = f"lane {lane} holds {read.read[lane]:,}"
        raise CountError.of("the broker does not hold what was placed", got=got, allowed=f"{wanted[lane]:,}")


def _cells(table: pa.Table, routers: Sequence[Router]) -> list[Cell]:
    """Each cell with its cities, its records and its lanes; the heaviest first."""
    grouped = table.group_by("cell").aggregate([("city", "distinct"), ("cell", "count")]).to_pylist()
    grouped.sort(key=lambda row: (-row["cell_count"], row["cell"]))
    return [
        Cell(
            cell_name(row["cell"]),
            sorted(row["city_distinct"]),
            row["cell_count"],
            {rule.name: int(router.lane(row) or 0) for rule, router in zip(RULES, routers, strict=True)},
        )
        for row in grouped
    ]

"""`demo migrate`: a topic grows under load on a real broker, first as anybody can do it, then by a migration.

Without the gate: ordinary producers and an ordinary reader, and an admin call that adds lanes. With it: `migrate plan`
and `run`, producers that stop at the fence, a reader that keeps to the gate, and the certificate of `migrate verify`.
What is counted is the order in which records were applied. The clients: `systems.kafka.growing`.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from keylane import __version__
from keylane.contract.parse import parse_contract
from keylane.documents.demo_migrate import DemoMigrateDocument, GrowthKey, GrowthPoint, GrowthTrial
from keylane.numbers import count
from keylane.pipelines.changes import JOURNAL_ENDING
from keylane.pipelines.migrate import plan_migrate
from keylane.pipelines.migrate_run import run_migrate
from keylane.pipelines.migrate_verify import verify_migrate
from keylane.router import Router
from keylane.systems.endpoint import StreamOptions
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.growing import LiveTopic
from keylane.systems.kafka.migration import TopicMigrator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.growing import AppliedRecord

PRODUCERS: Final = ("p0", "p1")
GROUP: Final = "readers"
PLAN: Final = "plan.json"
#: Keys whose records are drawn.
SHOWN: Final = 4
CONTRACT: Final = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: demo-migrate, epoch: {epoch}}}
spec: {{streams: [{topic}], lanes: {lanes}, key: {{fields: [k]}}, partitioner: kafka-java}}
"""


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """What may be chosen. `mark` makes the names of topics and groups unique; times are in seconds."""

    mark: str
    old: int = 12
    new: int = 18
    keys: int = 60
    per_second: float = 300.0
    seconds: float = 6.0
    slow_lane: int = 0
    slow_seconds: float = 2.0

    @property
    def records(self) -> int:
        """Of each producer."""
        return round(self.per_second * self.seconds)

    @property
    def names(self) -> list[str]:
        """Every key."""
        return [f"{producer}-{number:03}" for producer in PRODUCERS for number in range(self.keys)]


def broken_orders(applied: Sequence[AppliedRecord]) -> Iterator[bool]:
    """Of each record in the order of application, whether a newer one of its key was applied before it.

    >>> from keylane.systems.kafka.growing import AppliedRecord as Applied
    >>> list(broken_orders([Applied(0, "a", 0, 0), Applied(1, "a", 2, 6), Applied(2, "a", 1, 0)]))
    [False, False, True]
    """
    newest: dict[str, int] = {}
    for one in applied:
        yield newest.get(one.key, -1) > one.number
        newest[one.key] = max(newest.get(one.key, -1), one.number)


def run_growth(
    access: KafkaAccess, folder: Path, settings: GrowthSettings, say: Callable[[str], None], *, own: bool
) -> DemoMigrateDocument:
    """Both runs on this cluster; contracts, plan and journal of the second stay in the folder.

    A journal is of one migration: one that an earlier run left in the folder goes first.
    """
    shutil.rmtree(folder / f"{PLAN}{JOURNAL_ENDING}", ignore_errors=True)
    trials = [_ungated(access, settings, say), _gated(access, folder, settings, say)]
    moved = moved_keys(settings)
    return DemoMigrateDocument(
        version=__version__,
        broker=access.brokers,
        own_broker=own,
        old_lanes=settings.old,
        new_lanes=settings.new,
        producers=len(PRODUCERS),
        keys=len(settings.names),
        moved_keys=len(moved),
        moved_share=len(moved) / len(settings.names),
        slow_lane=settings.slow_lane,
        slow_seconds=settings.slow_seconds,
        trials=trials,
    )


def moved_keys(settings: GrowthSettings) -> list[str]:
    """Keys that the growth gives another lane."""
    return [key for key, (was, now) in _lanes(settings).items() if was != now]


def _lanes(settings: GrowthSettings) -> dict[str, tuple[int, int]]:
    """The old and the new lane of every key."""
    old, new = (Router(parse_contract(_contract(settings, "t", epoch))) for epoch in (1, 2))
    return {key: (_lane(old, key), _lane(new, key)) for key in settings.names}


def _lane(router: Router, key: str) -> int:
    lane = router.lane_of_key(key.encode())
    assert lane is not None, "a key that is there has a lane"
    return lane


def _contract(settings: GrowthSettings, topic: str, epoch: int) -> str:
    return CONTRACT.format(topic=topic, epoch=epoch, lanes=settings.old if epoch == 1 else settings.new)


def _live(access: KafkaAccess, settings: GrowthSettings, name: str) -> LiveTopic:
    topic = f"keylane-migrate-{name}-{settings.mark}"
    return LiveTopic(
        access,
        topic,
        f"{topic}-{GROUP}",
        PRODUCERS,
        settings.keys,
        settings.records,
        settings.per_second,
        settings.slow_lane,
    )


def _ungated(access: KafkaAccess, settings: GrowthSettings, say: Callable[[str], None]) -> GrowthTrial:
    live = _live(access, settings, "ungated")
    with open_cluster(access) as cluster:
        cluster.create(live.topic, settings.old)
        try:
            live.begin()
            time.sleep(settings.seconds / 3)
            TopicMigrator(cluster, live.topic).grow(settings.new)
            grown = live.now()
            time.sleep(settings.slow_seconds)
            live.slow_over.set()
            slow_until = live.now()
            live.end()
        finally:
            live.stop()
            cluster.remove([live.topic], [live.group])
    found = growth_trial("ungated", live.applied, settings, (grown, slow_until))
    say(f"without the gate: {count(found.broken)} of {count(found.applied)} records were applied out of order")
    return found


def _gated(access: KafkaAccess, folder: Path, settings: GrowthSettings, say: Callable[[str], None]) -> GrowthTrial:
    live = _live(access, settings, "gated")
    files = [folder / f"{name}.yaml" for name in ("old", "new")]
    for epoch, file in enumerate(files, 1):
        file.write_text(_contract(settings, live.topic, epoch), encoding="utf-8")
    plan = folder / PLAN
    routers = Router(files[0]), Router(files[1])
    with open_cluster(access) as cluster:
        cluster.create(live.topic, settings.old)
        try:
            address, options = f"kafka://{access.brokers}/{live.topic}", StreamOptions(access.properties)
            planned = plan_migrate(
                *map(str, files), source=address, producers=PRODUCERS, groups=[live.group], options=options
            )
            plan.write_text(json.dumps(planned.as_json()), encoding="utf-8")
            live.begin(routers, f"{plan}{JOURNAL_ENDING}")
            time.sleep(settings.seconds / 3)
            # Up to where producers go on under the new contract; what is left of it waits for the slow lane.
            opened = run_migrate(plan, most=5, options=options)
            grown = live.since_began(next(one.at for one in opened.entries if one.phase == "open"))
            # As long as in the other run: part of it has passed since that entry was appended.
            time.sleep(max(0.0, grown + settings.slow_seconds - live.now()))
            live.slow_over.set()
            slow_until = live.now()
            status = run_migrate(plan, options=options)
            live.end()
            certificate = verify_migrate(plan, options=options)
        finally:
            live.stop()
            cluster.remove([live.topic], [live.group])
    pause = max(live.pauses.values(), default=status.pause_seconds)
    found = growth_trial("gated", live.applied, settings, (grown, slow_until)).model_copy(
        update={"pause_seconds": pause, "verdict": certificate.verdict, "violations": certificate.violations}
    )
    say(f"with the gate: {count(found.broken)} of {count(found.applied)} out of order; {certificate.verdict}")
    return found


def growth_trial(
    name: str, applied: Sequence[AppliedRecord], settings: GrowthSettings, times: tuple[float, float]
) -> GrowthTrial:
    """The figures of a run, by what was applied."""
    broken = list(broken_orders(applied))
    return GrowthTrial.model_validate(
        {
            "name": name,
            "records": settings.records * len(PRODUCERS),
            "applied": len(applied),
            "broken": sum(broken),
            "broken_keys": len({one.key for one, is_broken in zip(applied, broken, strict=True) if is_broken}),
            "seconds": max((one.at for one in applied), default=0.0),
            "grown_at": times[0],
            "slow_until": times[1],
            "pause_seconds": None,
            "verdict": None,
            "violations": None,
            "timeline": _timeline(applied, broken, settings),
        }
    )


def _timeline(applied: Sequence[AppliedRecord], broken: Sequence[bool], settings: GrowthSettings) -> list[GrowthKey]:
    """Keys that leave the slow lane, with every record."""
    lanes = _lanes(settings)
    leaving = [key for key, (was, now) in lanes.items() if was == settings.slow_lane != now][:SHOWN]
    return [
        GrowthKey(
            key=key,
            old_lane=lanes[key][0],
            new_lane=lanes[key][1],
            points=[
                GrowthPoint(at=round(one.at, 3), number=one.number, lane=one.lane, broken=is_broken)
                for one, is_broken in zip(applied, broken, strict=True)
                if one.key == key
            ],
        )
        for key in leaving
    ]

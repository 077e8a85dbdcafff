"""Documents of `demo migrate`, whose run needs a broker: made of what a reader is said to have applied."""

from __future__ import annotations

from keylane.documents.demo_migrate import DemoMigrateDocument
from keylane.pipelines.demo.migrate import PRODUCERS, GrowthSettings, growth_trial, moved_keys
from keylane.systems.kafka.growing import AppliedRecord

SETTINGS = GrowthSettings("made", keys=60, per_second=60.0, seconds=4.0)


def applied(*, held: bool) -> list[AppliedRecord]:
    """Four records of each key. Of moved keys the second comes last, unless new lanes are held back for it."""
    moved = set(moved_keys(SETTINGS))
    late = () if held else (0, 2, 3, 1)
    return sorted(
        AppliedRecord(at + 0.5, key, number, 0)
        for key in SETTINGS.names
        for at, number in enumerate(late if late and key in moved else range(4))
    )


def grown(*, broken: bool = False) -> DemoMigrateDocument:
    """Both runs; `broken`: an order is broken in spite of the gate."""
    ungated = growth_trial("ungated", applied(held=False), SETTINGS, (1.5, 3.0))
    gated = growth_trial("gated", applied(held=not broken), SETTINGS, (1.5, 3.0))
    end = {"pause_seconds": 0.4, "verdict": "certified", "violations": 0}
    moved = moved_keys(SETTINGS)
    return DemoMigrateDocument(
        version="0",
        broker="localhost:1",
        own_broker=True,
        old_lanes=SETTINGS.old,
        new_lanes=SETTINGS.new,
        producers=len(PRODUCERS),
        keys=len(SETTINGS.names),
        moved_keys=len(moved),
        moved_share=len(moved) / len(SETTINGS.names),
        slow_lane=SETTINGS.slow_lane,
        slow_seconds=SETTINGS.slow_seconds,
        trials=[ungated, gated.model_copy(update=end)],
    )

"""Documents of `demo lesson`, whose run needs a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.documents.lesson import LessonCell, LessonDocument, LessonLanes, LessonProducer
from keylane.pipelines.demo.lesson import RULES, checks, trial
from keylane.systems.kafka.load import MeasuredGroup, Sent

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]


def made(cv: float = 3.0, batch: float | None = 20_000.0, **changes: Any) -> LessonDocument:
    """A lesson's document, with figures as they are wanted."""
    sent = Sent("t", delivered=8, batches=1, batch_bytes=9, batch_records=8)
    trials = [trial(rule, sent, MeasuredGroup("t", 4, samples=1)) for rule in RULES]
    figures = {"cv": cv, "checks": checks(cv, 0.0, batch, 3, 0), **changes}
    return LessonDocument(
        version="0",
        seed=1,
        drivers=100,
        updates=60,
        radius_km=2.0,
        records=6_000,
        lanes=4,
        resolution=3,
        broker="localhost:1",
        own_broker=True,
        producer=LessonProducer(),
        kept=False,
        why="Because.",
        least_cv=3.0,
        noise_floor=0.02,
        records_for_cv=1_201,
        cells=[
            LessonCell(cell="832664fffffffff", cities=["Chicago"], records=8, lanes=LessonLanes(formula=0, murmur2=1))
        ],
        trials=[one.model_copy(update=figures) for one in trials],
    )

"""How a route is run. What may be set about its streams: `systems.endpoint.StreamOptions`, docs/kafka.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from keylane.pipelines.context import Say
    from keylane.pipelines.route.files import Done
    from keylane.systems.folders.folder import Probe

__all__ = ["KafkaOptions", "Running"]

#: The options of streams under the name that callers of `route` know.
KafkaOptions = StreamOptions


@dataclass(frozen=True, slots=True)
class Running:
    """How a route is run and who is told of it: the arguments of `route.route` that are not about records."""

    follow: bool
    spark: SparkSession | None
    stop_asked: threading.Event | None
    ready: Callable[[], None]
    tell: Callable[[Done], None]
    say: Say
    probe: Probe

"""How a pipeline is run: the one argument that says with which Spark, until when, and whom to report to.

Made once by the command or the caller, and handed to every step. How a session is made or found: `spark.session`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    #: Reports something that is no error and should be known.
    Say = Callable[[str], None]
    #: Called at the named steps of a batch. Tests use it to stop a process, or to look, at an exact step.
    Probe = Callable[[str, int], None]

__all__ = ["Probe", "RunContext", "Say", "no_probe"]


def no_probe(step: str, batch: int) -> None:
    """A probe that does nothing."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run of a pipeline.

    `spark` is a session of the caller's, used as it is; without one, a session is found or made with `master` and
    `conf`. With `follow` the run goes on until `stop_asked` is set; otherwise it ends with what there is. `ready` is
    called once Spark is up, `progress` after each batch, `say` with what is no error and should be known.
    """

    spark: SparkSession | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    follow: bool = False
    every: str = "1 second"
    stop_asked: threading.Event | None = None
    ready: Callable[[], None] = lambda: None
    progress: Callable[[Any], None] = lambda _: None
    say: Say = lambda _: None
    probe: Probe = no_probe

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to stop."""
        return self.stop_asked is not None and self.stop_asked.is_set()

"""What a batch of a running match adds to its target: staged, and moved there once it has happened.

    DST/matches/batch=B/    Parquet, as a match of all that is there writes it
    DST/offers/batch=B/     Parquet, where drivers are assigned
    DST/_dead/batch=B/      dead letters, where there are any
    DST/_metrics/B.json     the figures of the batch

Into a topic each match is a message, see `written`. A batch that is made again after a kill writes them again, with the
same ids: at least once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from keylane.pipelines.match.assigning import assigned
from keylane.pipelines.match.stream_metrics import Result
from keylane.pipelines.match.written import as_messages, to_topic, write_dead

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from keylane.pipelines.match.assigning import Sums
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.stream_metrics import Figures
    from keylane.systems.address import Address

__all__ = ["Written"]

_NO_LETTERS: Final[dict[str, dict[str, int]]] = {"drivers": {}, "riders": {}}


@dataclass(frozen=True, slots=True)
class Written:
    """Where the batches go: a folder, which has the metrics too, and a topic where that is the target."""

    folder: Path
    target: Address
    given: Options

    def stage(self, staging: Path, batch: int, matches: DataFrame, dead: DataFrame | None, sums: Sums) -> Result:
        """Write what a batch came to, where nobody looks yet; into a topic at once. `sums` are those of all offers."""
        place = f"file://{staging / _matches(batch)}"
        matches.write.parquet(place)
        written = matches.sparkSession.read.schema(matches.schema).parquet(place)
        count = written.agg(F.count(F.lit(1)), F.count_if(F.col("rank") == 1)).first()
        assert count is not None
        letters = _NO_LETTERS if dead is None else write_dead(dead, staging, self.target, self.given)
        if any(letters.values()):
            _into(staging / "_dead", batch)
        offers = assigned(written, staging, self.given, sums) if self.given.assign and count[0] else None
        if offers is not None:
            _into(staging / "offers", batch)
        if self.target.system == "kafka":
            to_topic(as_messages(written), self.target, self.target.name, self.given)
        return Result(count[0], count[1], letters, summed(sums) if self.given.assign else None)

    def moved(self, staging: Path, batch: int, figures: Figures) -> tuple[str, ...]:
        """Write the figures too, and say what is to be moved."""
        metrics = staging / "_metrics"
        metrics.mkdir()
        (metrics / f"{batch:010d}.json").write_text(json.dumps(figures.metrics), encoding="utf-8")
        names = [f"_metrics/{batch:010d}.json"]
        folders = [_matches(batch)] if self.target.system == "files" else []
        found = [*folders, f"offers/batch={batch}", f"_dead/batch={batch}"]
        return (*(name for name in found if (staging / name).exists()), *names)


def summed(sums: Sums) -> dict[str, Any]:
    """What all offers came to."""
    mean = sums.metres / sums.granted if sums.granted else None
    return {"granted": sums.granted, "refused": sums.refused, "mean_distance_m": mean}


def _matches(batch: int) -> str:
    return f"matches/batch={batch}"


def _into(folder: Path, batch: int) -> None:
    """Put a folder's contents one level down, under the number of the batch."""
    aside = folder.with_name(f".{folder.name}")
    folder.rename(aside)
    folder.mkdir()
    aside.rename(folder / f"batch={batch}")

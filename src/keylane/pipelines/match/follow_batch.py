"""A batch of a running match: the plan run once, its rows counted, staged and committed in one step.

    plan      -> rows of four kinds: matches, counts, dead letters, offers
    commit    -> the batch is committed in one step, and only then is it in the target

The plan makes the same of the same records, and keeps what it knows in Spark's checkpoint; so a batch that is made
again, after a kill or a failure, makes the same. One that is committed already is run for the state alone.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
from pyspark.sql import functions as F

from keylane.errors import CountError, TargetError
from keylane.pipelines.match.follow_metrics import BatchCounts, added
from keylane.pipelines.match.follow_plan import COUNTS, DEAD, MATCH, OFFER
from keylane.pipelines.match.follow_sources import after_batch
from keylane.pipelines.match.write import MATCHES
from keylane.spark.context import translated
from keylane.spark.kafka_writer import explained_loss
from keylane.systems.checkpoint import batch_offsets, force_batch, query_id
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from keylane.pipelines.match.follow_metrics import Figures
    from keylane.pipelines.match.follow_plan import MatchRules
    from keylane.pipelines.match.follow_sources import InUse, Sources
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.write import Written
    from keylane.pipelines.stateful.state_folder import BatchManifest, StateFolder
    from keylane.systems.journal import Probe

_WAY_ON: Final = (
    "they were deleted by its retention before they were read: start a new match with another --to and --state, and "
    "let the topic keep records for longer than the match may stand still"
)


@dataclass(slots=True)
class MatchBatches:
    """The body of the query."""

    given: Options
    epochs: list[InUse]
    rules: MatchRules
    state: StateFolder
    written: Written
    last: BatchManifest
    tell: Callable[[Figures], None]
    sources: Sources
    check_topics: Callable[[], None]
    probe: Probe = no_probe
    figures: list[Figures] = field(default_factory=list)
    #: Whether the rules are those of a batch that is made again, and not those that were asked for.
    is_again: bool = False
    #: Whether the next batch needs another plan than this query has: fewer lane tables, or the rules asked for.
    needs_new_plan: bool = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make a batch, unless it is committed."""
        try:
            offsets = batch_offsets(self.state.checkpoint, batch)
            manifest = self.state.manifest(batch)
            if manifest is None:
                self._make(frame, batch, offsets)
            else:
                _check_offsets(manifest, offsets)
                counted = frame.where(F.col("kind") == COUNTS).select("rider").collect()
                manifest.check_again(BatchCounts.of(row[0] for row in counted).slots)
                self.state.move(manifest, self.written.folder)
                self.last = manifest
                self.needs_new_plan = self.is_again
        except Exception as error:
            lost = explained_loss(str(error), batch, ", and nothing of it was written", _WAY_ON)
            raise lost or translated(error, batch, "the match") from error

    def _make(self, frame: DataFrame, batch: int, offsets: str) -> None:
        began = time.time()
        self.probe("begun", batch)
        force_batch(self.state.checkpoint, batch)
        token, staging = self.state.begin(batch)
        done = replace(self.last, batch=batch, token=token, query=query_id(self.state.checkpoint), offsets=offsets)
        # On the driver: a file of Spark's for each kind and slot would cost more than all else in a small batch.
        rows = frame.toArrow()
        counts = BatchCounts.of(_texts(rows, COUNTS))
        slots = self.last.after(counts.slots, batch)
        self.probe("answered", batch)
        letters = [json.loads(text) for text in _texts(rows, DEAD)]
        matches, offers = (_pairs(rows, kind) for kind in (MATCH, OFFER))
        dead = self.written.stage(frame.sparkSession, staging, batch, matches, letters, offers)
        _check_counts(counts, dead)
        self.probe("staged", batch)
        self.check_topics()
        figures = added(self.last.counts, counts, dead, self.epochs[-1].lanes.count, began)
        epochs = after_batch(self.epochs, counts.newest, counts.oldest)
        moved = self.written.moved(staging, batch, figures)
        done = replace(done, epochs=epochs, counts=figures.total, moved=moved, slots=slots, rules=self.rules.changeable)
        self.state.commit(done, self.written.folder, self.probe)
        self.last = done
        self.needs_new_plan = self.is_again or len(epochs) < len(self.epochs)
        self.sources.forget(batch)
        self.figures.append(figures)
        self.tell(figures)


def _of_kind(rows: pa.Table, kind: int) -> pa.Table:
    return rows.filter(pc.equal(rows.column("kind"), kind))


def _pairs(rows: pa.Table, kind: int) -> pa.Table:
    """The rows of a kind as they are written, times as times."""
    return _of_kind(rows, kind).drop_columns("kind").rename_columns(MATCHES.names).cast(MATCHES)


def _texts(rows: pa.Table, kind: int) -> list[str]:
    """The texts of the rows of a kind: counts or dead letters."""
    return [str(text) for text in _of_kind(rows, kind).column("rider").to_pylist()]


def _check_offsets(manifest: BatchManifest, offsets: str) -> None:
    if manifest.offsets != offsets:
        raise TargetError.of(
            f"batch {manifest.batch} is committed with other records than Spark's checkpoint now gives it",
            got=offsets,
            allowed=manifest.offsets,
            hint="restore the newest checkpoint, or start a new match with another --to and --state",
        )


def _check_counts(counts: BatchCounts, dead: Mapping[str, Mapping[str, int]]) -> None:
    """Nothing is lost: good records and dead letters are all that there are."""
    good = {"drivers": counts.pings, "riders": counts.reported - counts.late_requests}
    for side, there in counts.read.items():
        letters = sum(dead[side].values())
        if good[side] + letters != there:
            got = f"{good[side]} good, {letters} dead"
            raise CountError.of(f"the records of the {side} do not add up", got=got, allowed=f"{there} in all")

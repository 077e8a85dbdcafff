"""Stages 2 and 3: a batch of blocks -> windows that are due -> results in order, staged and committed in one step.

The plan makes the same of the same blocks, and keeps its state in Spark's checkpoint; so a batch that is made again,
after a kill or a failure, makes the same. One that is committed already is run for the state alone. Which batches are
in the target, and what an older or foreign checkpoint is refused by: `stateful.state_folder`.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from keylane.errors import TargetError
from keylane.pipelines.aggregate.matching import WORK
from keylane.pipelines.aggregate.results import ResultRows
from keylane.pipelines.aggregate.targets import BatchOutput, write_metrics
from keylane.spark.context import translated
from keylane.systems.checkpoint import batch_offsets, force_batch, query_id
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from keylane.pipelines.aggregate.matching import MatchingStage
    from keylane.pipelines.aggregate.targets import ResultTarget
    from keylane.pipelines.stateful.state_folder import BatchManifest, StateFolder
    from keylane.systems.journal import Probe

#: The kinds of rows; defined in `Rows.java` and `Block.java`.
COUNTS, RESULT, CORRECTION, DEAD = 65, 68, 69, 70
_FIGURES: Final = ("records", "matched", "pairs", "dead", "windows", "corrections", "late", "errors")


@dataclass(slots=True)
class Gathered:
    """The rows of a batch by kind, and what its steps counted."""

    results: ResultRows
    corrections: ResultRows
    letters: list[dict[str, Any]]
    counts: list[dict[str, Any]]

    @staticmethod
    def of(rows: pa.Table) -> Gathered:
        """By kind."""
        texts = {
            kind: rows.filter(pc.equal(rows.column("kind"), kind)).column("text").to_pylist()
            for kind in (RESULT, CORRECTION, DEAD, COUNTS)
        }
        results, corrections = (ResultRows.of(texts[kind]) for kind in (RESULT, CORRECTION))
        letters, counts = ([json.loads(text) for text in texts[kind]] for kind in (DEAD, COUNTS))
        return Gathered(results, corrections, letters, counts)

    def slots(self) -> dict[str, int]:
        """Of each slot of the state, the batch that wrote what this one found."""
        return {f"{one['of']} {one['slot']}": one["found"] for one in self.counts if one["step"] == "state"}

    def of_step(self, step: str) -> list[dict[str, Any]]:
        """What the tasks of a step counted."""
        return [one for one in self.counts if one["step"] == step]


@dataclass(slots=True)
class AggregateBatches:
    """The body of the query over blocks."""

    state: StateFolder
    target: ResultTarget
    stage: MatchingStage
    last: BatchManifest
    tell: Callable[[dict[str, Any]], None] = lambda _: None
    probe: Probe = no_probe

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Make a batch, unless it is committed."""
        try:
            offsets = batch_offsets(self.state.checkpoint, batch)
            manifest = self.state.manifest(batch)
            if manifest is None:
                self._make(frame, batch, offsets)
                return
            if manifest.offsets != offsets:
                raise TargetError.of(  # noqa: TRY301  as every other end of a batch
                    f"batch {batch} is committed with other records than Spark's checkpoint now gives it",
                    got=offsets,
                    allowed=manifest.offsets,
                    hint="restore the newest checkpoint, or start anew with another --to and --state",
                )
            manifest.check_again(Gathered.of(frame.toArrow()).slots())
            self.state.move(manifest, self.target.folder)
            self.last = manifest
        except Exception as error:
            raise translated(error, batch, WORK) from error

    def _make(self, frame: DataFrame, batch: int, offsets: str) -> None:
        began = time.monotonic()
        self.probe("begun", batch)
        force_batch(self.state.checkpoint, batch)
        token, staging = self.state.begin(batch)
        found = Gathered.of(frame.toArrow())
        slots = self.last.after(found.slots(), batch)
        self.probe("answered", batch)
        of_blocks = self.stage.files.facts_for(batch)
        of_queries = {
            name: {**self.last.counts.get(name, {}), **of_blocks.get(name, {})}
            for name in ("columns", "slides", "groups", "times")
        }
        counts = {**_added(self.last.counts, found, of_blocks), **of_queries}
        made = BatchOutput(found.results, found.corrections, found.letters, of_queries["columns"], of_queries["slides"])
        moved = self.target.stage(staging, batch, made)
        metrics = {**_metrics(found, counts, of_blocks, time.monotonic() - began), "running": self._running()}
        moved.append(write_metrics(staging, batch, metrics))
        self.probe("staged", batch)
        done = replace(
            self.last,
            batch=batch,
            token=token,
            query=query_id(self.state.checkpoint),
            offsets=offsets,
            counts=counts,
            moved=tuple(moved),
            slots=slots,
        )
        self.state.commit(done, self.target.folder, self.probe)
        self.last = done
        self.stage.forget(batch)
        self.tell(metrics)

    def _running(self) -> dict[str, Any]:
        """How the windows are divided."""
        options = self.stage.options
        return {"by": options.by, "partial": options.partial, "lanes": self.stage.plan.lanes}


def _added(before: dict[str, Any], found: Gathered, of_blocks: dict[str, Any]) -> dict[str, Any]:
    """The counts of all batches together: in all, and by query."""
    total = {name: before.get("total", {}).get(name, 0) for name in _FIGURES}
    queries = {name: dict(known) for name, known in before.get("queries", {}).items()}
    for one in found.of_step("match"):
        for name in ("records", "matched", "pairs", "dead"):
            total[name] += one[name]
        for query, (many, text) in one["errors"].items():
            _of(queries, query)["errors"] += many
            _of(queries, query)["error"] = text
            total["errors"] += many
    for one in found.of_step("windows"):
        for query, (dropped, corrected) in one["late"].items():
            _of(queries, query)["dropped"] += dropped
            _of(queries, query)["corrected"] += corrected
            total["late"] += dropped + corrected
    for query, end, events in zip(found.results.query, found.results.end, found.results.events, strict=True):
        known = queries.get(query) or _of(queries, query)
        known["events"] += events
        known["windows"] += 1
        known["delivered_until"] = end
    total["windows"] += len(found.results)
    total["corrections"] += len(found.corrections)
    if of_blocks:
        _mark_unfit(queries, of_blocks["errors"])
    return {"total": total, "queries": queries}


def _of(queries: dict[str, dict[str, Any]], query: str) -> dict[str, Any]:
    return queries.setdefault(query, {"events": 0, "windows": 0, "dropped": 0, "corrected": 0, "errors": 0})


def _mark_unfit(queries: dict[str, dict[str, Any]], unfit: dict[str, str]) -> None:
    """Say which queries do not fit the events of this batch."""
    for known in queries.values():
        known.pop("unfit", None)
    for query, text in unfit.items():
        _of(queries, query).update(error=text, unfit=True)


def _metrics(found: Gathered, counts: dict[str, Any], of_blocks: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What is to be watched after a batch: state, watermarks, lag by query, load by lane."""
    times: dict[str, dict[str, int]] = {}
    for one in found.of_step("windows"):
        for name, known in one["times"].items():
            there = times.setdefault(name, {"watermark": known["watermark"], "newest": known["newest"], "open": 0})
            there["open"] += known["open"]
    state = [one for one in found.counts if one["step"] == "state"]
    clocks = {query: times[name] for query, name in counts["times"].items() if name in times}
    lag = {
        query: max(0, clocks[query]["newest"] - known["delivered_until"]) / 1e6
        for query, known in counts["queries"].items()
        if query in clocks and "delivered_until" in known
    }
    return {
        "total": counts["total"],
        "times": times,
        "open_windows": sum(one["open"] for one in times.values()),
        "state_bytes": sum(one["state_bytes"] for one in state),
        "restored": sum(one["restored"] for one in state),
        "restore_s": sum(one["restore_us"] for one in state) / 1e6,
        "lanes": {str(one["lane"]): [one["events"], one["parts"]] for one in found.of_step("windows")},
        "lag_s": lag,
        "watermarks": {query: clocks[query]["watermark"] for query in counts["queries"] if query in clocks},
        "registry_version": of_blocks.get("version"),
        "seconds": seconds,
    }

"""A folder as the target of a route: the records of a batch -> staged files -> a batch that is committed.

A batch is written once: one that is committed has a manifest, and is not repeated. What becomes of a batch
when the process is killed at any step is in `folder`. Nothing is created before `begin`, when all else was checked.
Which records make a batch is the source's (`systems.flow`).
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import fields_of, lacking_text
from keylane.errors import CountError, TargetError
from keylane.systems.atomic import check_not_held
from keylane.systems.checkpoint import (
    WAYS_ON,
    batch_offsets,
    check_checkpoint,
    drop_unforced,
    force_batch,
    query_id,
)
from keylane.systems.flow import BatchReport, Origin, Routed, RouteTarget, report_dead
from keylane.systems.folders.folder import (
    Counts,
    Head,
    Manifest,
    Placed,
    TakenFile,
    check_agrees,
    check_whole,
    dead_file,
    lane_file,
    open_target,
    read_head,
    read_latest,
    read_manifests,
    remove_uncommitted,
)
from keylane.systems.journal import OWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.router import Router
    from keylane.spark.context import RunContext
    from keylane.spark.read_parquet import Batch, SourceFile
    from keylane.spark.write_lanes import LaneFile
    from keylane.systems.flow import Followed
    from keylane.systems.folders.folder import Target

_SHARED: Final = "on a cluster, source and target have to be on a file system that all machines share"


def known_origin(path: Path) -> Origin | None:
    """The source that a folder was routed from, by its metadata; None where nothing was routed into it."""
    head = read_head(path) if read_latest(path) is not None else None
    return None if head is None else Origin(head.source, head.kind, head.pattern, head.source_id)


@contextmanager
def open_folder(path: Path, router: Router, origin: Origin, run: RunContext) -> Iterator[FolderTarget]:
    """The folder as a target for this contract and source. One that exists is locked; a new one is made by `begin`."""
    head = _head_of(router, origin)
    check_agrees(path, head)
    with ExitStack() as held:
        known = held.enter_context(open_target(path, head)) if read_head(path) == head else None
        yield FolderTarget(path, head, router, origin, run, held, known)


def check_ready(path: Path, router: Router, origin: Origin) -> None:
    """Refuse what `open_folder` refuses; nothing is made and no lock is taken."""
    check_agrees(path, _head_of(router, origin))
    check_whole(path)
    check_not_held(path / OWN / "lock")


@contextmanager
def _made(path: Path, head: Head) -> Iterator[Target]:
    """The folder, locked. One that this run makes is removed again when the run fails before anything is committed."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    new = read_head(path) is None
    try:
        with open_target(path, head) as target:
            try:
                yield target
            except BaseException:
                # While it is locked: nobody else may have begun in it.
                if new and read_latest(path) is None:
                    remove_uncommitted(path, head)
                raise
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()  # which leaves a folder that anything is in
        raise


def _head_of(router: Router, origin: Origin) -> Head:
    contract, meta = router.contract, router.contract.metadata
    streams = {router.stream: router.lane_count, **contract.tiers}
    named = (origin.address, origin.kind, origin.pattern, origin.id or "")
    cells = (list(origin.csv_null), origin.delimiter)
    return Head(meta.name, meta.epoch, contract.fingerprint, streams, *named, *cells)


@dataclass
class FolderTarget(RouteTarget):
    """A folder: what this run began with, and the last manifest. `known` is locked already; a new one is in `begin`."""

    path: Path
    head: Head
    router: Router
    origin: Origin
    run: RunContext
    held: ExitStack
    known: Target | None
    _unordered: bool = False

    def begin(self, spark: SparkSession, source: Followed) -> None:
        """Create the folder if it is missing, finish what a killed run left, and take the source."""
        super().begin(spark, source)
        self.folder = self.known or self.held.enter_context(_made(self.path, self.head))
        self.lock, self.checkpoint = self.folder.lock, self.folder.checkpoint
        self.last = self.before = self.folder.recover() or Manifest.before_all(self.head)
        drop_unforced(self.checkpoint, self.last.batch, self.last.batch)
        check_checkpoint(self.checkpoint, self.last.batch, self.last.query, self.last.offsets)

    def taken(self) -> Iterator[TakenFile]:
        """The source files of the kept manifests, oldest first."""
        for manifest in read_manifests(self.path):
            yield from manifest.taken

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write one batch and commit it, unless it is committed already."""
        from keylane.spark.context import translated
        from keylane.spark.session import active_session_kept

        with active_session_kept():
            began, source = time.monotonic(), self.source
            offsets = batch_offsets(self.checkpoint, batch)
            if self._is_committed(batch, offsets):
                return
            force_batch(self.checkpoint, batch)
            taken = source.taken(frame)
            self._report_unordered(taken)
            self.run.probe("begun", batch)
            staging = self.folder.staging(batch)
            try:
                manifest = replace(self._staged(frame, batch, taken, staging), offsets=offsets)
                source.check_unchanged(taken)
                self.run.probe("staged", batch)
                self.folder.commit(manifest, self.run.probe)
            except Exception as error:
                if isinstance(error, CountError):
                    # Of a file that changed while it was read, some rows are nobody's.
                    source.check_unchanged(taken)
                if self.folder.manifest(batch) is None:
                    shutil.rmtree(staging, ignore_errors=True)
                raise translated(error, batch) from error
            size, self.last = manifest.taken_bytes - self.last.taken_bytes, manifest
            seconds, sums = time.monotonic() - began, (manifest.taken_files, manifest.taken_bytes)
            report = BatchReport(batch, manifest.counts, seconds, size, *sums, source.counted)
            self.run.progress(report)
            report_dead(report, manifest.total, self.run.say)

    def result(self, source: str, *, stopped: bool) -> Routed:
        """The result of this run."""
        lanes = {
            stream: [now - then for now, then in zip(offsets, self.before.next[stream], strict=True)]
            for stream, offsets in self.last.next.items()
        }
        counts = (self.last.total - self.before.total).checked("this run")
        batches = self.last.batch - self.before.batch
        return Routed(source, str(self.path), counts, self.last.total, lanes, batches, stopped)

    def _is_committed(self, batch: int, offsets: str) -> bool:
        """Whether a batch is in the target already. If so, it must have the same records; if not, it is the next."""
        if batch == self.last.batch + 1:
            return False
        before = self.folder.manifest(batch)
        if before is None or before.offsets != offsets:
            raise TargetError.of(
                "Spark's checkpoint does not belong to this target: it would repeat or lose records",
                got=f"batch {batch} of {offsets}, after batch {self.last.batch}",
                allowed=before.offsets if before else f"batch {self.last.batch + 1}",
                hint=WAYS_ON,
            )
        return True

    def _report_unordered(self, taken: Sequence[SourceFile]) -> None:
        """Spark takes files by age. Those of one age that it has cut into two batches may not be in order by name."""
        before = {file.name for file in self.last.taken if taken and file.modified == taken[0].modified}
        if before and taken[0].name < max(before) and not self._unordered:
            self._unordered = True
            self.run.say(
                f"{taken[0].name} and {max(before)} have the same age, and were not read in the order of their names"
            )

    def _staged(self, frame: DataFrame, batch: int, taken: Sequence[SourceFile], staging: Path) -> Manifest:
        from keylane.spark.messages import refuse_lacking
        from keylane.spark.write_lanes import decided, write_dead, write_lanes

        query = query_id(self.checkpoint)
        if not self.source.may_have_records(taken):
            # Files without a byte are kept in mind: what is written into one afterwards is not read.
            empty = tuple(TakenFile(file.name, file.size, file.modified, 0) for file in taken)
            same = replace(self.last, counts=Counts(), placed=(), taken=empty)
            files = self.last.taken_files + len(taken)
            return replace(same, batch=batch, query=query, staging=staging.name, taken_files=files)
        rows, names = self.source.rows(frame, taken, self.last), self.source.names(taken)
        routed = decided(rows, self.router)
        if rows.found is None and not self.last.total.in_ and "value" in rows.columns:
            refuse_lacking(routed, fields_of(self.router.contract), "value")
        if rows.lacking:
            self.run.say(lacking_text(batch, rows.lacking))
        lanes = write_lanes(routed, rows, names, self.last.next, staging / "lanes")
        out = sum(file.records for file in lanes)
        dead = None
        if out + rows.filtered < sum(rows.records):
            self.run.probe("half staged", batch)
            dead = write_dead(routed, rows, names, self.router, self.last.next_dead, staging / "dead")
        placed = [
            Placed(file.path.relative_to(staging).as_posix(), lane_file(file.stream, file.lane, batch), file.records)
            for file in lanes
        ]
        if dead is not None:
            placed.append(Placed(dead[0].relative_to(staging).as_posix(), dead_file(batch), dead[1]))
        counts = Counts(sum(rows.records), out, dead[1] if dead else 0, rows.filtered)
        counts = counts.checked(f"batch {batch}", _SHARED)
        return self._manifest(batch, query, taken, rows, placed, counts, lanes, staging)

    def _manifest(
        self,
        batch: int,
        query: str,
        taken: Sequence[SourceFile],
        rows: Batch,
        placed: Sequence[Placed],
        counts: Counts,
        lanes: Sequence[LaneFile],
        staging: Path,
    ) -> Manifest:
        offsets = {stream: list(starts) for stream, starts in self.last.next.items()}
        for file in lanes:
            offsets[file.stream][file.lane] += file.records
        return Manifest(
            batch=batch,
            query=query,
            fingerprint=self.last.fingerprint,
            staging=staging.name,
            counts=counts,
            total=self.last.total + counts,
            next=offsets,
            next_dead=self.last.next_dead + counts.dead,
            placed=tuple(placed),
            taken=tuple(TakenFile(f.name, f.size, f.modified, n) for f, n in zip(taken, rows.records, strict=True)),
            next_position=self.last.next_position + sum(rows.rows),
            taken_files=self.last.taken_files + len(taken),
            taken_bytes=self.last.taken_bytes + sum(file.size for file in taken),
            schema=rows.schema.json(),
        )

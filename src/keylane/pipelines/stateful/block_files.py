"""Blocks between two streaming queries: one file for each batch of a source, in STATE/blocks.

A first query of Spark's says which records make a batch, and remembers it in STATE/files; its body leaves them as one
file of blocks, which the query with the stateful steps reads, one file a batch. Everything that could differ from one
try at a batch to the next, as the clock, is then in the blocks.

    STATE/blocks/B.json       written first: the offsets of batch B, the digest of its blocks, what the pipeline adds
    STATE/blocks/B.parquet    appears by one rename, with its checksum

A batch whose two files are there is not made again. One whose JSON alone is there was ended between the two, and is
made again from the same records.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.pipelines.stateful.state_folder import read_sealed, write_sealed
from keylane.systems.atomic import force_all
from keylane.systems.checkpoint import check_checkpoint, query_id, unreadable
from keylane.systems.files.spark_log import SparkLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from keylane.pipelines.stateful.state_folder import StateFolder

_SCHEMA: Final = "_1 int, _2 binary"
#: Files of blocks are given these times, in their order: Spark takes the older ones first.
_FIRST_TIME: Final = 1_000_000_000
_NAME: Final = re.compile(r"(\d+)(?:-end)?(?:\.parquet)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BlockFiles:
    """The files of blocks of a state."""

    state: StateFolder

    def is_made(self, batch: int, offsets: str) -> bool:
        """Whether the blocks of a batch are there, or known to be none."""
        if not self.facts_path(batch).exists():
            return False
        known = self.facts(batch)
        return known["offsets"] == offsets and (self.path(batch).exists() or not known["made"])

    def waiting(self, batch: int) -> Path:
        """A folder for Spark to write the blocks of a batch into, as one file; nothing is there yet."""
        folder = self.state.blocks / f".{batch:010d}"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    @staticmethod
    def digest(waiting: Path) -> str:
        """That of the blocks that wait; nothing where there are none."""
        return digest_of(next(waiting.glob("part-*.parquet"))) if waiting.exists() else ""

    def note(self, batch: int, offsets: str, digest: str, facts: Mapping[str, Any]) -> None:
        """Write down what the blocks of a batch are."""
        known = {"batch": batch, "made": digest, "query": query_id(self.state.files), "offsets": offsets}
        write_sealed(self.facts_path(batch), {**known, **facts})
        self._forget_empty(batch)

    def put(self, waiting: Path, batch: int) -> None:
        """Blocks that wait become those of a batch."""
        _put(waiting, self.path(batch), 2 * batch)

    def facts(self, batch: int) -> dict[str, Any]:
        """What was written down of the blocks of a batch."""
        path = self.facts_path(batch)
        found = read_sealed(path)
        if "made" not in found or found.get("batch") != batch:
            raise unreadable(path, f"it is that of batch {found.get('batch')}, or another file")
        return found

    def end(self, batch: int, write: Callable[[Path], None]) -> None:
        """Leave blocks that end the source behind those of its last batch, once; `write` puts them into a folder."""
        marked = self._end(batch)
        if marked.exists():
            return
        waiting = self.state.blocks / f".{batch:010d}-end"
        shutil.rmtree(waiting, ignore_errors=True)
        write(waiting)
        if waiting.exists():
            _put(waiting, self.state.blocks / f"{batch:010d}-end.parquet", 2 * batch + 1)
        write_sealed(marked, {"batch": batch})

    def stream(self, spark: SparkSession) -> DataFrame:
        """The blocks as a stream: a batch has those of one batch of the source.

        Where the last batch of a source and its end are all that is left to read, they are one batch.
        """
        log = SparkLog(self.state.checkpoint)
        log.refresh()
        left = [path for path in self.state.blocks.glob("[0-9]*.parquet") if str(path) not in log.known]
        is_end = len(left) == 2 and len({path.stem.partition("-")[0] for path in left}) == 1
        options = {
            "maxFilesPerTrigger": "2" if is_end else "1",
            "pathGlobFilter": "[0-9]*.parquet",
            "maxFileAge": f"{2**63 - 1}ms",
        }
        return spark.readStream.schema(_SCHEMA).options(**options).parquet(f"file://{self.state.blocks}")

    def facts_for(self, batch: int) -> dict[str, Any]:
        """What is known of the blocks that a batch of the steps reads; nothing for those that end a source."""
        found = [_NAME.fullmatch(Path(file.path).name) for file in SparkLog(self.state.checkpoint).of_batch(batch)]
        numbers = [int(name[1]) for name in found if name is not None and "-end" not in name[0]]
        return self.facts(numbers[0]) if numbers and self.facts_path(numbers[0]).exists() else {}

    def check(self) -> None:
        """Refuse a checkpoint of the source that is not that of the newest blocks, and blocks that are missing.

        Records would be read twice, or not at all.
        """
        known = {batch: self.facts(batch) for batch in self.numbers()}
        newest = max(known, default=-1)
        found = known.get(newest, {})
        check_checkpoint(self.state.files, newest, found.get("query", ""), found.get("offsets", ""))
        log = SparkLog(self.state.checkpoint)
        log.refresh()
        # Blocks of a number that was read already would be passed over.
        last, name_of_last = -1, ""
        for path in log.known:
            name = _NAME.fullmatch(Path(path).name)
            if name is None:
                where = self.state.checkpoint / "sources" / "0"
                raise unreadable(where, f"{Path(path).name} is no file of blocks")
            if int(name[1]) > last:
                last, name_of_last = int(name[1]), name[0]
        if last > newest:
            raise unreadable(
                self.state.blocks, f"it is older than the {self.state.work}, which has read {name_of_last}"
            )
        for batch, one in known.items():
            path_of_batch = self.path(batch)
            # The newest may not have been put there yet: its batch is given again.
            is_missing = one["made"] and batch < newest and not path_of_batch.exists()
            if is_missing and str(path_of_batch) not in log.known:
                raise unreadable(path_of_batch, "it is missing, and was not read yet")
            if path_of_batch.exists() and one["made"] != digest_of(path_of_batch):
                raise unreadable(path_of_batch, "it is not what was written: its digest differs")

    def forget(self, batch: int) -> None:
        """Remove what was taken before the blocks that the batch before this one took: Spark has committed all of it.

        Blocks are taken in the order of their numbers. The two newest stay: the next one is made by what they note.
        """
        log = SparkLog(self.state.checkpoint)
        taken = [Path(file.path) for file in log.of_batch(batch - 1)] if batch else []
        last = max((int(path.stem.partition("-")[0]) for path in taken), default=-1)
        for number in self.numbers()[:-2]:
            if number < last:
                self._remove(number)

    def _forget_empty(self, batch: int) -> None:
        """Remove what is noted of blocks that are none: no batch takes those, and the next asks for these alone."""
        before = batch - 2
        if before >= 0 and self.facts_path(before).exists() and not self.facts(before)["made"]:
            self._remove(before)

    def _remove(self, number: int) -> None:
        # What is noted goes last: files are found by it, so that a kill between them leaves none behind.
        for path in (self.path(number), self.state.blocks / f"{number:010d}-end.parquet"):
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        self._end(number).unlink(missing_ok=True)
        self.facts_path(number).unlink(missing_ok=True)

    def numbers(self) -> list[int]:
        """The batches of which something is there."""
        return sorted(int(path.stem) for path in self.state.blocks.glob("[0-9]*.json") if path.stem.isdecimal())

    def path(self, batch: int) -> Path:
        """The blocks of a batch."""
        return self.state.blocks / f"{batch:010d}.parquet"

    def facts_path(self, batch: int) -> Path:
        """What is written down of them."""
        return self.state.blocks / f"{batch:010d}.json"

    def _end(self, batch: int) -> Path:
        return self.state.blocks / f"{batch:010d}-end.json"


def _put(waiting: Path, final: Path, order: int) -> None:
    """The only file of a folder becomes that of a batch, with its checksum, by which a damaged one is noticed."""
    (part,) = waiting.glob("part-*.parquet")
    check = part.with_name(f".{part.name}.crc")
    force_all([path for path in (part, check) if path.exists()])
    os.utime(part, (_FIRST_TIME + order, _FIRST_TIME + order))
    if check.exists():
        check.rename(final.with_name(f".{final.name}.crc"))
    part.rename(final)
    force_all([final.parent])
    shutil.rmtree(waiting)


def digest_of(path: Path) -> str:
    """What a file is compared by."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


@contextmanager
def beside(name: str, work: Callable[[threading.Event], object]) -> Iterator[Callable[[], None]]:
    """Run the query that leaves blocks in a thread for as long as this is open; a call that raises what ended it."""
    ended, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work(ended)
        except BaseException as error:  # noqa: BLE001  raised by whoever asks
            failed.append(error)

    def check() -> None:
        if failed:
            raise failed[0]

    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        yield check
    finally:
        ended.set()
        thread.join()
    check()

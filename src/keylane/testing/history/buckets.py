"""Rows dealt to buckets in bounded memory: what is more than the budget waits in temporary Arrow files.

Who belongs in which bucket is `judgements.dealt`'s to say. A bucket that comes out larger than the budget is dealt
again by other bits of the hash; what cannot be divided, the rows of one key or of one lane, is judged in one piece.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.testing.history.judgements import BITS, dealt
from keylane.testing.history.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.testing.history.judgements import Judgement

__all__ = ["BUDGET", "Buckets", "opened"]

#: Bytes of rows that are held in memory before they go to files, for each judgement.
BUDGET: Final = 32 << 20
#: A bucket of so few bytes is not worth dealing again, however small the budget.
SMALL: Final = 1 << 20
#: The hash has 64 bits; at 6 a level this many levels are surely different ones.
DEEPEST: Final = 8


class Buckets:
    """The rows of one judgement, by bucket: in memory while they are few, in one file for each bucket beyond."""

    def __init__(self, judgement: Judgement, folder: Path, budget: int, level: int = 0) -> None:
        self._judgement, self._folder, self._budget, self._level = judgement, folder, budget, level
        self._schema = pa.schema([SCHEMA.field(name) for name in judgement.columns])
        self._waiting: list[list[pa.RecordBatch]] = [[] for _ in range(1 << BITS)]
        self._held = 0
        self._writers: dict[int, Any] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Deal a batch out."""
        rows, bucket = dealt(self._judgement, batch, self._level)
        if not len(rows):
            return
        bounds = np.searchsorted(bucket, np.arange((1 << BITS) + 1))
        for number in np.unique(bucket):
            start, end = int(bounds[number]), int(bounds[number + 1])
            self._waiting[number].append(rows.slice(start, end - start))
        self._held += rows.nbytes
        if self._held > self._budget:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """Bucket after bucket; each is forgotten when the next is asked for. What never left memory is one bucket."""
        if not self._writers:
            yield from self._whole()
            return
        for writer in self._writers.values():
            writer.close()
        for number in range(1 << BITS):
            yield from self._table(number)
            self._waiting[number] = []
            self._file(number).unlink(missing_ok=True)

    def _whole(self) -> Iterator[pa.Table]:
        batches = [batch for waiting in self._waiting for batch in waiting]
        if batches:
            yield pa.Table.from_batches(batches, self._schema)

    def _spill(self) -> None:
        for number, batches in enumerate(self._waiting):
            if batches:
                self._writer(number).write_table(pa.Table.from_batches(batches, self._schema).combine_chunks())
                self._waiting[number] = []
        self._held = 0

    def _writer(self, number: int) -> Any:
        if number not in self._writers:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writers[number] = pa.ipc.new_file(str(self._file(number)), self._schema)
        return self._writers[number]

    def _file(self, number: int) -> Path:
        return self._folder / f"{self._level}-{number:02d}.arrow"

    def _table(self, number: int) -> Iterator[pa.Table]:
        waiting, file = self._waiting[number], self._file(number)
        if not file.exists():
            if waiting:
                yield pa.Table.from_batches(waiting, self._schema)
            return
        if file.stat().st_size > max(self._budget, SMALL) and self._level < DEEPEST:
            yield from self._again(number)
            return
        with pa.OSFile(str(file)) as source:
            yield pa.concat_tables([pa.ipc.open_file(source).read_all(), pa.Table.from_batches(waiting, self._schema)])

    def _again(self, number: int) -> Iterator[pa.Table]:
        smaller = Buckets(self._judgement, self._folder / f"{self._level}-{number:02d}", self._budget, self._level + 1)
        with pa.OSFile(str(self._file(number))) as source:
            reader = pa.ipc.open_file(source)
            for n in range(reader.num_record_batches):
                smaller.add(reader.get_batch(n))
        for batch in self._waiting[number]:
            smaller.add(batch)
        yield from smaller.tables()


@contextmanager
def opened(judgements: tuple[Judgement, ...], budget: int) -> Iterator[list[Buckets]]:
    """Buckets for each judgement, and a temporary folder that goes with them."""
    with TemporaryDirectory(prefix="keylane-history-") as folder:
        yield [Buckets(one, Path(folder) / one.name, budget) for one in judgements]

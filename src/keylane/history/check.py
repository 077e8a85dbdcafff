"""The history checker on one machine: rows dealt to buckets in bounded memory, each judged, results added up.

The same rules over a cluster: `keylane.spark.history`. What the rows are: `rows`; what the rules are: `rules`.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.history import rules
from keylane.history.rows import APPLY, CUTOVER, DEAD, OWN, READ, SCHEMA, SEND, kind_of, normal, numbers
from keylane.history.verdict import BucketResult, Settings, Verdict, added, verdict_of
from keylane.private import own_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from keylane.history.verdict import BucketResult

# Judgements: which rows have to be seen together, and how they are dealt to buckets for each.

#: Buckets at each level are 2**BITS; a bucket that is too large is dealt again by the next bits of the same hash.
BITS: Final = 6


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement: the columns and kinds of rows it looks at, by what they are dealt out, and the rules."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[int, ...]
    hash: Callable[[pa.RecordBatch], NDArray[np.uint64]]
    judge: Callable[[pa.Table, Settings], BucketResult]


def dealt(
    judgement: Judgement, batch: pa.RecordBatch, level: int = 0, bits: int = BITS
) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """The rows that a judgement looks at, bucket by bucket, and the bucket of each. Every bucket gets all cut-overs."""
    what = kind_of(batch)
    wanted = np.isin(what, [kind for kind in judgement.kinds if kind != CUTOVER])
    if judgement.name == "order":
        # Where nothing is kept in order there is nothing to judge.
        wanted &= batch.column("scope").is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(wanted)
    narrow = batch.select(list(judgement.columns))
    mine = narrow.take(pa.array(rows)) if len(rows) < len(batch) else narrow
    bucket = (judgement.hash(mine) >> np.uint64(bits * level) & np.uint64((1 << bits) - 1)).astype(np.int64)
    cut = np.flatnonzero(what == CUTOVER) if CUTOVER in judgement.kinds else rows[:0]
    if len(cut):
        copies = narrow.take(pa.array(np.repeat(cut, 1 << bits)))
        mine = pa.Table.from_batches([mine, copies]).combine_chunks().to_batches()[0]
        bucket = np.concatenate([bucket, np.tile(np.arange(1 << bits), len(cut))])
    by_bucket = np.argsort(bucket.astype(np.uint16), kind="stable")
    return mine.take(pa.array(by_bucket)), bucket[by_bucket]


def _by_record(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    return _mixed(_hash(batch.column("writer")) << np.uint64(32) ^ numbers(batch.column("seq")).view(np.uint64))


def _by_scope(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    return _mixed(hash_batch(HASHES["murmur2"], batch.column("scope")).astype(np.uint64))


def _by_lane(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    place = numbers(batch.column("generation")) << 32 | numbers(batch.column("lane"), 0)
    return _mixed(_hash(batch.column("stream")) << np.uint64(16) ^ place.view(np.uint64))


def _hash(names: Any) -> NDArray[np.uint64]:
    """A hash of names of which there are few different ones."""
    coded = names.dictionary_encode()
    hashes = np.append(hash_batch(HASHES["murmur2"], coded.dictionary), 0).astype(np.uint64)
    return hashes[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]


def _mixed(number: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64: each bit of the result depends on every bit given."""
    number = (number ^ number >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ number >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return number ^ number >> np.uint64(31)


JUDGEMENTS: Final = (
    Judgement("records", rules.RECORD_COLUMNS, (SEND, READ, DEAD), _by_record, rules.judge_records),
    Judgement("order", rules.ORDER_COLUMNS, (READ, APPLY, CUTOVER), _by_scope, rules.judge_order),
    Judgement("lanes", rules.LANE_COLUMNS, (READ, DEAD, OWN), _by_lane, rules.judge_lanes),
)


# Buckets: what is more than the memory budget waits in temporary Arrow files.


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
    with own_folder() as folder:
        yield [Buckets(one, folder / one.name, budget) for one in judgements]


#: Rows dealt out at once: few enough to stay small, enough for the vector steps to pay.
AT_ONCE: Final = 131_072


def check(
    batches: Iterable[pa.RecordBatch | pa.Table], settings: Settings | None = None, *, budget: int = BUDGET
) -> Verdict:
    """Judge a history. Rows may come in any order and in batches of any size.

    `budget` is how many bytes of rows each of the three judgements holds in memory before it takes to files.

    >>> from keylane.testing.history import rows
    >>> sent = rows("send", writer="w", key=[b"a", b"a"], seq=[1, 2], outcome="ok")
    >>> check([sent, rows("read", writer="w", key=[b"a"], seq=[2], lane=0, offset=[0])]).counts["lost"]
    1
    """
    given = settings or Settings()
    with _rare_collections(), opened(JUDGEMENTS, budget) as buckets:
        for batch in _sized(batches):
            for one in buckets:
                one.add(batch)
        return verdict_of(added(_judged(buckets, given), given.keep), given)


#: Objects that Python makes between two passes of its collector while a history is read.
OBJECTS: Final = 100_000


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python's collector pass less often.

    Clients make a few objects for each record and its headers, none of them in a cycle; passes for every 700 of them
    took a third of the processor time of a check.
    """
    first, *others = gc.get_threshold()
    gc.set_threshold(max(first, OBJECTS) if first else 0, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def _judged(buckets: list[Buckets], settings: Settings) -> Iterator[BucketResult]:
    for judgement, of_it in zip(JUDGEMENTS, buckets, strict=True):
        results = (judgement.judge(table.combine_chunks(), settings) for table in of_it.tables())
        yield added(results, settings.keep)


def _sized(batches: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[pa.RecordBatch]:
    """Batches of about one size, whatever size they come in."""
    waiting: list[pa.RecordBatch] = []
    for given in batches:
        waiting += map(normal, given.to_batches(AT_ONCE) if isinstance(given, pa.Table) else [given])
        if sum(map(len, waiting)) >= AT_ONCE:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(n) for batch in batches]) for n in range(len(SCHEMA))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

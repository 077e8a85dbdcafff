"""`check(batches)`: the verdict on a history, on this machine, in bounded memory.

The same rules over a cluster: `keylane.spark.history`. What the rows are: `rows`; what the rules say: `records`,
`order` and `lanes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from keylane.testing.history.buckets import BUDGET, opened
from keylane.testing.history.found import Found, Settings, Verdict, added, verdict_of
from keylane.testing.history.judgements import JUDGEMENTS
from keylane.testing.history.rows import SCHEMA, normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from keylane.testing.history.buckets import Buckets
    from keylane.testing.history.judgements import Judgement

__all__ = ["check"]

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
    with opened(JUDGEMENTS, budget) as buckets:
        for batch in _sized(batches):
            for one in buckets:
                one.add(batch)
        return verdict_of(added(_judged(buckets, given), given.keep), given)


def _judged(buckets: list[Buckets], settings: Settings) -> Iterator[Found]:
    for judgement, of_it in zip(JUDGEMENTS, buckets, strict=True):
        yield added((_judge(judgement, table, settings) for table in of_it.tables()), settings.keep)


def _judge(judgement: Judgement, table: pa.Table, settings: Settings) -> Found:
    return judgement.judge(table.combine_chunks(), settings)


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

"""The names that a route into messages uses: the headers of its records, and the stream of its dead letters.

`Delivery.java` spells the first header for itself, and `spark.messages`, which is below this package, the prefix of a
dead letter's. Who writes them: `pipelines.route`. Who reads them: `chunks`. What they mean: docs/kafka.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from keylane.systems.messages.chunks import Writer

#: Of every record, in this order, after its own.
SOURCE: Final = "keylane.source"
CONTRACT: Final = "keylane.contract"
EPOCH: Final = "keylane.epoch"
#: Of every record of a batch that is written again, at least once; after the others.
ATTEMPT: Final = "keylane.attempt"
#: Of a record that its producer also writes to the new stream of a mirror; before the others.
KEPT: Final = "keylane.kept"
#: Of a dead letter: how the names of all that it gets begin, and why it is one.
DEAD_PREFIX: Final = "__keylane.errors."
REASON: Final = "__keylane.errors.reason"


def dead_topic(target: str) -> str:
    """Where dead letters of a route into this topic go, by default."""
    return f"{target}.dlq"


# The headers of a target's records as columns: the source of each, and its writer.


def origin(values: list[bytes | None]) -> tuple[pa.Array, pa.Array]:
    """`topic/partition/offset` or `file/row`, split at the last slash; null where it is not of that form."""
    texts = texts_of(values)
    pieces = pc.split_pattern(texts, "/", max_splits=1, reverse=True)
    whole = pc.equal(pc.list_value_length(pieces), 2).fill_null(False)
    if not pc.all(whole).as_py():
        pieces = pc.if_else(whole, pieces, pa.scalar([None, None], pieces.type))
    flat = pieces.flatten()
    source, number = flat.take(_every_other(len(texts), 0)), flat.take(_every_other(len(texts), 1))
    return source, _whole_numbers(number)


def texts_of(values: list[bytes | None]) -> pa.Array:
    """Bytes as text; invalid UTF-8 with replacement characters."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value and value.decode("utf-8", "replace") for value in values], pa.string())


def _every_other(rows: int, first: int) -> pa.Array:
    return pa.array(np.arange(first, 2 * rows, 2))


def _whole_numbers(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        fits = pc.match_substring_regex(texts, "^[0-9]{1,18}$").fill_null(False)
        return pc.if_else(fits, texts, pa.scalar(None, pa.string())).cast(pa.int64())


def written_by(numbers: list[int], writers: Iterable[Writer]) -> dict[str, pa.Array]:
    """Contract, epoch and mark of every record. There are few distinct ones."""
    number = pa.array(numbers, pa.int32())
    contracts, epochs, marks = zip(*writers, strict=True)
    return {
        "fingerprint": texts_of(list(contracts)).take(number),
        "epoch": _whole_numbers(texts_of(list(epochs))).take(number),
        "replay": pa.array(marks, pa.bool_()).take(number),
    }

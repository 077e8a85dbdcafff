"""The names that a route into messages uses: the headers of its records, and the stream of its dead letters.

`Delivery.java` spells the first header for itself, and `spark.messages`, which is below this package, the prefix of a
dead letter's. Who writes them: `pipelines.route`. Who reads them: `chunks`. What they mean: docs/kafka.md.

One rule says what is an epoch: `epoch_of`. Headers are anybody's to write, so whatever else stands there is a foreign
header: the record has no epoch, and nothing else about it changes. Of several headers of one name the last counts: it
is what the last route wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.names import MAX_EPOCH

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
#: How much of a foreign header is shown.
_SHOWN: Final = 24
#: Digits of a number that a header may have: what 64 bits hold in any case.
_DIGITS: Final = 18


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
    """Decimal digits; null for all else. A cast alone would take `0x1F` and `-1`, too."""
    if not pc.all(fits := pc.match_substring_regex(texts, f"^[0-9]{{1,{_DIGITS}}}$").fill_null(False)).as_py():
        texts = pc.if_else(fits, texts, pa.scalar(None, pa.string()))
    return texts.cast(pa.int64())


def number_of(text: bytes | None) -> int | None:
    """The number in a header; None where there is none, or more than 64 bits hold.

    >>> number_of(b"17"), number_of(b"-1"), number_of(b"9" * 5_000), number_of(None)
    (17, None, None, None)
    """
    return int(text) if text and len(text) <= _DIGITS and text.isdigit() else None


def epoch_of(text: bytes | None) -> int | None:
    """The epoch of a contract in the header `keylane.epoch`; None without the header, or where it is a foreign one.

    >>> epoch_of(b"2"), epoch_of(b"0"), epoch_of(b"-1"), epoch_of(b"02"), epoch_of(b"9" * 5_000), epoch_of(None)
    (2, None, None, None, None, None)
    """
    found = number_of(text)
    return found if found and found <= MAX_EPOCH and not (text or b"").startswith(b"0") else None


def foreign_epoch(text: bytes | None) -> str | None:
    """What stands in a header `keylane.epoch` that is no epoch of a contract, cut short; None where there is none.

    >>> foreign_epoch(b"2"), foreign_epoch(b"-1"), foreign_epoch(None)
    (None, "b'-1'", None)
    """
    if text is None or epoch_of(text) is not None:
        return None
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")


def written_by(numbers: list[int], writers: Iterable[Writer]) -> dict[str, pa.Array]:
    """Contract, epoch and mark of every record. There are few distinct ones."""
    number = pa.array(numbers, pa.int32())
    contracts, epochs, marks = zip(*writers, strict=True)
    return {
        "fingerprint": texts_of(list(contracts)).take(number),
        "epoch": pa.array([epoch_of(one) for one in epochs], pa.int64()).take(number),
        "replay": pa.array(marks, pa.bool_()).take(number),
    }


def foreign_epochs(numbers: list[int], writers: Iterable[Writer]) -> pa.Array:
    """What stands in the header of every record that has a foreign epoch; null of all others."""
    return pa.array([foreign_epoch(epoch) for _, epoch, _ in writers], pa.string()).take(pa.array(numbers, pa.int32()))

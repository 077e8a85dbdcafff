"""The rows of a history: which columns there are, what each kind of row must have, and how to make them.

A history is Arrow batches with these columns, in any order; columns that are left out are null. Times are whole numbers
of one clock, whichever that is.

    what        send, read, dead, apply, own or cutover
    writer      who sent the record: a producer, a source partition, a file
    seq         its number there. Writer and seq together name a record; no two sends share them
    outcome     of a send: ok, failed, or unknown (a time-out is unknown, never failed)
    key         the record's key, as bytes
    keyed       whether the key is known: a known key may be null. Without the column: where it is not null
    scope       what is kept in order, and in one lane of a generation. Without the column: the key. Null: nothing is
    generation  of the stream: 0, and one more after each change of contract or lane count. Null is 0
    stream      null for histories of one stream
    lane, offset   where the record was read, was applied from, or what was owned (lane)
    place       where it stands in its lane, in the order in which a reader meets its records; null: as its offset says
    digest      of the record's content (`digests`); null when it is not known
    letter      of a send: the digest that its dead letter has, where that is another
    stamp       the record's own time; null where it has none, or where it is not kept
    epoch       of the writer that wrote it, or of the owner
    replay      whether the record is marked as one that may have been written before; null: not marked
    expected_stream, expected_lane   where the contract puts it; a lane of -1: in none; null: not asked. Of a dead
                letter, any lane is one too many
    who         the consumer that applied, the owner that owned
    t0, t1      begin and end of an apply or of an ownership (null: it still goes on); t0 alone for a cutover

A `dead` row is a record that was set aside with a reason: accounted for, and in no lane. A `cutover` at t0 is the
promise that from then on, and only then, its generation is applied; for one scope, or, when that is null, for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.errors import DataError
from keylane.history.verdict import Rule, Violation
from keylane.keys.arrow_bytes import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

Kind: TypeAlias = Literal["send", "read", "dead", "apply", "own", "cutover"]
KINDS: Final[tuple[Kind, ...]] = ("send", "read", "dead", "apply", "own", "cutover")
SEND, READ, DEAD, APPLY, OWN, CUTOVER = range(6)
#: In the order of what they prove: of two sends of one record the surer outcome counts.
OUTCOMES: Final = ("failed", "unknown", "ok")

#: What the rules see: every column, kinds and outcomes as numbers.
SCHEMA: Final = pa.schema(
    [
        ("what", pa.int8()),
        ("writer", pa.string()),
        ("seq", pa.int64()),
        ("outcome", pa.int8()),
        ("key", pa.binary()),
        ("keyed", pa.bool_()),
        ("scope", pa.binary()),
        ("generation", pa.int32()),
        ("stream", pa.string()),
        ("lane", pa.int32()),
        ("offset", pa.int64()),
        ("place", pa.int64()),
        ("digest", pa.int64()),
        ("letter", pa.int64()),
        ("stamp", pa.int64()),
        ("epoch", pa.int64()),
        ("replay", pa.bool_()),
        ("expected_stream", pa.string()),
        ("expected_lane", pa.int32()),
        ("who", pa.string()),  # of a read: a wrong epoch, under the name of its contract
        ("t0", pa.int64()),
        ("t1", pa.int64()),
    ]
)
#: Columns that must not be null, by kind.
NEEDED: Final[dict[Kind, tuple[str, ...]]] = {
    "send": ("writer", "seq", "outcome"),
    "read": ("writer", "seq", "lane", "offset"),
    "dead": ("writer", "seq"),
    "apply": ("lane", "offset", "t0", "t1"),
    "own": ("lane", "who", "t0"),
    "cutover": ("generation", "t0"),
}


def rows(what: Kind, **columns: Any) -> pa.RecordBatch:
    """Rows of one kind from lists, arrays or single values; a single value stands in every row.

    >>> rows("send", writer="w1", key=[b"a", b"b"], seq=[1, 2], outcome="ok").num_rows
    2
    """
    long = [len(v) for v in columns.values() if not isinstance(v, str | bytes | int | None)]
    count = max(long, default=1)
    arrays = {name: _column(name, value, count) for name, value in columns.items()}
    return pa.RecordBatch.from_pydict({"what": pa.repeat(what, count), **arrays})


def _column(name: str, value: Any, count: int) -> Any:
    if name not in SCHEMA.names:
        raise DataError.of("not a column of a history", got=name, allowed=", ".join(SCHEMA.names))
    if isinstance(value, str | bytes | int | None):
        kind = pa.string() if name == "outcome" else SCHEMA.field(name).type
        return pa.repeat(pa.scalar(value, kind), count)
    return value if isinstance(value, pa.Array | pa.ChunkedArray | np.ndarray) else list(value)


def normal(batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """The batch as the rules see it; refused when a row lacks what its kind must have."""
    if batch.schema.equals(SCHEMA):
        return batch
    unknown = sorted(set(batch.schema.names) - set(SCHEMA.names))
    if unknown or "what" not in batch.schema.names:
        got = ", ".join(unknown) or "no column `what`"
        raise DataError.of("not the columns of a history", got=got, allowed=", ".join(SCHEMA.names))
    found = [_normal_column(batch, field) for field in SCHEMA]
    made = pa.RecordBatch.from_arrays(found, schema=SCHEMA)
    _refuse_gaps(made)
    return made


def _normal_column(batch: Any, field: pa.Field) -> pa.Array:
    name = field.name
    if name not in batch.schema.names:
        if name == "scope" and "key" in batch.schema.names:
            return _normal_column(batch, SCHEMA.field("key"))
        return (
            pa.repeat(pa.scalar(0, field.type), len(batch))
            if name == "generation"
            else pa.nulls(len(batch), field.type)
        )
    column = plain(batch.column(name))
    if name in ("what", "outcome") and not pa.types.is_integer(column.type):
        return _coded(column, KINDS if name == "what" else OUTCOMES, name)
    try:
        typed = column.cast(field.type)
    except pa.ArrowException as error:
        raise DataError.of(f"column {name!r} of a history", got=str(column.type), allowed=str(field.type)) from error
    return typed.fill_null(0) if name == "generation" else typed


def _coded(column: pa.Array, words: tuple[str, ...], name: str) -> pa.Array:
    codes = pc.index_in(column.cast(pa.string()), value_set=pa.array(words)).cast(pa.int8())
    strange = pc.and_(column.is_valid(), codes.is_null())
    if pc.any(strange).as_py():
        got = column.filter(strange)[0].as_py()
        raise DataError.of(f"not a value of a history's {name!r}", got=got, allowed=", ".join(words))
    return codes


def _refuse_gaps(batch: pa.RecordBatch) -> None:
    if batch.column("what").null_count:
        raise DataError.of("a row of a history has no kind", got="null", allowed=", ".join(KINDS))
    what = batch.column("what").to_numpy()
    for code in np.unique(what):
        for name in NEEDED[KINDS[code]]:
            column = batch.column(name)
            if column.null_count and (column.is_null().to_numpy(zero_copy_only=False) & (what == code)).any():
                raise DataError.of(f"a {KINDS[code]} of a history lacks its {name!r}", got="null")


# Vector steps that the rules share: codes for text, where groups begin, running maxima, violations from rows.

#: Bytes of a key that a violation shows.
SHOWN: Final = 80
_NOTHING: Final = {"generation": 0, "stream": "", "writer": ""}
_POSITION: Final = ("generation", "stream", "lane", "offset", "writer", "seq", "key", "scope")


def codes(column: Any) -> Ints:
    """Equal values get equal numbers, null gets -1."""
    indices = plain_codes(column).fill_null(-1)
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)


def plain_codes(column: Any) -> pa.Array:
    """The codes of a column, whether it is in one chunk, in several, or in none."""
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    return column.dictionary_encode().indices


def numbers(column: Any, null: int = -1) -> Ints:
    """A column of whole numbers; `null` where there is none."""
    filled = column.fill_null(null) if column.null_count else column
    return np.asarray(filled.to_numpy(), np.int64)


def kind_of(table: pa.Table) -> Ints:
    """The kind of every row, as its number."""
    return numbers(table.column("what"))


def lane_codes(table: pa.Table) -> Ints:
    """Stream and lane as one number, which sorts as they do: the first of several is the same in every bucket."""
    streams = table.column("stream").fill_null("")
    known = pc.unique(streams).sort()
    stream = pc.index_in(streams, value_set=known).to_numpy(zero_copy_only=False).astype(np.int64)
    return stream << 32 | numbers(table.column("lane"), 0)


def begins(*columns: Ints) -> Mask:
    """Which rows begin a new group, where rows of a group stand together."""
    count = len(columns[0])
    first = np.zeros(count, bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def group_numbers(first: Mask) -> Ints:
    """Number the groups from 0."""
    return np.cumsum(first) - 1


def running_max(values: Ints, first: Mask) -> Ints:
    """The greatest value of the group so far, this row's included."""
    ranked, rank = np.unique(values, return_inverse=True)
    lift = group_numbers(first) * (len(ranked) + 1)
    return ranked[np.maximum.accumulate(rank + lift) - lift]


def shown_key(key: bytes | None) -> str:
    """A key as a person reads it: text where it is text, otherwise hex digits."""
    if key is None:
        return ""
    cut = key[:SHOWN]
    try:
        text = cut.decode("utf-8", "strict" if len(key) <= SHOWN else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    shown = text if text.isprintable() else f"0x{cut.hex()}"
    return shown if len(key) <= SHOWN else f"{shown}…"


def violations(
    rule: Rule, table: pa.Table, rows: NDArray[np.intp], keep: int, detail: str | Callable[[int], str]
) -> tuple[Violation, ...]:
    """The first of these rows by position, as violations; `detail` may look at the row."""
    if not len(rows):
        return ()
    there = [name for name in _POSITION if name in table.schema.names]
    found = table.select(there).take(pa.array(rows)).append_column("row", pa.array(rows))
    if len(found) > keep:
        # By the same values as violations are, so that the first of all buckets are the first of each.
        by = [name for name in there if name not in ("key", "scope")]
        filled = pa.table({name: found[name].fill_null(_NOTHING.get(name, -1)) for name in by})
        order = pc.sort_indices(filled, sort_keys=[(name, "ascending") for name in by])
        found = found.take(order).slice(0, keep)
    return tuple(_violation(rule, one, detail) for one in found.to_pylist())


def _violation(rule: Rule, row: dict[str, Any], detail: str | Callable[[int], str]) -> Violation:
    return Violation(
        rule,
        row.get("generation") or 0,
        row.get("stream") or "",
        -1 if row.get("lane") is None else row["lane"],
        -1 if row.get("offset") is None else row["offset"],
        row.get("writer") or "",
        -1 if row.get("seq") is None else row["seq"],
        shown_key(row["key"] if row.get("key") is not None else row.get("scope")),
        detail if isinstance(detail, str) else detail(row["row"]),
    )

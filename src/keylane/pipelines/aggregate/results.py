"""Results as columns: of what the last step gives as JSON, tables as they are written, with types by query.

    query_id string | window_start, window_end timestamp | the group-by fields | the aggregates | sequence bigint

A file of a batch has the columns of all queries that ever had a result, so that a folder reads as one table; what a
query does not have is null. Where two queries call columns of different types alike, numbers become doubles and
anything else text. A query's columns and their types are known when it is bound to events (`matching`), and are kept
in the state.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from keylane.documents.aggregate import QueryFigures
from keylane.systems.delivery import OutMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.aggregation.query import Aggregate, Query

STAMP: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final = {
    "string": pa.string(),
    # Of a field that no event had yet.
    "void": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": STAMP,
    "timestamp_ntz": STAMP,
    "tinyint": pa.int64(),
    "smallint": pa.int64(),
    "int": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_WIDEST: Final = 38


class ResultRow(NamedTuple):
    """A window of a query and group that is delivered.

    Times are microseconds; `cells` are its group, then its values.
    """

    query: str
    start: int
    end: int
    sequence: int
    events: int
    partials: int
    cells: Sequence[Any]


#: So many results are read at once: their lists are gone before the collector has a look (at every 700th object).
_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class ResultRows:
    """Rows by column, the cells of a row as a plain tuple.

    There may be a hundred thousand in a batch, and Python's collector walks over every object that could be part of a
    cycle again and again: lists and named tuples are, plain tuples of texts and numbers are not.
    """

    query: Sequence[str] = ()
    start: Sequence[int] = ()
    end: Sequence[int] = ()
    sequence: Sequence[int] = ()
    events: Sequence[int] = ()
    partials: Sequence[int] = ()
    cells: Sequence[Sequence[Any]] = ()

    @staticmethod
    def of(texts: Sequence[str]) -> ResultRows:
        """As `Deliver.java` writes them."""
        columns: tuple[list[Any], ...] = tuple([] for _ in ResultRow._fields)
        for at in range(0, len(texts), _AT_ONCE):
            read = zip(*json.loads(f"[{','.join(texts[at : at + _AT_ONCE])}]"), strict=True)
            for column, values in zip(columns, read, strict=True):
                column.extend(map(tuple, values) if column is columns[-1] else values)
        return ResultRows(*columns)

    def __len__(self) -> int:
        """How many."""
        return len(self.query)

    def __iter__(self) -> Iterator[ResultRow]:
        """One after the other."""
        columns = (self.query, self.start, self.end, self.sequence, self.events, self.partials, self.cells)
        return map(ResultRow._make, zip(*columns, strict=True))


def columns_of(query: Query, types: Sequence[str]) -> dict[str, str]:
    """The columns of a query's results with their types, as text; `types` are those that Spark found."""
    found = dict(zip(query.group_by, types, strict=False))
    for aggregate, kind in zip(query.aggregates, types[len(query.group_by) :], strict=True):
        found[aggregate.name] = _type_of(aggregate, kind)
    return found


def _type_of(aggregate: Aggregate, kind: str) -> str:
    if aggregate.kind in {"count", "distinct"}:
        return "bigint"
    if aggregate.kind in {"average", "quantiles"}:
        return "array<double>" if aggregate.is_list else "double"
    if aggregate.kind == "top":
        return f"top<{kind}>"
    if aggregate.kind == "sum":
        decimal = _DECIMAL.fullmatch(kind)
        if decimal:
            return f"decimal({_WIDEST},{decimal[2]})"
        return kind if kind == "void" else "double" if kind in {"float", "double"} else "bigint"
    return kind


def merged(known: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """The columns of a query whose windows may have events of several batches, each with types of its own."""
    return {name: widened(known.get(name, kind), kind) for name, kind in new.items()}


def arrow_type(kind: str) -> pa.DataType:
    """A type of Arrow for a type as text."""
    if kind == "array<double>":
        return pa.list_(pa.float64())
    if kind.startswith("top<"):
        item = pa.struct([("item", arrow_type(kind[4:-1])), ("count", pa.int64())])
        return pa.list_(item)
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _TYPES[kind]


_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


def widened(known: str, new: str) -> str:
    """The type of a column that two queries have, or two batches of one query.

    >>> widened("bigint", "bigint"), widened("bigint", "double"), widened("string", "bigint"), widened("void", "date")
    ('bigint', 'double', 'string', 'date')
    >>> widened("decimal(10,2)", "decimal(8,4)"), widened("decimal(10,2)", "bigint"), widened("top<int>", "top<double>")
    ('decimal(12,4)', 'double', 'top<double>')
    """
    if known == new or "void" in {known, new}:
        return known if new == "void" else new
    if known.startswith("top<") and new.startswith("top<"):
        return f"top<{widened(known[4:-1], new[4:-1])}>"
    decimals = [found for found in (_DECIMAL.fullmatch(known), _DECIMAL.fullmatch(new)) if found]
    if len(decimals) == len((known, new)):
        scale = max(int(one[2]) for one in decimals)
        return f"decimal({min(_WIDEST, scale + max(int(one[1]) - int(one[2]) for one in decimals))},{scale})"
    if {known, new} <= _WHOLE:
        return "bigint"
    are_numbers = all(one in _WHOLE or one in {"float", "double"} or _DECIMAL.fullmatch(one) for one in (known, new))
    return "double" if are_numbers else "string"


def table_of(rows: ResultRows, queries: Mapping[str, Mapping[str, str]]) -> pa.Table:
    """Results as a table; `queries` has the columns of each query, those without a row too."""
    types: dict[str, str] = {}
    for columns in queries.values():
        for name, kind in columns.items():
            types[name] = widened(types[name], kind) if name in types else kind
    made = {}
    for name, kind in types.items():
        at = {query: (list(own).index(name), own[name]) for query, own in queries.items() if name in own}
        column = [
            None if (found := at.get(query)) is None else _value(values[found[0]], found[1], kind)
            for query, values in zip(rows.query, rows.cells, strict=True)
        ]
        made[name] = pa.array(column, arrow_type(kind))
    return pa.table(
        {
            "query_id": pa.array(rows.query, pa.string()),
            "window_start": pa.array(rows.start, STAMP),
            "window_end": pa.array(rows.end, STAMP),
            **made,
            "sequence": pa.array(rows.sequence, pa.int64()),
        }
    )


_LARGEST: Final = 2**63


def _value(given: Any, own: str, kind: str) -> Any:
    """A value of JSON in the type of its column, which is at least as wide as that of the query."""
    # One quantile comes as a list of one.
    value = given[0] if own == "double" and isinstance(given, list) else given
    # A sum beyond 64 bits has no place in its column.
    if value is None or (kind == "bigint" and not -_LARGEST <= value < _LARGEST):
        return None
    if kind == "string" and not isinstance(value, str):
        found = value if own.startswith("top<") else _json_value(given, own if own != "string" else "text")
        return found if isinstance(found, str) else json.dumps(found)
    if kind.startswith("top<"):
        inner = kind[4:-1]
        return [{"item": _value(item, inner, inner), "count": count} for item, count in value]
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return _decimal(value, int(decimal[1]), int(decimal[2]))
    return float(value) if kind == "double" else value


def _decimal(value: str | int, digits: int, scale: int) -> Decimal | None:
    """A decimal of a column; none where it has more digits than the column, as a sum may have."""
    with localcontext(prec=1_000):
        found = Decimal(value).quantize(Decimal(1).scaleb(-scale))
        return found if found.adjusted() < digits - scale else None


def messages_of(rows: ResultRows, queries: Mapping[str, Mapping[str, str]], stream: str) -> list[OutMessage]:
    """Results as messages: the key is the query, the value JSON with the columns of that query, times in ISO form."""
    made = []
    for row in rows:
        own = queries[row.query]
        cells = {name: _json_value(value, kind) for (name, kind), value in zip(own.items(), row.cells, strict=True)}
        document = {"query_id": row.query, "window_start": iso(row.start), "window_end": iso(row.end)}
        text = json.dumps({**document, **cells, "sequence": row.sequence}, ensure_ascii=False)
        made.append(OutMessage(stream, row.query.encode(), text.encode()))
    return made


def _json_value(given: Any, kind: str) -> Any:
    """A value as JSON has it: exact decimals and times as text, and numbers that JSON lacks as their names."""
    value = _value(given, kind, kind)
    if isinstance(value, Decimal):
        return str(value)
    if kind in {"timestamp", "timestamp_ntz"} and value is not None:
        return iso(value)
    if kind == "date" and value is not None:
        return str(np.datetime64(value, "D"))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if kind.startswith("top<") and value is not None:
        return [{**one, "item": _json_value(one["item"], kind[4:-1])} for one in value]
    return value


#: What Python's own times reach: an event may have any time.
_FIRST_YEAR: Final = -62_135_596_800_000_000
_LAST_YEAR: Final = 253_402_300_800_000_000


def iso(micros: int) -> str:
    """A time as text.

    >>> iso(1_700_000_040_000_000)
    '2023-11-14T22:14:00.000000Z'
    >>> iso(-54_000_000_000_000_000)
    '0258-10-23T00:00:00.000000Z'
    >>> iso(-70_000_000_000_000_000)
    '-249-10-15T19:33:20.000000Z'
    """
    if not _FIRST_YEAR <= micros < _LAST_YEAR:
        return f"{np.datetime64(micros, 'us')}Z"
    found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return f"{found.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def micros_of(text: str) -> int:
    """The same back.

    >>> micros_of("2023-11-14T22:14:00.000000Z")
    1700000040000000
    >>> micros_of("-249-10-15T19:33:20.000000Z")
    -70000000000000000
    """
    if not text[:5].rstrip("-").isdecimal() or text[4] != "-":
        return int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def figures_of(queries: Mapping[str, Mapping[str, Any]]) -> list[QueryFigures]:
    """What each query came to, by id, as the counts of a manifest have it."""
    return [
        QueryFigures(
            query_id=name,
            events=known["events"],
            windows=known["windows"],
            dropped=known["dropped"],
            corrected=known["corrected"],
            errors=known["errors"],
            error=known.get("error"),
            unfit=known.get("unfit", False),
        )
        for name, known in sorted(queries.items())
    ]

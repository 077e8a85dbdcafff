"""Fields of JSON texts as Arrow columns: lines of files, and values of messages, by name or path.

What is JSON: `json_object`. The same on Spark: `spark.json_fields` and `spark.read_lines`; tests hold them equal.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from keylane.contract.fields import steps_of
from keylane.errors import UnplacedError
from keylane.keys.arrow_bytes import nulls_of, plain
from keylane.keys.json_object import FractionText, read_object
from keylane.keys.read import column_at, value_at
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from keylane.contract.fields import FieldKind

#: The bytes that a schema registry's serializers write before a value.
_HEADER: Final = 5
_LONGS: Final = range(-(2**63), 2**63)
#: What holds a field of each kind.
ARROW: Final[dict[FieldKind, pa.DataType]] = {
    "text": pa.string(),
    "written": pa.string(),
    "integer": pa.int64(),
    "degrees": pa.float64(),
    "flag": pa.bool_(),
}


def json_columns(
    values: pa.Array, names: Sequence[str], kind: Callable[[str], FieldKind]
) -> tuple[list[pa.Array], list[pa.Array], NDArray[np.bool_]]:
    """The fields, which values lack each, and which cannot be read. Read at once; those with a null, one by one.

    Arrow does not know a null from nothing.
    """
    columns, rows = _json_at_once(values, names, kind), np.ones(len(values), bool)
    if columns is None:
        columns = [pa.nulls(len(values), ARROW[kind(name)]) for name in names]
    else:
        rows = np.logical_or.reduce([nulls_of(column) for column in columns])
    marks, unread = [np.zeros(len(values), bool) for _ in names], np.zeros(len(values), bool)
    if rows.any():
        read = [_json_row(value, names, kind) for value in values.filter(pa.array(rows)).to_pylist()]
        unread[rows] = [row is None for row in read]
        known = [row or [(None, False)] * len(names) for row in read]
        for n, name in enumerate(names):
            again = pa.array([row[n][0] for row in known], ARROW[kind(name)])
            columns[n] = pc.replace_with_mask(columns[n], pa.array(rows), again)
            marks[n][rows] = [row[n][1] for row in known]
    return columns, [pa.array(mark) for mark in marks], unread


#: What Arrow is given at once: values within these are within all bounds of `keys.json_object`.
_SHORT, _FEW_BRACKETS = 1000, 100


def _json_at_once(values: pa.Array, names: Sequence[str], kind: Callable[[str], FieldKind]) -> list[pa.Array] | None:
    """All values as lines of one text, which Arrow parses; None unless each looks like an object on one line.

    Arrow knows no lines, only objects one after the other. A brace that closes and then one that opens can stand only
    between two objects. So where every line has braces at both ends, each holds whole objects; and as many objects as
    lines are one in each. Without these braces one value could leave open what another closes.
    """
    if values.null_count or not len(values):
        return None
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    if not _are_plain(texts):
        return None
    if any(pc.any(pc.match_substring(texts, f'"{name}"')).as_py() for name in names if len(steps_of(name)) > 1):
        # A field whose own name is that of the path: each record decides.
        return None
    schema = _schema_of([(steps_of(name), ARROW[kind(name)]) for name in names])
    how = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    text = pa.py_buffer("\n".join(texts.to_pylist()).encode())
    try:
        options = arrow_json.ReadOptions(use_threads=False, block_size=max(1 << 20, len(text) + 1))
        found = arrow_json.read_json(pa.BufferReader(text), options, how)
    except pa.ArrowInvalid:
        return None
    return [plain(column_at(found, name)) for name in names] if len(found) == len(values) else None


def _schema_of(paths: Sequence[tuple[Sequence[str], pa.DataType]]) -> pa.Schema:
    """A schema with these fields at their paths."""
    tops = dict.fromkeys(path[0] for path, _ in paths)
    inner = {top: [(path[1:], kind) for path, kind in paths if path[0] == top] for top in tops}
    return pa.schema([(top, _typed_as(rest)) for top, rest in inner.items()])


def _typed_as(paths: Sequence[tuple[Sequence[str], pa.DataType]]) -> pa.DataType:
    whole = [kind for path, kind in paths if not path]
    return whole[0] if whole else pa.struct(list(_schema_of(paths)))


def _are_plain(texts: pa.Array) -> bool:
    """Whether each text has braces at both ends, is short and on one line, and has nothing that Arrow alone takes."""
    brackets = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    checks = (
        pc.less_equal(pc.binary_length(texts), _SHORT),
        pc.starts_with(texts, "{"),
        pc.ends_with(texts, "}"),
        pc.less_equal(brackets, _FEW_BRACKETS),
        # A line's end, or a number that is none.
        pc.invert(pc.match_substring_regex(texts, r"\n|[:,\[\s-][NI]")),
    )
    return all(pc.all(check).as_py() for check in checks)


def _json_row(
    value: bytes | None, names: Sequence[str], kind: Callable[[str], FieldKind]
) -> list[tuple[Any, bool]] | None:
    """Each field, and whether the value lacks it; None where it cannot be read. A tombstone lacks all."""
    if value is None:
        return [(None, True)] * len(names)
    body = value[_HEADER:] if len(value) > _HEADER and value[0] == 0 else value
    try:
        found = read_object(body)
        return [_json_field(found, name, kind(name)) for name in names]
    except ValueError:
        return None


def _json_field(found: dict[str, Any], name: str, kind: FieldKind) -> tuple[Any, bool]:
    try:
        return _TYPED[kind](value_at(found, name)), False
    except UnplacedError as error:
        if error.reason is Reason.MISSING_FIELD:
            return None, True
        raise ValueError(name) from None


def whole(value: Any) -> int | None:
    """A whole number of 64 bits, or null; a ValueError for anything else."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value in _LONGS):
        return value
    raise ValueError(value)


def _float(value: Any) -> float | None:
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int | FractionText) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return inf if int(value) > 0 else -inf
    raise ValueError(value)


def _as_text(value: Any) -> str | None:
    """Text, or a whole number in its digits; as every client's serializer of text would write it."""
    if value is None or (isinstance(value, str) and not isinstance(value, FractionText)):
        return value
    return str(whole(value))


def _flag(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ValueError(value)


#: A value of JSON as its column holds it; a ValueError where it cannot.
_TYPED: Final[dict[FieldKind, Callable[[Any], Any]]] = {
    "text": _as_text,
    "written": lambda value: None if value is None else str(value),
    "integer": whole,
    "degrees": _float,
    "flag": _flag,
}

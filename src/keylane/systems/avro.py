"""A few fields out of Avro values, by the schema they were written with. Everything else is passed over, not built.

`reader(schema, names)` gives a function from the bytes of a value to its fields, in the order of the names; it raises
ValueError for bytes that the schema does not fit. The whole value has to fit, to its last byte: a value that was
written with another schema is rather refused than misread. Values of fields: text, whole numbers, bytes, enums as their
text; null where a union says so. Which bytes come before a value: `values`.

>>> import json
>>> schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "k", "type": "string"}]}
>>> reader(json.dumps(schema), ["k"])(bytes([4, 2]) + b"a")
('a',)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import DataError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Bytes and a place in them -> a value, and the place after it.
    Step = Callable[[bytes, int], tuple[Any, int]]

__all__ = ["reader", "varint"]

_FIXED: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_KEYS: Final = ("string", "bytes", "int", "long", "enum", "fixed", "null")


def reader(schema: str, names: Sequence[str]) -> Callable[[bytes], tuple[Any, ...]]:
    """A function that reads these fields of a record."""
    tree = _parsed(schema)
    known: dict[str, Step] = {}
    fields = {field["name"]: field["type"] for field in tree["fields"]}
    for name in names:
        if name not in fields:
            raise UnknownNameError.among("field of the Avro schema", name, list(fields))
    steps = [(names.index(name) if name in names else None, _step(kind, known)) for name, kind in fields.items()]

    def read(value: bytes) -> tuple[Any, ...]:
        out: list[Any] = [None] * len(names)
        at = 0
        for index, step in steps:
            found, at = step(value, at)
            if index is not None:
                out[index] = found
        if at != len(value):
            raise ValueError("bytes are left over")
        return tuple(out)

    return read


def _parsed(schema: str) -> dict[str, Any]:
    try:
        tree = json.loads(schema)
    except ValueError as error:
        raise DataError.of("not an Avro schema", got=str(error)) from None
    if not isinstance(tree, dict) or tree.get("type") != "record":
        raise DataError.of("not the Avro schema of a record", allowed='{"type": "record", "fields": [...]}')
    return tree


def _step(kind: Any, known: dict[str, Step]) -> Step:
    """How a value of this type is read. Named types are kept, for they may be named again, also inside themselves."""
    if isinstance(kind, list):
        return _union([_step(branch, known) for branch in kind])
    if isinstance(kind, str):
        return _simple(kind, known)
    name = kind.get("name")
    if name is not None:
        known[name] = lambda value, at: made(value, at)  # noqa: PLW0108  `made` is made below, maybe with this in it
    made = _complex(kind, known)
    return made


def _simple(kind: str, known: dict[str, Step]) -> Step:
    if kind in _FIXED:
        return _fixed(_FIXED[kind])
    plain: dict[str, Step] = {"int": varint, "long": varint, "bytes": _bytes, "string": _text}
    found = plain.get(kind) or known.get(kind) or known.get(kind.rpartition(".")[2])
    if found is None:
        raise DataError.of("a type that the Avro schema does not explain", got=kind)
    return found


def _complex(kind: dict[str, Any], known: dict[str, Step]) -> Step:
    form = kind["type"]
    if form == "record":
        return _all([_step(field["type"], known) for field in kind["fields"]])
    if form == "enum":
        return _enum(kind["symbols"])
    if form == "fixed":
        return _fixed(kind["size"])
    if form == "array":
        return _blocks(_step(kind["items"], known))
    if form == "map":
        return _blocks(_all([_text, _step(kind["values"], known)]))
    return _step(form, known)


def varint(value: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag order, seven bits to a byte, and the place after it: Avro's long, and a registry's index."""
    number = shift = 0
    while True:
        if at >= len(value) or shift > 63:
            raise ValueError("a number does not end")
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _bytes(value: bytes, at: int) -> tuple[bytes, int]:
    size, at = varint(value, at)
    if size < 0 or at + size > len(value):
        raise ValueError("bytes are missing")
    return value[at : at + size], at + size


def _text(value: bytes, at: int) -> tuple[str, int]:
    found, at = _bytes(value, at)
    return found.decode("utf-8"), at


def _fixed(size: int) -> Step:
    def step(value: bytes, at: int) -> tuple[Any, int]:
        if at + size > len(value):
            raise ValueError("bytes are missing")
        return (value[at : at + size] if size > 8 else None), at + size

    return step


def _union(branches: Sequence[Step]) -> Step:
    def step(value: bytes, at: int) -> tuple[Any, int]:
        index, at = varint(value, at)
        if not 0 <= index < len(branches):
            raise ValueError("no such branch")
        return branches[index](value, at)

    return step


def _enum(symbols: Sequence[str]) -> Step:
    def step(value: bytes, at: int) -> tuple[str, int]:
        index, at = varint(value, at)
        if not 0 <= index < len(symbols):
            raise ValueError("no such symbol")
        return symbols[index], at

    return step


def _all(steps: Sequence[Step]) -> Step:
    def step(value: bytes, at: int) -> tuple[None, int]:
        for one in steps:
            _, at = one(value, at)
        return None, at

    return step


def _blocks(item: Step) -> Step:
    def step(value: bytes, at: int) -> tuple[None, int]:
        while True:
            count, at = varint(value, at)
            if count == 0:
                return None, at
            if count < 0:
                size, at = varint(value, at)
                at, count = at + size, 0
            for _ in range(count):
                _, at = item(value, at)

    return step

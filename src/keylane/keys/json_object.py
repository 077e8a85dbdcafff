"""What keylane reads as a JSON object, and what it does not: the bounds, and a reader in Python.

A text is one object of strict JSON (RFC 8259) in valid UTF-8, with nothing behind it. Of two values of one name the
last counts. Every reader of JSON has bounds of its own, where others crash or read on; so that a text that one reader
of keylane refuses is refused by all, they are here. `spark.read_lines` has the same rules as an expression, and
`tests/spark/test_topic_fields.py` holds the two equal.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

__all__ = [
    "HALF_CHARACTER",
    "MOST_DIGITS",
    "MOST_IN_NAME",
    "MOST_LEVELS",
    "NAMELESS",
    "STRING",
    "STRING_BUT_EMPTY",
    "FractionText",
    "has_empty_name",
    "read_object",
]

#: Levels of arrays and objects; digits of one number; characters of one name, in units of UTF-16.
MOST_LEVELS: Final = 200
MOST_DIGITS: Final = 1000
MOST_IN_NAME: Final = 50_000

_HIGH, _LOW = r"\\u[dD][89aAbB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
#: An escape of half a character, which no text in UTF-8 can hold. Read the same by Python and Java.
HALF_CHARACTER: Final = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"
_HALF: Final = re.compile(HALF_CHARACTER)
#: A string, also one that does not end: otherwise each escaped quote in it would be tried as the begin of another, in
#: the square of its length. Nothing in it is tried twice: Java's patterns use up the stack where they go back.
STRING: Final = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_STRINGS: Final = re.compile(STRING)
#: The same, and one quote of an empty string is its group: put in its place, it is all that is left of strings.
STRING_BUT_EMPTY: Final = r'(?s)"(?:(")|[^"\\]*+(?:\\.[^"\\]*+)*+"?)'
_STRINGS_BUT_EMPTY: Final = re.compile(STRING_BUT_EMPTY)
#: A field with the empty name, in what is left. Most texts have none before that, and need no second look.
NAMELESS: Final = r'"[ \t\r\n]*+:'
_NAMELESS: Final = re.compile(NAMELESS)
_BRACKETS: Final = re.compile(r"[\[\]{}]")
_BLANK: Final = " \t\r\n"


class FractionText(str):
    """A number with a fraction or an exponent, as it is written: a float would have other digits."""

    __slots__ = ()


def read_object(text: bytes) -> dict[str, Any]:
    """The object that a text is; a ValueError, and nothing else, where it is not one."""
    body = text.decode("utf-8").strip(_BLANK)
    if not body.startswith("{"):
        raise ValueError("not an object")
    _check_levels(body)
    if "\\u" in body and _HALF.search(body):
        raise ValueError("an escape of half a character")
    reader = _READER if len(body) <= MOST_IN_NAME else _READER_OF_NAMES
    found: dict[str, Any] = reader.decode(body)
    return found


def has_empty_name(text: bytes) -> bool:
    """Whether an object has, at any level, a field with the empty name: JSON, but no column can be called so."""
    body = text.decode("utf-8", "replace")
    return '""' in body and _NAMELESS.search(_STRINGS_BUT_EMPTY.sub(r"\1", body)) is not None


def _check_levels(body: str) -> None:
    """Before anything is read: a reader in C may end the process, or fail at a depth that its caller decides."""
    if body.count("[") + body.count("{") <= MOST_LEVELS:
        return
    level = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub("", body)):
        level += 1 if bracket[0] in "[{" else -1
        if level > MOST_LEVELS:
            raise ValueError("nested too deep")


def _whole(text: str) -> int:
    if len(text) - text.startswith("-") > MOST_DIGITS:
        raise ValueError("a number is too long")
    return int(text)


def _fraction(text: str) -> FractionText:
    if sum(map(str.isdigit, text)) > MOST_DIGITS:
        raise ValueError("a number is too long")
    return FractionText(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _named(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if any(len(name) > MOST_IN_NAME // 2 and len(name.encode("utf-16-le")) // 2 > MOST_IN_NAME for name, _ in pairs):
        raise ValueError("a name is too long")
    return dict(pairs)


_HOOKS: Final[dict[str, Any]] = {"parse_int": _whole, "parse_float": _fraction, "parse_constant": _no_number}
_READER: Final = json.JSONDecoder(**_HOOKS)
_READER_OF_NAMES: Final = json.JSONDecoder(**_HOOKS, object_pairs_hook=_named)

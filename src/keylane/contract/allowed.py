"""What a field takes, in the words of its file: from the JSON Schema, for errors. The fields: `model`; files: `parse`.

A parser's own words ("a valid tuple") name its types, not what to write; so nothing of them is printed.

    allowed_at   the part of a schema that a path leads to  -> "a whole number from 1 to 100,000, or live"
    shown        a value as it is in the file               -> nothing, true, [1, 2]
    near_in      a closed list of words and a typo          -> did you mean 'live'?
"""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.shards import HASH_KEY_FORM, HASH_KEY_PATTERN
from keylane.errors import did_you_mean, shorten
from keylane.numbers import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Schema = Mapping[str, Any]

#: Rules of text in words; a pattern without an entry is printed as it is.
PATTERNS: Final = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,248}$": "a name of letters, digits, '.', '_' and '-', up to 249 characters",
    r"^([1-9][0-9]{0,8}(ms|s)|[1-9][0-9]{0,6}m|[1-9][0-9]{0,5}h|[1-9][0-9]{0,4}d)$": "a length of time, as 500ms, 30s, "
    "5m, 1h or 1d",
    HASH_KEY_PATTERN: f"a hash key, {HASH_KEY_FORM}",
    r"^[0-9a-f]{64}$": "64 hexadecimal digits in lower case",
}
#: How alike a word must be to one of a list, where something else than a word is allowed too.
ALIKE: Final = 0.75
#: A value that a hint repeats.
_SHORT: Final = 40


def allowed_at(schema: Schema, path: Iterable[str | int]) -> str:
    """What is taken where a path leads to; empty where it leads out of the schema.

    >>> allowed_at({"properties": {"n": {"type": "integer", "minimum": 1}}}, ["n"])
    'a whole number of at least 1'
    """
    return _joined(_either(list(_reached(schema, path)), schema))


def near_in(schema: Schema, path: Iterable[str | int], value: object) -> str:
    """What was probably meant: a word of a closed list, a number without its quotes, a list of one; empty otherwise."""
    parts = [one for part in _reached(schema, path) for one in _members(part, schema)]
    kinds = {one.get("type") for one in parts}
    if kinds == {"array"} and isinstance(value, str | int) and not isinstance(value, bool):
        return f"[{value}]" if len(str(value)) <= _SHORT else "put it in [ ]"
    if kinds == {"string"} and isinstance(value, int | float) and not any(map(_words, parts)):
        return "put it in quotes"
    if not isinstance(value, str) or not value:
        return ""
    if kinds & {"integer", "number"} and _is_number(value):
        return "leave out the quotes"
    words = [word for one in parts for word in _words(one)]
    others = any(not _words(one) and one.get("type") not in {"null", "array"} for one in parts)
    known = [word for word in words if not others or _likeness(value, word) >= ALIKE]
    return did_you_mean(value, known)


def shown(value: object) -> str:
    """A value as its file has it.

    >>> [shown(value) for value in (None, True, "a", 1.5, [1, None], {"a": 1})]
    ['nothing', 'true', "'a'", '1.5', '[1, null]', '{"a": 1}']
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool | list | dict):
        text = json.dumps(value, ensure_ascii=False, default=str)
        return text if len(text) <= 123 else f"{text[:120]}…"
    return shorten(value)


def _reached(schema: Schema, path: Iterable[str | int]) -> Iterator[Schema]:
    """The parts that a path leads to: several, where a union has several members with such a part."""
    found = [schema]
    for step in path:
        found = [inner for part in found for one in _members(part, schema) for inner in _inside(one, step)]
    yield from found


def _inside(part: Schema, step: str | int) -> Iterator[Schema]:
    if isinstance(step, int) and part.get("type") == "array":
        first = part.get("prefixItems", [])
        if step < len(first) or "items" in part:
            yield first[step] if step < len(first) else part["items"]
    elif step in part.get("properties", {}):
        yield part["properties"][step]
    elif isinstance(part.get("additionalProperties"), dict):
        yield part["additionalProperties"]


def _members(part: Schema, schema: Schema) -> Iterator[Schema]:
    """A part itself, or those of a union, references resolved; null is left out, since nobody writes it."""
    if "$ref" in part:
        yield from _members(schema["$defs"][part["$ref"].rpartition("/")[2]], schema)
    elif "anyOf" in part:
        for one in part["anyOf"]:
            yield from _members(one, schema)
    elif part.get("type") != "null":
        yield part


def _either(parts: list[Schema], schema: Schema) -> list[str]:
    members = [one for part in parts for one in _members(part, schema)]
    lists = [one for one in members if one.get("type") == "array"]
    single = dict.fromkeys(_described(one, schema) for one in members if one not in lists)
    # `encoding: utf8` or a list of such: the entries are those just named.
    several = dict.fromkeys(_list(one, schema, known=list(single)) for one in lists)
    return [*single, *several]


def _joined(ways: list[str]) -> str:
    """Ways to write a value, as a sentence has them.

    >>> [_joined(["a number", "live"]), _joined(["a, b or c", "a list of these"])]
    ['a number or live', 'a, b or c, or a list of these']
    """
    return (", or " if any(", " in one or " or " in one for one in ways) else " or ").join(ways)


def _described(part: Schema, schema: Schema) -> str:
    words = _words(part)
    if words:
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    kind = part.get("type")
    if isinstance(kind, list):
        return " or ".join(_described({**part, "type": one}, schema) for one in kind if one != "null")
    match kind:
        case "integer" | "number":
            found = f"a {'whole ' if kind == 'integer' else ''}number{_range(part)}"
        case "boolean":
            found = "true or false"
        case "string":
            found = _text(part)
        case "array":
            found = _list(part, schema)
        case _:
            found = _mapping(part, schema)
    return found


def _words(part: Schema) -> list[str]:
    return [str(one) for one in (part["enum"] if "enum" in part else [part["const"]] if "const" in part else [])]


def _range(part: Schema) -> str:
    """The bounds of a number.

    >>> [_range(one) for one in ({"minimum": 0, "maximum": 1}, {"exclusiveMinimum": 0, "maximum": 1}, {"maximum": 9})]
    [' from 0 to 1', ' above 0, at most 1', ' of at most 9']
    """
    low, high = part.get("minimum"), part.get("maximum")
    if "exclusiveMaximum" in part and part.get("type") == "integer":
        high = part["exclusiveMaximum"] - 1
    if (low, high) == (-(2**63), 2**63 - 1):
        return " of 64 bits"
    if "exclusiveMinimum" in part:
        return f" above {_number(part['exclusiveMinimum'])}" + ("" if high is None else f", at most {_number(high)}")
    if low is not None and high is not None:
        return f" from {_number(low)} to {_number(high)}"
    if low is not None:
        return f" of at least {_number(low)}"
    return "" if high is None else f" of at most {_number(high)}"


def _number(value: float) -> str:
    return count(int(value)) if float(value).is_integer() else f"{value:g}"


def _text(part: Schema) -> str:
    if "pattern" in part:
        return PATTERNS.get(part["pattern"], f"text of the form {part['pattern']}")
    sizes = _size(part.get("minLength"), part.get("maxLength"))
    return f"text of {sizes} characters" if sizes else "text"


def _size(least: int | None, most: int | None) -> str:
    """How many characters or entries.

    >>> [_size(1, None), _size(None, 16), _size(1, 16), _size(4, 4), _size(None, None)]
    ['at least 1', 'at most 16', '1 to 16', '4', '']
    """
    if least == most:
        return "" if least is None else count(least)
    if not least or most is None:
        return f"at most {count(most)}" if most is not None else f"at least {count(least or 0)}"
    return f"{count(least)} to {count(most)}"


def _list(part: Schema, schema: Schema, known: list[str] | None = None) -> str:
    sizes = _size(part.get("minItems"), part.get("maxItems"))
    items = part["prefixItems"][:1] if part.get("prefixItems") else [part["items"]] if part.get("items") else []
    each = _either(items, schema)
    if each and each == known:
        return f"a list of {sizes} of these".replace("of  of", "of")
    kinds = f", each {_joined(each)}" if each else ""
    return (f"a list of {sizes} entries" if sizes else "a list") + kinds


def _mapping(part: Schema, schema: Schema) -> str:
    if part.get("properties"):
        return f"a mapping with the fields {', '.join(part['properties'])}"
    values = part.get("additionalProperties")
    kinds = f" to {_joined(_either([values], schema))}" if isinstance(values, dict) and values else ""
    return f"a mapping of names{kinds}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip()[-1:].isdigit()


def _likeness(value: str, word: str) -> float:
    return SequenceMatcher(None, value.lower(), word.lower()).ratio()

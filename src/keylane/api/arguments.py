"""The arguments of a verb, compared with what its signature says, before anything is read or started.

The annotations are the rule: an argument whose annotation is made of the words in `_WORDS` takes these and nothing
else. Choices (`engine`, `mode`) and contracts are checked where they are used, with what they allow.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any, Final, NamedTuple, Protocol

from keylane.errors import ArgumentError, did_you_mean


class ArrowStream(Protocol):
    """A table, reader or frame of any library that hands over Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What Arrow takes it over by."""


class _Word(NamedTuple):
    """A word of an annotation: which values fit it, and what an error calls them."""

    fits: Callable[[Any], bool]
    name: str


def _is_whole(value: Any) -> bool:
    """A whole number of Python's or NumPy's; True is no count."""
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _is_options(value: Any) -> bool:
    return _is_named(value, "StreamOptions")


def _is_profile(value: Any) -> bool:
    return _is_named(value, "ProfileDocument")


def _is_named(value: Any, name: str) -> bool:
    # By name: the class is not imported before a verb runs.
    return any(one.__name__ == name for one in type(value).__mro__)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_whole, value))


_WORDS: Final = {
    "None": _Word(lambda value: value is None, "None"),
    "str": _Word(lambda value: isinstance(value, str), "text"),
    "int": _Word(_is_whole, "a whole number"),
    "float": _Word(lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number"),
    # The text "no" is true, and would show keys that nobody wanted to be shown.
    "bool": _Word(lambda value: isinstance(value, bool), "True or False"),
    "Source": _Word(lambda value: isinstance(value, str | os.PathLike), "a path or an address"),
    "StreamOptions": _Word(_is_options, "keylane.StreamOptions"),
    "ProfileDocument": _Word(_is_profile, "what keylane.profile returned with out"),
    "OnProgress": _Word(callable, "a function of one keylane.Progress"),
    "Mapping[str, str]": _Word(lambda value: isinstance(value, Mapping), "a mapping of texts"),
    "Sequence[str]": _Word(_is_texts, "a list of texts"),
    "Sequence[GivenContract]": _Word(lambda value: isinstance(value, list | tuple), "a list of contracts"),
    "tuple[int, int]": _Word(_is_pair, "a pair of whole numbers"),
}


def check_arguments(verb: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse an argument that a verb does not have, and a value of a type that it does not take."""
    code: Any = verb.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name in named:
        if name not in known:
            what, hint = f"{verb.__name__} has no such argument", did_you_mean(name, known)
            raise ArgumentError.of(what, got=name, allowed=", ".join(known), hint=hint)
    for name, value in (*zip(known[: code.co_argcount], given, strict=False), *named.items()):
        check_type(verb.__name__, name, value, verb.__annotations__[name])


def check_type(verb: str, name: str, value: Any, annotation: str) -> None:
    """Refuse a value that is nothing of what an annotation lists.

    >>> check_type("plan", "lanes", (8, 16), "int | tuple[int, int] | None")
    >>> check_type("init", "out", 3, "Source | None")
    Traceback (most recent call last):
    ...
    keylane.errors.ArgumentError: out of init is of a wrong type: got int 3; allowed: a path or an address, None
    """
    is_key = (verb, name) == ("explain", "key")
    if (isinstance(value, str) and not value and not is_key) or (isinstance(value, float) and not isfinite(value)):
        raise ArgumentError.of(f"{name} of {verb} is none", got=value, hint=f"leave {name} out")
    words = [_WORDS.get(word) for word in annotation.split(" | ")]
    known = [word for word in words if word is not None]
    if len(known) < len(words) or any(word.fits(value) for word in known):
        return
    allowed = ", ".join(word.name for word in known)
    got = f"{type(value).__name__} {value!r}"
    raise ArgumentError(f"{name} of {verb} is of a wrong type: got {got[:80]}; allowed: {allowed}")


def check_one_key(key: Any) -> None:
    """Refuse several keys where one is taken, with what takes several."""
    if isinstance(key, list | tuple | set):
        hint = "[explain(key, ...) for key in keys]; for lanes alone, Router(contract).lanes_of_keys(keys)"
        raise ArgumentError.of("one key at a time", got=type(key).__name__, allowed="a key, or a record", hint=hint)


def saved_or_path(source: Any) -> str:
    """Where a profile that was made before is saved: its document has the heaviest keys only. Otherwise the source."""
    if not _is_profile(source):
        return os.fspath(source)
    if source.profile is None:
        hint = "profile(..., out='payments.profile') saves it; or give plan the source itself"
        raise ArgumentError.of("this profile was not saved", got=source.source, hint=hint)
    return str(source.profile)

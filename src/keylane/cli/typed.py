"""What was typed on a command line as the values that keys and records hold. Used by `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from keylane.errors import UnplacedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.contract.model import Contract

__all__ = ["key_bytes", "record_of"]


def key_bytes(text: str, encoding: str) -> bytes:
    """The bytes of a typed key; raw bytes are typed as hex digits."""
    from keylane.keys.encode import ENCODERS

    try:
        return ENCODERS[encoding](_value(text, encoding))
    except UnplacedError as error:
        raise UsageError(str(error)) from None


def _value(text: str, encoding: str) -> Any:
    read, wants = _TYPED.get(encoding, (str, ""))
    try:
        return read(text)
    except ValueError:
        raise UsageError.of(f"not a {encoding} key", got=text, allowed=wants) from None


def _place(text: str) -> Any:
    """LATITUDE,LONGITUDE; or the place's cell."""
    return tuple(map(float, text.split(","))) if "," in text else text


_TYPED: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "raw": (bytes.fromhex, "hex digits"),
    "int32be": (int, "a whole number"),
    "int64be": (int, "a whole number"),
    "place": (_place, "LATITUDE,LONGITUDE, or an H3 cell"),
}


def _degrees(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError.of("not a latitude or longitude", got=text, allowed="a number") from None


def _two(text: str) -> list[str]:
    words = text.split(",")
    if len(words) != 2:
        raise UsageError.of("not a place", got=text, allowed="LATITUDE,LONGITUDE")
    return words


def record_of(contract: Contract, key: str | None, fields: Sequence[str], *, null: bool) -> dict[str, Any]:
    """The record as typed: KEY for a contract of one field, NAME=VALUE for the rest; or null for the whole key."""
    spec = contract.spec.key
    record: dict[str, Any] = dict(map(_pair, fields))
    if key is not None and spec.is_place:
        record |= dict(zip(spec.fields, _two(key), strict=True))
    elif key is not None:
        if len(spec.fields) != 1:
            wanted = " ".join(f"-f {name}=…" for name in spec.fields)
            raise click.UsageError(f"this contract's key has several fields: give {wanted}")
        record[spec.fields[0]] = key
    for name, encoding in zip(spec.fields, spec.encodings, strict=True):
        if name in record:
            record[name] = _degrees(record[name]) if encoding == "place" else _value(record[name], encoding)
    if spec.window and spec.window.field in record:
        record[spec.window.field] = _time(record[spec.window.field])
    return {**record, **dict.fromkeys(spec.fields)} if null else record


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"got {text!r}; allowed: NAME=VALUE", param_hint="--field")
    return name, value


def _time(text: str) -> Any:
    from datetime import datetime

    try:
        return int(text) if text.lstrip("-").isdigit() else datetime.fromisoformat(text)
    except ValueError:
        allowed = "a whole number, or an ISO time"
        raise click.BadParameter(f"got {text!r}; allowed: {allowed}", param_hint="--field") from None

"""One value -> its bytes, by encoding; a location -> the bytes of its home cell.

The same logical key in other bytes is another key, so nothing is coerced quietly. The same rules for whole columns:
`columns`, and `cells` for locations. Which field has which encoding: the contract, read by `read`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from math import inf
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from keylane.errors import UnplacedError, shorten
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.contract.names import Encoding
    from keylane.geo.coordinates import Region

REGISTRY_HEADER: Final = 5
#: More than any coordinate has: what a whole number too large for a float becomes.
FAR: Final = 1e308
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CELL: Final = re.compile(r"[0-9a-fA-F]{15}|0[0-9a-fA-F]{15}")


def malformed(encoding: str, value: object, wants: str) -> UnplacedError:
    """Build the error for a value that this encoding cannot hold."""
    kind = type(value).__name__
    return UnplacedError(f"not a {encoding} key: got {kind} {shorten(value)}; allowed: {wants}", Reason.MALFORMED_KEY)


def encode(value: Any, encoding: Encoding) -> bytes:
    r"""Bytes of one value.

    >>> encode("Zoë", "utf8"), encode(7, "int32be"), encode("8928308280fffff", "h3").hex()
    (b'Zo\xc3\xab', b'\x00\x00\x00\x07', '08928308280fffff')
    """
    return ENCODERS[encoding](value)


def _utf8(value: Any) -> bytes:
    """Text as UTF-8; an integer as its decimal digits, as every client's string serialiser writes it."""
    try:
        if type(value) is str:
            return value.encode()
        if isinstance(value, bytes):
            value.decode()
            return value
        if isinstance(value, str):
            return str.encode(value)
        return b"%d" % _whole(value)
    except (ValueError, TypeError):
        raise malformed("utf8", value, "text without lone surrogates, whole numbers, UTF-8 bytes") from None


def _whole(value: Any) -> int:
    """A whole number of any kind, NumPy's included; not a truth value."""
    if isinstance(value, bool):
        raise TypeError
    return index(value)


def _integer(name: str, width: int) -> Callable[[Any], bytes]:
    def encode_integer(value: Any) -> bytes:
        try:
            return _whole(value).to_bytes(width, "big", signed=True)
        except (OverflowError, TypeError):
            pass
        raise malformed(name, value, f"whole numbers of {width * 8} bits, signed")

    return encode_integer


def _uuid(value: Any) -> bytes:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bytes) and len(value) == 16:
        return value
    if isinstance(value, str) and _UUID.fullmatch(value):
        return bytes.fromhex(value.replace("-", ""))
    raise malformed("uuid", value, "32 hex digits as 8-4-4-4-12, a UUID, or 16 bytes")


def h3_number(value: Any) -> int | None:
    """Read an H3 cell, as a number or as 15 hex digits; None if it has not the form of a cell."""
    number = int(value, 16) if isinstance(value, str) and _CELL.fullmatch(value) else value
    is_number = isinstance(number, int) and not isinstance(number, bool)
    # Bit 63 is zero and the mode, bits 59 to 62, is 1: a cell. Anything finer is known to the package geo.
    return number if is_number and number >> 59 == 1 else None


def _h3(value: Any) -> bytes:
    number = h3_number(value)
    if number is None:
        raise malformed("h3", value, "an H3 cell as a 64-bit number or 15 hex digits")
    return number.to_bytes(8, "big")


def _raw(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise malformed("raw", value, "bytes; hint: encoding: utf8 for text")


def degrees(value: Any) -> float | None:
    """A coordinate as a float: numbers only. None stays None."""
    if value is None or type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise malformed("place", value, "numbers: whole, floating or decimal")
    try:
        return float(value)
    except OverflowError:
        # Only whole numbers and fractions can be too large; a decimal becomes infinite.
        return FAR if abs(value) == value else -FAR
    except ValueError:
        # A signalling NaN, which Python would not have quietly.
        return inf


def home_cell(place: Sequence[Any], region: Region) -> bytes:
    """The bytes of the home cell. Raises UnplacedError with the location's own reason."""
    from keylane.geo.cells import cell_of
    from keylane.geo.coordinates import place_problem

    lat, lng = (None if number is None else region.degrees(number) for number in map(degrees, place))
    problem = place_problem(lat, lng, region)
    if problem is not None or lat is None or lng is None:
        assert problem is not None
        got = shorten(tuple(place))
        allowed = f"a location on the earth{_in(region)}{_hint(lat, lng, region, problem)}"
        raise UnplacedError(f"{problem.replace('-', ' ')}: got {got}; allowed: {allowed}", problem)
    return cell_of(lat, lng).to_bytes(8, "big")


def _hint(lat: float | None, lng: float | None, region: Region, problem: Reason) -> str:
    """What scale the numbers may have, where they are too large for degrees, or for this scale."""
    from keylane.geo.coordinates import scale_hint

    if problem == Reason.PLACE_UNSCALED:
        return "; hint: these numbers are degrees already: leave the scale out"
    if problem != Reason.PLACE_OUT_OF_RANGE or region.scale != 1 or lat is None or lng is None:
        return ""
    hint = scale_hint(lat, lng)
    return f"; hint: {hint}" if hint else ""


def _in(region: Region) -> str:
    from keylane.geo.coordinates import Region

    narrow = replace(region, scale=1.0) != Region()
    inside = f", from {region.south}, {region.west} to {region.north}, {region.east}" if narrow else ""
    return inside if region.scale == 1 else f"{inside}, {region.scale:.17g} to a degree"


def _place(value: Any) -> bytes:
    """A location as one value of a contract or of a command line: a pair of numbers, or its home cell.

    In records it is two fields, which `read` reads.
    """
    from keylane.geo.bits import is_cell
    from keylane.geo.coordinates import EARTH

    if isinstance(value, tuple | list) and len(value) == 2:
        return home_cell(value, EARTH)
    number = h3_number(value)
    if number is None or not is_cell(number):
        raise malformed("place", value, "an H3 cell, or a latitude and a longitude")
    return number.to_bytes(8, "big")


ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "utf8": _utf8,
    "int32be": _integer("int32be", 4),
    "int64be": _integer("int64be", 8),
    "uuid": _uuid,
    "h3": _h3,
    "place": _place,
    "raw": _raw,
}


def strip_registry_header(key: bytes) -> bytes:
    """Drop the zero byte and four-byte schema id that a schema registry's serialiser puts before a key.

    With the header left on, a new schema version moves every key: the id is part of the bytes.
    """
    if len(key) < REGISTRY_HEADER or key[0] != 0:
        raise malformed("registry", key, "a zero byte, a four-byte schema id, then the key")
    return key[REGISTRY_HEADER:]

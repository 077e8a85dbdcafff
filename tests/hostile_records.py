"""Traffic with hostile records in it, by a seed: good ones that must not suffer, and others made to do harm."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tests.hostile_values import JSON_VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

Form = Literal["raw", "json", "avro", "protobuf"]
KEYS: Final = 997
#: How many of a hundred records are hostile.
SHARE: Final = 10
#: Large ones are rare: a run has to send them, too.
_SMALL: Final = tuple(value for value in JSON_VALUES if len(value) < 3000)
_LARGE: Final = tuple(value for value in JSON_VALUES if len(value) >= 3000)
AVRO: Final = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "long"}},
        {"name": "k", "type": ["null", "string"]},
        {"name": "n", "type": "long"},
    ],
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A record to send; `good` is its number where it is good."""

    key: bytes | None
    value: bytes | None
    good: int | None
    time: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def key_of(number: int) -> str:
    """The key of a good record."""
    return f"key-{number % KEYS}"


def zigzag(number: int) -> bytes:
    """An Avro long."""
    left, out = (number << 1) ^ (number >> 63), b""
    while left > 0x7F:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


def good_value(form: Form, number: int) -> bytes:
    """A value of this form, with the fields `k` and `n`."""
    key = key_of(number).encode()
    if form == "avro":
        tags = zigzag(1) + zigzag(1) + b"t" + zigzag(0)
        return tags + zigzag(0) + zigzag(1) + zigzag(len(key)) + key + zigzag(number)
    if form == "protobuf":
        return b"\x0a" + bytes([len(key)]) + key + b"\x10" + _varint(number)
    return json.dumps({"k": key.decode(), "n": number, "note": "ü" * (number % 5)}).encode()


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def traffic(form: Form, count: int, chance: Random, now: int, *, large: float = 0.01) -> Iterator[Sent]:
    """So many records, of which some are hostile: in their value, key, time or headers."""
    for number in range(count):
        value, key = good_value(form, number), key_of(number).encode()
        if chance.randrange(100) >= SHARE:
            yield Sent(key, value, number)
            continue
        spoilt = chance.randrange(10)
        if spoilt == 0:
            yield Sent(key, value, None, chance.choice([-1, -2, -(10**12), now + 10**10, 10**15]))
        elif spoilt == 1:
            yield Sent(key, value, None, headers=_odd_headers(chance))
        elif spoilt == 2:
            yield Sent(chance.choice([None, b"", b"\xff\xfe", b"\x00", b"k" * 3000, "é".encode()]), value, None)
        else:
            yield Sent(key, hostile_value(form, value, chance, large=large), None)


def _odd_headers(chance: Random) -> tuple[tuple[str, bytes], ...]:
    several = (
        (("\ufffd", b"x"),),
        (("", b""),),
        (("keylane.source", b"other/0/7"),),
        (("keylane.source", b"\xff"), ("keylane.epoch", b"x")),
        (("__keylane.errors.reason", b"null-key"),),
        tuple((f"h{n}", b"x" * 40) for n in range(700)),
        (("trace", b"\x00" * 30_000),),
    )
    return chance.choice(several)


def hostile_value(form: Form, good: bytes, chance: Random, *, large: float = 0.01) -> bytes | None:
    """A value that somebody else made: spoilt, foreign, or made to do harm."""
    makers: list[Callable[[], bytes | None]] = [
        lambda: None,
        lambda: b"",
        lambda: good[: chance.randrange(len(good))],
        lambda: flipped(good, chance),
        lambda: good + chance.choice([b"\x00", b"}", b"]", b" {}", b"\xff", good]),
        lambda: struct.pack(">bI", 0, chance.randrange(2**32)) + good,
        lambda: chance.randbytes(chance.randrange(1, 60)),
        lambda: chance.choice(_SMALL),
        lambda: chance.choice(_LARGE) if chance.random() < large else chance.choice(_SMALL),
    ]
    if form == "avro":
        counts = [2**62, -(2**62), 2**40, -1, -(2**31)]
        makers += [lambda: zigzag(chance.choice(counts)) + good, lambda: b"\x01\x03", lambda: b"\xff" * 12]
        makers += [lambda: zigzag(1) + zigzag(chance.choice(counts)) + good]
    if form == "protobuf":
        makers += [lambda: b"\x0a" + b"\xff" * 9 + b"\x01" + good, lambda: b"\x0b" * 5000, lambda: b"\x0a\x02\xff\xfe"]
    return chance.choice(makers)()


def flipped(good: bytes, chance: Random) -> bytes:
    """With some bytes replaced, removed or doubled."""
    out = bytearray(good)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out)) if out else 0
        out[at : at + chance.randrange(2)] = chance.choice([b"", b'"', b"\\", b"{", b"[", b"\x00", b"\xff", b"\\ud800"])
    return bytes(out)


def lines(kind: Literal["json", "csv"], count: int, chance: Random) -> list[tuple[bytes, int | None]]:
    """Lines of a file without their ends, each with its number where it is good."""
    out: list[tuple[bytes, int | None]] = []
    for number in range(count):
        good = good_value("json", number) if kind == "json" else f"{key_of(number)},{number},ü".encode()
        if chance.randrange(100) >= SHARE:
            out.append((good, number))
            continue
        made = hostile_value("json", good, chance) if kind == "json" else _hostile_cells(good, chance)
        line = (made or b"").replace(b"\n", b"").replace(b"\r", b"")
        out.append((line, None))
    return out


def _hostile_cells(good: bytes, chance: Random) -> bytes:
    return chance.choice(
        [
            b"",
            b'"' + good,
            good + b'"',
            good + b",1" * chance.choice([1, 50, 30_000 if chance.random() < 0.02 else 2]),
            good[: chance.randrange(len(good))],
            flipped(good, chance),
            b"\xff\xfe," + good,
            b'"a""b","c,d",' + good,
            b"x" * (1_000_000 if chance.random() < 0.002 else 5000) + b",1,2",
            chance.randbytes(chance.randrange(1, 40)),
        ]
    )

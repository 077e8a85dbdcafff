"""Every named partitioner over the keys that have caused trouble, and the ranges of the 128-bit key space."""

from __future__ import annotations

from typing import Any

from tests.parity.cases.case import Case, key, of

from keylane.contract.names import PARTITIONERS
from keylane.contract.partitioners import FACTS

TEXTS = [
    *("", None, "a", "abc", "abcd", "TT0124", "polygenelubricants", "1468509572224", "merchant_000042", "x" * 37),
    *("Zoë", "天地", "ß" * 7, "\u00e9", "e\u0301", "\x00", "😀", "a😀b", "👩‍👩‍👧", "\U0010ffff", " ", "\ufeff"),
]
BYTES = [
    *(b"", None, b"\x00", b"\x80", b"\xff", b"\xff" * 5, b"\x7f\x80\x81", bytes(range(256)), "Zoë".encode(), b"ok"),
    *(b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80"),
]
LONGS = [0, 1, -1, 7, 255, -256, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**62 + 12345, 2**63 - 1, -(2**63), None]

FORMS: dict[str, list[Any]] = {"utf8": TEXTS, "raw": BYTES, "int64be": LONGS}


def _every() -> dict[str, Case]:
    """Named after the partitioner, with the encoding where it has taken another already."""
    out: dict[str, Case] = {}
    for name in PARTITIONERS:
        for encoding, values in FORMS.items():
            if encoding in FACTS[name].encodings:
                called = f"{name} {encoding}" if name in out else name
                out[called] = Case({"partitioner": name, "lanes": 15, **key(encoding)}, of(values))
    return out


#: A mebibyte for the hashes that run in C; the others go through Python a byte at a time.
LONG_KEYS = {
    f"keys of {size} bytes, {name}": Case(
        {"partitioner": name}, of(["m" * size, "é" * (size // 2), "m" * (size - 1), "short", None])
    )
    for name, size in {
        "librdkafka-consistent": 2**20,
        "kinesis-md5": 2**20,
        "kafka-java": 2**13,
        "sarama-hash": 2**13,
    }.items()
}

SHARDS = {
    f"{lanes} shards": Case(
        {"partitioner": "kinesis-md5", "lanes": lanes}, of([*map(str, range(300)), "Zoë", "", None])
    )
    for lanes in (1, 2, 7, 64, 256, 257, 4096)
}
SHARDS["100000 shards"] = Case({"partitioner": "kinesis-md5", "lanes": 100_000}, of(["a", "b", "Zoë", "", None]))

CASES = {**_every(), **LONG_KEYS, **SHARDS}

"""How a hash becomes a lane, and how a key becomes bytes: those of clients, and those that people write themselves.

Nothing here comes from keylane. A fold takes hashes as uint64, how many of their bits count, and the lane count; key
bytes are made for one key at a time. Hashes: `hashes`. Which of them are drawn together: `producers`.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]
    Fold = Callable[[Hashes, int, int], NDArray[Any]]

_ONE: Final = np.uint64(1)
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


def _u(number: int) -> np.uint64:
    return np.uint64(number)


def _signed(h: Hashes, bits: int) -> NDArray[np.int64]:
    if bits == 64:
        return h.view(np.int64)
    return np.where(h >> _u(bits - 1), h.astype(np.int64) - (1 << bits), h.astype(np.int64))


def _magnitude(h: Hashes, bits: int) -> Hashes:
    """The absolute value, that of the lowest number included."""
    full = _u((1 << bits) - 1)
    return np.where(h >> _u(bits - 1), (~h & full) + _ONE, h)


def _ranges(h: Hashes, bits: int, n: int) -> NDArray[Any]:
    """Equal ranges of the hash, with 64-bit arithmetic alone."""
    if bits <= 32:
        return h * _u(n) >> _u(bits)
    high, low = h >> _u(32), h & _u(0xFFFFFFFF)
    return (high * _u(n) + (low * _u(n) >> _u(32))) >> _u(32)


def _wide(h: Hashes, bits: int) -> Hashes:
    return h if bits == 64 else (h << _u(32)) | h


def _spread(h: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        h = (h ^ h >> _u(30)) * _u(0xBF58476D1CE4E5B9)
        h = (h ^ h >> _u(27)) * _u(0x94D049BB133111EB)
    return h ^ h >> _u(31)


def _jump(h: Hashes, _: int, n: int) -> NDArray[Any]:
    """Jump consistent hash."""
    key, lane, ahead = h.copy(), np.zeros(len(h), np.int64), np.zeros(len(h), np.int64)
    going = np.ones(len(h), bool)
    while going.any():
        lane = np.where(going, ahead, lane)
        with np.errstate(over="ignore"):
            key = np.where(going, key * _u(2862933555777941757) + _ONE, key)
        stride = float(1 << 31) / ((key >> _u(33)).astype(np.float64) + 1)
        ahead = np.where(going, ((lane + 1) * stride).astype(np.int64), ahead)
        going = ahead < n
    return lane


def _rendezvous(h: Hashes, bits: int, n: int) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        lanes = (np.arange(n, dtype=np.uint64) + _ONE) * _GOLDEN
    return np.argmax(_spread(_wide(h, bits)[:, None] ^ lanes[None, :]), axis=1)


@cache
def _tokens(n: int) -> tuple[Hashes, NDArray[Any]]:
    tokens = _spread(np.arange(n * 40, dtype=np.uint64) + _u(77))
    order = np.argsort(tokens)
    return tokens[order], order // 40


def _ring(h: Hashes, bits: int, n: int) -> NDArray[Any]:
    """A ring of 40 tokens a lane."""
    tokens, lanes = _tokens(n)
    return lanes[np.searchsorted(tokens, _wide(h, bits)) % len(tokens)]


def _fibonacci(h: Hashes, bits: int, n: int) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return _ranges(_wide(h, bits) * _GOLDEN, 64, n)


def _slots(slots: int) -> Fold:
    return lambda h, _, n: h % _u(slots) * _u(n) // _u(slots)


FOLDS: Final[dict[str, Fold]] = {
    # Those of the clients that keylane's contract knows by name.
    "masked": lambda h, bits, n: (h & _u((1 << (bits - 1)) - 1)) % _u(n),
    "unsigned": lambda h, _, n: h % _u(n),
    "absolute": lambda h, bits, n: _magnitude(h, bits) % _u(n),
    "positive": lambda h, bits, n: np.mod(_signed(h, bits), n),
    "ranges": _ranges,
    # Others.
    "low-half": lambda h, bits, n: (h & _u((1 << bits // 2) - 1)) % _u(n),
    "high-half": lambda h, bits, n: (h >> _u(bits // 2)) % _u(n),
    "xor-halves": lambda h, bits, n: ((h ^ h >> _u(bits // 2)) & _u((1 << (bits - 1)) - 1)) % _u(n),
    "low-32-masked": lambda h, _, n: (h & _u(0x7FFFFFFF)) % _u(n),
    "low-32-absolute": lambda h, _, n: _magnitude(h & _u(0xFFFFFFFF), 32) % _u(n),
    "shifted": lambda h, _, n: (h >> _u(1)) % _u(n),
    "multiply-shift": _fibonacci,
    "masked-ranges": lambda h, bits, n: _ranges((h << _ONE) & _u((1 << bits) - 1), bits, n),
    "jump": _jump,
    "rendezvous": _rendezvous,
    "ring": _ring,
    "slots-16384": _slots(16384),
    "slots-1024-modulo": lambda h, _, n: h % _u(1024) % _u(n),
    "prime": lambda h, _, n: h % _u(2147483647) % _u(n),
    "reversed": lambda h, bits, n: _u(n - 1) - (h & _u((1 << (bits - 1)) - 1)) % _u(n),
    "from-one": lambda h, bits, n: ((h & _u((1 << (bits - 1)) - 1)) + _ONE) % _u(n),
    "negative-to-zero": lambda h, bits, n: np.where(h >> _u(bits - 1), _u(0), h % _u(n)),
    "not-the-last": lambda h, bits, n: (h & _u((1 << (bits - 1)) - 1)) % _u(max(1, n - 1)),
}


def _integer(width: int, order: Any) -> Callable[[Any], bytes]:
    return lambda key: int(key).to_bytes(width, order, signed=True)


def _text(key: Any) -> bytes:
    return key if isinstance(key, bytes) else str(key).encode()


def _avro(key: Any) -> bytes:
    """A text in Avro: its length as a zigzag number, then its bytes."""
    data = _text(key)
    length, out = len(data) << 1, b""
    while length > 127:
        out += bytes([length & 127 | 128])
        length >>= 7
    return out + bytes([length]) + data


def _msgpack(key: Any) -> bytes:
    data = _text(key)
    return (bytes([0xA0 | len(data)]) if len(data) < 32 else bytes([0xD9, len(data) & 255])) + data


ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    # Those of keylane's contract.
    "utf8": _text,
    "raw": _text,
    "int32be": _integer(4, "big"),
    "int64be": _integer(8, "big"),
    "uuid": lambda key: bytes.fromhex(key.replace("-", "")),
    "h3": lambda key: int(key, 16).to_bytes(8, "big"),
    # Others.
    "json": lambda key: json.dumps(key if not isinstance(key, bytes) else key.hex()).encode(),
    "quoted": lambda key: b'"' + _text(key) + b'"',
    "lower": lambda key: _text(key).lower(),
    "upper": lambda key: _text(key).upper(),
    "tenant": lambda key: b"acme:" + _text(key),
    "suffix": lambda key: _text(key) + b"#0",
    "no-zeros": lambda key: re.sub(rb"(?<![0-9])0+(?=[0-9])", b"", _text(key)),
    "utf16": lambda key: str(key).encode("utf-16-be"),
    "terminated": lambda key: _text(key) + b"\0",
    "avro": _avro,
    "registry": lambda key: b"\0\0\0\0\x07" + _avro(key),
    "msgpack": _msgpack,
    "base64": lambda key: base64.b64encode(_text(key)),
    "last-four": lambda key: _text(key)[-4:],
    "before-dash": lambda key: re.split(rb"[-_:@/|]", _text(key))[0],
    "int32le": _integer(4, "little"),
    "int64le": _integer(8, "little"),
    "double": lambda key: np.array([key], ">f8").tobytes(),
    "uuid-le": lambda key: uuid.UUID(key).bytes_le,
    "uuid-hex": lambda key: key.replace("-", "").encode(),
    "uuid-high": lambda key: bytes.fromhex(key[:18].replace("-", "")),
    "h3-le": lambda key: int(key, 16).to_bytes(8, "little"),
    "h3-decimal": lambda key: str(int(key, 16)).encode(),
}

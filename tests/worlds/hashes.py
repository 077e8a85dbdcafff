"""Hashes of keys, written again from their definitions: nothing here comes from keylane, so that both may be compared.

`hashed("murmur2", [b"21"])` is an array of uint64; `BITS` says how many of them a hash fills. Every kernel takes the
rows of keys of one length, so that none of them knows about lengths. Folds and key bytes: `producers`.
"""

from __future__ import annotations

import hashlib
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    #: (rows of bytes of one length, seed) -> numbers
    Kernel = Callable[[NDArray[np.uint8], int], NDArray[Any]]

U32: Final = 0xFFFFFFFF
U64: Final = 0xFFFFFFFFFFFFFFFF


def hashed(name: str, keys: Sequence[bytes], seed: int | None = None) -> NDArray[np.uint64]:
    """The hash of each key, unsigned."""
    kernel, _, usual = HASHES[name]
    out = np.zeros(len(keys), np.uint64)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    order = np.argsort(lengths, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        if len(same):
            data = b"".join(keys[at] for at in same.tolist())
            rows = np.frombuffer(data, np.uint8).reshape(len(same), lengths[same[0]])
            with np.errstate(over="ignore"):
                out[same] = kernel(rows, usual if seed is None else seed).astype(np.uint64)
    return out


def _start(rows: NDArray[np.uint8], value: int, kind: type = np.uint32) -> NDArray[Any]:
    return np.full(len(rows), value & (U32 if kind is np.uint32 else U64), kind)


def _words(rows: NDArray[np.uint8], form: str) -> list[NDArray[Any]]:
    """The whole words at the front of every row, in that order of bytes, as native numbers."""
    size = np.dtype(form).itemsize
    whole = rows.shape[1] // size * size
    kind = np.dtype(form).newbyteorder("=")
    return [np.ascontiguousarray(rows[:, at : at + size]).view(form)[:, 0].astype(kind) for at in range(0, whole, size)]


def _rest(rows: NDArray[np.uint8], size: int, kind: type) -> NDArray[Any]:
    """The bytes after the last whole word, little-endian."""
    out: NDArray[Any] = np.zeros(len(rows), kind)
    first = rows.shape[1] // size * size
    for at in range(first, rows.shape[1]):
        out |= rows[:, at].astype(kind) << kind(8 * (at - first))
    return out


def _rotated(h: NDArray[Any], by: int) -> NDArray[Any]:
    width = h.dtype.itemsize * 8
    return h << h.dtype.type(by) | h >> h.dtype.type(width - by)


def _murmur2(rows: NDArray[np.uint8], seed: int, form: str = "<u4") -> NDArray[Any]:
    m = np.uint32(0x5BD1E995)
    h = _start(rows, seed ^ rows.shape[1])
    for word in _words(rows, form):
        k = word * m
        k = (k ^ k >> np.uint32(24)) * m
        h = h * m ^ k
    if rows.shape[1] % 4:
        h = (h ^ _rest(rows, 4, np.uint32)) * m
    h = (h ^ h >> np.uint32(13)) * m
    return h ^ h >> np.uint32(15)


def _murmur2_64(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    m = np.uint64(0xC6A4A7935BD1E995)
    h = _start(rows, seed ^ rows.shape[1] * int(m), np.uint64)
    for word in _words(rows, "<u8"):
        k = word * m
        k = (k ^ k >> np.uint64(47)) * m
        h = (h ^ k) * m
    if rows.shape[1] % 8:
        h = (h ^ _rest(rows, 8, np.uint64)) * m
    h = (h ^ h >> np.uint64(47)) * m
    return h ^ h >> np.uint64(47)


def _mixed3(h: NDArray[Any], k: NDArray[Any]) -> NDArray[Any]:
    h = h ^ _rotated(k * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(h, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _final3(h: NDArray[Any]) -> NDArray[Any]:
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return h ^ h >> np.uint32(16)


def _murmur3(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    h = _start(rows, seed)
    for word in _words(rows, "<u4"):
        h = _mixed3(h, word)
    if rows.shape[1] % 4:
        h = h ^ _rotated(_rest(rows, 4, np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _final3(h ^ np.uint32(rows.shape[1]))


def _spark_text(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """Spark's own: each byte of the tail is a word, with its sign."""
    h = _start(rows, seed)
    for word in _words(rows, "<u4"):
        h = _mixed3(h, word)
    for at in range(rows.shape[1] // 4 * 4, rows.shape[1]):
        h = _mixed3(h, rows[:, at].view(np.int8).astype(np.int32).view(np.uint32))
    return _final3(h ^ np.uint32(rows.shape[1]))


def _spark_number(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """Spark's hash of an integer column; the bytes are the number, big-endian: the low word first."""
    h = _start(rows, seed)
    for word in reversed(_words(rows, ">u4")):
        h = _mixed3(h, word)
    return _final3(h ^ np.uint32(rows.shape[1]))


def _fnv(rows: NDArray[np.uint8], seed: int, *, xor_first: bool, wide: bool) -> NDArray[Any]:
    kind: Any = np.uint64 if wide else np.uint32
    prime = kind(0x100000001B3 if wide else 0x01000193)
    h = _start(rows, seed, kind)
    for at in range(rows.shape[1]):
        byte = rows[:, at].astype(kind)
        h = (h ^ byte) * prime if xor_first else h * prime ^ byte
    return h


def _polynomial(rows: NDArray[np.uint8], seed: int, factor: int, *, xor: bool = False) -> NDArray[Any]:
    h = _start(rows, seed)
    for at in range(rows.shape[1]):
        byte = rows[:, at].astype(np.uint32)
        h = h * np.uint32(factor)
        h = h ^ byte if xor else h + byte
    return h


def _java_bytes(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """`Arrays.hashCode(byte[])`: 31 times and signed bytes, from 1."""
    h = _start(rows, seed)
    for at in range(rows.shape[1]):
        h = h * np.uint32(31) + rows[:, at].view(np.int8).astype(np.int32).view(np.uint32)
    return h


def _java_string(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """`String.hashCode` of the text: over its UTF-16 units."""
    if rows.size and rows.max() > 127:
        out = []
        for row in rows:
            units = np.frombuffer(row.tobytes().decode("utf-8", "replace").encode("utf-16-le"), "<u2")
            h = seed
            for unit in units.tolist():
                h = (31 * h + unit) & U32
            out.append(h)
        return np.array(out, np.uint32)
    return _polynomial(rows, seed, 31)


def _java_long(rows: NDArray[np.uint8], _: int) -> NDArray[Any]:
    if rows.shape[1] != 8:
        return _start(rows, 0)
    high, low = _words(rows, ">u4")
    return high ^ low


def _kafkajs(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """The first kafkajs: products as doubles, and a loop that runs one word too far."""

    def times(h: NDArray[Any]) -> NDArray[Any]:
        return (h.view(np.int32).astype(np.float64) * 1540483477.0).astype(np.int64).astype(np.uint32)

    length = rows.shape[1]
    padded = np.zeros((len(rows), -(-length // 4) * 4), np.uint8)
    padded[:, :length] = rows
    h = _start(rows, seed ^ length)
    words = _words(padded, "<u4")
    for word in words:
        k = times(word)
        h = times(h) ^ times(k ^ k >> np.uint32(24))
    if length % 4:
        h = times(h ^ words[-1])
    h = times(h ^ h >> np.uint32(13))
    return h ^ h >> np.uint32(15)


def _each(of: Callable[[bytes], int]) -> Kernel:
    def kernel(rows: NDArray[np.uint8], _: int) -> NDArray[Any]:
        return np.array([of(row.tobytes()) for row in rows], np.uint64)

    return kernel


def _digest(name: str, first: int, order: Any = "big") -> Kernel:
    def of(key: bytes) -> int:
        found = hashlib.new(name, key, usedforsecurity=False).digest()
        return int.from_bytes(found[first : first + 8 if first >= 0 else None], order)

    return _each(of)


@cache
def _table(polynomial: int, *, bits: int = 32) -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    if bits == 16:
        table = table << np.uint32(8)
        for _ in range(8):
            table = (table << np.uint32(1)) ^ np.where(table & 0x8000, polynomial, 0).astype(np.uint32)
        return table & np.uint32(0xFFFF)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, polynomial, 0).astype(np.uint32)
    return table


def _crc32c(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    h = _start(rows, seed)
    for at in range(rows.shape[1]):
        h = _table(0x82F63B78)[(h ^ rows[:, at]) & np.uint32(255)] ^ h >> np.uint32(8)
    return ~h


def _crc16(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """XMODEM's, that of Redis Cluster's slots."""
    h = _start(rows, seed)
    for at in range(rows.shape[1]):
        h = (
            _table(0x1021, bits=16)[(h >> np.uint32(8) ^ rows[:, at]) & np.uint32(255)] ^ h << np.uint32(8)
        ) & np.uint32(0xFFFF)
    return h


def _jenkins(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """One at a time."""
    h = _start(rows, seed)
    for at in range(rows.shape[1]):
        h = h + rows[:, at]
        h = h + (h << np.uint32(10))
        h = h ^ h >> np.uint32(6)
    h = h + (h << np.uint32(3))
    h = h ^ h >> np.uint32(11)
    return h + (h << np.uint32(15))


def _elf(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    h = _start(rows, seed)
    for at in range(rows.shape[1]):
        h = (h << np.uint32(4)) + rows[:, at]
        top = h & np.uint32(0xF0000000)
        h = (h ^ top >> np.uint32(24)) & ~top
    return h


_X32: Final = tuple(map(np.uint32, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)))
_X64: Final = tuple(
    map(np.uint64, (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5))
)


def _xx32(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    a, b, c, d, e = _X32
    words, length = _words(rows, "<u4"), rows.shape[1]
    if length >= 16:
        lanes = [
            _start(rows, seed + int(a) + int(b)),
            _start(rows, seed + int(b)),
            _start(rows, seed),
            _start(rows, seed - int(a)),
        ]
        for at in range(length // 16):
            lanes = [_rotated(old + words[4 * at + i] * b, 13) * a for i, old in enumerate(lanes)]
        h = sum((_rotated(lane, by) for lane, by in zip(lanes[1:], (7, 12, 18), strict=True)), _rotated(lanes[0], 1))
        words = words[length // 16 * 4 :]
    else:
        h = _start(rows, seed + int(e))
    h = h + np.uint32(length)
    for word in words:
        h = _rotated(h + word * c, 17) * d
    for at in range(length // 4 * 4, length):
        h = _rotated(h + rows[:, at] * e, 11) * a
    h = (h ^ h >> np.uint32(15)) * b
    h = (h ^ h >> np.uint32(13)) * c
    return h ^ h >> np.uint32(16)


def _xx64(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    a, b, c, d, e = _X64
    words, length = _words(rows, "<u8"), rows.shape[1]

    def one(old: NDArray[Any], word: NDArray[Any]) -> NDArray[Any]:
        return _rotated(old + word * b, 31) * a

    if length >= 32:
        starts = (seed + int(a) + int(b), seed + int(b), seed, seed - int(a))
        lanes = [_start(rows, start, np.uint64) for start in starts]
        for at in range(length // 32):
            lanes = [one(old, words[4 * at + i]) for i, old in enumerate(lanes)]
        h = sum((_rotated(lane, by) for lane, by in zip(lanes[1:], (7, 12, 18), strict=True)), _rotated(lanes[0], 1))
        for lane in lanes:
            h = (h ^ one(_start(rows, 0, np.uint64), lane)) * a + d
        words = words[length // 32 * 4 :]
    else:
        h = _start(rows, seed + int(e), np.uint64)
    h = h + np.uint64(length)
    for word in words:
        h = _rotated(h ^ one(_start(rows, 0, np.uint64), word), 27) * a + d
    at = length // 8 * 8
    if length - at >= 4:
        four = _words(np.ascontiguousarray(rows[:, at : at + 4]), "<u4")[0].astype(np.uint64)
        h = _rotated(h ^ four * a, 23) * b + c
        at += 4
    for one_byte in range(at, length):
        h = _rotated(h ^ rows[:, one_byte].astype(np.uint64) * e, 11) * a
    h = (h ^ h >> np.uint64(33)) * b
    h = (h ^ h >> np.uint64(29)) * c
    return h ^ h >> np.uint64(32)


def _siphash(rows: NDArray[np.uint8], seed: int, rounds: tuple[int, int] = (2, 4)) -> NDArray[Any]:
    key = (seed or 0x0F0E0D0C0B0A09080706050403020100).to_bytes(16, "little")
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    starts = (0x736F6D6570736575 ^ k0, 0x646F72616E646F6D ^ k1, 0x6C7967656E657261 ^ k0, 0x7465646279746573 ^ k1)
    v = [_start(rows, start, np.uint64) for start in starts]

    def turn(times: int) -> None:
        for _ in range(times):
            v[0] = v[0] + v[1]
            v[1] = _rotated(v[1], 13) ^ v[0]
            v[0] = _rotated(v[0], 32)
            v[2] = v[2] + v[3]
            v[3] = _rotated(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3]
            v[3] = _rotated(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1]
            v[1] = _rotated(v[1], 17) ^ v[2]
            v[2] = _rotated(v[2], 32)

    last = _rest(rows, 8, np.uint64) | _start(rows, (rows.shape[1] & 255) << 56, np.uint64)
    for word in [*_words(rows, "<u8"), last]:
        v[3] = v[3] ^ word
        turn(rounds[0])
        v[0] = v[0] ^ word
    v[2] = v[2] ^ np.uint64(255)
    turn(rounds[1])
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _city_like(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """In the manner of CityHash: pairs of words through its mixing of 16 bytes, with its constants."""
    k, m = np.uint64(0x9AE16A3B2F90404F), np.uint64(0x9DDFEA08EB382D69)
    h = _start(rows, seed + rows.shape[1] * int(k), np.uint64)
    for word in [*_words(rows, "<u8"), _rest(rows, 8, np.uint64)]:
        x = (h ^ word * k) * m
        y = (word ^ x ^ x >> np.uint64(47)) * m
        h = _rotated((y ^ y >> np.uint64(47)) * m, 43)
    return h


def _fx(rows: NDArray[np.uint8], seed: int) -> NDArray[Any]:
    """Rust's FxHash over words of eight bytes."""
    h = _start(rows, seed, np.uint64)
    for word in [*_words(rows, "<u8"), _rest(rows, 8, np.uint64)]:
        h = (_rotated(h, 5) ^ word) * np.uint64(0x517CC1B727220A95)
    return h


def _sum(rows: NDArray[np.uint8], _: int) -> NDArray[Any]:
    return rows.sum(axis=1, dtype=np.uint64)


def _number(rows: NDArray[np.uint8], _: int) -> NDArray[Any]:
    """No hash: the digits of the key as a number, the low 32 bits."""
    h = _start(rows, 0)
    for at in range(rows.shape[1]):
        digit = rows[:, at].astype(np.uint32) - np.uint32(48)
        h = np.where(digit < 10, h * np.uint32(10) + digit, h)
    return h


def _first_byte(rows: NDArray[np.uint8], _: int) -> NDArray[Any]:
    return rows[:, 0].astype(np.uint64) if rows.shape[1] else _start(rows, 0, np.uint64)


def _last_byte(rows: NDArray[np.uint8], _: int) -> NDArray[Any]:
    return rows[:, -1].astype(np.uint64) if rows.shape[1] else _start(rows, 0, np.uint64)


#: Name -> kernel, bits, usual seed. The first ten are those of clients that keylane's contract knows by name.
HASHES: Final[dict[str, tuple[Kernel, int, int]]] = {
    "murmur2": (_murmur2, 32, 0x9747B28C),
    "murmur2-big-endian": (lambda rows, seed: _murmur2(rows, seed, ">u4"), 32, 0x9747B28C),
    "crc32": (_each(zlib.crc32), 32, 0),
    "fnv1a": (lambda rows, seed: _fnv(rows, seed, xor_first=True, wide=False), 32, 0x811C9DC5),
    "java-string": (_java_string, 32, 0),
    "java-long": (_java_long, 32, 0),
    "murmur3-32": (_murmur3, 32, 0),
    "spark-murmur3": (_spark_text, 32, 42),
    "kafkajs-legacy": (_kafkajs, 32, 0x9747B28C),
    "md5-128": (_digest("md5", 0), 64, 0),
    # From here on: what other systems, older clients and people's own code use.
    "spark-number": (_spark_number, 32, 42),
    "murmur2-64": (_murmur2_64, 64, 0),
    "fnv1": (lambda rows, seed: _fnv(rows, seed, xor_first=False, wide=False), 32, 0x811C9DC5),
    "fnv1a-64": (lambda rows, seed: _fnv(rows, seed, xor_first=True, wide=True), 64, 0xCBF29CE484222325),
    "fnv1-64": (lambda rows, seed: _fnv(rows, seed, xor_first=False, wide=True), 64, 0xCBF29CE484222325),
    "java-bytes": (_java_bytes, 32, 1),
    "djb2": (lambda rows, seed: _polynomial(rows, seed, 33), 32, 5381),
    "djb2a": (lambda rows, seed: _polynomial(rows, seed, 33, xor=True), 32, 5381),
    "sdbm": (lambda rows, seed: _polynomial(rows, seed, 65599), 32, 0),
    "bkdr": (lambda rows, seed: _polynomial(rows, seed, 131), 32, 0),
    "adler32": (_each(zlib.adler32), 32, 1),
    "crc32c": (_crc32c, 32, U32),
    "crc16": (_crc16, 16, 0),
    "jenkins": (_jenkins, 32, 0),
    "elf": (_elf, 32, 0),
    "xxhash32": (_xx32, 32, 0),
    "xxhash64": (_xx64, 64, 0),
    "siphash": (_siphash, 64, 0),
    "siphash-1-3": (lambda rows, seed: _siphash(rows, seed, (1, 3)), 64, 0),
    "city-like": (_city_like, 64, 0),
    "fx": (_fx, 64, 0),
    "md5-end": (_digest("md5", -4), 32, 0),
    "md5-little": (_digest("md5", 0, "little"), 64, 0),
    "sha1": (_digest("sha1", 0), 64, 0),
    "sum": (_sum, 32, 0),
    "number": (_number, 32, 0),
    "first-byte": (_first_byte, 32, 0),
    "last-byte": (_last_byte, 32, 0),
}
BITS: Final = {name: bits for name, (_, bits, _) in HASHES.items()}

"""Every named partitioner over the keys that have caused trouble, and the ranges of the 128-bit key space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.parity.cases.case import Case, key, of

from keylane.contract.names import PARTITIONERS
from keylane.contract.partitioners import FACTS
from keylane.contract.shards import SPACE
from keylane.hashing.md5 import md5_128
from keylane.placement.ranges import KeySpace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.parity.cases.case import Spec

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


def uneven(count: int, *, at: Sequence[str] = (), turn: int = 0, width: int = 1) -> KeySpace:
    """A layout of so many shards, wide and narrow; one begins at the digest of each key in `at`, `width` wide."""
    edges = {md5_128(text.encode()) + step for text in at for step in (0, width)}
    edges |= {SPACE * (i + turn) ** 2 // (count + turn) ** 2 for i in range(1, count - len(edges))}
    starts = (0, *sorted(edges))
    ends = (*(start - 1 for start in starts[1:]), SPACE - 1)
    names = (f"shardId-{count - i:012d}" for i in range(count))
    return KeySpace.from_ranges(zip(names, starts, ends, strict=True))


DIGITS = [*map(str, range(300))]
MD5 = {"partitioner": "kinesis-md5"}
UNEVEN = {
    f"{space} uneven shards": Case(
        {**MD5, "lanes": space}, of([*DIGITS, "Zoë", "", None]), key_space=uneven(space, at=at)
    )
    for space, at in ((2, []), (3, ["0"]), (17, ["7", "8"]), (601, DIGITS), (4096, DIGITS))
}
UNEVEN["as many live shards as there are"] = Case({**MD5, "lanes": "live"}, of(DIGITS), key_space=uneven(11))
UNEVEN["uneven shards of a client that folds"] = Case({"lanes": 11}, of([*DIGITS, None]), key_space=uneven(11))

#: Two texts of one MD5 (published by Marc Stevens): keys that only their bytes distinguish.
TWINS = [f"TEXTCOLLBYfGiJUETHQ4h{letter}cKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak" for letter in "AE"]


def explicit(names: Sequence[str], space: KeySpace) -> dict[str, str]:
    """A hash key for each account: on and beside every boundary, at both ends, and where other accounts' MD5s are."""
    edges = [start - step for start in space.starts for step in (0, 1) if start >= step]
    edges += [SPACE - 1, *(md5_128(f"{name}?".encode()) for name in names)]
    return {name: str(edges[n * 7919 % len(edges)]) for n, name in enumerate(names)}


def sharded(space: KeySpace | int, names: Sequence[str], **more: Any) -> Spec:
    """The spec of a contract that has this layout and a hash key for each of these accounts."""
    shards: Spec = {}
    if isinstance(space, KeySpace):
        ends = [space.range_of(n) for n in range(len(space))]
        rows = zip(space.ids, ends, strict=True)
        shards["layout"] = [{"id": id_, "start": str(start), "end": str(end)} for id_, (start, end) in rows]
    known = space if isinstance(space, KeySpace) else KeySpace.equal(space)
    if names:
        shards["hash_keys"] = explicit(names, known)
    return {**MD5, "lanes": len(known), "shards": shards, **more}


MIXED = of([*DIGITS, *TWINS, "Zoë", "", None])
#: Shards and hash keys that the contract itself has; of the twins one has a hash key, in the last case both.
CONTRACTED = {
    "a layout of the contract": Case(sharded(uneven(17, at=["7", "8"], width=2), []), MIXED),
    "few hash keys of the contract": Case(
        sharded(uneven(17, at=["7"], width=2), ["7", "8", "9", "Zoë", TWINS[0]]), MIXED
    ),
    "hash keys over equal shards": Case(sharded(7, [*DIGITS[:40], TWINS[1]]), MIXED),
    "many hash keys of the contract": Case(
        sharded(uneven(64, at=DIGITS[:9], width=2), [*DIGITS[::2], TWINS[0]]), MIXED
    ),
    "hash keys of both twins": Case(sharded(uneven(601, at=DIGITS, width=2), [*DIGITS[:90], *TWINS]), MIXED),
    "hash keys beside a hot key": Case(
        sharded(uneven(17), DIGITS[2:99], hot_keys=[{"keys": ["0", "1"], "pin": {"lanes": [3, 16]}}]),
        MIXED,
        alone=True,
    ),
    "hash keys with a window": Case(
        sharded(uneven(17), DIGITS[:99], **key(window={"field": "t", "size": "1h"})),
        {**of(DIGITS[:120]), **of([3_600_000 * n for n in range(120)], name="t")},
    ),
    "hash keys, empty keys hashed": Case(sharded(uneven(17), DIGITS[:99], **key(on_empty="hash")), MIXED),
}

CASES = {**_every(), **LONG_KEYS, **SHARDS, **UNEVEN, **CONTRACTED}

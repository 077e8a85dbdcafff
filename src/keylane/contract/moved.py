"""Which share of keys changes lane between two contracts: the one answer of `evolve`, `plan`, `migrate plan` and pages.

Rule: of keys that no rule of either contract names (no hot key, no row of a table, no leaf), expected where hashes are
even over their space. Nothing is counted here; keys of real traffic are, by `plan.cost` and `migration.cost`.

    one hash, one fold       1 - gcd(n, m) / max(n, m)
    one hash, two folds      each half of the hash's space by itself, see `_kept_by_folds`
    ranges                   the part of the key space that is not on a lane of the same number
    other hash or key bytes  1 - sum over the lanes of P(old lane) * P(new lane), which is 1 - 1 / max(n, m)

Worked example: on 8 lanes FNV-1a by absolute value and by mask agree on the lower half of the hashes and on a quarter
of the upper one, so 37.5 % of keys move; on 8 and 12 lanes they agree on 1/3 of the lower half and 1/6 of the upper.

When not to use it: for keys that are known. They may be few, and hashes of few keys are not even.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from typing import TYPE_CHECKING, Final, TypeAlias

from keylane import numbers
from keylane.contract.fingerprint import key_bytes_form
from keylane.contract.partitioners import FACTS
from keylane.contract.shards import SPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.contract.model import Contract
    from keylane.contract.partitioners import PartitionerFacts

    #: The lanes of a stream: how many, or where each range of the key space starts; None where they are not known.
    Lanes: TypeAlias = int | Sequence[int] | None

EXPECTED: Final = "expected of keys that no rule names, where their hashes are even"
#: Hashes that are not even on keys as people make them: how many move depends on the keys.
UNEVEN: Final = frozenset({"java-long", "java-string"})
#: Hashes that are not strangers: short keys have the same bytes in any order of four, and of ASCII text FNV-1a and
#: Java's hash never have the same lowest bit. CRC-32 and FNV-1a know themselves under other key bytes too: a number in
#: eight bytes has the CRC of its four, xor a constant, so that on 2 lanes all keys move or none.
RELATED: Final = frozenset(
    map(frozenset, ({"murmur2", "murmur2-big-endian"}, {"fnv1a", "java-string"}, {"crc32"}, {"fnv1a"}))
)
#: Above 2**31 each fold is (sign * x + shift) mod n, of what the hash x is beyond it; below, all are x mod n.
_UPPER: Final = {"masked": (1, 0), "unsigned": (1, 1 << 31), "positive": (1, -(1 << 31)), "absolute": (-1, 1 << 31)}


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """The share, and what it is of; without one, `basis` says why there is none."""

    share: float | None
    basis: str

    @property
    def text(self) -> str:
        """The share as `50.0 %`; otherwise `an unknown share`."""
        return "an unknown share" if self.share is None else numbers.share(self.share)


def moved_keys(old: Contract, new: Contract, at: tuple[Lanes, Lanes] = (None, None)) -> MovedKeys:
    """The share of keys that no rule names whose lane has another number; `at` are the lanes of `live` contracts."""
    before, after = (FACTS[one.spec.partitioner] for one in (old, new))
    was, now = (_lanes(one, known) for one, known in zip((old, new), at, strict=True))
    alike = before.hash == after.hash and _bytes(old) == _bytes(new)
    if why := _without_lane(old, new) or (alike and _meaning(old, new)):
        return MovedKeys(None, why)
    if alike and before.fold == after.fold and was == now:
        live = " while the live lane count stays" if was is None else ""
        return MovedKeys(0.0, f"both contracts place every key that no rule names alike{live}")
    if was is None or now is None:
        return MovedKeys(None, "the lane count is live")
    share = (_by_folds if alike else _by_strangers)(before, after, was, now)
    if share is None:
        why = "the hash is not even" if alike else "one hash is not even, or the two know of each other"
        return MovedKeys(None, f"{why}: it depends on the keys; keylane plan counts them")
    return MovedKeys(share, EXPECTED)


def _without_lane(old: Contract, new: Contract) -> str:
    """Why there is no lane that a key could be on or leave; empty where there is."""
    if "keyless" in (FACTS[one.spec.partitioner].fold for one in (old, new)):
        return "keys do not decide the lane"
    if any(one.spec.table and one.spec.table.otherwise == "reject" for one in (old, new)):
        return "a key that the table does not list has no lane"
    return ""


def _meaning(old: Contract, new: Contract) -> str:
    """Why keys that are written alike may be other keys; empty where they are the same."""
    values = ((one.spec.key.fields, one.spec.key.window, _scale(one)) for one in (old, new))
    same = len(set(values)) == 1
    return "" if same else "other fields, or another unit: no key moves by that only if they give the same keys"


def _scale(contract: Contract) -> float | None:
    geo = contract.spec.geo
    return None if geo is None or geo.scale is None else float(geo.scale)


def moved_share(partitioner: str, old: int, new: int) -> Fraction | None:
    """The share between two lane counts of one partitioner; None if the key does not decide it, or no rule does.

    >>> moved_share("kafka-java", 12, 18), moved_share("kafka-java", 12, 24), moved_share("kinesis-md5", 2, 4)
    (Fraction(2, 3), Fraction(1, 2), Fraction(3, 4))
    """
    fold = FACTS[partitioner].fold
    if fold == "keyless" or (FACTS[partitioner].hash in UNEVEN and old != new):
        return None
    if fold == "ranges":
        # Ranges of a new stream, without the few numbers that the last one has more.
        return 1 - sum((_shared(i, old, new) for i in range(min(old, new))), Fraction(0))
    return 1 - _kept_by_folds(fold, fold, old, new)


def _shared(i: int, old: int, new: int) -> Fraction:
    """How much of the key space is range `i` under both counts."""
    start, end = max(Fraction(i, old), Fraction(i, new)), min(Fraction(i + 1, old), Fraction(i + 1, new))
    return max(Fraction(0), end - start)


def _lanes(contract: Contract, known: Lanes) -> Lanes:
    if known is not None:
        return known if isinstance(known, int) else tuple(known)
    ranges = contract.spec.shards.ranges if contract.spec.shards else None
    if ranges:
        return tuple(sorted(int(one.start) for one in ranges))
    return None if contract.spec.lanes == "live" else contract.spec.lanes


def _starts(lanes: int | Sequence[int]) -> Sequence[int]:
    """Where the ranges start; those of a new stream are equal, and the last takes the rest."""
    return lanes if not isinstance(lanes, int) else range(0, lanes * (SPACE // lanes), SPACE // lanes)


def _bytes(contract: Contract) -> object:
    """What is hashed of a key: its bytes, at which resolution a cell is."""
    return key_bytes_form(contract), contract.spec.geo.resolution if contract.spec.geo else None


def kept_by_ranges(old: Sequence[int], new: Sequence[int]) -> Fraction:
    """The part of the key space that is in the range of the same number under both cuts.

    >>> kept_by_ranges((0, 2**127), (0, 2**126, 2**127))
    Fraction(1, 4)
    """
    both = zip(pairwise((*old, SPACE)), pairwise((*new, SPACE)), strict=False)
    return Fraction(sum(max(0, min(end, last) - max(start, first)) for (start, end), (first, last) in both), SPACE)


def _by_folds(
    before: PartitionerFacts, after: PartitionerFacts, was: int | Sequence[int], now: int | Sequence[int]
) -> float | None:
    if before.fold == after.fold == "ranges":
        return float(1 - kept_by_ranges(_starts(was), _starts(now)))
    if before.hash in UNEVEN:
        return None
    counts = (one if isinstance(one, int) else len(one) for one in (was, now))
    return float(1 - _kept_by_folds(before.fold, after.fold, *counts))


def _kept_by_folds(before: str, after: str, old: int, new: int) -> Fraction:
    """The share of the hashes that both folds put on a lane of one number.

    In a half of the space, x mod n of one and (sign * x + shift) mod m of the other are equal to a lane v for one x in
    lcm(n, m), if the two conditions on x agree modulo gcd(n, m), and for none otherwise.

    >>> _kept_by_folds("absolute", "masked", 8, 8), _kept_by_folds("masked", "unsigned", 3, 3)
    (Fraction(5, 8), Fraction(1, 2))
    """
    step, both = gcd(old, new), lcm(old, new)

    def kept(first: tuple[int, int], second: tuple[int, int]) -> Fraction:
        fitting = sum(first[0] * (v - first[1]) % step == second[0] * (v - second[1]) % step for v in range(step))
        return Fraction(fitting * (min(old, new) // step), both)

    return (kept((1, 0), (1, 0)) + kept(_UPPER[before], _UPPER[after])) / 2


def _by_strangers(
    before: PartitionerFacts, after: PartitionerFacts, was: int | Sequence[int], now: int | Sequence[int]
) -> float | None:
    """Hashes that know nothing of each other agree by chance."""
    if frozenset({before.hash, after.hash}) in RELATED:
        return None
    counts = [one if isinstance(one, int) else len(one) for one in (was, now)]
    uneven = [facts.hash in UNEVEN for facts in (before, after)]
    if any(uneven):
        # An even hash on at least as many lanes agrees with any on one key in its lanes.
        even = [count for count, is_uneven in zip(counts, uneven, strict=True) if not is_uneven]
        return 1 - 1 / max(counts) if max(even, default=0) >= max(counts) else None
    if "ranges" not in (before.fold, after.fold):
        return 1 - 1 / max(counts)
    widths = [_widths(facts, lanes) for facts, lanes in ((before, was), (after, now))]
    return float(1 - sum((one * other for one, other in zip(*widths, strict=False)), Fraction(0)))


def _widths(facts: PartitionerFacts, lanes: int | Sequence[int]) -> list[Fraction]:
    """Which part of all keys each lane has."""
    if facts.fold == "ranges":
        return [Fraction(end - start, SPACE) for start, end in pairwise((*_starts(lanes), SPACE))]
    count = lanes if isinstance(lanes, int) else len(lanes)
    return [Fraction(1, count)] * count

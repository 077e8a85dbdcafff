"""Number -> lane, as columns: the rules of `keylane.placement`, each equal to its Python form.

Folds of a hash, lanes by position, and one key over several lanes. Ranges of the 128-bit key space are in `ranges`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.placement.keyless import STICKY_RUN
from keylane.placement.spread import STEP
from keylane.spark.hashes import U32, low32, murmur2_of_long
from keylane.spark.windows import floor_divided

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from keylane.contract.model import Spread
    from keylane.spark.calls import JavaWay

__all__ = ["by_position", "by_sub_key", "fold", "keyless_lane", "lane_set", "scores"]


#: 17 bits hold every lane number there can be.
LAST: Final = 2**17 - 1


def fold(rule: str, hash_: Column, lanes: int) -> Column:
    """A hash column -> a lane."""
    return _FOLDS[rule](hash_, lanes)


def _masked(h: Column, lanes: int) -> Column:
    return h.bitwiseAND(F.lit(0x7FFFFFFF)) % F.lit(lanes)


def _unsigned(h: Column, lanes: int) -> Column:
    return low32(h) % F.lit(lanes)


def _absolute(h: Column, lanes: int) -> Column:
    number = low32(h)
    return F.when(number >= 2**31, F.lit(2**32) - number).otherwise(number) % F.lit(lanes)


def _positive(h: Column, lanes: int) -> Column:
    return F.pmod(h, F.lit(lanes))


_FOLDS: Final[dict[str, Callable[[Column, int], Column]]] = {
    "masked": _masked,
    "unsigned": _unsigned,
    "absolute": _absolute,
    "positive": _positive,
}


def keyless_lane(rule: str, position: Column, lanes: int, way: JavaWay) -> Column:
    """Round robin, random or sticky, from the record's place in the source alone."""
    if rule == "round_robin":
        return F.pmod(position, F.lit(lanes))
    number = floor_divided(position, STICKY_RUN) if rule == "sticky" else position
    return _masked(murmur2_of_long(number, way), lanes)


def lane_set(spread: Spread, home: Column, lanes: int) -> Column:
    """The lanes a spread key may use, ascending, as an array."""
    if spread.lanes is not None:
        return F.array(*(F.lit(lane) for lane in sorted(spread.lanes)))
    return F.array_sort(F.array(*((home.cast("int") + i) % lanes for i in range(spread.over or 1))))


def by_sub_key(sub_hash: Column, among: Column) -> Column:
    """The lane of the set with the highest score, the lower lane on a tie: score and lane packed into one number.

    The steps of a score go over the whole set one after the other, so that each has the number before it by name.
    """
    numbers = F.array_repeat(low32(sub_hash), F.size(among))
    packed = F.zip_with(scores(F.zip_with(numbers, among, _marked)), among, _packed)
    return F.lit(LAST) - F.array_max(packed).bitwiseAND(F.lit(LAST))


def scores(numbers: Column) -> Column:
    """murmur3's finaliser of every 32-bit number in an array."""
    numbers = F.transform(numbers, lambda number: _times(_folded(number, 16), 0x85EBCA6B))
    numbers = F.transform(numbers, lambda number: _times(_folded(number, 13), 0xC2B2AE35))
    return F.transform(numbers, lambda number: _folded(number, 16))


def _folded(number: Column, by: int) -> Column:
    return number.bitwiseXOR(F.shiftright(number, by))


def _times(number: Column, by: int) -> Column:
    """The low 32 bits of a product of two 32-bit numbers, in halves: the whole would not fit 63 bits."""
    low = number.bitwiseAND(F.lit(0xFFFF)) * F.lit(by)
    high = (F.shiftright(number, 16) * F.lit(by)).bitwiseAND(F.lit(0xFFFF))
    return (low + F.shiftleft(high, 16)).bitwiseAND(F.lit(U32))


def _marked(number: Column, lane: Column) -> Column:
    return number.bitwiseXOR((lane.cast("bigint") * F.lit(STEP)).bitwiseAND(F.lit(U32)))


def _packed(score: Column, lane: Column) -> Column:
    return F.shiftleft(score, 17).bitwiseOR(F.lit(LAST) - lane)


def by_position(position: Column, among: Column) -> Column:
    """Round robin over the set by place in the source."""
    return F.get(among, F.pmod(position, F.size(among)).cast("int"))

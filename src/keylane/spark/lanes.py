"""Number -> lane, as columns: the rules of `keylane.placement`, each equal to its Python form.

Folds of a hash, lanes by position, and one key over several lanes. Ranges of the 128-bit key space are in `ranges`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.placement.keyless import STICKY_RUN
from keylane.placement.spread import STEP
from keylane.spark.calls import static_call
from keylane.spark.hashes import MURMUR3, U32, low32, murmur2_of_long
from keylane.spark.windows import floor_divided

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from keylane.contract.model import Spread
    from keylane.spark.calls import JavaWay

__all__ = ["among", "by_position", "by_sub_key", "fold", "keyless_lane", "scores"]

#: 17 bits hold every lane number there can be.
LAST: Final = 2**17 - 1
#: Lanes of a spread up to which each is written into the expression: Java compiles no method of more than 8,000 bytes.
WRITTEN_OUT: Final = 16


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


def by_position(position: Column, spread: Spread, home: Column, lanes: int) -> Column:
    """Round robin over the set by place in the source."""
    if spread.lanes is not None:
        return F.get(_listed(spread.lanes), F.pmod(position, F.lit(len(spread.lanes))).cast("int"))
    over = spread.over or 1
    turn = F.pmod(position, F.lit(over))
    # Counted upwards from home, the set goes past the last lane; in ascending order what went past it stands first.
    past = F.greatest(home + (over - lanes), F.lit(0))
    return F.when(turn < past, turn).otherwise(home + turn - past)


def by_sub_key(sub_hash: Column, spread: Spread, home: Column, lanes: int, way: JavaWay) -> Column:
    """The lane of the set with the highest score, the lower lane on a tie: score and lane packed into one number.

    A few lanes are written out, which compiles; many go through an array, which does not, and stays small.
    """
    count = len(spread.lanes) if spread.lanes is not None else spread.over or 1
    if way == "static" and count <= WRITTEN_OUT:
        return _unpacked(F.greatest(*(_packed(_score(sub_hash, lane), lane) for lane in _each(spread, home, lanes))))
    return among(sub_hash, _as_array(spread, home, lanes), way)


def among(sub_hash: Column, lanes: Column, way: JavaWay) -> Column:
    """The same for an array of lanes, in any order."""
    if way == "static":
        packed = F.transform(lanes, lambda lane: _packed(_score(sub_hash, lane), lane))
        return _unpacked(F.array_max(packed))
    marked = F.transform(lanes, lambda lane: _marked(low32(sub_hash), lane))
    return _unpacked(F.array_max(F.zip_with(scores(marked), lanes, _packed)))


def _each(spread: Spread, home: Column, lanes: int) -> list[Column]:
    if spread.lanes is not None:
        return [F.lit(lane) for lane in spread.lanes]
    return [(home.cast("int") + i) % lanes for i in range(spread.over or 1)]


def _as_array(spread: Spread, home: Column, lanes: int) -> Column:
    if spread.lanes is not None:
        return _listed(spread.lanes)
    steps = F.sequence(F.lit(0), F.lit((spread.over or 1) - 1))
    return F.transform(steps, lambda step: (home.cast("int") + step) % lanes)


def _listed(lanes: Sequence[int]) -> Column:
    return F.array(*(F.lit(lane) for lane in sorted(lanes)))


def _score(sub_hash: Column, lane: Column) -> Column:
    """murmur3's finaliser of one marked number: what murmur3 makes of no bytes at all, begun at that number."""
    number = _marked(low32(sub_hash), lane)
    signed = (number.bitwiseXOR(F.lit(2**31)) - F.lit(2**31)).cast("int")
    return static_call(MURMUR3, "hash32x86", "integer", F.lit(b""), F.lit(0), F.lit(0), signed)


def scores(numbers: Column) -> Column:
    """murmur3's finaliser of every 32-bit number in an array, in steps that have the number before them by name."""
    numbers = F.transform(numbers, lambda number: _times(_folded(number, 16), 0x85EBCA6B))
    numbers = F.transform(numbers, lambda number: _times(_folded(number, 13), 0xC2B2AE35))
    return F.transform(numbers, lambda number: _folded(number, 16))


def _folded(number: Column, by: int) -> Column:
    return number.bitwiseXOR(F.shiftright(number, by))


def _times(number: Column, by: int) -> Column:
    """The low 32 bits of a product of 32-bit numbers. Less 2**32 the factor has the same, and the product fits."""
    return (number * F.lit(by - 2**32)).bitwiseAND(F.lit(U32))


def _marked(number: Column, lane: Column) -> Column:
    return number.bitwiseXOR((lane.cast("bigint") * F.lit(STEP)).bitwiseAND(F.lit(U32)))


def _packed(score: Column, lane: Column) -> Column:
    return F.shiftleft(low32(score), 17).bitwiseOR(F.lit(LAST) - lane)


def _unpacked(best: Column) -> Column:
    return F.lit(LAST) - best.bitwiseAND(F.lit(LAST))

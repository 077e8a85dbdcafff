"""Number -> lane, as columns: the rules of `keylane.placement`, each equal to its Python form.

Folds of a hash, lanes by position, one key over several lanes. Ranges of the 128-bit key space: `hashes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.placement.keyless import STICKY_RUN
from keylane.placement.spread import STEP
from keylane.spark.hashes import MURMUR3, U32, bound, low32, murmur2_of_long
from keylane.spark.java_calls import static_call
from keylane.spark.keys import floor_divided

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from keylane.contract.model import Spread
    from keylane.placement.overrides import Overrides
    from keylane.spark.java_calls import JavaBackend


def fold(rule: str, hash_: Column, lanes: int) -> Column:
    """A hash column -> a lane."""
    return _FOLDS[rule](hash_, lanes)


def _masked(h: Column, lanes: int) -> Column:
    return h.bitwiseAND(F.lit(0x7FFFFFFF)) % F.lit(lanes)


def _absolute(h: Column, lanes: int) -> Column:
    number = low32(h)
    return F.when(number >= 2**31, F.lit(2**32) - number).otherwise(number) % F.lit(lanes)


_FOLDS: Final[dict[str, Callable[[Column, int], Column]]] = {
    "masked": _masked,
    "unsigned": lambda h, lanes: low32(h) % F.lit(lanes),
    "absolute": _absolute,
    "positive": lambda h, lanes: F.pmod(h, F.lit(lanes)),
}


def keyless_lane(rule: str, position: Column, lanes: int, backend: JavaBackend) -> Column:
    """Round robin, random or sticky, from the record's position in the source alone."""
    if rule == "round_robin":
        return F.pmod(position, F.lit(lanes))
    number = floor_divided(position, STICKY_RUN) if rule == "sticky" else position
    return _masked(murmur2_of_long(number, backend), lanes)


# One key over several lanes, as columns: what `placement.spread` does, by sub-key or by position.

#: Lanes that all spreads of a contract may have together to be expanded in the expression: Java interprets
#: methods of more than 8,000 bytes, and each of these takes more than 500.
WRITTEN_OUT: Final = 10
#: 17 bits hold every lane number; 8 bits, every index into a set.
LANE, INDEX = 17, 8


def divided_lanes(overrides: Overrides) -> int:
    """How many lanes there are to choose from by sub-key, over all rules of a contract."""
    rules = {rule.where: rule.spread for rule in overrides.hot.values() if rule.spread and rule.spread.by}
    return sum(_count(spread) for spread in rules.values()) + most_lanes(overrides)


def most_lanes(overrides: Overrides) -> int:
    """The most lanes that one key of the table has; 0 if no key has several."""
    sets = overrides.table.values.values() if overrides.table else ()
    return max((len(lanes) for lanes in sets if len(lanes) > 1), default=0)


def _count(spread: Spread) -> int:
    return len(spread.lanes) if spread.lanes is not None else spread.over or 1


def by_position(position: Column, spread: Spread, home: Column, lanes: int) -> Column:
    """Round robin over the set by position in the source."""
    turn = F.pmod(position, F.lit(_count(spread)))
    if spread.lanes is not None:
        return F.get(_listed(spread.lanes), turn.cast("int"))
    # Counted upwards from home, the set goes past the last lane; in ascending order what went past it comes first.
    past = F.greatest(home + (_count(spread) - lanes), F.lit(0))
    return F.when(turn < past, turn).otherwise(home + turn - past)


def by_sub_key(
    sub_hash: Column, spread: Spread, home: Column, lanes: int, backend: JavaBackend, *, written_out: bool
) -> Column:
    """The lane of a spread with the highest score. `written_out`: home and hash are columns, and the lanes are few."""
    if spread.lanes is not None:
        return by_sub_key_among(sub_hash, _listed(spread.lanes), len(spread.lanes), backend, written_out=written_out)
    over, home = _count(spread), home.cast("int")
    if written_out:
        return _of_few(sub_hash, over, lambda index: (home + index) % lanes)
    steps = F.sequence(F.lit(0), F.lit(over - 1))
    among = bound(home, lambda first: F.transform(steps, lambda step: (first + step) % lanes))
    return _of_many(sub_hash, among, backend)


def by_sub_key_among(sub_hash: Column, among: Column, most: int, backend: JavaBackend, *, written_out: bool) -> Column:
    """The same for arrays of at most `most` lanes."""
    # Past the end of an array `get` is null, and the greatest of several numbers ignores nulls.
    if written_out:
        return _of_few(sub_hash, most, lambda index: F.get(among, index))
    return _of_many(sub_hash, among, backend)


def _of_few(sub_hash: Column, count: int, lane_at: Callable[[Column], Column]) -> Column:
    number = low32(sub_hash)
    indexes = [F.lit(index) for index in range(count)]
    best = F.greatest(*(_packed(_score(_marked(number, lane_at(index))), index, INDEX) for index in indexes))
    return lane_at(best.bitwiseAND(F.lit(2**INDEX - 1)).cast("int"))


def _of_many(sub_hash: Column, among: Column, backend: JavaBackend) -> Column:
    # A hash over Arrow may be in both, and Spark does not allow that inside a function over an array.
    marked = F.zip_with(F.array_repeat(low32(sub_hash), F.size(among)), among, _marked)
    scored = F.transform(marked, _score) if backend == "static" else scores(marked)
    best = F.array_max(F.zip_with(scored, among, lambda score, lane: _packed(score, lane, LANE)))
    return best.bitwiseAND(F.lit(2**LANE - 1))


def _listed(lanes: Sequence[int]) -> Column:
    return F.array(*(F.lit(lane) for lane in sorted(lanes)))


def _packed(score: Column, beside: Column, bits: int) -> Column:
    return F.shiftleft(score, bits).bitwiseOR(beside.cast("bigint"))


def _marked(number: Column, lane: Column) -> Column:
    return number.bitwiseXOR((lane.cast("bigint") * F.lit(STEP)).bitwiseAND(F.lit(U32)))


def _score(number: Column) -> Column:
    """murmur3's finaliser of a marked number: what murmur3 makes of no bytes at all, begun at that number.

    Java's own conversions from and to 32 bits, because Spark's casts check the value first.
    """
    begun = static_call("java.lang.Long", "hashCode", "integer", number)
    score = static_call(MURMUR3, "hash32x86", "integer", F.lit(b""), F.lit(0), F.lit(0), begun)
    return static_call("java.lang.Integer", "toUnsignedLong", "long", score)


def scores(numbers: Column) -> Column:
    """The finaliser of every 32-bit number in an array, in steps, each with the previous number bound to a name."""
    numbers = F.transform(numbers, lambda number: _times(_folded(number, 16), 0x85EBCA6B))
    numbers = F.transform(numbers, lambda number: _times(_folded(number, 13), 0xC2B2AE35))
    return F.transform(numbers, lambda number: _folded(number, 16))


def _folded(number: Column, by: int) -> Column:
    return number.bitwiseXOR(F.shiftright(number, by))


def _times(number: Column, by: int) -> Column:
    """The low 32 bits of a product of 32-bit numbers. Less 2**32 the factor has the same, and the product fits."""
    return (number * F.lit(by - 2**32)).bitwiseAND(F.lit(U32))

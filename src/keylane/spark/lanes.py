"""Number -> lane, as columns: the rules of `keylane.placement`, each equal to its Python form.

Folds of a hash, and lanes by position. Ranges of the 128-bit key space: `ranges`. One key over several lanes: `spread`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.placement.keyless import STICKY_RUN
from keylane.spark.hashes import low32, murmur2_of_long
from keylane.spark.windows import floor_divided

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from keylane.spark.calls import JavaWay

__all__ = ["fold", "keyless_lane"]


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

"""The same match by the plain definition, every request against every ping; and what differs from what was written.

Brute force takes requests times pings, and memory for the pings. Beyond what is bearable it looks at some riders, and
at some drivers, chosen by the hash of their ids: the same ones every time. That is a fair judge, for whether a pair is
one depends on nothing but its rider and its driver. With `nearest` it depends on all drivers, so then all are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from keylane.errors import DataError
from keylane.matching.brute import brute
from keylane.matching.schemas import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from keylane.pipelines.match.options import Options

__all__ = ["Verdict", "verified"]

#: Requests times pings: some seconds.
MOST_PRODUCTS: Final = 2_000_000_000
#: Pings that are held in memory at once.
MOST_PINGS: Final = 5_000_000
_KEYS: Final = ["rider", "rider_ts", "driver", "driver_ts"]

#: `verified` of the document, recall, and what is to be said of them.
Verdict = tuple[dict[str, int], float, list[str]]


def verified(
    pings: DataFrame,
    tellings: DataFrame,
    matches: DataFrame,
    counts: tuple[int, int],
    given: Options,
    expire: int | None,
) -> Verdict:
    """Hold the matches that were written against brute force; `counts` are those of pings and requests."""
    drivers = max(1, -(-counts[0] // MOST_PINGS))
    if drivers > 1 and given.nearest is not None:
        what = "too many pings to verify the nearest of them"
        raise DataError.of(what, got=counts[0], allowed=f"up to {MOST_PINGS:,}", hint="leave --nearest or --verify out")
    riders = max(1, -(-(counts[0] // drivers) * counts[1] // MOST_PRODUCTS))
    of_drivers, of_riders = _one_in("driver", drivers), _one_in("rider", riders)
    known = pings.where(of_drivers).select("driver", "ts", "offset", "lat", "lng", "available").toArrow()
    asked = tellings.where(of_riders).select("rider", "ts", "offset", "lat", "lng").toArrow()
    expected = brute(_entries(known), asked, given.radius, expire, given.nearest)
    found = _as_pairs(matches).where(of_drivers & of_riders).toArrow()
    return _compared(expected, found, _notes(riders, drivers))


def _one_in(column: str, many: int) -> Column:
    return F.lit(True) if many == 1 else F.pmod(F.xxhash64(column), F.lit(many)) == 0


def _entries(pings: pa.Table) -> pa.Table:
    kinds = (pa.scalar(int(one), pa.int8()) for one in (Kind.AVAILABLE, Kind.UNAVAILABLE))
    return pings.append_column("kind", pc.if_else(pings.column("available"), *kinds))


def _as_pairs(matches: DataFrame) -> DataFrame:
    return matches.select(
        F.col("rider_id").alias("rider"),
        F.unix_micros("rider_ts").alias("rider_ts"),
        F.col("driver_id").alias("driver"),
        F.unix_micros("driver_ts").alias("driver_ts"),
    )


def _compared(expected: pa.Table, found: pa.Table, notes: list[str]) -> Verdict:
    wanted, got = (_plain(table) for table in (expected, found))
    missing = len(wanted.join(got, _KEYS, join_type="left anti"))
    once = got.group_by(_KEYS).aggregate([])
    extra = len(once.join(wanted, _KEYS, join_type="left anti")) + len(got) - len(once)
    recall = 1.0 - missing / len(wanted) if len(wanted) else 1.0
    return {"pairs": len(wanted), "missing": missing, "extra": extra}, recall, notes


def _plain(table: pa.Table) -> pa.Table:
    kinds: list[tuple[str, Any]] = [
        ("rider", pa.string()),
        ("rider_ts", pa.int64()),
        ("driver", pa.string()),
        ("driver_ts", pa.int64()),
    ]
    return table.select(_KEYS).cast(pa.schema(kinds))


def _notes(riders: int, drivers: int) -> list[str]:
    shares = [f"1 rider in {riders:,}"] * (riders > 1) + [f"1 driver in {drivers:,}"] * (drivers > 1)
    return [f"verified on a sample: {' and '.join(shares)}, by the hash of their ids"] if shares else []

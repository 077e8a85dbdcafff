"""Matches -> offers: window after window, each driver to one rider at most, with a ledger that holds who is offered.

A window ends, its requests are assigned together, drivers that are held by an earlier offer are left out, and every
pair that is chosen becomes an offer at that moment. An offer without an answer expires. Windows are cut from
1970 on, so that the same requests fall into the same windows in every run. How pairs are chosen, what an offer is, and
why repeating it is harmless: `matching.assign`.

One window after the other, on the driver: who is free depends on all windows before. Only a window's pairs are held.
A running match does the same in its plan, in Java, with the ledger in Spark's state (`Offers.java`); `offers_of` are
the rows of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from keylane.documents.match import Offers
from keylane.matching.assign import ASSIGNMENTS, claim, empty_ledger, offer_id, offers
from keylane.matching.tables import numbers
from keylane.pipelines.match.options import MICROS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from keylane.pipelines.match.options import Options

_STAMP: Final = pa.timestamp("us", tz="UTC")
_WRITTEN: Final = pa.schema(
    [
        ("offer_id", pa.string()),
        ("rider_id", pa.string()),
        ("rider_ts", _STAMP),
        ("attempt", pa.int32()),
        ("driver_id", pa.string()),
        ("distance_m", pa.float64()),
        ("made", _STAMP),
        ("expires", _STAMP),
    ]
)


@dataclass(slots=True)
class Sums:
    """Sums of the windows so far."""

    granted: int = 0
    refused: int = 0
    metres: float = 0.0
    ledger: pa.Table = field(default_factory=empty_ledger)

    @property
    def offers(self) -> Offers:
        """As a document has them."""
        mean = self.metres / self.granted if self.granted else None
        return Offers(granted=self.granted, refused=self.refused, mean_distance_m=mean)


def assigned(matches: DataFrame, folder: Path, options: Options) -> Offers:
    """Write offers for the matches: how many, how many requests with a driver near were refused, the mean distance."""
    ordered = folder / "ordered"
    pairs = matches.select(
        F.col("rider_id").alias("rider"),
        F.unix_micros("rider_ts").alias("rider_ts"),
        F.col("driver_id").alias("driver"),
        "distance_m",
    )
    pairs.sort("rider_ts", "rider", "distance_m", "driver").write.parquet(f"file://{ordered}")
    (folder / "offers").mkdir()
    sums = Sums()
    with pq.ParquetWriter(folder / "offers" / "part-00000.parquet", _WRITTEN) as writer:
        for end, window in windows(_tables(ordered), round(options.window * MICROS)):
            writer.write_table(_window(window, end, options, sums))
    return sums.offers


def offers_of(found: pa.Table, options: Options) -> pa.Table:
    """The offers that the plan of a running match has made: rows as of matches, their moment for that of the driver."""
    asked, made = (found.column(name).cast(_STAMP).cast(pa.int64()) for name in ("rider_ts", "driver_ts"))
    riders = found.column("rider_id")
    ids = [offer_id(*one) for one in zip(riders.to_pylist(), asked.to_pylist(), strict=True)]
    columns = {
        "offer_id": pa.array(ids, pa.string()),
        "rider_id": riders,
        "rider_ts": asked,
        "attempt": found.column("rank"),
        "driver_id": found.column("driver_id"),
        "distance_m": found.column("distance_m"),
        "made": made,
        "expires": pc.add(made, round(options.offer_for * MICROS)),
    }
    return pa.table(columns).cast(_WRITTEN)


def windows(tables: Iterator[pa.Table], size: int) -> Iterator[tuple[int, pa.Table]]:
    """The pairs of each window, and the moment that it ends; tables come in the order of time."""
    held: list[pa.Table] = []
    now: int | None = None
    for table in tables:
        number = numbers(table, "rider_ts")[0] // size
        begins = np.flatnonzero(np.diff(number, prepend=number[:1] - 1))
        for start, end in zip(begins, [*begins[1:], len(table)], strict=True):
            if now is not None and number[start] != now:
                yield (now + 1) * size, pa.concat_tables(held)
                held = []
            now = int(number[start])
            held.append(table.slice(start, end - start))
    if now is not None:
        yield (now + 1) * size, pa.concat_tables(held)


def _tables(folder: Path) -> Iterator[pa.Table]:
    for path in sorted(folder.glob("part-*.parquet")):
        with pq.ParquetFile(path) as file:
            yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches() if len(batch))


def _window(pairs: pa.Table, now: int, options: Options, sums: Sums) -> pa.Table:
    live = sums.ledger.filter(pc.greater(sums.ledger.column("expires"), now))
    free = pairs.filter(pc.invert(pc.is_in(pairs.column("driver"), value_set=live.column("driver").combine_chunks())))
    chosen = ASSIGNMENTS[str(options.assign)](free)
    made = offers(chosen, now, round(options.offer_for * MICROS))
    granted, _, sums.ledger = claim(live, made, now)
    asked = len(pairs.group_by(["rider", "rider_ts"]).aggregate([]))
    sums.granted += len(granted)
    sums.refused += asked - len(granted)
    sums.metres += float(pc.sum(granted.column("distance_m")).as_py() or 0.0)
    return granted.rename_columns(
        ["offer_id", "rider_id", "rider_ts", "attempt", "driver_id", "distance_m", "made", "expires"]
    ).cast(_WRITTEN)

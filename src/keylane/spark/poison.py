"""Records without a lane: a dead letter each, or with the rest of their key, or the end of the route.

    dlq                a dead letter, and on with the next record: the key has a gap in its order
    stop               nothing of the batch is written, and the route ends with the record's position and reason
    dlq-and-park-key   a dead letter, and every later record of the same key one too, until it is released: no gap

The key of a record without a lane is its routing key, or the record's own key where there is none; a record with
neither parks nothing. Which keys a batch parks, and from which position on, is determined before it is written and
goes into its plan, so that a repeated batch parks the same keys. Only `dlq` does not read the batch once more for this.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from keylane.errors import DataError
from keylane.records import Parked, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

#: Parked keys are broadcast to every task of every batch, and each needs a person's attention.
MOST_PARKED: Final = 100_000
_KEYS: Final = {"routing": "routing_key", "record": "keylane_key"}


def refuse_any(frame: DataFrame, batch: int) -> None:
    """End the route when a record of the batch has no lane: the first, in the order of the source."""
    first = (
        frame.where(F.col("reason").isNotNull())
        .orderBy("keylane_part", "keylane_place")
        .select(F.col("keylane_source").cast("string").alias("source"), "reason")
        .limit(1)
        .collect()
    )
    if first:
        raise DataError.of(
            f"a record of batch {batch} has no lane, which ends this route; nothing of the batch was written",
            got=f"{first[0]['source']}: {first[0]['reason']}",
            hint="--on-poison dlq writes it as a dead letter and continues",
        )


def newly_parked(frame: DataFrame, before: Sequence[Parked]) -> tuple[Parked, ...]:
    """The keys that this batch parks, each from its first record without a lane on."""
    kind = F.when(F.col("routing_key").isNotNull(), F.lit("routing")).otherwise(F.lit("record"))
    poisoned = (
        frame.where(F.col("reason").isNotNull())
        .select(
            kind.alias("kind"),
            F.coalesce("routing_key", "keylane_key").alias("key"),
            F.struct("keylane_part", "keylane_place").alias("at"),
        )
        .where(F.col("key").isNotNull())
        .groupBy("kind", "key")
        .agg(F.min("at").alias("at"))
        .orderBy("kind", "key")
        .limit(MOST_PARKED + 1)
        .collect()
    )
    known = {(key.kind, key.key) for key in before}
    rows = [(row["kind"], base64.b64encode(row["key"]).decode(), *row["at"]) for row in poisoned]
    new = tuple(Parked(*row) for row in rows if row[:2] not in known)
    if len(known) + len(new) > MOST_PARKED:
        got, hint = f"{len(known) + len(new)} keys", "the contract is probably wrong; otherwise --on-poison dlq or stop"
        raise DataError.of("too many keys to park", got=got, allowed=str(MOST_PARKED), hint=hint)
    return new


def parked_away(frame: DataFrame, parked: Sequence[Parked]) -> DataFrame:
    """Give records of parked keys a reason, where they come after the record that parked it."""
    for kind in _KEYS:
        own = [key for key in parked if key.kind == kind]
        frame = _marked(frame, own, _KEYS[kind]) if own else frame
    return frame


def _marked(frame: DataFrame, parked: Sequence[Parked], column: str) -> DataFrame:
    table = pa.table(
        {
            "parked_key": [base64.b64decode(entry.key) for entry in parked],
            "parked_part": pa.array([entry.part for entry in parked], pa.int32()),
            "parked_place": pa.array([entry.place for entry in parked], pa.int64()),
        }
    )
    look_up = frame.sparkSession.createDataFrame(table)
    joined = frame.join(F.broadcast(look_up), F.col(column) == F.col("parked_key"), "left")
    part, place, at = F.col("keylane_part"), F.col("keylane_place"), F.col("parked_part")
    # Whether a record comes after the one that parked its key, in the order of the source.
    later = (part > at) | ((part == at) & (place > F.col("parked_place")))
    reason = F.when(F.col("parked_key").isNotNull() & later, F.lit(str(Reason.PARKED_KEY)))
    return joined.withColumn("reason", F.coalesce("reason", reason)).drop(*table.column_names)

"""What has no native form, over Arrow: keylane's own batch code in Spark's Python workers, never row by row.

`hashed` is one hash of one column. `placed` is the whole decision of the router, for contracts whose overrides would
make too large an expression. Both need keylane installed where the workers run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas import functions as python

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from keylane.router import Router

__all__ = ["hashed", "placed"]

#: Its stubs ask for a kind of function that it works out by itself.
arrow_udf: Final[Any] = python.arrow_udf
PLACEMENT: Final = "struct<stream string, lane int, routing_key binary, reason string>"


def hashed(name: str, keys: Column) -> Column:
    """A 32-bit hash of every key, signed; null where the key is."""

    def hash_keys(keys: pa.Array) -> pa.Array:
        from keylane.hashing import HASHES
        from keylane.hashing.batch import hash_batch

        return pa.array(
            hash_batch(HASHES[name], keys).view("int32"), mask=keys.is_null().to_numpy(zero_copy_only=False)
        )

    return arrow_udf(hash_keys, "int")(keys)


def placed(router: Router, fields: Sequence[str], columns: Sequence[Column], position: Column | None) -> Column:
    """The placement of every row as one struct; `columns` are the fields of these names."""
    contract, lanes, stream, names = router.contract, router.lane_count, router.stream, list(fields)
    # One for all batches of a task: a lane table takes a while to read.
    at_work: list[Router] = []

    def place(*given: pa.Array) -> pa.Array:
        from keylane.router import Router

        if not at_work:
            at_work.append(Router(contract, lanes=lanes, stream=stream))
        batch = pa.RecordBatch.from_arrays(list(given[: len(names)]), names=names)
        return placements(at_work[0], batch, given[len(names)] if len(given) > len(names) else None)

    return arrow_udf(place, PLACEMENT)(*columns, *([] if position is None else [position]))


def placements(router: Router, batch: pa.RecordBatch, positions: pa.Array | None) -> pa.Array:
    """The router's placements; rows without a position as if no row had one."""
    if positions is None:
        return _struct(router.placements(batch))
    known = _struct(router.placements(batch, positions.fill_null(0)))
    if not positions.null_count:
        return known
    return pc.if_else(positions.is_null(), _struct(router.placements(batch)), known)


def _struct(batch: pa.RecordBatch) -> Any:
    columns = [batch.column(0), batch.column(1), batch.column(2).cast(pa.binary()), batch.column(3)]
    return pa.StructArray.from_arrays(columns, names=batch.schema.names)
